"""What is in a log: how much of what, from whom, when, and in how much disorder (SPEC §1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from edge_agent import records as r
from edge_agent.records import Kind
from engine.log.grouped import ints
from engine.stream.frame import Frame

QUANTILES: Final = (0.5, 0.99, 1.0)
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
    sites: dict[str, SiteSummary] = field(default_factory=dict)
    lateness: LatenessCounts = field(default_factory=LatenessCounts)

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
    batch = frame.batch
    kinds = np.zeros(frame.rows, np.int8)
    if r.KIND in batch.schema.names:
        kinds = batch.column(r.KIND).to_numpy(zero_copy_only=False)
    for kind, count in zip(*np.unique(kinds, return_counts=True), strict=True):
        summary.kinds[Kind(int(kind)).name.lower()] += int(count)
    sources = pc.unique(batch.column(r.SOURCE)).drop_null()
    site.sources.update(sources.to_pylist())
    site.records += frame.rows
    if site.first_arrival is None:
        site.first_arrival = frame.first_arrival
    site.last_arrival = frame.last_arrival
    values, given = ints(batch.column(r.TS))
    ts = values[given & (kinds == Kind.EVENT)]
    if not len(ts):
        return
    site.events += len(ts)
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
