"""Chunks of spilled events in Spark's state store, beside the chain's snapshot.

The store is transactional: what a batch that failed has put is gone when it is done again, so the
operator's snapshot holds no chunks. Only the chunks that late events need cross to Python.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from engine.chain import ChunksOf

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
