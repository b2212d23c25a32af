"""Which numbers of a stream have come: one border, and a bounded list of islands beyond it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence


class ReceivedSet:
    """All numbers below ``next``, and those in ``islands`` half-open runs above it.

    Memory is that of the islands: a stream that comes in order needs none.
    """

    __slots__ = ("_ends", "_starts", "next")

    def __init__(self, first: int = 0) -> None:
        """Numbers below ``first`` count as received."""
        self.next = first
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def islands(self) -> int:
        return len(self._starts)

    @property
    def missing(self) -> int:
        """How many numbers lie in the gaps before and between the islands."""
        if not self._starts:
            return 0
        return sum(self._starts) - self.next - sum(self._ends[:-1])

    def take_next(self, first: int, end: int) -> bool:
        """Adds [first, end) where it comes next and nothing came beyond it; False: it does not."""
        if first != self.next or self._starts:
            return False
        self.next = end
        return True

    def new_parts(self, first: int, end: int) -> list[tuple[int, int]]:
        """The runs of [first, end) that have not come yet, in order."""
        if first == self.next and not self._starts:
            return [(first, end)]
        parts = []
        at = max(first, self.next)
        index = bisect_right(self._ends, at)
        while at < end:
            start = self._starts[index] if index < len(self._starts) else end
            if at < start:
                parts.append((at, min(start, end)))
            at = self._ends[index] if index < len(self._ends) else end
            index += 1
        return parts

    def makes_island(self, first: int, end: int) -> bool:
        """Whether adding [first, end) needs one more island."""
        if first <= self.next:
            return False
        index = bisect_left(self._ends, first)
        return index == len(self._starts) or self._starts[index] > end

    def add(self, first: int, end: int) -> None:
        """[first, end) has come, in whole or in part for the first time."""
        if first <= self.next:
            self.next = max(self.next, end)
        else:
            low = bisect_left(self._ends, first)
            high = bisect_right(self._starts, end)
            if low < high:
                first = min(first, self._starts[low])
                end = max(end, self._ends[high - 1])
            self._starts[low:high] = [first]
            self._ends[low:high] = [end]
        while self._starts and self._starts[0] <= self.next:
            self.next = max(self.next, self._ends[0])
            del self._starts[0], self._ends[0]

    def saved(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """All of it, as plain numbers."""
        return self.next, tuple(self._starts), tuple(self._ends)

    @classmethod
    def restored(cls, saved: tuple[int, Sequence[int], Sequence[int]]) -> ReceivedSet:
        """Inverse of ``saved``."""
        made = cls(saved[0])
        made._starts, made._ends = list(saved[1]), list(saved[2])
        return made

    def give_up_first_gap(self) -> int:
        """Counts the numbers before the first island as received; gives how many they are."""
        assert self._starts
        gap = self._starts[0] - self.next
        self.add(self.next, self._starts[0])
        return gap
