"""An arrival log as whole columns: what shows clocks and links, and no attributes.

Memory: some 70 bytes per record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.log.describe import ints, string_codes

NONE: Final = -(2**63)
"""Means null in a column of numbers."""
_NUMBERS: Final = (
    r.KIND, r.SEQ, r.INCARNATION, r.TS, r.ARRIVAL, r.OFFSET, r.DELAY, r.PRECISION,
    r.SKEW_ERROR_PPB, r.FIRST_SEQ,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Records in the order of the log, site by site in that of each site.

    ``numbers``: int64 by field name, ``NONE`` where null; ``source``, ``stream``, ``type``: codes
    of ``sources`` ((site, source) pairs), ``streams`` and ``types``; -1: null. ``clock``: codes of
    ``sources``, too, as (site, clock) pairs; None: every record is of its source's own clock.
    """

    numbers: dict[str, np.ndarray]
    source: np.ndarray
    stream: np.ndarray
    type: np.ndarray
    sources: list[tuple[str, str]]
    streams: list[str]
    types: list[str]
    clock: np.ndarray | None = None

    def __getitem__(self, name: str) -> np.ndarray:
        return self.numbers[name]

    @property
    def clocks(self) -> np.ndarray:
        """Code of each record's clock."""
        return self.source if self.clock is None else self.clock

    def rows(self, kind: Kind) -> np.ndarray:
        """Places of the records of ``kind``."""
        return np.flatnonzero(self.numbers[r.KIND] == kind)


class _Texts:
    """Codes of texts over all frames."""

    def __init__(self) -> None:
        self.known: dict[object, int] = {}

    def codes(self, column: pa.Array | None, rows: int, missing: str | None, key: Callable[
        [str], object]) -> np.ndarray:  # fmt: skip
        if column is None:
            code = -1 if missing is None else self.known.setdefault(key(missing), len(self.known))
            return np.full(rows, code, np.int64)
        codes, texts = string_codes(column)
        own = [self.known.setdefault(key(text), len(self.known)) for text in texts]
        found: np.ndarray = np.array([*own, -1], np.int64)[codes]
        return found


def read_columns(log: Path, advanced: Callable[[int], None] = lambda _rows: None) -> LogColumns:
    """The whole log.

    Args:
        log: an arrival log.
        advanced: receives the number of records after each frame.

    Raises:
        UserError: no log, or its arrivals are the line numbers of a trace.
    """
    reader = LogReader(log)
    if not reader.arrival_given:
        raise UserError(
            f"{log}: its arrivals are the line numbers of a trace, which say nothing of clocks and "
            "links; use a log that a gateway or a simulation wrote"
        )
    sources, streams, types = _Texts(), _Texts(), _Texts()
    parts: list[dict[str, np.ndarray]] = []
    for frame in reader:
        parts.append(_numbers(frame) | _codes(frame, sources, streams, types))
        advanced(frame.rows)
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return LogColumns(
        {name: found[name] for name in _NUMBERS}, found["source"], found["stream"], found["type"],
        [(str(each[0]), str(each[1])) for each in sources.known if isinstance(each, tuple)],
        [str(each) for each in streams.known], [str(each) for each in types.known],
        found["clock"],
    )  # fmt: skip


def _numbers(frame: Frame) -> dict[str, np.ndarray]:
    batch, found = frame.batch, {}
    names = set(batch.schema.names)
    for name in _NUMBERS:
        if name in names:
            values, given = ints(batch.column(name))
            found[name] = np.where(given, values.astype(np.int64), NONE)
        else:
            usual = 0 if name in (r.KIND, r.INCARNATION) else NONE
            found[name] = np.full(frame.rows, usual, np.int64)
    return found


def _codes(frame: Frame, sources: _Texts, streams: _Texts, types: _Texts) -> dict[str, np.ndarray]:
    batch = frame.batch
    names = set(batch.schema.names)

    def column(name: str) -> pa.Array | None:
        return batch.column(name) if name in names else None

    source = sources.codes(column(r.SOURCE), frame.rows, None, lambda text: (frame.site, text))
    clock = sources.codes(column(r.CLOCK), frame.rows, None, lambda text: (frame.site, text))
    return {
        "source": source,
        "clock": np.where(clock >= 0, clock, source),
        "stream": streams.codes(column(r.STREAM), frame.rows, r.DEFAULT_STREAM, lambda text: text),
        "type": types.codes(column(r.TYPE), frame.rows, None, lambda text: text),
    }
