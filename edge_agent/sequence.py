"""Sequence numbers per stream (R19 3.2.1), under an incarnation id per start of the agent.

A number is local to (source, stream, incarnation). A restarted device has forgotten its last
number; without an incarnation its new 0, 1, 2... would look like duplicates of old events, and
continuing elsewhere would look like a gap. So every start brings an id of its own, and
numbers begin at ``first_seq`` again.
"""

from __future__ import annotations

from typing import Final

from edge_agent.errors import SettingsError
from edge_agent.limits import COUNTER_MAX

SEQ_MAX: Final = COUNTER_MAX
"""No number reaches this: sums of a number and a count stay far inside int64."""


class Numbers:
    """Next number of each of ``streams`` streams of one incarnation."""

    def __init__(self, streams: int, incarnation: int, first_seq: int = 0) -> None:
        """Starts each stream at ``first_seq``.

        Raises:
            SettingsError: incarnation or first number is not in [0, 2**62).
        """
        if not 0 <= incarnation < SEQ_MAX:
            raise SettingsError(f"incarnation {incarnation} is not in [0, 2**62)")
        if not 0 <= first_seq < SEQ_MAX:
            raise SettingsError(f"first number {first_seq} is not in [0, 2**62)")
        self.incarnation = incarnation
        self.first_seq = first_seq
        self.next = [first_seq] * streams

    def take(self, stream: int, count: int) -> int:
        """The first of ``count`` consecutive numbers of ``stream``, now used up."""
        assert count >= 0
        first = self.next[stream]
        assert first + count < SEQ_MAX
        self.next[stream] = first + count
        return first
