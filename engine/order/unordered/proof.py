"""Keeps what ``engine.order.unordered.proof_kernel`` needs from batch to batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from edge_agent import records as r
from engine.clocks.reference import Sync
from engine.kernels.integers import INT_MAX
from engine.order.unordered.proof_kernel import (
    FREE,
    LANES,
    OUT,
    SCALARS,
    SOONEST,
    WAITING,
    WINDOW,
    Counted,
    Lanes,
    Records,
    Waiting,
    begin_anew,
    find_lane,
    go_through,
)
from engine.stream.columns import Columns
from engine.stream.released import Strings

_FIRST_LANES = 8


class Proof:
    """Which promises count, of those that came in.

    Args:
        strings: of the site.
        wait_ns: how long after a promise the numbers below its own are given up.
    """

    def __init__(self, strings: Strings, wait_ns: int) -> None:
        self._strings = strings
        self._wait_ns = wait_ns
        self._scalars = np.zeros(SCALARS, np.int64)
        self._scalars[[FREE, SOONEST]] = -1, INT_MAX
        self._lanes = _lanes(_FIRST_LANES, np.full(0, -1))
        self._waiting = _waiting(_FIRST_LANES)

    def announce(self, sync: Sync) -> None:
        """Where the numbers of a source and stream begin."""
        if sync.first_seq is None:
            return
        source, stream = (self._strings.code(text) for text in (sync.source, sync.stream))
        self._room()
        lane = find_lane(self._lanes, self._scalars, source, stream, sync.incarnation)
        if lane < 0:
            return
        if sync.incarnation > self._lanes.incarnation[lane]:
            begin_anew(self._lanes, self._waiting, self._scalars, lane, sync.incarnation)
        if self._lanes.next[lane] < 0:
            self._lanes.next[lane] = sync.first_seq

    def process(self, columns: Columns, rows: int, ref: np.ndarray) -> Counted:
        """What comes to count during a batch of records, each before a record of it.

        Args:
            columns: of all records in arrival order, as ``engine.stream.columns`` makes them.
            rows: how many.
            ref: int64 (rows,): on the engine's clock, where a record is a promise; may be empty
                when none can be.
        """

        def column(name: str, default: int, kind: type) -> np.ndarray:
            found = columns.get(name)
            if found is None:
                return np.full(1, default, kind)
            # The kernel sees arrays of one kind; those of a frame may be read-only.
            return np.require(found, kind, ["C", "W"])

        batch = Records(
            column(r.KIND, int(r.Kind.EVENT), np.int8), column(r.SOURCE, -1, np.int32),
            column(r.STREAM, 0, np.int32), column(r.SEQ, -1, np.int64),
            column(r.INCARNATION, 0, np.int64), column(r.TYPE, -1, np.int32), ref,
            column(r.ARRIVAL, 0, np.int64),
        )  # fmt: skip
        room = rows + 2 * int(self._scalars[WAITING])
        out = Counted(*(np.empty(room, np.int64) for _ in Counted._fields))
        self._scalars[OUT] = 0
        done = 0
        while done < rows:
            self._room()
            done = go_through(
                self._lanes, self._waiting, batch, out, self._scalars, done, self._wait_ns
            )
        said = int(self._scalars[OUT])
        return Counted(*(array[:said] for array in out))

    def unproven(self) -> dict[tuple[int, int], int]:
        """Promises that counted before all their numbers had come, by codes of source and stream;
        those of which there are any.
        """
        lanes = self._lanes
        return {
            (int(lanes.source[lane]), int(lanes.stream[lane])): int(lanes.unproven[lane])
            for lane in np.flatnonzero(lanes.unproven[: self._scalars[LANES]])
        }

    def _room(self) -> None:
        """Room for one more lane and one more promise, and for every source's code."""
        lanes, waiting = int(self._scalars[LANES]), int(self._scalars[WAITING])
        codes = len(self._strings) + 1
        if lanes == len(self._lanes.source) or codes > len(self._lanes.first):
            first = np.full(max(2 * codes, len(self._lanes.first)), -1)
            first[: len(self._lanes.first)] = self._lanes.first
            grown = _lanes(max(2 * lanes, _FIRST_LANES), first)
            for before, after in zip(self._lanes[:-1], grown[:-1], strict=True):
                after[:lanes] = before[:lanes]
            self._lanes = grown
        if waiting == len(self._waiting.type):
            more = _waiting(2 * waiting)
            for before, after in zip(self._waiting, more, strict=True):
                after[:waiting] = before
            self._waiting = more

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "scalars": self._scalars.copy(),
            "lanes": [array.copy() for array in self._lanes],
            "waiting": [array.copy() for array in self._waiting],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._scalars = state["scalars"].copy()
        self._lanes = Lanes(*(array.copy() for array in state["lanes"]))
        self._waiting = Waiting(*(array.copy() for array in state["waiting"]))


def _lanes(room: int, first: np.ndarray) -> Lanes:
    source, stream, incarnation, after, other, waiting, wants = np.full((7, room), -1, np.int64)
    unproven = np.zeros(room, np.int64)
    came, closed = np.zeros((room, WINDOW), bool), np.zeros(room, bool)
    return Lanes(
        source, stream, incarnation, after, came, closed, other, waiting, wants,
        unproven, first.astype(np.int64),
    )  # fmt: skip


def _waiting(room: int) -> Waiting:
    kind, lane, link = np.full((3, room), -1, np.int64)
    number, ref, deadline = np.full((3, room, 2), -1, np.int64)
    return Waiting(kind, lane, link, number, ref, deadline)
