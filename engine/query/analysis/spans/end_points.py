"""What is known of the order of end points, and what follows of it.

A point is ``2 * step`` (its start) or ``2 * step + 1`` (its end). A fact says that one point is
before another, or not after it. Known facts are kept closed: whatever follows is known too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Fact(NamedTuple):
    """Point ``low`` is not after ``high``; ``strict``: it is before it."""

    low: int
    high: int
    strict: bool


def start(step: int) -> int:
    """The point at which ``step`` begins."""
    return 2 * step


def end(step: int) -> int:
    """The point at which ``step`` ends."""
    return 2 * step + 1


@dataclass(slots=True)
class Facts:
    """``after[p]``: bits of the points that are not before p; ``beyond[p]``: that are after it."""

    after: list[int]
    beyond: list[int]

    @classmethod
    def of(cls, steps: int) -> Facts:
        """No step ends before it begins, and nothing else is known."""
        after = [(1 << p) | (1 << (p | 1)) for p in range(2 * steps)]
        return cls(after, [0] * len(after))

    def knows(self, fact: Fact) -> bool:
        """Whether ``fact`` follows of what is known."""
        known = self.beyond if fact.strict else self.after
        return bool(known[fact.low] >> fact.high & 1)

    def excludes(self, fact: Fact) -> bool:
        """Whether ``fact`` contradicts what is known."""
        return self.knows(Fact(fact.high, fact.low, not fact.strict))

    def add(self, fact: Fact) -> None:
        """``fact`` is known from now on, and what follows of it."""
        if self.knows(fact):
            return
        low, high, strict = fact
        later, much_later = self.after[high], self.beyond[high]
        for point, seen in enumerate(self.after):
            if seen >> low & 1:
                self.after[point] |= later
                sure = strict or self.beyond[point] >> low & 1
                self.beyond[point] |= later if sure else much_later
