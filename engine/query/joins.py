"""The order in which the end points and steps of an interval pattern are joined."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from slackwater.edge_agent.errors import near_miss
from slackwater.engine.core.errors import UserError
from slackwater.engine.query.interval_relations import LESS, longest_path
from slackwater.engine.query.plan import SeqPlan
from slackwater.engine.query.shape import endpoint_order, shape_of

# End points of an ISEQ that an index uses: a longest chain of them (L10 5.3.2, 5.4.1).


NAIVE: Final = "naive"
INDEXED: Final = "indexed"
IBP: Final = "ibp"
INDEXES: Final = (NAIVE, INDEXED, IBP)
"""How an ISEQ is searched: tests every event; by ends; also by starts. The results are equal."""


def check_index(text: str) -> str:
    """Return ``text`` if it names an index.

    Raises:
        UserError: it does not.
    """
    if text not in INDEXES:
        raise UserError(f"intervals {text!r}: use {', '.join(INDEXES)}")
    return text


def indexed_path(plan: SeqPlan, index: str) -> list[int]:
    """Return the end points that an index uses (``engine.query.interval_relations``), in time
    order.

    Intervals are sorted by their ends; only IBPs have their starts sorted, too.
    """
    if index == NAIVE:
        return []
    ends = [2 * step + 1 for step in shape_of(plan).positive]
    points = ends if index == INDEXED else [*ends, *(point - 1 for point in ends)]
    path = longest_path(endpoint_order(plan), points)
    return path if len({point // 2 for point in path}) > 1 else []


# The only possible order of all end points of a plan, if there is just one (Z10 5.2, 5.3.1).


def series_of(plan: SeqPlan) -> dict[str, tuple[int, int]] | None:
    """Return the ranks of the start and the end of each positive step, by alias; None: the
    relations of ``plan`` allow several orders. Intervals are assumed to be longer than 0.

    >>> from slackwater.engine.query import query
    >>> (plan,) = query("EVENT SEQ(A OVERLAP B BEFORE C) WITHIN 10").branches
    >>> series_of(plan)
    {'A': (0, 2), 'B': (1, 3), 'C': (4, 5)}
    """
    reach = endpoint_order(plan)
    positive = [n for n, step in enumerate(plan.steps) if not step.negated]
    points = [point for n in positive for point in (2 * n, 2 * n + 1)]

    def below(p: int, q: int) -> bool:
        return bool(reach[p, q] == LESS) or (p + 1 == q and p % 2 == 0)

    for p in points:
        for q in points:
            equal = reach[p, q] and reach[q, p]
            if p < q and not (below(p, q) or below(q, p) or equal):
                return None
    firsts = [p for p in points if not any(q < p and reach[p, q] and reach[q, p] for q in points)]
    rank = {p: sum(below(q, p) for q in firsts) for p in points}
    return {plan.steps[n].alias: (rank[2 * n], rank[2 * n + 1]) for n in positive}


# The order in which the steps of a tree are searched after an event of one of them (Z10 4.1.2).
#
# ``left``: as written (a left-deep plan); ``right``: from the right. ``cost``: the next step is the
# one with the smallest expected share of matching events, by its join conditions: an equality of
# attributes leaves few events, a start that equals an end point few, a bound of its start half,
# WITHIN alone all. The results are equal.
#
# Source: Z10 4.1.2 and Fig 7; the greedy choice by selectivity is from ZStream (Mei and Madden,
# SIGMOD 2009), without rates.


COST: Final = "cost"
JOINS: Final = (COST, "left", "right")
_KEY: Final = 0.01
_EQUAL: Final = 0.1
_BOUND: Final = 0.5


def check_joins(name: str) -> str:
    """Return ``name`` if it is an order of joins.

    Raises:
        UserError: it is not.
    """
    if name not in JOINS:
        meant = near_miss(name, JOINS)
        raise UserError(f"joins {name[:40]!r} are unknown; use {', '.join(JOINS)}{meant}")
    return name


def in_order(plan: SeqPlan, how: str, start: int) -> list[int]:
    """Return the positive steps other than ``start``, by their places, in search order.

    ``start`` may be a negated step: steps that an equality joins with it come first.

    >>> from slackwater.engine.query import query
    >>> (plan,) = query("EVENT SEQ(A a, PAL(B b, C c)) WHERE a.id = c.id WITHIN 5 s").branches
    >>> [in_order(plan, how, 0) for how in JOINS]
    [[2, 1], [1, 2], [2, 1]]
    """
    left = [n for n, step in enumerate(plan.steps) if not step.negated and n != start]
    if how == "right":
        left.reverse()
    alias = [step.alias for step in plan.steps]
    if how != COST:
        first = plan.steps[start].negated
        joined = [n for n in left if first and _keys(plan, alias[n], {alias[start]})]
        return joined + [n for n in left if n not in joined]
    known, found = {alias[start]}, list[int]()
    while left:
        shares = {n: _share(plan, alias[n], known) for n in left}
        best = min(left, key=shares.__getitem__)
        left.remove(best)
        known.add(alias[best])
        found.append(best)
    return found


def _keys(plan: SeqPlan, alias: str, known: Collection[str]) -> int:
    """Return the number of equalities between ``alias`` and ``known`` steps."""
    groups = [{str(attribute.alias) for attribute in group} for group in plan.equalities]
    return sum(alias in group and not group.isdisjoint(known) for group in groups)


def _share(plan: SeqPlan, alias: str, known: Collection[str]) -> float:
    """Return the expected share of events of ``alias`` that match the ``known`` ones."""
    share = _KEY ** _keys(plan, alias, known)
    below, above = set[tuple[str, str]](), set[tuple[str, str]]()
    for each in plan.relations:
        for mine, other, bounds in ((each.right, each.left, below), (each.left, each.right, above)):
            if mine.alias == alias and mine.name == "ts" and other.alias in known:
                bounds.add((str(other.alias), other.name))
    share *= _EQUAL if below & above else 1
    return share * (_BOUND if below else 1) * (_BOUND if above else 1)
