"""Which queries of a chain read which stream: a tap of their own, or one with halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.chain.settings import ChainSettings
from engine.clocks.readers import Readers
from engine.operator import Operator, Results
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
        self._by_clock = settings.pattern.purge == "slack"
        self._by_delay = settings.certainty == "max-delay"
        self._readers: dict[_Which, Readers] = {}

    @property
    def take_halves(self) -> bool:
        """Whether one of them does."""
        return any(map(_takes_halves, self._operators))

    def tell(
        self, queries: tuple[int, int], released: Released | None, more: Released | None,
        results: list[Results],
    ) -> None:  # fmt: skip
        """Those of ``queries`` that take halves are told ``more``, the others ``released``."""
        for with_halves, told in ((False, released), (True, more)):
            mine = self._reading(*queries, with_halves=with_halves)
            if mine and told is not None:
                readers = self._of((*queries, with_halves))
                readers.process(told, [results[number] for number in mine])

    def _reading(self, first: int, end: int, *, with_halves: bool) -> list[int]:
        """The queries from ``first`` to ``end`` that take halves, or the others."""
        some = range(first, end)
        return [n for n in some if _takes_halves(self._operators[n]) == with_halves]

    def _of(self, which: _Which) -> Readers:
        readers = self._readers.get(which)
        if readers is None:
            first, end, with_halves = which
            mine = self._reading(first, end, with_halves=with_halves)
            readers = self._readers[which] = Readers(
                [self._operators[number] for number in mine],
                by_clock=self._by_clock, by_delay=self._by_delay,
            )  # fmt: skip
        return readers

    def snapshot(self) -> dict[_Which, Any]:
        """Plain data."""
        return {which: readers.snapshot() for which, readers in self._readers.items()}

    def restore(self, state: dict[_Which, Any]) -> None:
        """Takes over a snapshot."""
        for which, clocks in state.items():
            self._of(which).restore(clocks)


def _takes_halves(operator: Operator) -> bool:
    return bool(getattr(operator, "takes_halves", False))
