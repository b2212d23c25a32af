"""Orders measured one after another over the same log, and which of them suits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slackwater.edge_agent.units import NS_PER
from slackwater.engine.apps.compare.choice import (
    OrderChoice,
    best_of_each,
    choose,
    default_sweep,
    read_sweep,
)
from slackwater.engine.apps.compare.measure import (
    Advanced,
    Arrivals,
    Measures,
    Reading,
    arrivals,
    measure_after,
)
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import unit_ns
from slackwater.engine.hosts.clock_faults import behind_excluded
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.order.base import Guards, OrderSettings
from slackwater.engine.order.registry import parse_order

COMPLETE: Final = 0.999
"""The share of events that must be in their place, unless the user says another."""
_SECONDS_FROM: Final = 100 * NS_PER["s"]
"""The p99 hold from which people read seconds more easily than milliseconds."""
MEASURED: Final = "measured"
_BY_REF: Final = Reading()
_GUARDS: Final = Guards()
Watch = Callable[[str], AbstractContextManager[Advanced]]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a comparison was made: see ``compare``."""

    complete: float
    reading: Reading
    guard_ns: int | None
    time_unit: str


@dataclass(frozen=True, slots=True)
class OrdersCompared:
    """The arrivals by ref; the orders that were named; a range of slacks; and what suits.

    ``orders``: where none were named, the best of each family (``compare.choice``), found
    among ``tried``.

    ``arrival_given``: False where line numbers stand for the arrivals: a hold is then so many
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
        """What suits, behind the sources of which events were set aside."""
        return behind_excluded(self.arrivals.excluded, self.choice.headline)

    @property
    def hold_unit(self) -> tuple[str, int]:
        """What holds are shown in, and its ns."""
        return _unit(self.orders, self.arrival_given, self.settings.time_unit)

    @property
    def numbered(self) -> Measures | None:
        """The first order that waits for numbers, so knows of every duplicate and of gaps."""
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
    """Measures each order over the log, in one pass each, and says which suits.

    Args:
        log: an arrival log.
        orders: short forms, as ``sequence:timeout=r19``; none: one of each kind, each with the
            least patience that is complete enough (``engine.apps.compare.choice``).
        sweep: a range of slacks, as ``kslack:10ms..10s``, or ``measured``: quantiles of the log's
            own lateness; None: no sweep.
        reading: of the clocks, and where events carry their true times and departures.
        guards: what an order does before it trusts an event time; without arrivals in the log,
            the future guard is off.
        time_unit: unit of durations without one.
        complete: share of the events that an order must release in their place to suit.
        watch: called with a pass's name; returns the function that takes its progress.

    Raises:
        UserError: no log or an empty one, an unknown order, one given twice, a bad sweep, a
            share beyond (0, 1], an attribute that events lack.
    """
    if not 0 < complete <= 1:
        raise UserError(f"complete {complete}: a share above 0 and at most 1, such as 0.999")
    unit_ns(time_unit)
    given = [parse_order(order, time_unit) for order in orders]
    _refuse_twice(orders, given)
    swept = None if sweep in (None, MEASURED) else read_sweep(str(sweep), time_unit)
    arrival_given = LogReader(log).arrival_given
    guards = guards if arrival_given else Guards(None, guards.default_uncertainty_ns)
    passes = _Passes(log, reading, guards, time_unit, watch)
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


class _Passes:
    """Passes over a log, each made once; arguments as of ``compare``."""

    def __init__(
        self, log: Path, reading: Reading, guards: Guards, time_unit: str, watch: Watch
    ) -> None:
        self._log, self._reading, self._guards = log, reading, guards
        self._time_unit, self._watch = time_unit, watch
        self._before: dict[str, Arrivals] = {}
        self._done: dict[str, Measures] = {}

    @property
    def count(self) -> int:
        """Orders measured so far."""
        return len(self._done)

    def before(self, by: str) -> Arrivals:
        """The events as they arrived, by this kind of time."""
        if by not in self._before:
            with self._watch("as it arrived") as advanced:
                self._before[by] = arrivals(self._log, self._reading, self._guards, by, advanced)
        return self._before[by]

    def one(self, order: str, which: str = "") -> Measures:
        """The measures of an order; ``which``: for the watcher, instead of how many it is."""
        if order not in self._done:
            before = self.before(parse_order(order, self._time_unit).time)
            with self._watch(f"{which or self.count + 1}: {order}") as advanced:
                self._done[order] = measure_after(
                    before, self._log, order, self._reading, self._guards, self._time_unit,
                    advanced,
                )  # fmt: skip
        return self._done[order]

    def of(self, orders: Sequence[str]) -> tuple[Measures, ...]:
        """The measures of each."""
        count = len(orders)
        return tuple(self.one(order, f"{n} of {count}") for n, order in enumerate(orders, 1))


def _refuse_twice(orders: Sequence[str], given: Sequence[OrderSettings]) -> None:
    first: dict[OrderSettings, str] = {}
    for order, settings in zip(orders, given, strict=True):
        if settings in first:
            same = "" if first[settings] == order else f" (it is the same as {first[settings]})"
            raise UserError(f"--order {order}: is given twice{same}; name each order once")
        first[settings] = order


def _unit(measured: Sequence[Measures], arrival_given: bool, time_unit: str) -> tuple[str, int]:
    """What people read holds in, and its ns: lines where there are no arrivals."""
    if not arrival_given:
        return "lines", unit_ns(time_unit)
    longest = max((max(each.hold.p99_ns, each.latency.p99_ns) for each in measured), default=0)
    name = "s" if longest >= _SECONDS_FROM else "us" if 0 < longest < NS_PER["ms"] else "ms"
    return name, NS_PER[name]
