"""Time units and numbers in text: internally all is int64 ns, users write ``10 s``."""

from __future__ import annotations

import math
import re
from array import array
from datetime import date as date_type
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from slackwater.edge_agent.errors import did_you_mean
from slackwater.edge_agent.units import NS_PER, UNITS_READ, exactly, no_such_unit
from slackwater.engine.core.errors import UserError

_DURATION: Final = re.compile(r"\s*([0-9]+)(?:\.([0-9]+))?\s*([A-Za-z]*)\s*")
INT64_MAX: Final = 2**63 - 1
DURATION_MAX_NS: Final = 2**60
"""36 years: event times plus such a window fit into 64 bits."""
_DIGITS_MAX: Final = 40
_NEAT_DIGITS: Final = 3
_NEAT_UNITS: Final = ("ns", "us", "ms", "s", "h")
DATES_NS: Final = (631_152_000 * 10**9, 4_102_444_800 * 10**9)
"""1990 to 2100: instants in this range are shown as dates, others as numbers."""


def unit_ns(name: str) -> int:
    """Nanoseconds of one ``name`` (``ns us ms s min h d w`` or their English words), in any case.

    >>> unit_ns("Minutes"), unit_ns("ms"), unit_ns("weeks")
    (60000000000, 1000000, 604800000000000)

    Raises:
        UserError: unknown unit; the message lists the known ones.
    """
    length = UNITS_READ.get(name.lower())
    if length is None:
        raise UserError("; ".join(no_such_unit(name)))
    return length


