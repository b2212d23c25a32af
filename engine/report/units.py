"""Numbers for people: milliseconds and seconds instead of nanoseconds, and few digits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

Cell = str | int | float | None
"""What stands in a table: texts as they are, the rest as ``number`` says."""
NS_PER_MS: Final = 1_000_000
_DURATIONS: Final = (
    ("d", 86_400 * 10**9, 3), ("h", 3_600 * 10**9, 3), ("min", 60 * 10**9, 3), ("s", 10**9, 1),
    ("ms", 10**6, 1), ("\N{MICRO SIGN}s", 10**3, 1),
)  # fmt: skip
"""Unit, its ns, and from how many of it on it is taken."""
_STEPS_S: Final = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400,
)  # fmt: skip
"""Above are days in round numbers, below seconds in round parts."""
_TIME_LINES: Final = (
    ("s", 10**9, 1_800), ("min", 60 * 10**9, 1_800), ("h", 3_600 * 10**9, 1_800),
    ("d", 86_400 * 10**9, 1_800), ("years", 31_557_600 * 10**9, 0),
)  # fmt: skip
"""Unit of a time line, its ns, and up to how many of it a time line uses it; 0 = any."""


def number(value: Any) -> str:
    """Some four significant digits, never in powers of ten; integers whole.

    >>> number(1234567), number(1234.5678), number(0.001234), number(None), number(1.0)
    ('1,234,567', '1,235', '0.001234', '\N{EN DASH}', '1')
    """
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, int) or value == 0:
        return f"{value:,.0f}"
    if not math.isfinite(value):
        return str(value)
    decimals = min(max(3 - math.floor(math.log10(abs(value))), 0), 9)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount(count: int | None) -> str:
    """A count with thousands apart."""
    return number(count)


def duration(time_ns: float | None) -> str:
    r"""A duration in the unit that a person would take; between them a no-break space.

    >>> duration(12_345_678), duration(-2_041_172_000), duration(5_400 * 10**9), duration(0)
    ('12.35\xa0ms', '-2.041\xa0s', '90\xa0min', '0\xa0ms')
    """
    if time_ns is None:
        return "\N{EN DASH}"
    if not time_ns:
        return "0\N{NO-BREAK SPACE}ms"
    size = abs(time_ns)
    name, length = next((each for each in _DURATIONS if size >= each[1] * each[2]), ("ns", 1))[:2]
    return f"{'-' if time_ns < 0 else ''}{number(size / length)}\N{NO-BREAK SPACE}{name}"


def round_step(at_least_ns: float) -> float:
    """The least duration, of those that people count by, that is at least so long [ns].

    >>> [round_step(each * 10**9) / 10**9 for each in (0.3, 7, 45, 4_000, 500_000)]
    [0.5, 10.0, 60.0, 7200.0, 864000.0]
    """
    found = next((each for each in _STEPS_S if each * 10**9 >= at_least_ns), 0)
    if found and at_least_ns > 10**9:
        return float(found * 10**9)
    base = 86_400 * 10**9 if at_least_ns > 10**9 else 1
    power = 10.0 ** math.floor(math.log10(at_least_ns / base))
    return base * next(power * part for part in (1, 2, 5, 10) if base * power * part >= at_least_ns)


def percent(part: int, whole: int) -> str:
    """A share that is 0 % or 100 % only if it is exactly that.

    >>> percent(0, 9), percent(9, 9), percent(1, 3), percent(1, 10**6), percent(10**6 - 1, 10**6)
    ('0 %', '100 %', '33.3 %', '< 0.01 %', '> 99.99 %')
    """
    if not whole:
        return "\N{EN DASH}"
    if part in (0, whole):
        return "100 %" if part else "0 %"
    share = 100 * part / whole
    if abs(share) < 0.01:
        return "< 0.01 %"
    if 99.99 < share < 100:
        return "> 99.99 %"
    decimals = 1 if 1 <= share < 99 else 2
    return f"{share:.{decimals}f} %"


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Times since the run's first ``since`` (arrival, or event where none has one), in ``unit``."""

    origin_ns: int
    unit: str
    unit_ns: int
    last_ns: int
    since: str = "arrival"

    @classmethod
    def of(cls, first_ns: int | None, last_ns: int | None, since: str = "arrival") -> TimeLine:
        """The time line of a run between these arrivals; of an empty run when they are None."""
        origin = first_ns or 0
        span = (last_ns or 0) - origin
        fitting = (each for each in _TIME_LINES if span <= each[2] * each[1] or not each[2])
        unit, unit_ns, _ = next(fitting)
        return cls(origin, unit, unit_ns, origin + span, since)

    @property
    def title(self) -> str:
        """Of an axis."""
        return f"time since the first {self.since} [{self.unit}]"

    @property
    def whole(self) -> list[float]:
        """Range of an axis that shows the whole run, with a margin."""
        last = self.place(self.last_ns)
        return [-0.02 * last, 1.02 * last]

    def told(self, at_ns: int) -> str:
        """Where an instant lies, for people."""
        return f"{number(round(self.place(at_ns), 6))}\N{NO-BREAK SPACE}{self.unit}"

    def place(self, at_ns: int) -> float:
        """Where an instant lies."""
        return (at_ns - self.origin_ns) / self.unit_ns
