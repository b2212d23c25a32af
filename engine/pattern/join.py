"""The delta join: every match is found once, at its row that was released last.

A row that can be step k is extended step by step, backwards from k and then forwards, over the
events released before it: skip-till-any-match, so every combination counts (SPEC 4.1). Each
extension looks up a range of (equality key, ref) in an index, widened by the clock uncertainty,
and then tests order, WITHIN, equality and the other conditions exactly.

A row that can be a negated step is extended in the same way over the positive steps: what is found
are the matches, completed earlier, in whose scope it lies or may lie (``engine.pattern.scope``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from engine.pattern.candidates import Index, hash_of
from engine.pattern.certainty import Rule, order, within
from engine.pattern.store import EXPIRES, ORDER, Store
from engine.query.expression import join_mask
from engine.query.fields import attributes_in, released_columns
from engine.query.plan import Attribute, Comparison, Predicate, SeqPlan
from engine.released import Strings

_PAIRS_AT_ONCE = 1 << 20
_FAR = 2**62
IndexName = tuple[int, tuple[int, ...]]
"""A step, and the equality groups by which its events are looked up."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One extension: find ``step`` when the steps ``bound`` are known already.

    ``own`` and ``other``: per equality group the attribute of this step, and a known step with its
    attribute. ``predicates``: conditions that can be tested from here on.
    """

    step: int
    bound: tuple[int, ...]
    index: IndexName
    own: tuple[Attribute, ...]
    other: tuple[tuple[int, Attribute], ...]
    predicates: tuple[Predicate, ...]


def tours(plan: SeqPlan) -> list[list[Hop]]:
    """Per completing step the order in which the positive steps are found.

    From a negated step the later ones come first: in a stream that is nearly in order there are
    none yet, and the search ends at once.
    """
    place = {step.alias: number for number, step in enumerate(plan.steps)}
    positive = [number for number, step in enumerate(plan.steps) if not step.negated]
    members = [
        {place[a.alias]: a for a in group if a.alias is not None} for group in plan.equalities
    ]
    found = []
    for completing, step in enumerate(plan.steps):
        before = [number for number in reversed(positive) if number < completing]
        after = [number for number in positive if number > completing]
        order_found = after + before if step.negated else before + after
        found.append(_tour(plan, place, members, completing, order_found))
    return found


def _tour(
    plan: SeqPlan, place: dict[str, int], members: list[dict[int, Attribute]], completing: int,
    order_found: list[int],
) -> list[Hop]:  # fmt: skip
    bound = [completing]
    pending = list(plan.others)
    tour = []
    for step in order_found:
        groups = tuple(
            number for number, group in enumerate(members)
            if step in group and any(b in group for b in bound)
        )  # fmt: skip
        ready = [p for p in pending if steps_of(p, place) <= {*bound, step}]
        pending = [p for p in pending if p not in ready]
        other = [next((b, members[g][b]) for b in bound if b in members[g]) for g in groups]
        own = tuple(members[g][step] for g in groups)
        tour.append(Hop(step, tuple(bound), (step, groups), own, tuple(other), tuple(ready)))
        bound.append(step)
    return tour


def steps_of(predicate: Predicate, place: dict[str, int]) -> set[int]:
    """The places of the steps that ``predicate`` names."""
    return {place[a.alias] for a in attributes_in(predicate) if a.alias is not None}


@dataclass(slots=True)
class Join:
    """One batch's join. Rows are places in ``store``; the batch's own start at ``first_new``.

    ``frontier`` and ``newest``: per new row, the progress at it, and the largest ref released
    before it. ``t_a``: in force for the batch; for negated steps the largest in force for any
    event held, as what they find is tested again. ``floor``: by completing step
    and another one, per new row the least ref of the other's event that is worth looking at.
    """

    plan: SeqPlan
    rule: Rule
    store: Store
    indexes: dict[IndexName, Index]
    strings: Strings
    t_a: int
    first_new: int
    frontier: np.ndarray
    newest: np.ndarray
    floor: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def matches(self, tour: list[Hop], completing: int, rows: np.ndarray) -> Iterator[np.ndarray]:
        """(matches, steps) blocks of rows, for completing events ``rows``."""
        partial = np.full((len(rows), len(self.plan.steps)), -1, np.int64)
        partial[:, completing] = rows
        yield from self._extended(partial, completing, tour)

    def _extended(
        self, partial: np.ndarray, completing: int, tour: list[Hop]
    ) -> Iterator[np.ndarray]:
        if not len(partial):
            return
        if not tour:
            yield partial
            return
        hop, rest = tour[0], tour[1:]
        index = self.indexes[hop.index]
        views = [
            self.store.view(partial[:, step], released_columns([attribute]), self.strings)
            for step, attribute in hop.other
        ]
        key = hash_of([attribute for _, attribute in hop.other], views, len(partial))
        first, count = index.ranges(key, *self._range(partial, completing, hop))
        total = np.cumsum(count)
        cuts = np.flatnonzero(np.diff(total // _PAIRS_AT_ONCE)) + 1
        for part in np.split(np.arange(len(partial)), cuts):
            owner = np.repeat(part, count[part])
            before = np.repeat(total[part] - count[part], count[part])
            start = total[part[0]] - count[part[0]] if len(part) else 0
            candidate = index.row[first[owner] + (np.arange(len(owner)) + start - before)]
            wider = partial[owner]
            wider[:, hop.step] = candidate
            yield from self._extended(self._fitting(wider, completing, hop), completing, rest)

    def _range(
        self, partial: np.ndarray, completing: int, hop: Hop
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where the step's ref must lie; exact conditions follow."""
        columns = self.store.columns
        widest = int(columns["unc"].max())
        spread = self.t_a if self.rule is Rule.MAX_DELAY else 2 * widest
        low = np.full(len(partial), -_FAR)
        high = self.newest[partial[:, completing] - self.first_new].copy()
        floor = self.floor.get((completing, hop.step))
        if floor is not None:
            np.maximum(low, floor[partial[:, completing] - self.first_new], out=low)
        for step in hop.bound:
            ref = columns["ref"][partial[:, step]]
            slack = spread
            if self.rule is Rule.PAIRWISE:
                slack = columns["unc"][partial[:, step]] + widest
            if self._compared(step, hop.step):
                if step > hop.step:
                    np.minimum(high, ref + slack, out=high)
                else:
                    np.maximum(low, ref - slack, out=low)
            if self.plan.within_ns is not None:
                # Three uncertain comparisons may lie between two steps: e, first, last, f.
                reach = self.plan.within_ns + 3 * spread
                np.maximum(low, ref - reach, out=low)
                np.minimum(high, ref + reach, out=high)
        return low, high

    def _fitting(self, wider: np.ndarray, completing: int, hop: Hop) -> np.ndarray:
        """Those combinations that the new step leaves possible."""
        columns = self.store.columns
        mine, last = wider[:, hop.step], wider[:, completing]
        fits = columns[ORDER][mine] < columns[ORDER][last]
        fits &= columns[EXPIRES][mine] >= self.frontier[last - self.first_new]
        wider = wider[fits]
        for step in hop.bound:
            first, second = sorted((step, hop.step))
            one, two = self.store.clock(wider[:, first]), self.store.clock(wider[:, second])
            fits = wider[:, first] != wider[:, second]
            if self._compared(first, second):
                fits &= order(self.rule, self.t_a, one, two)[0]
            # A negated step at an end is so far from the other end at most, too.
            ends = first <= self.ends[0] and second >= self.ends[1] and first != second
            if ends and self.plan.within_ns is not None:
                fits &= within(self.rule, self.t_a, one, two, self.plan.within_ns)[0]
            wider = wider[fits]
        equal = [
            Comparison("=", attribute, own)
            for own, (_, attribute) in zip(hop.own, hop.other, strict=True)
        ]
        for predicate in (*equal, *hop.predicates):
            wider = wider[self.true_of(predicate, wider)]
        return wider

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last positive step."""
        positive = [number for number, step in enumerate(self.plan.steps) if not step.negated]
        return positive[0], positive[-1]

    def _compared(self, first: int, second: int) -> bool:
        """Positive steps are compared with one another, a negated one with its neighbours only."""
        steps = self.plan.steps
        if not steps[first].negated and not steps[second].negated:
            return True
        low, high = sorted((first, second))
        return all(step.negated for step in steps[low + 1 : high])

    def true_of(self, predicate: Predicate, rows: np.ndarray) -> np.ndarray:
        """Where ``predicate`` is true of ``rows`` (combinations, steps)."""
        attributes = list(attributes_in(predicate))
        views = {
            step.alias: self.store.view(
                rows[:, place],
                released_columns(a for a in attributes if a.alias == step.alias),
                self.strings,
            )
            for place, step in enumerate(self.plan.steps)
            if any(a.alias == step.alias for a in attributes)
        }
        return np.broadcast_to(join_mask(predicate, views), (len(rows),))
