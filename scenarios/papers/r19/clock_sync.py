"""Time sync as R19 3.2.2 does it: NTP exchanges over asymmetric legs, the one of least delay.

An exchange is wrong by half the difference of its legs, which lies within half its delay (R19
Eq 3.12-3.14).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

ATTEMPTS: Final = 10
"""Exchanges of a sync; the one of least delay counts (R19 Sample Code 4.1)."""


@dataclass(frozen=True, slots=True)
class SyncResult:
    """Result of a time sync [ns]; ``offset_ns``: engine's clock minus source's, as measured."""

    offset_ns: int
    delay_ns: int

    def error_ns(self, ahead_ns: int) -> int:
        """By how much the offset of a clock that is ``ahead_ns`` ahead is wrong."""
        return self.offset_ns + ahead_ns


def exchange(ahead_ns: int, there_ns: int, back_ns: int) -> SyncResult:
    """One exchange of a source whose clock is ``ahead_ns`` ahead of the engine's.

    >>> exchange(0, 9_000_000, 1_000_000)
    SyncResult(offset_ns=4000000, delay_ns=10000000)

    Args:
        ahead_ns: source's clock minus the engine's.
        there_ns: how long the question took to the engine.
        back_ns: how long the answer took back.
    """
    t1 = ahead_ns
    t2 = t3 = there_ns
    t4 = there_ns + back_ns + ahead_ns
    return SyncResult(((t2 - t1) + (t3 - t4)) // 2, (t4 - t1) - (t3 - t2))


def synchronised(ahead_ns: int, leg_ns: int, chance: np.random.Generator) -> SyncResult:
    """The best of ``ATTEMPTS`` exchanges whose legs take ``leg_ns`` or more, each by itself.

    What is more than ``leg_ns`` is exponential with that mean.
    """
    legs = leg_ns + chance.exponential(leg_ns, (ATTEMPTS, 2)).astype(np.int64)
    there, back = legs[legs.sum(axis=1).argmin()].tolist()
    return exchange(ahead_ns, there, back)
