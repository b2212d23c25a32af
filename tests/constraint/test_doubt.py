"""Certainty of alerts, against every order in which their events may have happened."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.clocks.epochs import UNKNOWN_EPOCH
from slackwater.engine.operators.constraint.monitor import MonitorOperator
from slackwater.engine.query.monitor_plan import MonitorSettings
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

ENDLESS = ["A+, C*, B+, C, A+", "(A | B)*, C, (A | B | C)*", "(A, B?, A*) & C*"]
ENDING = ["C | A*", "A, B", "(A | B), C?", "A, (B | C), A"]
"""Behind their end the next event begins another trace."""


def orders(events: Sequence[Event]) -> Iterator[tuple[Event, ...]]:
    """Every order in which they may have happened."""
    for order in itertools.permutations(range(len(events))):
        fine = True
        for i, j in itertools.combinations(range(len(order)), 2):
            early, late = events[order[i]], events[order[j]]
            exact = early.unc == late.unc == 0
            one_clock = early.source == late.source and early.epoch == late.epoch
            one_clock &= exact or early.epoch != -1
            swapped = order[i] > order[j]
            end = late.ref + late.long
            if swapped and (
                early.ref >= end if one_clock else early.ref - early.unc > end + late.unc
            ):
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
    st.sampled_from(ENDLESS + ENDING),
    st.booleans(),
)  # fmt: skip
@example(
    [("A", 0, 0, "p", -1), ("C", 1, 5, "q", -1), ("A", 0, 5, "p", -1)], SEQS[0], FLOWS[0], False
)
def test_what_is_confirmed_holds_in_every_order_that_clocks_allow(
    drawn: list[tuple[str, int, int, str, int]], seq: Seq, expression: str, two_keys: bool
) -> None:
    events, ref = [], 0
    for letter, step, unc, source, epoch in drawn:
        ref += step
        trace = 7 + (two_keys and len(events) % 3 == 2)
        events.append(Event(letter, ref, unc, source, epoch, attrs={"id": trace}))
    plan = plan_of(seq, expression)
    for made in (None, MonitorSettings(horizon_ns=1000)):
        for result in standing(run(lambda made=made: MonitorOperator(plan, "main", made), events)):
            if result["certainty"] == "confirmed":
                assert worlds(result, events, seq, expression) == {True}


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("ABC"), st.integers(0, 6), st.integers(0, 2), st.sampled_from("pq"),
            st.sampled_from([-1, 0, 0]), st.sampled_from([0, 0, 3, 9, 40]),
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(SEQS), st.sampled_from(ENDLESS + ENDING),
    st.lists(st.integers(0, 5), max_size=2), st.booleans(),
)  # fmt: skip
def test_what_is_confirmed_holds_in_every_order_of_intervals_that_overlap(
    drawn: list[tuple[str, int, int, str, int, int]], seq: Seq, expression: str, cuts: list[int],
    rewrites: bool,
) -> None:  # fmt: skip
    """L10 6.1: one after the other is what ends before the next begins."""
    events, ref = [], 0
    for letter, step, unc, source, epoch, long in drawn:
        ref += step
        events.append(Event(letter, ref, unc, source, epoch, attrs={"id": 7}, long=long))
    plan = plan_of(seq, expression)
    made = MonitorSettings(horizon_ns=1000 if rewrites else None)
    found = run(lambda: MonitorOperator(plan, "main", made), events)
    assert run(lambda: MonitorOperator(plan, "main", made), events, cuts) == found
    for result in standing(found):
        if result["certainty"] == "confirmed":
            assert worlds(result, events, seq, expression) == {True}


def test_intervals_that_overlap_are_in_no_order() -> None:
    def found(expression: str, *events: tuple[str, int, int]) -> list[tuple[str, int, str]]:
        plan = plan_of(Seq((("A",),), ()), expression)
        shown = [
            Event(letter, begin, source="p", epoch=0, attrs={"id": 1}, long=end - begin)
            for letter, begin, end in events
        ]
        results = run(lambda: MonitorOperator(plan, "main"), shown)
        return [(r["alert"], r["ts"], r["certainty"]) for r in results if r["alert"] != "alert"]

    one, other = ("A", 10, 50), ("B", 20, 30)
    assert found("A, B", one, other) == []  # as they begin; B first breaks it, which nobody knows
    assert found("B, A", one, other)[0] == ("violation", 10, "confirmed")
    assert found("(A & B), C", one, other) == []
    for expression in ("(A & B), C", "A, B, C"):  # in the second, B first broke it already
        found_here = found(expression, one, other, ("A", 60, 60))
        assert found_here == [("violation", 60, "confirmed")]
    touching = ("B", 50, 60)
    assert found("B, A", one, touching)[0] == ("violation", 10, "confirmed")
    assert found("A, A | B, A", one, touching) == [("violation", 50, "confirmed")]
    assert found("A, A | B, A", one, other) == [("violation", 20, "uncertain")]


@pytest.mark.parametrize("epoch", [-1, 0])
@pytest.mark.parametrize(("source", "certainty"), [("p", "confirmed"), ("q", "uncertain")])
def test_events_of_one_right_clock_at_one_instant_are_in_order(
    epoch: int, source: str, certainty: str
) -> None:
    plan = plan_of(Seq((("A",),), ()), "A, A | B, A")
    events = [
        Event("A", 10, source="p", epoch=epoch, attrs={"id": 1}),
        Event("B", 10, source=source, epoch=epoch, attrs={"id": 1}),
    ]
    found = run(lambda: MonitorOperator(plan, "main"), events)
    assert [r["certainty"] for r in found if r["alert"] == "violation"] == [certainty]


def test_a_silence_begins_where_an_interval_ends() -> None:
    plan = plan_of(Seq((("A",), ("B",)), ("",)), "A, B", timeout=10)

    def found(*events: tuple[str, int, int]) -> list[tuple[str, int | None, str]]:
        shown = [
            Event(letter, begin, source="p", epoch=0, attrs={"id": 1}, long=end - begin)
            for letter, begin, end in events
        ]
        results = run(lambda: MonitorOperator(plan, "main"), shown)
        return [(r["alert"], r["seq"], r["ts"], r["certainty"]) for r in results]

    assert found(("A", 0, 30), ("B", 40, 50)) == [("alert", 0, 0, "confirmed")]
    assert found(("A", 0, 30), ("B", 41, 50))[1] == ("violation", None, 40, "confirmed")


def worlds(result: dict[str, Any], events: Sequence[Event], seq: Seq, expression: str) -> set[bool]:
    """In which of the orders of all events the result holds, once those until its own are over:
    some, or all.
    """
    letters = "".join(sorted(letters_of(flow(expression)) | seq.letters))
    known = {id(event) for event in events[: result["seq"] + 1]}
    seen = [
        event for event in events
        if event.type in letters and str(event.attrs["id"]) == result["trace"]
    ]  # fmt: skip
    names = {"alert": "satisfiable", "cleared": "unsatisfiable", "violation": "broken"}
    found = set()
    for order in orders(seen):
        last = max(place for place, event in enumerate(order) if id(event) in known)
        found.add(names[result["alert"]] in emitted(order[: last + 1], seq, expression, letters))
    return found


def standing(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is not taken back; nothing is that was not given."""
    rest: list[dict[str, Any]] = []
    for result in results:
        said = {name: value for name, value in result.items() if name not in ("op", "at")}
        if result["op"] == "+":
            rest.append(result)
        else:
            rest.remove(next(one for one in rest if said.items() <= one.items()))
    return rest


