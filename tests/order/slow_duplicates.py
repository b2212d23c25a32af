"""What ``engine.order.duplicates`` must say, with a set of numbers per lane."""

from __future__ import annotations

from collections.abc import Hashable

HORIZON = 32_000


class SlowDuplicates:
    """Per lane its newest number, and those that came since its memory began."""

    def __init__(self) -> None:
        self._lanes: dict[Hashable, tuple[int, set[int]]] = {}

    def is_copy(self, lane: Hashable, number: int) -> bool:
        if number < 0:
            return False
        newest, came = self._lanes.get(lane, (number, set()))
        if abs(number - newest) > HORIZON:
            newest, came = number, set()
        known = number in came
        newest = max(newest, number)
        self._lanes[lane] = newest, {n for n in came if newest - n <= HORIZON} | {number}
        return known
