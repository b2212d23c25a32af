"""What a plan asks of the order of two steps, as relations between their end points.

An event has a start (``ts``) and an end (``te``), both on the engine's clock; those of a point are
equal. A relation is (step, end point, operator, step, end point, bound): the first end point less
the second is below the bound, or at most it. SEQ is ``end < start``, WITHIN is ``end - start <=
W``; each of Allen's 13 relations of intervals is a conjunction of such (L10 Table 5.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from engine.errors import UserError
from engine.query.plan import PointRelation, SeqPlan
from engine.query.shape import Shape, of_intervals, of_streams

START: Final = 0
END: Final = 1
_POINTS: Final = {"ts": START, "te": END}


class Related(NamedTuple):
    """A row of ``engine.pattern.compiled.records.RELATION``."""

    left: int
    left_end: int
    strict: int
    right: int
    right_end: int
    bound: int


def reads(end: int, step: int, relations: Iterable[Related]) -> bool:
    """Whether one of ``relations`` is of that end point of ``step``."""
    ends = [(each.left, each.left_end) for each in relations]
    ends += [(each.right, each.right_end) for each in relations]
    return (step, end) in ends


def starts_before(first: int, second: int) -> Related:
    """``first`` begins strictly before ``second`` does."""
    return Related(first, START, 1, second, START, 0)


def ends_before(first: int, second: int) -> Related:
    """``first`` ends strictly before ``second`` begins (SPEC 4.8); points have one time."""
    return Related(first, END, 1, second, START, 0)


def soon_after(first: int, second: int, longest_ns: int, *, ends: bool = False) -> Related:
    """``second`` begins (``ends``) at most ``longest_ns`` after ``first`` begins."""
    return Related(second, END if ends else START, 0, first, START, longest_ns)


def relations_of(
    plan: SeqPlan, shape: Shape, places: tuple[int, ...], inferred: Sequence[Related] = ()
) -> list[Related]:
    """All relations between positive steps.

    Args:
        plan: the query, of one branch.
        shape: of the plan.
        places: what its steps are called in all branches.
        inferred: of an ISEQ, all that its TList says or implies.

    Raises:
        UserError: a relation of a plan built in Python names what is no end point of one of its
            positive steps, or relates a step to itself.
    """
    found = [ends_before(places[x], places[y]) for x, y in sorted(shape.before)]
    found += inferred
    if plan.within_ns is not None:
        ends = not of_streams(plan)
        found += [
            soon_after(places[x], places[y], plan.within_ns, ends=ends) for x, y in shape.within
        ]
    aliases = {plan.steps[place].alias: places[place] for place in shape.positive}
    for asked in plan.relations if not of_intervals(plan) else ():
        found += _asked(plan.name, asked, lambda alias: aliases.get(str(alias), -1))
    return found


def counts_when(
    plan: SeqPlan, shape: Shape, places: tuple[int, ...], mine: int, inferred: list[Related]
) -> list[Related]:
    """When an event of the negated step ``mine`` of an ISEQ counts: as it is related to positive
    ones (``inferred``), and near enough for a match with it to be WITHIN.

    What is known to lie inside the match is near enough.
    """
    found = list(inferred)
    if plan.within_ns is not None:
        if not any(each.left == mine and each.left_end == END for each in inferred):
            ends = [soon_after(places[x], mine, plan.within_ns, ends=True) for x in shape.firsts]
            found += ends
        if not any(each.right == mine and each.right_end == START for each in inferred):
            found += [soon_after(mine, places[x], plan.within_ns, ends=True) for x in shape.lasts]
    return found


def _asked(
    name: str, asked: PointRelation, place: Callable[[str | None], int]
) -> Iterator[Related]:
    left, right, bound = asked.left, asked.right, asked.bound_ns
    for point in (left, right):
        if point.name not in _POINTS or place(point.alias) < 0:
            raise UserError(
                f"query {name!r}: a relation names {point.alias}.{point.name}; name ts or te of "
                "steps that are not negated"
            )
    if left.alias == right.alias:
        raise UserError(f"query {name!r}: a relation is between two steps, not {left.alias} alone")
    first = (place(left.alias), _POINTS[left.name])
    second = (place(right.alias), _POINTS[right.name])
    if asked.op not in {"<", "<=", "=", ">=", ">"}:
        raise UserError(f"query {name!r}: a relation's operator is < <= = >= >, not {asked.op!r}")
    strict = int(asked.op in {"<", ">"})
    if asked.op in {"<", "<=", "="}:
        yield Related(*first, strict, *second, bound)
    if asked.op in {">", ">=", "="}:
        yield Related(*second, strict, *first, -bound)
