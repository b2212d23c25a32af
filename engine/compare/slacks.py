"""Which slacks K are worth trying on a recording, when nobody names them.

An event is late under K-slack when its lateness exceeds K. So the quantiles of the lateness of
the events out of order are the K that buy so much completeness, and no K beyond the largest buys
any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import numpy as np

from engine.compare.measure import Arrivals
from engine.errors import UserError
from engine.order.registry import is_order, parse_order
from engine.units import neat, parse_duration

_SWEPT: Final = (0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999, 1.0)
_STEPS: Final = 12
_RANGE: Final = re.compile(r"([^:]+):(.+?)\.\.([^,]+)(,.*)?")


def default_sweep(before: Arrivals) -> list[str]:
    """K-slack without any slack, and with ever more, up to the largest lateness."""
    if not len(before.lateness):
        return []
    return usable(f"kslack:{k}" for k in dict.fromkeys(["0ns", *slacks(before, _SWEPT)]))


def usable(orders: Iterable[str]) -> list[str]:
    """Those that can be run: a stamp that is off by years makes slacks that no order takes."""
    return [order for order in orders if is_order(order)]


def read_sweep(text: str, time_unit: str = "ns") -> list[str]:
    """``kslack:10ms..10s`` as 12 orders whose slacks grow by an even factor.

    Args:
        text: an order with a range in place of its first setting; other settings may follow.
        time_unit: of durations without one.

    Raises:
        UserError: not such a range.
    """
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise UserError(f"--sweep {text}: write a range of slacks, as in kslack:10ms..10s")
    name, low, high, rest = found.groups()
    try:
        between = _spread(parse_duration(low, time_unit), parse_duration(high, time_unit))
        orders = [f"{name}:{slack}{rest or ''}" for slack in between]
        for order in orders:
            parse_order(order, time_unit)
    except UserError as error:
        raise UserError(f"--sweep {text}: {error}") from error
    return orders


def _spread(first_ns: int, last_ns: int) -> list[str]:
    """Slacks between two, each longer than the one before by the same factor."""
    if not 0 < first_ns < last_ns:
        raise UserError("a range begins above 0 and ends above its beginning")
    places = np.geomspace(first_ns, last_ns, _STEPS)
    return list(dict.fromkeys(neat(round(float(place))) for place in places))


def slacks(before: Arrivals, shares: tuple[float, ...]) -> list[str]:
    """The least slacks that are long enough for these shares of the events out of order."""
    if not len(before.lateness):
        return []
    return list(dict.fromkeys(neat(slack) for slack in before.slacks_for(shares)))
