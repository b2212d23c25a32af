"""Estimates an unsynchronised clock from arrivals: the minimum filter (R19 3.2.2; Moon 1999).

An event arrives after it happened, so ``arrival - ts = offset + delay`` with a delay of at least 0:
the least difference is the largest possible offset of the clock. Arrivals do not show how much
smaller the offset is: a clock that is slow by 2 s and a link that takes 2 s longer look the same.
That needs the delay of the fastest message, which other sources may show (``fastest_delay``).

Source: S. Moon, P. Skelly, D. Towsley, *Estimation and removal of clock skew from network delay
measurements*, INFOCOM 1999: the line below all points that is closest to them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

import numpy as np
from msgspec import Struct

from slackwater.engine.kernels.records import NS_PER_S

_BINS: Final = 240
"""Number of least differences over time, for a figure and for the fitted line."""
_RUN: Final = 5
"""Number of events on either side that must agree that the clock was set."""
_STEP_NS: Final = NS_PER_S // 2
_SPREADS: Final = 10
_LINE_EVENTS: Final = 20
_LINE_NS: Final = 60 * NS_PER_S
SLOW_NS: Final = NS_PER_S
"""Least delay of all events of a clock, beyond its bound, that is reported."""
_UNITS: Final = (("s", NS_PER_S), ("ms", 10**6), ("us", 1000))


class ArrivalEstimate(Struct, frozen=True):
    """A clock as estimated from its events' arrivals; times in ns.

    ``most_ns``: its largest possible offset (reference minus clock) at its last event, and
    ``most_first_ns`` at the first event after the last step. ``skew_ppb``: d(offset)/dt; None: too
    few events. ``jitter_ns``: median distance of the events from the least differences.
    ``rounded_ns``: rounding error of stamps and arrivals together. ``steps``: (event time after the
    step, change of the offset). ``at_ns``, ``least_ns``: event times and least differences, for a
    figure.
    """

    events: int
    most_ns: int
    most_first_ns: int
    skew_ppb: int | None
    jitter_ns: int
    rounded_ns: int
    steps: tuple[tuple[int, int], ...]
    at_ns: tuple[int, ...]
    least_ns: tuple[int, ...]

    def between(self, fastest: int) -> tuple[int, int]:
        """Return the least and largest possible offset [ns] since the last step, if the clock's
        fastest message took up to twice ``fastest``.
        """
        ends = (self.most_ns, self.most_first_ns)
        return min(ends) - 2 * fastest - self.rounded_ns, max(ends) + self.rounded_ns


def estimate(ts: np.ndarray, arrival: np.ndarray) -> ArrivalEstimate:
    """Return the estimate for one clock's events in order of arrival, at least one."""
    difference = arrival - ts
    steps = _steps(difference)
    since = steps[-1] if steps else 0
    at, least = _least(ts, difference)
    own_at, own_least = (at, least) if not since else _least(ts[since:], difference[since:])
    skew, first, last = _line(ts[since:], own_at, own_least)
    above = difference[since:] - np.interp(ts[since:], own_at, own_least)
    changes = tuple((int(ts[row]), _change(difference, row)) for row in steps)
    return ArrivalEstimate(
        len(ts), last, first, skew, max(int(np.median(above)), 0),
        sum(resolution(times) - 1 for times in (ts, arrival)), changes, tuple(at.tolist()),
        tuple(least.tolist()),
    )  # fmt: skip


def resolution(times: np.ndarray) -> int:
    """Return the largest of 1 s, 1 ms, 1 us and 1 ns that divides all times [ns].

    >>> resolution(np.array([1_500_000_000, 7_000_000_000]))
    1000000
    """
    step = int(np.gcd.reduce(times))
    return next((unit for _, unit in _UNITS if step % unit == 0), 1)


def fastest_delay(estimates: Iterable[ArrivalEstimate]) -> int:
    """Return the delay of the fastest message [ns], as far as the sources show it together.

    The least difference of a correct clock is that delay; a fast clock has a smaller one, possibly
    negative, a slow clock a larger one. With several clocks the result is the smallest difference
    that is not negative, but at least the jitter, as a path with varying delay takes time.
    """
    found = list(estimates)
    jitter = min((each.jitter_ns for each in found), default=0)
    least = [each.most_ns for each in found if each.most_ns >= 0]
    return max(min(least), jitter) if len(found) > 1 and least else jitter


