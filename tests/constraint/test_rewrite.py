"""Late events: what is left of `+` and `-` is what the events in order give, whatever came when."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import IN_ORDER, LATE_DROPPED, RESIDUAL, Strings
from slackwater.engine.hosts.chain.state_bytes import to_bytes
from slackwater.engine.operators.constraint.monitor import MonitorOperator
from slackwater.engine.query import query
from slackwater.engine.query.monitor_plan import MonitorPlan, MonitorSettings
from tests.constraint.slow_traces import Seq
from tests.constraint.test_monitor import FLOWS, SEQS
from tests.pattern.conftest import Event, batch, run


def plan_of(seq: Seq, flow: str, timeout: int | None = None) -> MonitorPlan:
    given = "" if timeout is None else f"TIMEOUT {timeout} ns "
    found = query(f"{seq.text()} UNDER CONSTRAINT flow FOR TRACE BY id {given}AS {flow}")
    assert isinstance(found, MonitorPlan)
    return found


def as_released(events: Sequence[Event]) -> list[Event]:
    """With what an order ``none`` says of each."""
    clock, found = -(2**62), []
    for event in events:
        status = IN_ORDER if event.ref >= clock else RESIDUAL
        clock = max(clock, event.ref)
        found.append(replace(event, status=status if event.status == IN_ORDER else event.status))
    return found


def net(results: Sequence[dict[str, Any]]) -> Counter[str]:
    """What is emitted and not taken back; nothing is taken back that was not emitted."""
    left: Counter[str] = Counter()
    changed = set()
    for result in results:
        content = {name: value for name, value in result.items() if name not in ("op", "at")}
        left[json.dumps(content)] += 1 if result["op"] == "+" else -1
        changed.add((result["at"], json.dumps(content)))
        assert min(left.values()) >= 0
    assert len(changed) == len(results), "what is emitted again is not retracted first"
    return +left


DRAWN = st.lists(st.tuples(st.sampled_from("ABCX"), st.sampled_from([1, 2, 3])), max_size=24)


def events_of(
    drawn: list[tuple[str, int]], gaps: Sequence[int], shuffle: Sequence[int]
) -> list[Event]:
    """In the order in which they come; ``seq`` counts them in order of time."""
    ref, made = 0, []
    for row, (letter, trace) in enumerate(drawn):
        ref += gaps[row % len(gaps)] if gaps else 10
        made.append(Event(letter, ref, attrs={"id": trace}, seq=row, source="pq"[row % 2]))
    late = [shuffle[row % len(shuffle)] if shuffle else 0 for row in range(len(made))]
    order = sorted(range(len(made)), key=lambda row: (made[row].ref + late[row], row))
    return as_released([made[row] for row in order])


@settings(max_examples=25)
@given(
    DRAWN,
    st.lists(st.integers(1, 40), max_size=5),
    st.lists(st.integers(0, 200), max_size=7),
    st.sampled_from(SEQS),
    st.sampled_from(FLOWS),
    st.sampled_from([None, 15, 60]),
    st.sampled_from([0, 30, 10_000]),
    st.lists(st.integers(0, 24)),
)
def test_what_is_left_is_what_the_events_in_order_give(
    drawn: list[tuple[str, int]], gaps: list[int], shuffle: list[int], seq: Seq, flow: str,
    timeout: int | None, horizon: int, cuts: list[int],
) -> None:  # fmt: skip
    plan = plan_of(seq, flow, timeout)
    events = events_of(drawn, gaps, shuffle)
    clock, counted = -(10**9), []
    for event in events:
        if event.ref >= clock - horizon:
            counted.append(event)
        clock = max(clock, event.ref)
    kept = MonitorSettings(horizon)
    found = run(lambda: MonitorOperator(plan, "main", kept), events, cuts)
    assert found == run(lambda: MonitorOperator(plan, "main", kept), events, range(len(events)))
    assert found == run(lambda: MonitorOperator(plan, "main", kept), events)
    # At the end the clock stands where it stood, whatever was counted of its last event.
    in_order = sorted(counted, key=lambda event: event.ref)
    plain = [replace(event, status=IN_ORDER) for event in in_order]
    assert net(found) == net(run(lambda: MonitorOperator(plan, "main"), plain))


def test_a_late_event_takes_back_what_it_changes_alone() -> None:
    plan = plan_of(Seq((("A",), ("B",)), ("",)), "A+, (B | C), D*")
    events = as_released([
        Event("A", 10, attrs={"id": 1}),
        Event("C", 30, attrs={"id": 1}),
        Event("B", 20, attrs={"id": 1}),
        Event("D", 15, attrs={"id": 1}),
        Event("C", 40, attrs={"id": 1}),
    ])  # fmt: skip
    found = run(lambda: MonitorOperator(plan, "main", MonitorSettings(100)), events)
    emitted = [(r["at"], r["op"], r["alert"], r["seq"], len(r["so_far"])) for r in found]
    assert emitted == [
        (1, "+", "cleared", 1, 1),
        (2, "-", "cleared", 1, 1),  # B came between A and C
        (2, "+", "alert", 2, 2),
        (2, "+", "violation", 1, 2),
        (3, "-", "violation", 1, 2),  # D is not allowed before B, so C breaks nothing any more
        (3, "+", "violation", 3, 1),
    ]


def test_events_behind_the_horizon_are_counted_and_memory_is_bounded() -> None:
    plan = plan_of(Seq((("A",), ("B",)), ("",)), "(A | B)*, C")
    operator, strings = MonitorOperator(plan, "main", MonitorSettings(1_000)), Strings()
    for lot in range(50):
        events = as_released([
            Event("AB"[row % 2], 100 * row + 10_000 * lot, attrs={"id": row % 10})
            for row in range(100)
        ])  # fmt: skip
        operator.process(batch(events, strings, 0, len(events)))
    late = [Event("A", 480_000, attrs={"id": 1}, status=RESIDUAL)]
    operator.process(batch(late, strings, 0, 1))
    assert operator.counters()["beyond_horizon"] == 1
    assert len(operator.snapshot()["store"]["nodes"]) < 400
    assert len(to_bytes(operator.snapshot())) < 60_000


def test_what_an_order_dropped_rewrites_with_a_horizon_alone() -> None:
    plan = plan_of(Seq((("A",), ("B",)), ("",)), "A, C?, B")
    late = [Event("A", 10, attrs={"id": 1}), Event("B", 30, attrs={"id": 1}),
            Event("C", 20, attrs={"id": 1}, status=LATE_DROPPED)]  # fmt: skip
    assert MonitorOperator(plan, "main").types == ("A", "C", "B")
    assert MonitorOperator(plan, "main", MonitorSettings(100)).types is None
    for horizon, counted in ((None, 1), (100, 0)):
        operator = MonitorOperator(plan, "main", MonitorSettings(horizon))
        operator.process(batch(late, Strings(), 0, 3))
        assert operator.counters()["late_dropped"] == counted


@pytest.mark.parametrize("horizon", [None, 1_000])
def test_a_trace_of_which_nothing_came_in_time_is_over(horizon: int | None) -> None:
    plan = plan_of(Seq((("A",), ("B",)), ("",)), "A, C*, B?", 50)
    events = [
        Event("A", 0, seq=0, attrs={"id": 1}), Event("A", 10, seq=1, attrs={"id": 2}),
        Event("B", 20, seq=2, attrs={"id": 2}), Event("A", 51, seq=3, attrs={"id": 3}),
        Event("B", 60, seq=4, attrs={"id": 1}), Event("A", 111, seq=5, attrs={"id": 9}),
    ]  # fmt: skip
    found = run(lambda: MonitorOperator(plan, "main", MonitorSettings(horizon)), events)
    emitted = [(r["at"], r["alert"], r["trace"], r["type"], r["ts"]) for r in found]
    assert emitted == [
        (2, "alert", "2", "B", 20),
        (3, "cleared", "1", None, 50),  # the clock passed 50 with the event of trace 3
        (4, "violation", "1", "B", 60),
        (5, "cleared", "3", None, 101),
    ]
    assert found[1]["so_far"] == [{"type": "A", "source": "s0", "seq": 0, "ts": 0}]


def test_a_trace_that_may_not_end_where_it_stops_is_a_violation() -> None:
    plan = plan_of(Seq((("A",), ("B",)), ("",)), "A, (B | C), D", 50)
    events = [Event("A", 0, attrs={"id": 1}), Event("A", 100, attrs={"id": 2})]
    found = run(lambda: MonitorOperator(plan, "main"), events)
    assert [(r["alert"], r["allowed"], r["type"], r["seq"]) for r in found] == [
        ("violation", "B, C", None, None)
    ]
    assert np.array_equal([r["ts"] for r in found], [50])


@pytest.mark.parametrize("seed", range(12))
def test_late_events_of_long_streams(seed: int) -> None:
    chance = random.Random(seed)
    drawn = [(chance.choice("ABCX"), chance.choice([1, 2, 3])) for _ in range(40)]
    gaps = [chance.randint(1, 15) for _ in range(40)]
    late = [chance.choice([0, 0, chance.randint(0, 200)]) for _ in range(40)]
    plan = plan_of(chance.choice(SEQS), chance.choice(FLOWS), chance.choice([15, 60]))
    events = events_of(drawn, gaps, late)
    found = run(lambda: MonitorOperator(plan, "main", MonitorSettings(10_000)), events, [7, 20])
    in_order = sorted(events, key=lambda event: event.ref)
    plain = [replace(event, status=IN_ORDER) for event in in_order]
    assert net(found) == net(run(lambda: MonitorOperator(plan, "main"), plain))
