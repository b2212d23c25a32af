"""SEQ: strictly increasing event time, every combination, with its certainty (SPEC 4.1, 4.3).

The matcher knows nothing of strategies: it says what each released row does to matches, completing
new ones and, if it is of a negated step, invalidating older ones or putting them in doubt; a
barrier makes results of that. No table of matches is kept: both are found by joins over the events.

An event is kept until ``ref + unc + W + keep_late_ns`` lies behind progress; then no row that is
less than ``keep_late_ns`` late can need it (one of a negated step at the front is kept for another
W). Rows later than that are counted and take no part.
Without WITHIN nothing can be dropped; how much is held is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from edge_agent.records import DEFAULT_SITE
from engine.barrier.base import Asked
from engine.barrier.registry import BarrierSettings, barrier_in_force, build_barrier
from engine.errors import UserError
from engine.operator import Result
from engine.pattern.candidates import Index, has_values, hash_of
from engine.pattern.certainty import Rule
from engine.pattern.finder import Finder
from engine.pattern.join import IndexName, Join, tours
from engine.pattern.matches import Change, describe
from engine.pattern.scope import scopes_of
from engine.pattern.store import EXPIRES, FIELDS, FRONTIER, MEMBER, ORDER, T_A, Store
from engine.pattern.stream_clocks import Moved, StreamClocks
from engine.query.expression import View, mask
from engine.query.fields import attributes_in, attributes_of, own_attribute, released_columns
from engine.query.plan import Attribute, SeqPlan, Step
from engine.released import Released, Strings

_INT_MAX: Final = 2**63 - 1
_DEFAULT_KEEP_LATE_NS: Final = 60 * 10**9


@dataclass(frozen=True, slots=True)
class PatternSettings:
    """``certainty``: ``pairwise`` or ``max-delay`` (R19). ``keep_late_ns``: how late a row may be
    to find its partners; None means 60 s or WITHIN, whichever is longer. ``buffer_warn``: events
    held beyond which ``beyond_limit`` counts (without WITHIN nothing bounds them).
    """

    certainty: str = "pairwise"
    keep_late_ns: int | None = None
    buffer_warn: int = 1_000_000


class SeqMatcher:
    """Operator of a ``SeqPlan``.

    Args:
        plan: the query.
        settings: certainty and bounds.
        site: named in results.
        barrier: turns matches into results; None = as the plan's REALTIME says.

    Raises:
        UserError: an unknown certainty, or negated steps without bounds.
    """

    def __init__(
        self,
        plan: SeqPlan,
        settings: PatternSettings | None = None,
        site: str = DEFAULT_SITE,
        barrier: BarrierSettings | None = None,
    ) -> None:
        self.plan = plan
        self.settings = settings or PatternSettings()
        self.site = site
        self._rule = _rule(self.settings)
        self._scopes = scopes_of(plan)
        asked = Asked(
            plan.name,
            site,
            tuple(step.type for step in plan.steps if step.negated),
            tuple(dict.fromkeys(step.type for step in plan.steps if not step.negated)),
        )
        self._barrier = build_barrier(barrier_in_force(barrier, plan.realtime), asked)
        self._clocks = StreamClocks(frozenset(step.type for step in plan.steps))
        self._keep_ns = _keep_ns(plan, self.settings)
        self._tours = tours(plan)
        self._index_attributes = {hop.index: list(hop.own) for tour in self._tours for hop in tour}
        self._index_attributes |= {scope.index: list(scope.own) for scope in self._scopes}
        self._indexes: dict[IndexName, Index] = {name: Index() for name in self._index_attributes}
        self._joined = [_joined(plan, step) for step in plan.steps]
        self._attributes = _kept_attributes(plan)
        self._store = Store()
        self._too_late = 0

    def required_columns(self) -> set[str]:
        """Without RETURN a match shows every attribute, which no list can name.

        ``engine.query.fields.needed_attributes`` says so.
        """
        return {*FIELDS, "status"} | released_columns(attributes_of(self.plan))

    def counters(self) -> dict[str, int]:
        """``too_late`` rows took no part; ``buffered`` events are held now."""
        over = max(0, self._store.n - self.settings.buffer_warn)
        counts = {"too_late": self._too_late, "buffered": self._store.n, "beyond_limit": over}
        return counts | self._barrier.counters()

    def process(self, released: Released) -> list[Result]:
        moved = self._clocks.advance(released)
        if not released.n:
            return self._barrier.process([], moved.timeline)
        changes = self._changes(released, moved)
        self._purge()
        return self._barrier.process(changes, moved.timeline)

    def advance(self, now: int) -> list[Result]:
        return self._barrier.advance(now)

    def _changes(self, released: Released, moved: Moved) -> list[Change]:
        member = self._membership(released)
        expires = self._expiry(released, member)
        late = (member != 0) & (expires < moved.frontier)
        self._too_late += int(late.sum())
        rows = np.flatnonzero((member != 0) & ~late)
        frontier = moved.frontier[rows]
        first_new = self._store.n
        more = {ORDER: moved.first + rows, EXPIRES: expires[rows], MEMBER: member[rows]}
        if self._scopes:
            more |= {FRONTIER: frontier, T_A: np.full(len(rows), released.t_a)}
        self._store.append(released, rows, self._attributes, more)
        new = np.arange(first_new, self._store.n)
        for name, index in self._indexes.items():
            self._fill(name, index, new, released.strings)
        join = Join(
            self.plan, self._rule, self._store, self._indexes, released.strings, released.t_a,
            first_new, frontier, moved.newest[rows],
        )  # fmt: skip
        finder = Finder(join, self._tours, self._scopes, self._keep_ns, moved.widest[rows])
        found = finder.changes(new)
        if found is None:
            return []
        return describe(finder.positive, self._store, found, released.strings, self.site)

    def finish(self, at: int) -> list[Result]:
        return self._barrier.finish(at)

    def _expiry(self, released: Released, member: np.ndarray) -> np.ndarray:
        if self._keep_ns is None:
            return np.full(released.n, _INT_MAX)
        ref, unc = released.columns["ref"], released.columns["unc"]
        expires = ref + unc + self._keep_ns
        for scope in self._scopes:
            # No match that it may have changed is changed by another one once it is gone.
            longer = 0 if scope.left is not None else self.plan.within_ns or 0
            negative = ref + np.maximum(unc, released.t_a) + self._keep_ns + longer
            mine = member >> scope.step & 1 == 1
            expires = np.where(mine, np.maximum(expires, negative), expires)
        return np.asarray(expires)

    def _membership(self, released: Released) -> np.ndarray:
        """Bit k per row: it satisfies what step k says of it alone."""
        member = np.zeros(released.n, np.int64)
        for place, step in enumerate(self.plan.steps):
            rows = np.flatnonzero(released.columns["type"] == released.strings.find(step.type))
            member[_chosen(step, self._joined[place], released, rows)] |= 1 << place
        return member

    def _fill(self, name: IndexName, index: Index, rows: np.ndarray, strings: Strings) -> None:
        """Enter the events ``rows`` of the store that can be the index's step."""
        rows = rows[self._store.columns[MEMBER][rows] >> name[0] & 1 == 1]
        attributes = self._index_attributes[name]
        views = [self._store.view(rows, released_columns([a]), strings) for a in attributes]
        key = hash_of(attributes, views, len(rows))
        index.add(key, self._store.columns["ref"][rows], rows)

    def _purge(self) -> None:
        """Drop expired events once they are half of what is held."""
        if self._keep_ns is None or not self._store.n:
            return
        alive = self._store.columns[EXPIRES] >= self._clocks.frontier
        if 2 * int(alive.sum()) <= self._store.n:
            number = np.where(alive, np.cumsum(alive) - 1, -1)
            self._store.keep(alive)
            for index in self._indexes.values():
                index.renumber(number)

    def snapshot(self) -> dict[str, Any]:
        return {
            "store": self._store.snapshot(),
            "clocks": self._clocks.snapshot(),
            "too_late": self._too_late,
            "indexes": {
                name: (index.key.copy(), index.ref.copy(), index.row.copy())
                for name, index in self._indexes.items()
            },
            "barrier": self._barrier.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._store.restore(state["store"])
        self._clocks.restore(state["clocks"])
        self._too_late = state["too_late"]
        self._indexes = {
            name: Index(*(column.copy() for column in columns))
            for name, columns in state["indexes"].items()
        }
        self._barrier.restore(state["barrier"])


def _joined(plan: SeqPlan, step: Step) -> list[Attribute]:
    """What a step is joined by with positive steps: without a value it can be joined to none.

    A positive step that only negated ones are joined to matches all the same.
    """
    positive = {other.alias for other in plan.steps if not other.negated and other is not step}
    groups = [group for group in plan.equalities if any(a.alias in positive for a in group)]
    return [a for group in groups for a in group if a.alias == step.alias]


def _rule(settings: PatternSettings) -> Rule:
    known = [rule.value for rule in Rule]
    if settings.certainty not in known:
        raise UserError(f"certainty {settings.certainty!r} is unknown; use {' or '.join(known)}")
    return Rule(settings.certainty)


def _keep_ns(plan: SeqPlan, settings: PatternSettings) -> int | None:
    if plan.within_ns is None:
        return None
    keep_late = settings.keep_late_ns
    if keep_late is None:
        keep_late = max(_DEFAULT_KEEP_LATE_NS, plan.within_ns)
    return plan.within_ns + keep_late


def _kept_attributes(plan: SeqPlan) -> set[str] | None:
    """Own attributes that matches need after the steps' own conditions; None = all."""
    if not plan.returns:
        return None
    used = [*plan.returns, *(a for group in plan.equalities for a in group)]
    used += [a for predicate in plan.others for a in attributes_in(predicate)]
    names = (own_attribute(attribute.name) for attribute in used)
    return {name for name in names if name is not None}


def _chosen(
    step: Step, joined: list[Attribute], released: Released, rows: np.ndarray
) -> np.ndarray:
    """Those of ``rows`` that satisfy the step's WHERE and have what it is joined by."""
    if not len(rows):
        return rows
    names = released_columns([*attributes_in(step.where), *joined, Attribute("ref")])
    columns = {name: released.columns[name][rows] for name in names if name in released.columns}
    view = View.of(columns, released.attr_types, released.strings)
    fine = has_values(joined, view, len(rows))
    if step.where is not None:
        fine &= mask(step.where, columns, view.valid_of, released.attr_types, released.strings)
    return np.asarray(rows[fine])
