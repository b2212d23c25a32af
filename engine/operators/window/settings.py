"""Settings of windows with their short form ``horizon=D``, and the geometry of windows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.barrier.registry import BarrierSettings
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import Period, period_starts
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.query.monitor_plan import parse_horizon
from slackwater.engine.query.plan import Drift, Plan, WindowPlan, statement_plan

_DEFAULT_HORIZON_NS: Final = 60 * 10**9


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """How long closed windows can be corrected, and the largest number of cells.

    ``correction_horizon_ns``: None means 60 s or one window size, whichever is longer.
    ``cells_max``: largest number of (window, key, part); a power of two. Rows beyond are counted.
    ``barrier``: the progress that closes windows (``window.progress``); None: that of the ordering
    operator. ``unknown``: unknown clocks that are known to come together with others.
    ``declared``: the largest clock error that the user declares [ns].
    """

    correction_horizon_ns: int | None = None
    cells_max: int = 1 << 22
    barrier: BarrierSettings | None = None
    unknown: tuple[str, ...] = field(default=(), repr=False)
    declared: int = field(default=0, repr=False)


def horizon_ns(settings: WindowSettings, size_ns: int) -> int:
    """Return how long windows of ``size_ns`` are kept after their end [ns]."""
    horizon = settings.correction_horizon_ns
    return max(_DEFAULT_HORIZON_NS, size_ns) if horizon is None else horizon


def parse_window(text: str, time_unit: str = "ns") -> WindowSettings:
    """Parse the settings of windows from their short form.

    >>> parse_window("horizon=10m")
    WindowSettings(correction_horizon_ns=600000000000, cells_max=4194304, barrier=None)

    Args:
        text: ``horizon=D``: how long after its end a window is corrected; 0: never.
        time_unit: unit of durations written without one.

    Raises:
        UserError: the text has another form.
    """
    return WindowSettings(correction_horizon_ns=parse_horizon(text, time_unit, "window"))


def read_window(text: str | None, time_unit: str, plans: Iterable[Plan]) -> WindowSettings:
    """Return the settings of ``--window``; None: the defaults.

    Raises:
        UserError: no query has windows; or see ``parse_window``.
    """
    if text is None:
        return WindowSettings()
    if not any(statement_plan(plan).windows for plan in plans):
        raise UserError("--window is for SELECT ... WINDOW; a pattern's is --purge late:D")
    return parse_window(text, time_unit)


# R19's drift windows LOW, MIDDLE and HIGH: one window shifted by -T_a/2, 0 and +T_a/2.
#
# Source: R19 3.2.3.1, Fig 3.4, Eq 3.16. The uncertainty of an event's offset is half its delay, so
# events near an edge may belong to the neighbouring window. Times are integers, so the three
# windows are exactly: LOW ``[s - floor(T_a/2), e - floor(T_a/2))``, MIDDLE ``[s, e)``, HIGH
# ``[s + ceil(T_a/2), e + ceil(T_a/2))``.


LOW: Final = 1
MIDDLE: Final = 2
HIGH: Final = 4
"""Bits of a cell's part: the drift windows that contain the events of the cell."""
CERTAIN: Final = 8
"""The events are in [s, e) under every clock error within their uncertainty."""
AMBIGUOUS: Final = 16
"""The events may be in [s, e) or not, depending on their clock error."""
PART_BITS: Final = 5
WHOLE: Final = LOW | MIDDLE | HIGH | CERTAIN

WINDOWS: Final = (("low", LOW), ("middle", MIDDLE), ("high", HIGH))

SURE, LIKELY, UNLIKELY, DOUBTED = range(4)
"""Whether WHERE selects a row: SURE: under every clock error; LIKELY: at its measured time, but not
under every error; UNLIKELY: only under some error; DOUBTED: it is an uncertain result of another
statement."""


_EVEN: Final = np.empty(0, np.int64)


class Geometry(NamedTuple):
    """The size of windows, the shifts of LOW and HIGH, how long closed windows are kept, and the
    step from one window to the next [ns]. Window k is [k * step, k * step + size).

    ``starts``: the starts of calendar windows; window k is [starts[k], starts[k + 1]), ``size`` is
    the longest size and ``step`` the shortest one.
    """

    size: int
    low_shift: int
    high_shift: int
    horizon: int
    step: int
    starts: np.ndarray = _EVEN


