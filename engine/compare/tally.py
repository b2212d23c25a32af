"""What one order did to the events of an arrival log, counted on its columns as they come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_agent import records as r
from engine.compare.long_column import LongColumn
from engine.errors import ContractViolation, UserError
from engine.kernels.integers import INT_MIN
from engine.stream.columns import mask_name
from engine.stream.ends import ends_of
from engine.stream.frame import ATTR_PREFIX
from engine.stream.released import IN_ORDER, LATE_DROPPED, Released


@dataclass(frozen=True, slots=True)
class Reading:
    """What of an event tells its true time and when it set out.

    ``truth``: name of an int attribute that holds an event's true event time [ns]; None: its ref.
    ``departed``: name of an int attribute that holds the instant at which it left its source [ns,
    engine's clock]; None: its arrival.
    """

    truth: str | None = None
    departed: str | None = None

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that it needs."""
        return frozenset(name for name in (self.truth, self.departed) if name is not None)


@dataclass(frozen=True, slots=True)
class Durations:
    """A distribution of durations [ns]: mean, and nearest-rank quantiles (values that occurred)."""

    mean_ns: float
    p50_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int

    @classmethod
    def of(cls, values: LongColumn) -> Durations:
        """Of durations [ns]; all 0 when there are none."""
        n = len(values)
        if not n:
            return cls(0.0, 0, 0, 0, 0)
        p50, p95, p99 = values.at([-(-n * share // 100) - 1 for share in (50, 95, 99)])
        return cls(values.total / n, p50, p95, p99, values.largest)


class Tally:
    """Counts over the released events of all sites, each site's in order of release.

    ``released``: without those dropped. ``out_of_order``: of the released, those that an earlier
    one exceeds in time (L10 4.3.1), by ``Reading.truth`` or ref; ``steps_back``: those that the
    one released just before exceeds (R19 5.2.2). ``in_place``: released as in
    order and with no larger ref before. ``late``: released, but marked as out of their place.
    ``dropped``: too late, and not released. ``hold``: release - arrival of the released;
    ``latency``: release - departure, None where it is the hold. ``lateness``: by how much an
    earlier ref exceeds each released event that is out of order by ref; see ``engine.compare``.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._newest: dict[str, tuple[int, int]] = {}
        self._previous: dict[str, int] = {}
        self.released = self.out_of_order = self.in_place = self.late = self.dropped = 0
        self.steps_back = 0
        self.hold = LongColumn()
        self.latency = None if reading.departed is None else LongColumn()
        self.lateness = LongColumn()

    def add(self, site: str, batch: Released) -> None:
        """Count a batch of ``site``'s ordered stream.

        Raises:
            UserError: an event lacks an attribute of the reading, or it is no whole number.
            ContractViolation: an event was released before it arrived.
        """
        passed = batch.columns["status"] != LATE_DROPPED
        every = bool(passed.all())
        n = batch.n if every else int(passed.sum())
        self.dropped += batch.n - n
        ref, truth, hold, latency, status = (
            column if every or column is None else column[passed]
            for column in (
                ends_of(batch),
                self._attribute(site, batch, self._reading.truth),
                batch.columns["release"] - batch.columns[r.ARRIVAL],
                self._latency(site, batch),
                batch.columns["status"],
            )
        )
        if not n:
            return
        if int(hold.min()) < 0:
            raise ContractViolation(f"site {site!r}: released {-int(hold.min())} ns before arrival")
        newest, newest_true = self._newest.get(site, (INT_MIN, INT_MIN))
        lateness, newest = _lateness(ref, newest)
        behind = lateness > 0
        in_order = status == IN_ORDER
        self.released += n
        self.in_place += int((in_order & ~behind).sum())
        self.late += n - int(in_order.sum())
        self.lateness.add(lateness[behind])
        if self._reading.truth is not None:
            lateness, newest_true = _lateness(truth, newest_true)
            behind = lateness > 0
        self.out_of_order += int(behind.sum())
        times = ref if truth is None else truth
        previous = self._previous.get(site, INT_MIN)
        self.steps_back += int((times[1:] < times[:-1]).sum()) + int(times[0] < previous)
        self._previous[site] = int(times[-1])
        self._newest[site] = newest, newest_true
        self.hold.add(hold)
        if self.latency is not None:
            self.latency.add(latency)

    def _latency(self, site: str, batch: Released) -> Any:
        departed = self._attribute(site, batch, self._reading.departed)
        return None if departed is None else batch.columns["release"] - departed

    @staticmethod
    def _attribute(site: str, batch: Released, name: str | None) -> Any:
        """The int64 column of attribute ``name``; None for no name."""
        if name is None:
            return None
        kind = batch.attr_types.get(name)
        lacking = batch.n
        if kind is not None:
            valid = batch.columns.get(mask_name(ATTR_PREFIX + name))
            lacking = 0 if valid is None else batch.n - int(valid.sum())
        if lacking:
            raise UserError(
                f"site {site!r}: {lacking} of {batch.n} events in a row have no attribute "
                f"{name!r}; name one that every event has, or leave it out"
            )
        if kind != "int":
            raise UserError(
                f"site {site!r}: attribute {name!r} is of type {kind}; an instant must be a whole "
                "number of ns"
            )
        return batch.columns[ATTR_PREFIX + name]


def _lateness(times: np.ndarray, newest: int) -> tuple[np.ndarray, int]:
    """How far each time lies below the largest before it (0: in order), and the largest now."""
    clock = np.maximum(np.maximum.accumulate(times), newest)
    return clock - times, int(clock[-1])
