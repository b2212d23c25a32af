"""What IBPs say: which intervals have begun, and whether a type announces all of them (L10 5.4.1).

An IBP acts upon the rows released after it arrived. From the first IBP on every type is taken to be
*announced*, until an interval of it comes that has begun since and whose IBP had not come, or an
IBP that tells of a begin which was ruled out, as no interval that was to come could have begun so
early: then nobody can tell what else has begun unheard. Intervals and IBPs that came so are
counted, except of intervals longer than WITHIN, which are in no match (and whose IBP may be
forgotten by then). A copy of an IBP says nothing new.

Where nothing is released, IBPs wait: no progress says that one is out of any window's reach. So at
most ``WAITING_MAX`` wait, and what is forgotten beyond is taken as what may have begun unheard: it
costs the trust in types, which never costs a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from edge_agent import records as r
from engine.pattern.search.state import BEGUN
from engine.stream.columns import Columns
from engine.stream.released import Released

NEVER: Final = 2**63 - 1
WAITING_MAX: Final = 1 << 16
"""IBPs between two released rows, 48 bytes each; memory holds those of one batch beside them."""
_FIELDS: Final = ("type", "source", r.INCARNATION, "ref", r.ARRIVAL, r.ID)


@dataclass(frozen=True, slots=True)
class Heard:
    """``begun``: of BEGUN, in order of the rows they act before. The row from which on types are
    announced (``heard``) and by type that from which on it is no more (``lost``).
    """

    begun: np.ndarray
    heard: int
    lost: dict[str, int]


class Announced:
    """IBPs of the types of one query.

    Args:
        types: of its positive steps, one each.
        within_ns: WITHIN; None: no IBP is ever forgotten.
    """

    def __init__(self, types: Sequence[str], within_ns: int | None) -> None:
        self._types, self._within_ns = tuple(types), within_ns
        self._waiting = {name: np.empty(0, np.int64) for name in _FIELDS}
        self._known = np.empty((0, 4), np.int64)
        self._heard, self._since, self._passed = NEVER, NEVER, -NEVER
        self._lost: dict[str, int] = {}
        self._unheard = np.empty((0, 2), np.int64)
        self.count = self.missing = self.late = self.forgotten = 0

    def begins(self, begun: Columns) -> None:
        """IBPs that have arrived: ``type source incarnation ref arrival id``."""
        self.count += len(begun["ref"])
        # What waits from before has had no row released behind it.
        kept = self._heard_last(self._waiting, np.zeros(len(self._waiting["ref"]), np.int64))
        self._waiting = {
            name: np.concatenate((known[kept], begun[name].astype(np.int64)))
            for name, known in self._waiting.items()
        }

    def before(self, released: Released, first: int, horizon: np.ndarray) -> Heard:
        """What acts upon the rows of a batch, of which the first is row ``first`` of the stream;
        ``horizon``: at each, below which no later interval ends.
        """
        codes = [released.strings.find(name) for name in self._types]
        release = released.columns.get("release", np.empty(0, np.int64))
        last = int(release[-1]) if released.n else -NEVER
        waiting = self._waiting
        now = waiting[r.ARRIVAL] < last
        acting = {name: column[now] for name, column in waiting.items()}
        self._waiting = {name: column[~now] for name, column in waiting.items()}
        order = first + np.searchsorted(release, acting[r.ARRIVAL], side="right")
        kept = self._heard_last(acting, order)
        acting, order = {name: column[kept] for name, column in acting.items()}, order[kept]
        self._unheard_of(codes, first, release, last)
        parts = [np.empty(0, BEGUN)]
        for step, code in enumerate(codes):
            mine = acting["type"] == code
            if mine.any():
                part = np.zeros(int(mine.sum()), BEGUN)
                part["step"], part["time"], part["order"] = step, acting["ref"][mine], order[mine]
                parts.append(part)
        asked = np.flatnonzero(np.isin(acting["type"], codes))
        if self._heard == NEVER and len(asked):
            self._heard, self._since = int(order[asked[0]]), int(acting["ref"][asked[0]])
        passed = np.concatenate(([self._passed], horizon))
        self._came_late(acting, codes, order, passed[order - first])
        self._missed(released, first, codes, acting, order)
        self._passed = int(passed[-1])
        if self._within_ns is not None and len(self._known):
            error = int(released.bound.at(np.array([self._passed]))[0])
            oldest = self._passed - self._within_ns - 2 * error
            self._known = self._known[self._known[:, 3] >= oldest]
        begun = np.concatenate(parts)
        begun = begun[np.lexsort((begun["step"], begun["order"]))]
        return Heard(begun, self._heard, dict(self._lost))

    def _heard_last(self, begun: Columns, before: np.ndarray) -> np.ndarray:
        """Which are among the last ``WAITING_MAX`` that act ``before`` the same row, however they
        came in batches; of the others their types are noted, and when the first came.
        """
        kept = np.searchsorted(before, before, side="right") - np.arange(len(before)) <= WAITING_MAX
        self.forgotten += int((~kept).sum())
        gone = np.stack([begun["type"][~kept], begun[r.ARRIVAL][~kept]], axis=1)
        gone = np.concatenate((self._unheard, gone))
        _, firsts = np.unique(gone[:, 0], return_index=True)
        self._unheard = gone[firsts]
        return np.asarray(kept)

    def _unheard_of(self, codes: list[int], first: int, release: np.ndarray, last: int) -> None:
        """From the row on that a forgotten IBP acts upon, no type of the query is announced."""
        acting = self._unheard[:, 1] < last
        asked = self._unheard[acting & np.isin(self._unheard[:, 0], codes), 1]
        self._unheard = self._unheard[~acting]
        if len(asked):
            row = first + int(np.searchsorted(release, asked.min(), side="right"))
            self._lost |= {name: min(row, self._lost.get(name, NEVER)) for name in self._types}

    def _came_late(
        self, acting: Columns, codes: list[int], order: np.ndarray, passed: np.ndarray
    ) -> None:
        """IBPs of begins before ``passed``, the horizon of the row before theirs."""
        late = np.isin(acting["type"], codes) & (acting["ref"] < passed) & (order > self._heard)
        if self._within_ns is not None:
            late &= acting["ref"] >= passed - self._within_ns
        if not late.any():
            return
        keys = np.stack([acting["source"], acting[r.INCARNATION], acting[r.ID]], axis=1)
        known = np.concatenate((self._known[:, :3], keys))
        # Of several copies the first tells, and so does one that came long ago.
        since = np.arange(len(known)) - len(self._known)
        late &= _first_heard(known, since, keys) == np.arange(len(keys))
        self.late += int(late.sum())
        names = dict(zip(codes, self._types, strict=True))
        for kind, row in zip(acting["type"][late].tolist(), order[late].tolist(), strict=True):
            self._lost[names[kind]] = min(row, self._lost.get(names[kind], NEVER))

    def _missed(
        self, released: Released, first: int, codes: list[int], acting: Columns, order: np.ndarray
    ) -> None:
        """Intervals of announced types that come without an IBP of their own."""
        mine = np.isin(acting["type"], codes)
        fresh = np.stack(
            [acting["source"], acting[r.INCARNATION], acting[r.ID], acting["ref"]], axis=1
        )[mine]
        past = np.zeros(len(self._known), np.int64)
        known, since = np.concatenate((self._known, fresh)), np.concatenate((past, order[mine]))
        self._known = known
        columns = released.columns
        if self._heard == NEVER or not released.n:
            return
        rows = np.flatnonzero(np.isin(columns["type"], codes))
        rows = rows[first + rows >= self._heard]
        long = columns["te"][rows] - columns["ts"][rows]
        rows = rows[(long > 0) & self._may_match(long, columns["unc"][rows])]
        if not len(rows):
            return
        ids = columns.get(r.ID, np.full(released.n, -1))
        incarnation = columns.get(r.INCARNATION, np.zeros(released.n, np.int64))
        asked = np.stack([columns["source"], incarnation, ids], axis=1)[rows].astype(np.int64)
        told = _first_heard(known[:, :3], since, asked) <= first + rows
        self.missing += int((~told).sum())
        lost = rows[~told & (columns["ref"][rows] >= self._since)]
        names = dict(zip(codes, self._types, strict=True))
        kinds, places = np.unique(columns["type"][lost], return_index=True)
        for kind, place in zip(kinds.tolist(), places.tolist(), strict=True):
            row = first + int(lost[place])
            self._lost[names[kind]] = min(row, self._lost.get(names[kind], NEVER))

    def _may_match(self, long: np.ndarray, unc: np.ndarray) -> np.ndarray:
        """Which intervals are no longer than WITHIN: of the others the IBP may be forgotten."""
        if self._within_ns is None:
            return np.ones(len(long), np.bool_)
        return np.asarray(long <= self._within_ns + 2 * unc)

    def codes(self) -> np.ndarray:
        """Codes of texts held: of types, sources and ids, if these are texts."""
        held = [self._waiting[name] for name in ("type", "source", r.ID)]
        held += [self._known[:, 0], self._known[:, 2], self._unheard[:, 0]]
        return np.unique(np.concatenate(held))

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "waiting": {name: column.copy() for name, column in self._waiting.items()},
            "known": self._known.copy(),
            "heard": [self._heard, self._since, self._passed],
            "lost": dict(self._lost),
            "unheard": self._unheard.copy(),
            "counts": [self.count, self.missing, self.late, self.forgotten],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._waiting = {name: column.copy() for name, column in state["waiting"].items()}
        self._known = state["known"].copy()
        self._heard, self._since, self._passed = state["heard"]
        self._lost = dict(state["lost"])
        self._unheard = state["unheard"].copy()
        self.count, self.missing, self.late, self.forgotten = state["counts"]


def _first_heard(known: np.ndarray, since: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Per row of ``asked`` the least ``since`` of an equal row of ``known``; NEVER if there is
    none.
    """
    which = np.zeros(len(known) + len(asked), np.int64)
    for column in np.concatenate((known, asked)).T:
        # One number per row, kept small: rows are sorted as numbers, several times as fast.
        values, place = np.unique(column, return_inverse=True)
        _, which = np.unique(which * len(values) + place, return_inverse=True)
    first = np.full(int(which.max(initial=-1)) + 1, NEVER)
    np.minimum.at(first, which[: len(known)], since)
    return np.asarray(first[which[len(known) :]])
