"""Old events of a query in chunks by time, of which memory holds none but what is asked for.

L09 VIII: states "stored as frames indexed by time"; here one store serves all steps.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.pattern.chunk_store import ChunkStore, Columns, joined, packed, unpacked
from engine.pattern.store import EXPIRES

_PIECES: Final = 16


class Cold:
    """Chunk k holds the events with ref in [k * chunk_ns, (k + 1) * chunk_ns), in pieces: late ones
    are put beside what is there, and a chunk of many pieces is made one again.

    Args:
        store: where the chunks are.
        chunk_ns: span of a chunk.
    """

    def __init__(self, store: ChunkStore, chunk_ns: int) -> None:
        self._store = store
        self._chunk_ns = chunk_ns
        self._held: dict[int, list[tuple[int, int]]] = {}
        """By chunk: its pieces, and when the last event of each expires."""
        self._pieces = 0
        self._spilled = 0
        self._loads = 0

    def counters(self) -> dict[str, int]:
        """``spilled`` events, late ones apart; ``chunks`` there are; ``chunk_loads`` so far."""
        return {
            "spilled": self._spilled, "chunks": len(self._held), "chunk_loads": self._loads,
        }  # fmt: skip

    def numbers(self, ref: np.ndarray) -> np.ndarray:
        """The chunks that events of these times belong to."""
        return ref // self._chunk_ns

    def spill(self, columns: Columns) -> None:
        """Put events into chunks, whether there are any yet or not."""
        numbers = self.numbers(columns["ref"])
        self._spilled += len(numbers)
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            more = {name: column[mine] for name, column in columns.items()}
            pieces = self._held.setdefault(number, [])
            if len(pieces) >= _PIECES:
                more = joined([self._load(number), more])
                self._delete(number)
            self._store.put(self._pieces, packed(more))
            pieces.append((self._pieces, int(more[EXPIRES].max())))
            self._pieces += 1

    def between(self, low: int, high: int) -> Columns:
        """All events with ref from ``low`` to ``high``; no column if there are none."""
        first, last = low // self._chunk_ns, high // self._chunk_ns
        found = []
        for number in sorted(number for number in self._held if first <= number <= last):
            columns = self._load(number)
            mine = (columns["ref"] >= low) & (columns["ref"] <= high)
            found.append({name: column[mine] for name, column in columns.items()})
        return joined(found)

    def _load(self, number: int) -> Columns:
        self._loads += 1
        return joined([unpacked(self._store.get(piece)) for piece, _ in self._held[number]])

    def _delete(self, number: int) -> None:
        for piece, _ in self._held[number]:
            self._store.delete(piece)
        self._held[number].clear()

    def purge(self, frontier: int) -> None:
        """Delete chunks whose events have all expired before ``frontier``."""
        for number, pieces in list(self._held.items()):
            if max(expires for _, expires in pieces) < frontier:
                self._delete(number)
                del self._held[number]

    def close(self) -> None:
        """End of the input."""
        for number in self._held:
            self._delete(number)
        self._held.clear()
        self._store.close()

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "held": {number: list(pieces) for number, pieces in self._held.items()},
            "counts": [self._spilled, self._loads, self._pieces],
            "store": self._store.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._held = {number: list(pieces) for number, pieces in state["held"].items()}
        self._spilled, self._loads, self._pieces = state["counts"]
        self._store.restore(state["store"])
