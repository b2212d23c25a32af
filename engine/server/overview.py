"""The state of a gateway at one instant: a row per source, and sums over all."""

from __future__ import annotations

import json
import re
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.engine.core.clocks.arrivals import SLOW_NS
from slackwater.engine.core.units import neat
from slackwater.engine.gateway.core import GatewayCore
from slackwater.engine.gateway.intake import COUNTS as PULL_BACK_COUNTS
from slackwater.engine.gateway.peers import Source
from slackwater.engine.log.input.numbering import CountedLane
from slackwater.engine.server.source_figures import (
    NEVER,
    ClockPoint,
    DeviceRow,
    Means,
    SourceFigures,
)

# Whether queries are answered: the page, the metrics and ``/readyz`` show it.


@dataclass(slots=True)
class AnswersState:
    """State of the answers of one server.

    ``running``: the engine is running, or there are no queries; False: no answers at present.
    ``failed``: queries that were disabled at a site (``engine.output.run_writer``).
    ``sinks``: figures of each sink (``engine.sinks.forwarding.SinkFigures``).
    """

    running: bool = True
    failed: list[dict[str, str]] = field(default_factory=list)
    sinks: list[dict[str, Any]] = field(default_factory=list)


# The state of a gateway at one instant: a row per source, and the sums of its events.
#
# Made on request, and not again before it is old enough: with tens of thousands of sources it takes
# longer, so it is made less often, and takes at most a twentieth of the time.


IDLE_NS: Final = 10_000_000_000
"""A connected source without an event for this long is idle."""
AGE_LEAST_S: Final = 0.9
_SHARE: Final = 20
_DIGITS: Final = re.compile("[0-9]+")
STATES: Final = ("connected", "idle", "away", "ended")
EVENT_COUNTS: Final = (
    "received",
    "recorded",
    "duplicate",
    "refused",
    "put_off",
    "given_up",
    "reused",
)
"""Counts of events; see ``GatewayCore.counts``."""
_NOT_MESSAGES: Final = {
    *EVENT_COUNTS, "promise_waited", "promise_dropped", "duplicate_control",
}  # fmt: skip
_REMEDY: Final = '; if a device stamps them, set clock = "device" in its [[input]]'
_COUNTS_AGAIN: Final = (
    "a number that another event of it had before; they are kept, without a number: name the "
    "stream in [seq_bits] if its counter wraps around, or give each start a larger incarnation"
)
SORTS: Final = (
    "source", "state", "offset", "delay", "rate", "lag", "disorder", "missing", "seen", "events",
)  # fmt: skip
"""Columns by which rows can be sorted."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One source. Times in seconds; None: unknown. ``seen``: time since the last activity;
    ``gaps``: number of runs of missing numbers; ``missing``: number of missing numbers.
    """

    site: str
    source: str
    state: str
    offset: float | None
    bound: float | None
    delay: float | None
    rate: float
    lag: float | None
    disorder: float | None
    gaps: int
    missing: int
    seen: float | None
    events: int
    disordered: int
    counts: dict[str, int]
    """``EVENT_COUNTS`` since the start."""
    status: str
    """Status of its clock: ``ClockStatus``."""
    devices: list[DeviceRow]
    """Clocks of devices behind it."""
    alarm: str
    """A finding in its events that no bound explains; empty: none."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all sources since the start.

    ``events``: ``EVENT_COUNTS``; ``logged``: events given to the log; ``balance``: received events
    minus all their outcomes, 0 if the counters are consistent; ``faults``: refused messages and
    connections, by reason; ``pulled``: requested intervals, by ``PULL_BACK_COUNTS``; ``letters``,
    ``letters_dropped``: refused messages kept in the file, and dropped.
    """

    events: dict[str, int]
    logged: int
    balance: int
    faults: dict[str, int]
    pulled: dict[str, int]
    letters: int
    letters_dropped: int
    not_back: int
    sites: int
    states: dict[str, int]


def found_line(lane: CountedLane) -> str:
    """Message about the first finding in a source's numbers."""
    name = f"numbers of {lane.site}/{lane.source}, stream {lane.stream}:"
    if lane.reused:
        return f"{name} events have {_COUNTS_AGAIN}"
    return (
        f"{name} they fall from near {2**lane.bits - 1:,} to near 0, so they are taken for a "
        f"counter of {lane.bits} bits; {lane.stream} = {lane.bits} in [seq_bits] says so, too"
    )


