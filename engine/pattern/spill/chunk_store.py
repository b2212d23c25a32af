"""Where pieces of chunks of spilled events are: in memory, or one file each.

A store keeps bytes by number; what was put is never changed. Its snapshot goes into the operator's;
restored, it gives what was there then, whatever was put or deleted since.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from engine.errors import UserError
from engine.log.whole_file import sync_folder

_SUFFIX: Final = ".arrow"


class ChunksGone(UserError):  # noqa: N818 - what was lost, not what went wrong
    """A store is not as it was at its snapshot."""


class ChunkStore(Protocol):
    """Bytes by number."""

    def put(self, number: int, content: bytes) -> None:
        """Keep ``content`` under a number that was never used."""

    def get(self, number: int) -> bytes:
        """What was put."""

    def delete(self, number: int) -> None:
        """It is not asked for again."""

    def close(self) -> None:
        """End of the input: nothing is asked for again."""

    def snapshot(self) -> Any:
        """Plain data."""

    def restore(self, state: Any) -> None:
        """Takes over a snapshot of a store at the same place."""


class MemoryChunks:
    """In memory: bounds nothing; for tests, and to see what spilling alone costs."""

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

    def snapshot(self) -> dict[int, bytes]:
        return dict(self._chunks)

    def restore(self, state: dict[int, bytes]) -> None:
        self._chunks = dict(state)


class FileChunks:
    """One file per number, on disk when a snapshot has it: most go before there is one.

    Files of the two last snapshots stay (the last one may not have been made safe yet), so that
    restoring finds what was there then.

    Args:
        folder: of this store alone; made if need be.
        root: what lies between it and ``folder`` goes with that once it is empty; None: nothing.

    Raises:
        UserError: it cannot be made.
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
        """What the last snapshots have."""

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
    """Another's chunks to read; what is put or deleted here changes nothing there.

    Args:
        kept: the other.
    """

    def __init__(self, kept: ChunkStore) -> None:
        self._kept = kept
        self._own: dict[int, bytes] = {}

    def put(self, number: int, content: bytes) -> None:
        self._own[number] = content

    def get(self, number: int) -> bytes:
        own = self._own.get(number)
        return self._kept.get(number) if own is None else own

    def delete(self, number: int) -> None:
        self._own.pop(number, None)

    def close(self) -> None:
        self._own.clear()

    def snapshot(self) -> None:
        """Nothing of it is kept."""

    def restore(self, state: Any) -> None:
        """The other has it."""


def folder_of(root: Path, site: str, query: str) -> Path:
    """Of one query and site; their names may hold anything."""
    return root / f"site-{quote(site, safe='')}" / f"query-{quote(query, safe='')}"


Columns = dict[str, np.ndarray]


def packed(columns: Columns) -> bytes:
    """Equally long columns as an Arrow IPC file."""
    batch = pa.RecordBatch.from_arrays(
        [pa.array(np.ascontiguousarray(column)) for column in columns.values()], list(columns)
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpacked(content: bytes) -> Columns:
    """What ``packed`` was given."""
    with pa.ipc.open_file(pa.BufferReader(content)) as reader:
        batch = reader.get_batch(0)
    return {
        name: column.to_numpy(zero_copy_only=False)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def joined(parts: Iterable[Columns]) -> Columns:
    """One below the other; what a part lacks is 0, types widen."""
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
    """Where each value stands, ascending; by value, ascending."""
    order = np.argsort(values, kind="stable")
    every, firsts = np.unique(values[order], return_index=True)
    ends = [*firsts[1:].tolist(), len(values)]
    return {
        value: order[first:end]
        for value, first, end in zip(every.tolist(), firsts.tolist(), ends, strict=False)
    }
