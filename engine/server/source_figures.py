"""Figures of every source: rate, lag and the history of its offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.edge_agent import records as r
from slackwater.edge_agent.device_clock import ARRIVAL, device_of, is_in_doubt
from slackwater.edge_agent.records import Kind
from slackwater.edge_agent.timesync import ClockStatus
from slackwater.engine.core.clocks.epochs import FREE_RUNNING_NS, REFUTES_NS
from slackwater.engine.core.frame import Frame, column_ints, kinds_of
from slackwater.engine.gateway.frames import clock_name
from slackwater.engine.gateway.outputs import Sink
from slackwater.engine.log.describe import string_codes

# A running gateway's knowledge of the clocks of devices behind its sources, from their syncs.


CLOCKS_MAX: Final = 64
"""Clocks per source that are kept; beyond, the least recently synchronised is dropped."""
DEVICES_SHOWN: Final = 8
"""Devices per source that are shown: the most recent ones."""


class ClockSync(NamedTuple):
    """The last sync of a clock; ``synced``: its arrival [ns]."""

    offset: int
    delay: int
    precision: int
    skew_error_ppb: int
    synced: int

    def bound_ns(self, now: int) -> int:
        """Bound of the offset's error: half the delay, both clocks' precision, and the growth with
        the age of the sync.
        """
        grown = max(now - self.synced, 0) * self.skew_error_ppb // 1_000_000_000
        return (self.delay + 1) // 2 + self.precision + grown


def status_of(synced: int | None, now: int, *, refuted: bool) -> ClockStatus:
    """Status of a clock (SPEC 2) whose last sync arrived at ``synced``; None: it had none."""
    if synced is None:
        return ClockStatus.UNKNOWN
    if refuted:
        return ClockStatus.DISRUPTED
    is_old = now - synced > FREE_RUNNING_NS
    return ClockStatus.FREE_RUNNING if is_old else ClockStatus.SYNCHRONIZED


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device's clock; times in seconds. ``synced``: time since its last sync."""

    name: str
    offset: float
    bound: float
    status: str
    synced: float


class DeviceClocks:
    """The clocks of devices behind each source, by (site, source)."""

    def __init__(self) -> None:
        self._syncs: dict[tuple[str, str], dict[str, ClockSync]] = {}
        self._refuted = set[tuple[str, str, str]]()

    def synced(self, key: tuple[str, str], clock: str, sync: ClockSync) -> None:
        """Record a sync of ``clock``, by its name in the log: ``SOURCE/NAME``."""
        syncs = self._syncs.setdefault(key, {})
        syncs.pop(clock, None)
        syncs[clock] = sync
        self.trusted(key, clock)
        if len(syncs) > CLOCKS_MAX:
            gone = next(iter(syncs))
            del syncs[gone]
            self.trusted(key, gone)

    def refuted(self, key: tuple[str, str], clock: str) -> None:
        """Record that an event arrived before it can have happened by the last sync of its clock,
        which may be the source's own.
        """
        self._refuted.add((*key, clock))

    def trusted(self, key: tuple[str, str], clock: str) -> None:
        """Record that a sync of ``clock`` came."""
        self._refuted.discard((*key, clock))

    def is_refuted(self, key: tuple[str, str], clock: str) -> bool:
        """Whether an event has refuted the last sync of ``clock``."""
        return (*key, clock) in self._refuted

    def of(self, key: tuple[str, str], clock: str) -> ClockSync | None:
        """The last sync of a clock; None: it had none, or it was dropped."""
        return self._syncs.get(key, {}).get(clock)

    def rows(self, key: tuple[str, str], now: int) -> list[DeviceRow]:
        """The devices of a source, each with its most recently synchronised clock."""
        newest = {
            device_of(clock): (clock, sync) for clock, sync in self._syncs.get(key, {}).items()
        }
        found = []
        for device, (clock, sync) in list(newest.items())[-DEVICES_SHOWN:]:
            name = device.removeprefix(f"{clock_name(key[1])}/")
            if ARRIVAL in name:
                continue  # it is an arrival clock, not a device's
            refuted = is_in_doubt(clock) or self.is_refuted(key, clock)
            status = status_of(sync.synced, now, refuted=refuted)
            found.append(
                DeviceRow(
                    name, sync.offset / 1e9, sync.bound_ns(now) / 1e9, status.value,
                    max(now - sync.synced, 0) / 1e9,
                )
            )  # fmt: skip
        return found


# History of each source's offset: points of its last hour, in bounded memory.
#
# The points of a source are spread evenly over the hour. The newest is always kept; it stays when
# the next one comes if it is far enough from the one before. The number per source is halved as
# sources become more, so that all of them together keep a million points at most.


