"""Measures orders one after another over the same log, and chooses the one that suits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from slackwater.edge_agent.units import NS_PER
from slackwater.engine.apps.compare.measure import Arrivals, Measures, Passes, Reading, Watch
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import neat, number, parse_duration, unit_ns
from slackwater.engine.hosts.clock_faults import behind_excluded
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.log.describe import readable_duration
from slackwater.engine.order.base import Guards, OrderSettings, numbers_mislead
from slackwater.engine.order.registry import is_order, parse_order
from slackwater.engine.order.sequence.order import SequenceSettings

# Default candidates: orders to try if the user names none.


# Slacks K to try on a recording if the user names none.
#
# An event is late under K-slack if its lateness exceeds K. So the quantiles of the lateness of
# events out of order are the values of K for given levels of completeness, and a larger K than the
# largest lateness has no further benefit.


_SWEPT: Final = (0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999, 1.0)
_STEPS: Final = 12
_RANGE: Final = re.compile(r"([^:]+):(.+?)\.\.([^,]+)(,.*)?")


def default_sweep(before: Arrivals) -> list[str]:
    """K-slack with slacks from 0 to the largest lateness."""
    if not len(before.lateness):
        return []
    return usable(f"kslack:{k}" for k in dict.fromkeys(["0ns", *slacks(before, _SWEPT)]))


def usable(orders: Iterable[str]) -> list[str]:
    """The valid orders: a stamp that is wrong by years gives slacks that no order accepts."""
    return [order for order in orders if is_order(order)]


def read_sweep(text: str, time_unit: str = "ns") -> list[str]:
    """Expand ``kslack:10ms..10s`` to 12 orders whose slacks grow by a constant factor.

    Args:
        text: an order with a range in place of its first setting; other settings may follow.
        time_unit: unit of durations without one.

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
    """Slacks between two values, each longer than the previous one by the same factor."""
    if not 0 < first_ns < last_ns:
        raise UserError("a range begins above 0 and ends above its beginning")
    places = np.geomspace(first_ns, last_ns, _STEPS)
    return list(dict.fromkeys(neat(round(float(place))) for place in places))


def slacks(before: Arrivals, shares: tuple[float, ...]) -> list[str]:
    """The least slacks that suffice for these shares of the events out of order."""
    if not len(before.lateness):
        return []
    return list(dict.fromkeys(neat(slack) for slack in before.slacks_for(shares)))


# Orders to try if the user names none: families, and the best order of each.
#
# A family is one operator with settings in ascending order of patience (how long they wait). Its
# best order is the least patient one that is complete enough, found by bisection in a few passes;
# if none is, the most patient one.


_SHARES: Final = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999, 1.0)
"""Shares of the events out of order for which a slack must suffice."""
_BEYOND: Final = (1.1, 2)
"""Factors of the largest lateness: events for which a source makes others wait may come later."""
_ERRORS: Final = ("0.1", "0.05", "0.02", "0.01", "0.005", "0.002", "0.001", "0.0001")
_LATENCY_NS: Final = SequenceSettings().latency_ns
_ALWAYS: Final = ("none", "sequence")
"""Orders without parameters, which are always shown."""


def families(before: Arrivals) -> list[list[str]]:
    """Short forms of orders, one list per family, in ascending order of patience."""
    waits = _short(slacks(before, _SHARES))
    beyond = [neat(round(before.slack_for(1.0) * times)) for times in _BEYOND] if waits else []
    beyond = _short(beyond)
    waits_ns = {parse_duration(each): each for each in (*waits, *beyond)}
    latencies = sorted({*waits_ns, _LATENCY_NS})

    def sequence(timeout: str) -> list[str]:
        """A sequence order per latency; the default latency is not written."""
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
    """The waits that are valid slacks."""
    return [each for each in waits if usable([f"kslack:{each}"])]


def best_of_each(
    before: Arrivals, complete: float, of: Callable[[str], Measures]
) -> tuple[Measures, ...]:
    """The best order of each family, and those that are always shown.

    Args:
        before: the events as they arrived.
        complete: share of them that must be in their place.
        of: returns the measures of an order; may be called repeatedly.
    """
    by_order: dict[str, Measures] = {}
    for family in families(before):
        for order in family:
            if order in _ALWAYS:
                by_order[order] = of(order)
        best = _least_patient(family, complete, of)
        by_order[best] = of(best)
    return tuple(by_order.values())


def _least_patient(family: Sequence[str], complete: float, of: Callable[[str], Measures]) -> str:
    """The first complete enough order of the family, assuming that more patience never harms."""
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


