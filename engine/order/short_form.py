"""Values in the short form of an ordering operator, ``key=value,key=value``, as exact integers.

Every function raises ``UserError`` that names the key, its value and the remedy.
"""

from __future__ import annotations

from typing import Final

from engine.errors import UserError
from engine.units import parse_duration

SLACK_MAX_NS: Final = 1 << 60
"""So that a time less a slack stays in int64."""
TIMES: Final = ("ref", "ts", "hold", "fit")
DUPLICATES: Final = ("drop", "pass")
_LATE: Final = ("pass", "drop")
SHARED: Final = ("late", "time", "duplicates")
"""The settings that all slack orders have."""
_SPAN_MAX_NS: Final = 1 << 58
_DIGITS_MAX: Final = 9


def only_known(pairs: dict[str, str], keys: tuple[str, ...]) -> None:
    """Refuse every other key."""
    for key in pairs:
        if key not in keys:
            raise UserError(f"unknown key {key!r}; known are {', '.join(keys)}")


def choice(pairs: dict[str, str], key: str, choices: tuple[str, ...]) -> str:
    """One of ``choices``, of which the first is the default."""
    value = pairs.get(key, choices[0])
    if value not in choices:
        raise UserError(f"{key}={value}: use {' or '.join(choices)}")
    return value


def decimal(text: str, name: str, unit: int, what: str) -> int:
    """``0.6`` as an integer number of 1/unit, exactly. ``what``: what it is, with an example."""
    whole, point, digits = text.partition(".")
    scale = len(str(unit)) - 1
    plain = (whole + digits).isascii() and (whole + digits).isdecimal()
    if not plain or (point and not digits) or len(digits) > scale or len(whole) > _DIGITS_MAX:
        raise UserError(f"{name}={text}: write {what}, at most {scale} decimals")
    return int(whole or "0") * unit + int(digits.ljust(scale, "0") or "0")


def share(text: str, name: str, unit: int) -> int:
    """A share of at least 0 and below 1, in 1/unit."""
    value = decimal(text, name, unit, "a share such as 0.6")
    if not 0 <= value < unit:
        raise UserError(f"{name}={text}: must be at least 0 and below 1")
    return value


def factor(text: str, name: str, most: int) -> int:
    """A factor of at least 0, in thousandths."""
    value = decimal(text, name, 1000, "a number such as 1.5")
    if value > most * 1000:
        raise UserError(f"{name}={text}: at most {most}")
    return value


def span(pairs: dict[str, str], key: str, time_unit: str) -> int:
    """A duration of at least 1 ns."""
    span_ns = parse_duration(pairs[key], time_unit)
    if not 0 < span_ns <= _SPAN_MAX_NS:
        raise UserError(f"{key}={pairs[key]}: at least 1 ns and at most 9 years")
    return span_ns


def span_if_given(pairs: dict[str, str], key: str, time_unit: str) -> int | None:
    """As ``span``; None if the short form does not say."""
    return span(pairs, key, time_unit) if key in pairs else None


def shared(pairs: dict[str, str]) -> dict[str, str]:
    """Those of ``SHARED``."""
    choices = (_LATE, TIMES, DUPLICATES)
    return {key: choice(pairs, key, of) for key, of in zip(SHARED, choices, strict=True)}