SPAN_NS: Final = 3_600_000_000_000
POINTS_MAX: Final = 1 << 20
"""Most points of all sources."""
EACH_MAX: Final = 512
EACH_LEAST: Final = 8


class ClockPoint(NamedTuple):
    """At arrival-clock instant ``at`` the offset was ``offset`` +- ``bound`` [ns]."""

    at: int
    offset: int
    bound: int


class ClockHistory:
    """Points by number of the source."""

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self.each_max = EACH_MAX
        self._points_max = points_max
        self._points: dict[int, list[ClockPoint]] = {}

    def add(self, source: int, at: int, offset: int, bound: int) -> None:
        """Add a sync of ``source``."""
        points = self._points.setdefault(source, [])
        if len(points) > 1 and points[-1].at - points[-2].at < SPAN_NS // self.each_max:
            del points[-1]
        points.append(ClockPoint(at, offset, bound))
        del points[: -self.each_max]
        while self.each_max > EACH_LEAST and self.each_max * len(self._points) > self._points_max:
            self.each_max //= 2
            for each in self._points.values():
                if len(each) > self.each_max:
                    del each[-2::-2]  # the newest stays

    def points(self, source: int) -> list[ClockPoint]:
        """The points of ``source``, in order."""
        return list(self._points.get(source, ()))


# Figures of every source, from the frames that are given to the log: rate, lag, disorder, clock.
#
# Columns for all sources at once, so that a frame costs some array operations and memory is a
# hundred bytes per source. Records from before the start of the server are not included.


MEMORY_NS: Final = 10_000_000_000
"""Rate, lag and disorder are means in which an event's weight falls to 1/e in this time."""
_LEAST_NS: Final = 1_000_000_000
"""Least age of a source in its rate, so that one event gives no high rate."""
_FIRST_ROWS: Final = 64
NEVER: Final = -(1 << 62)
"""Marks an instant that has not occurred."""
_COLUMNS: Final = {
    "events": np.int64, "disordered": np.int64, "last_event": np.int64, "last_record": np.int64,
    "first_event": np.int64, "weight": np.float64, "lag": np.float64, "disorder": np.float64,
    "offset": np.int64, "delay": np.int64, "precision": np.int64, "skew_error_ppb": np.int64,
    "synced": np.int64, "refuted": np.int64, "ahead": np.int64,
    "window": np.int64, "excess": np.int64, "excess_before": np.int64,
}  # fmt: skip
_INSTANTS: Final = ("last_event", "last_record", "first_event", "synced", "refuted", "window")
WINDOW_NS: Final = 60_000_000_000
"""Period over which the fastest event counts for ``slow_ns``."""
_UNKNOWN: Final = -1
_NOTHING: Final = 1 << 62
"""Marks an excess without any event."""


@dataclass(frozen=True, slots=True)
class Means:
    """Per source, as float64: events/s, seconds of lag, and share of events out of order.

    Lag and share are NaN without recent events.
    """

    rate: np.ndarray
    lag: np.ndarray
    disorder: np.ndarray


class _Stamped(NamedTuple):
    """Stamping clocks of a frame's events: each event's ``place`` among the ``stamps`` (row,
    clock), its clock's offset, and the bound of that offset (``_UNKNOWN``).
    """

    stamps: list[tuple[int, str]]
    place: np.ndarray
    offset: np.ndarray
    bound: np.ndarray


