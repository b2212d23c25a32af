"""Measures of an order over an arrival log: one in-process pass, without files."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.choice import ClockChoice
from slackwater.engine.core.columns import mask_name
from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.core.frame import ATTR_PREFIX, Frame, by_site
from slackwater.engine.core.released import IN_ORDER, LATE_DROPPED, Released
from slackwater.engine.core.timeline import ends_of
from slackwater.engine.hosts.chain import Chain, ChainOutput, ChainSettings
from slackwater.engine.hosts.clock_faults import excluded_lines
from slackwater.engine.hosts.warnings import of_clocks
from slackwater.engine.kernels.records import INT_MIN
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.order.base import Guards, OrderSettings
from slackwater.engine.order.registry import parse_order

# Counts of an order's effect on the events of an arrival log, from columns as they are released.


_UNSAID: Final = ClockChoice()


@dataclass(frozen=True, slots=True)
class Reading:
    """How the times of events are read: their clocks, true times and departures.

    ``truth``: name of an int attribute with an event's true event time [ns]; None: its ref.
    ``departed``: name of an int attribute with the instant at which it left its source [ns,
    engine's clock]; None: its arrival. ``clock``: declarations of clocks without a sync.
    """

    truth: str | None = None
    departed: str | None = None
    clock: ClockChoice = _UNSAID

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that it uses."""
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
    def of(cls, values: np.ndarray) -> Durations:
        """From durations [ns], int64 in any order; all 0 if there are none."""
        n = len(values)
        if not n:
            return cls(0.0, 0, 0, 0, 0)
        places = [-(-n * share // 100) - 1 for share in (50, 95, 99, 100)]
        found = np.partition(values, places)[places].tolist()
        return cls(float(values.mean()), *found)


class OrderTally:
    """Counts over the released events of all sites, each site's in order of release.

    ``released``: without dropped events. ``out_of_order``: released events with a smaller time than
    an earlier one (L10 4.3.1), by ``Reading.truth`` or ref; ``steps_back``: with a smaller time
    than the one directly before (R19 5.2.2). ``in_place``: released in order, with no larger ref
    before. ``late``: released, but marked as out of place. ``dropped``: too late, and not released.
    ``hold``: release - arrival of released events; ``latency``: release - departure, or the hold if
    that is unknown. ``lateness``: by how much an earlier ref exceeds each released event that is
    out of order by ref; see ``compare``.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._newest: dict[str, tuple[int, int]] = {}
        self._previous: dict[str, int] = {}
        self.released = self.out_of_order = self.in_place = self.late = self.dropped = 0
        self.steps_back = 0
        self._hold: list[np.ndarray] = []
        self._latency_ns: list[np.ndarray] = []
        self._lateness: list[np.ndarray] = []

    @property
    def hold(self) -> np.ndarray:
        return _joined(self._hold)

    @property
    def latency(self) -> np.ndarray:
        return self.hold if self._reading.departed is None else _joined(self._latency_ns)

    @property
    def lateness(self) -> np.ndarray:
        return _joined(self._lateness)

    def add(self, site: str, batch: Released) -> None:
        """Count a batch of the ordered stream of ``site``.

        Raises:
            UserError: an event lacks an attribute of the reading, or its value is no whole number.
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
        self._lateness.append(lateness[behind])
        if self._reading.truth is not None:
            lateness, newest_true = _lateness(truth, newest_true)
            behind = lateness > 0
        self.out_of_order += int(behind.sum())
        times = ref if truth is None else truth
        previous = self._previous.get(site, INT_MIN)
        self.steps_back += int((times[1:] < times[:-1]).sum()) + int(times[0] < previous)
        self._previous[site] = int(times[-1])
        self._newest[site] = newest, newest_true
        self._hold.append(hold)
        if latency is not None:
            self._latency_ns.append(latency)

    def _latency(self, site: str, batch: Released) -> Any:
        departed = self._attribute(site, batch, self._reading.departed)
        return None if departed is None else batch.columns["release"] - departed

    @staticmethod
    def _attribute(site: str, batch: Released, name: str | None) -> Any:
        """The int64 column of attribute ``name``; None if ``name`` is."""
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


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _lateness(times: np.ndarray, newest: int) -> tuple[np.ndarray, int]:
    """How far each time is below the largest before it (0: in order), and the new largest."""
    clock = np.maximum(np.maximum.accumulate(times), newest)
    return clock - times, int(clock[-1])


# Measures of an order over an arrival log: one in-process pass, without files.
#
# Every number except ``seconds`` is a pure function of the log. Memory: the state of the chains, a
# batch, and 8 bytes per event for the holds, as much again if departures are known, and per event
# that is out of order.


__all__ = ["Arrivals", "Durations", "Measures", "Reading", "arrivals", "measure", "measure_many"]

Advanced = Callable[[int], None]
Watch = Callable[[str], AbstractContextManager[Advanced]]
_ROWS_PER_BATCH: Final = 1 << 18
_WARM_ROWS: Final = 1 << 16
_BY_REF: Final = Reading()
_GUARDS: Final = Guards()


@dataclass(frozen=True, slots=True)
class Measures:
    """Effects of one order on the events of a log.

    ``disorder_before``, ``disorder_after``: events out of order (an earlier one of their site has
    a larger time; L10 4.3.1) on arrival and in the released stream, late ones included.
    ``steps_back``: released events with a smaller time than the one directly before (R19 5.2.2).
    ``arrived = released + dropped + quarantined + duplicates``. ``late``: released out of place and
    marked; ``dropped``: too late and not released. ``missing``: numbers given up that never
    arrived; None if the order does not wait for numbers. ``backwards``: events before one of their
    source with a smaller number, by ``backwards_ns`` at most; None likewise. ``in_place``: released
    in order, with no larger ref before. ``hold``: release - arrival; ``latency``: release -
    departure (the hold, if departures are unknown). ``buffered_max``, ``buffered_max_bytes``: most
    that was buffered at once, at the site with most. ``seconds``: time in the chain only.
    """

    order: str
    sites: int
    sources: int
    arrived: int
    released: int
    in_place: int
    disorder_before: int
    disorder_after: int
    late: int
    dropped: int
    quarantined: int
    duplicates: int
    missing: int | None
    hold: Durations
    latency: Durations
    buffered_max: int
    buffered_max_bytes: int
    seconds: float
    backwards: int | None = None
    backwards_ns: int | None = None
    steps_back: int = 0

    @property
    def accuracy(self) -> float | None:
        """The share of the disorder that the order removed; None without disorder.

        Negative if it increased the disorder.
        """
        if not self.disorder_before:
            return None
        return 1 - self.disorder_after / self.disorder_before

    @property
    def completeness(self) -> float:
        """The share of the arrived events, without duplicates, that were released in place."""
        distinct_events = self.arrived - self.duplicates
        return self.in_place / distinct_events if distinct_events else 1.0

    @property
    def events_per_second(self) -> float:
        """Arrived events per second in the chain."""
        return self.arrived / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The events as they arrived, each site's in the order of the log.

    ``disorder``: see ``Measures.disorder_before``. ``lateness``: for each event out of order by
    ref, by how much an earlier one exceeds it [ns], ascending. ``excluded``: a line per source with
    excluded events, with the remedy. ``warnings``: about unknown clocks, which may cause lateness.
    """

    sites: int
    sources: int
    events: int
    quarantined: int
    disorder: int
    lateness: np.ndarray
    excluded: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def slacks_for(self, shares: Sequence[float]) -> list[int]:
        """Least slacks [ns] that at most ``1 - share`` of the out-of-order events exceed."""
        n = len(self.lateness)
        places = [max(math.ceil(share * n), 1) - 1 for share in shares]
        found: list[int] = self.lateness[places].tolist()
        return found

    def slack_for(self, share: float) -> int:
        """The least slack for this share."""
        return self.slacks_for([share])[0]


def measure(
    log: Path,
    order: str,
    reading: Reading = _BY_REF,
    guards: Guards = _GUARDS,
    time_unit: str = "ns",
    advanced: Advanced = lambda _rows: None,
) -> Measures:
    """Measure one order, in two passes: events as they arrived, and ordered.

    Args:
        log: an arrival log.
        order: short form, e.g. ``sequence:timeout=r19`` (``engine.order.registry``).
        reading: attributes with true times and departures, if events have them.
        guards: checks before an event time is trusted.
        time_unit: unit of durations in ``order`` without one.
        advanced: called with the number of records after each batch of each pass, for progress.

    Raises:
        UserError: not a log, no events, unknown order, an attribute that events lack.
    """
    return measure_many(log, [order], reading, guards, time_unit, advanced)[1][0]


def measure_many(
    log: Path,
    orders: Sequence[str],
    reading: Reading = _BY_REF,
    guards: Guards = _GUARDS,
    time_unit: str = "ns",
    advanced: Advanced = lambda _rows: None,
) -> tuple[Arrivals, list[Measures]]:
    """Return the events as they arrived (by ref), and the measures of each order; see ``measure``.

    One pass per order, and one over the arrivals for each kind of time that the orders use.
    """
    for order in orders:
        parse_order(order, time_unit)  # report errors before the first pass
    passes = Passes(log, reading, guards, time_unit, lambda _what: nullcontext(advanced))
    return passes.before("ref"), list(passes.of(orders))


class Passes:
    """Passes over a log, each made once; arguments as in ``measure``; ``watch``: per pass."""

    def __init__(
        self, log: Path, reading: Reading, guards: Guards, time_unit: str, watch: Watch
    ) -> None:
        self._log, self._reading, self._guards = log, reading, guards
        self._time_unit, self._watch = time_unit, watch
        self._before: dict[str, Arrivals] = {}
        self._done: dict[str, Measures] = {}

    @property
    def count(self) -> int:
        """Orders measured so far."""
        return len(self._done)

    def before(self, by: str) -> Arrivals:
        """The events as they arrived, by this kind of time."""
        if by not in self._before:
            with self._watch("as it arrived") as advanced:
                self._before[by] = arrivals(self._log, self._reading, self._guards, by, advanced)
        return self._before[by]

    def one(self, order: str, which: str = "") -> Measures:
        """Measures of an order; ``which``: label for the watcher; empty: its number."""
        if order not in self._done:
            settings = parse_order(order, self._time_unit)
            before = self.before(settings.time)
            with self._watch(f"{which or self.count + 1}: {order}") as advanced:
                run = _run(self._log, settings, self._reading, self._guards, advanced)
                self._done[order] = _measures(order, before, run)
        return self._done[order]

    def of(self, orders: Sequence[str]) -> tuple[Measures, ...]:
        """The measures of each order."""
        count = len(orders)
        return tuple(self.one(order, f"{n} of {count}") for n, order in enumerate(orders, 1))


def arrivals(
    log: Path,
    reading: Reading = _BY_REF,
    guards: Guards = _GUARDS,
    by: str = "ref",
    advanced: Advanced = lambda _rows: None,
) -> Arrivals:
    """The events as they arrived, with times by ``ref`` or ``ts``; see ``measure``."""
    run = _run(log, parse_order(f"none:time={by}"), reading, guards, advanced)
    if not run.count("arrived"):
        raise UserError(f"{log}: holds no events, so there is nothing to put in order")
    return Arrivals(
        run.sites,
        run.sources,
        run.count("arrived"),
        run.count("quarantined_future", "quarantined_jump"),
        run.tally.out_of_order,
        np.sort(run.tally.lateness),
        tuple(excluded_lines(run.counters, log)),
        tuple(of_clocks(run.counters)),
    )


class _Run:
    """The chains of all sites over a log, and their output; counts are known when finished."""

    def __init__(self, settings: ChainSettings, reading: Reading) -> None:
        self._settings = settings
        self._chains: dict[str, Chain] = {}
        self._counters: dict[str, dict[str, Any]] = {}
        self.tally = OrderTally(reading)
        self.seconds = 0.0

    def process(self, site: str, frames: list[Frame]) -> None:
        """Process frames of ``site``, in arrival order."""
        if site not in self._chains:
            self._chains[site] = Chain(self._settings, site)
        chain = self._chains[site]
        self._timed(site, lambda: chain.process(frames))

    def finish(self) -> None:
        """Process the end of the input."""
        for site, chain in self._chains.items():
            self._timed(site, chain.finish)
            self._counters[site] = chain.counters()

    def _timed(self, site: str, call: Callable[[], ChainOutput]) -> None:
        started = time.perf_counter()
        output = call()
        self.seconds += time.perf_counter() - started
        for batch in output.ordered:
            self.tally.add(site, batch)

    def count(self, *names: str) -> int:
        """Sum of counters over the lanes of all sites; 0 for those that the order lacks."""
        return sum(lane.get(name, 0) for lane in self._lanes() for name in names)

    def counts(self, name: str) -> bool:
        """Whether the order has this counter."""
        return any(name in lane for lane in self._lanes())

    def largest(self, name: str) -> int:
        """The largest of the chains' counters ``name``."""
        return max((int(of.get(name, 0)) for of in self._counters.values()), default=0)

    def largest_of_lanes(self, name: str) -> int:
        """The largest of the lanes' counters ``name``."""
        return max((int(lane.get(name, 0)) for lane in self._lanes()), default=0)

    def _lanes(self) -> Iterator[dict[str, Any]]:
        return (lane for of in self._counters.values() for lane in of["lanes"])

    @property
    def counters(self) -> dict[str, Any]:
        """The counters of all sites, as a pass stores them."""
        return {"sites": self._counters}

    @property
    def sites(self) -> int:
        """Number of sites in the log."""
        return len(self._chains)

    @property
    def sources(self) -> int:
        """Number of sources of events, counted per site."""
        return sum(
            len({lane["source"] for lane in of["lanes"] if lane["arrived"]})
            for of in self._counters.values()
        )


def _run(
    log: Path, order: OrderSettings, reading: Reading, guards: Guards, advanced: Advanced
) -> _Run:
    settings = ChainSettings(
        order, guards=guards, clock=reading.clock, ordered="bare", carried=reading.attributes
    )
    frames = LogReader(log)
    _warm(frames, settings)
    run = _Run(settings, reading)
    for batch in by_site(frames, _ROWS_PER_BATCH):
        for site in sorted(batch):
            run.process(site, batch[site])
        advanced(sum(frame.rows for of_site in batch.values() for frame in of_site))
    run.finish()
    return run


def _warm(frames: Iterable[Frame], settings: ChainSettings) -> None:
    """Compile the order's kernels in temporary chains, so that no compilation is measured.

    They process the log's own first frames in two calls: kernels are compiled per array type, and
    types differ once events are buffered.
    """
    for site, of_site in next(by_site(frames, _WARM_ROWS)).items():
        chain = Chain(settings, site)
        half = (len(of_site) + 1) // 2
        chain.process(of_site[:half])
        chain.process(of_site[half:])
        chain.finish()


def _measures(order: str, before: Arrivals, run: _Run) -> Measures:
    tally = run.tally
    hold = Durations.of(tally.hold)
    missing = None
    if run.counts("missing_total"):
        missing = run.count("missing_total") - run.count("missing_filled")
    return Measures(
        order=order,
        sites=run.sites,
        sources=run.sources,
        arrived=run.count("arrived"),
        released=tally.released,
        in_place=tally.in_place,
        disorder_before=before.disorder,
        disorder_after=tally.out_of_order,
        late=tally.late,
        dropped=tally.dropped,
        quarantined=run.count("quarantined_future", "quarantined_jump"),
        duplicates=run.count("duplicate"),
        missing=missing,
        hold=hold,
        latency=Durations.of(tally.latency),
        buffered_max=run.largest("buffered_max"),
        buffered_max_bytes=run.largest("buffered_max_bytes"),
        seconds=run.seconds,
        backwards=None if missing is None else run.count("backwards"),
        backwards_ns=None if missing is None else run.largest_of_lanes("backwards_ns"),
        steps_back=tally.steps_back,
    )
