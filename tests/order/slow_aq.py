"""``aq-kslack`` as its definition reads, slowly: windows are counted over all events, every time.

Only the choice of the windows that are followed is state, as it is in the definition.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.order.slow_slack import Released, _let_go

PPB = 10**9
_BIN_ENDS = [*range(8), *(((9 + part) << octave) - 1 for octave in range(56) for part in range(8))]


@dataclass
class Settings:
    """As ``AqKSlackSettings`` has them, with z for the confidence."""

    error_ppm: int = 50_000
    z_ppm: int = 1_644_854
    window: int = 10
    slide: int = 10
    agg: str = "count"
    tail_ppm: int = 5_000
    kp: int = 200
    kd: int = 0
    control: str = "relative"


@dataclass
class Window:
    start: int
    end: int
    produced_at: int | None = None
    """Clock when its result was produced, and the rows that had arrived by then."""
    produced_row: int = 0


@dataclass
class SlowAq:
    settings: Settings
    times: Sequence[int]
    arrivals: Sequence[int]
    values: Sequence[float] = ()
    reads: Sequence[bool] = ()
    """Which events are looked at; empty: every one."""
    alpha: int = PPB
    k: int = 0
    horizon: int = 0
    followed: list[Window] = field(default_factory=list)
    trace: list[int] = field(default_factory=list)
    """Alpha after every event."""
    coverages: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Of every measured window: its end, its events, those in time, the threshold."""
    steps: list[int] = field(default_factory=list)
    """Distance of the followed windows after every event."""

    def run(self) -> Released:
        times, settings = self.times, self.settings
        self.held: list[int] = []
        self.done: Released = []
        self.bins = [0] * len(_BIN_ENDS)
        self.since_look = self.error_before = 0
        self.moments = [0.0] * 4
        self.base = settings.slide * max(1, math.ceil(settings.window // settings.slide / 8))
        self.step = self.base
        self.since = 0
        self.clock = times[0] - 1
        for row, time in enumerate(times):
            self.row = row
            self.held.append(row)
            if time > self.clock:
                self._advance(time)
            elif time < self.clock and self._read(row):
                self._learn(self.clock - time)
            self.trace.append(self.alpha)
            self.steps.append(self.step)
        _let_go(times, self.held, list(self.held), self.arrivals[-1], self.done)
        return self.done

    def _read(self, row: int) -> bool:
        return not self.reads or self.reads[row]

    def _advance(self, time: int) -> None:
        row, first = self.row, not self.followed
        since = (each for each in range(self.since, row) if self._read(each))
        self.k = max([self.k, *(time - self.times[each] for each in since)])
        self.since = row + 1
        self.clock = time
        if first:
            self._follow_after()
        self._measure()
        self._extend()
        due = [each for each in self.held if self.times[each] <= time - self.k * self.alpha // PPB]
        _let_go(self.times, self.held, due, self.arrivals[row], self.done)
        largest = max((self.times[each] for each, _, _ in self.done), default=None)
        for window in self.followed:
            if window.produced_at is None and largest is not None and window.end <= largest:
                window.produced_at, window.produced_row = time, row

    def _follow_after(self) -> None:
        """The next window followed is the first that starts after the clock."""
        end = ((self.clock + self.settings.window) // self.step + 1) * self.step
        self.followed = [Window(end - self.settings.window, end)]

    def _extend(self) -> None:
        """Follow what may hold the clock; if that is too much, every second, and start again."""
        last = (self.clock + self.settings.window) // self.step * self.step
        if (last - self.followed[0].end) // self.step >= 128:
            self.step *= 2
            self._follow_after()
            return
        while self.followed[-1].end < last + self.step:
            end = self.followed[-1].end + self.step
            self.followed.append(Window(end - self.settings.window, end))

    def _measure(self) -> None:
        while True:
            window = self.followed[0]
            made = window.produced_at
            if made is None or made + self.horizon > self.clock:
                return
            self.followed.pop(0)
            self._adapt(window)
            age = self.clock - window.start
            if self.step > self.base and age < 16 * self.step:
                while self.step > self.base and age < 16 * self.step:
                    self.step //= 2
                self._follow_after()

    def _adapt(self, window: Window) -> None:
        """Eq 2.3 in integers; everything of the window that has arrived before this event."""
        rows = [
            row for row in range(self.row)
            if window.start <= self.times[row] < window.end
            and self._read(row)
            and (not self.values or math.isfinite(self.values[row]))
        ]  # fmt: skip
        if not rows or self.k == 0:
            return
        n, met = len(rows), sum(row <= window.produced_row for row in rows)
        threshold = self._threshold(rows, n, self._spread(n, n - met))
        self.coverages.append((window.end, n, met, threshold))
        if self.settings.control == "r19":
            error = threshold - met * PPB // n
            steps = self.settings.kp * error + self.settings.kd * (error - self.error_before)
            self.error_before = error
            self.alpha = min(max(self.alpha + steps // 1000, 0), PPB)
            return
        age = (self.clock - window.end) // self.step
        scale = max(PPB - threshold, PPB // (n * (1 + age)), 1)
        error = min((threshold - met * PPB // n) * 10**6 // scale, 10**13)
        settings = self.settings
        change = (settings.kp * error + settings.kd * (error - self.error_before)) // (1 + age)
        self.error_before = error
        x = min(max(change, -PPB), PPB)
        power = PPB + x + x * x // (2 * PPB) + x * x // PPB * x // (6 * PPB)
        if x > 0:
            least = int(float(min(self.horizon, self.k)) / float(self.k) * (PPB / 16))
            self.alpha = max(self.alpha, least)
        self.alpha = min(self.alpha * power // PPB, PPB)

    def _spread(self, n: int, missing: int) -> float:
        mean = self.moments
        mean[0] += (n - mean[0]) / 64
        mean[1] += (missing - mean[1]) / 64
        share = mean[1] / mean[0]
        error = missing - share * n
        mean[2] += (share * (1 - share) * n - mean[2]) / 64
        mean[3] += (error * error - mean[3]) / 64
        return max(mean[3] / mean[2], 1.0) if mean[2] > 0 else 1.0

    def _threshold(self, rows: list[int], n: int, spread: float) -> int:
        settings = self.settings
        e, z = settings.error_ppm / 1e6, settings.z_ppm / 1e6
        variation = 0.0
        if settings.agg != "count":
            total = squares = 0.0
            for row in rows:
                total += self.values[row]
                squares += self.values[row] * self.values[row]
            if total == 0:
                return PPB
            variation = n * squares / (total * total) - 1
            if not variation < 1e18:
                return PPB
            variation = max(variation, 0.0)
        if settings.agg == "avg":
            noise = z * z * variation
            share = max(noise / (e * e * n + noise), 30 / n) if n > 30 else 1.0
            return math.ceil(share * 1e9)
        a = z * math.sqrt(spread * (1 + variation) / n)
        loss = 2 * e * e / (2 * e + a * a + a * math.sqrt(a * a + 4 * e * (1 - e)))
        return PPB - int(loss * 1e9)

    def _learn(self, delay: int) -> None:
        """L: the delay that at most the tail of those in the sketch exceed."""
        self.bins[bisect.bisect_left(_BIN_ENDS, delay)] += 1
        if sum(self.bins) >= 4096:
            self.bins = [count // 2 for count in self.bins]
        total = sum(self.bins)
        self.since_look += 1
        if total <= 64 or self.since_look >= 64:
            self.since_look = 0
            allowed = total * self.settings.tail_ppm // 10**6
            above = [sum(self.bins[index:]) for index in range(len(self.bins))]
            last = max(index for index, count in enumerate(above) if count > allowed)
            self.horizon = _BIN_ENDS[last]
