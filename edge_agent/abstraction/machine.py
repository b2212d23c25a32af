"""Conversion of one stream's readings to intervals, with begin and end (SPEC 4.10, L10 5.4).

Sans-IO: the caller passes readings and the monotonic clock; ``outputs()`` returns the begins and
intervals to send. They depend only on the readings and the times at which these were passed, not on
when timers fire or how readings were grouped into batches. The rules, per thing (``by``):

* An interval begins at the first reading of its state. It ends (``te``) at the first reading of
  the next one: bands and states last until something else is read. Presence is known from readings
  only, so it ends at the last of them.
* After ``gap`` without a reading it has ended at the last one, cut ``gap`` (for presence this is
  the natural end: null). A later reading shows the gap by its time; without one, the monotonic
  clock does, ``gap`` + ``lag`` after the last reading was passed.
* Its begin (IBP) is sent at once; with ``min``, when a reading shows that it lasts that long. So no
  begin of a short interval is sent, and none is retracted. An interval that ends long enough, but
  before a reading has shown it, has no IBP.
* At ``max`` it is split, cut ``max``: its next piece begins where this one ends, is sent at once,
  and may have any length. So nothing is sent later than ``max + gap + lag`` after its begin.
* A reading older than the thing's last one is dropped and counted, unless it is older by more than
  ``clock_step``: then the clock was set back, and the interval ends at its last reading, cut
  ``clock``. A clock that is set forward looks like a gap. A reading with another stamping clock
  than the previous one (``take``) ends the interval in the same way: an interval has one clock.
* A reading without a value (null, NaN, a text for a number) is dropped and counted.
* At the end of the stream open intervals end at their last readings, cut ``eos``; if ``keys_max``
  are open, the oldest ends likewise, cut ``full``.

>>> settings = AbstractSettings(stream="r", into="i", kind="bands", value="v",
...                             bands=("LOW", 50, "MEDIUM", 100, "HIGH"))
>>> machine = Abstraction(settings)
>>> machine.take([((), 2 * i, v) for i, v in enumerate([55, 70, 95, 80, 110, 120, 90, 60, 30])], 0)
>>> [(each.type, each.ts, each.te) for each in machine.outputs() if isinstance(each, EndedInterval)]
[('MEDIUM', 0, 8), ('HIGH', 8, 12), ('MEDIUM', 12, 16)]
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from slackwater.edge_agent.abstraction.settings import BANDS, PRESENCE, AbstractSettings
from slackwater.edge_agent.device_clock import device_of
from slackwater.edge_agent.messages import NAME_MAX, StreamSchema
from slackwater.edge_agent.packing import Row

# The state that a reading shows: the band of a number, or the state that it names.


Label = Callable[[Any, str | None], str | None]
"""Maps a reading's value and the open interval's type (None: none is open) to the type that the
reading shows; None: it has no value."""
_TRUTH: Final = {True: "true", False: "false"}


def label_of(settings: AbstractSettings) -> Label:
    """Return the function that gives a reading's type.

    >>> settings = AbstractSettings(stream="r", into="i", kind="bands", value="v",
    ...                             bands=("LOW", 50, "HIGH"), hysteresis=5)
    >>> label = label_of(settings)
    >>> label(50, None), label(51, None), label(51, "LOW"), label(56, "LOW"), label(46, "HIGH")
    ('LOW', 'HIGH', 'LOW', 'HIGH', 'HIGH')
    """
    if settings.kind == BANDS:
        return _band(settings)
    if settings.kind == PRESENCE:
        return lambda _, __: settings.type
    return _state(settings.type)


def _band(settings: AbstractSettings) -> Label:
    names, edges, width = settings.names, settings.edges, settings.hysteresis
    floors = (float("-inf"), *(edge - width for edge in edges))
    tops = (*(edge + width for edge in edges), float("inf"))
    within = {name: (floors[place], tops[place]) for place, name in enumerate(names)}

    def band(value: Any, current: str | None) -> str | None:
        try:
            if current is not None:
                floor, top = within[current]
                if floor < value <= top:
                    return current
            # NaN compares false with everything.
            return names[bisect_left(edges, value)] if value == value else None  # noqa: PLR0124
        except TypeError:
            return None  # null, or a text

    return band


def _state(prefix: str) -> Label:
    room = NAME_MAX - len(prefix)

    def state(value: Any, _: str | None) -> str | None:
        if value is None or value != value:  # noqa: PLR0124 - NaN
            return None
        text = _TRUTH[value] if value is True or value is False else str(value)
        return prefix + text if 0 < len(text) <= room else None

    return state


# Conversion of one stream's readings to intervals, with begin and end (SPEC 4.10, L10 5.4).


Key = tuple[Any, ...]
"""Values of the attributes ``by``, followed by the stamping device unless it is the agent."""
Reading = tuple[Key, int, Any]
"""Thing, time [ns, source's clock] and value."""
ABSTRACTIONS_MAX: Final = 64
"""Most abstractions of one agent."""
_STALE_MAX: Final = 1024
"""Alarms of ended intervals that are kept, in addition to one per open interval."""


class IntervalBegin(NamedTuple):
    """An interval's begin (IBP)."""

    ts: int
    id: int
    type: str
    clock: str | None = None


class EndedInterval(NamedTuple):
    """An interval that has ended."""

    ts: int
    te: int
    id: int
    type: str
    key: Key
    cut: str | None
    readings: int
    clock: str | None = None


class UnfinishedInterval:
    """An open interval. ``last``: time of its last reading; ``mono_ns``: arrival of that
    reading.
    """

    __slots__ = (
        "begin_sent",
        "clock",
        "continued",
        "id",
        "key",
        "last",
        "mono_ns",
        "readings",
        "ts",
        "type",
    )

    def __init__(self, key: Key, type_: str, ts: int, id_: int, mono_ns: int) -> None:
        self.key = key
        self.type = type_
        self.ts = self.last = ts
        self.id = id_
        self.mono_ns = mono_ns
        self.readings = 1
        self.begin_sent = False
        self.clock: str | None = None
        """Clock that stamped its readings; None: the source's own."""
        self.continued = False
        """Whether it continues an interval that was split."""


class Abstraction:
    """One ``[[abstract]]`` table; see the module."""

    def __init__(self, settings: AbstractSettings, place: int = 0, first: int = 0) -> None:
        """``place``: index among the abstractions of its agent, in [0, 64); ``first``: first count
        for ids, above all counts of earlier starts of the source that the device knows.
        """
        assert 0 <= place < ABSTRACTIONS_MAX
        self.settings = settings
        self.counts: Counter[str] = Counter()
        """Readings: ``readings no_value backwards``. Intervals: ``intervals begins too_short``."""
        self.touched: set[Key] | None = None
        """Things whose state has changed since the set was cleared; None: not tracked."""
        self._place = place
        self.next = first
        self._label = label_of(settings)
        self._natural = None if settings.kind == PRESENCE else "gap"
        self._gap_ns = settings.gap_ns or (1 << 63)
        self._open: dict[Key, UnfinishedInterval] = {}
        self._due: list[tuple[int, int, Key]] = []
        self._outputs: list[IntervalBegin | EndedInterval] = []
        self._clock: str | None = None
        """Clock of the readings in ``take``."""

    def outputs(self) -> list[IntervalBegin | EndedInterval]:
        """Begins and intervals to send, in this order. Drained."""
        made, self._outputs = self._outputs, []
        return made

    def take(self, readings: Iterable[Reading], mono_ns: int, clock: str | None = None) -> None:
        """Take readings in the device's order, as they arrive; ``clock``: the clock that stamped
        them.
        """
        self.wake(mono_ns)
        self._clock = clock
        find, label_of_value, gap_ns = self._open.get, self._label, self._gap_ns
        min_ns, max_ns = self.settings.min_ns, self.settings.max_ns or (1 << 63)
        touched, count, valueless = self.touched, 0, 0
        for key, ts, value in readings:
            count += 1
            interval = find(key)
            if interval is None:
                label = label_of_value(value, None)
                if label is None:
                    valueless += 1
                else:
                    self._begin(key, label, ts, mono_ns)
                continue
            label = label_of_value(value, interval.type)
            if label is None:
                valueless += 1
                continue
            silent_ns = ts - interval.last
            if interval.clock != clock:
                self._jump(interval, value, ts, mono_ns)
                continue
            if silent_ns < 0 or silent_ns > gap_ns:
                self._jump(interval, value, ts, mono_ns)
                continue
            if ts - interval.ts > max_ns:
                interval = self._split(interval, ts, mono_ns)
            if label != interval.type:
                self._end(interval, ts, None)
                self._begin(key, label, ts, mono_ns)
                continue
            interval.last = ts
            interval.mono_ns = mono_ns
            interval.readings += 1
            if not interval.begin_sent and ts - interval.ts >= min_ns:
                self._send_begin(interval)
            if touched is not None:
                touched.add(key)
        self.counts["readings"] += count
        if valueless:
            self.counts["no_value"] += valueless

    def next_wake(self) -> int | None:
        """Monotonic instant [ns] at which ``wake`` is due; None: no timer runs."""
        return self._due[0][0] if self._due else None

    def wake(self, mono_ns: int) -> None:
        """End intervals that have been silent for too long; harmless if there are none."""
        due = self._due
        while due and due[0][0] <= mono_ns:
            alarm_at, id_, key = heapq.heappop(due)
            interval = self._open.get(key)
            if interval is None or interval.id != id_:
                continue
            at = self._alarm(interval)[0]
            # Pushed back even if it is due by now, so that intervals are sent in order of ending.
            if at > alarm_at:
                heapq.heappush(due, (at, id_, key))
            else:
                self._end(interval, interval.last, self._natural)

    def finish(self) -> None:
        """End all open intervals: no further reading will arrive."""
        for interval in list(self._open.values()):
            self._end(interval, interval.last, "eos")
        self._due.clear()

    def oldest(self) -> int | None:
        """The earliest begin of an open interval [ns, source's clock]; None: none is open."""
        return min((each.ts for each in self._open.values()), default=None)

    # --- state

    def state_of(self, key: Key) -> list[Any] | None:
        """State of a thing's open interval as plain data; None: it has none."""
        each = self._open.get(key)
        if each is None:
            return None
        state = [
            each.type, each.ts, each.last, each.id, each.readings, each.begin_sent, each.continued,
        ]  # fmt: skip
        return state if each.clock is None else [*state, each.clock]

    def restore(self, key: Key, state: list[Any], mono_ns: int) -> None:
        """Continue an interval; its silence counts from now."""
        type_, ts, last, id_, readings, begin_sent, continued, *clock = state
        interval = UnfinishedInterval(key, type_, ts, id_, mono_ns)
        interval.last, interval.readings = last, readings
        interval.begin_sent, interval.continued = begin_sent, continued
        interval.clock = clock[0] if clock else None
        self._open[key] = interval
        self._watch(interval)
        self.next = max(self.next, id_ // ABSTRACTIONS_MAX + 1)

    def sent_begins(self) -> list[int]:
        """Ids of open intervals whose begins (IBP) were sent."""
        return [each.id for each in self._open.values() if each.begin_sent and self.settings.begins]

    def things(self) -> list[Key]:
        """Things with an open interval."""
        return list(self._open)

    # --- inside

    def _begin(
        self, key: Key, type_: str, ts: int, mono_ns: int, readings: int = 1
    ) -> UnfinishedInterval:
        if len(self._open) >= self.settings.keys_max:
            oldest = next(iter(self._open.values()))
            self._end(oldest, oldest.last, "full")
        interval = UnfinishedInterval(
            key, type_, ts, self.next * ABSTRACTIONS_MAX + self._place, mono_ns
        )
        self.next += 1
        interval.readings, interval.clock = readings, self._clock
        self._open[key] = interval
        self._watch(interval)
        if not self.settings.min_ns:
            self._send_begin(interval)
        if self.touched is not None:
            self.touched.add(key)
        return interval

    def _watch(self, interval: UnfinishedInterval) -> None:
        if self.settings.silence_ns:
            heapq.heappush(self._due, self._alarm(interval))
            if len(self._due) > 2 * len(self._open) + _STALE_MAX:  # most are of ended intervals
                self._due = sorted(map(self._alarm, self._open.values()))

    def _alarm(self, interval: UnfinishedInterval) -> tuple[int, int, Key]:
        return interval.mono_ns + self.settings.silence_ns + 1, interval.id, interval.key

    def _send_begin(self, interval: UnfinishedInterval) -> None:
        interval.begin_sent = True
        if self.settings.begins:
            self.counts["begins"] += 1
            self._outputs.append(
                IntervalBegin(interval.ts, interval.id, interval.type, interval.clock)
            )

    def _jump(self, interval: UnfinishedInterval, value: Any, ts: int, mono_ns: int) -> None:
        """Handle a reading of another clock, before the last reading, or after a gap."""
        if interval.clock != self._clock:
            self._end(interval, interval.last, "clock")
        elif ts < interval.last:
            if interval.last - ts <= self.settings.clock_step_ns:
                self.counts["backwards"] += 1
                return
            self._end(interval, interval.last, "clock")
        else:
            self._end(interval, interval.last, self._natural)
        label = self._label(value, None)  # hysteresis of the former band does not apply
        assert label is not None
        self._begin(interval.key, label, ts, mono_ns)

    def _split(self, interval: UnfinishedInterval, ts: int, mono_ns: int) -> UnfinishedInterval:
        while ts - interval.ts > self.settings.max_ns:
            end = interval.ts + self.settings.max_ns
            self._end(interval, end, "max")
            interval = self._begin(interval.key, interval.type, end, mono_ns, readings=0)
            interval.continued = True
            if not interval.begin_sent:
                self._send_begin(interval)
        return interval

    def _end(self, interval: UnfinishedInterval, te: int, cut: str | None) -> None:
        del self._open[interval.key]
        if self.touched is not None:
            self.touched.add(interval.key)
        if te - interval.ts < self.settings.min_ns and not interval.continued:
            self.counts["too_short"] += 1
            return
        self.counts["intervals"] += 1
        self._outputs.append(
            EndedInterval(
                interval.ts,
                te,
                interval.id,
                interval.type,
                interval.key,
                cut,
                interval.readings,
                interval.clock,
            )
        )


# Conversion of a stream's events to the readings of an abstraction: thing, time and value.


class EventReader:
    """Passes the events of one stream to one abstraction."""

    def __init__(self, machine: Abstraction, schema: StreamSchema) -> None:
        """``schema``: of the stream of readings."""
        self.machine = machine
        names = list(schema.attrs)
        settings = machine.settings
        self._by = [names.index(name) for name in settings.by]
        self._value = names.index(settings.value) if settings.value else None
        self._only = frozenset(settings.only)

    def reads(self, type_: str | None) -> bool:
        """Whether events of this type are readings."""
        return not self._only or type_ in self._only

    def take(self, rows: Sequence[Row], mono_ns: int) -> None:
        """Take events as they arrive."""
        if self._only:
            rows = [row for row in rows if row.type in self._only]
        for name, some in groupby(rows, attrgetter("clock")):
            self.machine.take(self._readings(list(some), name), mono_ns, name)

    def _readings(self, rows: Sequence[Row], clock: str | None) -> list[Reading]:
        place = self._value
        thing = _picker(self._by)
        if clock is not None:
            # All rows are of one device; its clock's name changes with steps and doubt.
            attrs_of, device = thing, device_of(clock)

            def thing(attrs: tuple[Any, ...]) -> tuple[Any, ...]:
                return (*attrs_of(attrs), device)

        if place is None:
            return [(thing(row.attrs), row.ts, None) for row in rows]
        return [(thing(row.attrs), row.ts, row.attrs[place]) for row in rows]


def _picker(places: Sequence[int]) -> Any:
    """Return a function from attributes to the tuple of those at ``places``."""
    if len(places) > 1:
        return itemgetter(*places)
    if places:
        (one,) = places
        return lambda attrs: (attrs[one],)
    return lambda _: ()
