"""When late events have their turn (L09 VIII's activation thresholds), and batches cut there."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from engine.released import Progress, Promises, Released

_Told = TypeVar("_Told", Progress, Promises)


@dataclass(frozen=True, slots=True)
class Turn:
    """The late events of ``chunk``, before row ``row`` of the batch, at the instant ``at``.

    ``waited``: because of how long they have; all of that instant happens before.
    """

    row: int
    at: int
    chunk: int
    waited: bool


class Waiting:
    """How many late events of each chunk wait, and since when.

    Args:
        pending: so many of a chunk have their turn at once.
        wait_ns: and so long after the first of them came, they all do.
    """

    def __init__(self, pending: int, wait_ns: int) -> None:
        self._pending = pending
        self._wait_ns = wait_ns
        self._chunks: dict[int, tuple[int, int]] = {}
        """Chunk: since, how many; in the order in which their time is over."""

    def add(self, rows: np.ndarray, chunks: np.ndarray, release: np.ndarray) -> list[Turn]:
        """Late rows of a batch, ascending; the turns that come up to the last of them."""
        turns = []
        for row, chunk in zip(rows.tolist(), chunks.tolist(), strict=True):
            at = int(release[row])
            turns += self.until(at, row, release)
            since, n = self._chunks.get(chunk, (at, 0))
            self._chunks[chunk] = (since, n + 1)
            if n + 1 >= self._pending:
                del self._chunks[chunk]
                turns.append(Turn(row + 1, at, chunk, waited=False))
        return turns

    def until(self, now: int, row: int, release: np.ndarray | None = None) -> list[Turn]:
        """The turns of those whose time is over before ``now``.

        Args:
            now: the arrival clock.
            row: the turns come before it, or before the first row that is released after them.
            release: of the batch.
        """
        turns = []
        for chunk, (since, _) in list(self._chunks.items()):
            at = since + self._wait_ns
            if at >= now:
                break
            del self._chunks[chunk]
            if release is not None:
                row = int(np.searchsorted(release, at, side="right"))
            turns.append(Turn(row, at, chunk, waited=True))
        return turns

    def rest(self, at: int) -> list[Turn]:
        """End of the input: everybody's turn."""
        turns = [Turn(0, at, chunk, waited=True) for chunk in self._chunks]
        self._chunks.clear()
        return turns

    def snapshot(self) -> list[Any]:
        """Plain data."""
        return [(chunk, *of) for chunk, of in self._chunks.items()]

    def restore(self, state: list[Any]) -> None:
        """Takes over a snapshot."""
        self._chunks = {chunk: (since, n) for chunk, since, n in state}


def cut(released: Released, turn: Turn, start: int) -> tuple[Released, Released]:
    """What comes before a turn, and the rest.

    Args:
        released: a batch, of which ``start`` rows are gone.
        turn: where.
        start: number of its first row in the batch.
    """
    row = turn.row - start
    parts = []
    for is_rest in (False, True):
        columns = {
            name: column[row:] if is_rest else column[:row]
            for name, column in released.columns.items()
        }
        progress = _told(released.progress, row, turn, is_rest=is_rest)
        promises = released.promises
        if promises is not None:
            promises = _told(promises, row, turn, is_rest=is_rest)
        n = released.n - row if is_rest else row
        parts.append(replace(released, n=n, columns=columns, progress=progress, promises=promises))
    return parts[0], parts[1]


def _told(told: _Told, row: int, turn: Turn, *, is_rest: bool) -> _Told:
    """Those before the turn, or the others."""
    before = told.row < row
    if turn.waited:
        before |= (told.row == row) & (told.at <= turn.at)
    mine = before != is_rest
    columns = {field.name: getattr(told, field.name)[mine] for field in fields(told)}
    if is_rest:
        columns["row"] = columns["row"] - row
    return type(told)(**columns)
