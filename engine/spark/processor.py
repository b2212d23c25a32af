"""The stateful operator of the Spark host: one chain per site (DESIGN, "Spark").

Its state is the chain's snapshot, one binary value per site in Spark's state store. Rows of a site
are frames; they are sorted by their place in the log before processing, since Spark promises no
order inside a group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from engine.chain import Chain, ChainSettings
from engine.frame import Frame
from engine.results.run_writer import Part, last_parts, parts_of

OUTPUT: Final = "site string, number long, kind string, payload binary"
_STATE: Final = StructType([StructField("snapshot", BinaryType())])


class SiteChain(StatefulProcessor):  # type: ignore[misc]  # pyspark is not checked here
    """Feeds the frames of a site to its chain; a row without a payload ends the site's input."""

    def __init__(self, settings: ChainSettings, cache: str) -> None:
        self._settings = settings
        self._cache = cache

    def init(self, handle: StatefulProcessorHandle) -> None:
        use_cache(self._cache)
        self._state = handle.getValueState("chain", _STATE)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's clocks must not matter
    ) -> Iterator[Row]:
        site = key[0]
        if self._state.exists():
            chain = Chain.restored(self._settings, site, bytes(self._state.get()[0]))
        else:
            chain = Chain(self._settings, site)
        entries = sorted((row.file, row.place, bytes(row.payload)) for row in rows)
        frames = [Frame.from_bytes(site, payload) for _, _, payload in entries if payload]
        parts = parts_of(site, chain.process(frames))
        if any(not payload for _, _, payload in entries):
            parts += last_parts(chain)
        self._state.update((chain.snapshot(),))
        return iter([_row(number, part) for number, part in enumerate(parts)])

    def close(self) -> None:
        """Nothing to release."""


def use_cache(folder: str) -> None:
    """Compiled kernels are found where the driver keeps them; workers have other environments."""
    os.environ.setdefault("SLACKWATER_CACHE", folder)


def _row(number: int, part: Part) -> Row:
    return Row(site=part.site, number=number, kind=part.kind, payload=bytearray(part.payload))
