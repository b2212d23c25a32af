"""From the readings of one stream to intervals: where each begins and ends (SPEC 4.10, L10 5.4).

Sans-IO: readings and the monotonic clock are handed in, ``outputs()`` gives what is to be told.
What comes out is a function of the readings and of when they were handed in; when timers fire, and
how readings were cut into batches, makes no difference. The rules, for each thing (``by``) apart:

* An interval begins at the first reading of its state. It ends (``te``) at the first reading of
  the next one: bands and states hold until something else is seen. Presence is seen in readings
  alone, so it ends at the last of them.
* After ``gap`` without a reading it has ended at the last one, cut ``gap`` (of presence that is
  its natural end: null). A later reading shows the gap by its time; where none comes, the
  monotonic clock does, ``gap`` + ``lag`` after the last one was handed in.
* Its begin is told (IBP) at once; with ``min`` when a reading has shown that it lasts so long. So
  nothing is told of an interval that is too short, and nothing has to be taken back. One that ends
  long enough, but before a reading has shown it, has no IBP.
* At ``max`` it is split, cut ``max``: its next piece begins where this one ends, is told at once,
  and may be of any length. So nothing is told later than ``max + gap + lag`` after its begin.
* A reading older than the thing's last one is left out and counted, unless it is so by more than
  ``clock_step``: then the clock was set back, and the interval ends at its last reading, cut
  ``clock``. A clock that is set forward looks like a gap. A reading that another clock stamped
  than the one before (``take``) ends the interval so, too: an interval is by one clock.
* A reading without a value (null, NaN, a text for a number) is left out and counted.
* At the end of the stream open intervals end at their last readings, cut ``eos``; where
  ``keys_max`` are open, the oldest ends likewise, cut ``full``.

>>> settings = AbstractSettings(stream="r", into="i", kind="bands", value="v",
...                             bands=("LOW", 50, "MEDIUM", 100, "HIGH"))
>>> machine = Abstraction(settings)
>>> machine.take([((), 2 * i, v) for i, v in enumerate([55, 70, 95, 80, 110, 120, 90, 60, 30])], 0)
>>> [(each.type, each.ts, each.te) for each in machine.outputs() if isinstance(each, Ended)]
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

# Which state a reading shows: the band of a number, or the state that it names.


Label = Callable[[Any, str | None], str | None]
"""From a reading's value and the type of the open interval (None: there is none) to the type that
the reading shows; None: it has no value."""
_TRUTH: Final = {True: "true", False: "false"}


def label_of(settings: AbstractSettings) -> Label:
    """How readings are told apart.

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
            # NaN is below and above nothing.
            return names[bisect_left(edges, value)] if value == value else None  # noqa: PLR0124
        except TypeError:
            return None  # nothing, or a text

    return band


def _state(prefix: str) -> Label:
    room = NAME_MAX - len(prefix)

    def state(value: Any, _: str | None) -> str | None:
        if value is None or value != value:  # noqa: PLR0124 - NaN
            return None
        text = _TRUTH[value] if value is True or value is False else str(value)
        return prefix + text if 0 < len(text) <= room else None

    return state


# From the readings of one stream to intervals: where each begins and ends (SPEC 4.10, L10 5.4).


Key = tuple[Any, ...]
"""Values of the attributes ``by``; behind them the device that stamps, where that is not the
agent."""
Reading = tuple[Key, int, Any]
"""Of which thing, at which time [ns, source's clock], and its value."""
ABSTRACTIONS_MAX: Final = 64
"""Of one agent."""
_STALE_MAX: Final = 1024
"""Alarms of ended intervals that are kept, beside as many as there are open ones."""


class Begun(NamedTuple):
    """An interval's begin (IBP)."""

    ts: int
    id: int
    type: str
    clock: str | None = None


class Ended(NamedTuple):
    """An interval."""

    ts: int
    te: int
    id: int
    type: str
    key: Key
    cut: str | None
    readings: int
    clock: str | None = None


