"""Summary of a log: counts of records, sites and sources, ranges of times, disorder (SPEC 1)."""

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

# Groups of rows and values carried forward within them, by column.


class Groups(Struct, frozen=True):
    """Rows by group: ``order`` sorts rows by group and keeps their order within each.

    ``starts``: position in ``order`` of each group's first row; ``code``: group of each row of
    ``order``; ``first_row``: a row of each group, for its key.
    """

    order: np.ndarray
    starts: np.ndarray
    code: np.ndarray
    first_row: np.ndarray


def group_rows(keys: list[np.ndarray]) -> Groups:
    """Group rows with equal ``keys`` (int columns of one length); groups count from 0."""
    rows = len(keys[0])
    code, groups = np.zeros(rows, np.int64), 1
    for key in keys:
        inverse, values = _numbered(key)
        if values > 1:
            code, groups = _numbered(code * values + inverse)
    # NumPy sorts 16-bit integers by radix.
    order = np.argsort(code.astype(np.uint16) if groups <= 1 << 16 else code, kind="stable")
    ordered = code[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return Groups(order, starts, ordered, order[starts])


def _numbered(key: np.ndarray) -> tuple[np.ndarray, int]:
    """Return each value's rank among the distinct values, and the number of these."""
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
    """Return each row's last valid value in its group so far; before any: ``initial[group]``.

    ``values``, ``valid`` and the result are in the groups' order.
    """
    at = np.arange(len(values))
    last = np.maximum.accumulate(np.where(valid, at, -1))
    started = groups.starts[groups.code]
    return np.where(last >= started, values[np.maximum(last, 0)], initial[groups.code])


def string_codes(column: pa.Array) -> tuple[np.ndarray, list[str]]:
    """Return codes (int64, -1 = null) and texts of a string or dictionary column."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary.to_pylist()


def column_codes(batch: pa.RecordBatch, name: str, absent: str) -> tuple[np.ndarray, list[str]]:
    """Return codes and texts of a column, with ``absent`` for null or a missing column."""
    if name not in batch.schema.names:
        return np.zeros(batch.num_rows, np.int64), [absent]
    codes, texts = string_codes(batch.column(name))
    return np.where(codes < 0, len(texts), codes), [*texts, absent]


def ints(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return values (int64, 0 for null) and validity (bool)."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return pc.fill_null(column, 0).to_numpy(zero_copy_only=False), valid


QUANTILES: Final = (0.5, 0.99, 1.0)
_FRAME_TIMES: Final = 256
"""Event times kept per frame."""
_SUB_BITS: Final = 7
"""Lateness has 128 steps per doubling: quantiles are at most 1 % too large, never too small."""


class LatenessCounts:
    """Histogram of bounded size of the lateness of out-of-order events."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.largest_ns = 0

    def add(self, lateness_ns: np.ndarray) -> None:
        """Count values > 0."""
        if not len(lateness_ns):
            return
        bits = np.frexp(lateness_ns.astype(np.float64))[1].astype(np.int64)
        shift = np.maximum(bits - _SUB_BITS - 1, 0)
        keys, counts = np.unique((shift << 32) | (lateness_ns >> shift), return_counts=True)
        self._counts.update(dict(zip(keys.tolist(), counts.tolist(), strict=True)))
        self.largest_ns = max(self.largest_ns, int(lateness_ns.max()))

    def quantile(self, share: float) -> int:
        """Return the smallest bound that ``share`` of the values do not exceed [ns]; 0 if empty."""
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
    """Summary of one site. Times in ns; None without such a record."""

    records: int = 0
    events: int = 0
    out_of_order: int = 0
    """Events whose event time is below that of an event that arrived earlier (SPEC §1)."""
    first_arrival: int | None = None
    last_arrival: int | None = None
    first_ts: int | None = None
    last_ts: int | None = None
    sources: set[str] = field(default_factory=set)


@dataclass
class LogSummary:
    """Summary of a log; see ``describe``."""

    frames: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    unnumbered: int = 0
    """Events without a sequence number."""
    sites: dict[str, SiteSummary] = field(default_factory=dict)
    lateness: LatenessCounts = field(default_factory=LatenessCounts)
    values: Counter[str] = field(default_factory=Counter)
    """Number of records with a value, by attribute."""
    some_ts: list[np.ndarray] = field(default_factory=list)
    """Event times of each frame, evenly sampled."""

    @property
    def half_ns(self) -> int:
        """The shortest time span that contains half of the events [ns], from ``some_ts``."""
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
        """Return plain data for JSON, with sites by name; times in ns."""
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
    """Count frames, records per kind, sites and sources; find ranges of times and disorder.

    Args:
        frames: a ``LogReader``, or frames in arrival order per site.
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


# The summary as tables: ``slackwater log show``.


SITES_SHOWN: Final = 20


def readable_duration(ns: int) -> str:
    """Return ``ns`` in the largest unit that gives a number >= 1, with at most three decimals.

    >>> readable_duration(1_500_000_000), readable_duration(0), readable_duration(7)
    ('1.5 s', '0 ns', '7 ns')
    """
    unit = "ns"  # units are in ascending order
    for name, length in NS_PER.items():
        unit = name if length <= abs(ns) else unit
    whole, rest = divmod(abs(ns) * 1000 // NS_PER[unit], 1000)
    sign = "-" if ns < 0 else ""
    fraction = f".{rest:03d}".rstrip("0").rstrip(".")
    return f"{sign}{whole:,}{fraction} {unit}"


def summary_tables(name: str, summary: LogSummary, time_unit: str = "ns") -> RenderableType:
    """Return two tables: the whole log, and its sites.

    Args:
        name: name of the log.
        summary: result of ``describe``.
        time_unit: unit of instants; durations select their own.
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
