"""The instants at which events truly happened, looked up by who made them and their number.

Of a simulation (``simulator.truth``) or a scenario that knows them; by (site, source, stream),
incarnation and number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.parquet as pq

from engine.errors import ContractViolation
from engine.report.measure.rows import NO_NUMBER, RunRows, read_rows

LANE: Final = ("site", "source", "stream")
NUMBER: Final = ("seq", "incarnation")
_KEYS_MAX: Final = 2**62


class TrueTimes:
    """True times by (site, source, stream), incarnation and number; and the engine's clock."""

    def __init__(self, truth: Path) -> None:
        columns = (*LANE, "incarnation", "seq", "true_ts")
        self._rows = read_rows([truth / "events.parquet"], columns)
        self._lanes = dict(self._rows.groups(*LANE))
        self._engine = _engine_error(truth / "clocks.parquet")

    def of(self, rows: RunRows) -> tuple[np.ndarray, np.ndarray]:
        """(true time, whether it is known) of rows with the columns ``LANE`` and ``NUMBER``."""
        true_ns = np.full(len(rows), NO_NUMBER, np.int64)
        known = np.zeros(len(rows), bool)
        for lane, mine in rows.groups(*LANE):
            numbers = rows["incarnation"][mine], rows["seq"][mine]
            true_ns[mine], known[mine] = self._look_up(lane, *numbers)
        return true_ns, known

    @property
    def numbered(self) -> np.ndarray:
        """True times of all events that their device gave a number."""
        times: np.ndarray = self._rows["true_ts"][self._rows["seq"] != NO_NUMBER]
        return times

    def _look_up(
        self, lane: tuple[str, ...], incarnation: np.ndarray, seq: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(true time, whether it is known) of one lane's events."""
        mine = self._lanes.get(lane)
        if mine is None:
            return np.full(seq.size, NO_NUMBER, np.int64), np.zeros(seq.size, bool)
        numbered = mine[self._rows["seq"][mine] != NO_NUMBER]
        starts, of = np.unique(self._rows["incarnation"][numbered], return_inverse=True)
        own = self._rows["seq"][numbered]
        width = int(own.max(initial=0)) + 1
        if width * (starts.size + 1) > _KEYS_MAX:
            raise ContractViolation(f"truth of {'/'.join(lane)}: number {width - 1} is too large")
        keys = of * width + own
        order = np.argsort(keys, kind="stable")
        keys, times = keys[order], self._rows["true_ts"][numbered][order]
        start = np.searchsorted(starts, incarnation)
        known = (seq >= 0) & (seq < width) & (start < starts.size)
        known[known] = starts[start[known]] == incarnation[known]
        wanted = start[known] * width + seq[known]
        # One past the last key stands for "not there".
        place = np.searchsorted(keys, wanted)
        there = np.append(keys, NO_NUMBER)[place] == wanted
        known[known] = there
        found = np.full(seq.size, NO_NUMBER, np.int64)
        found[known] = times[place[there]]
        return found, known

    def engine_reads(self, true_ns: np.ndarray) -> np.ndarray:
        """What the engine's clock reads at true times, straight lines between its samples."""
        at, error = self._engine
        if not error.any() or not true_ns.size:
            return true_ns
        since = (true_ns - at[0]).astype(np.float64)
        between = np.interp(since, (at - at[0]).astype(np.float64), error.astype(np.float64))
        reading: np.ndarray = true_ns + np.rint(between).astype(np.int64)
        return reading


def _engine_error(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Sampled (true time, engine clock minus true time), int64 ns, by time."""
    if not path.is_file():
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    table = pq.read_table(path, columns=["true_ns", "engine_ns"])
    at, first = np.unique(table.column("true_ns").to_numpy(), return_index=True)
    if not at.size:
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    return at, table.column("engine_ns").to_numpy()[first] - at
