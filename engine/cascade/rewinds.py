"""An operator as it was before events that may still change: to go back there is to take a copy.

The events that an operator has read and that may still change are its tail. A correction of the
tail is read from where it begins to matter, so copies of the operator are kept of some places in
it: of its beginning, and of where earlier corrections began, closer together towards its end, as
corrections are mostly of what is new. So a correction costs what follows it, not the whole tail.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.cascade.asked import NO_STEPS, AskedOperator
from engine.cascade.rows import DerivedRows
from engine.stream.clock_bound import ClockBound
from engine.stream.released import Strings

_MOST: Final = 6
"""Copies that are kept."""
_FEW: Final = 256
"""Events that are read again rather than that a copy is kept for them."""


class Rewinds:
    """Copies of an operator, by how much of its tail they have read.

    Args:
        first: the operator when it has read nothing; it is kept, and must not be used elsewhere.
    """

    def __init__(self, first: AskedOperator) -> None:
        self._counts, self._copies = [0], [first]

    def back_to(
        self, tail: DerivedRows, count: int, strings: Strings, bound: ClockBound
    ) -> AskedOperator:
        """The operator when it had read the first ``count`` events of the tail: to be copied, not
        fed. What comes behind them in the tail changes, and is forgotten.
        """
        while self._counts[-1] > count:
            self._counts.pop()
            self._copies.pop()
        found, start = self._copies[-1], self._counts[-1]
        if start < count:
            found = found.copy()
            found.feed(tail.cut(start, count), NO_STEPS, strings, bound)
        if count - start >= _FEW:
            self._counts.append(count)
            self._copies.append(found)
            self._thin(tail.n)
        return found

    def let_go(self, tail: DerivedRows, count: int, strings: Strings, bound: ClockBound) -> None:
        """The first ``count`` events of the tail leave it: they change no more."""
        place = int(np.searchsorted(self._counts, count, "right")) - 1
        first = self._copies[place]
        first.feed(tail.cut(self._counts[place], count), NO_STEPS, strings, bound)
        self._counts = [0, *(each - count for each in self._counts[place + 1 :])]
        self._copies = [first, *self._copies[place + 1 :]]

    def _thin(self, n: int) -> None:
        """Of too many the one goes without which least is read again, for how old it is."""
        if len(self._counts) > _MOST:
            counts = np.array(self._counts)
            needless = int(np.argmin(np.diff(counts) / (n - counts[1:] + 1.0))) + 1
            del self._counts[needless], self._copies[needless]

    def codes(self) -> list[np.ndarray | None]:
        """Of texts that each copy holds (``engine.operator.Operator``)."""
        return [each.codes() for each in self._copies]

    def snapshot(self) -> dict[str, Any]:
        """Plain data: the first of them, from which the others can be made."""
        return self._copies[0].snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        del self._counts[1:], self._copies[1:]
        self._copies[0].restore(state)
