"""Certainty of alerts, against every order in which their events may have happened."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.constraint.monitor import MonitorOperator
from tests.constraint.slow_traces import (
    FIRST,
    NOTHING,
    Seq,
    derivative,
    flow,
    letters_of,
    read,
    verdict,
)
from tests.constraint.test_monitor import FLOWS, SEQS, plan_of
from tests.pattern.conftest import Event, run


def orders(events: Sequence[Event]) -> Iterator[tuple[Event, ...]]:
    """Every order in which they may have happened."""
    for order in itertools.permutations(range(len(events))):
        fine = True
        for i, j in itertools.combinations(range(len(order)), 2):
            early, late = events[order[i]], events[order[j]]
            one_clock = early.source == late.source and early.epoch == late.epoch != -1
            swapped = order[i] > order[j]
            if swapped and (one_clock or early.ref - early.unc > late.ref + late.unc):
                fine = False
        if fine:
            yield tuple(events[place] for place in order)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("ABC"), st.integers(0, 6), st.integers(0, 4), st.sampled_from("pq"),
            st.sampled_from([-1, 0]),
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(SEQS),
    st.sampled_from(["A+, C*, B+, C, A+", "(A | B)*, C, (A | B | C)*", "(A, B?, A*) & C*"]),
)  # fmt: skip
@example([("A", 0, 0, "p", -1), ("C", 1, 5, "q", -1), ("A", 0, 5, "p", -1)], SEQS[0], FLOWS[0])
def test_what_is_confirmed_holds_in_every_order_that_clocks_allow(
    drawn: list[tuple[str, int, int, str, int]], seq: Seq, expression: str
) -> None:
    events, ref = [], 0
    for letter, step, unc, source, epoch in drawn:
        ref += step
        events.append(Event(letter, ref, unc, source, epoch, attrs={"id": 7}))
    plan = plan_of(seq, expression)
    for result in run(lambda: MonitorOperator(plan, "main"), events):
        if result["certainty"] == "confirmed":
            assert worlds(result, events, seq, expression) == {True}


def worlds(result: dict[str, Any], events: Sequence[Event], seq: Seq, expression: str) -> set[bool]:
    """In which of the orders of the events seen the result holds: some, or all."""
    letters = "".join(sorted(letters_of(flow(expression)) | seq.letters))
    seen = [event for event in events[: result["seq"] + 1] if event.type in letters]
    names = {"alert": "satisfiable", "cleared": "unsatisfiable", "violation": "broken"}
    return {
        names[result["alert"]] in told(order, seq, expression, letters) for order in orders(seen)
    }


def told(order: Sequence[Event], seq: Seq, expression: str, letters: str) -> set[str]:
    """What is known after the events in this order."""
    rest, begun = flow(expression), FIRST
    for event in order:
        rest = derivative(rest, event.type)
        begun = begun and read(seq, begun, event.type)
    if rest == NOTHING:
        return {"broken", *(() if begun else ("satisfiable",))}
    return {verdict(rest, begun, seq, letters)}


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from("ABC"), min_size=2, max_size=8),
    st.integers(0, 6),
    st.sampled_from(SEQS),
    st.sampled_from(["A+, C*, B+, C, A+", "(A | B)*, C, (A | B | C)*", "(A, B?, A*) & C*"]),
    st.sampled_from([1, 10**9]),
)
def test_with_one_pair_in_doubt_it_is_uncertain_exactly_if_the_other_order_denies_it(
    letters: list[str], place: int, seq: Seq, expression: str, scale: int
) -> None:
    pair = (place % (len(letters) - 1), place % (len(letters) - 1) + 1)
    events = [
        Event(letter, 100 * row * scale, 60 * scale if row in pair else 0, "pq"[row % 2], 0,
              attrs={"id": 7})
        for row, letter in enumerate(letters)
    ]  # fmt: skip
    plan = plan_of(seq, expression)
    for result in run(lambda: MonitorOperator(plan, "main"), events):
        sure = worlds(result, events, seq, expression) == {True}
        assert result["certainty"] == ("confirmed" if sure else "uncertain")


def test_an_alert_that_hangs_on_the_order_of_two_clocks_is_uncertain() -> None:
    plan = plan_of(Seq((("A",), ("B",)), ("",)), "(A | B)*")
    events = [
        Event("A", 10, 3, "p", attrs={"id": 1}),
        Event("B", 14, 3, "q", attrs={"id": 1}),
        Event("A", 20, 1, "p", attrs={"id": 2}),
        Event("B", 24, 1, "q", attrs={"id": 2}),
        Event("A", 30, 9, "p", 5, attrs={"id": 3}),
        Event("B", 34, 9, "p", 5, attrs={"id": 3}),  # the same clock: its error moves both
    ]
    found = run(lambda: MonitorOperator(plan, "main"), events)
    assert [(r["trace"], r["alert"], r["certainty"]) for r in found] == [
        ("1", "alert", "uncertain"),
        ("2", "alert", "confirmed"),
        ("3", "alert", "confirmed"),
    ]