def _least(ts: np.ndarray, difference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return event time and value of the least difference in each part; times ascend."""
    parts = min(_BINS, -(-len(ts) // _RUN))
    starts = np.unique(np.linspace(0, len(ts), parts, endpoint=False).astype(int))
    least = np.minimum.reduceat(difference, starts)
    part = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(ts))))
    rows = np.flatnonzero(difference == least[part])
    rows = rows[np.unique(part[rows], return_index=True)[1]]
    order = np.argsort(ts[rows], kind="stable")
    return ts[rows][order], difference[rows][order]


def _steps(difference: np.ndarray) -> list[int]:
    """Return rows at which the least differences change by more than their variation."""
    if len(difference) < 2 * _RUN:
        return []
    runs = np.lib.stride_tricks.sliding_window_view(difference, _RUN)
    before, after = runs[:-_RUN].min(axis=1), runs[_RUN:].min(axis=1)
    spread = int(np.median(np.ptp(runs, axis=1)))
    change = np.abs(after - before)
    is_step = change > max(_STEP_NS, _SPREADS * spread)
    found: list[int] = []
    rows = np.flatnonzero(is_step)
    for group in np.split(rows, np.flatnonzero(np.diff(rows) > _RUN) + 1) if len(rows) else ():
        # The largest change of single differences: runs around a step see it, too.
        around = np.arange(group[0] + 1, group[-1] + _RUN + 1)
        found.append(int(around[np.argmax(np.abs(np.diff(difference)[around - 1]))]))
    return found


def _change(difference: np.ndarray, row: int) -> int:
    return int(difference[row : row + _RUN].min() - difference[max(row - _RUN, 0) : row].min())


def _line(ts: np.ndarray, at: np.ndarray, least: np.ndarray) -> tuple[int | None, int, int]:
    """Return slope [ppb] and both ends of the line below all points, closest to their middle."""
    lowest = int(least.min())
    span = int(at[-1] - at[0])
    if len(ts) < _LINE_EVENTS or span < _LINE_NS:
        return None, lowest, lowest
    hull: list[int] = []
    for place in range(len(at)):
        while len(hull) > 1 and _turns_down(at, least, hull[-2], hull[-1], place):
            hull.pop()
        hull.append(place)
    middle = (int(at[0]) + int(at[-1])) // 2
    left = max((place for place in range(len(hull) - 1) if at[hull[place]] <= middle), default=0)
    a, b = hull[left], hull[left + 1]
    rise, run = int(least[b]) - int(least[a]), max(int(at[b]) - int(at[a]), 1)

    def height(when: int) -> int:
        return int(least[a]) + rise * (when - int(at[a])) // run

    return rise * NS_PER_S // run, height(int(ts.min())), height(int(ts.max()))


def _turns_down(at: np.ndarray, least: np.ndarray, a: int, b: int, c: int) -> bool:
    """Whether ``b`` is on or above the line from ``a`` to ``c``; in Python's integers."""
    return (int(least[b]) - int(least[a])) * (int(at[c]) - int(at[a])) >= (
        int(least[c]) - int(least[a])
    ) * (int(at[b]) - int(at[a]))


def slow_text(names: Sequence[str], most_ns: int) -> str:
    """Return a message about clocks whose events all arrive at least ``most_ns`` after they can
    have happened.

    >>> slow_text(["mon"], 20_100_000_000)[:54]
    'all events of mon came 20.1 s or more after they can h'
    """
    listing = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"all events of {listing} came {most_ns / NS_PER_S:.3g} s or more after they can have "
        "happened: a slow clock, or a slow link"
    )


def declaration(name: str, low_ns: int, high_ns: int) -> str:
    """``NAME=OFFSET±BOUND`` of an offset from ``low_ns`` to ``high_ns``, as ``--clock`` takes it.

    >>> declaration("d2", -2_520_000_000, -2_480_000_000), declaration("a", 0, 0)
    ('d2=-2.5s±20.2ms', 'a=0s±2ns')
    """
    middle, half = (low_ns + high_ns) // 2, (high_ns - low_ns + 1) // 2
    step = 10 ** max(len(str(half)) - 3, 0)
    rounded = (middle + step // 2) // step * step
    return f"{name}={_written(rounded)}\N{PLUS-MINUS SIGN}{_written((half // step + 2) * step)}"


def clock_option(said: str, how: str = "--clock {}") -> str:
    """How to say ``said`` of a clock: ``how`` around it, quoted for a shell where it ends ``how``.

    >>> clock_option("left phone=0s±2ns"), clock_option("a b=exact", 'clock = ["{}"]')
    ("--clock 'left phone=0s±2ns'", 'clock = ["a b=exact"]')
    """
    name = said.partition("=")[0]
    is_plain = shlex.quote(name) == name or not how.endswith(" {}")
    return how.format(said if is_plain else shlex.quote(said))


def _written(ns: int) -> str:
    """Format exactly, in the largest unit that is not above the value."""
    size = abs(ns)
    unit, length = next((each for each in _UNITS if size >= each[1]), ("ns", 1))
    return f"{(Decimal(ns) / length).normalize():f}{unit}" if ns else "0s"
