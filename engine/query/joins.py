"""In which order the end points and steps of an interval pattern are joined."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from slackwater.edge_agent.errors import near_miss
from slackwater.engine.core.errors import UserError
from slackwater.engine.query.interval_relations import LESS, longest_path
from slackwater.engine.query.plan import SeqPlan
from slackwater.engine.query.shape import endpoint_order, shape_of

# Which end points of an ISEQ an index serves: a longest chain of them (L10 5.3.2, 5.4.1).


NAIVE: Final = "naive"
INDEXED: Final = "indexed"
IBP: Final = "ibp"
INDEXES: Final = (NAIVE, INDEXED, IBP)
"""How an ISEQ is searched: every event is tested; by ends; by starts too. The same results."""


def check_index(text: str) -> str:
    """``text``, if it names an index.

    Raises:
        UserError: it does not.
    """
    if text not in INDEXES:
        raise UserError(f"intervals {text!r}: use {', '.join(INDEXES)}")
    return text


def indexed_path(plan: SeqPlan, index: str) -> list[int]:
    """The end points that an index serves (``engine.query.interval_relations``), in order of time.

    Intervals come in the order of their ends; only IBPs have their starts come in order too.
    """
    if index == NAIVE:
        return []
    ends = [2 * step + 1 for step in shape_of(plan).positive]
    points = ends if index == INDEXED else [*ends, *(point - 1 for point in ends)]
    path = longest_path(endpoint_order(plan), points)
    return path if len({point // 2 for point in path}) > 1 else []


# The one order of all end points that a plan asks for, if it asks for one (Z10 5.2, 5.3.1).


def series_of(plan: SeqPlan) -> dict[str, tuple[int, int]] | None:
    """By alias of each positive step the ranks of its start and its end; None: the relations of
    ``plan`` leave an order open. Intervals are taken to be longer than 0.

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


# In which order the steps of a tree are found once an event of one of them is there (Z10 4.1.2).
#
# ``left``: as written, so what is found grows from the left (a left-deep plan); ``right``: from the
# right. ``cost``: next comes the step of which the fewest events are expected to fit what is found,
# by how it is joined: an equality of attributes leaves few, a start that equals an end point few, a
# bound of its start half, WITHIN alone all. The results are the same.
#
# Source: Z10 4.1.2 and Fig 7; the greedy choice by selectivity is ZStream's (Mei and Madden, SIGMOD
# 2009), without rates.


COST: Final = "cost"
JOINS: Final = (COST, "left", "right")
_KEY: Final = 0.01
_EQUAL: Final = 0.1
_BOUND: Final = 0.5


def check_joins(name: str) -> str:
    """``name``, if it is one.

    Raises:
        UserError: it is not.
    """
    if name not in JOINS:
        meant = near_miss(name, JOINS)
        raise UserError(f"joins {name[:40]!r} are unknown; use {', '.join(JOINS)}{meant}")
    return name


def in_order(plan: SeqPlan, how: str, start: int) -> list[int]:
    """The positive steps besides ``start``, by their places, in the order in which they are found.

    ``start`` may be a negated step: what an equality joins with it is then found first.

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
    """How many equalities join ``alias`` with ``known`` steps."""
    groups = [{str(attribute.alias) for attribute in group} for group in plan.equalities]
    return sum(alias in group and not group.isdisjoint(known) for group in groups)


def _share(plan: SeqPlan, alias: str, known: Collection[str]) -> float:
    """Which share of the events of ``alias`` is expected to fit ``known`` ones."""
    share = _KEY ** _keys(plan, alias, known)
    below, above = set[tuple[str, str]](), set[tuple[str, str]]()
    for each in plan.relations:
        for mine, other, bounds in ((each.right, each.left, below), (each.left, each.right, above)):
            if mine.alias == alias and mine.name == "ts" and other.alias in known:
                bounds.add((str(other.alias), other.name))
    share *= _EQUAL if below & above else 1
    return share * (_BOUND if below else 1) * (_BOUND if above else 1)
