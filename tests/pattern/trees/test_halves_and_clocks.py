"""Halves of intervals where clocks err, after each record against every placement of the errors."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.pattern.settings import PatternSettings
from engine.query.endpoints.tree_joins import JOINS
from tests.pattern.trees.by_clocks import Known, judged
from tests.pattern.trees.definition import Record, Run
from tests.pattern.trees.drawn import Drawn, torn
from tests.pattern.trees.known_halves import Key, known_after
from tests.pattern.trees.test_halves import shown
from tests.pattern.trees.test_trees_and_clocks import as_known, finer


def intervals_known(records: list[Record]) -> dict[Key, Record]:
    """What is known of each interval after some records: all of it, or a half."""
    forms = {(True, True): "whole", (True, False): "start", (False, True): "end"}
    found = {}
    for record in reversed(records):
        key = record.source, record.type, record.id
        start, end = known_after(records)[key]
        found[key] = replace(record, half=forms[start is not None, end is not None])
    return found


def known_of(drawn: Drawn, t_a: int | None) -> dict[tuple[Key, ...], Known]:
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
@settings(max_examples=150)
def test_after_each_record_no_placement_of_the_errors_is_missed(
    drawn: Drawn, t_a: int | None, cuts: list[int], joins: str
) -> None:
    """What some errors make a match of what is known then is told and not taken back; what is
    confirmed is one under all. Order by order: what is told is possible, and what is certain is
    confirmed.
    """
    tree, records = finer(drawn)
    rule = "pairwise" if t_a is None else "max-delay"
    settings_ = PatternSettings(rule, keep_late_ns=10**6, joins=joins)
    most = None if t_a is None else 4 * t_a
    results = Run(tree.text, settings=settings_, t_a=most or 0).over(records, cuts)
    told: dict[tuple[Key, ...], tuple[str, float]] = {}
    for number in range(len(records)):
        for result in [each for each in results if each["at"] == number]:
            match = shown(result, records)
            assert (match in told) == (result["op"] == "-"), result
            judged_so = result["certainty"], result["probability"]
            if result["op"] == "+":
                told[match] = judged_so
            else:
                assert told.pop(match) == judged_so
        known = known_of((tree, records[: number + 1]), most)
        possible = {match for match, each in known.items() if each.possible}
        assert possible <= told.keys(), number
        for match, (certainty, chance) in told.items():
            assert as_known(known.get(match), certainty, chance), (number, match)


def test_what_is_drawn_matches_by_halves_and_is_often_uncertain() -> None:
    """Else the test above is weak."""
    found = list[tuple[bool, Known]]()

    @given(torn(steps=3, noise=2, clocks=True))
    @settings(max_examples=150)
    def look(drawn: Drawn) -> None:
        tree, records = finer(drawn)
        for number in range(len(records)):
            of = intervals_known(records[: number + 1])
            for match, known in known_of((tree, records[: number + 1]), None).items():
                if known.possible:
                    found.append((any(of[key].half != "whole" for key in match), known))

    look()
    halves = [known for by_half, known in found if by_half]
    assert sum(not known.certain for known in halves) > 30
    assert sum(known.certain for known in halves) > 30