class Open:
    """An interval that has not ended. ``last``: its last reading; ``mono_ns``: when that came."""

    __slots__ = (
        "clock",
        "continued",
        "id",
        "key",
        "last",
        "mono_ns",
        "readings",
        "told",
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
        self.told = False
        self.clock: str | None = None
        """What stamped its readings; None: the source's own clock."""
        self.continued = False
        """Whether it goes on with one that was split."""


class Abstraction:
    """One ``[[abstract]]``. See the module."""

    def __init__(self, settings: AbstractSettings, place: int = 0, first: int = 0) -> None:
        """``place``: among the abstractions of its agent, in [0, 64); ``first``: ids count from
        here: above all counts of earlier starts of the source, as far as the device knows.
        """
        assert 0 <= place < ABSTRACTIONS_MAX
        self.settings = settings
        self.counts: Counter[str] = Counter()
        """Readings: ``readings no_value backwards``. Intervals: ``intervals begins too_short``."""
        self.touched: set[Key] | None = None
        """Where a set: the things whose state is another one since it was emptied."""
        self._place = place
        self.next = first
        self._label = label_of(settings)
        self._natural = None if settings.kind == PRESENCE else "gap"
        self._gap_ns = settings.gap_ns or (1 << 63)
        self._open: dict[Key, Open] = {}
        self._due: list[tuple[int, int, Key]] = []
        self._outputs: list[Begun | Ended] = []
        self._clock: str | None = None
        """Of the readings that are being taken."""

    def outputs(self) -> list[Begun | Ended]:
        """What is to be told, in this order. Drained."""
        made, self._outputs = self._outputs, []
        return made

    def take(self, readings: Iterable[Reading], mono_ns: int, clock: str | None = None) -> None:
        """Readings in the order in which the device has them, at hand now; ``clock``: what stamped
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
                shown = label_of_value(value, None)
                if shown is None:
                    valueless += 1
                else:
                    self._begin(key, shown, ts, mono_ns)
                continue
            shown = label_of_value(value, interval.type)
            if shown is None:
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
            if shown != interval.type:
                self._end(interval, ts, None)
                self._begin(key, shown, ts, mono_ns)
                continue
            interval.last = ts
            interval.mono_ns = mono_ns
            interval.readings += 1
            if not interval.told and ts - interval.ts >= min_ns:
                self._tell(interval)
            if touched is not None:
                touched.add(key)
        self.counts["readings"] += count
        if valueless:
            self.counts["no_value"] += valueless

    def next_wake(self) -> int | None:
        """Monotonic instant [ns] at which ``wake`` is due; None: nothing is waited for."""
        return self._due[0][0] if self._due else None

    def wake(self, mono_ns: int) -> None:
        """Ends what has been silent for too long; harmless when nothing has."""
        due = self._due
        while due and due[0][0] <= mono_ns:
            asked, id_, key = heapq.heappop(due)
            interval = self._open.get(key)
            if interval is None or interval.id != id_:
                continue
            at = self._alarm(interval)[0]
            # Put back even when it is due by now: what ends first is told first.
            if at > asked:
                heapq.heappush(due, (at, id_, key))
            else:
                self._end(interval, interval.last, self._natural)

    def finish(self) -> None:
        """No reading will come any more."""
        for interval in list(self._open.values()):
            self._end(interval, interval.last, "eos")
        self._due.clear()

    def oldest(self) -> int | None:
        """The earliest begin of all that is open [ns, source's clock]; None: nothing is."""
        return min((each.ts for each in self._open.values()), default=None)

    # --- state

    def state_of(self, key: Key) -> list[Any] | None:
        """What there is to know of a thing's open interval, as plain data; None: it has none."""
        each = self._open.get(key)
        if each is None:
            return None
        state = [
            each.type, each.ts, each.last, each.id, each.readings, each.told, each.continued,
        ]  # fmt: skip
        return state if each.clock is None else [*state, each.clock]

    def restore(self, key: Key, state: list[Any], mono_ns: int) -> None:
        """Goes on with an interval; its silence counts from now."""
        type_, ts, last, id_, readings, told, continued, *clock = state
        interval = Open(key, type_, ts, id_, mono_ns)
        interval.last, interval.readings = last, readings
        interval.told, interval.continued = told, continued
        interval.clock = clock[0] if clock else None
        self._open[key] = interval
        self._watch(interval)
        self.next = max(self.next, id_ // ABSTRACTIONS_MAX + 1)

    def told(self) -> list[int]:
        """Ids of what is open and whose begins were told."""
        return [each.id for each in self._open.values() if each.told and self.settings.begins]

    def things(self) -> list[Key]:
        """Of everything that is open."""
        return list(self._open)

    # --- inside

    def _begin(self, key: Key, type_: str, ts: int, mono_ns: int, readings: int = 1) -> Open:
        if len(self._open) >= self.settings.keys_max:
            oldest = next(iter(self._open.values()))
            self._end(oldest, oldest.last, "full")
        interval = Open(key, type_, ts, self.next * ABSTRACTIONS_MAX + self._place, mono_ns)
        self.next += 1
        interval.readings, interval.clock = readings, self._clock
        self._open[key] = interval
        self._watch(interval)
        if not self.settings.min_ns:
            self._tell(interval)
        if self.touched is not None:
            self.touched.add(key)
        return interval

    def _watch(self, interval: Open) -> None:
        if self.settings.silence_ns:
            heapq.heappush(self._due, self._alarm(interval))
            if len(self._due) > 2 * len(self._open) + _STALE_MAX:  # most are of ended intervals
                self._due = sorted(map(self._alarm, self._open.values()))

    def _alarm(self, interval: Open) -> tuple[int, int, Key]:
        return interval.mono_ns + self.settings.silence_ns + 1, interval.id, interval.key

    def _tell(self, interval: Open) -> None:
        interval.told = True
        if self.settings.begins:
            self.counts["begins"] += 1
            self._outputs.append(Begun(interval.ts, interval.id, interval.type, interval.clock))

    def _jump(self, interval: Open, value: Any, ts: int, mono_ns: int) -> None:
        """A reading from before the last one, or from after a gap."""
        if interval.clock != self._clock:
            self._end(interval, interval.last, "clock")
        elif ts < interval.last:
            if interval.last - ts <= self.settings.clock_step_ns:
                self.counts["backwards"] += 1
                return
            self._end(interval, interval.last, "clock")
        else:
            self._end(interval, interval.last, self._natural)
        shown = self._label(value, None)  # the band that was left holds no more
        assert shown is not None
        self._begin(interval.key, shown, ts, mono_ns)

    def _split(self, interval: Open, ts: int, mono_ns: int) -> Open:
        while ts - interval.ts > self.settings.max_ns:
            end = interval.ts + self.settings.max_ns
            self._end(interval, end, "max")
            interval = self._begin(interval.key, interval.type, end, mono_ns, readings=0)
            interval.continued = True
            if not interval.told:
                self._tell(interval)
        return interval

    def _end(self, interval: Open, te: int, cut: str | None) -> None:
        del self._open[interval.key]
        if self.touched is not None:
            self.touched.add(interval.key)
        if te - interval.ts < self.settings.min_ns and not interval.continued:
            self.counts["too_short"] += 1
            return
        self.counts["intervals"] += 1
        self._outputs.append(
            Ended(
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


# From events of a stream to the readings of an abstraction: what is the thing, what its value.


class Reader:
    """Hands the events of one stream to one abstraction."""

    def __init__(self, machine: Abstraction, schema: StreamSchema) -> None:
        """``schema``: of the stream that is read."""
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
        """Events, at hand now."""
        if self._only:
            rows = [row for row in rows if row.type in self._only]
        for name, some in groupby(rows, attrgetter("clock")):
            self.machine.take(self._readings(list(some), name), mono_ns, name)

    def _readings(self, rows: Sequence[Row], clock: str | None) -> list[Reading]:
        place = self._value
        thing = _picker(self._by)
        if clock is not None:
            # Of one device, whose clock has another name when it was set or is in doubt.
            attrs_of, device = thing, device_of(clock)

            def thing(attrs: tuple[Any, ...]) -> tuple[Any, ...]:
                return (*attrs_of(attrs), device)

        if place is None:
            return [(thing(row.attrs), row.ts, None) for row in rows]
        return [(thing(row.attrs), row.ts, row.attrs[place]) for row in rows]


def _picker(places: Sequence[int]) -> Any:
    """From attributes to a tuple of those at ``places``."""
    if len(places) > 1:
        return itemgetter(*places)
    if places:
        (one,) = places
        return lambda attrs: (attrs[one],)
    return lambda _: ()
