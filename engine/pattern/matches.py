"""What rows do to matches, in columns, in an order that no cut of the stream can change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.barrier.changes import ORDER, Changes, Verdicts
from engine.kernels.integers import NONE
from engine.pattern import construction as c
from engine.pattern import scopes
from engine.pattern.certainty import Clock, Conditions, Doubts, Rule, chances
from engine.pattern.program import compile_programs, uses_text_order
from engine.pattern.program_texts import text_constants, text_ranks
from engine.pattern.store import Store
from engine.pattern.tables import NOT_LONG_AFTER, UPPER, Layout
from engine.stream.released import Strings
from engine.stream.timeline import LONG_AGO


@dataclass(slots=True)
class Judge:
    """Makes changes of what the kernel has found."""

    layout: Layout
    rule: Rule
    store: Store
    strings: Strings

    def changes(self, facts: np.ndarray, doubts: np.ndarray) -> Changes | None:
        """Of what is in ``found`` and ``doubts``; None if nothing changes."""
        n = len(facts)
        if not n:
            return None
        rows = facts[:, c.FACTS :].copy()
        is_new, stands = facts[:, c.NEW] == 1, facts[:, c.STANDS] == 1
        after = self._verdicts(rows, facts, stands, c.SURE, c.T_A_NOW, doubts)
        old = doubts[doubts[:, scopes.BY_ROW] != facts[doubts[:, scopes.OF_MATCH], c.CAUSE]]
        before = self._verdicts(rows, facts, ~is_new, c.SURE_BEFORE, c.T_A_BEFORE, old)
        same = (before.confirmed == after.confirmed) & (before.chance == after.chance)
        seen = np.flatnonzero(~(before.stands & after.stands & same))
        branch, cause = facts[:, c.BRANCH].copy(), facts[:, c.CAUSE].copy()
        found = Changes(
            rows, branch, facts[:, c.COMPLETING].copy(), cause, before, after,
            self._closes(rows, facts, is_new), self._known_at(rows), self._last(rows, branch),
        )  # fmt: skip
        found = found.take(seen) if len(seen) < n else found
        return found.take(self.in_order(found))

    def _known_at(self, rows: np.ndarray) -> np.ndarray:
        arrival = self.store.columns["arrival"][rows]
        return np.asarray(np.where(rows >= 0, arrival, LONG_AGO).max(axis=1))

    def _last(self, rows: np.ndarray, branch: np.ndarray) -> np.ndarray:
        found, ref = np.empty(len(rows), np.int64), self.store.columns["ref"]
        for number in range(len(self.layout.branches)):
            mine = branch == number
            found[mine] = np.maximum.reduce([ref[rows[mine, s]] for s in self._lasts(number)])
        return found

    def _lasts(self, branch: int) -> list[int]:
        """Steps that no other one must follow."""
        return [self.layout.places[branch][step] for step in self.layout.shapes[branch].lasts]

    def _verdicts(
        self, rows: np.ndarray, facts: np.ndarray, stands: np.ndarray, sure: int, t_a: int,
        doubts: np.ndarray,
    ) -> Verdicts:  # fmt: skip
        doubted = np.zeros(len(rows), np.bool_)
        doubted[doubts[:, scopes.OF_MATCH]] = True
        confirmed = (facts[:, sure] == 1) & ~doubted
        chance = np.ones(len(rows))
        unsure = stands & ~confirmed
        if unsure.any():
            for which in (unsure & doubted, unsure & ~doubted):
                for branch in np.unique(facts[which, c.BRANCH]).tolist():
                    places = np.flatnonzero(which & (facts[:, c.BRANCH] == branch))
                    chance[places] = self._chances(
                        branch, rows[places], facts[places, t_a], self._about(places, doubts)
                    )
        return Verdicts(stands, confirmed, chance)

    def _about(self, matches: np.ndarray, doubts: np.ndarray) -> Doubts:
        """The doubts about ``matches``, which get the numbers 0, 1, ..."""
        number = np.full(int(doubts[:, scopes.OF_MATCH].max(initial=-1)) + 1, NONE)
        known = matches < len(number)
        number[matches[known]] = np.flatnonzero(known)
        doubts = doubts[number[doubts[:, scopes.OF_MATCH]] >= 0]
        match, event = number[doubts[:, scopes.OF_MATCH]], doubts[:, scopes.BY_ROW]
        order = self.store.columns[ORDER][event]
        places = np.lexsort((doubts[:, scopes.IN_SCOPE], order, match))
        return Doubts(
            match[places], self.store.clock(event[places]), event[places], order[places],
            doubts[places, scopes.IN_SCOPE].copy(),
        )  # fmt: skip

    def _chances(
        self, branch: int, rows: np.ndarray, t_a: np.ndarray, doubts: Doubts
    ) -> np.ndarray:
        clocks: Clock = self.store.clock(rows[:, self._members(branch)])
        return chances(
            self.layout, branch, self.rule, t_a, rows, clocks, doubts, self._conditions(branch)
        )

    def _conditions(self, branch: int) -> Conditions | None:
        """What the branch asks that clock errors change; None: nothing."""
        tables, layout, store = self.layout.tables, self.layout, self.store
        first, last, *_, from_, to = tables.branches[branch, :8].tolist()
        ranges = [(from_, to), *tables.scopes[first:last, 7:9].tolist()]
        if not any(tables.conditions[start:stop, 1].any() for start, stop in ranges):
            return None
        programs = compile_programs(
            layout.predicates, layout.place, layout.register, store.kinds, self.strings
        )
        ranks = np.empty(0, np.int64)
        if uses_text_order(programs):
            ranks = text_ranks(self.strings, text_constants(layout.predicates))
        return Conditions(programs, ranks, store.registers.raw, store.registers.ok, store.events)

    def _members(self, branch: int) -> np.ndarray:
        tables = self.layout.tables
        return tables.members[tables.branches[branch, 4] : tables.branches[branch, 5]]

    def _closes(self, rows: np.ndarray, facts: np.ndarray, is_new: np.ndarray) -> np.ndarray:
        """Times up to which nothing may come any more, before nothing can change.

        An end x that is open is closed by a promise of x, a closed one by x + 1; where clocks err,
        by as much more as the match's own events may be wrong. By how much others may be, the
        promises are shortened (``engine.clocks.stream_clocks``).
        """
        tables, columns = self.layout.tables, self.store.columns
        found = np.full((len(rows), len(tables.scopes) + 1), LONG_AGO)
        for branch, plan in enumerate(self.layout.branches):
            mine = np.flatnonzero(is_new & (facts[:, c.BRANCH] == branch))
            if not len(mine):
                continue

            def until(step: int, longer: int | None, mine: np.ndarray = mine) -> np.ndarray:
                row = rows[mine, step]
                own = 0 if self.rule is Rule.MAX_DELAY else columns["unc"][row]
                beyond = 0 if longer is None else longer + 1
                return np.asarray(columns["ref"][row] + own + beyond)

            first, last = tables.branches[branch, :2].tolist()
            for scope in range(first, last):
                start, stop = tables.scopes[scope, 5:7].tolist()
                ends = tables.relations[start:stop, :2].tolist()
                # All that bound it above must be passed by: then the least of them is.
                uppers = [
                    until(step, plan.within_ns if bits == NOT_LONG_AFTER else None)
                    for step, bits in ends
                    if bits in UPPER
                ]
                found[mine, scope] = np.minimum.reduce(uppers)
            found[mine, -1] = self._last(rows[mine], np.full(len(mine), branch))
        return found

    def in_order(self, found: Changes) -> np.ndarray:
        """Places of the changes by row that causes them, older matches before new ones, by
        branch, then by (ref, source name, seq) step by step. The kernel gives them by row.
        """
        places = np.arange(len(found))
        if len(found) < 2:
            return places
        first, ref = found.cause, self.store.columns["ref"]
        together = first[1:] == first[:-1]
        lead = found.rows[:, 0]
        ahead = (ref[lead[1:]] > ref[lead[:-1]]) & (lead[1:] >= 0) & (lead[:-1] >= 0)
        ahead &= found.before.stands[1:] == found.before.stands[:-1]
        ahead &= found.branch[1:] == found.branch[:-1]
        wrong = together & ~ahead
        if not wrong.any():
            return places
        group = np.concatenate(([0], np.cumsum(~together)))
        some = np.flatnonzero(np.isin(group, group[1:][wrong]))
        places[some] = some[self._sorted(found.take(some))]
        return places

    def _sorted(self, found: Changes) -> np.ndarray:
        columns, rows = self.store.columns, found.rows
        codes, which = np.unique(columns["source"][rows], return_inverse=True)
        names = [self.strings.text(int(code)) or "" for code in codes]
        rank = np.argsort(np.argsort(np.array(names)))[which.reshape(rows.shape)]
        keys = [columns[ORDER][found.cause], ~found.before.stands, found.branch]
        for step in range(rows.shape[1]):
            mine, present = rows[:, step], rows[:, step] >= 0
            keys += [
                np.where(present, key, LONG_AGO)
                for key in (
                    columns["ref"][mine],
                    rank[:, step],
                    columns["seq"][mine],
                    columns[ORDER][mine],
                )
            ]
        return np.lexsort(keys[::-1])
