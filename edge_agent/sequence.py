"""Sequence numbers per stream (R19 3.2.1), under an incarnation id per start of the agent.

A number is local to (source, stream, incarnation). A restarted device has forgotten its last
number; without an incarnation its new 0, 1, 2... would look like duplicates of old events, and
continuing elsewhere would look like a gap. So every start brings an id of its own, and
numbers begin at ``first_seq`` again.

**The contract of incarnations** (SPEC 3.1), told here and nowhere else: *each start of a source has
a larger incarnation than every start before it*. The engine takes the events of a smaller one for
late, so the gateway lets none in. What a device hands in should be a counter on its disk, or its
wall clock in ns at its start; it need not be right, as disks and clocks are set back:

* The gateway refuses a HELLO whose incarnation is not above all that it knows of the source with
  the ERROR ``stale_incarnation``, which names the one to exceed. An agent that was never welcomed
  has sent nothing, so it takes the next one and says HELLO again; ``AgentSession.incarnation`` is
  the one in force, to be stored where the next start will count on from it.
* It refuses one that is more than 36 years (2^60 ns) ahead of its clock, or of the one before if
  that is later, with ``incarnation_ahead``: the largest would keep every later start out. The ERROR
  names one to exceed by little, and the agent does.
* Two starts may say the same incarnation. ``start``, 64 random bits in the HELLO, tells them apart
  for a gateway that has heard the first one; where only the log remembers that one, the WELCOME
  has numbers in it that the second one never sent, and that tells the agent.
* A disk may lose what was sent. Then the WELCOME has numbers that this process does not have, or
  has given to new events; the agent goes on as a new start, with the next incarnation, and sends
  by it what no process has sent (``edge_agent.outbox``).
* An agent that was welcomed before is refused for good: another start has taken its name, and
  were both to raise theirs, each would throw out the other for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from edge_agent.errors import SettingsError, WireError
from edge_agent.messages import ErrorMessage
from edge_agent.records import COUNTER_MAX

SEQ_MAX: Final = COUNTER_MAX
AHEAD: Final = "incarnation_ahead"
"""No number reaches this: sums of a number and a count stay far inside int64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """Where a process goes on with the start that another one made, as an outbox remembers it.

    It says the same incarnation and ``start``, so for the gateway it is the same start of the
    agent: events that were numbered keep their numbers.
    """

    start: int
    welcomed: bool
    """Whether a gateway has taken this start, as far as is known: told before anything is sent."""
    next_seqs: tuple[int, ...]
    """Per stream the number that the next event gets."""
    acked: tuple[int, ...]
    """Per stream the number up to which everything is acked, or is gone."""
    again: bool = False
    """Whether other processes went on with it before."""
    control_first: int
    """Above every control number that processes before this one have used."""
    unsent: tuple[int, ...]
    """Per stream the number from which on no process before this one has sent anything."""

    @classmethod
    def nothing(cls, streams: int, start: int) -> Resumed:
        """Of a start that is new."""
        none = (0,) * streams
        return cls(
            start=start, welcomed=False, next_seqs=none, acked=none, control_first=0,
            unsent=none,
        )  # fmt: skip

    def numbers(self, incarnation: int) -> Numbers:
        """The numbers of this start; raises SettingsError when ``incarnation`` cannot be one."""
        made = Numbers(len(self.next_seqs), incarnation, start=self.start)
        made.welcomed, made.again = self.welcomed, self.again
        made.next = list(self.next_seqs)
        return made


class Numbers:
    """Next number of each of ``streams`` streams of one incarnation."""

    def __init__(self, streams: int, incarnation: int, first_seq: int = 0, start: int = 0) -> None:
        """Starts each stream at ``first_seq``; ``start``: see the module.

        Raises:
            SettingsError: incarnation or first number is not in [0, 2**62).
        """
        if not 0 <= incarnation < SEQ_MAX:
            raise SettingsError(f"incarnation {incarnation} is not in [0, 2**62)")
        if not 0 <= first_seq < SEQ_MAX:
            raise SettingsError(f"first number {first_seq} is not in [0, 2**62)")
        self.incarnation = incarnation
        self.first_seq = first_seq
        self.start = start
        self.welcomed = False
        """Whether a gateway has taken this incarnation: it stays what it is from then on."""
        self.again = False
        self.next = [first_seq] * streams

    def foreign(self, welcomed: Sequence[int], acked: Mapping[int, int]) -> bool:
        """Whether a WELCOME speaks of another start, as nothing of this one was sent yet.

        A process that goes on with a start cannot tell: the one before it may have sent something.
        ``welcomed``: the next control number and those of the streams; ``acked``: the same, by
        lane, as this agent knows them.
        """
        beyond = any(next_ > known for next_, known in zip(welcomed, acked.values(), strict=False))
        return not self.welcomed and not self.again and beyond

    def foreign_start(self) -> ErrorMessage:
        """What the gateway would have said, had it known that such a WELCOME was for another."""
        detail = f"another start has sent numbers as incarnation {self.incarnation}"
        return ErrorMessage("stale_incarnation", detail, retry=True, above=self.incarnation)

    def exceed(self, incarnation: int) -> bool:
        """Takes the next larger incarnation than this one; False: it must not, or there is none."""
        if self.welcomed or incarnation + 1 >= SEQ_MAX:
            return False
        self.incarnation = incarnation + 1
        return True

    def take(self, stream: int, count: int) -> int:
        """The first of ``count`` consecutive numbers of ``stream``, now used up."""
        assert count >= 0
        first = self.next[stream]
        assert first + count < SEQ_MAX
        self.next[stream] = first + count
        return first


def check_acks(acks: Sequence[int], made: Sequence[int]) -> None:
    """Refuses acks, of controls and of each stream, that are not of what was ``made``.

    Raises:
        WireError: ``ack``.
    """
    if len(acks) != len(made):
        raise WireError("ack", f"{len(acks) - 1} numbers for {len(made) - 1} streams")
    if any(ack > own for ack, own in zip(acks, made, strict=True)):
        raise WireError("ack", "numbers acked that were never sent")
