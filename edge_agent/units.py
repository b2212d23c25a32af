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


def time_unit(name: str) -> str | None:
    """The key of ``NS_PER`` that ``name`` stands for: itself or an English word, in any case.

    >>> time_unit("Minutes"), time_unit("ms"), time_unit("parsec")
    ('min', 'ms', None)
    """
    key = name.lower()
    key = _ALIASES.get(key, key)
    return key if key in NS_PER else None


def exactly(whole: str, fraction: str, scale: int) -> int | None:
    """The decimal number ``whole.fraction`` times ``scale``; None: that is no whole number.

    >>> exactly("1", "5", 1000), exactly("0", "0005", 1000)
    (1500, None)
    """
    value, rest = divmod(int(whole + fraction) * scale, int("1" + "0" * len(fraction)))
    return None if rest else value
