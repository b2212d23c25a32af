"""A site's chain between micro-batches: its snapshot in Spark's state store (DESIGN, "Spark")."""

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

# Chunks of spilled events in Spark's state store, beside the chain's snapshot.
#
# The store is transactional: what a batch that failed has put is gone when it is done again, so the
# operator's snapshot holds no chunks. Only the chunks that late events need cross to Python.


_KEY: Final = StructType([StructField("query", StringType()), StructField("number", LongType())])
_CONTENT: Final = StructType([StructField("content", BinaryType())])


class StateChunks:
    """Those of one query, of the site whose rows are being handled.

    Args:
        state: a ``MapState`` of pyspark.
        query: its name.
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
        """What was put has been deleted."""

    def snapshot(self) -> None:
        """The state store keeps it."""

    def restore(self, state: None) -> None:
        """So it has it."""


def state_chunks(handle: StatefulProcessorHandle) -> ChunksOf:
    """The stores by query, for a processor's ``init``."""
    state = handle.getMapState("chunks", _KEY, _CONTENT)
    return lambda query: StateChunks(state, query)


# Chains that a worker process has just fed, so that their next batch need not restore them.
#
# Spark hands a batch's task to any worker, and may run it again. What holds is the state store:
# beside each snapshot stands its digest, and a chain is used here only where that digest is of the
# snapshot taken from it last. To read a digest costs nothing; a snapshot of 20 MB takes longer to
# come from the JVM than its events to be matched.


_BYTES: Final = 1 << 28
"""Of packed snapshots; their chains take several times as much."""
LEAST: Final = 1 << 17
"""What the smallest chain counts for: it takes 80 KB, whose snapshot packs to 7 KB or less."""


def digest_of(snapshot: bytes) -> bytes:
    """What tells snapshots apart."""
    return blake2b(snapshot, digest_size=16).digest()


class LiveChains:
    """At most ``limit`` bytes of chains, those fed last.

    Args:
        limit: measured by their packed snapshots; ``LEAST`` for one that is smaller.
    """

    def __init__(self, limit: int = _BYTES) -> None:
        self._limit = limit
        self._chains: OrderedDict[tuple[str, str], tuple[bytes, int, Chain]] = OrderedDict()
        self._bytes = 0

    def take(self, run: str, site: str, digest: bytes) -> Chain | None:
        """The chain as it was at the snapshot of that digest; the caller owns it.

        Args:
            run: tells apart what is run: settings and log.
            site: whose chain.
            digest: of the snapshot that holds.
        """
        known, size, chain = self._chains.pop((run, site), (b"", 0, None))
        self._bytes -= size
        return chain if known == digest else None

    def forget(self, run: str, site: str) -> None:
        """The chain is to be fed without its state."""
        self.take(run, site, b"")

    def keep(self, run: str, chain: Chain, digest: bytes, size: int) -> None:
        """``chain`` was at a snapshot of ``size`` bytes and has not been fed since."""
        self.take(run, chain.site, digest)
        charged_bytes = max(size, LEAST)
        self._chains[run, chain.site] = (digest, charged_bytes, chain)
        self._bytes += charged_bytes
        while self._bytes > self._limit:
            _, (_, gone, _) = self._chains.popitem(last=False)
            self._bytes -= gone


LIVE: Final = LiveChains()
"""Of this process."""


# A site's chain between micro-batches: its snapshot in Spark's state store (DESIGN, "Spark").
#
# One binary value per site, and beside it its digest and the number of results so far: a worker
# that has the chain of that digest does not read it. Chunks of spilled events lie there, too.


_STATE: Final = StructType([StructField("snapshot", BinaryType())])
_DIGEST: Final = StructType(
    [StructField("digest", BinaryType()), StructField("results", LongType())]
)
_ZSTD: Final = bytes.fromhex("28b52ffd")
"""How every zstd frame begins (RFC 8878)."""