class Overview:
    """Overview of a gateway core and its sources' figures; ``answers``: of its engine."""

    def __init__(
        self, core: GatewayCore, figures: SourceFigures, answers: AnswersState | None = None
    ) -> None:
        self.core = core
        self.figures = figures
        self.answers = AnswersState() if answers is None else answers
        self.sums = Totals(dict.fromkeys(EVENT_COUNTS, 0), 0, 0, {}, {}, 0, 0, 0, 0, {})
        self.now = 0
        """Arrival clock at the last refresh."""
        self._state = np.zeros(0, np.int64)
        self._gaps = np.zeros(0, np.int64)
        self._missing = np.zeros(0, np.int64)
        self._means: Means = figures.means(0)
        self._slow = self._ahead = np.zeros(0, np.int64)
        self._reused = np.zeros(0, np.bool_)
        self._names: list[str] = []
        self._places = np.zeros(0, np.int64)
        """Rank of each row by name."""
        self._due = 0.0

    def __len__(self) -> int:
        return len(self._state)

    def refresh(self) -> None:
        """Update the overview if the last update is old enough."""
        begun = time.monotonic()
        if begun < self._due:
            return
        self.now = self.core.clock.now
        self._look_at_sources()
        self._look_at_names()
        self._means = self.figures.means(self.now)
        self._slow, self._ahead = self.figures.slow_ns(self.now), self.figures.ahead_ns(self.now)
        self.sums = self._summed()
        taken = time.monotonic() - begun
        self._due = begun + max(AGE_LEAST_S, _SHARE * taken)

    def order(self, sort: str, *, descending: bool, find: str = "") -> np.ndarray:
        """Numbers of the rows whose site/source contains ``find``, in this order.

        Rows with an unknown value come last.
        """
        size = len(self)
        chosen = np.arange(size)
        if find:
            text = find.casefold()
            found = [place for place, name in enumerate(self._names[:size]) if text in name]
            chosen = np.array(found, np.int64)
        place = self._places[chosen]
        if sort == "source":
            return chosen[np.argsort(-place if descending else place)]
        values = self._values(sort)[chosen]
        unknown = np.isnan(values)
        ranked = np.where(unknown, 0.0, -values if descending else values)
        return chosen[np.lexsort((place, ranked, unknown))]

    def row(self, number: int) -> SourceRow:
        """The row of one source."""
        site, name = self.figures.keys[number]
        column = {name: int(values[number]) for name, values in self.figures.columns.items()}
        synced = column["synced"] != NEVER
        seen = column["last_record"]
        counts = self.core.counts
        return SourceRow(
            site=site,
            source=name,
            state=STATES[int(self._state[number])],
            offset=column["offset"] / 1e9 if synced else None,
            bound=self.figures.bound_ns(number, self.now) / 1e9 if synced else None,
            delay=column["delay"] / 1e9 if synced else None,
            rate=float(self._means.rate[number]),
            lag=_known(self._means.lag[number]),
            disorder=_known(self._means.disorder[number]),
            gaps=int(self._gaps[number]),
            missing=int(self._missing[number]),
            seen=max(self.now - seen, 0) / 1e9 if seen != NEVER else None,
            events=column["events"],
            disordered=column["disordered"],
            counts={reason: counts[site, name, reason] for reason in EVENT_COUNTS},
            status=self.figures.status(number, self.now).value,
            devices=self.figures.devices.rows((site, name), self.now),
            alarm=self._alarm(number),
        )

    def alarms(self) -> np.ndarray:
        """Numbers of the sources whose rows have an ``alarm``."""
        return np.flatnonzero((self._ahead > 0) | (self._slow >= SLOW_NS) | self._reused)

    def _alarm(self, number: int) -> str:
        if ahead := int(self._ahead[number]):
            return (
                f"its events came up to {neat(ahead, ' ')} before they can have happened: a clock "
                f"is ahead by more than its bound{_REMEDY}"
            )
        if (slow := int(self._slow[number])) >= SLOW_NS:
            return (
                f"all its events of a minute came {neat(slow, ' ')} or more after they can have "
                f"happened: a slow clock, a slow link, or an outbox that is emptied{_REMEDY}"
            )
        if reused := self.core.counts[*self.figures.keys[number], "reused"]:
            return f"{reused:,} of its events have {_COUNTS_AGAIN}"
        return ""

    def clock(self, number: int) -> list[ClockPoint]:
        """Recent offsets of one source."""
        return self.figures.history.points(number)

    # --- inside

    def _look_at_sources(self) -> None:
        known = self.core.admission.sources
        for key in known:
            self.figures.row(*key)
        keys = self.figures.keys
        last = self.figures.columns["last_event"]
        self._state = np.zeros(len(keys), np.int64)
        self._gaps = np.zeros(len(keys), np.int64)
        self._missing = np.zeros(len(keys), np.int64)
        counts = self.core.counts
        self._reused = np.array([counts[*key, "reused"] > 0 for key in keys], np.bool_)
        for number, key in enumerate(keys):
            source = known.get(key)
            silent = self.now - int(last[number]) > IDLE_NS
            self._state[number] = STATES.index(_state(source, silent=silent))
            for lane in source.lanes if source else ():
                if lane.received.islands:
                    self._gaps[number] += lane.received.islands
                    self._missing[number] += lane.received.missing

    def _look_at_names(self) -> None:
        """Update what depends on names; they are only added, and seldom."""
        keys = self.figures.keys
        if len(keys) == len(self._names):
            return
        names = ["/".join(key) for key in keys]
        self._names = [name.casefold() for name in names]
        # Numbers in names sort by value: dev2 before dev11.
        by = [_DIGITS.sub(lambda digits: digits[0].zfill(20), name) + "\0" + name for name in names]
        self._places = np.empty(len(keys), np.int64)
        self._places[np.argsort(np.array(by, np.object_), kind="stable")] = np.arange(len(keys))

    def _summed(self) -> Totals:
        events: Counter[str] = Counter()
        faults: Counter[str] = Counter()
        pulled: Counter[str] = Counter()
        for (_, _, reason), count in self.core.counts.items():
            if reason in EVENT_COUNTS:
                events[reason] += count
            elif reason in PULL_BACK_COUNTS:
                pulled[reason] += count
            elif reason not in _NOT_MESSAGES:
                faults[reason] += count
        ended = events["recorded"] + events["duplicate"] + events["refused"] + events["put_off"]
        numbers = np.bincount(self._state, minlength=len(STATES)).tolist()
        letters = self.core.dead_letters
        return Totals(
            events={reason: events[reason] for reason in EVENT_COUNTS},
            logged=self.figures.events,
            balance=events["received"] - ended,
            faults=dict(faults),
            pulled={reason: pulled[reason] for reason in PULL_BACK_COUNTS},
            letters=letters.kept,
            letters_dropped=letters.dropped,
            not_back=self.core.admission.not_back,
            sites=len({site for site, _ in self.figures.keys}),
            states=dict(zip(STATES, numbers, strict=True)),
        )

    def _values(self, sort: str) -> np.ndarray:
        """The values of a sort column as float64; NaN: unknown."""
        size = len(self)
        column = {name: values[:size] for name, values in self.figures.columns.items()}
        never = column["synced"] == NEVER
        unheard = column["last_record"] == NEVER
        found: dict[str, Any] = {
            "state": self._state,
            "offset": np.where(never, np.nan, np.abs(column["offset"])),
            "delay": np.where(never, np.nan, column["delay"]),
            "rate": self._means.rate,
            "lag": self._means.lag,
            "disorder": self._means.disorder,
            "missing": self._missing,
            "seen": np.where(unheard, np.nan, self.now - column["last_record"]),
            "events": column["events"],
        }
        return np.asarray(found[sort], np.float64)


