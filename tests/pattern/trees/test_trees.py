"""SEQ/PAL trees by definition: whole intervals against every combination, halves after each record,
clocks that err against every order that they allow (SPEC 4.3, Z10 5.2, 5.3.2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.query.interval_relations import representation
from slackwater.engine.query.joins import JOINS
from slackwater.engine.query.pattern_settings import PatternSettings
from tests.pattern.trees.by_clocks import CombinationFacts, judged
from tests.pattern.trees.definition import Record, Tree, Where, by_definition
from tests.pattern.trees.drawn import Drawn, torn, trees
from tests.pattern.trees.five_counts import end_points
from tests.pattern.trees.known_halves import Key, known_after
from tests.pattern.trees.known_halves import standing as standing_of_halves
from tests.pattern.trees.runs import Run

KEEP = 10**6


# ---- whole intervals --------------------------------------------------------------------------


def standing(results: list[dict[str, Any]]) -> dict[tuple[int, ...], tuple[str, float]]:
    """Certainty and probability of what stands in the end; what is taken back was given so."""
    found: dict[tuple[int, ...], tuple[str, float]] = {}
    for result in results:
        rows = tuple(event["seq"] for event in result["events"])
        emitted = result["certainty"], result["probability"]
        if result["op"] == "+":
            assert rows not in found, "a combination is emitted twice"
            found[rows] = emitted
        else:
            assert found.pop(rows) == emitted
    return found


@given(
    trees(where=True), st.lists(st.integers(0, 12), max_size=2), st.sampled_from(JOINS)
)  # fmt: skip
@settings(max_examples=25)
def test_trees_mean_what_is_defined(drawn: Drawn, cuts: list[int], joins: str) -> None:
    """Relations, alternatives, negated steps, conditions; ties, lengths of 0, any order of arrival,
    batches with restarts between them, every plan (Z10 4.1.2).
    """
    tree, records = drawn
    results = Run(tree.text, settings=PatternSettings(keep_late_ns=KEEP, joins=joins))
    found = results.over(records, cuts)
    assert standing(found).keys() == by_definition(tree, records)
    assert found == Run(tree.text).over(records)


@pytest.mark.parametrize(("clock", "kept"), [(15, True), (16, False)])
def test_k_islack_keeps_an_event_until_the_largest_end_is_beyond_it(clock: int, kept: bool) -> None:
    """Z10 5.3.1: purged when starttime + W + K < CLOCK, the largest end time yet."""
    settings = PatternSettings(purge="slack", slack_ns=5)
    run = Run("EVENT SEQ(A a BEFORE B b) WITHIN 10", settings=settings)
    records = [Record("A", 1, 0, 1), Record("C", 2, 3, clock), Record("B", 3, 5, 6)]
    assert bool(run.over(records)) == kept


def test_k_islack_bounds_what_is_held_also_of_halves_that_stay_alone() -> None:
    settings = PatternSettings(purge="slack", slack_ns=5)
    run = Run("EVENT SEQ(A a BEFORE B b) WITHIN 10", settings=settings)
    halves = ["whole", "start", "end"]
    records = [Record("AB"[n % 2], n, n, n + 3, halves[n % 3]) for n in range(600)]
    run.over(records, range(0, 600, 20))
    assert run.counters["buffered_max"] < 100
    assert run.counters["halves_waiting"] < 60


# ---- clocks that err --------------------------------------------------------------------------
FINER = 4
"""Times are multiples of it, errors are not: so a few strict orders in a row fit between."""


def finer(drawn: Drawn) -> Drawn:
    """The same with all times but the clocks' errors on a coarser grid than theirs."""

    def longer(where: Where) -> Where:
        if where[0] == "either":
            return ("either", *map(longer, where[1:]))
        return (*where[:3], FINER * where[3]) if where[0] == "apart" else where

    tree, records = drawn
    return Tree(tree.node, FINER * tree.within, tuple(map(longer, tree.where))), [
        replace(r, start=FINER * r.start, end=FINER * r.end, unc=FINER * r.unc) for r in records
    ]


