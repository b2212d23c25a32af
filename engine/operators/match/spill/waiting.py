"""When late events have their turn (L09 VIII's activation thresholds), and batches cut there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import Progress, Promises, Refuted, Released
from slackwater.engine.operators.match.spill.chunks import places_by

_Steps = TypeVar("_Steps", Progress, Promises)


@dataclass(frozen=True, slots=True)
class Turn:
    """The late events of ``chunk``, or of what else is looked at together, before row ``row`` of
    the batch, at the instant ``at``.

    ``waited``: because of how long they have; all of that instant happens before.
    """

    row: int
    at: int
    chunk: int
    waited: bool


class LateEvents(Restorable):
    """How many late events of each chunk wait, and since when.

    Args:
        pending: so many of a chunk have their turn at once.
        wait_ns: and so long after the first of them came, they all do.
    """

    state_fields = ("_chunks",)

    def __init__(self, pending: int, wait_ns: int) -> None:
        self._pending = pending
        self._wait_ns = wait_ns
        self._chunks: dict[int, tuple[int, int]] = {}
        """Chunk: since, how many; in the order in which their time is over."""

    def add(
        self, rows: np.ndarray, chunks: np.ndarray, release: np.ndarray, now: int
    ) -> list[Turn]:
        """The turns that come within a batch.

        Args:
            rows: those of the batch that are late, ascending.
            chunks: of each.
            release: of the batch.
            now: the arrival clock after it.
        """
        turns: list[tuple[int, int, bool, int, Turn]] = []
        waits: list[tuple[int, int, int, int]] = []
        before = len(self._chunks)
        old = {chunk: place - before for place, chunk in enumerate(self._chunks)}
        late = places_by(chunks)
        for chunk in old.keys() | late.keys():
            mine = rows[late[chunk]] if chunk in late else rows[:0]
            at_of, i = release[mine], 0
            # Equal instants: who waits longest goes first, and among those the first that came.
            since, n, rank = *self._chunks.get(chunk, (0, 0)), old.get(chunk, 0)
            while n or i < len(mine):
                if not n:
                    since, rank = int(at_of[i]), int(mine[i])
                over = since + self._wait_ns
                stop = max(int(np.searchsorted(at_of, over, side="right")), i)
                full = i + self._pending - n
                if full <= stop:
                    row, at = int(mine[full - 1]) + 1, int(at_of[full - 1])
                    turns.append((row, at, False, rank, Turn(row, at, chunk, waited=False)))
                    i, n = full, 0
                elif over < now:
                    row = int(np.searchsorted(release, over, side="right"))
                    turns.append((row, over, True, rank, Turn(row, over, chunk, waited=True)))
                    i, n = stop, 0
                else:
                    waits.append((since, rank, chunk, n + stop - i))
                    break
        self._chunks = {chunk: (since, n) for since, _, chunk, n in sorted(waits)}
        return [turn for *_, turn in sorted(turns, key=lambda each: each[:4])]

    def until(self, now: int) -> list[Turn]:
        """The turns of those whose time is over before ``now`` on the arrival clock."""
        none = np.empty(0, np.int64)
        return self.add(none, none, none, now)

    def rest(self, at: int) -> list[Turn]:
        """End of the input: everybody's turn."""
        turns = [Turn(0, at, chunk, waited=True) for chunk in self._chunks]
        self._chunks.clear()
        return turns


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
        progress = _steps_of(released.progress, row, turn, is_rest=is_rest)
        promises = released.promises
        if promises is not None:
            promises = _steps_of(promises, row, turn, is_rest=is_rest)
        n = released.n - row if is_rest else row
        # Turns of an instant before it are taken by what was known then.
        is_later = turn.at < released.refuted.at
        refuted = released.refuted if is_rest == is_later else Refuted()
        parts.append(replace(
            released, n=n, columns=columns, progress=progress, promises=promises, refuted=refuted,
        ))  # fmt: skip
    return parts[0], parts[1]


def _steps_of(steps: _Steps, row: int, turn: Turn, *, is_rest: bool) -> _Steps:
    """Those before the turn, or the others."""
    before = steps.row < row
    if turn.waited:
        before |= (steps.row == row) & (steps.at <= turn.at)
    mine = before != is_rest
    columns = {name: getattr(steps, name)[mine] for name in steps.__struct_fields__}
    if is_rest:
        columns["row"] = columns["row"] - row
    return type(steps)(**columns)