_SAME: Final = 0.05
"""Durations that differ by less than this share are called about the same."""
_REST_DIGITS: Final = 1


@dataclass(frozen=True, slots=True)
class OrderCost:
    """Cost of an order relative to the suitable one; ``enough``: as complete as requested."""

    order: str
    enough: bool
    text: str


@dataclass(frozen=True, slots=True)
class OrderChoice:
    """``suits``: an order, or None if none is complete enough.

    ``costs``: of all other orders, complete enough ones first.
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
    """Choose the order with the least p99 hold among those that are complete enough.

    Ties are broken by the least mean, then by the first.

    Args:
        measured: at least one that is not in ``apart``.
        complete: share of the events that must be released in their place.
        apart: orders that are no candidates, because they use another time than the others.
        unit: unit of holds in texts.
        unit_ns: ``unit`` in ns.
    """
    words = _Words(unit, unit_ns)
    share = f"{100 * complete:.6g} %"
    able = [each for each in measured if each.completeness >= complete and each.order not in apart]
    if not able:
        candidates = (each for each in measured if each.order not in apart)
        most = max(candidates, key=lambda each: each.completeness)
        others = tuple(_alone(each, words) for each in measured if each is not most)
        return OrderChoice(
            None,
            f"None of these orders puts {share} of the events in their place.",
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
        f"{_reason(best, able, share, words)}{_unnumbered(best, measured)}{_misled(measured)}",
        tuple(sorted(costs, key=lambda each: not each.enough)),
    )


def _reason(best: Measures, able: Sequence[Measures], share: str, words: _Words) -> str:
    """Why it suits, and which order would suit by the mean instead of the p99."""
    if len(able) == 1:
        return f"No other order here puts {share} of the events in place."
    shortest = (
        f"It has the shortest p99 hold of the {len(able)} orders with at least {share} in place."
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
    """What an order without numbers does not detect, if another one detected it."""
    seen = next((each for each in measured if each.missing is not None), None)
    if best.missing is not None or seen is None:
        return ""
    unseen = []
    copies = seen.duplicates - best.duplicates
    if copies > 0:  # older than its memory of numbers
        unseen.append(f"{number(copies)} second copies stay in the stream")
    if seen.missing:
        unseen.append(f"nobody learns that {number(seen.missing)} events are missing")
    return f" But it waits for no sequence numbers: {' and '.join(unseen)}." if unseen else ""


def _misled(measured: Sequence[Measures]) -> str:
    """Note that an order by numbers cannot be complete if numbers do not follow event time."""
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
    """Completeness with enough digits to differ from 100 %, and never rounded up.

    >>> from types import SimpleNamespace as Found
    >>> [in_place(Found(arrived=6000, duplicates=0, in_place=n)) for n in (6000, 5999, 4500)]
    ['100 %', '99.983 %', '75.0 %']
    """
    distinct_events = each.arrived - each.duplicates
    rest = distinct_events - each.in_place
    if not rest:
        return "100 %"
    decimals = min(max(math.ceil(-math.log10(100 * rest / distinct_events)) + _REST_DIGITS, 1), 6)
    steps = each.in_place * 100 * 10**decimals // distinct_events
    return f"{steps / 10**decimals:.{decimals}f} %"


def _alone(each: Measures, words: _Words) -> OrderCost:
    return OrderCost(each.order, False, words.of(each))


def _apart(each: Measures, words: _Words) -> str:
    return f"goes by the sources' own clocks, so not comparable: {words.of(each)}"


def _beside(each: Measures, best: Measures, words: _Words) -> str:
    hold_text = _times(each.hold.p99_ns, best.hold.p99_ns, words)
    return f"{in_place(each)} in place; {hold_text}; mean {words.time(each.hold.mean_ns)}"


def _times(duration_ns: int, beside_ns: int, words: _Words) -> str:
    """Text of a p99 hold relative to that of the suitable order."""
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
    """Where the other events are, if the most complete order is not complete enough."""
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


# Measures orders one after another over the same log, and chooses the one that suits.


COMPLETE: Final = 0.999
"""Default share of events that must be in their place."""
_SECONDS_FROM: Final = 100 * NS_PER["s"]
"""The p99 hold from which texts use seconds instead of milliseconds."""
MEASURED: Final = "measured"
_BY_REF: Final = Reading()
_GUARDS: Final = Guards()


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a comparison: see ``compare``."""

    complete: float
    reading: Reading
    guard_ns: int | None
    time_unit: str


