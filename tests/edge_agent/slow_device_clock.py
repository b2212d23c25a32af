"""A device behind an agent: the true offset of its clock at each message. No code of ours."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import NamedTuple


class Sent(NamedTuple):
    """A message: made at ``at``, came at ``mono`` (both of the agent's monotonic clock), stamped
    ``stamp``; ``offset``: monotonic minus device when it was made.
    """

    at: int

    mono: int
    stamp: int
    offset: Fraction


class World:
    """A device whose clock runs fast, is set and rounds; its messages are delayed."""

    def __init__(
        self, seed: int, *, steps: list[tuple[int, int]], fast_ppb: int, grain: int,
        delay_min: int, delay_most: int, apart: int, count: int,
    ) -> None:  # fmt: skip
        """``steps``: (at, by) of true time; by > 0: the clock is set ahead."""
        chance = random.Random(seed)
        start = chance.randrange(-(10**11), 10**11)
        self.messages: list[Sent] = []
        at = 0
        came = 0
        for _ in range(count):
            at += chance.randrange(apart // 2, apart * 3 // 2)
            gained = Fraction(at * fast_ppb, 10**9)
            shows = at + start + gained + sum(by for when, by in steps if when <= at)
            stamp = int(shows // grain) * grain
            slow = chance.random() < 0.2
            delay = delay_min + chance.randrange(1 + (delay_most if slow else delay_most // 10))
            came = max(came, at + delay)
            self.messages.append(Sent(at, came, stamp, at - shows))

    def delay_min_max(self, window: int, least: int) -> int:
        """What may be declared: in no run of ``least`` messages or more that takes ``window``,
        from the message before it or from its first, is the fastest one slower.
        """
        most = 0
        for i, begun in enumerate(self.messages):
            for first in (i, i + 1):
                for end in range(first + least, len(self.messages) + 1):
                    if self.messages[end - 1].mono - begun.mono >= window:
                        run = self.messages[first:end]
                        most = max(most, min(each.mono - each.at for each in run))
                        break
        return most

    def delay_max(self) -> int:
        """Of all messages."""
        return max(each.mono - each.at for each in self.messages)