class SourceFigures:
    """A sink that passes frames to the log, and evaluates those that the log has taken.

    Args:
        sink: the log.
        sources_max: number of sources with figures; events of others are only counted.
    """

    def __init__(self, sink: Sink, sources_max: int) -> None:
        self.keys: list[tuple[str, str]] = []
        """(site, source) of each row."""
        self.columns = {name: np.zeros(_FIRST_ROWS, kind) for name, kind in _COLUMNS.items()}
        for name in _INSTANTS:
            self.columns[name][:] = NEVER
        self.events = 0
        """Events given to the log, from all sources."""
        self.history = ClockHistory()
        self.devices = DeviceClocks()
        self._sink = sink
        self._rows: dict[tuple[str, str], int] = {}
        self._newest: dict[str, int] = {}
        """The largest reference time so far of each site, at most its arrival."""
        self._sources_max = sources_max

    def append(self, frame: Frame) -> None:
        self._sink.append(frame)
        self._look(frame)

    def flush(self) -> object:
        return self._sink.flush()

    def row(self, site: str, source: str) -> int | None:
        """The row of a source; None: there are too many."""
        key = (site, source)
        found = self._rows.get(key)
        if found is None and len(self.keys) < self._sources_max:
            found = self._rows[key] = len(self.keys)
            self.keys.append(key)
            if found == len(self.columns["events"]):
                self._grow()
        return found

    def means(self, now: int) -> Means:
        """Means at instant ``now`` of the arrival clock."""
        size = len(self.keys)
        of = {name: column[:size] for name, column in self.columns.items()}
        faded = of["weight"] * np.exp(-np.maximum(now - of["last_event"], 0) / MEMORY_NS)
        age = np.maximum(now - of["first_event"], _LEAST_NS) / MEMORY_NS
        rate = faded / (MEMORY_NS / 1e9 * -np.expm1(-age))
        some = faded > 1e-6
        weight = np.where(some, of["weight"], 1.0)
        return Means(
            rate=np.where(some, rate, 0.0),
            lag=np.where(some, of["lag"] / weight / 1e9, np.nan),
            disorder=np.where(some, of["disorder"] / weight, np.nan),
        )

    def bound_ns(self, row: int, now: int) -> int:
        """Bound of a source's offset: half the delay, both clocks' precision, and the growth with
        the age of its last sync.
        """
        sync = self._sync(row)
        return 0 if sync is None else sync.bound_ns(now)

    def status(self, row: int, now: int) -> ClockStatus:
        """Status of a source's own clock."""
        synced = int(self.columns["synced"][row])
        key = self.keys[row]
        refuted = self.devices.is_refuted(key, clock_name(key[1]))
        return status_of(None if synced == NEVER else synced, now, refuted=refuted)

    def slow_ns(self, now: int) -> np.ndarray:
        """Per source, by how much all events of a whole minute arrived later than they can have
        happened, beyond the bounds of the clocks that stamped them; 0: no recent such minute.
        """
        of = {name: column[: len(self.keys)] for name, column in self.columns.items()}
        least = np.minimum(of["excess"], of["excess_before"])
        is_late = now - of["last_event"] <= 2 * WINDOW_NS
        is_whole = (of["window"] != NEVER) & (of["excess_before"] != _NOTHING)
        return np.where(is_whole & is_late & (least != _NOTHING), np.maximum(least, 0), 0)

    def ahead_ns(self, now: int) -> np.ndarray:
        """Per source, by how much events of the last minutes arrived before they can have
        happened.
        """
        of = {name: column[: len(self.keys)] for name, column in self.columns.items()}
        return np.where(now - of["refuted"] <= 2 * WINDOW_NS, of["ahead"], 0)

    # --- inside

    def _grow(self) -> None:
        for name, column in self.columns.items():
            fresh = np.full(len(column), NEVER if name in _INSTANTS else 0, column.dtype)
            self.columns[name] = np.concatenate([column, fresh])

    def _look(self, frame: Frame) -> None:
        batch = frame.batch
        codes, names = string_codes(batch.column(r.SOURCE))
        rows = np.array(
            [-1 if (row := self.row(frame.site, name)) is None else row for name in names] + [-1],
            np.int64,
        )[codes]
        kind = kinds_of(batch)
        arrival = column_ints(batch, r.ARRIVAL, 0)
        heard = rows >= 0
        self.columns["last_record"][rows[heard]] = arrival[heard]
        self._syncs(batch, rows, arrival, kind)
        event = kind == Kind.EVENT
        self.events += int(event.sum())
        event &= heard
        if event.any():
            ts = column_ints(batch, r.TS, 0)[event]
            stamped = self._stamped(frame, rows, int(arrival[event][-1]), event)
            self._events(frame.site, rows[event], ts, arrival[event], stamped)

    def _syncs(
        self, batch: pa.RecordBatch, rows: np.ndarray, arrival: np.ndarray, kind: np.ndarray
    ) -> None:
        """Take the syncs of a frame. A sync with only a precision means that the source restarted
        and cannot compare its clock, which is unknown until the next sync.
        """
        if r.OFFSET not in batch.schema.names:
            return
        said = batch.column(r.OFFSET).is_valid().to_numpy(zero_copy_only=False)
        fields = {name: column_ints(batch, name, 0) for name in (r.OFFSET, r.DELAY, r.PRECISION)}
        fields[r.SKEW_ERROR_PPB] = column_ints(batch, r.SKEW_ERROR_PPB, 0)
        codes, clocks = np.full(batch.num_rows, -1), list[str]()
        if r.CLOCK in batch.schema.names:
            codes, clocks = string_codes(batch.column(r.CLOCK))
        before: tuple[int, int, int] | None = None
        says = said | (fields[r.PRECISION] > 0)
        for place in np.flatnonzero(says & (kind == Kind.SYNC) & (rows >= 0)).tolist():
            row = int(rows[place])
            if not said[place]:
                self.columns["synced"][row] = NEVER
                continue
            sync = ClockSync(
                offset=int(fields[r.OFFSET][place]), delay=int(fields[r.DELAY][place]),
                precision=int(fields[r.PRECISION][place]),
                skew_error_ppb=int(fields[r.SKEW_ERROR_PPB][place]), synced=int(arrival[place]),
            )  # fmt: skip
            source = self.keys[row][1]
            clock = clocks[codes[place]] if codes[place] >= 0 else clock_name(source)
            if clock != clock_name(source):
                self.devices.synced(self.keys[row], clock, sync)
                continue
            self.devices.trusted(self.keys[row], clock)
            for name, values in fields.items():
                self.columns[name][row] = values[place]
            self.columns["synced"][row] = arrival[place]
            # A sync has one record for each stream of its source.
            now = (row, int(arrival[place]), int(fields[r.OFFSET][place]))
            if now != before:
                self.history.add(row, *now[1:], self.bound_ns(row, now[1]))
            before = now

    def _sync(self, row: int) -> ClockSync | None:
        if self.columns["synced"][row] == NEVER:
            return None
        return ClockSync(*(int(self.columns[name][row]) for name in ClockSync._fields))

    def _stamped(self, frame: Frame, rows: np.ndarray, now: int, event: np.ndarray) -> _Stamped:
        """The clocks of a frame's events, by the last syncs at its end."""
        clock, names = np.full(frame.batch.num_rows, -1), list[str]()
        if r.CLOCK in frame.batch.schema.names:
            clock, names = string_codes(frame.batch.column(r.CLOCK))
        pairs = rows[event] * (len(names) + 1) + clock[event] + 1
        which, place = np.unique(pairs, return_inverse=True)
        stamps = list[tuple[int, str]]()
        offset, bound = np.zeros(len(which), np.int64), np.full(len(which), _UNKNOWN)
        for number, pair in enumerate(which.tolist()):
            row, code = divmod(pair, len(names) + 1)
            key = self.keys[row]
            default_name = clock_name(key[1])
            name = names[code - 1] if code else default_name
            stamps.append((row, name))
            sync = self._sync(row) if name == default_name else self.devices.of(key, name)
            if sync is not None:
                offset[number], bound[number] = sync.offset, sync.bound_ns(now)
            elif name == default_name:  # not synced since its start
                offset[number] = self.columns["offset"][row]
        return _Stamped(stamps, place, offset[place], bound[place])

    def _against_bounds(
        self, rows: np.ndarray, ref: np.ndarray, arrival: np.ndarray, of_events: _Stamped
    ) -> None:
        """Compare the events' times with the bounds of their clocks: slow, or ahead."""
        of, now = self.columns, int(arrival[-1])
        which = np.unique(rows)
        begins = which[now - of["window"][which] >= WINDOW_NS]
        is_first = of["window"][begins] == NEVER
        of["excess_before"][begins] = np.where(is_first, _NOTHING, of["excess"][begins])
        of["excess"][begins], of["window"][begins] = _NOTHING, now
        known = of_events.bound >= 0
        late = arrival - ref
        np.minimum.at(of["excess"], rows[known], (late - of_events.bound)[known])
        ahead = np.zeros(len(of_events.stamps), np.int64)
        np.maximum.at(ahead, of_events.place[known], (-late - of_events.bound)[known])
        for number in np.flatnonzero(ahead >= REFUTES_NS).tolist():
            row, clock = of_events.stamps[number]
            self.devices.refuted(self.keys[row], clock)
            if now - of["refuted"][row] > WINDOW_NS:
                of["ahead"][row] = 0
            of["ahead"][row] = max(int(of["ahead"][row]), int(ahead[number]))
            of["refuted"][row] = now

    def _events(
        self, site: str, rows: np.ndarray, ts: np.ndarray, arrival: np.ndarray, of_events: _Stamped
    ) -> None:
        """Take the events of one frame, with the offsets that hold at its end."""
        of = self.columns
        ref = ts + of_events.offset
        self._against_bounds(rows, ref, arrival, of_events)
        # Events from the future must not make all later events look late.
        seen = np.minimum(ref, arrival)
        newest = np.maximum.accumulate(np.append(self._newest.get(site, NEVER), seen))
        self._newest[site] = int(newest[-1])
        late = seen < newest[:-1]
        which, place, count = np.unique(rows, return_inverse=True, return_counts=True)
        lag = np.bincount(place, (arrival - ref).astype(np.float64))
        disordered = np.bincount(place, late)
        now = int(arrival[-1])
        fade = np.exp(-np.maximum(now - of["last_event"][which], 0) / MEMORY_NS)
        for name, added in (("weight", count), ("lag", lag), ("disorder", disordered)):
            of[name][which] = of[name][which] * fade + added
        of["events"][which] += count
        of["disordered"][which] += disordered.astype(np.int64)
        first = of["first_event"][which]
        of["first_event"][which] = np.where(first == NEVER, int(arrival[0]), first)
        of["last_event"][which] = now
