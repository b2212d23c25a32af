"""SEQ/PAL trees where clocks err: what is possible, certain and how likely, against every order of
end points that the clocks allow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from engine.pattern.settings import PatternSettings
from engine.query.endpoints.tree_joins import JOINS
from tests.pattern.trees.by_clocks import Known, judged
from tests.pattern.trees.definition import Record, Run, Tree, Where
from tests.pattern.trees.drawn import Drawn, trees

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


def standing(results: list[dict[str, Any]]) -> dict[tuple[int, ...], tuple[str, float]]:
    """Certainty and probability of what stands in the end; what is taken back was given so."""
    found: dict[tuple[int, ...], tuple[str, float]] = {}
    for result in results:
        rows = tuple(event["seq"] for event in result["events"])
        told = result["certainty"], result["probability"]
        if result["op"] == "+":
            assert rows not in found, "a combination is told twice"
            found[rows] = told
        else:
            assert found.pop(rows) == told
    return found


NOT_AFTER_THE_FIRST = [
    Record("A", 0, 4, 4, unc=1, source="y", epoch=0), Record("A", 1, 4, 6, source="x", epoch=0),
    Record("B", 2, 8, 8, source="x", epoch=0), Record("N", 3, 6, 6, unc=1, source="x"),
]  # fmt: skip
FIRST_OF_TWO = Tree(
    ("SEQ", [("SEQ", ["a1", "a2"], ["BEFORE"]), "!n3", "b4"], [",", "BEFORE"]), 4
)  # fmt: skip


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
    """What some errors make a match is told; what is confirmed is one under all. Order by order:
    what is told is possible, and what is certain is confirmed. By the pairs' own uncertainties and
    by R19's rule; in any batches, with restarts between them, and with every plan.
    """
    tree, records = finer(drawn)
    rule = "pairwise" if t_a is None else "max-delay"
    settings = PatternSettings(rule, keep_late_ns=10**6, joins=joins)
    most = None if t_a is None else FINER * t_a
    results = Run(tree.text, settings=settings, t_a=most or 0).over(records, cuts)
    whole = Run(tree.text, settings=replace(settings, joins="cost"), t_a=most or 0)
    assert results == whole.over(records)
    told, known = standing(results), judged(tree, records, most)
    assert {rows for rows, each in known.items() if each.possible} <= told.keys()
    for rows, (certainty, chance) in told.items():
        assert as_known(known.get(rows), certainty, chance), rows
        # 1024 points here and 6000 there; events of a negated step that share a clock count as
        # independent of one another (docs/decisions.md).
        if rows in known:
            assert abs(chance - known[rows].chance) < 0.1, (rows, known[rows], chance)


def as_known(known: Known | None, certainty: str, chance: float) -> bool:
    """Certain order by order: confirmed. Confirmed: certain. None: impossible, where a negated step
    begins after the first of several: the plan asks this of the one that the others follow, whose
    order may be open where that of a later one is sure. It is uncertain then, with no chance.
    """
    if known is None:
        return certainty == "uncertain" and chance == 0
    return (known.singly < 2 or certainty == "confirmed") and (
        known.certain or certainty == "uncertain"
    )


def test_what_is_drawn_is_often_uncertain_and_sometimes_confirmed() -> None:
    """Else the test above is weak."""
    found = list[Known]()
    hits = list[bool]()

    @given(trees(steps=3, noise=4, where=True, clocks=True))
    def look(drawn: Drawn) -> None:
        known = judged(*finer(drawn)).values()
        found.extend(known)
        hits.append(any(each.possible for each in known))

    look()
    assert sum(hits) > 0.4 * len(hits)
    possible = [each for each in found if each.possible]
    certain = [each for each in possible if each.certain]
    assert 0.1 < len(certain) / len(possible) < 0.9
    assert sum(each.singly == 2 for each in certain) > 10
