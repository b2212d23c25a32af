"""Promises (POGs) on their way into the log: written when the numbers prove them, not before."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent import messages as m
from edge_agent.promising import PromiseSettings
from edge_agent.records import Kind
from engine.gateway.promises import KEYS_MAX, Promised, WaitingPromises
from tests.gateway.conftest import SYNC, Bench, a_data, a_hello
from tests.gateway.world import world_of

MS = 10**6


def a_promise(number: int, ts: int, next_seq: int, type_: str | None = None) -> m.Promise:
    return m.Promise(number, ts, type_, ((0, next_seq),))


def said(bench: Any, *messages: m.Message) -> list[tuple[Any, ...]]:
    """Events and POGs in the log after ``messages``, one an ms."""
    for at, message in enumerate(messages, 2):
        assert bench.say("c", message, now=at * MS) == []
    bench.core.finish(1000 * MS)
    rows = bench.log.rows("kind", "seq", "ts", "type", "arrival")
    return [(Kind(row[0]).name, *row[1:]) for row in rows if row[0] in (Kind.EVENT, Kind.POG)]


def joined(*, resend: bool = True) -> Any:
    bench = Bench()
    bench.join("c", a_hello("d", 0, resend=resend), now=0)
    bench.say("c", SYNC, now=MS)
    return bench


def test_a_promise_whose_numbers_have_come_is_written_at_once() -> None:
    rows = said(joined(), a_data(0, 1), a_promise(1, 99, 1, "A"))
    assert rows == [("EVENT", 0, 100, None, 2 * MS), ("POG", 1, 99, "A", 3 * MS)]


def test_a_promise_that_overtook_its_numbers_waits_for_them() -> None:
    bench = joined()
    rows = said(bench, a_promise(1, 102, 3, "A"), a_data(2, 1), a_data(0, 1), a_data(1, 1))
    assert [row[:2] for row in rows] == [("EVENT", 2), ("EVENT", 0), ("EVENT", 1), ("POG", 3)]
    assert rows[-1] == ("POG", 3, 102, "A", 5 * MS), "it arrives when it is proven"
    assert bench.core.counts["main", "d", "promise_waited"] == 1


def test_a_promise_of_a_source_that_does_not_resend_is_the_engines_to_judge() -> None:
    rows = said(joined(resend=False), a_promise(1, 102, 3), a_data(2, 1))
    assert [row[:2] for row in rows] == [("POG", 3), ("EVENT", 2)]


def test_the_first_and_the_newest_that_wait_are_kept() -> None:
    promises = [a_promise(n, 100 + n, n) for n in (1, 2, 3)]
    rows = said(joined(), *promises, a_data(0, 1), a_data(1, 1), a_data(2, 1))
    assert [row[:3] for row in rows if row[0] == "POG"] == [("POG", 1, 101), ("POG", 3, 103)]


def test_a_repeated_promise_is_written_once() -> None:
    bench = joined()
    early = a_promise(1, 101, 1)
    bench.say("c", early, now=2 * MS)
    bench.say("c", early, now=3 * MS)
    rows = said(bench, a_data(0, 1))
    assert [row[:2] for row in rows] == [("EVENT", 0), ("POG", 1)]


def test_refused_events_prove_a_promise_too() -> None:
    # The engine will never see them: nothing below the promise can come any more.
    wrong = m.Data(0, 0, 1, struct.pack("<q", 100), None, None, None, ())
    rows = said(joined(), a_promise(1, 101, 1), wrong)
    assert [row[:3] for row in rows] == [("POG", 1, 101)]


def test_promises_without_end_take_no_memory_without_end() -> None:
    waiting = WaitingPromises()
    kept = [waiting.wait(0, Promised(f"T{n}", 5, 1)) for n in range(KEYS_MAX + 3)]
    assert kept == [True] * KEYS_MAX + [False] * 3
    assert len(waiting.proven(0, 5)) == KEYS_MAX
    assert waiting.wait(0, Promised("T", 6, 1))


@settings(max_examples=30)
@given(
    promises=st.lists(st.tuples(st.sampled_from(["A", "B", None]), st.integers(1, 9))),
    order=st.permutations(range(1, 10)),
)
def test_waiting_promises_against_looking_at_all(
    promises: list[tuple[str | None, int]], order: list[int]
) -> None:
    waiting = WaitingPromises()
    for name, number in promises:
        assert waiting.wait(0, Promised(name, number, 10 * number))
    next_seq = 0
    for at in order:
        next_seq = max(next_seq, at)
        told = waiting.proven(0, next_seq)
        assert all(each.next_seq <= next_seq for each in told), "never too early"
    assert waiting.proven(0, 9) == []
    best = {name: max(n for of, n in promises if of == name) for name, _ in promises}
    # What is still told at the end says as much as all that was promised.
    rerun = WaitingPromises()
    for name, number in promises:
        rerun.wait(0, Promised(name, number, 10 * number))
    assert {each.type: each.next_seq for each in rerun.proven(0, 9)} == best


@pytest.mark.parametrize("by_type", [False, True])
@pytest.mark.parametrize("network", [{"whole": False}, {"breaks": 5, "delay_ns_max": 30 * MS}])
def test_every_punctuation_in_the_log_holds_where_it_stands(
    network: dict[str, Any], by_type: bool
) -> None:
    for seed in range(5):
        promises = PromiseSettings(share=0.3, by_type=by_type)
        world = world_of(seed, network, connections=3, promises=promises, heartbeat_lag_ns=0)
        for _ in range(30):
            world.run(4 * MS)
            world.emit("events", 3)
        world.settle()
        world.check()
        rows = [row for row in world.log.rows if row["stream"] == "events"]
        told = [at for at, row in enumerate(rows) if row["kind"] == Kind.POG]
        assert len(told) > 5
        assert {rows[at]["type"] for at in told} >= ({"start 0"} if by_type else {None})
        for at in told:
            later = [row for row in rows[at:] if row["kind"] == Kind.EVENT]
            assert all(row["ts"] >= rows[at]["ts"] for row in later)
            assert all(row["seq"] >= rows[at]["seq"] for row in later)