def starts_of(plan: WindowPlan) -> np.ndarray:
    """Return ``starts`` of ``Geometry``."""
    return _EVEN if plan.period is None else _calendar(plan.period)


@cache
def _calendar(period: Period) -> np.ndarray:
    return np.array(period_starts(period), np.int64)


@kernel
def last_start(starts: np.ndarray, time: int) -> int:
    """Return the place of the last of ``starts`` up to ``time``; 0 if there is none."""
    return max(int(np.searchsorted(starts, time, side="right")) - 1, 0)


@inline
def workdays_later(starts: np.ndarray, ends: np.ndarray, time: int, number: int) -> int:
    """Return the time ``number`` workdays after ``time`` [ns].

    It has the same distance from the begin of its day, or is the end of the day if that is earlier.
    A time between two workdays counts as the begin of the next. The function is monotonic, so
    bounds of ``time`` give bounds of the result.
    """
    day = last_start(starts, time)
    since = time - starts[day]
    if time >= ends[day]:
        day, since = day + 1, 0
    day = min(day + number, len(starts) - 1)
    return int(min(starts[day] + since, ends[day]))


@inline
def first_with(geo: Geometry, time: int) -> int:
    """Return the first window that contains ``time``, or the next one if none does."""
    if len(geo.starts) > 0:
        return last_start(geo.starts, time)
    return (time - geo.size) // geo.step + 1


@inline
def last_with(geo: Geometry, time: int) -> int:
    """Return the last window that contains ``time``, or the previous one if none does."""
    if len(geo.starts) > 0:
        return last_start(geo.starts, time)
    return time // geo.step


@inline
def start_of(geo: Geometry, window: int) -> int:
    """Return the start of ``window`` [ns]; calendar windows are limited to the first and last."""
    if len(geo.starts) > 0:
        return int(geo.starts[min(max(window, 0), len(geo.starts) - 1)])
    return window * geo.step


@inline
def end_of(geo: Geometry, window: int) -> int:
    """Return the end of ``window`` [ns]."""
    if len(geo.starts) > 0:
        return start_of(geo, window + 1)
    return window * geo.step + geo.size


def extents(plan: WindowPlan, window: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return start and end of each ``window`` on the clock [ns]."""
    starts = starts_of(plan)
    if len(starts):
        return starts[window], starts[window + 1]
    return window * plan.step_ns, window * plan.step_ns + plan.size_ns


def windows_touched(
    geo: Geometry, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last window that [``low``, ``high``] [ns] may touch."""
    early, late = low - geo.high_shift, high + geo.low_shift
    if len(geo.starts):
        first, last = (np.searchsorted(geo.starts, each, "right") - 1 for each in (early, late))
        return np.maximum(first, 0), np.maximum(last, 0)
    return (early - geo.size) // geo.step + 1, late // geo.step


def considered_delay(plan: WindowPlan, t_a: int, delays: np.ndarray) -> tuple[int, int]:
    """Return (T_a, number of excluded sources) for the windows of ``plan``.

    In a window not longer than T_a every event is ambiguous (R19 3.2.3.1). If only some sources
    have such delays, they are excluded, and R19's windows are shifted by the largest delay of the
    others. Events of excluded sources still count; they are ambiguous by their own uncertainty.

    Args:
        plan: the plan of the query.
        t_a: the largest of ``delays`` [ns].
        delays: the delays of the site's synchronised sources [ns].

    Raises:
        UserError: ``DRIFT`` without a source whose delay is shorter than the window.
    """
    size_ns = plan.size_ns if plan.period is None else plan.step_ns
    if plan.drift is Drift.NONE or t_a < size_ns:
        return t_a, 0
    kind = "TUMBLING" if plan.every_ns is None else "SLIDING"
    shorter = delays[delays < size_ns]
    if not len(shorter):
        raise UserError(
            f"query {plan.name!r}: WINDOW {kind} {size_ns} ns is not longer than the site's "
            f"largest delay T_a = {t_a} ns, nor than that of any of its sources, so every event "
            "would be ambiguous; use a longer window, improve the time sync, or leave DRIFT out"
        )
    return int(shorter.max()), len(delays) - len(shorter)