def emitted(order: Sequence[Event], seq: Seq, expression: str, letters: str) -> set[str]:
    """What is known after the events in this order; behind the end of a trace another begins."""
    rest, begun = flow(expression), FIRST
    for event in order:
        if rest != NOTHING and all(derivative(rest, each) == NOTHING for each in letters):
            rest, begun = flow(expression), FIRST
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
    st.sampled_from(ENDLESS + ENDING),
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
    for result in standing(run(lambda: MonitorOperator(plan, "main"), events)):
        sure = worlds(result, events, seq, expression) == {True}
        assert result["certainty"] == ("confirmed" if sure else "uncertain")


@pytest.mark.parametrize("horizon", [None, 10**6])
def test_query_05_another_order_is_followed_past_the_end_of_a_trace(horizon: int | None) -> None:
    made = MonitorSettings(horizon)

    def found(expression: str, *events: tuple[str, int, int]) -> list[tuple[str, int, str]]:
        plan = plan_of(Seq((("A",),), ()), expression)
        shown = [Event(letter, ref, unc, attrs={"id": 1}) for letter, ref, unc in events]
        results = standing(run(lambda: MonitorOperator(plan, "main", made), shown))
        return [(r["alert"], r["ts"], r["certainty"]) for r in results]

    assert found("C | A*", ("A", 6, 0), ("C", 7, 2)) == [
        ("alert", 6, "confirmed"), ("violation", 7, "uncertain"),
    ]  # fmt: skip
    assert found("C | A*", ("A", 6, 0), ("C", 9, 2))[1:] == [("violation", 9, "confirmed")]
    # As they came, C ends one trace and A begins the next; else A breaks nothing, and C does.
    assert found("C, A?", ("C", 6, 0), ("A", 7, 0), ("C", 8, 2))[1:] == []
    assert found("C, A", ("C", 6, 0), ("A", 7, 0), ("A", 9, 2))[1:] == [
        ("violation", 9, "confirmed"), ("alert", 9, "confirmed"),
    ]  # fmt: skip


