"""A site's chain between micro-batches, as a snapshot in Spark's state store (DESIGN, "Spark")."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings, ChunksOf
from slackwater.engine.hosts.chain.identity import identity_of
from slackwater.engine.hosts.chain.state_bytes import StateDamagedError, from_bytes, to_bytes
from slackwater.engine.log.arrival_log import frames_at
from slackwater.engine.log.input.numbering import Numbering
from slackwater.engine.operators.match.spill.chunks import ChunksApart
from slackwater.engine.output.run_writer import OutputPart, filed
from slackwater.engine.output.run_writer import packed as packed_part
from slackwater.engine.output.spark_parts import COUNTERS

# Chunks of spilled events in Spark's state store.
#
# The store is transactional: chunks that a failed batch has put are gone when it is repeated, so
# the operator's snapshot has no chunks. Only the chunks that late events need are passed to Python.


_KEY: Final = StructType([StructField("query", StringType()), StructField("number", LongType())])
_CONTENT: Final = StructType([StructField("content", BinaryType())])


class StateChunks:
    """The chunks of one query, for the site that is being processed.

    Args:
        state: a ``MapState`` of pyspark.
        query: name of the query.
    """

    def __init__(self, state: Any, query: str) -> None:
        self._state = state
        self._query = query

    def put(self, number: int, content: bytes) -> None:
        self._state.updateValue((self._query, number), (bytearray(content),))

    def get(self, number: int) -> bytes:
        return bytes(self._state.getValue((self._query, number))[0])

    def delete(self, number: int) -> None:
        self._state.removeKey((self._query, number))

    def close(self) -> None:
        """Do nothing; all chunks have been deleted."""

    def snapshot(self) -> None:
        """Return nothing; the state store has the chunks."""

    def restore(self, state: None) -> None:
        """Do nothing; the state store has the chunks."""


def state_chunks(handle: StatefulProcessorHandle) -> ChunksOf:
    """Return the stores by query, for a processor's ``init``."""
    state = handle.getMapState("chunks", _KEY, _CONTENT)
    return lambda query: StateChunks(state, query)


# Chains that a worker process has fed last, so that their next batch need not restore them.
#
# Spark gives a batch's task to any worker, and may repeat it. The state store is authoritative: it
# has the digest of each snapshot, and a chain is used here only if its last snapshot has that
# digest. Reading a digest is cheap; a snapshot of 20 MB takes longer to get from the JVM than its
# events take to match.


_BYTES: Final = 1 << 28
"""Limit of packed snapshots; their chains take several times as much memory."""
LEAST: Final = 1 << 17
"""Size charged for small chains: one takes 80 KB, and its snapshot packs to at most 7 KB."""


def digest_of(snapshot: bytes) -> bytes:
    """Return a digest that identifies a snapshot."""
    return blake2b(snapshot, digest_size=16).digest()


class LiveChains:
    """A cache of chains of at most ``limit`` bytes; the least recently fed are dropped first.

    Args:
        limit: total size of packed snapshots; small ones are charged ``LEAST``.
    """

    def __init__(self, limit: int = _BYTES) -> None:
        self._limit = limit
        self._chains: OrderedDict[tuple[str, str], tuple[bytes, int, Chain]] = OrderedDict()
        self._bytes = 0

    def take(self, run: str, site: str, digest: bytes) -> Chain | None:
        """Remove and return the chain whose last snapshot has the digest, or None.

        Args:
            run: identifies the settings of the run.
            site: the chain's site.
            digest: digest of the snapshot in the state store.
        """
        known, size, chain = self._chains.pop((run, site), (b"", 0, None))
        self._bytes -= size
        return chain if known == digest else None

    def forget(self, run: str, site: str) -> None:
        """Drop the chain, as it is about to be fed without its state."""
        self.take(run, site, b"")

    def keep(self, run: str, chain: Chain, digest: bytes, size: int) -> None:
        """Cache ``chain``, which has not been fed since its snapshot of ``size`` bytes."""
        self.take(run, chain.site, digest)
        charged_bytes = max(size, LEAST)
        self._chains[run, chain.site] = (digest, charged_bytes, chain)
        self._bytes += charged_bytes
        while self._bytes > self._limit:
            _, (_, gone, _) = self._chains.popitem(last=False)
            self._bytes -= gone


LIVE: Final = LiveChains()
"""The cache of this process."""


# The state of a site: its snapshot, and separately its digest and the number of results so far. A
# worker that has the chain with that digest does not read the snapshot. Chunks of spilled events
# are in the state store, too.


_STATE: Final = StructType([StructField("snapshot", BinaryType())])
_DIGEST: Final = StructType(
    [StructField("digest", BinaryType()), StructField("results", LongType())]
)
_ZSTD: Final = bytes.fromhex("28b52ffd")
"""Magic number of zstd frames (RFC 8878)."""


