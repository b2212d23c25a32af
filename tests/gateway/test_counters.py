"""Peers that number their events as devices count: nothing is lost, only copies are duplicates."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from typing import Any

import pytest

from slackwater.edge_agent import messages as m
from slackwater.edge_agent.records import Kind
from slackwater.engine.gateway.core import Recalled
from tests.gateway.conftest import SYNC, Bench
from tests.gateway.conftest import a_hello as an_agents_hello

Event = tuple[int, int, int]
"""True number, ts, content."""


def a_hello(**changes: Any) -> m.Hello:
    return an_agents_hello(**{"capabilities": (), **changes})


def messages(events: Iterable[Event], bits: int) -> list[m.Data]:
    """One message each, numbered as a counter of ``bits`` counts."""
    return [
        m.Data(
            0, number % 2**bits, 1, struct.pack("<q", ts), None, None, None,
            (m.Values(struct.pack("<q", v), None),),
        )
        for number, ts, v in events
    ]  # fmt: skip


def recorded(bench: Bench) -> list[tuple[Any, ...]]:
    rows = bench.log.rows("kind", "seq", "ts", "attrs.v", "incarnation")
    return [row[1:] for row in rows if not row[0]]


def count(bench: Bench, reason: str) -> int:
    return bench.core.counts["main", "d", reason]


def joined(bench: Bench, connection: str = "c", **hello: Any) -> list[Any]:
    return bench.join(connection, a_hello(**hello))


def finished(bench: Bench) -> Bench:
    bench.core.finish(10**6)
    counts = {name: count(bench, name) for name in
              ("received", "recorded", "duplicate", "refused", "put_off")}  # fmt: skip
    assert counts.pop("received") == sum(counts.values())
    return bench


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("bits", [8, 16])
def test_a_counter_that_wraps_loses_nothing(bits: int, declared: bool) -> None:
    bench = Bench(seq_bits={"": bits} if declared else {})
    joined(bench, acked=0)
    first = 0 if bits == 8 else 65_400
    if first:
        bench = Bench(seq_bits={"events": bits} if declared else {})
        bench.join("c", a_hello(acked=first))
    events = [(n, 1000 * n, n % 7) for n in range(first, first + 700)]
    bench.say("c", SYNC, *messages(events, bits))
    assert recorded(finished(bench)) == [(*event, 1) for event in events]
    found = bench.core.counters._numbering.found()  # type: ignore[union-attr]
    assert [(lane.bits, lane.reused) for lane in found] == ([] if declared else [(bits, 0)])


def test_bits_of_one_sources_stream_go_before_those_of_the_stream() -> None:
    bench = Bench(seq_bits={"events": 16, "d/events": 8, "e/events": 32})
    joined(bench)
    events = [(n, 1000 * n, n % 7) for n in range(300)]
    bench.say("c", SYNC, *messages(events, 8))
    assert recorded(finished(bench)) == [(*event, 1) for event in events]


@pytest.mark.parametrize("declared", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_gateway_that_starts_again_in_the_middle_of_a_wrap(declared: bool) -> None:
    """It knows how far the counter is from its log; copies of before are copies."""
    settings = {"seq_bits": {"": 8}} if declared else {}
    events = [(n, 1000 * n, n % 7) for n in range(900)]
    sent = messages(events, 8)
    for cut in (250, 260, 508):
        before = Bench(**settings)
        joined(before)
        before.say("c", SYNC, *sent[:cut])
        finished(before)
        after = Bench(before.log, Recalled(before.log.frames), **settings)
        (welcome,) = joined(after)
        assert welcome.next_seqs == (cut,)
        after.say("c", SYNC, *sent[max(cut - 12, 0) :])
        assert recorded(finished(after)) == [(*event, 1) for event in events], cut
        assert count(after, "duplicate") == min(cut, 12)
        assert count(after, "reused") == 0


def test_a_number_again_with_other_content_is_kept() -> None:
    events = [(0, 1, 1), (1, 2, 1), (1, 3, 1), (1, 2, 5), (1, 2, 1), (1, 3, 1), (2, 4, 1)]
    for again in (False, True):
        bench = Bench()
        joined(bench)
        bench.say("c", SYNC, *messages(events, 62))
        if again:
            finished(bench)
            bench = Bench(bench.log, Recalled(bench.log.frames))
            joined(bench)
            bench.say("c", *messages(events, 62))
        assert recorded(finished(bench)) == [
            (0, 1, 1, 1), (1, 2, 1, 1), (None, 3, 1, 1), (None, 2, 5, 1), (2, 4, 1, 1),
        ]  # fmt: skip
        assert count(bench, "reused") == (0 if again else 2)
        assert count(bench, "duplicate") == (7 if again else 2)


def test_many_rows_of_one_message() -> None:
    """A message that goes over the top, and one of which some rows are used before."""
    bench = Bench(seq_bits={"": 8})
    joined(bench, acked=250)
    stamps = struct.pack("<10q", *range(10))
    bench.say("c", SYNC, m.Data(0, 250, 10, stamps, None, None, None, (m.Values(stamps, None),)))
    other = struct.pack("<4q", 8, 9, 50, 60)
    bench.say("c", m.Data(0, 2, 4, other, None, None, None, (m.Values(stamps[:32], None),)))
    found = recorded(finished(bench))
    assert [row[:2] for row in found] == [
        *((250 + n, n) for n in range(10)), (None, 8), (None, 9), (260, 50), (261, 60),
    ]  # fmt: skip


def test_a_device_that_begins_again_as_a_new_start() -> None:
    bench = Bench(seq_bits={"": 8})
    joined(bench)
    events = [(n, 1000 * n, n) for n in range(300)]
    bench.say("c", SYNC, *messages(events, 8))
    bench.core.disconnected("c", 5)
    bench.join("e", a_hello(incarnation=2), now=6)
    later = [(n, 10**6 + n, n + 1) for n in range(300)]
    bench.say("e", SYNC, *messages(later, 8))
    assert recorded(finished(bench)) == [
        *((*event, 1) for event in events), *((*event, 2) for event in later)
    ]  # fmt: skip
    assert count(bench, "reused") == 0


def test_a_start_that_says_the_same_incarnation_loses_nothing() -> None:
    """It begins at 0 again: its events are kept, without numbers."""
    bench = Bench()
    joined(bench)
    bench.say("c", SYNC, *messages([(n, n, n) for n in range(20)], 8))
    bench.core.disconnected("c", 5)
    joined(bench, "e")
    bench.say("e", *messages([(n, 100 + n, n) for n in range(25)], 8))
    found = recorded(finished(bench))
    assert [row[1] for row in found] == [*range(20), *range(100, 125)]
    assert count(bench, "reused") == 20


@pytest.mark.parametrize("declared", [True, False])
def test_promises_and_ends_name_numbers_of_the_counter(declared: bool) -> None:
    bench = Bench(seq_bits={"": 8} if declared else {})
    joined(bench)
    sent = messages([(n, 1000 * n, n) for n in range(300)], 8)
    promises = [m.Promise(1 + k, ts, None, ((0, n % 256),)) for k, (n, ts) in
                enumerate(((290, 290_000), (300, 299_000)))]  # fmt: skip
    bench.say("c", SYNC, *sent[:280], *sent[281:290], promises[0], *sent[290:])
    assert not [row for row in bench.log.rows("kind") if row[0] == Kind.POG]
    bench.say("c", sent[280], promises[1], m.Eos(3, 300_000, (44,)))
    finished(bench)
    rows = bench.log.rows("kind", "seq", "ts")
    assert [row[1:] for row in rows if row[0] == Kind.POG] == [(290, 290_000), (300, 299_000)]
    assert [row[1] for row in rows if row[0] == Kind.EOS] == [300]


def test_numbers_that_do_not_fit_are_refused() -> None:
    bench = Bench(seq_bits={"": 8})
    joined(bench)
    bench.say("c", SYNC, *messages([(256, 1, 1)], 62))
    assert not recorded(finished(bench))
    assert count(bench, "seq_bits") == 1
    assert "does not fit in 8 bits" in bench.core.dead_letters.lines[0]


def test_wrong_content_is_refused_once() -> None:
    bench = Bench()
    joined(bench)
    (good,) = messages([(0, 1, 1)], 8)
    bad = good._replace(attrs=())
    bench.say("c", SYNC, bad, bad)
    bench.say("c", *messages([(1, 2, 1)], 8))
    assert [row[0] for row in recorded(finished(bench))] == [1]
    assert (count(bench, "refused"), count(bench, "duplicate")) == (1, 1)


def test_sources_of_which_nothing_is_recorded_take_no_room() -> None:
    bench = Bench(without_tokens=True)
    (good,) = messages([(0, 1, 1)], 8)
    bad = good._replace(attrs=())
    for number in range(100):
        bench.join(f"c{number}", a_hello(source=f"s{number}"))
        bench.say(f"c{number}", bad)
        bench.core.disconnected(f"c{number}", 0)
    assert len(bench.core.counters._numbering._names) == 1  # type: ignore[union-attr]
    joined(bench)
    bench.say("c", *messages([(n, n, n) for n in range(3)], 8), *messages([(1, 9, 9)], 8))
    assert [row[:2] for row in recorded(finished(bench))] == [(0, 0), (1, 1), (2, 2), (None, 9)]
    (lane,) = bench.core.counters._numbering.found()  # type: ignore[union-attr]
    assert lane.reused == 1


def test_agents_are_believed() -> None:
    """What agents number is not looked at: the second is a copy whatever it contains."""
    bench = Bench(seq_bits={"": 8})
    joined(bench, capabilities=(m.NUMBERS,))
    bench.say("c", SYNC, *messages([(300, 1, 1), (300, 1, 2), (0, 5, 1)], 62))
    assert [row[0] for row in recorded(finished(bench))] == [300, 0]
    assert count(bench, "duplicate") == 1


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]
)
def test_any_device_any_restarts(seed: int) -> None:
    """Losses, copies, delays, other contents, and gateways that start again, against the truth."""
    rng = random.Random(seed)
    bits = rng.choice((8, 16))
    first = 0 if bits == 8 else 65_000
    declared = rng.random() < 0.5
    settings = {"seq_bits": {"": bits}} if declared else {}
    ts, sent, truth = 0, [], []
    for number in range(first, first + 900):
        ts += rng.randint(50, 100)
        if rng.random() < 0.05:
            continue
        event = (number, ts, rng.randint(0, 9))
        truth.append(event)
        sent.append((ts + rng.randint(0, 200), event))
        if rng.random() < 0.1:
            sent.append((ts + rng.randint(200, 400), event))
    sent.sort()
    bench, recalled = Bench(**settings), None
    bench.join("c", a_hello(acked=first))
    bench.say("c", SYNC)
    copies = 0
    for place, (_, event) in enumerate(sent):
        if rng.random() < 0.01:
            finished(bench)
            copies += count(bench, "duplicate")
            recalled = Recalled(bench.log.frames)
            bench = Bench(bench.log, recalled, **settings)
            bench.join("c", a_hello(acked=first))
            again = [each for _, each in sent[max(place - 3, 0) : place]]
            bench.say("c", *messages(again, bits))
        bench.say("c", *messages([event], bits))
    found = recorded(finished(bench))
    assert sorted(found) == sorted((*event, 1) for event in truth)
    assert count(bench, "reused") == 0