def as_known(known: CombinationFacts | None, certainty: str, chance: float) -> bool:
    """Certain order by order: confirmed. Confirmed: certain. None: impossible, where a negated step
    begins after the first of several: the plan asks this of the one that the others follow, whose
    order may be open where that of a later one is sure. It is uncertain then, with no chance.
    """
    if known is None:
        return certainty == "uncertain" and chance == 0
    return (known.singly < 2 or certainty == "confirmed") and (
        known.certain or certainty == "uncertain"
    )


NOT_AFTER_THE_FIRST = [
    Record("A", 0, 4, 4, unc=1, source="y", epoch=0), Record("A", 1, 4, 6, source="x", epoch=0),
    Record("B", 2, 8, 8, source="x", epoch=0), Record("N", 3, 6, 6, unc=1, source="x"),
]  # fmt: skip
FIRST_OF_TWO = Tree(
    ("SEQ", [("SEQ", ["a1", "a2"], ["BEFORE"]), "!n3", "b4"], [",", "BEFORE"]), 4
)  # fmt: skip


@settings(max_examples=20)
@example((FIRST_OF_TWO, NOT_AFTER_THE_FIRST), None, [], "cost")
@given(
    trees(steps=3, noise=4, where=True, clocks=True),
    st.sampled_from([None, None, 2, 4]),
    st.lists(st.integers(0, 8), max_size=2),
    st.sampled_from(JOINS),
)
def test_no_order_that_clocks_allow_is_missed_and_none_confirmed_wrongly(
    drawn: Drawn, t_a: int | None, cuts: list[int], joins: str
) -> None:
    """What some errors make a match is emitted; what is confirmed is one under all. Order by order:
    what comes is possible, and what is certain is confirmed. By the pairs' own uncertainties and
    by R19's rule; in any batches, with restarts between them, and with every plan.
    """
    tree, records = finer(drawn)
    rule = "pairwise" if t_a is None else "max-delay-r19"
    settings = PatternSettings(rule, keep_late_ns=KEEP, joins=joins)
    most = None if t_a is None else FINER * t_a
    results = Run(tree.text, settings=settings, t_a=most or 0).over(records, cuts)
    whole = Run(tree.text, settings=replace(settings, joins="cost"), t_a=most or 0)
    assert results == whole.over(records)
    emitted, known = standing(results), judged(tree, records, most)
    assert {rows for rows, each in known.items() if each.possible} <= emitted.keys()
    for rows, (certainty, chance) in emitted.items():
        assert as_known(known.get(rows), certainty, chance), rows
        # 1024 points here and 6000 there; events of a negated step that share a clock count as
        # independent of one another (docs/design.md).
        if rows in known:
            assert abs(chance - known[rows].chance) < 0.1, (rows, known[rows], chance)


# ---- halves of intervals ----------------------------------------------------------------------


def shown(result: dict[str, Any], records: list[Record]) -> tuple[Key, ...]:
    """The intervals of a match; checks that nothing is emitted that is not known."""
    found = []
    for event in result["events"]:
        record = records[event["seq"]]
        assert event["type"] == record.type
        assert event["attrs"] == {}
        if event["te"] is None:
            assert record.half == "start"
            assert event["ts"] == event["ref"] == record.start
        elif event["ts"] is None:
            assert record.half == "end"
            assert (event["te"], event["ref"]) == (record.end, None)
        else:
            assert (event["ts"], event["te"]) == (record.start, record.end)
        found.append((record.source, record.type, record.id))
    return tuple(found)


TWICE = [Record("A", 1, 0, 3, half) for half in ("start", "start")]
PARALLEL = Tree(("PAL", ["a0", "b1"], [","]), 20)


@settings(max_examples=25)
@example((PARALLEL, [*TWICE, Record("B", 2, 1, 4)]), [])
@example((PARALLEL, [TWICE[0], Record("B", 2, 1, 4), TWICE[1]]), [1, 2])
@given(torn(), st.lists(st.integers(0, 9), max_size=2))
def test_after_each_record_what_is_known_stands(drawn: Drawn, cuts: list[int]) -> None:
    """What has been given and not taken back; in any batches, with restarts between them."""
    tree, records = drawn
    run = Run(tree.text)
    results = run.over(records, cuts)
    now: set[tuple[Key, ...]] = set()
    for number in range(len(records)):
        for result in [each for each in results if each["at"] == number]:
            match = shown(result, records)
            assert (match in now) == (result["op"] == "-"), result
            (now.remove if result["op"] == "-" else now.add)(match)
        assert now == standing_of_halves(tree, records[: number + 1]), number
    assert results == Run(run.text).over(records)


