"""Clocks of simulated devices: pure functions of virtual (true) time.

Sign, once for the whole file: **offset = reference - source**, so a positive offset means that
the source is slow and ``reading = true time - offset``. ``skew_ppb`` is d(offset)/dt in ns per
second: a positive skew makes the source fall behind more and more. A step's ``by_ns`` is added
to the offset, so a positive step sets the source back.

A clock is compiled to a piecewise linear table of offsets when it is built; wander (a random
walk of the frequency) is drawn there and then, so that reading never changes a clock. (A clock
that draws at each read makes the run depend on who looks at it.) All arithmetic is in integers:

    offset(e) = offset[i] + floor((e - start[i]) * rate_ppb[i] / 1e9),  e = true time - origin

>>> clock = Clock(ClockSettings(offset_ns=50, skew_ppb=1000))
>>> clock.read(0), clock.read(10**9), clock.read(2 * 10**9)
(-50, 999998950, 1999997950)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from slackwater.edge_agent.clock import Now
from slackwater.edge_agent.device_clock import DeviceClockSettings
from slackwater.engine.core.errors import ContractViolation
from slackwater.simulator.settings import check, parse_many, parsed_by

SECOND: Final = 10**9
_FOREVER_NS: Final = 1 << 63
RATE_MAX_PPB: Final = 500_000_000
"""Skew plus wander stay below half: a clock that runs backwards has no inverse."""


@dataclass(frozen=True, slots=True)
class Step:
    """At ``at_ns`` after the start, ``by_ns`` is added to the offset (positive: set back)."""

    at_ns: int
    by_ns: int

    def __post_init__(self) -> None:
        check(self.at_ns > 0, "at", "a step must come after the start; use offset instead")


@dataclass(frozen=True, slots=True)
class ClockSettings:
    """Settings of a device's clock.

    Attributes:
        offset_ns: reference minus source at the start; positive = the source is slow.
        skew_ppb: d(offset)/dt [ns/s]; 20 ppm = 20_000.
        wander_ppb: standard deviation of the frequency's change per wander period.
        wander_period_ns: how often the frequency changes; whole seconds.
        steps: jumps of the offset, in order of time.
        resolution_ns: readings are floored to multiples of this.
    """

    offset_ns: int = 0
    skew_ppb: int = 0
    wander_ppb: float = 0.0
    wander_period_ns: int = SECOND
    steps: tuple[Step, ...] = field(
        default=(), metadata=parsed_by(lambda value, place: parse_many(Step, value, place))
    )
    resolution_ns: int = 1

    def __post_init__(self) -> None:
        check(abs(self.skew_ppb) <= RATE_MAX_PPB // 2, "skew_ppb", "beyond 25 %")
        check(0 <= self.wander_ppb <= 10**6, "wander_ppb", "must lie in 0..1000000")
        whole = self.wander_period_ns > 0 and self.wander_period_ns % SECOND == 0
        check(whole, "wander_period", "must be whole seconds, at least 1 s")
        check(self.resolution_ns >= 1, "resolution", "must be at least 1 ns")
        times = [step.at_ns for step in self.steps]
        check(times == sorted(set(times)), "steps", "must be in order of time, one at an instant")


@dataclass(frozen=True, slots=True, kw_only=True)
class StampingDevice:
    """A device behind the agent, whose clock stamps the events (``edge_agent.device_clock``).

    Attributes:
        offset_ns, skew_ppb, steps, resolution_ns: of its clock, as in ``ClockSettings``.
        read_out_ns: how long after it happened the agent gets an event.
        delay_min_max_ns, delay_max_ns, window_ns: what the agent declares of its messages.
    """

    offset_ns: int = 0
    skew_ppb: int = 0
    steps: tuple[Step, ...] = field(
        default=(), metadata=parsed_by(lambda value, place: parse_many(Step, value, place))
    )
    resolution_ns: int = 1
    read_out_ns: int = 0
    delay_min_max_ns: int = SECOND // 2
    delay_max_ns: int = 60 * SECOND
    window_ns: int = 60 * SECOND

    def __post_init__(self) -> None:
        check(self.read_out_ns >= 0, "read_out", "must not be negative")
        check(self.window_ns > 0, "window", "must be positive")
        ordered = 0 <= self.delay_min_max_ns <= self.delay_max_ns
        check(ordered, "delay_min_max", "must be at most delay_max")

    @property
    def clock(self) -> ClockSettings:
        """Settings of its clock."""
        return ClockSettings(
            offset_ns=self.offset_ns, skew_ppb=self.skew_ppb, steps=self.steps,
            resolution_ns=self.resolution_ns,
        )  # fmt: skip

    @property
    def declared(self) -> DeviceClockSettings:
        """Settings of its agent."""
        return DeviceClockSettings(
            delay_min_max_ns=self.delay_min_max_ns, delay_max_ns=self.delay_max_ns,
            window_ns=self.window_ns,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Frequency of a clock: ``rates_ppb[i]`` [ns/s] from ``starts_ns[i]`` after the origin on.

    ``gained_ns``: its contribution to the offset from the origin to the first row.
    """

    starts_ns: np.ndarray
    rates_ppb: np.ndarray
    gained_ns: int = 0

    def within(self, low_ns: int, high_ns: int) -> Rates:
        """The same clock with only the rows that hold between two instants after the origin."""
        low = max(int(np.searchsorted(self.starts_ns, low_ns, "right")) - 1, 0)
        high = max(int(np.searchsorted(self.starts_ns, high_ns, "right")), low + 1)
        if high - low == self.starts_ns.size:
            return self
        gained = self.gained_ns + int(_gains(self.starts_ns, self.rates_ppb)[:low].sum())
        # Copies: views would keep the omitted rows in memory.
        return Rates(self.starts_ns[low:high].copy(), self.rates_ppb[low:high].copy(), gained)