def _state(source: Source | None, *, silent: bool) -> str:
    if source is not None and source.ended:
        return "ended"
    if source is None or not source.connections:
        return "away"
    return "idle" if silent else "connected"


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


# The newest results for live readers: a ring of lines in bounded memory.
#
# There are no queues: a reader keeps the number up to which it has read, and learns how many lines
# it missed.


LINES_MAX: Final = 2_000
BYTES_MAX: Final = 4 << 20
LINE_MAX: Final = 16 << 10
"""A longer line is kept with its first events only."""
_EVENTS_KEPT: Final = 8
_TAKEN_BACK: Final = b'{"op": "-"'


class Unread(NamedTuple):
    """Lines for a reader: ``lines`` up to number ``end``, after ``skipped`` lost ones."""

    lines: list[bytes]
    end: int
    skipped: int


class ResultFeed:
    """Result lines (DESIGN "Results"), numbered from 1 in order of publication."""

    def __init__(
        self, lines_max: int = LINES_MAX, bytes_max: int = BYTES_MAX, *, unit_ns: int = 1
    ) -> None:
        self.unit_ns = unit_ns
        """Unit of the times in the lines [ns]."""
        self.inserted = 0
        self.retracted = 0
        """Numbers of lines with ``+`` and with ``-`` since the start."""
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self.end = 0
        """The number of the newest line; 0: none yet."""
        self._lines_max = lines_max
        self._bytes_max = bytes_max

    def publish(self, lines: Sequence[bytes]) -> None:
        """Add lines of JSON, with or without newlines, in order of emission."""
        kept = [_short(line) for line in lines[-self._lines_max :]]
        retracted = sum(line.startswith(_TAKEN_BACK) for line in lines)
        self.retracted += retracted
        self.inserted += len(lines) - retracted
        self.end += len(lines)
        self._lines.extend(kept)
        self._bytes += sum(map(len, kept))
        while len(self._lines) > self._lines_max or self._bytes > self._bytes_max:
            self._bytes -= len(self._lines.popleft())

    def since(self, number: int, most: int) -> Unread:
        """The lines after ``number``; if more than ``most``, the newest of them.

        An unknown number (from an earlier start of the server) counts as 0.
        """
        number = number if 0 <= number <= self.end else 0
        count = min(self.end - number, most, len(self._lines))
        lines = [self._lines[place] for place in range(-count, 0)]
        return Unread(lines, self.end, self.end - number - count)


def _short(line: bytes) -> bytes:
    if len(line) <= LINE_MAX:
        return line
    result: dict[str, Any] = json.loads(line)
    events = result.get("events")
    kept: dict[str, Any] = {
        name: value if len(json.dumps(value)) <= LINE_MAX // 8 else None
        for name, value in result.items()
    }
    if isinstance(events, list):
        kept["events"] = [_bare(event) for event in events[:_EVENTS_KEPT]]
        kept["events_left_out"] = len(events) - len(kept["events"])
    return json.dumps(kept).encode()


def _bare(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "attrs": {}}
