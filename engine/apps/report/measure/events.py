"""The events of a pass, measured: columns, quantiles, hold times, sources and disorder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.edge_agent.device_clock import ARRIVAL, device_of
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.released import IN_ORDER, LATE, LATE_DROPPED, RESIDUAL
from slackwater.engine.kernels.jit import njit
from slackwater.engine.kernels.records import NONE
from slackwater.engine.kernels.tables import places_of
from slackwater.engine.log.describe import group_rows
from slackwater.engine.log.whole_file import parquet_files

# Reads the columns of a pass's ordered events, and of the truth, as NumPy arrays.
#
# Only the requested columns are read, so that a measure needs only their memory.


CLOCK: Final = "clock"
"""Column that is missing if all events were stamped by their sources' own clocks."""
TEXTS: Final = ("site", "source", "stream", "type", CLOCK)
NO_NUMBER: Final = -1
"""Null in a column of numbers or codes."""
NO_TEXT: Final = "(none)"


@dataclass(frozen=True, slots=True)
class RunRows:
    """Equally long columns: int64 numbers, and texts as int32 codes of ``texts[column]``."""

    numbers: dict[str, np.ndarray]
    texts: dict[str, list[str]]

    def __getitem__(self, name: str) -> np.ndarray:
        return self.numbers[name]

    def __len__(self) -> int:
        return int(next(iter(self.numbers.values())).size)

    def text(self, name: str, code: int) -> str:
        """The text of a code of column ``name``."""
        return NO_TEXT if code < 0 else self.texts[name][code]

    def only(self, rows: np.ndarray) -> RunRows:
        """The rows at these places, or those where a mask is true."""
        return RunRows({name: column[rows] for name, column in self.numbers.items()}, self.texts)

    def names(self, columns: Sequence[str]) -> np.ndarray:
        """(rows, columns) int64 that identify a row among rows with the same texts."""
        return np.column_stack([self.numbers[name] for name in columns]).astype(np.int64)

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """(values, row numbers) of each combination of the columns ``names``.

        Row numbers ascend within a group; groups come in order of first codes and numbers.
        """
        groups = group_rows([self.numbers[name] for name in names])
        for rows in np.split(groups.order, groups.starts[1:]) if len(self) else ():
            first = ((name, int(self.numbers[name][rows[0]])) for name in names)
            yield tuple(self.text(*of) if of[0] in self.texts else of[1] for of in first), rows


def together(first: RunRows, second: RunRows) -> RunRows:
    """The rows of both, with the columns of ``first``."""
    numbers, texts = {}, {}
    for name, column in first.numbers.items():
        other = second[name]
        if name in first.texts:
            known = {text: code for code, text in enumerate(first.texts[name])}
            codes = [known.setdefault(text, len(known)) for text in second.texts[name]]
            other, texts[name] = np.array([*codes, NO_NUMBER], np.int64)[other], list(known)
        numbers[name] = np.concatenate([column, other])
    return RunRows(numbers, texts)


def ordered_rows(directory: Path, columns: Sequence[str]) -> RunRows:
    """``columns`` of the ordered events below ``directory`` (one pass), in release order.

    Raises:
        ContractViolation: a part lacks one of the columns.
    """
    folder = directory / "ordered"
    return read_rows(parquet_files(folder) if folder.is_dir() else [], columns)


def read_rows(paths: Sequence[Path], columns: Sequence[str]) -> RunRows:
    """``columns`` of Parquet files, concatenated.

    Raises:
        ContractViolation: a file lacks one of the columns.
    """
    tables = [_read(path, columns) for path in paths]
    numbers: dict[str, np.ndarray] = {}
    texts: dict[str, list[str]] = {}
    for name in columns:
        # Released while read, so that memory does not hold all columns twice.
        parts = [chunk for table in tables for chunk in table.pop(name).chunks]
        if name in TEXTS:
            numbers[name], texts[name] = codes_of(parts)
        else:
            found = [part.fill_null(NO_NUMBER).to_numpy() for part in parts]
            numbers[name] = np.concatenate(found) if found else np.empty(0, np.int64)
    return RunRows(numbers, texts)


