"""Whether numbers follow event time, which ``sequence`` builds on.

An input whose sources number nothing is counted line by line: then a number says when an event
arrived, not when it happened, nothing is ever missing, and ``sequence`` leaves what is out of order
where it came. Counters say so: ``backwards``, events that lie before one of their source with a
smaller number, and ``backwards_ns``, by how much at most.
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 0.01
"""Of the events: fewer may come of clocks that were set."""


def numbers_mislead(backwards: int, arrived: int) -> bool:
    """Whether so many of the events that arrived lie before a smaller number."""
    return backwards > 0 and backwards >= SHARE * arrived
