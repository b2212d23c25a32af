"""The gateway core alone: what is recorded, stamped, acked and kept."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest

from edge_agent import messages as m
from edge_agent import ntp, wire
from edge_agent.records import Kind
from tests.gateway.conftest import SYNC, Bench, a_data, a_hello

MS = 10**6
S = 10**9


def test_a_session_is_recorded_in_arrival_order_and_acked_when_durable() -> None:
    bench = Bench()
    assert bench.join("c", a_hello(), now=5) == [m.Welcome(0, (0,))]
    said = bench.say("c", SYNC, a_data(0, 2), m.Promise(1, 99, "A", ((0, 2),)), now=7)
    said += bench.say("c", m.Begin(2, 0, 103, -8, "A"), a_data(2, 1), now=8)
    said += bench.say("c", m.Eos(3, 500, (3,)), m.Sync(4, 7, 8, 60, 3, 9), now=9)
    assert said == []
    assert bench.core.next_wake() == 7 + 200 * MS
    bench.core.wake(7 + 200 * MS)
    assert bench.answers() == [m.Ack(5, (3,))]
    names = ("kind", "seq", "ts", "arrival", "incarnation", "type", "id", "first_seq", "offset")
    assert bench.log.rows(*names) == [
        (Kind.SYNC, None, 50, 7, 1, None, None, 0, 1000),
        (Kind.EVENT, 0, 100, 7, 1, None, None, None, None),
        (Kind.EVENT, 1, 101, 7, 1, None, None, None, None),
        (Kind.POG, 2, 99, 7, 1, "A", None, None, None),
        (Kind.IBP, None, 103, 8, 1, "A", -8, None, None),
        (Kind.EVENT, 2, 102, 8, 1, None, None, None, None),
        (Kind.EOS, 3, 500, 9, 1, None, None, None, None),
        (Kind.SYNC, None, 60, 9, 1, None, None, None, 7),
    ]
    stored = bench.core.sources.get("main", "d")
    assert stored is not None
    assert (stored.offset_ns, stored.delay_ns, stored.measured_at_ns, stored.stored_at_ns) == (
        7, 8, 60, 9,
    )  # fmt: skip
    assert bench.core.next_wake() is None


def test_nothing_is_acked_before_the_sink_has_it() -> None:
    bench = Bench()
    bench.join("c", a_hello())
    bench.say("c", SYNC, a_data(0, 2))
    bench.log.fails = True
    with pytest.raises(OSError, match="disk full"):
        bench.core.finish(S)
    assert bench.answers() == []
    bench.log.fails = False
    bench.core.finish(S)
    assert bench.answers() == [m.Ack(1, (2,))]
    assert bench.log.rows("seq") == [(None,), (0,), (1,)]


def test_r19_eq_3_16_t_a_is_the_largest_delay_of_the_site() -> None:
    bench = Bench()
    for source, delay in (("a", 10), ("b", 30), ("c", None)):
        bench.join(source, a_hello(source))
        bench.say(source, m.Sync(0, None if delay is None else 0, delay, 50, 3, 9))
    assert bench.core.sources.t_a_ns("main") == 30
    assert bench.core.sources.t_a_ns("elsewhere") == 0


def test_duplicates_are_counted_refused_and_acked_again() -> None:
    bench = Bench()
    bench.join("c", a_hello())
    bench.say("c", SYNC, a_data(0, 4))
    assert bench.say("c", a_data(2, 4), SYNC) == [m.Ack(0, (0,))]
    assert bench.say("c", a_data(1, 3)) == [m.Ack(0, (0,))]
    bench.core.finish(S)
    assert bench.answers() == [m.Ack(1, (6,))]
    assert [seq for kind, seq in bench.log.rows("kind", "seq") if kind == 0] == [0, 1, 2, 3, 4, 5]
    assert bench.core.counts["main", "d", "duplicate"] == 5
    assert bench.core.counts["main", "d", "duplicate_control"] == 1
    assert bench.core.counts["main", "d", "recorded"] == 6


def test_acks_stop_at_a_gap_and_go_on_when_it_is_filled() -> None:
    bench = Bench(frame_rows=1)
    bench.join("c", a_hello())
    assert bench.say("c", SYNC) == [m.Ack(1, (0,))]
    assert bench.say("c", a_data(3, 2)) == [m.Ack(1, (0,))]
    assert bench.say("c", a_data(0, 2)) == [m.Ack(1, (2,))]
    assert bench.join("c2", a_hello()) == [m.Welcome(1, (2,))]
    assert bench.say("c2", a_data(2, 1)) == [m.Ack(1, (5,))]


def test_too_many_gaps_close_a_resending_agent_and_are_given_up_for_others() -> None:
    bench = Bench(islands_max=2)
    bench.join("c", a_hello())
    bench.say("c", SYNC, a_data(1, 1), a_data(3, 1))
    said = bench.say("c", a_data(5, 1))
    assert [each for each in said if isinstance(each, str)] == ["close c: islands_max"]
    bench.join("d", a_hello("e", resend=False))
    bench.say("d", SYNC, a_data(1, 1), a_data(3, 1), a_data(5, 1))
    bench.core.finish(S)
    assert m.Ack(1, (2,)) in bench.answers()
    assert bench.core.counts["main", "e", "given_up"] == 1


def test_wrong_content_is_kept_counted_and_acked_so_that_it_is_not_sent_for_ever() -> None:
    bench = Bench()
    bench.join("c", a_hello())
    backwards = m.Data(0, 2, 1, struct.pack("<q", 9), struct.pack("<q", 8), None, None, (None,))
    bench.say("c", SYNC, a_data(0, 2), backwards, a_data(3, 1))
    bench.core.finish(S)
    assert bench.answers() == [m.Ack(1, (4,))]
    assert [seq for kind, seq in bench.log.rows("kind", "seq") if kind == 0] == [0, 1, 3]
    assert bench.core.counts["main", "d", "te"] == bench.core.counts["main", "d", "refused"] == 1
    letter = json.loads(bench.core.dead_letters.lines[0])
    assert (letter["source"], letter["reason"], letter["rows"]) == ("d", "te", 1)
    assert base64.b64decode(letter["sample"]) == wire.encode(backwards)[:256]


def test_a_frame_of_refused_content_only_is_acked_too() -> None:
    bench = Bench()
    bench.join("c", a_hello())
    bench.say("c", m.Data(0, 0, 1, struct.pack("<q", 2**62), None, None, None, (None,)))
    bench.core.wake(200 * MS)
    assert bench.answers() == [m.Ack(0, (1,))]
    assert bench.log.frames == []
    assert bench.core.counts["main", "d", "time"] == 1


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"attrs": ()}, "attrs"),
        ({"attrs": (m.Values(b"\0", None),)}, "attrs"),
        ({"attrs": (m.Texts([], struct.pack("<i", -1)),)}, "attrs"),
        ({"types": m.Texts(["A"], struct.pack("<i", 1))}, "codes"),
        ({"types": m.Texts(["A"], struct.pack("<i", -2))}, "codes"),
        ({"types": m.Texts(["A"], struct.pack("<i", 2**31 - 1))}, "codes"),
        ({"ts": struct.pack("<q", -(2**63))}, "time"),
        ({"te": struct.pack("<q", 2**63 - 1)}, "time"),
    ],
)
def test_each_rule_of_content_has_its_reason(columns: dict[str, Any], reason: str) -> None:
    bench = Bench()
    bench.join("c", a_hello())
    plain = {"ts": bytes(8), "te": None, "ids": None, "types": None, "attrs": (None,), **columns}
    bench.say("c", m.Data(0, 0, 1, **plain))
    assert bench.core.counts["main", "d", reason] == 1


def test_silence_is_recorded_until_the_source_ends() -> None:
    bench = Bench(tick_every_ns=100 * MS, frame_every_ns=S)
    bench.core.connected("c", 0, "127.0.0.1")
    assert bench.core.next_wake() == 10 * S
    bench.say("c", a_hello())
    assert bench.core.next_wake() is None
    bench.say("c", SYNC, now=0)
    for _ in range(3):
        now = bench.core.next_wake()
        assert now is not None
        bench.core.wake(now)
    bench.say("c", a_data(0, 1), now=350 * MS)
    bench.say("c", m.Eos(1, 5, (1,)), now=360 * MS)
    while (due := bench.core.next_wake()) is not None:
        bench.core.wake(due)
    assert bench.log.rows("kind", "source", "ts", "arrival") == [
        (Kind.SYNC, "d", 50, 0),
        (Kind.TICK, None, 300 * MS, 300 * MS),
        (Kind.EVENT, "d", 100, 350 * MS),
        (Kind.EOS, "d", 5, 360 * MS),
        (Kind.TICK, None, 460 * MS, 460 * MS),
    ]


def test_ticks_end_when_everyone_left_without_a_word() -> None:
    bench = Bench(tick_every_ns=100 * MS, tick_limit_ns=S)
    bench.join("c", a_hello())
    bench.say("c", SYNC)
    bench.core.disconnected("c", 0)
    while (due := bench.core.next_wake()) is not None:
        bench.core.wake(due)
    assert bench.log.rows("arrival")[-1] == (1100 * MS,)


def test_frames_are_closed_by_rows_and_by_bytes() -> None:
    bench = Bench(frame_rows=4)
    bench.join("c", a_hello())
    bench.say("c", SYNC, a_data(0, 2), a_data(2, 5), a_data(7, 1))
    assert [frame.rows for frame in bench.log.frames] == [8]
    small = Bench(frame_bytes=1000)
    small.join("c", a_hello())
    names = [str(i) * 9 for i in range(10)]
    for i in range(3):
        codes = struct.pack("<i", 0)
        small.say("c", m.Data(0, i, 1, bytes(8), None, None, m.Texts(names, codes), (None,)))
    assert [frame.rows for frame in small.log.frames] == [3]


def test_ntp_questions_are_answered_from_the_engine_clock() -> None:
    bench = Bench()
    data = bench.core.datagram_received(ntp.request(9), 5 * S, 5 * S + 7)
    assert data is not None
    assert ntp.read_answer(data, 9, 5 * S)[:2] == (5 * S, 5 * S + 7)
    assert bench.core.datagram_received(b"?", 0, 0) is None
    assert bench.core.counts["", "", "ntp_length"] == 1