class ChainState:
    """For one micro-batch; of whichever site's rows are being handled.

    Args:
        handle: as a processor's ``init`` gets it.
        settings: of every chain.
    """

    def __init__(self, handle: StatefulProcessorHandle, settings: ChainSettings) -> None:
        self._settings = settings
        self._run = identity_of(settings)
        self._snapshot = handle.getValueState("chain", _STATE)
        self._digest = handle.getValueState("digest", _DIGEST)
        self._chunks = state_chunks(handle) if settings.spill is not None else None

    def chain(self, site: str) -> tuple[Chain, int]:
        """The site's chain as the state has it, and the number of its results so far; a new one
        if it has none.

        Raises:
            UserError: the state is damaged, or of another version.
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
        """Makes the chain as it is now, with so many results, the state of its site."""
        snapshot = packed(chain.to_bytes())
        digest = digest_of(snapshot)
        self._snapshot.update((snapshot,))
        self._digest.update((digest, results))
        if self._chunks is None:  # else it holds on to a handle that ends with this batch
            LIVE.keep(self._run, chain, digest, len(snapshot))

    def apart(self, chain: Chain) -> Chain:
        """The chain that was just kept, to do with as one likes: the state stays as it is."""
        if self._chunks is None:
            LIVE.forget(self._run, chain.site)
            return chain
        chunks = self._chunks
        return Chain.restored(
            self._settings, chain.site, chain.to_bytes(), lambda query: ChunksApart(chunks(query))
        )


class NumberState:
    """What the numbers of a site's rows so far say, between micro-batches."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("numbers", _STATE)

    def restore(self, site: str, numbering: Numbering) -> None:
        """Raises UserError: the state is damaged."""
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
    """A snapshot, smaller: the JVM holds several copies of it, which would fill its heap."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(snapshot)
    return bytes(sink.getvalue())


def unpacked(state: bytes) -> bytes:
    """What ``packed`` was given.

    Raises:
        StateDamagedError: it was not.
    """
    if not state.startswith(_ZSTD):
        raise StateDamagedError("is not of this version, or damaged")
    try:
        with pa.CompressedInputStream(pa.BufferReader(state), "zstd") as stream:
            return bytes(stream.read())
    except OSError as error:
        raise StateDamagedError(f"is damaged: {error}") from error


# The stateful operator: one chain per site, fed with whatever Spark's group of a site holds.


class Due(Struct, frozen=True):
    """What is due of a site: ``frames``, some at a time, in micro-batch ``batch``.

    ``ends``: its input ends behind them. ``lasts``: the state is kept, as it was before that end:
    the input may go on for a later run.
    """

    frames: Iterator[list[Frame]]
    batch: int
    ends: bool
    lasts: bool


class SiteInput(Protocol):
    """What rows of a site mean."""

    def init(self, handle: StatefulProcessorHandle) -> None: ...
    def due(self, site: str, rows: Iterator[Row]) -> Due: ...


class SiteOutput(Protocol):
    """What answers about a site become in a micro-batch: ``rows``; ``results``: of the site."""

    rows: list[Row]
    results: int

    def add(self, chain: Chain, frames: list[Frame]) -> None: ...
    def end(self, chain: Chain) -> None: ...


class SiteProcessor(StatefulProcessor):  # type: ignore[misc]  # pyspark is not checked here
    """A chain per site.

    Args:
        settings: of every chain.
        rows: what a site's rows mean.
        answers: from site, number of the micro-batch, and results so far.
        cache: where compiled kernels are; workers have other environments than the driver.
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
        """Nothing to release."""


# What the host reads and gives (DESIGN, "Spark").
#
# Rows of a site say where its frames are in the log; the worker fetches them there itself, so
# that the events cross neither the shuffle nor the socket between the JVM and Python. They are
# sorted by their place in the log first, since Spark promises no order inside a group.


OUTPUT: Final = (
    "site string, batch long, number long, last boolean, kind string, rows long, payload binary"
)
"""``batch``: the micro-batch. ``number``: in the site and batch. ``last``: only the end of the
input gives it. ``rows``: of the table that ``payload`` is; 0: it is something else."""

_ROWS_AT_ONCE: Final = 1 << 16
_PAYLOAD_BYTES: Final = 1 << 25
"""Of a table in a row: a JVM holds several copies of it."""


class LogSource(Struct, frozen=True):
    """Rows of a reading list of ``log``; one of a frame without rows ends the site's input."""

    log: Path

    def init(self, handle: StatefulProcessorHandle) -> None:
        """It has no state."""

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
    """Rows of ``OUTPUT``.

    Args:
        site: whose chain.
        batch: number of the micro-batch.
        results: of the site so far.
        files: whether tables are as files have them (``run_writer.filed``); else they are as the
            chain gives them.
    """

    def __init__(self, site: str, batch: int, results: int, *, files: bool) -> None:
        self._site = site
        self._batch = batch
        self._files = files
        self.results = results
        self.rows: list[Row] = []

    def add(self, chain: Chain, frames: list[Frame]) -> None:
        """What the chain gives for ``frames``."""
        for parts in chain.next_parts(frames):
            self._add(parts, last=False)

    def end(self, chain: Chain) -> None:
        """What the end of the input gives."""
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
    """Frames of small files, as a server writes them, put together: a call costs milliseconds."""
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
