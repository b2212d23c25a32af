"""SEQ/PAL trees of whole intervals against every combination of events, by definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.pattern.seq import PatternSettings
from tests.pattern.trees.definition import (
    Node,
    Record,
    Run,
    by_definition,
    streams,
    text_of,
    trees,
)


def net(results: list[dict[str, Any]]) -> set[tuple[int, ...]]:
    """What stands in the end; a match is never given twice, nor taken back before."""
    found: set[tuple[int, ...]] = set()
    for result in results:
        match = tuple(event["seq"] for event in result["events"])
        assert (match in found) == (result["op"] == "-"), result
        (found.remove if result["op"] == "-" else found.add)(match)
    return found


@given(trees(), streams(), st.integers(4, 30), st.lists(st.integers(0, 9), max_size=2))
def test_trees_mean_what_is_defined(
    node: Node, records: list[Record], within: int, cuts: list[int]
) -> None:
    """Random trees with relations and negated steps; ties, lengths of 0, any order of arrival."""
    run = Run(f"EVENT {text_of(node)} WITHIN {within + 1}")
    results = run.over(records, cuts)
    assert net(results) == by_definition(node, within + 1, records)
    assert results == Run(run.text).over(records)


@given(trees(), streams(), st.sampled_from(["left", "right"]))
def test_every_plan_gives_the_same(node: Node, records: list[Record], joins: str) -> None:
    """Left-deep, right-deep and chosen by cost (Z10 4.1.2)."""
    text = f"EVENT {text_of(node)} WITHIN 20"
    settings = PatternSettings(keep_late_ns=10**6, joins=joins)
    assert Run(text, settings=settings).over(records) == Run(text).over(records)


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
