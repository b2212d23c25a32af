"""What is in a log: how much of what, from whom, when, and in how much disorder (SPEC 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.core.frame import ATTR_PREFIX, Frame, kinds_of
from slackwater.engine.core.units import exact_units, unit_ns

# Running values within groups of rows, on whole columns.


class Groups(Struct, frozen=True):
    """Rows by group: ``order`` sorts rows by group, keeping theirs within each.

    ``starts``: position in ``order`` of each group's first row; ``code``: group of each row of
    ``order``; ``first_row``: one row of each group, to read its key from.
    """

    order: np.ndarray
    starts: np.ndarray
    code: np.ndarray
    first_row: np.ndarray


def group_rows(keys: list[np.ndarray]) -> Groups:
    """Groups of rows with equal ``keys`` (int columns of one length), numbered from 0."""
    rows = len(keys[0])
    code, groups = np.zeros(rows, np.int64), 1
    for key in keys:
        inverse, values = _numbered(key)
        if values > 1:
            code, groups = _numbered(code * values + inverse)
    # NumPy sorts numbers of 16 bits by radix.
    order = np.argsort(code.astype(np.uint16) if groups <= 1 << 16 else code, kind="stable")
    ordered = code[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return Groups(order, starts, ordered, order[starts])


def _numbered(key: np.ndarray) -> tuple[np.ndarray, int]:
    """Each value's rank among the distinct ones, and how many these are."""
    if not len(key):
        return np.zeros(0, np.int64), 0
    low, high = int(key.min()), int(key.max())
    if high - low > 4 * len(key):
        values, inverse = np.unique(key, return_inverse=True)
        return inverse.astype(np.int64), len(values)
    present = np.zeros(high - low + 1, np.int64)
    present[key - low] = 1
    return (np.cumsum(present) - 1)[key - low], int(present.sum())


def carry_forward(
    groups: Groups, values: np.ndarray, valid: np.ndarray, initial: np.ndarray
) -> np.ndarray:
    """Each row's last given value of its group so far; before any: ``initial[group]``.

    ``values`` and ``valid`` are in the groups' order, and so is the result.
    """
    at = np.arange(len(values))
    last = np.maximum.accumulate(np.where(valid, at, -1))
    started = groups.starts[groups.code]
    return np.where(last >= started, values[np.maximum(last, 0)], initial[groups.code])


def string_codes(column: pa.Array) -> tuple[np.ndarray, list[str]]:
    """Codes (int64, -1 = null) and texts of a string or dictionary column."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary.to_pylist()


def column_codes(batch: pa.RecordBatch, name: str, absent: str) -> tuple[np.ndarray, list[str]]:
    """Codes and texts of a column; where it is left out or null, every row says ``absent``."""
    if name not in batch.schema.names:
        return np.zeros(batch.num_rows, np.int64), [absent]
    codes, texts = string_codes(batch.column(name))
    return np.where(codes < 0, len(texts), codes), [*texts, absent]


def ints(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Values (int64, 0 = null) and their validity (bool)."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return pc.fill_null(column, 0).to_numpy(zero_copy_only=False), valid


# What is in a log: how much of what, from whom, when, and in how much disorder (SPEC §1).


QUANTILES: Final = (0.5, 0.99, 1.0)
_FRAME_TIMES: Final = 256
"""Event times that are kept of a frame."""
_SUB_BITS: Final = 7
"""Lateness is counted in 128 steps per doubling: quantiles are within 1 % (and never too small)."""


class LatenessCounts:
    """Lateness of out-of-order events in a histogram of bounded size."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.largest_ns = 0

    def add(self, lateness_ns: np.ndarray) -> None:
        """Counts values > 0."""
        if not len(lateness_ns):
            return
        bits = np.frexp(lateness_ns.astype(np.float64))[1].astype(np.int64)
        shift = np.maximum(bits - _SUB_BITS - 1, 0)
        keys, counts = np.unique((shift << 32) | (lateness_ns >> shift), return_counts=True)
        self._counts.update(dict(zip(keys.tolist(), counts.tolist(), strict=True)))
        self.largest_ns = max(self.largest_ns, int(lateness_ns.max()))

    def quantile(self, share: float) -> int:
        """Smallest counted bound that ``share`` of the values do not exceed [ns]; 0 without any."""
        total = sum(self._counts.values())
        seen = 0
        for key in sorted(self._counts):
            seen += self._counts[key]
            if seen >= share * total:
                shift, low = key >> 32, key & 0xFFFFFFFF
                return min(((low + 1) << shift) - 1, self.largest_ns)
        return 0


