"""``WITHIN n workdays``: matches against their definition by plain dates, and what is confirmed
against the errors that clocks allow.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import LATE
from slackwater.engine.core.units import Period, longest_workdays
from slackwater.engine.operators.match.seq import SeqMatcher
from slackwater.engine.operators.match.spill.bounds import SpillSettings
from slackwater.engine.operators.match.spill.matcher import Spilling
from slackwater.engine.query import query
from slackwater.engine.query.explain import explain
from slackwater.engine.query.joins import INDEXES
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import OrPlan, SeqPlan
from slackwater.engine.query.render import render
from tests.constraint.test_workdays import DAY, HOUR, ZONES, at, over_after
from tests.pattern.conftest import Event, run

SHAPES = [
    "A a, B b", "A a, B b, C c", "A a, !N n, B b", "!N n, A a, B b", "A a, B b, !N n", "A a, !N n",
    "!N n, A a", "A a, !N n, B b, !M m", "!M m, A a, A a2", "A a",
]  # fmt: skip
KEEP = PatternSettings(keep_late_ns=10**4 * HOUR)
Rows = tuple[int, ...]


def plan_of(pattern: str, number: int, zone: str) -> SeqPlan:
    found = query(f"EVENT SEQ({pattern}) WITHIN {number} workdays TIMEZONE '{zone}'")
    assert isinstance(found, SeqPlan)
    return found


def by_definition(pattern: str, events: Sequence[Event], number: int, zone: str) -> Iterator[Rows]:
    """Rows of the positive events of each match, of exact clocks."""
    words = pattern.split(", ")
    place = [place for place, word in enumerate(words) if word[0] != "!"]

    def of(word: str) -> list[int]:
        kind = word.strip("!")[0]
        return [row for row, event in enumerate(events) if event.type == kind]

    def in_time(begin: int, end: int) -> bool:
        return end <= over_after(begin, number, zone)

    def spoils(rows: Rows, at_word: int, ref: int) -> bool:
        refs = [events[row].ref for row in rows]
        before = [each for each, where in zip(refs, place, strict=True) if where < at_word]
        after = [each for each, where in zip(refs, place, strict=True) if where > at_word]
        if before and after:
            return before[-1] < ref < after[0]
        if before:
            return before[-1] < ref and in_time(refs[0], ref)
        return ref < after[0] and in_time(ref, refs[-1])

    for rows in itertools.product(*(of(words[each]) for each in place)):
        taken = [events[row] for row in rows]
        ordered = all(
            one.ref + one.long < two.ref for one, two in itertools.pairwise(taken)
        )  # an event ends before the next begins
        if not ordered or not all(in_time(taken[0].ref, e.ref + e.long) for e in taken):
            continue
        negated = [n for n, word in enumerate(words) if word[0] == "!"]
        if not any(spoils(rows, n, events[row].ref) for n in negated for row in of(words[n])):
            yield rows


def net(results: Sequence[dict[str, Any]]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for each in results:
        key = tuple(event["seq"] for event in each["events"]), each["certainty"]
        found[key] += 1 if each["op"] == "+" else -1
    assert set(found.values()) <= {0, 1}
    return +found


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("AABBCNM"), st.integers(0, 40), st.sampled_from([0, 0, 3, 30])),
        min_size=1, max_size=12,
    ),
    st.sampled_from(SHAPES), st.integers(1, 6), st.sampled_from(ZONES),
    st.lists(st.integers(1, 11), max_size=3),
    st.lists(st.integers(0, 300), min_size=1, max_size=6),
    # A Sunday, Friday before and after clocks go back, far before 1970.
    st.sampled_from(["1970-01-04 00:00", "2026-10-23 09:30", "1938-02-18 17:00"]),
)  # fmt: skip
@example(
    [("A", 0, 0), ("B", 40, 0), ("B", 24, 0)], "A a, B b", 1, "UTC", [], [0], "2026-10-23 0:00"
)
def test_matches_are_those_of_the_dates_in_order_or_not(
    drawn: list[tuple[str, int, int]], pattern: str, number: int, zone: str, cuts: list[int],
    late: list[int], begin: str,
) -> None:  # fmt: skip
    refs = itertools.accumulate(hours * HOUR for _, hours, _ in drawn)
    start = at(begin.replace(" 0:", " 00:"), "UTC")
    events = [
        Event(letter, start + ref, seq=row, long=long * HOUR)
        for row, ((letter, _, long), ref) in enumerate(zip(drawn, refs, strict=True))
    ]
    plan = plan_of(pattern, number, zone)
    expected = Counter((rows, "confirmed") for rows in by_definition(pattern, events, number, zone))
    assert net(run(lambda: SeqMatcher(plan, KEEP), events, cuts, end=2**62)) == expected
    order = sorted(events, key=lambda e: (e.ref + late[(e.seq or 0) % len(late)] * HOUR, e.seq))
    latest, arrived = -(2**63), list[Event]()
    for event in order:
        arrived.append(replace(event, status=LATE) if event.ref < latest else event)
        latest = max(latest, event.ref)
    assert net(run(lambda: SeqMatcher(plan, KEEP), arrived, cuts, end=2**62)) == expected


ISEQS = {
    "ISEQ[a.ts < b.ts](A a, B b)": lambda a, b: a.ref < b.ref,
    "ISEQ[a.te < b.te](A a, B b)": lambda a, b: a.ref + a.long < b.ref + b.long,
    "ISEQ[a CONTAINS b](A a, B b)": lambda a, b: a.ref < b.ref and b.ref + b.long < a.ref + a.long,
    "ISEQ[a.ts < b.ts, b.ts < n.ts](A a, B b, !N n)": lambda a, b: a.ref < b.ref,
    "ISEQ[a.ts < b.ts, n.te < a.ts](A a, B b, !N n)": lambda a, b: a.ref < b.ref,
}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("AABBN"), st.integers(0, 30), st.integers(0, 60)),
        min_size=2, max_size=10,
    ),
    st.sampled_from(sorted(ISEQS)), st.integers(1, 4), st.lists(st.integers(1, 9), max_size=2),
    st.booleans(), st.sampled_from(INDEXES),
)  # fmt: skip
@example([("A", 0, 30), ("B", 10, 1)], "ISEQ[a.ts < b.ts](A a, B b)", 1, [], True, "ibp")
def test_intervals_lie_within_workdays_from_first_start_to_last_end(
    drawn: list[tuple[str, int, int]], text: str, number: int, cuts: list[int], as_they_begin: bool,
    index: str,
) -> None:  # fmt: skip
    refs = itertools.accumulate(hours * HOUR for _, hours, _ in drawn)
    start, zone = at("2026-10-22 09:30", "UTC"), "Europe/Berlin"
    events = [
        Event(kind, start + ref, seq=row, long=long * HOUR, status=LATE)
        for row, ((kind, _, long), ref) in enumerate(zip(drawn, refs, strict=True))
    ]
    if not as_they_begin:
        events.sort(key=lambda each: each.ref + each.long)
    plan = query(f"EVENT {text} WITHIN {number} workdays TIMEZONE '{zone}'")
    assert isinstance(plan, SeqPlan)

    def near(*taken: Event) -> bool:
        end = over_after(min(each.ref for each in taken), number, zone)
        return max(each.ref + each.long for each in taken) <= end

    def spoils(n: Event, a: Event, b: Event) -> bool:
        beside = b.ref < n.ref if "b.ts < n.ts" in text else n.ref + n.long < a.ref
        return "!N" in text and beside and near(n, a, b)

    kinds = {kind: [each for each in events if each.type == kind] for kind in "ABN"}
    expected = Counter(
        ((a.seq, b.seq), "confirmed")
        for a, b in itertools.product(kinds["A"], kinds["B"])
        if ISEQS[text](a, b) and near(a, b) and not any(spoils(n, a, b) for n in kinds["N"])
    )
    made = replace(KEEP, intervals=index)
    assert net(run(lambda: SeqMatcher(plan, made), events, cuts, end=2**62)) == expected


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("AABBN"), st.integers(0, 40)), min_size=1, max_size=12),
    st.sampled_from(["A a, B b", "A a, !N n, B b", "A a, B b, !N n", "!N n, A a, B b"]),
    st.integers(1, 3), st.sets(st.integers(0, 11)), st.lists(st.integers(1, 11), max_size=2),
)  # fmt: skip
def test_what_is_spilled_matches_alike(
    drawn: list[tuple[str, int]], pattern: str, number: int, late: set[int], cuts: list[int]
) -> None:
    refs = itertools.accumulate(hours * HOUR for _, hours in drawn)
    start = at("2026-10-23 09:30", "UTC")
    events = [
        Event(kind, start + ref, seq=row)
        for row, ((kind, _), ref) in enumerate(zip(drawn, refs, strict=True))
    ]
    arrived = [event for event in events if event.seq not in late]
    arrived += [replace(event, status=LATE) for event in events if event.seq in late]
    plan, spill = plan_of(pattern, number, "Europe/Berlin"), SpillSettings(hot_ns=0, chunk_ns=DAY)
    spilled = run(lambda: Spilling(plan, KEEP).spill_to(spill), arrived, cuts, end=2**62)
    assert net(spilled) == net(run(lambda: SeqMatcher(plan, KEEP), arrived, cuts, end=2**62))


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 14 * 24), st.integers(-3, 3), st.integers(0, 8), st.integers(0, 8),
    st.integers(1, 3), st.sampled_from([-1, 5]), st.sampled_from(["A a, B b", "A a, !B b"]),
    st.sampled_from(["pairwise", "max-delay-r19"]),
)  # fmt: skip
@example(4 * 24 + 23, 0, 2, 2, 1, 5, "A a, B b", "pairwise")
def test_a_match_is_uncertain_where_errors_decide_it(
    begin: int, beyond: int, err: int, other: int, number: int, epoch: int, pattern: str, rule: str
) -> None:
    """Errors of whole hours: those that turn a deadline lie at the ends or where days begin."""
    zone = "Europe/Berlin"
    first = at("2026-06-01 00:00") + begin * HOUR
    second = over_after(first, number, zone) + beyond * HOUR
    of_one = epoch >= 0 and rule == "pairwise"
    if of_one or rule != "pairwise":
        other = err
    events = [
        Event("A", first, err * HOUR, "p", epoch),
        Event("B", second, other * HOUR, "p" if epoch >= 0 else "q", epoch),
    ]
    made = PatternSettings(certainty=rule, keep_late_ns=10**4 * HOUR)
    plan = plan_of(pattern, number, zone)
    found = net(run(lambda: SeqMatcher(plan, made), events, t_a=2 * err * HOUR, end=2**62))
    errors = range(-err, err + 1)
    pairs = (
        zip(errors, errors, strict=True)
        if of_one
        else itertools.product(errors, range(-other, other + 1))
    )
    ways = set()
    for a, b in pairs:
        there, then = first + a * HOUR, second + b * HOUR
        near = there < then <= over_after(there, number, zone)
        ways.add(near != ("!" in pattern))
    certain = {certainty for _, certainty in found}
    if "confirmed" in certain:
        assert ways == {True}
    elif "uncertain" not in certain:
        assert ways == {False}
    elif not of_one:
        assert ways == {True, False}


def test_probability_is_the_share_of_errors() -> None:
    """Half of what the clocks allow lies beyond the deadline."""
    first = at("2026-06-05 17:00")
    second = over_after(first, 2, "Europe/Berlin")
    events = [Event("A", first, 0, "p"), Event("B", second, HOUR, "q")]
    plan = plan_of("A a, B b", 2, "Europe/Berlin")
    (found,) = run(lambda: SeqMatcher(plan, KEEP), events, end=2**62)
    assert found["certainty"] == "uncertain"
    assert found["probability"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("begin", "end", "matches"),
    [
        ("2026-06-05 17:00", "2026-06-15 17:00", True),  # Friday to the second Monday after it
        ("2026-06-01 10:00", "2026-06-09 10:00", True),  # Monday to Tuesday: 8 days
        ("2026-06-01 10:00", "2026-06-09 10:01", False),
        ("2026-06-06 12:00", "2026-06-16 00:00", True),  # a Saturday counts as Monday's beginning
        ("2026-06-06 12:00", "2026-06-16 00:01", False),
    ],
)
def test_six_workdays_of_known_dates(begin: str, end: str, matches: bool) -> None:
    plan = query("EVENT SEQ(OR(A a, C c), B b) WITHIN 6 workdays TIMEZONE 'Europe/Berlin'")
    assert isinstance(plan, OrPlan)
    events = [Event("C", at(begin)), Event("B", at(end))]
    assert bool(run(lambda: SeqMatcher(plan, KEEP), events, end=2**62)) == matches


def test_of_steps_in_any_order_either_may_begin() -> None:
    plan = query("EVENT AND(A a, B b) WITHIN 1 workday")
    assert isinstance(plan, SeqPlan)
    friday, monday = at("2026-06-05 17:00", "UTC"), at("2026-06-08 17:00", "UTC")
    for one, two, matches in (
        (Event("B", friday), Event("A", monday), True),
        (Event("B", friday), Event("A", monday + 1), False),
        (Event("A", friday), Event("B", monday), True),
        (Event("A", friday, long=4 * DAY), Event("B", monday), False),  # it lasts for longer
    ):
        found = run(lambda: SeqMatcher(plan, KEEP), [one, two], end=2**62)
        assert bool(found) == matches


def test_a_plan_is_read_back_and_explained() -> None:
    for text in ("1 workday", "6 workdays TIMEZONE 'Europe/Berlin'"):
        plan = query(f"EVENT SEQ(A a, B b, !N n) WITHIN {text}")
        assert isinstance(plan, SeqPlan)
        assert plan.workdays is not None
        assert plan.workdays.zone == ("Europe/Berlin" if "'" in text else "UTC")
        assert plan.within_ns == longest_workdays(plan.workdays)
        again = query(render(plan))
        assert isinstance(again, SeqPlan)
        assert again.workdays == plan.workdays
    said = explain(plan, parse_barrier("punctuation"))
    assert "6 workdays of Europe/Berlin at most from a match's first event to its last" in said
    assert "up to 241 h, the most that 6 workdays of Europe/Berlin last" in " ".join(said.split())
    assert longest_workdays(Period(6, "workday", "UTC")) == 10 * DAY
    assert longest_workdays(Period(6, "workday", "Europe/Berlin")) == 10 * DAY + HOUR


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("SEQ(A a, B b) WITHIN 1.5 workdays", "1.5 workdays", "a whole number of workdays"),
        ("SEQ(A a, B b) WITHIN 9393 workdays", "9393 workdays", "up to 36 years"),
        ("SEQ(A a, B b) WITHIN 6 d TIMEZONE 'UTC'", "6 d", "a whole number of workdays"),
        ("SEQ(A a, B b) WITHIN 1 workday TIMEZONE 'x'", "'x'", "is not known"),
        ("SEQ(A a, B+ b[]) WITHIN 6 workdays", "6 workdays", "in a pattern that repeats"),
        ("SEQ(A a, B+ b[]) WITHIN 6 d TIMEZONE 'UTC'", "6 d", "a whole number of workdays"),
        ("SEQ(A a OVERLAP B b) WITHIN 6 workdays", "6 workdays", "in a tree of intervals"),
    ],
)
def test_what_counts_no_workdays_is_refused(text: str, marked: str, message: str) -> None:
    whole = f"EVENT {text}"
    with pytest.raises(UserError, match=message) as error:
        query(whole)
    line = str(error.value).splitlines()[2]
    assert line.index("^") - 2 == whole.index(marked)
    assert line.count("^") == len(marked)


def test_a_join_counts_none() -> None:
    with pytest.raises(UserError, match="WITHIN counts no workdays in a join"):
        query("SELECT * FROM x JOIN y ON x.id = y.id WITHIN 6 workdays")