def parse_duration(text: str, default_unit: str = "ns") -> int:
    """``"500ms"``, ``"10 s"``, ``"1.5 h"`` or a bare number (in ``default_unit``) as ns.

    >>> parse_duration("500ms"), parse_duration("1.5 s"), parse_duration("10", "ms")
    (500000000, 1500000000, 10000000)

    Raises:
        UserError: not a duration, finer than 1 ns, or beyond int64 (292 years).
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise UserError(f"{text!r} is not a duration; write a number and a unit, as in 500ms")
    whole, fraction, unit = found.groups()
    scale = unit_ns(unit or default_unit)
    digits = fraction or ""
    if len(whole) + len(digits) > _DIGITS_MAX:
        raise UserError(f"{text[:_DIGITS_MAX]!r}...: this duration has too many digits")
    value = exactly(whole, digits, scale)
    if value is None:
        raise UserError(f"{text!r} is finer than one nanosecond")
    if value > INT64_MAX:
        raise UserError(f"{text!r} is longer than 292 years")
    return value


def parse_span(text: str, default_unit: str, what: str) -> int:
    """Parse a duration as ``parse_duration`` does, with a limit; ``what`` names it in an error.

    Raises:
        UserError: as ``parse_duration``, or the duration is longer than ``DURATION_MAX_NS``.
    """
    found = parse_duration(text, default_unit)
    if found > DURATION_MAX_NS:
        raise UserError(f"{what}: at most {DURATION_MAX_NS} ns")
    return found


def exact_units(ns: int, unit: int) -> str:
    """Return ``ns`` in units of ``unit`` ns, as a decimal number with which it can be parsed
    exactly.

    >>> exact_units(1_500_000_000, 10**9), exact_units(-7, 1), exact_units(90, 60)
    ('1.5', '-7', '1.5')
    """
    whole, rest = divmod(abs(ns), unit)
    places = len(str(unit - 1))
    digits = f"{(rest * 10**places + unit // 2) // unit:0{places}d}".rstrip("0") if rest else ""
    return f"{'-' if ns < 0 else ''}{whole}{'.' if digits else ''}{digits}"


def neat(duration_ns: int, apart: str = "") -> str:
    """Return a duration rounded up to three digits, as settings take it; ``apart``: before the
    unit.

    >>> neat(123_456_789), neat(1_500), neat(0), neat(2), neat(7_200_000_000_001)
    ('124ms', '1.5us', '0ns', '2ns', '2.01h')
    """
    step = 10 ** max(len(str(duration_ns)) - _NEAT_DIGITS, 0)
    rounded = -(-duration_ns // step) * step
    unit = next(name for name in reversed(_NEAT_UNITS) if NS_PER[name] <= max(rounded, 1))
    return _decimal(rounded, unit, apart)


def _decimal(duration_ns: int, unit: str, apart: str) -> str:
    """Format in ``unit``, rounded up to two decimals."""
    hundredths = -(-duration_ns * 100 // NS_PER[unit])
    whole, rest = divmod(hundredths, 100)
    return f"{whole}.{rest:02d}".rstrip("0").rstrip(".") + apart + unit


# Calendar periods in a zone: days of 23, 24 or 25 hours, weeks from Monday, months.


class Period(NamedTuple):
    """``number`` times ``unit`` (``day``, ``workday``, ``week`` or ``month``) in ``zone``, such as
    Europe/Berlin.
    """

    number: int
    unit: str
    zone: str

    def __str__(self) -> str:
        years = self.unit == "month" and not self.number % 12
        count, unit = (self.number // 12, "year") if years else (self.number, self.unit)
        return f"{count} {unit}{'s' if count > 1 else ''}"


_PERIOD_YEARS: Final = (1780, 2160)
"""Beyond all event times, which are within 146 years of 1970, plus durations."""
PERIODS_MAX: Final = {"day": 13_149, "workday": 9_392, "week": 1_878, "month": 432}
"""36 years, in each unit."""
_EPOCH_DAY: Final = date_type(1970, 1, 1).toordinal()
_SATURDAY: Final = 5
_MONDAY: Final = -3
"""Day number, since the epoch, of the last Monday before it."""


@cache
def period_starts(period: Period) -> array[int]:
    """Return the starts of periods [ns], ascending, far beyond all event times.

    A period starts where the zone's clocks first show its midnight, or the first time after it.
    Days count from 1970-01-01, weeks from the Monday before it, months from a year that is a
    multiple of the period. Days that a zone skipped are omitted.
    """
    zone, count = ZoneInfo(period.zone), period.number
    first, last = (date_type(year, 1, 1).toordinal() - _EPOCH_DAY for year in _PERIOD_YEARS)
    if period.unit == "month":
        low, high = (12 * year for year in _PERIOD_YEARS)
        months = range(-(-low // count) * count, high, count)
        days = [date_type(m // 12, m % 12 + 1, 1).toordinal() - _EPOCH_DAY for m in months]
    else:
        begin, step = (_MONDAY, 7 * count) if period.unit == "week" else (0, count)
        days = list(range(first + (begin - first) % step, last, step))
    at = [int(_midnight(day, zone).timestamp()) for day in days]
    for place, ((day, start), (other, end)) in enumerate(pairwise(zip(days, at, strict=True))):
        if other - day > 1 or end - start != 86_400:  # the zone's offset may change
            at[place] = _day_start(day, zone)
    return array("q", (start * 10**9 for start in sorted(set(at))))


@cache
def workdays(zone: str) -> tuple[array[int], array[int]]:
    """Return starts and ends of Mondays to Fridays [ns], ascending, far beyond all event times."""
    info, borders = ZoneInfo(zone), period_starts(Period(1, "day", zone))
    days = [
        (start, end)
        for start, end in pairwise(borders)
        if datetime.fromtimestamp(start // 10**9, info).weekday() < _SATURDAY
    ]
    starts, ends = zip(*days, strict=True)
    return array("q", starts), array("q", ends)


@cache
def longest_workdays(period: Period) -> int:
    """Return the longest time that this many workdays take, from any instant [ns]."""
    (starts, ends), number = workdays(period.zone), period.number
    return max(
        max(starts[day + number] - starts[day], starts[day + 1 + number] - ends[day])
        for day in range(len(starts) - 1 - number)
    )


def _midnight(day: int, zone: ZoneInfo) -> datetime:
    """Return the midnight of a ``day`` since the epoch; the first one if it occurs twice."""
    return datetime.fromordinal(_EPOCH_DAY + day).replace(tzinfo=zone)


def _day_start(day: int, zone: ZoneInfo) -> int:
    """Return the start of a ``day`` since the epoch [s since the epoch]."""
    local = _midnight(day, zone)
    high, low = int(local.timestamp()), int(local.replace(fold=1).timestamp())
    # If the clocks skip this midnight, they do so between the two.
    while low < high:
        middle = (low + high) // 2
        begun = datetime.fromtimestamp(middle, zone).toordinal() >= _EPOCH_DAY + day
        low, high = (low, middle) if begun else (middle + 1, high)
    return high


@cache
def period_lengths(period: Period) -> tuple[int, int]:
    """Return the shortest and the longest period [ns]."""
    starts = period_starts(period)
    lengths = [end - start for start, end in pairwise(starts)]
    return min(lengths), max(lengths)


def check_zone(zone: str, setting: str) -> None:
    """Refuse a zone that this machine's time zone database lacks.

    Raises:
        UserError: the message names ``setting``.
    """
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = did_you_mean(zone, available_timezones())
        raise UserError(
            f"{setting} {zone!r} is not known"
            f"{hint if 'did you mean' in hint else '; write it as Europe/Berlin or UTC'}"
        ) from error


# Numbers for people: few digits, and readable units instead of ns.


_DURATIONS: Final = (
    ("d", 86_400 * 10**9, 3), ("h", 3_600 * 10**9, 3), ("min", 60 * 10**9, 3), ("s", 10**9, 1),
    ("ms", 10**6, 1), ("\N{MICRO SIGN}s", 10**3, 1),
)  # fmt: skip
"""Unit, its length [ns], and the least number of it for which it is used."""


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


def duration(time_ns: float | None) -> str:
    r"""A duration in the unit that a person would take; between them a no-break space.

    >>> duration(12_345_678), duration(-2_041_172_000), duration(5_400 * 10**9), duration(0)
    ('12.35\xa0ms', '-2.041\xa0s', '90\xa0min', '0\xa0ms')
    """
    if time_ns is None:
        return "\N{EN DASH}"
    if not time_ns:
        return "0\N{NO-BREAK SPACE}ms"
    name, length = duration_unit(time_ns)
    return f"{'-' if time_ns < 0 else ''}{number(abs(time_ns) / length)}\N{NO-BREAK SPACE}{name}"


def duration_unit(time_ns: float) -> tuple[str, int]:
    """Return the most readable unit for a duration, and its length [ns]."""
    size = abs(time_ns)
    return next((each[:2] for each in _DURATIONS if size >= each[1] * each[2]), ("ns", 1))


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


def is_date(ns: int) -> bool:
    """Whether an instant is shown as a date; small numbers have another origin."""
    return DATES_NS[0] <= ns < DATES_NS[1]


def date_digits(ns: int) -> int:
    """Return the number of digits of a second that an instant needs: 0, 3, 6 or 9."""
    return next(digits for digits in (0, 3, 6, 9) if not ns % 10 ** (9 - digits))


def date(ns: int, zone: str, digits: int) -> str:
    """ISO 8601.

    >>> date(1_772_352_001_500_000_000, "UTC", 3)
    '2026-03-01T08:00:01.500Z'
    """
    seconds, rest = divmod(ns, 10**9)
    whole = datetime.fromtimestamp(seconds, ZoneInfo(zone)).isoformat()
    fraction = f".{rest:09d}"[: digits + 1] if digits else ""
    return f"{whole[:19]}{fraction}{whole[19:]}".replace("+00:00", "Z")
