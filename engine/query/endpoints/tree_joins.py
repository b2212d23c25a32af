"""In which order the steps of a tree are found once an event of one of them is there (Z10 4.1.2).

``left``: as written, so what is found grows from the left (a left-deep plan); ``right``: from the
right. ``cost``: next comes the step of which the fewest events are expected to fit what is found,
by how it is joined: an equality of attributes leaves few, a start that equals an end point few, a
bound of its start half, WITHIN alone all. The results are the same.

Source: Z10 4.1.2 and Fig 7; the greedy choice by selectivity is ZStream's (Mei and Madden, SIGMOD
2009), without rates.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from edge_agent.near_miss import near_miss
from engine.errors import UserError
from engine.query.plan import SeqPlan

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

    >>> from engine.query import query
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
