"""What a gateway records, stamps, acks and keeps; who gets in, and what it refuses."""

from __future__ import annotations

import base64
import json
import struct
from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import ntp, wire
from slackwater.edge_agent.records import Kind
from slackwater.engine.gateway.core import CloseConnection
from slackwater.engine.gateway.outputs import DeadLetters
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
    assert bench.core.next_wake() is None


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


def closes(said: list[Any]) -> tuple[bool | None, list[str]]:
    """Whether the peer may try again, and what was closed."""
    errors = [each for each in said if isinstance(each, m.ErrorMessage)]
    return errors[0].retry if errors else None, [each for each in said if isinstance(each, str)]


TOKEN = "correct-horse-battery"


def hurt_hello(draw: Random) -> bytes:
    """A HELLO that another field, fewer or more of them, or other bytes make wrong."""
    body = msgpack.unpackb(wire.encode(a_hello(token=TOKEN))[4:])
    match draw.randint(0, 4):
        case 0:
            body[draw.randrange(1, len(body))] = None
        case 1:
            body = body[: draw.randrange(5, len(body))]
        case 2:
            body += [TOKEN]
        case 3:
            body = [body[0], TOKEN, *body[2:]]
        case _:
            made = bytearray(msgpack.packb(body))
            for _ in range(draw.randint(1, 4)):
                made[draw.randrange(len(made))] = draw.randrange(256)
            return len(made).to_bytes(4, "big") + bytes(made)
    made_whole = msgpack.packb(body)
    return len(made_whole).to_bytes(4, "big") + made_whole


@given(seed=st.integers(0, 2**32), admitted=st.booleans(), cut=st.integers(0, 40))
def test_no_refused_message_keeps_a_token(seed: int, admitted: bool, cut: int) -> None:
    """A HELLO of which something is wrong has a valid token all the same."""
    random = Random(seed)
    bench = Bench(tokens={("main", "d"): TOKEN})
    bench.core.connected("c", 0, "127.0.0.1")
    if admitted:
        assert bench.say("c", a_hello(token=TOKEN)) == [m.Welcome(0, (0,))]
    message = hurt_hello(random)
    bench.core.received("c", message[: len(message) - random.choice([0, cut])], 0)
    bench.core.received("c", b"\0\0\0\1\xc1", 0)
    bench.core.disconnected("c", 0)
    for line in bench.core.dead_letters.lines:
        letter = json.loads(line)
        assert TOKEN.encode() not in base64.b64decode(letter.pop("sample"))
        assert TOKEN not in json.dumps(letter)


def test_tokens_are_checked_and_an_unknown_name_is_reported_no_more() -> None:
    bench = Bench(tokens={("main", "d"): "secret"})
    assert closes(bench.join("c", a_hello())) == (False, ["close c: token"])
    assert closes(bench.join("e", a_hello("x", token="secret"))) == (False, ["close e: token"])
    assert bench.join("f", a_hello(token="secret")) == [m.Welcome(0, (0,))]
    assert bench.core.counts["", "", "token"] == 2
    bench.core.received("c", b"late", 0)
    assert bench.core.counts["", "", "closed_connection"] == 1


def test_a_second_device_under_one_name_is_refused_while_the_first_is_alive() -> None:
    bench = Bench(takeover_ns=5 * S)
    bench.join("c", a_hello())
    retry, closed = closes(bench.join("x", a_hello(incarnation=2), now=4 * S))
    assert (retry, closed) == (True, ["close x: duplicate_source"])
    said = bench.join("y", a_hello(incarnation=2), now=6 * S)
    assert closes(said) == (False, ["close c: superseded"])
    assert m.Welcome(0, (0,)) in said
    retry, closed = closes(bench.join("z", a_hello(incarnation=1), now=7 * S))
    assert (retry, closed) == (True, ["close z: stale_incarnation"])


def test_a_gateway_that_forgot_goes_on_where_the_agent_was_acked() -> None:
    bench = Bench()
    assert bench.join("c", a_hello(acked=7, control_acked=3)) == [m.Welcome(3, (7,))]
    bench.say("c", a_data(7, 1))
    bench.core.finish(S)
    assert bench.answers() == [m.Ack(3, (8,))]
    # No sync report came in its time: the numbers are announced without an offset.
    assert bench.log.rows("kind", "seq", "first_seq", "offset") == [
        (3, None, 7, None),
        (0, 7, None, None),
    ]