def intervals_known(records: list[Record]) -> dict[Key, Record]:
    """What is known of each interval after some records: all of it, or a half."""
    forms = {(True, True): "whole", (True, False): "start", (False, True): "end"}
    found = {}
    for record in reversed(records):
        key = record.source, record.type, record.id
        start, end = known_after(records)[key]
        found[key] = replace(record, half=forms[start is not None, end is not None])
    return found


def known_of(drawn: Drawn, t_a: int | None) -> dict[tuple[Key, ...], CombinationFacts]:
    """Every combination of intervals that is a match order by order."""
    tree, records = drawn
    of = intervals_known(records)
    keys = list(of)
    found = judged(tree, list(of.values()), t_a)
    return {tuple(keys[row] for row in rows): each for rows, each in found.items()}


@given(
    torn(steps=3, noise=2, clocks=True),
    st.sampled_from([None, None, 2, 4]),
    st.lists(st.integers(0, 9), max_size=2),
    st.sampled_from(JOINS),
)
@settings(max_examples=15)
def test_after_each_record_no_placement_of_the_errors_is_missed(
    drawn: Drawn, t_a: int | None, cuts: list[int], joins: str
) -> None:
    """What some errors make a match of what is known then is emitted and not taken back; what is
    confirmed is one under all. Order by order: what is emitted is possible, and what is certain is
    confirmed.
    """
    tree, records = finer(drawn)
    rule = "pairwise" if t_a is None else "max-delay-r19"
    settings_ = PatternSettings(rule, keep_late_ns=KEEP, joins=joins)
    most = None if t_a is None else 4 * t_a
    results = Run(tree.text, settings=settings_, t_a=most or 0).over(records, cuts)
    emitted: dict[tuple[Key, ...], tuple[str, float]] = {}
    for number in range(len(records)):
        for result in [each for each in results if each["at"] == number]:
            match = shown(result, records)
            assert (match in emitted) == (result["op"] == "-"), result
            judged_so = result["certainty"], result["probability"]
            if result["op"] == "+":
                emitted[match] = judged_so
            else:
                assert emitted.pop(match) == judged_so
        known = known_of((tree, records[: number + 1]), most)
        possible = {match for match, each in known.items() if each.possible}
        assert possible <= emitted.keys(), number
        for match, (certainty, chance) in emitted.items():
            assert as_known(known.get(match), certainty, chance), (number, match)


# ---- Z10's representation by five counts -----------------------------------------------------
FIG_9 = {
    "(A Overlap [0,0,0,1,0] B) Overlap [0,0,0,1,0] C": {"A": (1, 4), "B": (3, 7), "C": (5, 9)},
    "(A Overlap [0,0,0,1,0] B) Overlap [0,0,0,2,0] C": {"A": (1, 6), "B": (3, 7), "C": (5, 9)},
    "(A Overlap [0,0,0,1,0] B) Overlap [0,0,1,1,0] C": {"A": (1, 5), "B": (3, 7), "C": (5, 9)},
}


@pytest.mark.parametrize("text", FIG_9)
def test_z10_fig_9(text: str) -> None:
    assert representation(FIG_9[text]) == text
    assert representation(end_points(text)) == text


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 8)), min_size=1, max_size=6).map(
        lambda spans: {"abcdef"[n]: (start, start + long) for n, (start, long) in enumerate(spans)}
    )
)
def test_what_is_printed_is_read_back(intervals: dict[str, tuple[int, int]]) -> None:
    """All end points in their order, equal ones equal."""
    points = sorted({point for span in intervals.values() for point in span})
    ranked = {name: (points.index(s), points.index(e)) for name, (s, e) in intervals.items()}
    text = representation(intervals)
    assert end_points(text) == ranked
    assert representation(ranked) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "begins with"),
        ("A Overlap [0,0,0,1] B", "no relation with five counts"),
        ("A Overlap [0,0,0,1,0] A", "there twice"),
        ("A Before [0,0,0,1,0] B", "fit no intervals"),
    ],
)
def test_what_is_no_representation_is_refused(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        end_points(text)
