"""The operators that read one released stream, and the clocks of that stream, kept once for all.

A chain has one such stream, or one more for each query that an order serves by itself (its taps).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from engine.clocks.stream_clocks import StreamClocks
from engine.operator import Operator, ResultPieces
from engine.stream.in_stream import in_stream
from engine.stream.released import Released


class Readers:
    """Hands each batch of a stream to its operators.

    Args:
        operators: of the queries that read it.
        by_clock: events expire against the event clock (else against progress).
        by_delay: two times differ by up to the site's largest delay, not by what clocks err.
    """

    def __init__(self, operators: Sequence[Operator], *, by_clock: bool, by_delay: bool) -> None:
        self._operators = operators
        asked = [operator.types for operator in operators if operator.types is not None]
        self._clocks = None
        if asked:
            types = frozenset(chain.from_iterable(asked))
            self._clocks = StreamClocks(types, by_clock=by_clock, by_delay=by_delay)

    def process(self, released: Released, results: Sequence[ResultPieces]) -> None:
        """Adds to each operator's ``results`` what a batch makes known."""
        ordered = released
        if self._clocks is not None:
            ordered = in_stream(released)
            ordered = replace(ordered, moved=self._clocks.advance(ordered))
        for operator, found in zip(self._operators, results, strict=True):
            found.extend(operator.process(released if operator.types is None else ordered))

    def snapshot(self) -> dict[str, Any] | None:
        """Of the clocks: plain data; operators have their own."""
        return None if self._clocks is None else self._clocks.snapshot()

    def restore(self, state: dict[str, Any] | None) -> None:
        """Takes over a snapshot."""
        if self._clocks is not None and state is not None:
            self._clocks.restore(state)
