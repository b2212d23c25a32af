"""Which queries of a chain read which stream, and the clocks of each stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from slackwater.engine.core.clocks.stream_clocks import StreamClocks
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.operator import Operator, Restorable, ResultPieces
from slackwater.engine.core.released import LATE_DROPPED, Released
from slackwater.engine.core.timeline import in_stream
from slackwater.engine.hosts.chain.settings import ChainSettings
from slackwater.engine.query import check_attributes
from slackwater.engine.query.failures import QueryFailures
from slackwater.engine.query.plan import lookups_of
from slackwater.engine.query.results_as_events import attributes_of_log

if TYPE_CHECKING:
    from slackwater.engine.operators.cascade.cascade import Cascade


# Attributes that queries name, checked against those that a site's events turn out to have.


class AttributeChecks:
    """Each query is checked once, as soon as events have had all its attributes.

    A pass over a log that is there checks its queries before it begins; a live engine cannot.
    """

    def __init__(self, settings: ChainSettings, failures: QueryFailures) -> None:
        self._unchecked = dict(enumerate(settings.plans))
        self._by_order = settings.looked_at
        self._failures = failures
        self._seen = -1

    def see(self, types: Mapping[str, str]) -> None:
        """Events have had attributes of these types; a query that cannot be meant for them fails.

        Raises:
            UserError: the order cannot be meant for them.
        """
        if len(types) == self._seen:
            return
        self._seen = len(types)
        for number, plan in list(self._unchecked.items()):
            if attributes_of_log(plan) <= types.keys():
                del self._unchecked[number]
                try:
                    check_attributes(plan, types)
                except UserError as error:
                    self._failures.fail(number, error)
        if self._by_order and self._by_order.keys() <= types.keys():
            from slackwater.engine.order.served import check_order_attributes  # noqa: PLC0415 - seldom

            check_order_attributes(self._by_order, types)
            self._by_order = {}


# Which queries of a chain read which stream, and the clocks of each stream, kept once for all.
#
# A chain has one stream, and one more for each query that an order serves by itself (its tap);
# queries that take halves of intervals read one with them among its events.


_Which = tuple[int, int, bool]
"""The first of the queries that read one stream, the end of them, and whether it is those of them
that take halves.
"""


class StreamReaders(Restorable):
    """The operators of a chain, by the stream that they read.

    Args:
        operators: of all queries.
        readers: so many of them, the first ones, read the log.
        settings: of the chain.
        cascade: learns what each of these has read, if anybody reads their results.
        failures: of the chain's queries.
    """

    state_fields = ("_clocks",)

    def __init__(
        self, operators: Sequence[Operator], readers: int, settings: ChainSettings,
        cascade: Cascade | None, failures: QueryFailures,
    ) -> None:  # fmt: skip
        self._operators, self._cascade, self._failures = operators, cascade, failures
        self._with_halves = [
            bool(getattr(one, "takes_halves", False)) for one in operators[:readers]
        ]
        self.take_halves = any(self._with_halves)
        """Whether one of them does."""
        self._by_clock = settings.pattern.purge == "slack"
        self._certainty = settings.certainty
        self._looked_up = {
            number: {name: of for each in found for name, of in each.types.items()}
            for number, plan in enumerate(settings.readers if settings.lookups else ())
            if (found := lookups_of(plan))
        }
        self._clocks: dict[_Which, StreamClocks | None] = {}
        """None: nobody asks for them."""

    def process(
        self, queries: tuple[int, int], released: Released | None, more: Released | None,
        results: list[ResultPieces],
    ) -> None:  # fmt: skip
        """Those of ``queries`` that take halves process ``more``, the others ``released``."""
        for with_halves, stream in ((False, released), (True, more)):
            mine = [n for n in range(*queries) if self._with_halves[n] == with_halves]
            if not mine or stream is None:
                continue
            ordered = stream
            clocks = self._clocks_of((*queries, with_halves))
            if clocks is not None:
                if (stream.columns["status"] == LATE_DROPPED).any():
                    ordered = in_stream(stream)
                ordered = replace(ordered, moved=clocks.advance(ordered))
            for number in mine:
                operator = self._operators[number]
                given = stream if operator.types is None else ordered
                if number in self._looked_up:
                    given = self._with_tables(given, self._looked_up[number])
                process = partial(operator.process, given)
                results[number].extend(self._failures.run(number, process))
                if self._cascade is not None:
                    self._cascade.saw(number, given)

    @staticmethod
    def _with_tables(stream: Released, types: Mapping[str, str]) -> Released:
        """``stream`` whose events have these attributes, too, as far as they are there."""
        there = {name: of for name, of in types.items() if ATTR_PREFIX + name in stream.columns}
        return replace(stream, attr_types={**stream.attr_types, **there})

    def _clocks_of(self, which: _Which) -> StreamClocks | None:
        if which not in self._clocks:
            first, end, with_halves = which
            asked = [
                named for n in range(first, end) if self._with_halves[n] == with_halves
                and (named := self._operators[n].types) is not None
            ]  # fmt: skip
            types = frozenset(chain.from_iterable(asked))
            self._clocks[which] = (
                StreamClocks(types, by_clock=self._by_clock, certainty=self._certainty)
                if asked else None
            )  # fmt: skip
        return self._clocks[which]

    def restore(self, state: dict[str, Any]) -> None:
        for which in state["_clocks"]:
            self._clocks_of(which)
        super().restore(state)
