"""Durations and shares of a validation for people: few digits, in the unit they would take."""

from __future__ import annotations

from typing import Final

from slackwater.engine.core import units

_DIGITS: Final = 3


def duration(ns: int | None) -> str:
    """Three digits, rounded up, with its sign: what is stated is a bound.

    >>> duration(1_234_567), duration(-5), duration(None), duration(90 * 60 * 10**9)
    ('1.24 ms', '-5 ns', '\N{EN DASH}', '90 min')
    """
    if ns is None:
        return "\N{EN DASH}"
    size = abs(ns)
    step = int(10 ** max(len(str(size)) - _DIGITS, 0))
    rounded = -(-size // step) * step
    return units.duration(-rounded if ns < 0 else rounded).replace("\N{NO-BREAK SPACE}", " ")


def nearest(ns: int | None) -> str:
    """What is no bound: to the nearest of as many digits.

    >>> nearest(-250_104_000), nearest(None)
    ('-250 ms', '\N{EN DASH}')
    """
    rounded = None if ns is None else int(float(f"{ns:.{_DIGITS}g}"))
    return units.duration(rounded).replace("\N{NO-BREAK SPACE}", " ")


def percent(share: float) -> str:
    """A share.

    >>> percent(0.05), percent(0.00012), percent(0)
    ('5 %', '0.012 %', '0 %')
    """
    return f"{float(f'{100 * share:.{_DIGITS}g}'):g} %"
