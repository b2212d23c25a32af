"""Old events of a query in chunks by time, of which memory holds none but what is asked for.

L09 VIII: states "stored as frames indexed by time"; here one store serves all steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.pattern.chunk_store import ChunkStore, Columns, joined, packed, unpacked
from engine.pattern.store import EXPIRES


class Cold:
    """Chunk k holds the events with ref in [k * chunk_ns, (k + 1) * chunk_ns).

    Args:
        store: where the chunks are.
        chunk_ns: span of a chunk.
    """

    def __init__(self, store: ChunkStore, chunk_ns: int) -> None:
        self._store = store
        self._chunk_ns = chunk_ns
        self._held: dict[int, tuple[int, int]] = {}
        """By chunk: its events, and when the last of them expires."""
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
            old = self._load(number) if number in self._held else {}
            whole = joined([old, more])
            self._held[number] = (len(whole[EXPIRES]), int(whole[EXPIRES].max()))
            self._store.put(number, packed(whole))

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
        return unpacked(self._store.get(number))

    def purge(self, frontier: int) -> None:
        """Delete chunks whose events have all expired before ``frontier``."""
        for number, (_, expires) in list(self._held.items()):
            if expires < frontier:
                self._store.delete(number)
                del self._held[number]

    def close(self) -> None:
        """End of the input."""
        for number in self._held:
            self._store.delete(number)
        self._held.clear()
        self._store.close()

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "held": dict(self._held),
            "counts": [self._spilled, self._loads],
            "store": self._store.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._held = dict(state["held"])
        self._spilled, self._loads = state["counts"]
        self._store.restore(state["store"])