@dataclass(frozen=True, slots=True)
class OrdersCompared:
    """The arrivals by ref, the orders, a range of slacks, and the choice.

    ``orders``: if none were named, the best of each family (``compare.choice``), found among
    ``tried``. ``arrival_given``: False if line numbers replace arrivals: a hold is then a number of
    lines, each of them one ``Settings.time_unit`` long.
    """

    settings: Settings
    arrival_given: bool
    arrivals: Arrivals
    orders: tuple[Measures, ...]
    sweep: tuple[Measures, ...]
    tried: int
    choice: OrderChoice

    @property
    def headline(self) -> str:
        """The recommendation, preceded by warnings about sources with excluded events."""
        return behind_excluded(self.arrivals.excluded, self.choice.headline)

    @property
    def hold_unit(self) -> tuple[str, int]:
        """Unit in which holds are shown, and its ns."""
        return _unit(self.orders, self.arrival_given, self.settings.time_unit)

    @property
    def numbered(self) -> Measures | None:
        """The first order that waits for numbers, and so detects every duplicate and gap."""
        return next((each for each in self.orders if each.missing is not None), None)


def compare(
    log: Path,
    orders: Sequence[str] = (),
    sweep: str | None = None,
    reading: Reading = _BY_REF,
    guards: Guards = _GUARDS,
    time_unit: str = "ns",
    complete: float = COMPLETE,
    watch: Watch = lambda _what: nullcontext(lambda _rows: None),
) -> OrdersCompared:
    """Measure each order over the log, in one pass each, and choose the one that suits.

    Args:
        log: an arrival log.
        orders: short forms, as ``sequence:timeout=r19``; none: one of each kind, each with the
            least patience that is complete enough.
        sweep: a range of slacks, as ``kslack:10ms..10s``, or ``measured``: quantiles of the log's
            own lateness; None: no sweep.
        reading: clocks, and attributes with true times and departures.
        guards: checks before an event time is trusted; without arrivals in the log, the future
            guard is off.
            the future guard is off.
        time_unit: unit of durations without one.
        complete: share of the events that an order must release in their place to suit.
        watch: called with a pass's name; returns the function that takes its progress.

    Raises:
        UserError: no log or an empty one, an unknown or repeated order, a bad sweep, a share
            outside (0, 1], or an attribute that events lack.
    """
    if not 0 < complete <= 1:
        raise UserError(f"complete {complete}: a share above 0 and at most 1, such as 0.999")
    unit_ns(time_unit)
    order_settings = [parse_order(order, time_unit) for order in orders]
    _refuse_twice(orders, order_settings)
    swept = None if sweep in (None, MEASURED) else read_sweep(str(sweep), time_unit)
    arrival_given = LogReader(log).arrival_given
    guards = guards if arrival_given else Guards(None, guards.default_uncertainty_ns)
    passes = Passes(log, reading, guards, time_unit, watch)
    as_arrived = passes.before("ref")
    named = passes.of(orders) if orders else best_of_each(as_arrived, complete, passes.one)
    tried = passes.count
    if sweep == MEASURED:
        swept = default_sweep(as_arrived)
    times = {each.order: parse_order(each.order, time_unit).time for each in named}
    apart = frozenset(order for order, by in times.items() if by == "ts")
    unit = _unit(named, arrival_given, time_unit)
    return OrdersCompared(
        Settings(complete, reading, guards.guard_ns, time_unit),
        arrival_given,
        as_arrived,
        named,
        passes.of(swept or ()),
        tried,
        choose(named, complete, apart if len(apart) < len(named) else frozenset(), *unit),
    )


def _refuse_twice(orders: Sequence[str], order_settings: Sequence[OrderSettings]) -> None:
    first: dict[OrderSettings, str] = {}
    for order, settings in zip(orders, order_settings, strict=True):
        if settings in first:
            same = "" if first[settings] == order else f" (it is the same as {first[settings]})"
            raise UserError(f"--order {order}: is given twice{same}; name each order once")
        first[settings] = order


def _unit(measured: Sequence[Measures], arrival_given: bool, time_unit: str) -> tuple[str, int]:
    """Unit of holds for people, and its ns: lines if there are no arrivals."""
    if not arrival_given:
        return "lines", unit_ns(time_unit)
    longest = max((max(each.hold.p99_ns, each.latency.p99_ns) for each in measured), default=0)
    name = "s" if longest >= _SECONDS_FROM else "us" if 0 < longest < NS_PER["ms"] else "ms"
    return name, NS_PER[name]