@given(
    st.lists(
        st.tuples(st.sampled_from("ABC"), st.integers(0, 9), st.integers(0, 2)),
        min_size=2, max_size=4,
    ),
    st.sampled_from(SEQS), st.sampled_from(ENDLESS + ENDING), st.booleans(),
    st.lists(st.integers(0, 4), max_size=2),
)  # fmt: skip
@example([("A", 0, 0), ("A", 6, 0), ("A", 0, 1)], SEQS[0], (ENDLESS + ENDING)[0], False, [])
@settings(max_examples=60)
def test_query_05_what_is_confirmed_holds_however_clocks_count_a_timeout(
    drawn: list[tuple[str, int, int]], seq: Seq, expression: str, rewrites: bool, cuts: list[int]
) -> None:
    events, ref = [], 0
    for letter, step, unc in drawn:
        ref += step
        events.append(Event(letter, ref, unc, attrs={"id": 7}))
    plan = plan_of(seq, expression, timeout=5)
    made = MonitorSettings(horizon_ns=1000 if rewrites else None)
    found = run(lambda: MonitorOperator(plan, "main", made), events)
    assert run(lambda: MonitorOperator(plan, "main", made), events, cuts) == found
    letters = "".join(sorted(letters_of(flow(expression)) | seq.letters))
    for result in standing(found):
        if result["certainty"] == "confirmed" and result["seq"] is None:
            read = [event for event in events if event.type in letters]
            last = max(n for n, event in enumerate(read) if event.ref == result["ts"] - 5)
            until = max(event.ref + event.unc for event in read[: last + 1])
            assert all(event.ref - event.unc > until + 5 for event in read[last + 1 :])
        elif result["certainty"] == "confirmed":
            seen = [event for event in events if event.type in letters]
            known = sum(event.type in letters for event in events[: result["seq"] + 1])
            name = {"alert": "satisfiable", "cleared": "unsatisfiable", "violation": "broken"}
            for errors in itertools.product(*(range(-e.unc, e.unc + 1) for e in seen)):
                times = [(e.ref + d, k) for k, (e, d) in enumerate(zip(seen, errors, strict=True))]
                until = [time for time in times if time <= max(times[:known])]
                assert name[result["alert"]] in emitted(timed_out(until, seen, 5), seq, expression,
                                                     letters)  # fmt: skip


def timed_out(
    times: list[tuple[int, int]], events: Sequence[Event], timeout: int
) -> tuple[Event, ...]:
    """The events in order of these times behind the last silence longer than ``timeout``."""
    order = sorted(times)
    begins = [n for n in range(1, len(order)) if order[n][0] - order[n - 1][0] > timeout]
    return tuple(events[k] for _, k in order[max(begins, default=0) :])


def test_query_05_a_silence_that_clocks_leave_open_is_uncertain() -> None:
    plan = plan_of(Seq((("A",), ("B",)), ("",)), "A, (B | C)", timeout=10)

    def found(gap: int, unc: int) -> list[tuple[str, str]]:
        events = [Event("A", 0, unc, attrs={"id": 1}), Event("B", gap, unc, attrs={"id": 1})]
        results = run(lambda: MonitorOperator(plan, "main"), events)
        return [(r["alert"], r["certainty"]) for r in results]

    assert found(8, 1) == [("alert", "confirmed")]
    assert found(9, 1) == [("alert", "uncertain")]
    assert found(12, 1)[0] == ("violation", "uncertain")
    assert found(13, 1)[0] == ("violation", "confirmed")
    # Found by progress alone, it is given once no clock's error can make it less.
    trace = {"id": 1}
    others = [Event("X", ref, 1, attrs={"id": 2}) for ref in (11, 12)]
    results = run(lambda: MonitorOperator(plan, "main"), [Event("A", 0, 1, attrs=trace), *others])
    assert results == []
    others.append(Event("X", 13, 0, attrs={"id": 2}))
    results = run(lambda: MonitorOperator(plan, "main"), [Event("A", 0, 1, attrs=trace), *others])
    assert [(r["alert"], r["ts"], r["certainty"], r["at"]) for r in results] == [
        ("violation", 10, "confirmed", 3)
    ]


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


@pytest.mark.parametrize("horizon", [None, 10**6])
def test_what_a_later_event_may_deny_is_taken_back(horizon: int | None) -> None:
    def found(*events: tuple[str, int, int, str, int]) -> list[tuple[str, str, str]]:
        plan = plan_of(Seq((("A",), ("B",)), ("C",)), "A, (B | C), D*")
        shown = [
            Event(letter, ref, unc, source, epoch, attrs={"id": 1})
            for letter, ref, unc, source, epoch in events
        ]
        made = MonitorSettings(horizon)
        results = run(lambda: MonitorOperator(plan, "main", made), shown, cuts=[2, 3])
        return [(r["op"], r["alert"], r["certainty"]) for r in results]

    both = (("A", 100, 0, "p", 0), ("B", 200, 5, "p", 0))
    alert = [("+", "alert", "confirmed")]
    withdrawn = [*alert, ("-", "alert", "confirmed"), ("+", "alert", "uncertain")]
    broken = ("+", "violation", "confirmed")
    assert found(*both, ("D", 300, 5, "q", 0)) == alert
    assert found(*both, ("D", 205, 5, "q", 0)) == alert  # B completes the match behind it, too
    assert found(*both, ("C", 205, 5, "q", 0)) == [*withdrawn, broken]
    assert found(*both, ("C", 211, 5, "q", 0)) == [*alert, broken]
    assert found(*both, ("C", 205, 5, "p", 0)) == [*alert, broken]  # of one clock
    unknown = ("C", 300, 0, "q", UNKNOWN_EPOCH)
    assert found(*both, unknown) == [*withdrawn, ("+", "violation", "uncertain")]
