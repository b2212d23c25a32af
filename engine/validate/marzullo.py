"""Where several clocks agree: the interval that most of their intervals have in common.

Each server says that the true offset lies within its offset +- its bound. Servers that are right
have the truth in common; one whose interval lies apart is a falseticker.

Source: Marzullo, "Maintaining the Time in a Distributed System" (1984); RFC 5905, 11.2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Agreement(NamedTuple):
    """``low..high`` [ns] lies in ``among`` intervals, and no instant in more of them."""

    low: int
    high: int
    among: int

    def holds(self, low: int, high: int) -> bool:
        """Whether this interval is one of those that agree."""
        return low <= self.low and self.high <= high


def agreement(intervals: Sequence[tuple[int, int]]) -> Agreement:
    """The smallest such interval; the earliest of several.

    Args:
        intervals: at least one, ``low <= high`` each; ends belong to them.

    >>> agreement([(8, 12), (11, 13), (10, 12)])
    Agreement(low=11, high=12, among=3)
    >>> agreement([(8, 12), (11, 13), (14, 15)])
    Agreement(low=11, high=12, among=2)
    """
    assert intervals
    assert all(low <= high for low, high in intervals)
    # At one instant an interval begins before another ends: ends belong to them.
    edges = sorted([(low, -1) for low, _ in intervals] + [(high, 1) for _, high in intervals])
    best = Agreement(0, 0, 0)
    count = 0
    for place, (at, kind) in enumerate(edges):
        count -= kind
        if count > best.among:
            best = Agreement(at, edges[place + 1][0], count)
    return best
