"""Sequence numbers per stream (R19 3.2.1), under an incarnation id per start of the agent.

A number is local to (source, stream, incarnation). A restarted device does not know its last
number; without an incarnation its new 0, 1, 2... would look like duplicates of old events, and
other numbers like a gap. So every start has its own id, and numbers restart at ``first_seq``.

**The contract of incarnations** (SPEC 3.1): *each start of a source has a larger incarnation than
every start before it*. The engine would treat events of a smaller one as late, so the gateway
refuses it. A device should use a counter on its disk, or its wall clock at the start [ns]. Both may
be wrong, as disks and clocks may be set back:

* The gateway refuses a HELLO whose incarnation is not above all that it knows of the source with
  the ERROR ``stale_incarnation``, which names the one to exceed. An agent that was never welcomed
  has sent nothing, so it takes the next one and sends HELLO again. ``AgentSession.incarnation`` is
  the one in use; it must be stored if the next start counts on from it.
* It refuses one that is more than 36 years (2^60 ns) ahead of its clock, or of the previous one if
  that is later, with ``incarnation_ahead``: the largest would block every later start. The ERROR
  names one to exceed by little, and the agent does so.
* Two starts may have the same incarnation. ``start``, 64 random bits in the HELLO, distinguishes
  them for a gateway that knows the first one. If only the log knows the first one, the WELCOME has
  numbers that the second one never sent, which shows the conflict to the agent.
* A disk may lose what was sent. Then the WELCOME has numbers that this process does not have, or
  has given to new events. The agent continues as a new start with the next incarnation, and sends
  the events that no process has sent (``edge_agent.outbox``).
* An agent that was welcomed before is refused for good: another start uses its name, and if both
  raised their incarnations they would displace each other forever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from slackwater.edge_agent.errors import SettingsError, WireError
from slackwater.edge_agent.messages import ErrorMessage
from slackwater.edge_agent.records import COUNTER_MAX

SEQ_MAX: Final = COUNTER_MAX
"""Numbers are below this: sums of a number and a count stay within int64."""
AHEAD: Final = "incarnation_ahead"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedStart:
    """State with which a process continues a start of an earlier process, from an outbox.

    It uses the same incarnation and ``start``, so for the gateway it is the same start of the
    agent, and numbered events keep their numbers.
    """

    start: int
    welcomed: bool
    """Whether a gateway has accepted this start, which precedes any event."""
    next_seqs: tuple[int, ...]
    """Per stream the number of the next event."""
    acked: tuple[int, ...]
    """Per stream the number below which every event is acked or lost."""
    again: bool = False
    """Whether an earlier process has resumed this start, too."""
    control_first: int
    """Above every control number of earlier processes."""
    unsent: tuple[int, ...]
    """Per stream the first number that no earlier process has sent."""

    @classmethod
    def nothing(cls, streams: int, start: int) -> ResumedStart:
        """State of a new start."""
        none = (0,) * streams
        return cls(
            start=start, welcomed=False, next_seqs=none, acked=none, control_first=0,
            unsent=none,
        )  # fmt: skip

    def numbers(self, incarnation: int) -> Numbers:
        """Counters of this start; raises SettingsError for an invalid ``incarnation``."""
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
        """Whether a gateway has accepted this incarnation, which is final from then on."""
        self.again = False
        self.next = [first_seq] * streams

    def foreign(self, welcomed: Sequence[int], acked: Mapping[int, int]) -> bool:
        """Whether a WELCOME is about another start: it has numbers, and this start sent none.

        False for a resumed start, because an earlier process may have sent something. ``welcomed``:
        the next control number and those of the streams; ``acked``: the same per lane, as this
        agent knows it.
        """
        beyond = any(next_ > known for next_, known in zip(welcomed, acked.values(), strict=False))
        return not self.welcomed and not self.again and beyond

    def foreign_start(self) -> ErrorMessage:
        """The error for a WELCOME about another start."""
        detail = f"another start has sent numbers as incarnation {self.incarnation}"
        return ErrorMessage("stale_incarnation", detail, retry=True, above=self.incarnation)

    def exceed(self, incarnation: int) -> bool:
        """Raise the incarnation above this one; False: it is final, or the largest."""
        if self.welcomed or incarnation + 1 >= SEQ_MAX:
            return False
        self.incarnation = incarnation + 1
        return True

    def take(self, stream: int, count: int) -> int:
        """Use ``count`` consecutive numbers of ``stream``; return the first."""
        assert count >= 0
        first = self.next[stream]
        assert first + count < SEQ_MAX
        self.next[stream] = first + count
        return first


def check_acks(acks: Sequence[int], next_numbers: Sequence[int]) -> None:
    """Refuse acks of numbers that were never sent.

    Args:
        acks: the ack of the controls, then of each stream.
        next_numbers: the next number of each.

    Raises:
        WireError: ``ack``: a number was never sent.
    """
    if len(acks) != len(next_numbers):
        raise WireError("ack", f"{len(acks) - 1} numbers for {len(next_numbers) - 1} streams")
    if any(ack > next_number for ack, next_number in zip(acks, next_numbers, strict=True)):
        raise WireError("ack", "numbers acked that were never sent")


# Counters of devices behind an agent: events lost before the agent, and repeated ones.
#
# The agent numbers events itself. Only a device's own number reveals losses before the agent; it is
# checked and counted here, and not sent on.


DEVICES_MAX: Final = 4_096
"""Devices per input whose counters are followed; beyond, the least recent is dropped."""
COMPARED: Final = 64
"""Newest numbers of each device whose content is remembered."""


@dataclass(slots=True)
class _Counter:
    """``newest``: extended to 64 bits; ``ts``: of its event; ``skipped``: whether an event without
    a number followed.
    """

    newest: int
    ts: int
    skipped: bool = False
    content: dict[int, int] = field(default_factory=dict)
    """Number -> hash of its first event."""


class DeviceCounters:
    """Counters of ``bits`` bits of one input's devices; ``newest`` and ``resume`` carry them over a
    restart.

    ``counts``: ``device_lost``: skipped numbers; ``device_late``: those that arrived later;
    ``device_copies``: repeated events, dropped; ``device_reused``: events with another event's
    number; ``device_unnumbered``: events without one; ``device_restarts``.

    >>> counters = DeviceCounters(8)
    >>> [counters.is_copy("meter", n, ts, n) for ts, n in enumerate([254, 255, 1, 1])]
    [False, False, False, True]
    >>> dict(counters.counts)
    {'device_lost': 1, 'device_copies': 1}
    """

    def __init__(self, bits: int) -> None:
        self.counts: Counter[str] = Counter()
        self.bits = bits
        self._devices: dict[str, _Counter] = {}

    def newest(self) -> dict[str, list[int]]:
        """State per device for ``resume``, the least recent device first."""
        return {
            device: [known.newest, known.ts, int(known.skipped)]
            for device, known in self._devices.items()
        }

    def resume(self, newest: Mapping[str, Sequence[int]]) -> None:
        """Continue where the agent stopped: numbers in between count as lost."""
        for device, (number, ts, skipped) in newest.items():
            self._devices[device] = _Counter(number, ts, bool(skipped))

    def is_copy(self, device: str, number: int | None, ts: int, content: Hashable) -> bool:
        """Whether an event with this number and content was seen before; ``number`` None: False."""
        known = self._devices.pop(device, None)
        if number is None:
            self.counts["device_unnumbered"] += 1
            if known is not None:
                known.skipped = True
                self._devices[device] = known
            return False
        if known is None:
            known = _Counter(number - 1, ts)
            if len(self._devices) >= DEVICES_MAX:
                del self._devices[next(iter(self._devices))]
        self._devices[device] = known
        return self._is_copy(known, number, ts, hash(content))

    def _is_copy(self, known: _Counter, number: int, ts: int, content: int) -> bool:
        modulus = 1 << self.bits
        last, later = known.newest % modulus, ts > known.ts
        # Some devices skip number 0.
        first = number == 0 or (number == 1 and known.skipped)
        again = known.content.get(known.newest) == content and number == last
        if first and later and not again and number <= last < modulus - modulus // 4:
            self.counts["device_restarts"] += 1
            known.newest, known.content = number - 1, {}
        by = (number - known.newest) % modulus
        if by > modulus // 2 and not (later and modulus - by > 1 << self.bits // 2):
            by -= modulus
        whole = known.newest + by
        if whole in known.content:
            same = known.content[whole] == content
            self.counts["device_copies" if same else "device_reused"] += 1
            return same
        known.content[whole] = content
        if len(known.content) > COMPARED:
            del known.content[next(iter(known.content))]
        if by <= 0:
            self.counts["device_late"] += 1
            return False
        over_zero = known.skipped and whole // modulus > known.newest // modulus and whole % modulus
        if lost := by - 1 - bool(over_zero):
            self.counts["device_lost"] += lost
        known.newest, known.ts, known.skipped = whole, ts, False
        return False