class ChainState:
    """The state of chains in one micro-batch, for the site that Spark is processing.

    Args:
        handle: the handle that a processor's ``init`` gets.
        settings: settings of all chains.
    """

    def __init__(self, handle: StatefulProcessorHandle, settings: ChainSettings) -> None:
        self._settings = settings
        self._run = identity_of(settings)
        self._snapshot = handle.getValueState("chain", _STATE)
        self._digest = handle.getValueState("digest", _DIGEST)
        self._chunks = state_chunks(handle) if settings.spill is not None else None

    def chain(self, site: str) -> tuple[Chain, int]:
        """Return the site's chain and the number of its results so far; a new chain without state.

        Raises:
            UserError: the state is damaged, or from another version.
        """
        digest = self._digest.get()
        if digest is None and not self._snapshot.exists():
            return Chain(self._settings, site, self._chunks), 0
        kept, results = (b"", 0) if digest is None else (bytes(digest[0]), digest[1])
        live = LIVE.take(self._run, site, kept)
        if live is not None:
            return live, results
        snapshot = bytes(self._snapshot.get()[0])
        whole = snapshot if digest_of(snapshot) == kept else b""
        try:
            return Chain.restored(self._settings, site, unpacked(whole), self._chunks), results
        except StateDamagedError as damaged:
            raise _damaged(site, damaged) from damaged

    def keep(self, chain: Chain, results: int) -> None:
        """Store the chain and its number of results as the state of its site."""
        snapshot = packed(chain.to_bytes())
        digest = digest_of(snapshot)
        self._snapshot.update((snapshot,))
        self._digest.update((digest, results))
        if self._chunks is None:  # otherwise it refers to a handle that ends with this batch
            LIVE.keep(self._run, chain, digest, len(snapshot))

    def apart(self, chain: Chain) -> Chain:
        """Return a chain that the caller may change without a change of the stored state."""
        if self._chunks is None:
            LIVE.forget(self._run, chain.site)
            return chain
        chunks = self._chunks
        return Chain.restored(
            self._settings, chain.site, chain.to_bytes(), lambda query: ChunksApart(chunks(query))
        )


class NumberState:
    """The numbering of a site's rows between micro-batches."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("numbers", _STATE)

    def restore(self, site: str, numbering: Numbering) -> None:
        """Restore the numbering; raises UserError if the state is damaged."""
        if not self._state.exists():
            return
        try:
            numbering.restore(from_bytes(unpacked(bytes(self._state.get()[0]))))
        except StateDamagedError as damaged:
            raise _damaged(site, damaged) from damaged

    def keep(self, numbering: Numbering) -> None:
        self._state.update((packed(to_bytes(numbering.snapshot())),))


def _damaged(site: str, how: StateDamagedError) -> UserError:
    return UserError(
        f"the state of site {site!r} in Spark's checkpoint {how}: remove the checkpoint, or choose "
        "a new folder; all is made again from the log"
    )


def packed(snapshot: bytes) -> bytes:
    """Compress a snapshot: the JVM has several copies of it, which would fill its heap."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(snapshot)
    return bytes(sink.getvalue())


def unpacked(state: bytes) -> bytes:
    """Return the snapshot that ``packed`` compressed.

    Raises:
        StateDamagedError: ``state`` is not from ``packed``.
    """
    if not state.startswith(_ZSTD):
        raise StateDamagedError("is not of this version, or damaged")
    try:
        with pa.CompressedInputStream(pa.BufferReader(state), "zstd") as stream:
            return bytes(stream.read())
    except OSError as error:
        raise StateDamagedError(f"is damaged: {error}") from error


# The stateful operator: one chain per site, fed with the rows of Spark's group of the site.


class Due(Struct, frozen=True):
    """The input of a site in micro-batch ``batch``: ``frames``, a few at a time.

    ``ends``: the site's input ends after them. ``lasts``: the state before that end is kept, as a
    later run may continue the input.
    """

    frames: Iterator[list[Frame]]
    batch: int
    ends: bool
    lasts: bool


class SiteInput(Protocol):
    """Interprets the rows of a site."""

    def init(self, handle: StatefulProcessorHandle) -> None: ...
    def due(self, site: str, rows: Iterator[Row]) -> Due: ...


class SiteOutput(Protocol):
    """Output for a site in a micro-batch: ``rows``, and the number of ``results`` of the site."""

    rows: list[Row]
    results: int

    def add(self, chain: Chain, frames: list[Frame]) -> None: ...
    def end(self, chain: Chain) -> None: ...


