"""The order of steps as relations of end points, and the joins of an ISEQ by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.core.errors import UserError
from slackwater.engine.operators.match.compiler.records import BY_END, BY_START, UNSORTED
from slackwater.engine.query.interval_relations import LESS, NOTHING, UPTO, reduction
from slackwater.engine.query.joins import INDEXED, NAIVE, indexed_path
from slackwater.engine.query.plan import PointRelation, SeqPlan
from slackwater.engine.query.shape import Shape, endpoint_order, of_intervals, of_streams

# The order of two steps as relations between their end points.
#
# An event has a start (``ts``) and an end (``te``), both on the engine's clock; those of a point
# are equal. A relation is (step, end point, operator, step, end point, bound): the first end point
# minus the second is below the bound, or at most the bound. SEQ is ``end < start``, WITHIN is
# ``end - start <= W``; each of Allen's 13 interval relations is a conjunction of such relations
# (L10 Table 5.1).


START: Final = 0
END: Final = 1
_POINTS: Final = {"ts": START, "te": END}


class Related(NamedTuple):
    """A row of ``engine.operators.match.compiler.records.RELATION``."""

    left: int
    left_end: int
    strict: int
    right: int
    right_end: int
    bound: int


def reads_end(end: int, step: int, relations: Iterable[Related]) -> bool:
    """Return whether one of ``relations`` refers to the end point ``end`` of ``step``."""
    ends = [(each.left, each.left_end) for each in relations]
    ends += [(each.right, each.right_end) for each in relations]
    return (step, end) in ends


def starts_before(first: int, second: int) -> Related:
    """Return the relation: ``first`` begins strictly before ``second`` begins."""
    return Related(first, START, 1, second, START, 0)


def soon_after(first: int, second: int, longest_ns: int, *, ends: bool = False) -> Related:
    """Return the relation: ``second`` begins (``ends``: ends) within ``longest_ns`` of the begin of
    ``first``.
    """
    return Related(second, END if ends else START, 0, first, START, longest_ns)


def relations_of(
    plan: SeqPlan, shape: Shape, places: tuple[int, ...], inferred: Sequence[Related] = ()
) -> list[Related]:
    """Return all relations between positive steps.

    Args:
        plan: the plan of one branch.
        shape: the shape of the plan.
        places: the numbers of its steps among those of all branches.
        inferred: for an ISEQ, all relations that its TList contains or implies.

    Raises:
        UserError: a relation of a plan built in Python has an operand that is not an end point of a
            positive step, or relates a step to itself.
    """
    # A step ends strictly before the next one begins (SPEC 4.8); points have one time.
    found = [Related(places[x], END, 1, places[y], START, 0) for x, y in sorted(shape.before)]
    found += inferred
    if plan.within_ns is not None:
        ends = not of_streams(plan)
        found += [
            soon_after(places[x], places[y], plan.within_ns, ends=ends) for x, y in shape.within
        ]
    aliases = {plan.steps[place].alias: places[place] for place in shape.positive}
    for relation in plan.relations if not of_intervals(plan) else ():
        found += _relations_of_condition(
            plan.name, relation, lambda alias: aliases.get(str(alias), -1)
        )
    return found


def counts_when(
    plan: SeqPlan, shape: Shape, places: tuple[int, ...], mine: int, inferred: list[Related]
) -> list[Related]:
    """Return the relations under which an event of the negated step ``mine`` of an ISEQ counts.

    These are its relations to positive steps (``inferred``), and WITHIN for the match with it,
    unless it is known to lie inside the match.
    """
    found = list(inferred)
    if plan.within_ns is not None:
        if not any(each.left == mine and each.left_end == END for each in inferred):
            ends = [soon_after(places[x], mine, plan.within_ns, ends=True) for x in shape.firsts]
            found += ends
        if not any(each.right == mine and each.right_end == START for each in inferred):
            found += [soon_after(mine, places[x], plan.within_ns, ends=True) for x in shape.lasts]
    return found


def _relations_of_condition(
    name: str, relation: PointRelation, place: Callable[[str | None], int]
) -> Iterator[Related]:
    left, right, bound = relation.left, relation.right, relation.bound_ns
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
    if relation.op not in {"<", "<=", "=", ">=", ">"}:
        raise UserError(
            f"query {name!r}: a relation's operator is < <= = >= >, not {relation.op!r}"
        )
    strict = int(relation.op in {"<", ">"})
    if relation.op in {"<", "<=", "="}:
        yield Related(*first, strict, *second, bound)
    if relation.op in {">", ">=", "="}:
        yield Related(*second, strict, *first, -bound)


# Joins of the steps of an ISEQ: their relations, order and index (L10 5.3.2).
#
# Relations that the TList implies are used too (L10: "given or inferred"): the tightest ones
# between any two steps. A probe needs fewer, as the events found before it are related already.
#
# ``indexed`` is L10's basic indexing: stacks are sorted by ends, the arrival order of intervals.
# They serve a longest chain of ends where each is below or at most the next. ``ibp`` also sorts by
# starts. ``naive`` tests every event of the stack.


def related(reach: np.ndarray, one: int, two: int) -> list[tuple[int, int]]:
    """Return the related pairs of end points of two steps, without pairs that others imply."""
    found = []
    mine, other = (2 * one, 2 * one + 1), (2 * two, 2 * two + 1)
    for below, above in ((mine, other), (other, mine)):
        for x in below:
            for y in above:
                label = int(reach[x, y])
                tighter = [
                    (p, q) for p in below for q in above
                    if (p, q) != (x, y) and p >= x and q <= y and reach[p, q] >= label
                ]  # fmt: skip
                if label != NOTHING and not tighter:
                    found.append((x, y))
    return found


def _probed(reach: np.ndarray) -> np.ndarray:
    """Return ``reach`` where each interval's own ends only have ``start <= end``, as in probes."""
    found = reach.copy()
    starts = np.arange(0, len(reach), 2)
    found[starts, starts + 1], found[starts + 1, starts] = UPTO, NOTHING
    return found


