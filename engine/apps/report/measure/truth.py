"""The instants at which events truly happened, and clock errors against their declared bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from slackwater.edge_agent.device_clock import ARRIVAL, device_of
from slackwater.engine.apps.report.measure.events import (
    CLOCK,
    NO_NUMBER,
    NO_TEXT,
    RunRows,
    ordered_rows,
    quantiles,
    read_rows,
)
from slackwater.engine.core.errors import ContractViolation

# The instants at which events truly happened, looked up by who made them and their number.
#
# Of a simulation (``simulator.truth``) or a scenario that knows them; by (site, source, stream),
# incarnation and number.


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
        # One past the last key means "not there".
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


# Clock error against its declared bound: is ``ref`` within ``unc`` of the true time?
#
# The error of an event is ``ref`` minus the engine clock's reading at the instant it truly
# happened: positive = ``ref`` is too late. Its declared bound is the uncertainty ``unc`` that the
# engine gave it (R19 Eq 3.14 and its growth). The share inside the bound is over all events whose
# truth is known; pictures show the extremes of each slice of time.


SLICES: Final = 120
"""Of the time line of one source; each shows its two extreme events."""


def measure_clock_error(
    directory: Path, truth: Path, *, arrival_given: bool = False
) -> dict[str, Any]:
    """Per clock what was declared and, where the truth is known, what the error was.

    Args:
        directory: of the main pass.
        truth: directory with ``events.parquet`` (``simulator.truth``); need not exist.
        arrival_given: whether arrivals are instants, not line numbers.

    Returns:
        ``known`` (whether there is any truth), ``events``, ``with_truth``, ``inside``, and per
        clock, a source's own or a device's: ``bound_ns`` (quantiles of unc), ``error_ns``
        (quantiles of the error's size and ``median``, signed), ``series`` (``at_ns error_ns
        bound_ns``; at = true time); ``lag_ns``: so much later than its bound allows each event
        came at least, where a bound is declared.
    """
    known = (truth / "events.parquet").is_file()
    columns = [*LANE, "unc", *(("ref", *NUMBER) if known else ())]
    if arrival_given:
        columns += ["arrival", *(() if known else ("ref",))]
    rows = ordered_rows(directory, [*columns, CLOCK])
    lanes = TrueTimes(truth) if known else None
    sources: dict[str, Any] = {}
    for name, mine in rows_by_clock(rows).items():
        bound = rows["unc"][mine]
        found: dict[str, Any] = {"events": int(mine.size), "bound_ns": quantiles(np.sort(bound))}
        own = RunRows({key: column[mine] for key, column in rows.numbers.items()}, rows.texts)
        if arrival_given and bound.any():
            found["lag_ns"] = int((own["arrival"] - own["ref"] - bound).min())
        if lanes is not None:
            found |= _judge(own, lanes)
        sources[name] = found
    return {
        "known": known,
        "events": len(rows),
        "with_truth": sum(each.get("with_truth", 0) for each in sources.values()),
        "inside": sum(each.get("inside", 0) for each in sources.values()),
        "sources": sources,
    }


def rows_by_clock(rows: RunRows) -> dict[str, np.ndarray]:
    """Row numbers by clock, ascending: a source's own, or a device's over all its epochs."""
    clocks: dict[str, list[np.ndarray]] = {}
    for (site, source, clock), mine in rows.groups("site", "source", CLOCK):
        device = source if clock == NO_TEXT else device_of(clock).partition(ARRIVAL)[0]
        clocks.setdefault(f"{site}/{device}", []).append(mine)
    return {name: np.sort(np.concatenate(parts)) for name, parts in clocks.items()}


def _judge(rows: RunRows, truth: TrueTimes) -> dict[str, Any]:
    """The errors of one source's events."""
    true_ns, matched = truth.of(rows)
    true_ns, bound = true_ns[matched], rows["unc"][matched]
    error = rows["ref"][matched] - truth.engine_reads(true_ns)
    size = np.sort(np.abs(error))
    return {
        "with_truth": int(error.size),
        "inside": int((np.abs(error) <= bound).sum()),
        "error_ns": {"median": quantiles(np.sort(error))["p50"], **quantiles(size)},
        "series": _extremes(true_ns, error, bound),
    }


def _extremes(at: np.ndarray, error: np.ndarray, bound: np.ndarray) -> dict[str, list[int]]:
    """The least and the greatest error of each slice of time, in order of time."""
    if not at.size:
        return {"at_ns": [], "error_ns": [], "bound_ns": []}
    low, length = int(at.min()), int(at.max()) - int(at.min()) + 1
    place = (at - low) // max(-(-length // SLICES), 1)
    order = np.lexsort((error, place))
    ends = np.flatnonzero(np.diff(place[order], append=SLICES + 1))
    starts = np.concatenate(([0], ends[:-1] + 1))
    chosen = np.unique(order[np.concatenate((starts, ends))])
    chosen = chosen[np.argsort(at[chosen], kind="stable")]
    return {
        "at_ns": at[chosen].tolist(),
        "error_ns": error[chosen].tolist(),
        "bound_ns": bound[chosen].tolist(),
    }
