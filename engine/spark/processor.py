"""The stateful operator of the Spark host: one chain per site (DESIGN, "Spark").

Rows of a site say where its frames stand in the log; the worker fetches them there itself, so that
the events cross neither the shuffle nor the socket between the JVM and Python. They are sorted by
their place in the log first, since Spark promises no order inside a group.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from engine.chain import ChainSettings
from engine.chain.output_parts import last_parts, next_parts
from engine.log.arrival_log import frames_at
from engine.results.run_writer import OutputPart, packed
from engine.spark.chain_state import ChainState
from engine.spark.typed_output import LARGE, Staged
from engine.stream.frame import Frame

OUTPUT: Final = "site string, number long, last boolean, kind string, payload binary, staged string"
"""``last``: only the end of the input gives it. ``staged``: the payload's name in the folder for
large ones; empty: it is here."""

_ROWS_AT_ONCE: Final = 1 << 16


class SiteChain(StatefulProcessor):  # type: ignore[misc]  # pyspark is not checked here
    """Feeds the frames of a site to its chain; a row of a frame without rows ends its input.

    The end gives its output, but the state stays as before it: the log may go on for a later run.

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

    def init(self, handle: StatefulProcessorHandle) -> None:
        use_cache(self._cache)
        self._state = ChainState(handle, self._settings)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's clocks must not matter
    ) -> Iterator[Row]:
        site = key[0]
        chain = self._state.chain(site)
        places: dict[str, list[int]] = {}
        ended = False
        for row in rows:
            if row.rows:
                places.setdefault(row.file, []).append(row.place)
            else:
                ended = True
        parts: list[OutputPart] = []
        for frames in _together(frames_at(self._log, places)):
            for some in next_parts(chain, frames):
                parts += map(packed, some)
        self._state.keep(chain)
        last = last_parts(self._state.apart(chain)) if ended else []
        given = [(part, False) for part in parts]
        given += [(packed(part), True) for part in last]
        return iter([self._row(number, *each) for number, each in enumerate(given)])

    def _row(self, number: int, part: OutputPart, last: bool) -> Row:
        payload, staged = part.payload, ""
        if len(payload) >= LARGE:
            payload, staged = b"", self._staged.put(payload)
        return Row(
            site=part.site, number=number, last=last, kind=part.kind,
            payload=bytearray(payload), staged=staged,
        )  # fmt: skip

    def close(self) -> None:
        """Nothing to release."""


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


def use_cache(folder: Path) -> None:
    """Compiled kernels are found where the driver keeps them; workers have other environments."""
    os.environ.setdefault("SLACKWATER_CACHE", str(folder))