def _read(path: Path, columns: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    absent = sorted(set(columns) - set(pq.read_schema(path).names))
    coded = [name for name in columns if name in TEXTS and name not in absent]
    with pq.ParquetFile(path, read_dictionary=coded) as file:
        if absent and absent != [CLOCK]:
            raise ContractViolation(f"{path}: lacks the columns {', '.join(absent)}")
        table = file.read(columns=[name for name in columns if name not in absent])
        if absent:
            table = table.append_column(CLOCK, pa.nulls(table.num_rows, pa.string()))
    return dict(zip(table.column_names, table.columns, strict=True))


def codes_of(parts: Sequence[pa.Array]) -> tuple[np.ndarray, list[str]]:
    """Codes and texts of chunks that each have their own dictionary."""
    known: dict[str, int] = {}
    found = []
    for part in parts:
        coded = part if pa.types.is_dictionary(part.type) else part.dictionary_encode()
        codes = [known.setdefault(text, len(known)) for text in coded.dictionary.to_pylist()]
        indices = coded.indices.fill_null(len(codes)).to_numpy()
        found.append(np.array([*codes, NO_NUMBER], np.int32)[indices])
    return (np.concatenate(found) if found else np.empty(0, np.int32)), list(known)


# Quantiles of whole nanoseconds, and distributions reduced to the points of a figure.


SHARES: Final = {"p50": (1, 2), "p95": (19, 20), "p99": (99, 100), "p999": (999, 1000)}
POINTS: Final = 200
FLOOR_NS: Final = 1_000


def quantiles(ascending: np.ndarray) -> dict[str, int | None]:
    """Nearest-rank quantiles ``p50 p95 p99 p999 max`` of sorted int64: values that occurred.

    The p-quantile is the smallest value that at least a share p of all values does not exceed.

    >>> quantiles(np.array([10, 20, 30, 40]))
    {'p50': 20, 'p95': 40, 'p99': 40, 'p999': 40, 'max': 40}
    """
    n = int(ascending.size)
    if n == 0:
        return dict.fromkeys((*SHARES, "max"))
    found: dict[str, int | None] = {
        name: int(ascending[-(-n * above // below) - 1]) for name, (above, below) in SHARES.items()
    }
    return found | {"max": int(ascending[-1])}


def axis_floor(ascending: np.ndarray) -> int:
    """Left end of a logarithmic axis: the power of ten below all but the least 0.5 % of the
    positive values, at least a microsecond.
    """
    positive = ascending[np.searchsorted(ascending, 0, side="right") :]
    if not positive.size:
        return FLOOR_NS
    low = int(positive[positive.size // 200])
    return int(max(FLOOR_NS, 10 ** (len(str(low)) - 1)))


def distribution(ascending: np.ndarray, floor: int) -> tuple[np.ndarray, np.ndarray]:
    """Places at which to read a distribution, and the number of values up to each place.

    Args:
        ascending: sorted int64, not empty.
        floor: the smallest place, for a logarithmic axis; smaller values count there.

    Returns:
        At most ``POINTS`` ascending int64 places, evenly spread over a logarithmic axis from
        ``floor`` to the maximum, and the counts.
    """
    top = max(int(ascending[-1]), floor)
    spread = np.rint(np.geomspace(floor, top, POINTS)).astype(np.int64)
    spread[-1] = top  # beyond 2**53 rounding may change it
    places = np.unique(spread)
    return places, np.searchsorted(ascending, places, side="right")


# Hold time: how long ordering buffered each event, release minus arrival on the arrival clock.


def measure_holds(directory: Path) -> dict[str, Any]:
    """Hold times of the events that one pass released, without dropped ones.

    Returns:
        ``events``, ``at_once`` (held for 0 ns), ``hold_ns`` (quantiles and ``mean``) and
        ``curve``: share held at most this long.

    Raises:
        ContractViolation: an event was released before it arrived.
    """
    rows = ordered_rows(directory, ("arrival", "release", "status"))
    passed = rows["status"] != LATE_DROPPED
    hold = np.sort(rows["release"][passed] - rows["arrival"][passed])
    n = int(hold.size)
    if n and hold[0] < 0:
        raise ContractViolation(f"{directory}: an event was released {-hold[0]} ns before it came")
    found: dict[str, Any] = {
        "events": n,
        "at_once": int((hold == 0).sum()),
        # Rounded: int64 sums of some 10^8 holds of hours could overflow; floats lose only
        # precision.
        "hold_ns": {"mean": round(float(hold.mean())) if n else None, **quantiles(hold)},
        "curve": {"hold_ns": [], "share": []},
    }
    if n:
        places, below = distribution(hold, axis_floor(hold))
        found["curve"] = {"hold_ns": places.tolist(), "share": (below / n).tolist()}
    return found


# Progress of each source, and how it delayed the others: from a pass's counters.


_KEPT: Final = (
    "silences", "blocked_ns", "gap_timeout", "idle_timeout", "offset", "uncertainty", "idle",
    "ended",
)  # fmt: skip


def measure_sources(counters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row per site, source and stream; the source that delayed others longest comes first.

    ``silent_ns``: from its last arrival to the site's; ``behind_ns``: from its newest event time,
    on the engine's clock, to the site's last arrival. Values that an order does not know are None.
    """
    rows = []
    for site, of_site in counters["sites"].items():
        end = of_site.get("last_arrival")
        for lane in of_site["lanes"]:
            row = {"site": site, "source": lane["source"], "stream": lane["stream"]}
            row |= {name: lane.get(name) for name in _KEPT}
            for name, of_lane in (("silent_ns", "last_arrival"), ("behind_ns", "last_event")):
                known = end is not None and lane.get(of_lane) is not None
                row[name] = end - lane[of_lane] if known else None
            rows.append(row)
    return sorted(rows, key=lambda row: -(row["blocked_ns"] or 0))


def how_it_ended(row: Mapping[str, Any]) -> str | None:
    """Whether the source was still sending when the input ended; None: unknown."""
    if row["ended"]:
        return "ended"
    if row["idle"] is None:
        return None
    return "idle" if row["idle"] else "speaking"


# Disorder (SPEC 1): events out of order, inversions and lateness, before and after.
#
# An event is out of order if some event that arrived earlier has a larger event time (L10 4.3.1,
# R19 5.2.2). Events with one arrival instant have no order. Inversions are pairs (earlier, later)
# with a larger event time in the earlier one. Lateness is the event clock (largest event time so
# far) minus the event's own. All are per site, summed over sites.


@dataclass(frozen=True, slots=True)
class Disorder:
    """``lateness``: sorted lateness [ns] of the events out of order."""

    events: int
    inversions: int
    lateness: np.ndarray

    def plain(self) -> dict[str, Any]:
        """As plain data; quantiles of lateness are over the events out of order."""
        return {
            "events": self.events,
            "out_of_order": int(self.lateness.size),
            "inversions": self.inversions,
            "lateness_ns": quantiles(self.lateness),
            "curve": self._curve(),
        }

    def _curve(self) -> dict[str, list[Any]]:
        """Shares of all events with at least these values of lateness."""
        if not self.lateness.size:
            return {"lateness_ns": [], "share": []}
        places, _ = distribution(self.lateness, axis_floor(self.lateness))
        at_least = self.lateness.size - np.searchsorted(self.lateness, places, side="left")
        return {"lateness_ns": places.tolist(), "share": (at_least / self.events).tolist()}


@njit
def inversions(times: np.ndarray) -> int:
    """Pairs i < j with times[i] > times[j], by merge sort; ``times`` (int64) is not changed.

    Below 2**63 for any array of less than 4e9 elements.
    """
    n = len(times)
    count = 0
    here, there = times.copy(), np.empty_like(times)
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):
                if i < middle and (j >= high or here[i] <= here[j]):
                    there[k] = here[i]
                    i += 1
                else:
                    there[k] = here[j]
                    j += 1
                    count += middle - i
        here, there = there, here
        width *= 2
    return count


def disorder(site: np.ndarray, times: np.ndarray, arrival: np.ndarray | None) -> Disorder:
    """Disorder of ``times`` in order of ``arrival``, or of the rows if it is None.

    Args:
        site: code of each row's site.
        times: event times, int64 ns.
        arrival: int64 ns; within one instant events count as in order.
    """
    order = np.argsort(site, kind="stable") if arrival is None else np.lexsort((arrival, site))
    if arrival is not None and (np.diff(arrival[order]) == 0).any():
        order = np.lexsort((times, arrival, site))
    cuts = np.flatnonzero(np.diff(site[order])) + 1
    count, late = 0, [np.empty(0, np.int64)]
    for one in np.split(times[order], cuts):
        lateness = np.maximum.accumulate(one) - one
        late.append(lateness[lateness > 0])
        if late[-1].size:
            count += int(inversions(one))
    return Disorder(int(times.size), count, np.sort(np.concatenate(late)))


def measure_disorder(passes: Mapping[str, Path], unordered: str | None = None) -> dict[str, Any]:
    """Disorder on arrival and as each pass released its events.

    Args:
        passes: label -> folder of the pass; the first is the main one.
        unordered: label of a pass that released events as they arrived. It has the order of events
            with one arrival; without it, the main pass's events are sorted by arrival.

    Returns:
        ``arrived_ts`` (by the sources' own clocks), ``arrived_ref`` (clocks corrected) and
        ``released`` per label (by ref, without dropped events), see ``Disorder.plain``. Released
        ones include the numbers of events marked ``late`` or ``residual``, and how many of the
        others are out of order among themselves (``in_time_out_of_order``).
    """
    place = passes[unordered if unordered is not None else next(iter(passes))]
    rows = ordered_rows(place, ("site", "ts", "ref", "arrival"))
    arrival = None if unordered is not None else rows["arrival"]
    found: dict[str, Any] = {
        f"arrived_{name}": disorder(rows["site"], rows[name], arrival).plain()
        for name in ("ts", "ref")
    }
    return found | {
        "released": {
            label: _released(ordered_rows(directory, ("site", "ref", "status")))
            for label, directory in passes.items()
        }
    }


def _released(rows: RunRows) -> dict[str, Any]:
    passed = rows["status"] != LATE_DROPPED
    measured = disorder(rows["site"][passed], rows["ref"][passed], None)
    in_time = rows["status"] == IN_ORDER
    left = disorder(rows["site"][in_time], rows["ref"][in_time], None)
    return measured.plain() | {
        "late": int((rows["status"] == LATE).sum()),
        "residual": int((rows["status"] == RESIDUAL).sum()),
        "in_time_out_of_order": int(left.lateness.size),
    }


# True times of events, looked up by (site, source, stream), incarnation and number.
#
# They come from a simulation (``simulator.truth``) or a scenario that knows them.


LANE: Final = ("site", "source", "stream")
NUMBER: Final = ("seq", "incarnation")


class TrueTimes:
    """True times by (site, source, stream), incarnation and number; and the engine's clock."""

    def __init__(self, truth: Path) -> None:
        rows = read_rows([truth / "events.parquet"], (*LANE, *NUMBER, "true_ts"))
        rows = rows.only(rows["seq"] != NO_NUMBER)
        self.numbered = rows.numbers.pop("true_ts")
        """True times of all numbered events."""
        self._rows = rows
        self._engine = _engine_error(truth / "clocks.parquet")

    def of(self, rows: RunRows) -> tuple[np.ndarray, np.ndarray]:
        """(true time, whether it is known) of rows with the columns ``LANE`` and ``NUMBER``."""
        names = together(self._rows, rows).names((*LANE, *NUMBER))
        place = places_of(names[: len(self._rows)], names[len(self._rows) :])
        return np.append(self.numbered, NO_NUMBER)[place], place != NONE

    def engine_reads(self, true_ns: np.ndarray) -> np.ndarray:
        """The engine's clock at true times, interpolated between its samples."""
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


# Clock error against its declared bound: whether ``ref`` is within ``unc`` of the true time.
#
# The error of an event is ``ref`` minus the engine clock's reading at the true time; positive:
# ``ref`` is too late. Its declared bound is the uncertainty ``unc`` from the engine (R19 Eq 3.14
# and its growth). The share inside the bound is over all events with known truth; figures show the
# extremes of each slice of time.


SLICES: Final = 120
"""Slices of the time line of one source; each shows its two extreme events."""


def measure_clock_error(
    directory: Path, truth: Path, *, arrival_given: bool = False
) -> dict[str, Any]:
    """Per clock, the declared bound and, if the truth is known, the error.

    Args:
        directory: of the main pass.
        truth: folder with ``events.parquet`` (``simulator.truth``); may be missing.
        arrival_given: whether arrivals are instants, not line numbers.

    Returns:
        ``known`` (whether there is any truth), ``events``, ``with_truth``, ``inside``, and per
        clock (a source's own or a device's): ``bound_ns`` (quantiles of unc), ``error_ns``
        (quantiles of the absolute error, and the signed ``median``), ``series`` (``at_ns error_ns
        bound_ns``; at = true time); ``lag_ns``: least time by which each event arrived later than
        its bound allows, if a bound is declared.
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
        clock_rows = rows.only(mine)
        if arrival_given and bound.any():
            found["lag_ns"] = int((clock_rows["arrival"] - clock_rows["ref"] - bound).min())
        if lanes is not None:
            found |= _judge(clock_rows, lanes)
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
    """The least and the greatest error per slice of time, in order of time."""
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
