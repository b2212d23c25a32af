"""What late events change, found afterwards: the matches with them against those without them.

Events that were put off are not the last of the stream when their turn comes: others, released
later, have been matched since. What they do is defined by the order of release (which events were
still held when they met, which T_a was in force), so all events in reach go once more through an
empty kernel in that order, with the late ones and, where these can take matches back, without.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.pattern.certainty import Rule
from engine.pattern.kernel import Kernel, StackOptions
from engine.pattern.matches import Changes, Judge, Verdicts
from engine.pattern.store import MEMBER, Store
from engine.pattern.tables import Layout
from engine.released import Strings


@dataclass(slots=True)
class Replay:
    """``store``: all events in reach, in release order; ``late``: marks those that are new among
    them. ``widest``: the largest uncertainty yet.
    """

    layout: Layout
    rule: Rule
    within_ns: int
    keep_ns: int
    store: Store
    strings: Strings
    widest: int

    def changes(self, late: np.ndarray) -> Changes | None:
        """What the events marked in ``late`` change, as if all at once; rows of ``store``.

        ``cause`` and ``completing`` are 0 and say nothing.
        """
        member = self.store.columns[MEMBER]
        negated = sum({1 << step for step, _ in self.layout.negated()})
        takes_back = bool((member[: self.store.n][late] & negated).any())
        after = self._net()
        before = None
        if takes_back:
            mine = member[: self.store.n].copy()
            member[: self.store.n][late] = 0
            before = self._net()
            member[: self.store.n] = mine
        elif after is not None:
            rows = after.rows
            after = after.take(np.flatnonzero((late[rows] & (rows >= 0)).any(axis=1)))
        found = _difference(before, after)
        return None if found is None else found.take(self._judge().in_order(found))

    def _judge(self) -> Judge:
        widest = np.full(self.store.n, self.widest)
        return Judge(self.layout, self.rule, self.store, self.strings, widest, 0)

    def _net(self) -> Changes | None:
        """The matches that stand in the end, as if new."""
        kernel = Kernel(self.layout, self.rule, self.within_ns, self.keep_ns, StackOptions())
        changes = self._judge().changes(*kernel.construct(self.store, 0, self.strings, {}))
        if changes is None:
            return None
        which = _which(changes.rows, changes.branch)
        first, last = np.empty((2, int(which.max()) + 1), np.int64)
        places = np.arange(len(which))
        last[which] = places
        first[which[::-1]] = places[::-1]
        net = changes.take(first)
        net.after = changes.after.take(last)
        return net.take(np.flatnonzero(net.after.stands))


def _which(rows: np.ndarray, branch: np.ndarray) -> np.ndarray:
    """Equal numbers, from 0 on, for equal matches."""
    _, which = np.unique(np.column_stack([branch, rows]), axis=0, return_inverse=True)
    return which.reshape(-1)


def _difference(before: Changes | None, after: Changes | None) -> Changes | None:
    """From the matches ``before`` to those ``after``; None if they are the same."""
    parts = [part for part in (before, after) if part is not None and len(part)]
    if not parts:
        return None
    old = len(before) if before is not None else 0
    rows, branch, closes, known_at, last_ns = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("rows", "branch", "closes", "known_at", "last_ns")
    )
    which = _which(rows, branch)
    n, places = int(which.max()) + 1, np.arange(len(which))
    one = np.empty(n, np.int64)
    one[which] = places  # of those after, if it stands then
    was, now = np.full(n, -1), np.full(n, -1)
    was[which[:old]] = places[:old]
    now[which[old:]] = places[old:] - old
    verdicts = _verdicts(was, before), _verdicts(now, after)
    found = Changes(
        rows[one], branch[one], np.zeros(n, np.int64), np.zeros(n, np.int64), *verdicts,
        closes[one], known_at[one], last_ns[one],
    )  # fmt: skip
    was_, now_ = verdicts
    same = (was_.stands == now_.stands) & (was_.confirmed == now_.confirmed)
    changed = np.flatnonzero(~(same & (was_.chance == now_.chance)))
    return found.take(changed) if len(changed) else None


def _verdicts(place: np.ndarray, of: Changes | None) -> Verdicts:
    """Of the matches at ``place``; -1: it does not stand."""
    stands = place >= 0
    if of is None or not len(of):
        return Verdicts(stands, np.zeros(len(place), np.bool_), np.ones(len(place)))
    confirmed = np.where(stands, of.after.confirmed[place], False)
    return Verdicts(stands, confirmed, np.where(stands, of.after.chance[place], 1.0))
