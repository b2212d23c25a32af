"""The stateful operator of the Spark host: one chain per site (DESIGN, "Spark").

Its state is the chain's snapshot, one binary value per site in Spark's state store, with a digest
beside it: a worker that still has the chain of that digest does not read it. Rows of a site
say where its frames stand in the log; the worker fetches them there itself, so that the events
cross neither the shuffle nor the socket between the JVM and Python. They are sorted by their place
in the log first, since Spark promises no order inside a group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from engine.chain import Chain, ChainSettings
from engine.errors import ContractViolation
from engine.log.arrival_log import frames_at
from engine.results.run_writer import Part, last_parts, parts_of
from engine.spark.live_chains import LIVE, digest_of
from engine.spark.staged import LARGE, Staged
from engine.spark.state_chunks import state_chunks

OUTPUT: Final = "site string, number long, kind string, payload binary, staged string"
"""``staged``: the payload's name in the folder for large ones; empty: it is here."""
_STATE: Final = StructType([StructField("snapshot", BinaryType())])
_DIGEST: Final = StructType([StructField("digest", BinaryType())])


class SiteChain(StatefulProcessor):  # type: ignore[misc]  # pyspark is not checked here
    """Feeds the frames of a site to its chain; a row of a frame without rows ends its input.

    Args:
        settings: of every chain.
        log: folder of the arrival log.
        staged: folder for large payloads.
        cache: where compiled kernels are.
    """

    def __init__(self, settings: ChainSettings, log: Path, staged: Path, cache: Path) -> None:
        self._settings = settings
        self._log = log
        self._staged = Staged(staged)
        self._cache = cache
        self._run = f"{log} {settings!r}"

    def init(self, handle: StatefulProcessorHandle) -> None:
        use_cache(self._cache)
        self._state = handle.getValueState("chain", _STATE)
        self._digest = handle.getValueState("digest", _DIGEST)
        self._chunks = state_chunks(handle) if self._settings.spill is not None else None

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's clocks must not matter
    ) -> Iterator[Row]:
        site = key[0]
        chain = self._chain(site)
        places: dict[str, list[int]] = {}
        ended = False
        for row in rows:
            if row.rows:
                places.setdefault(unquote(row.file), []).append(row.place)
            else:
                ended = True
        parts = []
        for frames in frames_at(self._log, places):
            parts += parts_of(site, chain.process(frames))
        if ended:
            parts += last_parts(chain)
        self._keep(chain)
        return iter([self._row(number, part) for number, part in enumerate(parts)])

    def _chain(self, site: str) -> Chain:
        """The site's chain as the state has it."""
        if self._digest.exists():
            live = LIVE.take(self._run, site, bytes(self._digest.get()[0]))
            if live is not None:
                return live
        elif not self._state.exists():  # else of a version that wrote no digests
            return Chain(self._settings, site, self._chunks)
        snapshot = unpacked(bytes(self._state.get()[0]))
        return Chain.restored(self._settings, site, snapshot, self._chunks)

    def _keep(self, chain: Chain) -> None:
        snapshot = packed(chain.snapshot())
        digest = digest_of(snapshot)
        self._state.update((snapshot,))
        self._digest.update((digest,))
        if self._chunks is None:  # else it holds on to a handle that ends with this batch
            LIVE.keep(self._run, chain, digest, len(snapshot))

    def _row(self, number: int, part: Part) -> Row:
        payload, staged = part.payload, ""
        if len(payload) >= LARGE:
            payload, staged = b"", self._staged.put(payload)
        return Row(
            site=part.site, number=number, kind=part.kind, payload=bytearray(payload), staged=staged
        )

    def close(self) -> None:
        """Nothing to release."""


_ZSTD: Final = bytes.fromhex("28b52ffd")
"""How every zstd frame begins (RFC 8878)."""


def packed(snapshot: bytes) -> bytes:
    """A snapshot, smaller: the JVM holds several copies of it, which would fill its heap."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(snapshot)
    return bytes(sink.getvalue())


def unpacked(state: bytes) -> bytes:
    """What ``packed`` was given.

    Raises:
        ContractViolation: it was not: a checkpoint of a version that did not pack.
    """
    if not state.startswith(_ZSTD):
        raise ContractViolation(
            "checkpoint of an earlier version: start again with a new checkpoint directory"
        )
    with pa.CompressedInputStream(pa.BufferReader(state), "zstd") as stream:
        return bytes(stream.read())


def use_cache(folder: Path) -> None:
    """Compiled kernels are found where the driver keeps them; workers have other environments."""
    os.environ.setdefault("SLACKWATER_CACHE", str(folder))
