"""Time units and exact conversion: one table for settings, queries and inputs.

Internally every time is a whole number of nanoseconds; people write ``10 s`` or ``1.5 h``.
"""

from __future__ import annotations

from typing import Final

NS_PER: Final[dict[str, int]] = {
    "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9,
    "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9,
}  # fmt: skip
_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "ns": ("nanosecond", "nanoseconds"), "us": ("microsecond", "microseconds"),
    "ms": ("millisecond", "milliseconds"), "s": ("sec", "second", "seconds"),
    "min": ("m", "minute", "minutes", "mins"), "h": ("hour", "hours"), "d": ("day", "days"),
}  # fmt: skip
UNITS_READ: Final[dict[str, int]] = {
    **NS_PER,
    **{word: NS_PER[unit] for unit, words in _WORDS.items() for word in words},
    # Durations are never printed in weeks: no duration of 14 d becomes 2 weeks.
    **dict.fromkeys(("w", "week", "weeks"), 7 * NS_PER["d"]),
}
"""Nanoseconds of each unit that people may write, in lower case; any case is accepted."""
_NO_FIXED_LENGTH: Final[dict[str, str]] = {
    "month": "in days, as in 30 d", "quarter": "in days, as in 90 d",
    "year": "in days, as in 365 d",
    "workday": "in days with weekends, as in 10 d, the most that six workdays last",
}  # fmt: skip


def no_such_unit(name: str) -> tuple[str, str]:
    """Message about an unknown unit, and the remedy.

    >>> no_such_unit("parsec")
    ("unknown time unit 'parsec'", 'use one of ns, us, ms, s, min, h, d')
    >>> no_such_unit("Months")
    ("'Months' have no fixed length", 'write it in days, as in 30 d')
    """
    instead = _NO_FIXED_LENGTH.get(name.lower().removesuffix("s"))
    if instead is None:
        return f"unknown time unit {name!r}", f"use one of {', '.join(NS_PER)}"
    have = "have" if name.lower().endswith("s") else "has"
    return f"{name!r} {have} no fixed length", f"write it {instead}"


def exactly(whole: str, fraction: str, scale: int) -> int | None:
    """The decimal number ``whole.fraction`` times ``scale``; None: the result is not whole.

    >>> exactly("1", "5", 1000), exactly("0", "0005", 1000)
    (1500, None)
    """
    value, rest = divmod(int(whole + fraction) * scale, int("1" + "0" * len(fraction)))
    return None if rest else value
