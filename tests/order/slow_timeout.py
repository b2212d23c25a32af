"""The slow twin of ``engine.order.sequence.timeouts``: the four choices of a timeout."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from slow_waits import EDGES, ENDS, Highs, WaitTimes, resolution

NEVER = 2**63
REMEMBERED = 160
"""Events released by timeout, by ``r19-code``."""
PER_MS = {"ms": 1, "us": 1000, "ns": 1000**2, "ps": 1000**3}


@dataclass
class Settings:
    """As ``SequenceSettings`` and ``Guards``; times in ns."""

    timeout: str = "fixed"
    unit: str = "ms"
    fixed: int = 10
    latency: int = 500_000_000
    alpha: int = 600
    beta: int = 600
    tail_ppm: int = 1000
    late: str = "drop"
    residual: str = "emit"
    guard: int | None = None
    default_uncertainty: int = 0


class FixedTimeout:
    """``fixed:T``."""

    def __init__(self, settings: Settings) -> None:
        self.gap = self.idle = settings.fixed

    def in_order(self, now: int, ts: int) -> None: ...

    def held(self, time: int) -> None: ...

    def timed_out(self, seq: int, arrival: int) -> None: ...

    def late(self, seq: int, now: int) -> None: ...

    def arrived(self, seq: int, now: int, before: int | None) -> None: ...

    def restarted(self) -> None: ...


class R19Timeout(FixedTimeout):
    """Eq 3.1-3.11, averages in 1/1000 ns."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.last: int | None = None
        self.inter: list[int] = []  # avg, dev, samples
        self.hold: list[int] = []
        self.gap = self.idle = 0

    @staticmethod
    def _smooth(state: list[int], sample_ns: int, factor: int) -> list[int]:
        sample = min(sample_ns, 8 * 10**12) * 1000
        if not state:
            return [sample, 0, 1]
        avg, dev, n = state
        error = abs(sample - avg)
        new = (factor * avg + (1000 - factor) * sample + 500) // 1000
        return [
            new,
            error if n == 1 else (factor * dev + (1000 - factor) * error + 500) // 1000,
            n + 1,
        ]

    def _update(self) -> None:
        both = [state[0] + 2 * state[1] if state else 0 for state in (self.inter, self.hold)]
        self.gap = self.idle = min(self.settings.latency, max(both) // 1000)

    def in_order(self, now: int, ts: int) -> None:
        if self.last is not None:
            self.inter = self._smooth(self.inter, now - self.last, self.settings.alpha)
            self._update()
        self.last = now

    def held(self, time: int) -> None:
        self.hold = self._smooth(self.hold, time, self.settings.beta)
        self._update()


class PublishedTimeout(FixedTimeout):
    """``r19-code``, from the facts on docs/papers/r19.md; averages in 1/1000 ns.

    The time between events is a number of ``unit`` that is taken for one of ms.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.base: int | None = None
        self.interval = self.delay = 0  # 0 is unset
        self.gap = self.idle = settings.latency
        self.restarted()

    def restarted(self) -> None:
        self.given_up: list[tuple[int, int]] = []  # number and arrival

    @staticmethod
    def _average(before: int, sample_ns: int, factor: int) -> int:
        sample = 1000 * min(sample_ns, 8 * 10**12)
        if before == 0:
            return sample
        return (factor * before + (1000 - factor) * sample + 500) // 1000

    def _update(self) -> None:
        known = [average // 1000 if average else NEVER for average in (self.interval, self.delay)]
        self.gap = self.idle = min(self.settings.latency, max(known))

    def in_order(self, now: int, ts: int) -> None:
        if self.base is not None and ts >= self.base:
            counted = (ts - self.base) * PER_MS[self.settings.unit]
            self.interval = self._average(self.interval, counted, self.settings.alpha)
            self._update()
        self.base = ts

    def held(self, time: int) -> None:
        self.delay = self._average(self.delay, time, self.settings.beta)
        self._update()

    def timed_out(self, seq: int, arrival: int) -> None:
        self.given_up.append((seq, arrival))

    def late(self, seq: int, now: int) -> None:
        for number, arrival in self.given_up[-REMEMBERED:]:
            if number < seq:
                self.held(now - arrival)


class Sketch:
    """Counts of times in the bins of waiting times; halves when full."""

    def __init__(self, latency: int, tail_ppm: int) -> None:
        self.resolution = resolution(latency)
        self.bins = [0] * len(EDGES)
        self.tail_ppm = tail_ppm
        self.window = min(max(4096, 4_000_000 // max(tail_ppm, 4)), 2**20)

    def add(self, time: int) -> None:
        place = bisect_right(EDGES, time // self.resolution) - 1
        self.bins[place] += 1
        if sum(self.bins) >= self.window:
            self.bins = [n // 2 for n in self.bins]

    def quantile(self, latency: int) -> int:
        total = sum(self.bins)
        if total * self.tail_ppm < 1_000_000:
            return latency
        above = 0
        for index in reversed(range(len(EDGES))):
            above += self.bins[index]
            if above > total * self.tail_ppm // 1_000_000:
                is_last = index == len(EDGES) - 1
                return latency if is_last else min(latency, ENDS[index] * self.resolution - 1)
        return 0


class QuantileTimeout(FixedTimeout):
    """The quantile of how long one would have had to wait for every event."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.waits, self.inters = (
            WaitTimes(settings.latency, settings.tail_ppm),
            Sketch(settings.latency, settings.tail_ppm),
        )
        self.born = NEVER
        self.restarted()
        self._update()

    def restarted(self) -> None:
        self.highs = Highs()

    def _update(self, now: int = 0) -> None:
        latency = self.settings.latency
        self.gap = latency
        needed = self.waits.needed()
        arrivals = sum(self.inters.bins) + 1
        if needed is not None and arrivals >= min(256, 10**6 // self.settings.tail_ppm):
            needed = min(latency, needed)
            if (now - self.born) // 8 >= min(latency // 8, needed):
                self.gap = needed
        self.idle = max(self.gap, self.inters.quantile(latency))

    def arrived(self, seq: int, now: int, before: int | None) -> None:
        self.born = min(self.born, now)
        if before is not None and now > before:
            self.inters.add(now - before)
        wait = self.highs.wait(seq, now)
        if self.waits.add(wait, is_new_instant=now != before):
            self._update(now)


TIMEOUTS = {
    "fixed": FixedTimeout, "r19": R19Timeout, "r19-code": PublishedTimeout,
    "quantile": QuantileTimeout,
}  # fmt: skip
