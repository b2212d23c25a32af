"""A site's chain between micro-batches: its snapshot in Spark's state store (DESIGN, "Spark").

One binary value per site, and a digest beside it: a worker that still has the chain of that digest
does not read the snapshot. Chunks of spilled events lie beside them.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from engine.chain import Chain, ChainSettings
from engine.chain.identity import identity_of
from engine.chain.state_bytes import StateDamagedError
from engine.errors import UserError
from engine.pattern.spill.chunk_store import ChunksApart
from engine.spark.live_chains import LIVE, digest_of
from engine.spark.state_chunks import state_chunks

_STATE: Final = StructType([StructField("snapshot", BinaryType())])
_DIGEST: Final = StructType([StructField("digest", BinaryType())])
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

    def chain(self, site: str) -> Chain:
        """The site's chain as the state has it; a new one if it has none.

        Raises:
            UserError: the state is damaged, or of another version.
        """
        digest = self._digest.get()
        if digest is None and not self._snapshot.exists():
            return Chain(self._settings, site, self._chunks)
        kept = b"" if digest is None else bytes(digest[0])
        live = LIVE.take(self._run, site, kept)
        if live is not None:
            return live
        snapshot = bytes(self._snapshot.get()[0])
        whole = snapshot if digest_of(snapshot) == kept else b""
        try:
            return Chain.restored(self._settings, site, unpacked(whole), self._chunks)
        except StateDamagedError as damaged:
            raise UserError(
                f"the state of site {site!r} in Spark's checkpoint {damaged}: remove the "
                "checkpoint, or choose a new folder; all is made again from the log"
            ) from damaged

    def keep(self, chain: Chain) -> None:
        """Makes the chain as it is now the state of its site."""
        snapshot = packed(chain.snapshot())
        digest = digest_of(snapshot)
        self._snapshot.update((snapshot,))
        self._digest.update((digest,))
        if self._chunks is None:  # else it holds on to a handle that ends with this batch
            LIVE.keep(self._run, chain, digest, len(snapshot))

    def apart(self, chain: Chain) -> Chain:
        """The chain that was just kept, to do with as one likes: the state stays as it is."""
        if self._chunks is None:
            LIVE.forget(self._run, chain.site)
            return chain
        chunks = self._chunks
        return Chain.restored(
            self._settings, chain.site, chain.snapshot(), lambda query: ChunksApart(chunks(query))
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
