"""What rows do to matches, in columns, in an order that no cut of the stream can change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.barrier.changes import ORDER, Changes, Verdicts
from engine.kernels.integers import NONE
from engine.pattern.compiled.program import compile_programs, uses_text_order
from engine.pattern.compiled.program_texts import text_constants, text_ranks
from engine.pattern.compiled.tables import Layout, members_of, relations_in
from engine.pattern.store import REF_END, Store
from engine.pattern.verdict.certainty import Clock, Conditions, Doubts, Rule, chances
from engine.stream.released import Strings
from engine.stream.timeline import LONG_AGO

_BITS: Final = 62
"""Of a key by which matches are sorted."""


@dataclass(slots=True)
class Judge:
    """Makes changes of what the kernel has found."""

    layout: Layout
    rule: Rule
    store: Store
    strings: Strings

    def changes(self, facts: np.ndarray, rows: np.ndarray, doubts: np.ndarray) -> Changes | None:
        """Of what the kernel gives (``FOUND`` records, the events of each match
        by step, doubts); None if nothing changes.
        """
        n = len(facts)
        if not n:
            return None
        rows = rows.copy()
        is_new, stands = facts["new"] == 1, facts["stands"] == 1
        after = self._verdicts(rows, facts, stands, "sure", "t_a_now", doubts)
        old = doubts[doubts["event"] != facts["cause"][doubts["match"]]]
        before = self._verdicts(rows, facts, ~is_new, "sure_before", "t_a_before", old)
        same = (before.confirmed == after.confirmed) & (before.chance == after.chance)
        seen = np.flatnonzero(~(before.stands & after.stands & same))
        branch, cause, completing = (
            facts[name].copy() for name in ("branch", "cause", "completing")
        )
        last = self._last(rows, branch)
        found = Changes(
            rows, branch, completing, cause, before, after,
            self._closes(rows, facts, is_new, last), self._known_at(rows), last,
        )  # fmt: skip
        found = found.take(seen) if len(seen) < n else found
        return found.take(self.in_order(found))

    def _known_at(self, rows: np.ndarray) -> np.ndarray:
        # Step by step, as one row of many columns after the other is slow to read.
        arrival = np.append(self.store.columns["arrival"][: self.store.n], LONG_AGO)
        found = np.full(len(rows), LONG_AGO)
        for step in range(rows.shape[1]):
            np.maximum(found, arrival[rows[:, step]], out=found)
        return found

    def _last(self, rows: np.ndarray, branch: np.ndarray) -> np.ndarray:
        found = np.empty(len(rows), np.int64)
        ref = self.store.columns[REF_END if self._by_ends else "ref"]
        for number in range(len(self.layout.branches)):
            mine = branch == number
            found[mine] = np.maximum.reduce([ref[rows[mine, s]] for s in self._lasts(number)])
        return found

    @property
    def _by_ends(self) -> bool:
        return self.layout.by_ends

    def _lasts(self, branch: int) -> list[int]:
        """Steps that no other one must follow."""
        return [self.layout.places[branch][step] for step in self.layout.shapes[branch].lasts]

    def _verdicts(
        self, rows: np.ndarray, facts: np.ndarray, stands: np.ndarray, sure: str, t_a: str,
        doubts: np.ndarray,
    ) -> Verdicts:  # fmt: skip
        doubted = np.zeros(len(rows), np.bool_)
        doubted[doubts["match"]] = True
        confirmed = (facts[sure] == 1) & ~doubted
        chance = np.ones(len(rows))
        unsure = stands & ~confirmed
        if unsure.any():
            for which in (unsure & doubted, unsure & ~doubted):
                for branch in np.unique(facts["branch"][which]).tolist():
                    places = np.flatnonzero(which & (facts["branch"] == branch))
                    chance[places] = self._chances(
                        branch, rows[places], facts[t_a][places], self._about(places, doubts)
                    )
        return Verdicts(stands, confirmed, chance)

    def _about(self, matches: np.ndarray, doubts: np.ndarray) -> Doubts:
        """The doubts about ``matches``, which get the numbers 0, 1, ..."""
        number = np.full(int(doubts["match"].max(initial=-1)) + 1, NONE)
        known = matches < len(number)
        number[matches[known]] = np.flatnonzero(known)
        doubts = doubts[number[doubts["match"]] >= 0]
        match, event = number[doubts["match"]], doubts["event"]
        order = self.store.columns[ORDER][event]
        places = np.lexsort((doubts["scope"], order, match))
        return Doubts(
            match[places], self.store.clock(event[places]), event[places], order[places],
            doubts["scope"][places],
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
        of = tables.branches[branch]
        asked = [of, *tables.scopes[of["scopes_from"] : of["scopes_to"]]]
        clocked = tables.conditions["clocked"]
        if not any(clocked[one["conditions_from"] : one["conditions_to"]].any() for one in asked):
            return None
        programs = compile_programs(
            layout.predicates, layout.place, layout.register, store.kinds, self.strings
        )
        ranks = np.empty(0, np.int64)
        if uses_text_order(programs):
            ranks = text_ranks(self.strings, text_constants(layout.predicates))
        return Conditions(programs, ranks, store.registers.raw, store.registers.ok, store.events)

    def _members(self, branch: int) -> np.ndarray:
        return members_of(self.layout.tables, branch)

    def _closes(
        self, rows: np.ndarray, facts: np.ndarray, is_new: np.ndarray, last: np.ndarray
    ) -> np.ndarray:
        """Times up to which nothing may come any more, before nothing can change.

        An end x that is open is closed by a promise of x, a closed one by x + 1; where clocks err,
        by as much more as the match's own events may be wrong. By how much others may be, the
        promises are shortened (``engine.clocks.stream_clocks``).
        """
        tables, columns = self.layout.tables, self.store.columns
        found = np.full((len(rows), len(tables.scopes) + 1), LONG_AGO)
        for branch in range(len(self.layout.branches)):
            mine = np.flatnonzero(is_new & (facts["branch"] == branch))
            if not len(mine):
                continue

            def until(end: np.void, mine: np.ndarray = mine) -> np.ndarray:
                row = rows[mine, end["right"]]
                own = 0 if self.rule is Rule.MAX_DELAY else columns["unc"][row]
                beyond = end["bound"] + 1 - end["strict"]
                time = columns[REF_END if end["right_end"] else "ref"][row]
                return np.asarray(time + own + beyond)

            of = tables.branches[branch]
            for scope in range(of["scopes_from"], of["scopes_to"]):
                # All that bound it above must be passed by: then the least of them is.
                ends = relations_in(tables, scope)
                above = ends[ends["left"] == tables.scopes["step"][scope]]
                if self._by_ends:
                    # Promises are of ends: one says nothing of when a later interval began.
                    above = above[above["left_end"] == 1]
                uppers = [until(end) for end in above]
                found[mine, scope] = np.minimum.reduce(uppers)
            found[mine, -1] = last[mine]
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
        keys = [columns[ORDER][found.cause], ~found.before.stands, found.branch]
        rank, most = self._ranks(rows)
        bits = int(most + 1).bit_length()
        together = max(1, _BITS // bits)
        for step in range(0, rows.shape[1], together):
            # Ranks of several steps in one key, the first of them highest.
            key = np.zeros(len(rows), np.int64)
            for mine in range(step, min(step + together, rows.shape[1])):
                key = key << bits | (rank[rows[:, mine]] + 1)
            keys.append(key)
        return np.lexsort(keys[::-1])

    def _ranks(self, rows: np.ndarray) -> tuple[np.ndarray, int]:
        """Of the events in ``rows``, by their places in the store: where each stands by ref, source
        name and seq; and the largest. -1 at the place -1.
        """
        columns, n = self.store.columns, self.store.n
        used = np.zeros(n + 1, np.bool_)
        used[rows] = True
        used[-1] = False
        events = np.flatnonzero(used)
        codes, which = np.unique(columns["source"][events], return_inverse=True)
        names = [self.strings.text(int(code)) or "" for code in codes]
        name_rank = np.argsort(np.argsort(np.array(names, dtype=str)))[which]
        keys = (columns[ORDER][events], columns["seq"][events], name_rank, columns["ref"][events])
        rank = np.full(n + 1, -1)
        rank[events[np.lexsort(keys)]] = np.arange(len(events))
        return rank, len(events) - 1
