"""What becomes of one query's results: given, held, marked, dropped, or never told (Z10 5.2).

A result that agrees with every rule is given as it is. One that does not is held for as long as the
rules say that it breaks, and judged again: it may agree by then, as what spoke against it was taken
back, or what speaks for it has come. Else it is given with the names of the rules, or dropped. What
is taken back while it is held never shows; what takes back a marked one is marked alike.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from engine.check.history import Asked, History
from engine.check.judged import JudgedResults, judged_of, marked
from engine.check.results import NewResults, taken_values
from engine.check.rules import Rules
from engine.check.waiting import WaitingResults
from engine.kernels.integers import INT_MAX
from engine.results.identity import partners
from engine.stream.released import Strings

REMEMBERED: Final = 1 << 16
"""So many results that were marked or dropped are known, should they be taken back; beyond, the
oldest are forgotten and counted: what takes them back goes out without a mark.
"""
NOBODY: Final = -1


class MarkedBefore(NamedTuple):
    """Results that went out marked, or not at all: (int64, uint64, bool)."""

    identity: np.ndarray
    broken: np.ndarray
    dropped: np.ndarray


class RuleVerdicts(NamedTuple):
    """By result: which rules it breaks (uint64), and whether it is dropped, or held for now."""

    broken: np.ndarray
    dropped: np.ndarray
    held: np.ndarray


class TakenBack(NamedTuple):
    """What takes something back: its row among the new results, and what it takes back, which is
    one of those remembered, held or new; NOBODY: none of these.
    """

    row: np.ndarray
    remembered: np.ndarray
    held: np.ndarray
    new: np.ndarray


class QueryJudge:
    """Of one query.

    Args:
        rules: of the query.
        kind: of its results.
    """

    def __init__(self, rules: Rules, kind: str) -> None:
        self.rules, self._kind = rules, kind
        self.waiting = WaitingResults()
        none = np.zeros(0, np.int64)
        self._known = MarkedBefore(none, none.astype(np.uint64), none.astype(np.bool_))
        self.counts = dict.fromkeys(
            ("doubtful", "dropped_by_checks", "spared_by_checks", "forgotten_by_checks"), 0
        )

    @property
    def due(self) -> int:
        """When the first held result is [ns]; INT_MAX: none is held."""
        return int(self.waiting.held.deadline.min(initial=INT_MAX))

    def settle(
        self, new: NewResults, history: History, strings: Strings, now: int, *, end: bool
    ) -> list[JudgedResults] | None:
        """What goes out by ``now`` [ns]; None: ``new``, as they are.

        Args:
            new: results, which ``history`` has already.
            history: of all queries.
            strings: what codes of texts mean.
            now: up to when all that is known of others is in ``history``.
            end: nothing comes any more: all that is held is judged.
        """
        judged = self._judged(new, history, strings)
        first = len(self.waiting)
        held_rows = np.flatnonzero(judged.held)
        self.waiting.add(new, held_rows, self.rules.hold(judged.broken[held_rows]))
        back = self._taken_back(new, first, held_rows)
        held = self.waiting.held
        of_held = back.held != NOBODY
        early = of_held.copy()
        early[of_held] = new.at[back.row[of_held]] < held.deadline[back.held[of_held]]
        spared = np.zeros(len(held.at), np.bool_)
        spared[back.held[early]] = True
        over = ~spared & (np.full(len(held.at), end) | (held.deadline <= now))
        last = self._judged_again(np.flatnonzero(over), history, strings, now)
        if not (judged.broken.any() or len(held.at) or (back.remembered != NOBODY).any()):
            return None
        final = self._follow(judged, back, early, last)
        pieces = self._given(new, final, np.flatnonzero(over & ~last.dropped), last, now)
        self._count(new, final, over, spared, last)
        self._remember(new, final, back, over, last)
        self.waiting.keep(np.flatnonzero(~over & ~spared))
        return pieces

    def _judged(self, new: NewResults, history: History, strings: Strings) -> RuleVerdicts:
        """Of new results, by what was known before each; of what takes back, nothing yet."""
        plus = np.flatnonzero(new.plus)
        broken = np.zeros(len(new.at), np.uint64)
        asked = Asked(new.key[plus], new.at[plus], new.place[plus], new.at[plus])
        values = taken_values(new.values, plus)
        broken[plus] = self.rules.broken(values, asked, history, strings)
        held = self.rules.hold(broken) > 0
        return RuleVerdicts(broken, self.rules.dropped(broken) & ~held, held)

    def _judged_again(
        self, rows: np.ndarray, history: History, strings: Strings, now: int
    ) -> RuleVerdicts:
        """Of the held results at ``rows``, by what is known when they are due."""
        held = self.waiting.held
        broken = np.zeros(len(held.at), np.uint64)
        until = np.maximum(np.minimum(held.deadline, now), held.at + 1)
        for mine, content, inside in self.waiting.contents(rows):
            asked = Asked(held.key[mine], held.at[mine], held.place[mine], until[mine])
            values = taken_values(content.values, inside)
            broken[mine] = self.rules.broken(values, asked, history, strings)
        return RuleVerdicts(broken, self.rules.dropped(broken), np.zeros(len(broken), np.bool_))

    def _taken_back(self, new: NewResults, first: int, held_rows: np.ndarray) -> TakenBack:
        """``first``: of the held, the first that is new: those are rows ``held_rows``."""
        known, old = len(self._known.identity), self.waiting.held.identity[:first]
        identity = np.concatenate((self._known.identity, old, new.identity))
        before = known + first
        plus = np.concatenate((np.ones(before, np.bool_), new.plus))
        rows = np.flatnonzero(~new.plus)
        of = partners(identity, plus)[before + rows]
        held = np.where((of >= known) & (of < before), of - known, NOBODY)
        place = np.full(len(new.at), NOBODY)
        place[held_rows] = first + np.arange(len(held_rows))
        is_new = of >= before
        fresh = np.where(is_new, of - before, 0)
        held[is_new] = place[fresh[is_new]]
        return TakenBack(
            rows,
            np.where((of >= 0) & (of < known), of, NOBODY),
            held,
            np.where(is_new & (held == NOBODY), fresh, NOBODY),
        )

    def _follow(
        self, judged: RuleVerdicts, back: TakenBack, early: np.ndarray, last: RuleVerdicts
    ) -> RuleVerdicts:
        """``judged``, and what takes something back goes the way of what it takes back."""
        broken, dropped = judged.broken.copy(), judged.dropped.copy()
        ways = (
            (back.remembered, self._known.broken, self._known.dropped),
            (back.held, last.broken, last.dropped),
            (back.new, judged.broken, judged.dropped),
        )
        for of, its_broken, its_dropped in ways:
            there = of != NOBODY
            rows = back.row[there]
            broken[rows], dropped[rows] = its_broken[of[there]], its_dropped[of[there]]
        dropped[back.row[early]] = True
        return RuleVerdicts(broken, dropped, judged.held)

    def _given(
        self,
        new: NewResults,
        final: RuleVerdicts,
        released: np.ndarray,
        last: RuleVerdicts,
        now: int,
    ) -> list[JudgedResults]:
        """What goes out, in order of time; of one time, what is due goes first, and what was held
        until the end last.
        """
        tables: list[pa.Table] = []
        places: list[np.ndarray] = []
        columns: list[tuple[np.ndarray, ...]] = []
        held = self.waiting.held
        for mine, content, inside in self.waiting.contents(released):
            at = np.minimum(held.deadline[mine], now)
            when = np.where(held.deadline[mine] <= now, 0, 2)
            columns.append((at, when, held.place[mine], last.broken[mine]))
            tables.append(content.table)
            places.append(inside)
        out = ~final.dropped & ~final.held
        for table, start, end in zip(new.tables, new.starts, new.starts[1:], strict=False):
            mine = np.arange(start, end)[out[start:end]]
            behind = np.ones(len(mine), np.int64)
            columns.append((new.at[mine], behind, new.place[mine], final.broken[mine]))
            tables.append(table)
            places.append(mine - start)
        if not tables:
            return []
        at, behind, number, broken = map(np.concatenate, zip(*columns, strict=True))
        of = np.repeat(np.arange(len(tables)), [len(each) for each in places])
        place = np.concatenate(places)
        order = np.lexsort((number, behind, at))
        cuts = np.flatnonzero(np.diff(of[order])) + 1
        return [
            judged_of(self._kind)(
                marked(
                    tables[int(of[rows[0]])].take(pa.array(place[rows])),
                    at[rows], broken[rows], self.rules.names,
                )
            )
            for rows in np.split(order, cuts)
            if len(rows)
        ]  # fmt: skip

    def _count(
        self,
        new: NewResults,
        final: RuleVerdicts,
        over: np.ndarray,
        spared: np.ndarray,
        last: RuleVerdicts,
    ) -> None:
        """Of results, not of what takes them back."""
        told = new.plus & ~final.held & (final.broken != 0)
        late = over & (last.broken != 0)
        self.counts["doubtful"] += int((told & ~final.dropped).sum() + (late & ~last.dropped).sum())
        dropped = (new.plus & final.dropped).sum() + (over & last.dropped).sum()
        self.counts["dropped_by_checks"] += int(dropped)
        self.counts["spared_by_checks"] += int(spared.sum())

    def _remember(
        self,
        new: NewResults,
        final: RuleVerdicts,
        back: TakenBack,
        over: np.ndarray,
        last: RuleVerdicts,
    ) -> None:
        """What went out marked or not at all, and was not taken back since."""
        old = np.ones(len(self._known.identity), np.bool_)
        old[back.remembered[back.remembered != NOBODY]] = False
        late = over & (last.broken != 0)
        late[back.held[back.held != NOBODY]] = False
        told = new.plus & ~final.held & (final.broken != 0)
        told[back.new[back.new != NOBODY]] = False
        identity = self.waiting.held.identity
        known = [
            (self._known.identity[old], self._known.broken[old], self._known.dropped[old]),
            (identity[late], last.broken[late], last.dropped[late]),
            (new.identity[told], final.broken[told], final.dropped[told]),
        ]
        found = MarkedBefore(*map(np.concatenate, zip(*known, strict=True)))
        beyond = max(len(found.identity) - REMEMBERED, 0)
        self.counts["forgotten_by_checks"] += beyond
        self._known = MarkedBefore(*(column[beyond:] for column in found))

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "waiting": self.waiting.snapshot(),
            "known": tuple(self._known),
            "counts": dict(self.counts),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self.waiting.restore(state["waiting"])
        self._known = MarkedBefore(*state["known"])
        self.counts = dict(state["counts"])
