"""Which orders are worth trying when nobody names them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from engine.compare.measure import Arrivals, Measures
from engine.errors import UserError
from engine.order.registry import is_order, parse_order
from engine.order.sequence.order import SequenceSettings
from engine.units import neat, parse_duration

# Which slacks K are worth trying on a recording, when nobody names them.
#
# An event is late under K-slack when its lateness exceeds K. So the quantiles of the lateness of
# the events out of order are the K that buy so much completeness, and no K beyond the largest buys
# any more.


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


# Which orders are worth trying when nobody names them: families, and the best of each.
#
# A family is one operator with ever more patience: the settings stand in ascending order of how
# long they wait. The best is the least patient that is complete enough, found by halving, which
# takes a few passes instead of one for each setting; if none is, the most patient.


_SHARES: Final = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999, 1.0)
"""Of the events out of order, how many a slack is long enough for."""
_BEYOND: Final = (1.1, 2)
"""Times the latest of them: for what a source makes others wait for may come later still."""
_ERRORS: Final = ("0.1", "0.05", "0.02", "0.01", "0.005", "0.002", "0.001", "0.0001")
_LATENCY_NS: Final = SequenceSettings().latency_ns
_ALWAYS: Final = ("none", "sequence")
"""What nobody has to choose is shown whatever the others do."""


def families(before: Arrivals) -> list[list[str]]:
    """Short forms, one list per family, each in ascending order of patience."""
    waits = _short(slacks(before, _SHARES))
    beyond = [neat(round(before.slack_for(1.0) * times)) for times in _BEYOND] if waits else []
    beyond = _short(beyond)
    waits_ns = {parse_duration(each): each for each in (*waits, *beyond)}
    latencies = sorted({*waits_ns, _LATENCY_NS})

    def sequence(timeout: str) -> list[str]:
        """One with each latency; the usual one goes without saying."""
        options = (
            [timeout, "" if ns == _LATENCY_NS else f"latency={waits_ns[ns]}"] for ns in latencies
        )
        return [f"sequence:{','.join(filter(None, each))}".removesuffix(":") for each in options]

    patient = [f"sequence:timeout=quantile:0.9999,latency={each}" for each in beyond]
    found = [
        ["none"],
        [*sequence(""), *patient],
        sequence("timeout=r19"),
        [f"sequence:timeout=fixed:{each}" for each in waits_ns.values()],
        [f"kslack:{each}" for each in waits],
        ["mp-kslack"],
        [f"aq-kslack:error={each}" for each in _ERRORS],
        [f"ldop:window={each}" for each in waits] or ["ldop"],
    ]
    return [family for family in map(usable, found) if family]


def _short(waits: Sequence[str]) -> list[str]:
    """Those that a slack may be."""
    return [each for each in waits if usable([f"kslack:{each}"])]


def best_of_each(
    before: Arrivals, complete: float, of: Callable[[str], Measures]
) -> tuple[Measures, ...]:
    """The best of each family, and what is shown always.

    Args:
        before: the events as they arrived.
        complete: the share of them that must be in their place.
        of: gives the measures of an order; may be asked again.
    """
    shown: dict[str, Measures] = {}
    for family in families(before):
        for order in family:
            if order in _ALWAYS:
                shown[order] = of(order)
        best = _least_patient(family, complete, of)
        shown[best] = of(best)
    return tuple(shown.values())


def _least_patient(family: Sequence[str], complete: float, of: Callable[[str], Measures]) -> str:
    """The first of the family that is complete enough, as far as more patience never harms."""
    low, high = 0, len(family) - 1
    if of(family[high]).completeness < complete:
        return family[high]
    while low < high:
        middle = (low + high) // 2
        if of(family[middle]).completeness >= complete:
            high = middle
        else:
            low = middle + 1
    return family[high]
