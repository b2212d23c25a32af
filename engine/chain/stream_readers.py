"""Which queries of a chain read which stream: a tap of their own, or one with halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.chain.settings import ChainSettings
from engine.clocks.readers import Readers
from engine.operator import Operator, ResultPieces
from engine.stream.released import Released

_Which = tuple[int, int, bool]
"""The first of the queries that read one stream, the end of them, and whether it is those of them
that take halves.
"""


class StreamReaders:
    """The operators of a chain, by the stream that they read.

    Args:
        operators: of the queries.
        settings: of the chain.
    """

    def __init__(self, operators: Sequence[Operator], settings: ChainSettings) -> None:
        self._operators = operators
        self._with_halves = [bool(getattr(one, "takes_halves", False)) for one in operators]
        self.take_halves = any(self._with_halves)
        self._by_clock = settings.pattern.purge == "slack"
        self._by_delay = settings.certainty == "max-delay"
        self._readers: dict[_Which, Readers] = {}

    def tell(
        self, queries: tuple[int, int], released: Released | None, more: Released | None,
        results: list[ResultPieces],
    ) -> None:  # fmt: skip
        """Those of ``queries`` that take halves are told ``more``, the others ``released``."""
        for with_halves, told in ((False, released), (True, more)):
            mine = [n for n in range(*queries) if self._with_halves[n] == with_halves]
            if mine and told is not None:
                readers = self._of((*queries, with_halves))
                readers.process(told, [results[number] for number in mine])

    def _of(self, which: _Which) -> Readers:
        if which not in self._readers:
            first, end, with_halves = which
            self._readers[which] = Readers(
                [self._operators[n] for n in range(first, end)
                 if self._with_halves[n] == with_halves],
                by_clock=self._by_clock, by_delay=self._by_delay,
            )  # fmt: skip
        return self._readers[which]

    def snapshot(self) -> dict[_Which, Any]:
        """Plain data."""
        return {which: readers.snapshot() for which, readers in self._readers.items()}

    def restore(self, state: dict[_Which, Any]) -> None:
        """Takes over a snapshot."""
        for which, clocks in state.items():
            self._of(which).restore(clocks)
