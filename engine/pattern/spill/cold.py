"""Old events of a query in chunks by time, of which memory holds none but what is asked for.

L09 VIII: states "stored as frames indexed by time"; here one store serves all steps.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.pattern.spill.chunk_store import (
    ChunkStore,
    Columns,
    joined,
    packed,
    places_by,
    unpacked,
)
from engine.pattern.spill.partition import KEY, Wanted
from engine.pattern.store import EXPIRES

_PIECES: Final = 16


class Cold:
    """Chunk k holds the events with ref in [k * chunk_ns, (k + 1) * chunk_ns); each of its parts by
    key is in pieces: late ones are put beside what is there, and many pieces are made one again.

    Args:
        store: where the chunks are.
        chunk_ns: span of a chunk.
        parts: how many parts there are.
    """

    def __init__(self, store: ChunkStore, chunk_ns: int, parts: int) -> None:
        self._store = store
        self._chunk_ns = chunk_ns
        self._parts = parts
        self._held: dict[int, list[tuple[int, int]]] = {}
        """By parts * chunk + part: its pieces, and when the last event of each expires."""
        self._pieces = 0
        self._spilled = 0
        self._loads = 0

    def counters(self) -> dict[str, int]:
        """``spilled`` events, late ones apart; ``chunks`` there are; ``chunk_loads`` so far, where
        a part of a chunk counts as one.
        """
        chunks = len({place // self._parts for place in self._held})
        return {"spilled": self._spilled, "chunks": chunks, "chunk_loads": self._loads}

    def numbers(self, ref: np.ndarray) -> np.ndarray:
        """The chunks that events of these times belong to."""
        return ref // self._chunk_ns

    def spill(self, columns: Columns) -> None:
        """Put events into chunks, whether there are any yet or not."""
        places = self.numbers(columns["ref"]) * self._parts
        if self._parts > 1 and len(places):
            places = places + columns[KEY] % self._parts
        self._spilled += len(places)
        for place, mine in places_by(places).items():
            more = {name: column[mine] for name, column in columns.items()}
            pieces = self._held.setdefault(place, [])
            if len(pieces) >= _PIECES:
                more = joined([self._load(place), more])
                self._delete(place)
            self._store.put(self._pieces, packed(more))
            pieces.append((self._pieces, int(more[EXPIRES].max())))
            self._pieces += 1

    def between(self, low: int, high: int, part: int, wanted: Wanted) -> Columns:
        """The events of a part with a ref from ``low`` to ``high`` and a key that is ``wanted``; no
        column if there are none.
        """
        first, last = low // self._chunk_ns, high // self._chunk_ns
        found = []
        for place in sorted(self._held):
            number, of = divmod(place, self._parts)
            if of == part and first <= number <= last:
                columns = self._load(place)
                ref = columns["ref"]
                mine = (ref >= low) & (ref <= high) & wanted.among(columns, len(ref))
                some = np.flatnonzero(mine)
                found.append({name: column[some] for name, column in columns.items()})
        return joined(found)

    def _load(self, place: int) -> Columns:
        self._loads += 1
        return joined([unpacked(self._store.get(piece)) for piece, _ in self._held[place]])

    def _delete(self, place: int) -> None:
        for piece, _ in self._held[place]:
            self._store.delete(piece)
        self._held[place].clear()

    def purge(self, horizon: int) -> None:
        """Delete what has expired against ``horizon``, a part of a chunk at a time."""
        for place, pieces in list(self._held.items()):
            if max(expires for _, expires in pieces) < horizon:
                self._delete(place)
                del self._held[place]

    def close(self) -> None:
        """End of the input."""
        for place in self._held:
            self._delete(place)
        self._held.clear()
        self._store.close()

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "held": {place: list(pieces) for place, pieces in self._held.items()},
            "counts": [self._spilled, self._loads, self._pieces],
            "store": self._store.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._held = {place: list(pieces) for place, pieces in state["held"].items()}
        self._spilled, self._loads, self._pieces = state["counts"]
        self._store.restore(state["store"])
