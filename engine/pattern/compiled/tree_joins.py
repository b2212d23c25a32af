"""In which order the steps of a tree of intervals are found once an event of one is there (Z10 4.1.2).

``left``: as written, so what is found grows from the left (a left-deep plan); ``right``: from the
right. ``cost``: next comes the step of which the fewest events are expected to fit what is found,
by how it is joined: an equality of attributes leaves few, two equal end points few, a bound on both
sides some, one bound half, WITHIN alone all. The results are the same.

Source: Z10 4.1.2 and Fig 7; the greedy choice by selectivity is ZStream's (Mei and Madden, SIGMOD
2009), without rates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from engine.errors import UserError
from engine.pattern.compiled.relations import START, Related

JOINS: Final = ("cost", "left", "right")
_KEY: Final = 0.01
_EQUAL: Final = 0.05
_BOUND: Final = 0.5


def check_joins(name: str) -> str:
    """``name``, if it is one.

    Raises:
        UserError: it is not.
    """
    if name not in JOINS:
        raise UserError(f"tree plan {name!r} is unknown; use {', '.join(JOINS)}")
    return name


def in_order(
    how: str, start: int, positive: Sequence[int], relations: Iterable[Related],
    groups: Sequence[Collection[int]],
) -> list[int]:  # fmt: skip
    """The other positive steps, in the order in which they are found.

    Args:
        how: one of ``JOINS``.
        start: the step of the event that is there; if it is negated, what an equality joins with it
            is found first.
        positive: steps in written order.
        relations: of end points.
        groups: of steps that an equality joins.
    """
    left = [step for step in positive if step != start]
    if how == "right":
        left.reverse()
    if how != "cost":
        beside = {step for group in groups if start in group for step in group}
        joined = [step for step in left if start not in positive and step in beside]
        return joined + [step for step in left if step not in joined]
    known, found, relations = {start}, [], list(relations)
    while left:
        shares = {step: _share(step, known, relations, groups) for step in left}
        best = min(left, key=shares.__getitem__)
        left.remove(best)
        known.add(best)
        found.append(best)
    return found


def _share(
    step: int, known: Collection[int], relations: Iterable[Related],
    groups: Sequence[Collection[int]],
) -> float:  # fmt: skip
    """Which share of the events of ``step`` is expected to fit ``known`` ones."""
    share = 1.0
    for group in groups:
        if step in group and any(other in group for other in known):
            share *= _KEY
    low: Mapping[int, int] = _sides(step, known, relations, below=True)
    high: Mapping[int, int] = _sides(step, known, relations, below=False)
    if low.keys() & high.keys():
        share *= _EQUAL
    if low:
        share *= _BOUND
    if high:
        share *= _BOUND
    return share


def _sides(
    step: int, known: Collection[int], relations: Iterable[Related], *, below: bool
) -> dict[int, int]:
    """By known end point (twice the step, and its end), those that bound the step's start."""
    found = {}
    for each in relations:
        mine, my_end, other, its_end = each.right, each.right_end, each.left, each.left_end
        if not below:
            mine, my_end, other, its_end = other, its_end, mine, my_end
        if mine == step and other in known and my_end == START and each.bound == 0:
            found[2 * other + its_end] = 1
    return found
