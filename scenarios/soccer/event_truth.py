"""The truth table of a run in columns, and the way from an event's number to its row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.log import LogReader
from slackwater.log import records as r
from slackwater.simulation import LOG, TRUTH

_SEQ_BITS: Final = 40
_INCARNATION_BITS: Final = 12
NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class EventTruth:
    """Equally long columns, one row per event that an agent numbered.

    Attributes:
        names: the sources; ``source`` holds indices into it.
        source, seq, incarnation: which event.
        true_ns: when it happened.
        sid, v: what the sensor said.
        kick, goal: whether it is such a step of the goal query.
        unnumbered: events that no agent numbered (refused), not among the rows.
    """

    names: tuple[str, ...]
    source: np.ndarray
    seq: np.ndarray
    incarnation: np.ndarray
    true_ns: np.ndarray
    sid: np.ndarray
    v: np.ndarray
    kick: np.ndarray
    goal: np.ndarray
    unnumbered: int
    _keys: np.ndarray
    _rows: np.ndarray

    @classmethod
    def read(cls, directory: Path) -> EventTruth:
        """The truth of the run in ``directory``."""
        table = pq.read_table(directory / TRUTH / "events.parquet")
        rows = table.num_rows
        table = table.filter(table.column("seq").is_valid())
        names = tuple(sorted(pc.unique(table.column("source").cast(pa.string())).to_pylist()))
        columns = {
            name: table.column(column).to_numpy()
            for name, column in {
                "seq": "seq", "incarnation": "incarnation", "true_ns": "true_ts",
                "sid": "truth.sid", "v": "truth.v", "kick": "truth.kick", "goal": "truth.goal",
            }.items()
        }  # fmt: skip
        source = source_codes(table.column("source"), names)
        keys = _keys(source, columns["incarnation"], columns["seq"])
        order = np.argsort(keys, kind="stable")
        assert np.all(np.diff(keys[order]) > 0), "an agent gave a number twice"
        return cls(
            names=names,
            source=source,
            unnumbered=rows - table.num_rows,
            _keys=keys[order],
            _rows=order,
            **columns,
        )

    def __len__(self) -> int:
        return len(self.seq)

    def find(self, source: Any, incarnation: np.ndarray, seq: np.ndarray) -> np.ndarray:
        """Rows of events by source (Arrow text), incarnation and number; ``NOWHERE`` if none."""
        codes = source_codes(source, self.names)
        keys = _keys(codes, incarnation, seq)
        place = np.searchsorted(self._keys, keys).clip(max=len(self) - 1)
        known = (codes >= 0) & (self._keys[place] == keys)
        return np.where(known, self._rows[place], NOWHERE)

    def logged(self, directory: Path) -> np.ndarray:
        """Which events are in the arrival log of the run in ``directory``."""
        found = np.zeros(len(self), np.bool_)
        for frame in LogReader(directory / LOG):
            columns = frame.batch.schema.names
            events = pa.table([frame.batch.column(name) for name in columns], names=columns)
            if r.KIND in columns:
                events = events.filter(pc.equal(events.column(r.KIND), int(r.Kind.EVENT)))
            seq = events.column(r.SEQ).to_numpy()
            incarnation = (
                events.column(r.INCARNATION).to_numpy()
                if r.INCARNATION in columns
                else np.zeros(seq.size, np.int64)
            )
            rows = self.find(events.column(r.SOURCE), incarnation, seq)
            assert np.all(rows >= 0), "the log holds an event that nobody made"
            found[rows] = True
        return found


def source_codes(source: Any, names: tuple[str, ...]) -> np.ndarray:
    """Indices into ``names`` of a text column, plain or dictionary-encoded; -1 if not in it."""
    texts = source.cast(pa.string())
    found = pc.index_in(texts, value_set=pa.array(names, pa.string()))
    return np.asarray(pc.fill_null(found, -1).to_numpy(), np.int64)


def _keys(source: np.ndarray, incarnation: np.ndarray, seq: np.ndarray) -> np.ndarray:
    number = (source << _INCARNATION_BITS | incarnation.astype(np.int64)) << _SEQ_BITS
    return np.asarray(number | seq)
