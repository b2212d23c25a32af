"""Time units: everything inside is int64 nanoseconds, users write ``10 s`` or ``500ms``."""

from __future__ import annotations

import re
from typing import Final

from edge_agent.units import NS_PER, exactly, no_such_unit, unit_length
from engine.errors import UserError

_DURATION: Final = re.compile(r"\s*([0-9]+)(?:\.([0-9]+))?\s*([A-Za-z]*)\s*")
INT64_MAX: Final = 2**63 - 1
DURATION_MAX_NS: Final = 2**60
"""36 years: any event time of a trace plus such a window stays within 64 bits."""
_DIGITS_MAX: Final = 40
_NEAT_DIGITS: Final = 3
_NEAT_UNITS: Final = ("ns", "us", "ms", "s", "h")


def unit_ns(name: str) -> int:
    """Nanoseconds of one ``name`` (``ns us ms s min h d w`` or their English words).

    Raises:
        UserError: unknown unit; the message lists the known ones.
    """
    length = unit_length(name)
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


def neat(duration_ns: int, apart: str = "") -> str:
    """A duration rounded up to three digits, as an order takes it; ``apart`` is before the unit.

    >>> neat(123_456_789), neat(1_500), neat(0), neat(2), neat(7_200_000_000_001)
    ('124ms', '1.5us', '0ns', '2ns', '2.01h')
    """
    step = 10 ** max(len(str(duration_ns)) - _NEAT_DIGITS, 0)
    rounded = -(-duration_ns // step) * step
    unit = next(name for name in reversed(_NEAT_UNITS) if NS_PER[name] <= max(rounded, 1))
    return _decimal(rounded, unit, apart)


def _decimal(duration_ns: int, unit: str, apart: str) -> str:
    """In ``unit``, rounded up to what a decimal number with two places tells."""
    hundredths = -(-duration_ns * 100 // NS_PER[unit])
    whole, rest = divmod(hundredths, 100)
    return f"{whole}.{rest:02d}".rstrip("0").rstrip(".") + apart + unit