def test_schemas_must_agree() -> None:
    bench = Bench()
    bench.join("c", a_hello())
    other = (m.HelloStream(m.StreamSchema("events", {"v": "str"}), 0, 0),)
    assert closes(bench.join("x", a_hello(streams=other))) == (False, ["close x: schema"])
    said = bench.join("y", a_hello("e", streams=other))
    assert closes(said) == (False, ["close y: attr_type"])
    assert said[0].detail == "attribute v is str here and int elsewhere at the site"
    many = m.StreamSchema("events", {f"a{i}": "int" for i in range(256)})
    for i in range(4):
        streams = (
            m.HelloStream(m.StreamSchema("s", {f"{i}_{n}": "int" for n in many.attrs}), 0, 0),
        )
        closed = closes(bench.join(f"m{i}", a_hello(f"m{i}", streams=streams)))[1]
    assert closed == ["close m3: attrs_max"]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ((a_data(0, 1),), "no_hello"),
        ((m.Ack(0, ()),), "no_hello"),
        ((a_hello(), a_hello()), "hello_twice"),
        ((a_hello(), m.Ack(0, (0,))), "direction"),
        ((a_hello(), m.Data(1, 0, 1, bytes(8), None, None, None, ())), "stream"),
        ((a_hello(), m.Promise(0, 1, None, ((1, 0),))), "stream"),
        ((a_hello(), m.Begin(0, 1, 0, 0, "A")), "stream"),
        ((a_hello(), m.Eos(0, 0, (1, 2))), "numbers"),
    ],
)
def test_a_peer_that_breaks_the_order_is_closed(sent: tuple[m.Message, ...], reason: str) -> None:
    bench = Bench()
    bench.core.connected("c", 0, "127.0.0.1")
    assert closes(bench.say("c", *sent)) == (True, [f"close c: {reason}"])
    assert sum(count for (_, _, key), count in bench.core.counts.items() if key == reason) == 1
    assert bench.core.dead_letters.kept == 1


def test_limits_on_connections_and_sources() -> None:
    bench = Bench(connections_max=2, connections_per_source=1, sources_max=1, hello_timeout_ns=S)
    bench.join("a", a_hello(), now=0)
    assert closes(bench.join("b", a_hello(), now=1)) == (True, ["close a: replaced"])
    bench.core.connected("x", 2, "127.0.0.1")
    bench.core.connected("y", 3, "127.0.0.1")
    assert closes(bench.answers()) == (True, ["close y: connections_max"])
    assert bench.core.next_wake() is not None
    bench.core.wake(2 + S)
    assert closes(bench.answers()) == (True, ["close x: hello_timeout"])
    assert closes(bench.join("z", a_hello("other"), now=2 * S)) == (True, ["close z: sources_max"])


def test_dead_letters_are_bounded_and_what_exceeds_is_counted() -> None:
    letters = DeadLetters(bytes_max=400)
    for i in range(5):
        letters.add(i, ("s", "d", "c"), "why", "", b"x")
    assert (letters.kept, letters.dropped, len(letters.lines)) == (3, 2, 3)


PEER_MESSAGES: st.SearchStrategy[m.Message] = st.one_of(
    st.builds(a_hello, st.sampled_from("de"), st.integers(0, 2), st.integers(0, 3)),
    st.builds(a_data, st.integers(0, 30), st.integers(1, 5)),
    st.builds(m.Sync, st.integers(0, 9), st.none(), st.none(), SEQ := st.integers(0, 99), SEQ, SEQ),
    st.builds(m.Promise, st.integers(0, 9), SEQ, st.none(), st.just(((0, 3),))),
    st.builds(m.Eos, st.integers(0, 9), SEQ, st.just((5,))),
    st.builds(m.Begin, st.integers(0, 9), st.integers(0, 1), SEQ, SEQ, st.just("A")),
    st.just(m.Ack(0, (0,))),
)

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "say", "bytes", "connect", "leave", "wake", "ask"]),
        st.integers(0, 3),
        PEER_MESSAGES,
        st.binary(max_size=20),
    ),
    max_size=40,
)


@settings(max_examples=40)
@given(steps=STEPS)
def test_nothing_a_peer_sends_crashes_or_bloats_the_gateway(
    steps: list[tuple[str, int, m.Message, bytes]],
) -> None:
    bench = Bench(connections_max=3, sources_max=2, islands_max=2, tick_every_ns=MS)
    core, open_, now, uses = bench.core, dict[int, str](), 0, 0
    for step, slot, message, noise in steps:
        now += MS // 3
        if step == "connect" and slot not in open_:
            uses += 1
            open_[slot] = f"{slot}/{uses}"
            core.connected(open_[slot], now, "127.0.0.1")
        elif step == "leave" and slot in open_:
            core.disconnected(open_.pop(slot), now)
        elif step in ("say", "bytes") and slot in open_:
            core.received(open_[slot], wire.encode(message) if step == "say" else noise, now)
        elif step == "ask":
            core.datagram_received(noise, now, now)
        elif step == "wake":
            core.wake(now)
        for output in core.outputs():
            assert output.connection in open_.values()
            if isinstance(output, CloseConnection):
                open_ = {k: name for k, name in open_.items() if name != output.connection}
        assert len(core._peers) <= 3
        assert set(core._peers) == set(open_.values())
    core.finish(now)
    rows = bench.log.rows("arrival", "kind", "source", "incarnation", "seq")
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    numbered = [(source, inc or 0, seq) for _, kind, source, inc, seq in rows if not kind]
    assert len(numbered) == len(set(numbered))
    recorded = sum(n for (_, _, reason), n in core.counts.items() if reason == "recorded")
    assert recorded == len(numbered)