@dataclass
class SiteSummary:
    """One site of a log. Times in ns; None where there is no such record."""

    records: int = 0
    events: int = 0
    out_of_order: int = 0
    """Events that some event which arrived earlier exceeds in event time (SPEC §1)."""
    first_arrival: int | None = None
    last_arrival: int | None = None
    first_ts: int | None = None
    last_ts: int | None = None
    sources: set[str] = field(default_factory=set)


@dataclass
class LogSummary:
    """A whole log; see ``describe``."""

    frames: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    unnumbered: int = 0
    """Events without a number."""
    sites: dict[str, SiteSummary] = field(default_factory=dict)
    lateness: LatenessCounts = field(default_factory=LatenessCounts)
    values: Counter[str] = field(default_factory=Counter)
    """How many records have a value, by attribute."""
    some_ts: list[np.ndarray] = field(default_factory=list)
    """Event times of each frame, evenly chosen."""

    @property
    def half_ns(self) -> int:
        """The shortest time in which half of the events lie [ns], from ``some_ts``."""
        times = np.sort(np.concatenate(self.some_ts)) if self.some_ts else np.zeros(1, np.int64)
        half = len(times) // 2
        return int((times[half:] - times[: len(times) - half]).min())

    @property
    def records(self) -> int:
        return sum(self.kinds.values())

    @property
    def out_of_order(self) -> int:
        return sum(site.out_of_order for site in self.sites.values())

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with sites by name; every time in ns."""
        sites = {
            name: {**vars(site), "sources": sorted(site.sources)}
            for name, site in sorted(self.sites.items())
        }
        return {
            "frames": self.frames,
            "records": self.records,
            "kinds": dict(self.kinds),
            "unnumbered": self.unnumbered,
            "out_of_order": self.out_of_order,
            "lateness_ns": {f"{100 * q:g}%": self.lateness.quantile(q) for q in QUANTILES},
            "sites": sites,
        }


def describe(frames: Iterable[Frame]) -> LogSummary:
    """Counts of frames, records per kind, sites and sources; ranges of times; disorder.

    Args:
        frames: a ``LogReader``, or any frames with each site's in arrival order.
    """
    summary = LogSummary()
    for frame in frames:
        summary.frames += 1
        site = summary.sites.setdefault(frame.site, SiteSummary())
        _add(frame, site, summary)
    return summary


def _add(frame: Frame, site: SiteSummary, summary: LogSummary) -> None:
    batch, kinds = frame.batch, kinds_of(frame.batch)
    for kind, count in zip(*np.unique(kinds, return_counts=True), strict=True):
        summary.kinds[Kind(int(kind)).name.lower()] += int(count)
    sources = pc.unique(batch.column(r.SOURCE)).drop_null()
    site.sources.update(sources.to_pylist())
    site.records += frame.rows
    if site.first_arrival is None:
        site.first_arrival = frame.first_arrival
    site.last_arrival = frame.last_arrival
    values, valid = ints(batch.column(r.TS))
    ts = values[valid & (kinds == Kind.EVENT)]
    if not len(ts):
        return
    site.events += len(ts)
    summary.some_ts.append(ts[:: -(-len(ts) // _FRAME_TIMES)])
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name.startswith(ATTR_PREFIX):
            summary.values[name.removeprefix(ATTR_PREFIX)] += len(column) - column.null_count
    seq, numbered = ints(batch.column(r.SEQ))
    summary.unnumbered += int(((kinds == Kind.EVENT) & ~(numbered & (seq >= 0))).sum())
    clock = np.maximum.accumulate(ts)
    if site.last_ts is not None:
        clock = np.maximum(clock, site.last_ts)
    lateness = clock - ts
    late = lateness[lateness > 0]
    site.out_of_order += len(late)
    summary.lateness.add(late)
    lowest = int(ts.min())
    site.first_ts = lowest if site.first_ts is None else min(site.first_ts, lowest)
    site.last_ts = int(clock[-1])


# A log's summary for people: ``slackwater log show``.


SITES_SHOWN: Final = 20


def readable_duration(ns: int) -> str:
    """``ns`` in the largest unit that leaves a number >= 1, with three decimals at most.

    >>> readable_duration(1_500_000_000), readable_duration(0), readable_duration(7)
    ('1.5 s', '0 ns', '7 ns')
    """
    unit = "ns"  # units stand in ascending order
    for name, length in NS_PER.items():
        unit = name if length <= abs(ns) else unit
    whole, rest = divmod(abs(ns) * 1000 // NS_PER[unit], 1000)
    sign = "-" if ns < 0 else ""
    fraction = f".{rest:03d}".rstrip("0").rstrip(".")
    return f"{sign}{whole:,}{fraction} {unit}"


def summary_tables(name: str, summary: LogSummary, time_unit: str = "ns") -> RenderableType:
    """Two tables: the log as a whole, and its sites.

    Args:
        name: the log.
        summary: what ``describe`` found.
        time_unit: of the instants shown; durations choose their own.
    """
    whole = Table(title=escape(name), title_justify="left", show_header=False)
    whole.add_column()
    whole.add_column(justify="right")
    whole.add_row("frames", f"{summary.frames:,}")
    whole.add_row("records", f"{summary.records:,}")
    for kind, count in summary.kinds.most_common():
        whole.add_row(f"  {kind}", f"{count:,}")
    if summary.unnumbered:
        whole.add_row("without a number, as reused", f"{summary.unnumbered:,}")
    whole.add_row("out of order", _share(summary.out_of_order, summary.kinds["event"]))
    for share in QUANTILES if summary.out_of_order else ():
        label = "most" if share == 1 else f"{100 * share:g} % within"
        whole.add_row(f"  late by, {label}", readable_duration(summary.lateness.quantile(share)))
    unit = unit_ns(time_unit)
    sites = summary.sites.values()
    for heading, instants in (
        ("first arrival", [site.first_arrival for site in sites]),
        ("last arrival", [site.last_arrival for site in sites]),
        ("first event time", [site.first_ts for site in sites]),
        ("last event time", [site.last_ts for site in sites]),
    ):
        known = [instant for instant in instants if instant is not None]
        if known:
            edge = min(known) if heading.startswith("first") else max(known)
            whole.add_row(f"{heading} {escape(f'[{time_unit}]')}", exact_units(edge, unit))
    whole.add_row("sites", f"{len(sites):,}")
    return Group(whole, _sites(summary))


def _sites(summary: LogSummary) -> Table:
    table = Table(caption_justify="left")
    table.add_column("site", overflow="fold")
    for heading in ("sources", "events", "out of order", "arrivals span", "event times span"):
        table.add_column(heading, justify="right")
    for name, site in sorted(summary.sites.items())[:SITES_SHOWN]:
        table.add_row(
            escape(name),
            f"{len(site.sources):,}",
            f"{site.events:,}",
            _share(site.out_of_order, site.events),
            _span(site.first_arrival, site.last_arrival),
            _span(site.first_ts, site.last_ts),
        )
    if len(summary.sites) > SITES_SHOWN:
        table.caption = f"and {len(summary.sites) - SITES_SHOWN} more sites (--json has them all)"
    return table


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.1f} %)" if whole else f"{part:,}"


def _span(first: int | None, last: int | None) -> str:
    return "-" if first is None or last is None else readable_duration(last - first)
