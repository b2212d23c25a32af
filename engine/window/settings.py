"""Bounds of windows, and their short form ``horizon=D``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from engine.barrier.registry import BarrierSettings
from engine.errors import UserError
from engine.query.plan import Plan, asked_plan
from engine.units import DURATION_MAX_NS, parse_duration

_DEFAULT_HORIZON_NS: Final = 60 * 10**9


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """How long closed windows can be corrected, and how many cells may be held.

    ``correction_horizon_ns``: None means 60 s or one window size, whichever is longer.
    ``cells_max``: at most this many (window, key, part); a power of two. Rows beyond are counted.
    ``barrier``: which progress closes windows (``engine.window.progress``); None: the order's.
    """

    correction_horizon_ns: int | None = None
    cells_max: int = 1 << 22
    barrier: BarrierSettings | None = None


def horizon_ns(settings: WindowSettings, size_ns: int) -> int:
    """How long windows of ``size_ns`` are kept after their end."""
    horizon = settings.correction_horizon_ns
    return max(_DEFAULT_HORIZON_NS, size_ns) if horizon is None else horizon


def parse_window(text: str, time_unit: str = "ns") -> WindowSettings:
    """Settings of windows from their short form.

    >>> parse_window("horizon=10m")
    WindowSettings(correction_horizon_ns=600000000000, cells_max=4194304, barrier=None)

    Args:
        text: ``horizon=D``: how long after its end a window is corrected; 0 is never.
        time_unit: unit of durations written without one.

    Raises:
        UserError: anything else.
    """
    name, equals, span = (part.strip() for part in text.strip().partition("="))
    if name != "horizon" or not equals:
        raise UserError(f"window {text[:40]!r} is unknown; use horizon=DURATION, as in horizon=10m")
    found = parse_duration(span, time_unit)
    if found > DURATION_MAX_NS:
        raise UserError(f"window {text[:40]!r}: at most {DURATION_MAX_NS} ns")
    return WindowSettings(correction_horizon_ns=found)


def read_window(text: str | None, time_unit: str, plans: Iterable[Plan]) -> WindowSettings:
    """The settings of ``--window``; those by default if it is not given.

    Raises:
        UserError: no query has windows; as ``parse_window``.
    """
    if text is None:
        return WindowSettings()
    if not any(asked_plan(plan).windows for plan in plans):
        raise UserError("--window is for SELECT ... WINDOW; a pattern's is --purge late:D")
    return parse_window(text, time_unit)
