"""Which of the measured orders suits, in words, and what each other one costs beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine.compare.measure import Measures
from engine.log.describe import readable_duration
from engine.order.base import numbers_mislead
from engine.report.numbers import number

_SAME: Final = 0.05
"""Durations that differ by less than this share are called about the same."""
_REST_DIGITS: Final = 1


@dataclass(frozen=True, slots=True)
class OrderCost:
    """Cost of an order beside the suitable one; ``enough``: as complete as requested."""

    order: str
    enough: bool
    text: str


@dataclass(frozen=True, slots=True)
class OrderChoice:
    """``suits``: an order, or None when no one is complete enough.

    ``costs``: of all the others, those that are complete enough first.
    """

    suits: str | None
    headline: str
    reason: str
    costs: tuple[OrderCost, ...]


def choose(
    measured: Sequence[Measures],
    complete: float,
    apart: frozenset[str] = frozenset(),
    unit: str = "ms",
    unit_ns: int = 10**6,
) -> OrderChoice:
    """The order with the least p99 of its holds among those that are complete enough.

    Of equal ones that with the least mean, then the first.

    Args:
        measured: one at least that is not in ``apart``.
        complete: share of the events that must be released in their place.
        apart: orders that are no candidates, as they go by another clock than the others.
        unit: of holds in the words, and how many ns it has.
        unit_ns: see ``unit``.
    """
    words = _Words(unit, unit_ns)
    wanted = f"{100 * complete:.6g} %"
    able = [each for each in measured if each.completeness >= complete and each.order not in apart]
    if not able:
        candidates = (each for each in measured if each.order not in apart)
        most = max(candidates, key=lambda each: each.completeness)
        others = tuple(_alone(each, words) for each in measured if each is not most)
        return OrderChoice(
            None,
            f"None of these orders puts {wanted} of the events in their place.",
            f"The most complete is {most.order}: {words.of(most)}.{_hint(most)}{_misled(measured)}",
            others,
        )
    best = min(able, key=lambda each: (each.hold.p99_ns, each.hold.mean_ns))
    costs = [
        OrderCost(
            each.order,
            each.completeness >= complete and each.order not in apart,
            _apart(each, words) if each.order in apart else _beside(each, best, words),
        )
        for each in measured
        if each is not best
    ]
    return OrderChoice(
        best.order,
        f"{best.order}: {words.of(best)}.",
        f"{_reason(best, able, wanted, words)}{_unnumbered(best, measured)}{_misled(measured)}",
        tuple(sorted(costs, key=lambda each: not each.enough)),
    )


def _reason(best: Measures, able: Sequence[Measures], wanted: str, words: _Words) -> str:
    """Why it suits, and which one would if the mean counted and not the p99."""
    if len(able) == 1:
        return f"No other order here puts {wanted} of the events in place."
    shortest = (
        f"It has the shortest p99 hold of the {len(able)} orders with at least {wanted} in place."
    )
    least = min(able, key=lambda each: each.hold.mean_ns)
    if least.hold.mean_ns >= (1 - _SAME) * best.hold.mean_ns:
        return shortest
    return (
        f"{shortest} If the mean counts more than the p99, take {least.order}: "
        f"{words.time(least.hold.mean_ns)} on average instead of "
        f"{words.time(best.hold.mean_ns)}."
    )


def _unnumbered(best: Measures, measured: Sequence[Measures]) -> str:
    """What an order that waits for no numbers does not see, where another one saw it."""
    seen = next((each for each in measured if each.missing is not None), None)
    if best.missing is not None or seen is None:
        return ""
    unseen = []
    copies = seen.duplicates - best.duplicates
    if copies > 0:  # further behind than it remembers
        unseen.append(f"{number(copies)} second copies stay in the stream")
    if seen.missing:
        unseen.append(f"nobody learns that {number(seen.missing)} events are missing")
    return f" But it waits for no sequence numbers: {' and '.join(unseen)}." if unseen else ""


def _misled(measured: Sequence[Measures]) -> str:
    """That an order by numbers cannot be complete, where numbers do not follow event time."""
    for each in measured:
        back = each.backwards or 0
        if numbers_mislead(back, each.arrived):
            return (
                f" {number(back)} of {number(each.arrived)} events lie before one of their source "
                f"with a smaller number, by up to {readable_duration(each.backwards_ns or 0)}: the "
                "input has no numbers (its lines are counted), or they do not follow event time. "
                "So sequence, which commands take by default, leaves these out "
                "of their place; an order that goes by event time can put them in place."
            )
    return ""


@dataclass(frozen=True, slots=True)
class _Words:
    unit: str
    unit_ns: int

    def of(self, each: Measures) -> str:
        place = f"{in_place(each)} of the events in their place"
        if not each.hold.max_ns:
            return f"{place}, none of them held"
        return (
            f"{place}; 99 % held for at most {self.time(each.hold.p99_ns)}, "
            f"{self.time(each.hold.mean_ns)} on average"
        )

    def time(self, duration_ns: float) -> str:
        return f"{number(duration_ns / self.unit_ns)} {self.unit}"


def in_place(each: Measures) -> str:
    """Completeness with the digits that tell it from 100 %, and never rounded up.

    >>> from types import SimpleNamespace as Found
    >>> [in_place(Found(arrived=6000, duplicates=0, in_place=n)) for n in (6000, 5999, 4500)]
    ['100 %', '99.983 %', '75.0 %']
    """
    wanted = each.arrived - each.duplicates
    rest = wanted - each.in_place
    if not rest:
        return "100 %"
    decimals = min(max(math.ceil(-math.log10(100 * rest / wanted)) + _REST_DIGITS, 1), 6)
    steps = each.in_place * 100 * 10**decimals // wanted
    return f"{steps / 10**decimals:.{decimals}f} %"


def _alone(each: Measures, words: _Words) -> OrderCost:
    return OrderCost(each.order, False, words.of(each))


def _apart(each: Measures, words: _Words) -> str:
    return f"goes by the sources' own clocks, so not comparable: {words.of(each)}"


def _beside(each: Measures, best: Measures, words: _Words) -> str:
    held = _times(each.hold.p99_ns, best.hold.p99_ns, words)
    return f"{in_place(each)} in place; {held}; mean {words.time(each.hold.mean_ns)}"


def _times(duration_ns: int, beside_ns: int, words: _Words) -> str:
    """A p99 hold beside that of the order that suits."""
    duration = words.time(duration_ns)
    if not duration_ns and not beside_ns:
        return "p99 hold 0 as well"
    if not duration_ns:
        return "p99 hold 0"
    if not beside_ns:
        return f"p99 hold {duration} instead of 0"
    if abs(duration_ns - beside_ns) < _SAME * beside_ns:
        return f"p99 hold {duration}, about the same"
    if 100 * duration_ns < beside_ns:
        return f"p99 hold {duration}, less than a hundredth"
    return f"p99 hold {duration}, {number(round(duration_ns / beside_ns, 2))} times as long"


def _hint(most: Measures) -> str:
    """Where the rest went, when the most complete order has not enough."""
    rest = [
        f"{number(count)} {what}"
        for count, what in (
            (most.dropped, "came too late and were dropped"),
            (most.late, "came too late for their place"),
            (most.quarantined, "lie in the future and were set aside"),
        )
        if count
    ]
    if not rest:
        return ""
    remedy = ""
    if most.dropped + most.late:
        remedy = "; a larger slack (kslack:K) or latency (sequence:latency=..) would wait for them"
    return f" Of the others {' and '.join(rest)}{remedy}."
