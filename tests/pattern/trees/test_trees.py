"""SEQ/PAL trees of whole intervals against every combination of events, by definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.pattern.settings import PatternSettings
from engine.query.endpoints.tree_joins import JOINS
from tests.pattern.trees.definition import Record, Run, by_definition
from tests.pattern.trees.drawn import Drawn, trees


def net(results: list[dict[str, Any]]) -> set[tuple[int, ...]]:
    """What stands in the end; a match is never given twice, nor taken back before."""
    found: set[tuple[int, ...]] = set()
    for result in results:
        match = tuple(event["seq"] for event in result["events"])
        assert (match in found) == (result["op"] == "-"), result
        (found.remove if result["op"] == "-" else found.add)(match)
    return found


@given(
    trees(where=True), st.lists(st.integers(0, 12), max_size=2), st.sampled_from(JOINS)
)  # fmt: skip
def test_trees_mean_what_is_defined(drawn: Drawn, cuts: list[int], joins: str) -> None:
    """Relations, alternatives, negated steps, conditions; ties, lengths of 0, any order of arrival,
    batches with restarts between them, every plan (Z10 4.1.2).
    """
    tree, records = drawn
    settings = PatternSettings(keep_late_ns=10**6, joins=joins)
    results = Run(tree.text, settings=settings).over(records, cuts)
    assert net(results) == by_definition(tree, records)
    assert results == Run(tree.text).over(records)


def test_what_is_drawn_matches_often_and_has_everything() -> None:
    """Else the test above is weak."""
    matched, texts = list[bool](), list[str]()

    @given(trees(where=True))
    def look(drawn: Drawn) -> None:
        tree, records = drawn
        matched.append(bool(by_definition(tree, records)))
        texts.append(tree.text)

    look()
    assert sum(matched) > 0.4 * len(matched)
    hits = [text for text, hit in zip(texts, matched, strict=True) if hit]
    for part in ("PAL(", "AND(", "OR(", "(!", ", !", " WHERE ", " OR ", "OVERLAP", "MEET"):
        assert any(part in text for text in hits), part


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