def as_relation(reach: np.ndarray, below: int, above: int, places: Sequence[int]) -> Related:
    """Return the relation: end point ``below`` is below or at most ``above``, as in ``reach``."""
    strict = int(reach[below, above] == LESS)
    return Related(places[below // 2], below % 2, strict, places[above // 2], above % 2, 0)


def closed(plan: SeqPlan, shape: Shape, places: Sequence[int]) -> list[Related]:
    """Return the relations between positive steps that follow from those of ``plan``."""
    reach = endpoint_order(plan)
    return [
        as_relation(reach, below, above, places)
        for number, one in enumerate(shape.positive)
        for two in shape.positive[number + 1 :]
        for below, above in related(reach, one, two)
    ]


def closed_with(plan: SeqPlan, shape: Shape, places: Sequence[int], step: int) -> list[Related]:
    """Return the relations between the negated ``step`` and positive steps that follow."""
    reach = endpoint_order(plan, step)
    return [
        as_relation(reach, below, above, places)
        for one in shape.positive
        for below, above in related(reach, one, step)
    ]


class Joins:
    """The order in which steps are found, and the indexes for that.

    Args:
        plan: an ISEQ.
        shape: the shape of the plan.
        index: one of ``engine.query.joins.INDEXES``.
    """

    def __init__(self, plan: SeqPlan, shape: Shape, index: str) -> None:
        self._plan, self._shape, self._index = plan, shape, index
        self._reach = endpoint_order(plan)
        self._probed = _probed(self._reach)
        self._next = {
            frozenset((each.left // 2, each.right // 2)) for each in reduction(self._reach)
        }
        self.path = indexed_path(plan, index)

    def order(self, start: int) -> list[int]:
        """Return the other positive steps in search order.

        Steps that must end later come first: in an ordered stream there is none yet, so the search
        ends. Then come neighbours of the steps found so far, in written order.
        """
        reach, found = self._reach, [start]
        if self._index == NAIVE:
            return [step for step in self._shape.positive if step != start]
        left = [step for step in self._shape.positive if step != start]
        while left:
            best = max(
                left,
                key=lambda step: (
                    any(reach[2 * f + 1, 2 * step + 1] for f in found),
                    any(frozenset((f, step)) in self._next for f in found),
                    self._bounds(step, found),
                    -abs(step - found[-1]),
                ),
            )
            left.remove(best)
            found.append(best)
        return found[1:]

    def _bounds(self, step: int, found: Sequence[int]) -> int:
        """Return the number of bounded sides of the end points of ``step``."""
        points = [p for f in found for p in (2 * f, 2 * f + 1)]
        mine = (2 * step, 2 * step + 1)
        return sum(
            int((self._reach[points, p] > 0).any()) + int((self._reach[p, points] > 0).any())
            for p in mine
        )

    def of_probe(self, step: int, found: Iterable[int], places: Sequence[int]) -> list[Related]:
        """Return the relations of ``step`` with ``found`` steps that no others imply."""
        reach, known = self._reach, [step, *found]
        points = sorted(p for k in known for p in (2 * k, 2 * k + 1))
        chosen = []
        for x in points:
            for y in points:
                label = reach[x, y]
                if (x // 2 == step) == (y // 2 == step) or label == NOTHING:
                    continue
                if not any(self._between(x, w, y, int(label)) for w in points if w not in (x, y)):
                    chosen.append(as_relation(reach, x, y, places))
        return chosen

    def _between(self, x: int, w: int, y: int, label: int) -> bool:
        """Return whether x, w, y implies x, y; of equal end points only the first one counts."""
        reach, probed = self._reach, self._probed
        if not (probed[x, w] and probed[w, y] and max(probed[x, w], probed[w, y]) >= label):
            return False
        equal = [p for p in (x, y) if reach[p, w] == UPTO == reach[w, p]]
        return all(w < p for p in equal)

    def sorted_by(self, step: int, relations: Iterable[Related], place: int) -> int:
        """Return the best index order to find events of ``step``: BY_START, BY_END, UNSORTED."""
        if self._index == NAIVE:
            return UNSORTED
        on_path = [point % 2 for point in self.path if point // 2 == step]
        if on_path:
            return (BY_START, BY_END)[on_path[-1]]
        counts = {START: 0, END: 0}
        for each in relations:
            if each.left == place:
                counts[each.left_end] += 1
            if each.right == place:
                counts[each.right_end] += 1
        if self._index == INDEXED:
            return UNSORTED
        return BY_END if counts[END] > counts[START] else BY_START

    def chain(self) -> list[tuple[int, int, int]]:
        """Return (step, end point, strict) along the path, each step once."""
        found: list[tuple[int, int, int]] = []
        last = -1
        for point in self.path:
            step = point // 2
            if any(step == known for known, _, _ in found):
                continue
            strict = int(last >= 0 and self._reach[last, point] == LESS)
            found.append((step, point % 2, strict))
            last = point
        return found
