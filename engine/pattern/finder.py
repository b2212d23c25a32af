"""What the new rows of a batch do to matches: those they complete, and those they take away.

L09 VII's Algorithms 3 and 4 in columns: a negative event is joined with the positive events that
were released earlier, and what an earlier negative event had invalidated is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.pattern.candidates import hash_of, latest_before
from engine.pattern.certainty import Rule, order, within
from engine.pattern.join import Hop, Join
from engine.pattern.matches import Found, Verdicts, verdicts
from engine.pattern.scope import Scope
from engine.pattern.standing import Doubts, Standing
from engine.pattern.store import EXPIRES, FRONTIER, MEMBER, ORDER, T_A
from engine.query.fields import released_columns
from engine.query.plan import SeqPlan


@dataclass(slots=True)
class Finder:
    """One batch's search.

    ``tours``: per step of the plan (``engine.pattern.join.tours``). ``keep_ns``: how long beyond
    its ref an event is kept, None for ever. ``widest``: per new row, the widest uncertainty yet.
    """

    join: Join
    tours: list[list[Hop]]
    scopes: list[Scope]
    keep_ns: int | None
    widest: np.ndarray

    @property
    def places(self) -> list[int]:
        """Places in the plan of the positive steps."""
        steps = self.join.plan.steps
        return [number for number, step in enumerate(steps) if not step.negated]

    @property
    def positive(self) -> SeqPlan:
        """The plan's positive steps."""
        plan = self.join.plan
        return replace(plan, steps=tuple(step for step in plan.steps if not step.negated))

    def changes(self, new: np.ndarray) -> Found | None:
        """What the rows ``new`` of the store do; None when nothing."""
        parts = []
        completed = self._blocks(new, self.places, self.join)
        if completed is not None:
            parts.append(self._completed(*completed))
        if self.scopes:
            widest_t_a = int(self.join.store.columns[T_A].max(initial=0))
            join = replace(self.join, t_a=widest_t_a, floor=self._floors(new, widest_t_a))
            met = self._blocks(new, [scope.step for scope in self.scopes], join)
            changed = None if met is None else self._changed(*met)
            if changed is not None:
                parts.append(changed)
        return _joined(parts)

    def _floors(self, new: np.ndarray, t_a: int) -> dict[tuple[int, int], np.ndarray]:
        """How far back an event of a negated step is worth joining, where clocks do not err.

        What lies before the latest earlier such event had been invalidated by that one, if nothing
        but equalities joins the step with others. So the work stays in proportion to the output.
        """
        join, columns = self.join, self.join.store.columns
        if t_a or columns["unc"].any():
            return {}
        found = {}
        for scope in self.scopes:
            if scope.left is None or scope.predicates:
                continue
            names = [released_columns([attribute]) for attribute in scope.own]
            views = [join.store.view(new, each, join.strings) for each in names]
            index = join.indexes[scope.index]
            before = latest_before(
                index.key, index.ref, index.row, hash_of(list(scope.own), views, len(new)),
                columns["ref"][new], columns[ORDER][new], columns[FRONTIER][new], columns[ORDER],
                columns[EXPIRES],
            )  # fmt: skip
            known = before >= 0
            for each in names:  # equal keys may still be different values
                for name in each & columns.keys():
                    known &= columns[name][before] == columns[name][new]
            floor = np.where(known, columns["ref"][before], np.iinfo(np.int64).min)
            found[scope.step, scope.left] = floor
        return found

    def _blocks(
        self, new: np.ndarray, steps: list[int], join: Join
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """(combinations, the new row of each) whose new row is one of ``steps``."""
        blocks, cause = [], []
        for place in steps:
            rows = new[join.store.columns[MEMBER][new] >> place & 1 == 1]
            for block in join.matches(self.tours[place], place, rows):
                blocks.append(block)
                cause.append(block[:, place])
        if not blocks:
            return None
        return np.concatenate(blocks), np.concatenate(cause)

    def _completed(self, rows: np.ndarray, completing: np.ndarray) -> Found:
        """New matches; some are invalidated already."""
        killed, doubts = self._before(rows, completing, 0)
        after = self._verdicts(rows, completing, killed, doubts)
        none = np.zeros(len(rows), np.bool_)
        before = Verdicts(none, none.copy(), np.zeros(len(rows)))
        closes = self._closes(rows, completing)
        return Found(rows[:, self.places], completing, completing, before, after, closes)

    def _changed(self, rows: np.ndarray, cause: np.ndarray) -> Found | None:
        """Older matches that the rows ``cause`` of negated steps meet."""
        # A row may meet a match in several scopes: one change.
        rows = rows.copy()
        rows[:, [scope.step for scope in self.scopes]] = -1
        both = np.unique(np.column_stack([rows, cause]), axis=0)
        rows, cause = both[:, :-1], both[:, -1]
        columns = self.join.store.columns
        mine = rows[:, self.places]
        latest = columns[ORDER][mine].argmax(axis=1)
        completing = mine[np.arange(len(mine)), latest]
        fits = (columns[EXPIRES][mine] >= columns[FRONTIER][completing][:, None]).all(axis=1)
        fits &= self._standing().alive_until(rows) >= columns[FRONTIER][cause]
        if self.join.rule is Rule.MAX_DELAY:
            fits &= self._possible(mine, columns[T_A][completing])
        rows, completing, cause = rows[fits], completing[fits], cause[fits]
        if not len(rows):
            return None
        number = columns[ORDER][cause]
        killed, doubts = self._before(rows, completing, number)
        stood = np.flatnonzero(~killed)
        rows, completing, cause = rows[stood], completing[stood], cause[stood]
        if not len(rows):
            return None
        before = self._verdicts(rows, completing, killed[stood], doubts.of(stood))
        killed, doubts = self._before(rows, completing, number[stood] + 1)
        after = self._verdicts(rows, completing, killed, doubts)
        closes = np.zeros((len(rows), len(self.scopes) + 1), np.int64)
        return Found(rows[:, self.places], completing, cause, before, after, closes)

    def _standing(self) -> Standing:
        t_a = int(self.join.store.columns[T_A].max(initial=0))
        return Standing(replace(self.join, t_a=t_a), self.scopes, self.keep_ns)

    def _before(
        self, rows: np.ndarray, completing: np.ndarray, limit: np.ndarray | int
    ) -> tuple[np.ndarray, Doubts]:
        """As ``Standing.before``; limit 0: before the completing row."""
        if not self.scopes:
            none = np.empty(0, np.int64)
            return np.zeros(len(rows), np.bool_), Doubts(none, none, none)
        number = self.join.store.columns[ORDER][completing]
        return self._standing().before(rows, completing, np.maximum(number, limit))

    def _verdicts(
        self, rows: np.ndarray, completing: np.ndarray, killed: np.ndarray, doubts: Doubts
    ) -> Verdicts:
        """With the T_a in force when the match changed last."""
        join, columns = self.join, self.join.store.columns
        t_a = np.full(len(rows), join.t_a)
        if self.scopes:
            changed = columns[ORDER][completing].copy()
            np.maximum.at(changed, doubts.match, columns[ORDER][doubts.row])
            t_a = columns[T_A][np.searchsorted(columns[ORDER], changed)]
        return verdicts(
            self.positive, join.rule, t_a, join.store, rows[:, self.places], killed,
            self._positive_scopes(), doubts,
        )  # fmt: skip

    def _positive_scopes(self) -> list[Scope]:
        """The scopes with places among the positive steps only."""
        place = {step: number for number, step in enumerate(self.places)}
        return [
            replace(
                scope,
                left=None if scope.left is None else place[scope.left],
                right=None if scope.right is None else place[scope.right],
                first=0,
                last=len(place) - 1,
            )
            for scope in self.scopes
        ]

    def _possible(self, rows: np.ndarray, t_a: np.ndarray) -> np.ndarray:
        """Where ``rows`` (matches, positive steps) were a match when they were completed."""
        rule, store = self.join.rule, self.join.store
        clocks = [store.clock(rows[:, step]) for step in range(rows.shape[1])]
        fits = np.ones(len(rows), np.bool_)
        for second in range(1, len(clocks)):
            for first in range(second):
                fits &= order(rule, t_a, clocks[first], clocks[second])[0]
        within_ns = self.join.plan.within_ns
        if within_ns is not None and len(clocks) > 1:
            fits &= within(rule, t_a, clocks[0], clocks[-1], within_ns)[0]
        return fits

    def _closes(self, rows: np.ndarray, completing: np.ndarray) -> np.ndarray:
        """The least promises after which nothing can change; see ``engine.pattern.matches.Change``.

        An end x that is open is closed by a promise of x, a closed one by x + 1. Where clocks
        err, so much later that no event as uncertain as the worst one yet may lie before it.
        """
        join, columns = self.join, self.join.store.columns
        widest = self.widest[completing - join.first_new]

        def promise(step: int, longer: int | None) -> np.ndarray:
            mine = rows[:, step]
            error = columns["unc"][mine] + widest
            if join.rule is Rule.MAX_DELAY:
                error = np.full(len(rows), join.t_a)
            # An error makes an open end as good as closed: what lies at it may lie before it.
            beyond = np.where(error > 0, 1, 0) if longer is None else longer + 1
            return np.asarray(columns["ref"][mine] + error + beyond)

        ends = [
            promise(scope.end[0], join.plan.within_ns if scope.end[1] else None)
            for scope in self.scopes
        ]
        return np.column_stack([*ends, promise(self.places[-1], None)])


def _joined(parts: list[Found]) -> Found | None:
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]

    def all_of(of: list[Verdicts]) -> Verdicts:
        return Verdicts(
            np.concatenate([v.stands for v in of]),
            np.concatenate([v.confirmed for v in of]),
            np.concatenate([v.chance for v in of]),
        )

    return Found(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.completing for part in parts]),
        np.concatenate([part.cause for part in parts]),
        all_of([part.before for part in parts]),
        all_of([part.after for part in parts]),
        np.concatenate([part.closes for part in parts]),
    )
