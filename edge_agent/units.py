"""Time units and exact numbers of them: one table for settings, queries and inputs.

Inside the program every time is a whole number of nanoseconds; people write ``10 s`` or ``1.5 h``.
"""

from __future__ import annotations

from typing import Final

NS_PER: Final[dict[str, int]] = {
    "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9,
    "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9,
}  # fmt: skip
_ALIASES: Final[dict[str, str]] = {
    "nanosecond": "ns", "nanoseconds": "ns", "microsecond": "us", "microseconds": "us",
    "millisecond": "ms", "milliseconds": "ms", "sec": "s", "second": "s", "seconds": "s",
    "m": "min", "minute": "min", "minutes": "min", "mins": "min", "hour": "h", "hours": "h",
    "day": "d", "days": "d",
}  # fmt: skip
_WEEK: Final = {"w", "week", "weeks"}
"""Read, but never written: no duration of 14 d becomes 2 weeks."""
_NO_FIXED_LENGTH: Final[dict[str, str]] = {
    "month": "in days, as in 30 d", "quarter": "in days, as in 90 d",
    "year": "in days, as in 365 d",
    "workday": "in days with weekends, as in 10 d, the most that six workdays last",
}  # fmt: skip


def unit_length(name: str) -> int | None:
    """Nanoseconds of the unit that ``name`` stands for: a short one or an English word, in any
    case; None: there is no such unit.

    >>> unit_length("Minutes"), unit_length("ms"), unit_length("weeks"), unit_length("parsec")
    (60000000000, 1000000, 604800000000000, None)
    """
    key = name.lower()
    if key in _WEEK:
        return 7 * NS_PER["d"]
    return NS_PER.get(_ALIASES.get(key, key))


def no_such_unit(name: str) -> tuple[str, str]:
    """What is wrong with a unit that there is not, and the remedy.

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
    """The decimal number ``whole.fraction`` times ``scale``; None: that is no whole number.

    >>> exactly("1", "5", 1000), exactly("0", "0005", 1000)
    (1500, None)
    """
    value, rest = divmod(int(whole + fraction) * scale, int("1" + "0" * len(fraction)))
    return None if rest else value
