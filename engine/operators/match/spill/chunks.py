"""Old events of a query in chunks by time, in memory or in files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Restorable
from slackwater.engine.log.whole_file import sync_folder
from slackwater.engine.operators.match.spill.bounds import KEY, KeyFilter
from slackwater.engine.operators.match.store import EXPIRES

# Stores of the pieces of chunks: in memory, or one file each.
#
# A store has immutable bytes by number. Its snapshot is part of the operator's; after a restore it
# has the content of that moment, without later additions and deletions.


_SUFFIX: Final = ".arrow"


class ChunksGone(UserError):  # noqa: N818 - what was lost, not what went wrong
    """A store lacks content of its snapshot."""


class ChunkStore(Protocol):
    """Bytes by number."""

    def put(self, number: int, content: bytes) -> None:
        """Store ``content`` under a new number."""

    def get(self, number: int) -> bytes:
        """Return the content of a number."""

    def delete(self, number: int) -> None:
        """Delete the content of a number; it is not read again."""

    def close(self) -> None:
        """End of the input: no more requests."""

    def snapshot(self) -> Any:
        """State as plain data."""

    def restore(self, state: Any) -> None:
        """Restore a snapshot of a store at the same place."""


class MemoryChunks(Restorable):
    """Chunks in memory, without a bound; for tests, and to measure the cost of spilling."""

    state_fields = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: dict[int, bytes] = {}

    def put(self, number: int, content: bytes) -> None:
        self._chunks[number] = content

    def get(self, number: int) -> bytes:
        return self._chunks[number]

    def delete(self, number: int) -> None:
        del self._chunks[number]

    def close(self) -> None:
        self._chunks.clear()


class FileChunks:
    """One file per number, written at a snapshot: most pieces are deleted before.

    The files of the last two snapshots stay for a restore, as the last one may not be committed.

    Args:
        folder: the folder of this store alone; created if necessary.
        root: empty folders between it and ``folder`` are deleted with ``folder``; None: none are.

    Raises:
        UserError: the folder cannot be created.
    """

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        self._folder = folder
        self._root = root
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder}: cannot be a folder for chunks: {error.strerror}") from error
        self._there: set[int] = set()
        self._unsynced: set[int] = set()
        self._kept: list[set[int]] = []
        """The numbers of the last snapshots."""

    def put(self, number: int, content: bytes) -> None:
        self._path(number).write_bytes(content)
        self._there.add(number)
        self._unsynced.add(number)

    def get(self, number: int) -> bytes:
        return self._path(number).read_bytes()

    def delete(self, number: int) -> None:
        self._there.discard(number)
        self._unsynced.discard(number)
        self._remove_unneeded({number})

    def close(self) -> None:
        shutil.rmtree(self._folder)
        above = self._folder.parent
        while self._root in above.parents and not any(above.iterdir()):
            above.rmdir()
            above = above.parent
        self._there.clear()
        self._unsynced.clear()
        self._kept.clear()

    def snapshot(self) -> list[int]:
        for number in self._unsynced:
            with self._path(number).open("rb") as file:
                os.fsync(file.fileno())
        if self._unsynced:
            sync_folder(self._folder)
            self._unsynced.clear()
        before = set().union(*self._kept)
        self._kept = [*self._kept[-1:], set(self._there)]
        self._remove_unneeded(before)
        return sorted(self._there)

    def restore(self, state: list[int]) -> None:
        gone = [number for number in state if not self._path(number).exists()]
        if gone:
            raise ChunksGone(f"{self._folder}: {len(gone)} chunks of spilled events are gone")
        self._there = set(state)
        self._kept = [set(state)]
        self._remove_unneeded({int(path.stem) for path in self._folder.glob(f"*{_SUFFIX}")})

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}{_SUFFIX}"

    def _remove_unneeded(self, numbers: set[int]) -> None:
        for number in numbers - self._there.union(*self._kept):
            self._path(number).unlink(missing_ok=True)


class ChunksApart:
    """An overlay on a store: reads its chunks; writes and deletions are local.

    Args:
        kept: the store below.
    """

    def __init__(self, kept: ChunkStore) -> None:
        self._kept = kept
        self._local: dict[int, bytes] = {}

    def put(self, number: int, content: bytes) -> None:
        self._local[number] = content

    def get(self, number: int) -> bytes:
        content = self._local.get(number)
        return self._kept.get(number) if content is None else content

    def delete(self, number: int) -> None:
        self._local.pop(number, None)

    def close(self) -> None:
        self._local.clear()

    def snapshot(self) -> None:
        """No state: an overlay is temporary."""

    def restore(self, state: Any) -> None:
        """Do nothing: an overlay has no state."""


def folder_of(root: Path, site: str, query: str) -> Path:
    """Return the folder of one query and site; their names may have any characters."""
    return root / f"site-{quote(site, safe='')}" / f"query-{quote(query, safe='')}"


Columns = dict[str, np.ndarray]


def packed(columns: Columns) -> bytes:
    """Return columns of equal length as an Arrow IPC file."""
    batch = pa.RecordBatch.from_arrays(
        [pa.array(np.ascontiguousarray(column)) for column in columns.values()], list(columns)
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpacked(content: bytes) -> Columns:
    """Return the columns from the bytes of ``packed``."""
    with pa.ipc.open_file(pa.BufferReader(content)) as reader:
        batch = reader.get_batch(0)
    return {
        name: column.to_numpy(zero_copy_only=False)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def joined(parts: Iterable[Columns]) -> Columns:
    """Concatenate ``parts``; missing columns are 0, types widen."""
    parts = [part for part in parts if part]
    lengths = [len(next(iter(part.values()))) for part in parts]
    found: Columns = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        dtype = np.result_type(*(part[name].dtype for part in parts if name in part))
        found[name] = np.concatenate([
            part.get(name, np.zeros(length, dtype)).astype(dtype, copy=False)
            for part, length in zip(parts, lengths, strict=True)
        ])  # fmt: skip
    return found


def places_by(values: np.ndarray) -> dict[int, np.ndarray]:
    """Return the places of each value, both ascending."""
    order = np.argsort(values, kind="stable")
    every, firsts = np.unique(values[order], return_index=True)
    ends = [*firsts[1:].tolist(), len(values)]
    return {
        value: order[first:end]
        for value, first, end in zip(every.tolist(), firsts.tolist(), ends, strict=False)
    }


# Old events of a query in chunks by time, loaded on demand.
#
# L09 VIII: states "stored as frames indexed by time"; here one store serves all steps.


_PIECES: Final = 16


class Cold(Restorable):
    """Chunks of old events.

    Chunk k has the events with ref in [k * chunk_ns, (k + 1) * chunk_ns). Each of its parts by key
    is in pieces: late events are added as new pieces, and many pieces are merged to one.

    Args:
        store: the store of the pieces.
        chunk_ns: span of a chunk [ns].
        parts: number of parts by key.
    """

    state_fields = ("_pieces", "_spilled", "_loads", "_next_piece", "_store")

    def __init__(self, store: ChunkStore, chunk_ns: int, parts: int) -> None:
        self._store = store
        self._chunk_ns = chunk_ns
        self._parts = parts
        self._pieces: dict[int, list[tuple[int, int]]] = {}
        """By parts * chunk + part: its pieces, each with the last expiry of its events."""
        self._next_piece = 0
        self._spilled = 0
        self._loads = 0

    def counters(self) -> dict[str, int]:
        """Return counters.

        ``spilled``: events so far. ``chunks``: current number. ``chunk_loads``: parts of chunks
        loaded so far.
        """
        chunks = len({place // self._parts for place in self._pieces})
        return {"spilled": self._spilled, "chunks": chunks, "chunk_loads": self._loads}

    def numbers(self, ref: np.ndarray) -> np.ndarray:
        """Return the chunks of events with times ``ref`` [ns]."""
        return ref // self._chunk_ns

    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last time of each part of a chunk [ns]."""
        firsts = np.array(list(self._pieces), np.int64) // self._parts * self._chunk_ns
        return firsts, firsts + self._chunk_ns - 1

    def spill(self, columns: Columns) -> None:
        """Add events to chunks, which are created if necessary."""
        places = self.numbers(columns["ref"]) * self._parts
        if self._parts > 1 and len(places):
            places = places + columns[KEY] % self._parts
        self._spilled += len(places)
        for place, mine in places_by(places).items():
            more = {name: column[mine] for name, column in columns.items()}
            pieces = self._pieces.setdefault(place, [])
            if len(pieces) >= _PIECES:
                more = joined([self._load(place), more])
                self._delete(place)
            self._store.put(self._next_piece, packed(more))
            pieces.append((self._next_piece, int(more[EXPIRES].max())))
            self._next_piece += 1

    def between(self, low: int, high: int, part: int, keys: KeyFilter) -> Columns:
        """Return the events of a part with ref in [``low``, ``high``] and a key in ``keys``.

        The result has no columns if there are none.
        """
        first, last = low // self._chunk_ns, high // self._chunk_ns
        found = []
        for place in sorted(self._pieces):
            number, of = divmod(place, self._parts)
            if of == part and first <= number <= last:
                columns = self._load(place)
                ref = columns["ref"]
                mine = (ref >= low) & (ref <= high) & keys.among(columns, len(ref))
                some = np.flatnonzero(mine)
                found.append({name: column[some] for name, column in columns.items()})
        return joined(found)

    def _load(self, place: int) -> Columns:
        self._loads += 1
        return joined([unpacked(self._store.get(piece)) for piece, _ in self._pieces[place]])

    def _delete(self, place: int) -> None:
        for piece, _ in self._pieces[place]:
            self._store.delete(piece)
        self._pieces[place].clear()

    def purge(self, horizon: int) -> None:
        """Delete the parts of chunks whose events have all expired at ``horizon``."""
        for place, pieces in list(self._pieces.items()):
            if max(expires for _, expires in pieces) < horizon:
                self._delete(place)
                del self._pieces[place]

    def close(self) -> None:
        """End of the input."""
        for place in self._pieces:
            self._delete(place)
        self._pieces.clear()
        self._store.close()