class SiteProcessor(StatefulProcessor):  # type: ignore[misc]  # pyspark is not checked here
    """Runs one chain per site.

    Args:
        settings: settings of all chains.
        rows: interprets a site's rows.
        answers: creates the output from site, number of the micro-batch, and results so far.
        cache: folder of compiled kernels; workers have another environment than the driver.
    """

    def __init__(
        self,
        settings: ChainSettings,
        rows: SiteInput,
        answers: Callable[[str, int, int], SiteOutput],
        cache: Path,
    ) -> None:
        self._settings = settings
        self._rows = rows
        self._answers = answers
        self._cache = cache

    def init(self, handle: StatefulProcessorHandle) -> None:
        os.environ.setdefault("SLACKWATER_CACHE", str(self._cache))
        self._state = ChainState(handle, self._settings)
        self._rows.init(handle)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's clocks must not matter
    ) -> Iterator[Row]:
        due = self._rows.due(key[0], rows)
        chain, results = self._state.chain(key[0])
        answers = self._answers(key[0], due.batch, results)
        for frames in due.frames:
            answers.add(chain, frames)
        if due.lasts:
            self._state.keep(chain, answers.results)
        if due.ends:
            answers.end(self._state.apart(chain) if due.lasts else chain)
        return iter(answers.rows)

    def close(self) -> None:
        """Do nothing; there is nothing to release."""


# Input and output of the host (DESIGN, "Spark").
#
# A site's rows say where its frames are in the log; the worker reads them there, so that events
# pass neither the shuffle nor the socket between the JVM and Python. The rows are sorted by their
# place in the log first, as Spark does not define an order within a group.


OUTPUT: Final = (
    "site string, batch long, number long, last boolean, kind string, rows long, payload binary"
)
"""``batch``: the micro-batch. ``number``: within site and batch. ``last``: output of the end of the
input. ``rows``: number of rows of the table in ``payload``; 0: it is not a table."""

_ROWS_AT_ONCE: Final = 1 << 16
_PAYLOAD_BYTES: Final = 1 << 25
"""Size of a table in one row; a JVM has several copies of it."""


class LogSource(Struct, frozen=True):
    """Reads rows of a reading list of ``log``; a row of a frame without rows ends the site's
    input.
    """

    log: Path

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Do nothing; there is no state."""

    def due(self, site: str, rows: Iterator[Row]) -> Due:  # noqa: ARG002
        places: dict[str, list[int]] = {}
        batch, ends = 0, False
        for row in rows:
            batch = row.batch
            if row.rows:
                places.setdefault(row.file, []).append(row.place)
            else:
                ends = True
        return Due(_together(frames_at(self.log, places)), batch, ends, lasts=True)


class PackedAnswers:
    """Output as rows of ``OUTPUT``.

    Args:
        site: the chain's site.
        batch: number of the micro-batch.
        results: number of results of the site so far.
        files: whether tables are in the form of files (``run_writer.filed``), not of the chain.
    """

    def __init__(self, site: str, batch: int, results: int, *, files: bool) -> None:
        self._site = site
        self._batch = batch
        self._files = files
        self.results = results
        self.rows: list[Row] = []

    def add(self, chain: Chain, frames: list[Frame]) -> None:
        """Add the output of the chain for ``frames``."""
        for parts in chain.next_parts(frames):
            self._add(parts, last=False)

    def end(self, chain: Chain) -> None:
        """Add the output for the end of the input."""
        self._add(chain.last_parts(), last=True)

    def _add(self, parts: list[OutputPart], *, last: bool) -> None:
        for part in self._filed(parts) if self._files else parts:
            rows = part.payload.num_rows if isinstance(part.payload, pa.Table) else 0
            payload = packed_part(part).payload
            self.rows.append(
                Row(
                    site=self._site, batch=self._batch, number=len(self.rows), last=last,
                    kind=part.kind, rows=rows, payload=bytearray(payload),
                )
            )  # fmt: skip

    def _filed(self, parts: list[OutputPart]) -> Iterator[OutputPart]:
        files, counters = filed(parts, self.results)
        for kind, of_kind in files.items():
            for table in (table for tables in of_kind for table in tables):
                step = max(1, table.num_rows * _PAYLOAD_BYTES // max(table.nbytes, 1))
                for start in range(0, table.num_rows, step):
                    yield OutputPart(self._site, kind, table.slice(start, step))
                self.results += table.num_rows
        yield from (OutputPart(site, COUNTERS, each) for site, each in counters.items())


def _together(of_files: Iterable[list[Frame]]) -> Iterator[list[Frame]]:
    """Combine frames of small files, as a server writes them: a call takes milliseconds."""
    waiting: list[Frame] = []
    rows = 0
    for frames in of_files:
        waiting += frames
        rows += sum(frame.rows for frame in frames)
        if rows >= _ROWS_AT_ONCE:
            yield waiting
            waiting, rows = [], 0
    if waiting:
        yield waiting
