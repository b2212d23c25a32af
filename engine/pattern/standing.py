"""How a match stands before a given row: killed, in doubt, or untouched by negative events.

Nothing is kept about matches: their standing is derived from the events that are held, so it is
the same whenever it is asked for. A negative event meets a match when the later of the two is
there: the event's row, or the one that completed the match. It counts if, at the meeting, neither
was too old: progress had not passed what the earlier one is kept for (``Standing.alive_until``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.pattern.candidates import hash_of
from engine.pattern.join import Join
from engine.pattern.scope import Scope, inside, reach
from engine.pattern.store import EXPIRES, FRONTIER, ORDER, T_A
from engine.query.fields import released_columns
from engine.query.plan import Comparison

_PAIRS_AT_ONCE = 1 << 20
_WIDER = 4
"""Growth of the number of candidates looked at per round: most matches fall to the first."""


@dataclass(slots=True)
class Doubts:
    """Events that may lie in a scope, but not for certain; sorted by (match, row, scope).

    ``match``: place of the match. ``row``: of the event. ``scope``: number of the scope.
    """

    match: np.ndarray
    row: np.ndarray
    scope: np.ndarray

    def of(self, matches: np.ndarray) -> Doubts:
        """Those of ``matches`` (ascending), which get the numbers 0, 1, ..."""
        number = np.full(int(self.match.max(initial=-1)) + 1, -1)
        known = matches[matches < len(number)]
        number[known] = np.arange(len(known))
        kept = number[self.match] >= 0
        return Doubts(number[self.match[kept]], self.row[kept], self.scope[kept])


@dataclass(slots=True)
class Standing:
    """Of matches: the scopes of the plan's negated steps, and the events (``join``).

    ``join.rule``, ``join.store`` and so on are used; its batch is not.
    """

    join: Join
    scopes: list[Scope]
    keep_ns: int | None

    def alive_until(self, rows: np.ndarray) -> np.ndarray:
        """The last progress at which a new negative event still changes matches ``rows``.

        No later than any of its events expires, even if each clock errs the worst way.
        """
        if self.keep_ns is None:
            return np.full(len(rows), np.iinfo(np.int64).max)
        columns = self.join.store.columns
        rows = rows[:, self._positive()]
        slack = np.maximum(columns["unc"][rows], columns[T_A][rows])
        return np.asarray(columns["ref"][rows].min(axis=1) - slack.max(axis=1) + self.keep_ns)

    def before(
        self, rows: np.ndarray, completing: np.ndarray, limit: np.ndarray
    ) -> tuple[np.ndarray, Doubts]:
        """Where a match was invalidated before row number ``limit``, and the doubts about others.

        Args:
            rows: (matches, steps of the plan); those of negated steps are not looked at.
            completing: per match the row released last.
            limit: per match; number in the released stream.
        """
        killed = np.zeros(len(rows), np.bool_)
        doubts = []
        for place, scope in enumerate(self.scopes):
            met = self._met(scope, rows, completing, limit, killed)
            doubts.append((*met, np.full(len(met[0]), place)))
        owner, event, number = (np.concatenate(part) for part in zip(*doubts, strict=True))
        kept = ~killed[owner]
        owner, event, number = owner[kept], event[kept], number[kept]
        # By number in the stream, as places in the store change when it is purged.
        places = np.lexsort((number, self.join.store.columns[ORDER][event], owner))
        return killed, Doubts(owner[places], event[places], number[places])

    def _positive(self) -> list[int]:
        steps = self.join.plan.steps
        return [number for number, step in enumerate(steps) if not step.negated]

    def _met(
        self, scope: Scope, rows: np.ndarray, completing: np.ndarray, limit: np.ndarray,
        killed: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Marks in ``killed``; gives (match, event) of the others that may lie in the scope."""
        join = self.join
        index = join.indexes[scope.index]
        views = [
            join.store.view(rows[:, step], released_columns([attribute]), join.strings)
            for step, attribute in scope.other
        ]
        key = hash_of([attribute for _, attribute in scope.other], views, len(rows))
        within_ns = join.plan.within_ns
        bounds = reach(scope, join.rule, join.t_a, join.store, rows, within_ns)
        start, left = index.ranges(key, *bounds)
        alive_until = self.alive_until(rows)
        owners, events = [], []
        width = 1
        open_ = np.flatnonzero((left > 0) & ~killed)
        while len(open_):
            width = max(1, min(width, _PAIRS_AT_ONCE // len(open_)))
            take = np.minimum(left[open_], width)
            owner = np.repeat(open_, take)
            ramp = np.arange(len(owner)) - np.repeat(np.cumsum(take) - take, take)
            event = index.row[start[owner] + ramp]
            possible, certain = self._fits(
                scope, rows[owner], completing[owner], event, limit[owner], alive_until[owner]
            )
            killed[owner[certain]] = True
            doubtful = possible & ~certain
            owners.append(owner[doubtful])
            events.append(event[doubtful])
            start[open_] += take
            left[open_] -= take
            open_ = open_[(left[open_] > 0) & ~killed[open_]]
            width *= _WIDER
        none = np.empty(0, np.int64)
        return np.concatenate([none, *owners]), np.concatenate([none, *events])

    def _fits(
        self, scope: Scope, rows: np.ndarray, completing: np.ndarray, event: np.ndarray,
        limit: np.ndarray, alive_until: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """(possible, certain) that ``event`` had invalidated the match before row ``limit``."""
        join, columns = self.join, self.join.store.columns
        first = columns[ORDER][event] < columns[ORDER][completing]
        fits = columns[ORDER][event] < limit
        fits &= (rows[:, self._positive()] != event[:, None]).all(axis=1)
        fits &= np.where(
            first,
            columns[EXPIRES][event] >= columns[FRONTIER][completing],
            alive_until >= columns[FRONTIER][event],
        )
        meeting = np.where(first, completing, event)
        t_a = columns[T_A][meeting]
        wider = rows.copy()
        wider[:, scope.step] = event
        may, must = inside(scope, join.rule, t_a, join.store, wider, join.plan.within_ns)
        fits &= may
        equal = [
            Comparison("=", attribute, own)
            for own, (_, attribute) in zip(scope.own, scope.other, strict=True)
        ]
        for predicate in (*equal, *scope.predicates):
            places = np.flatnonzero(fits)
            fits[places] = join.true_of(predicate, wider[places])
        return fits, fits & must