class Clock:
    """One clock of a device.

    Args:
        settings: its settings.
        origin_ns: the true time at which ``settings.offset_ns`` holds.
        rates: its frequency (``draw_rates``); None: the skew only.

    Raises:
        ContractViolation: the settings ask for wander and no rates are given.
    """

    def __init__(
        self,
        settings: ClockSettings,
        origin_ns: int = 0,
        rates: Rates | None = None,
    ) -> None:
        if rates is None and settings.wander_ppb:
            raise ContractViolation("a clock that wanders needs its rates drawn")
        self.settings = settings
        self.origin_ns = origin_ns
        self._frequency = rates or Rates(
            np.zeros(1, np.int64), np.array([settings.skew_ppb], np.int64)
        )
        self._starts, self._offsets, self._rates = _with_steps(settings, self._frequency)
        self._step = settings.resolution_ns
        # For single look-ups: a view gives plain integers, like a list, with a quarter of the
        # memory, which matters for a clock that wanders for weeks.
        self._start_view, self._offset_view = self._starts.data, self._offsets.data
        self._rate_view = self._rates.data
        self._tops = self._highest_readings()
        self._line = (0, 0, 0, 0, 0)
        """Line of the last reading: the true instants between which it holds, its start, and its
        offset and rate there."""

    def monotonic(self) -> Clock:
        """The device's timer: the same crystal, but never set, and exact to the nanosecond."""
        timer = replace(self.settings, offset_ns=0, steps=(), resolution_ns=1)
        return Clock(timer, self.origin_ns, self._frequency)

    def offset(self, true_ns: int) -> int:
        """Reference minus source at ``true_ns``, before the reading's resolution."""
        since = true_ns - self.origin_ns
        row = max(bisect_right(self._start_view, since) - 1, 0)
        run = since - self._start_view[row]
        return self._offset_view[row] + run * self._rate_view[row] // SECOND

    def read(self, true_ns: int) -> int:
        """The reading of the clock at ``true_ns``."""
        # As true_ns - self.offset(true_ns), but faster: called several times per message, mostly
        # on the line of the previous reading.
        low, high, begin, offset, rate = self._line
        if not low <= true_ns < high:
            low, high, begin, offset, rate = self._line = self.line_at(true_ns)
        reading = true_ns - offset - (true_ns - begin) * rate // SECOND
        return reading - reading % self._step if self._step > 1 else reading

    def line_at(self, true_ns: int) -> tuple[int, int, int, int, int]:
        """The line that gives the clock's readings around ``true_ns``, without its resolution.

        Returns:
            The true instants between which it holds, its start, the offset there, and the rate
            [ns/s]: the clock shows ``true - offset - (true - start) * rate // 1 s``.
        """
        starts, origin = self._start_view, self.origin_ns
        row = max(bisect_right(starts, true_ns - origin) - 1, 0)
        begin = origin + starts[row]
        last = row + 1 == len(starts)
        high = max(true_ns, begin) + _FOREVER_NS if last else origin + starts[row + 1]
        low = begin if row else min(true_ns, begin)
        return low, high, begin, self._offset_view[row], self._rate_view[row]

    def read_many(self, true_ns: np.ndarray) -> np.ndarray:
        """``read`` of an int64 array, number for number."""
        since = true_ns - self.origin_ns
        row = np.maximum(np.searchsorted(self._starts, since, side="right") - 1, 0)
        # Whole seconds and the rest separately: products with the rate must stay within int64.
        seconds, rest = np.divmod(since - self._starts[row], SECOND)
        rate = self._rates[row]
        reading = true_ns - (self._offsets[row] + seconds * rate + rest * rate // SECOND)
        if self.settings.resolution_ns > 1:
            reading -= reading % self.settings.resolution_ns
        return np.asarray(reading, np.int64)

    def when_reads(self, reading_ns: int, not_before_ns: int) -> int:
        """The first true instant from ``not_before_ns`` on at which ``read`` is >= the reading.

        For timers that a device sets on its own clock: a step forward makes them due at the
        step, a step back makes them wait again.
        """
        step = self.settings.resolution_ns
        goal = -(-reading_ns // step) * step  # a floored reading passes it at a multiple
        since = not_before_ns - self.origin_ns
        row = max(bisect_right(self._start_view, since) - 1, 0)
        earliest = not_before_ns
        below = bisect_left(self._tops, goal)
        if below > row:  # before it all readings are below the goal
            row = below
            earliest = max(self.origin_ns + self._start_view[row], not_before_ns)
        while True:
            found = max(self._solve(goal, row), earliest)
            row += 1
            if row == len(self._start_view):
                return found
            border = self.origin_ns + self._start_view[row]
            if found < border:
                return found
            earliest = max(border, not_before_ns)

    def _highest_readings(self) -> memoryview:
        """Per row but the last, the highest reading of the clock up to its end."""
        gained = _gains(self._starts, self._rates)
        readings = self.origin_ns + self._starts[1:] - (self._offsets[:-1] + gained)
        return np.maximum.accumulate(readings).data

    def _solve(self, goal: int, row: int) -> int:
        """The first true instant on line ``row``, extended both ways, with a reading >= goal."""
        begin, offset, rate = self._start_view[row], self._offset_view[row], self._rate_view[row]
        base = self.origin_ns + begin

        def reads(run: int) -> int:
            return base + run - (offset + run * rate // SECOND)

        run = (goal - base + offset) * SECOND // (SECOND - rate)
        # The division is exact except for flooring: the answer is at most a few steps away.
        while reads(run) >= goal:
            run -= 1
        while reads(run) < goal:
            run += 1
        return base + run


class BothClocks:
    """The two clocks of a device, read together for every message.

    Args:
        wall: the clock that stamps.
        timer: its timer (``Clock.monotonic``), exact to the nanosecond.
    """

    def __init__(self, wall: Clock, timer: Clock) -> None:
        self._wall, self._timer = wall, timer
        self._step = wall.settings.resolution_ns
        self._low = self._high = 0
        self._lines = (0, 0, 0, 0, 0, 0)

    def now(self, true_ns: int) -> Now:
        """``Clock.read`` of both at ``true_ns``."""
        if not self._low <= true_ns < self._high:
            self._turn(true_ns)
        begin, offset, rate, since, off, fast = self._lines
        wall_ns = true_ns - offset - (true_ns - begin) * rate // SECOND
        if self._step > 1:
            wall_ns -= wall_ns % self._step
        return Now(wall_ns, true_ns - off - (true_ns - since) * fast // SECOND)

    def _turn(self, true_ns: int) -> None:
        low, high, begin, offset, rate = self._wall.line_at(true_ns)
        from_, until, since, off, fast = self._timer.line_at(true_ns)
        self._low, self._high = max(low, from_), min(high, until)
        self._lines = begin, offset, rate, since, off, fast


def draw_rates(settings: ClockSettings, horizon_ns: int, generator: np.random.Generator) -> Rates:
    """Skew plus a random walk: a normal step of ``wander_ppb`` at each wander period.

    A clock without wander has no row per period except after its steps: their offsets are floored
    to whole ns as those of a wandering clock are.

    Args:
        settings: the clock's.
        horizon_ns: how long after the origin the frequency wanders; then it is constant.
        generator: the clock's own.
    """
    period_ns = settings.wander_period_ns
    count = horizon_ns // period_ns + 1
    if not settings.wander_ppb:
        after = {-(-step.at_ns // period_ns) * period_ns for step in settings.steps}
        starts = np.array(sorted({0} | {at for at in after if at < count * period_ns}), np.int64)
        return Rates(starts, np.full(starts.size, settings.skew_ppb, np.int64))
    changes = np.rint(generator.standard_normal(count) * settings.wander_ppb).astype(np.int64)
    changes[0] = 0
    rates = np.clip(settings.skew_ppb + np.cumsum(changes), -RATE_MAX_PPB, RATE_MAX_PPB)
    return Rates(np.arange(count, dtype=np.int64) * period_ns, rates)


def _gains(starts_ns: np.ndarray, rates_ppb: np.ndarray) -> np.ndarray:
    """Per row but the last, its contribution to the offset until the next one [ns], int64."""
    seconds, rest = np.divmod(np.diff(starts_ns), SECOND)
    gains: np.ndarray = seconds * rates_ppb[:-1] + rest * rates_ppb[:-1] // SECOND
    return gains


def _with_steps(
    settings: ClockSettings, frequency: Rates
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The table of lines: starts, offsets and rates, also split at the steps."""
    at = np.array([step.at_ns for step in settings.steps], np.int64)
    by = np.array([step.by_ns for step in settings.steps], np.int64)
    borders, rate = frequency.starts_ns, frequency.rates_ppb
    if at.size:
        borders = np.union1d(borders, at[at >= borders[0]])
        rate = rate[np.searchsorted(frequency.starts_ns, borders, side="right") - 1]
    gained = np.concatenate([np.zeros(1, np.int64), np.cumsum(_gains(borders, rate))])
    offsets = settings.offset_ns + frequency.gained_ns + gained
    stepped = np.concatenate([np.zeros(1, np.int64), np.cumsum(by)])
    offsets += stepped[np.searchsorted(at, borders, side="right")]
    return borders, offsets, rate
