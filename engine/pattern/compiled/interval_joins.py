"""How the steps of an ISEQ are joined: relations, in which order, and by which index (L10 5.3.2).

What the TList implies is asked too (L10: "given or inferred"): between any two steps the tightest
relations that follow. A probe needs fewer, as the events found before it are related already.

``indexed`` is L10's basic indexing: stacks in order of ends, as that is how intervals arrive; they
serve a longest chain of ends of which each is below or at most the next. ``ibp`` has starts in
order too. ``naive`` tests every event in its stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from engine.pattern.compiled.records import BY_END, BY_START, UNSORTED
from engine.pattern.compiled.relations import END, START, Related
from engine.query.endpoints.order import LESS, NOTHING, UPTO, reduced
from engine.query.endpoints.path import INDEXED, NAIVE, indexed_path
from engine.query.plan import SeqPlan
from engine.query.shape import Shape, endpoint_order


def related(reach: np.ndarray, one: int, two: int) -> list[tuple[int, int]]:
    """Pairs of end points of two steps that are related, without what others of them imply."""
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
    """``reach``, but of one interval's own ends what every interval has: no probe tests more."""
    found = reach.copy()
    starts = np.arange(0, len(reach), 2)
    found[starts, starts + 1], found[starts + 1, starts] = UPTO, NOTHING
    return found


def as_relation(reach: np.ndarray, below: int, above: int, places: Sequence[int]) -> Related:
    """``below`` is below, or at most, ``above``."""
    strict = int(reach[below, above] == LESS)
    return Related(places[below // 2], below % 2, strict, places[above // 2], above % 2, 0)


def closed(plan: SeqPlan, shape: Shape, places: Sequence[int]) -> list[Related]:
    """The relations of positive steps that follow from those of ``plan``."""
    reach = endpoint_order(plan)
    return [
        as_relation(reach, below, above, places)
        for number, one in enumerate(shape.positive)
        for two in shape.positive[number + 1 :]
        for below, above in related(reach, one, two)
    ]


def closed_with(plan: SeqPlan, shape: Shape, places: Sequence[int], step: int) -> list[Related]:
    """The relations of the negated ``step`` with positive ones that follow."""
    reach = endpoint_order(plan, step)
    return [
        as_relation(reach, below, above, places)
        for one in shape.positive
        for below, above in related(reach, one, step)
    ]


class Joins:
    """In which order steps are found, and how.

    Args:
        plan: an ISEQ.
        shape: of the plan.
        index: one of ``engine.query.endpoints.path.INDEXES``.
    """

    def __init__(self, plan: SeqPlan, shape: Shape, index: str) -> None:
        self._plan, self._shape, self._index = plan, shape, index
        self._reach = endpoint_order(plan)
        self._probed = _probed(self._reach)
        self._next = {frozenset((each.left // 2, each.right // 2)) for each in reduced(self._reach)}
        self.path = indexed_path(plan, index)

    def order(self, start: int) -> list[int]:
        """The other positive steps: first what must end later (in order there is none yet, and the
        search ends), then what is a neighbour of those found, in written order.
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
        """How many sides of its end points are bounded."""
        points = [p for f in found for p in (2 * f, 2 * f + 1)]
        mine = (2 * step, 2 * step + 1)
        return sum(
            int((self._reach[points, p] > 0).any()) + int((self._reach[p, points] > 0).any())
            for p in mine
        )

    def of_probe(self, step: int, found: Iterable[int], places: Sequence[int]) -> list[Related]:
        """The relations of ``step`` with steps found before that no others of them imply."""
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
        """Whether ``x`` to ``w`` to ``y`` says as much; of equal end points the first says it."""
        reach, probed = self._reach, self._probed
        if not (probed[x, w] and probed[w, y] and max(probed[x, w], probed[w, y]) >= label):
            return False
        equal = [p for p in (x, y) if reach[p, w] == UPTO == reach[w, p]]
        return all(w < p for p in equal)

    def sorted_by(self, step: int, relations: Iterable[Related], place: int) -> int:
        """By which end point of ``step`` its events are best found."""
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
        """(step, end point, strict) along the path, each step once."""
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
