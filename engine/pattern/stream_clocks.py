"""The clocks of a released stream, row by row: progress, event clock, widest uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.barrier.promises import PromiseBook
from engine.barrier.timeline import ALL, LONG_AGO, Steps, Timeline, progress_steps
from engine.released import IN_ORDER, Released


@dataclass(frozen=True, slots=True)
class Moved:
    """One batch's moves: per row the progress at it, the largest ref before it, and the widest
    uncertainty up to it; ``first`` is the number of its first row in the stream.
    """

    first: int
    frontier: np.ndarray
    newest: np.ndarray
    widest: np.ndarray
    timeline: Timeline


class StreamClocks:
    """Where the clocks stand between batches.

    Args:
        types: of the query's steps.
    """

    def __init__(self, types: frozenset[str]) -> None:
        self._types = types
        self._book = PromiseBook(types)
        self.frontier = LONG_AGO
        self._newest = LONG_AGO
        self.widest = 0
        self.rows = 0

    def ahead(self, released: Released) -> tuple[np.ndarray, np.ndarray]:
        """Per row of a batch that is to come: progress at it, and the widest uncertainty."""
        empty, steps = np.empty(0, np.int64), released.progress
        ref, status, unc = (released.columns.get(name, empty) for name in ("ref", "status", "unc"))
        moves = np.where(status == IN_ORDER, ref, LONG_AGO)
        inside = steps.row < released.n
        np.maximum.at(moves, steps.row[inside], steps.frontier[inside])
        frontier = np.maximum.accumulate(np.concatenate(([self.frontier], moves)))[1:]
        return frontier, np.maximum.accumulate(np.concatenate(([self.widest], unc)))[1:]

    def advance(self, released: Released) -> Moved:
        """The moves of a batch."""
        empty = np.empty(0, np.int64)
        ref, status, release = (
            released.columns.get(name, empty) for name in ("ref", "status", "release")
        )
        steps, first = released.progress, self.rows
        inside = steps.row < released.n
        frontier, widest = self.ahead(released)
        newest = np.maximum.accumulate(np.concatenate(([self._newest], ref)))
        number = 2 * (first + np.arange(released.n)) + 1
        clock = Steps.of(ref, release, number, self._newest)
        if released.promises is None:
            progress = progress_steps(ref, status, release, first, steps, self.frontier)
            promised, at = {ALL: progress}, steps.at
        else:
            promised = self._book.steps(released, released.promises, first)
            at = released.promises.at
        types = sorted(self._types)
        place = np.full(len(released.strings) + 3, -1)
        place[[released.strings.find(kind) for kind in types]] = np.arange(len(types))
        place[-2:] = -1
        kinds = place[released.columns.get("type", empty)]
        mine = np.flatnonzero(kinds >= 0)
        timeline = Timeline(
            max([LONG_AGO, *release[-1:].tolist(), *at[-1:].tolist()]), clock, promised,
            ref[mine], number[mine], kinds[mine], types,
        )  # fmt: skip
        self.frontier = max(
            [self.frontier, *frontier[-1:].tolist(), *steps.frontier[~inside].tolist()]
        )
        self._newest, self.widest = int(newest[-1]), int(widest.max(initial=self.widest))
        self.rows += released.n
        return Moved(first, frontier, newest[:-1], widest, timeline)

    @property
    def event_clock(self) -> int:
        """The largest ref yet."""
        return self._newest

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        clocks = [self.frontier, self._newest, self.widest, self.rows]
        return {"clocks": clocks, "promises": self._book.snapshot()}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self.frontier, self._newest, self.widest, self.rows = state["clocks"]
        self._book.restore(state["promises"])
