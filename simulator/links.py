"""A link in one direction: whether, when and how many times a message arrives at the other end.

The link is a separate object; sender and receiver know nothing about delay (SimPy's ``Cable``). It
is sans-IO: ``transmit`` returns the instants of arrival, the world schedules them. The steps for a
message, in this order:

1. outage: a message that enters during one is lost;
2. loss model;
3. queue in front of the bottleneck: ``rate_bytes_per_s`` drains it, what does not fit is lost
   (drop tail);
4. duplication: a copy with a delay of its own;
5. delay; with ``fifo`` no message of a connection overtakes an earlier one.

``reliable`` links behave like TCP: a loss (1, 2) costs a retransmission timeout that doubles
from attempt to attempt, a full queue makes the sender wait, and nothing is copied, so that nothing
is lost; later messages of the connection wait behind it. Retransmissions do not pass the queue
again. On other links the caller states for each message whether it ``may_fail``: the network allows
losses of messages with events and of datagrams; HELLOs, reports and acks always arrive, as with
real devices, where events are lost in queues and not by TCP.

>>> from slackwater.simulator.seeds import Seeds
>>> settings = LinkSettings(delay=Constant(delay_ns=100), rate_bytes_per_s=10**9, queue_bytes=50)
>>> link = Link(settings, Seeds(1), "example", Place(origin_ns=0, data=Path()))
>>> [link.transmit(0, size_bytes=40, events=1) for _ in range(2)], link.counts.queue_dropped
([(140,), ()], Tally(messages=1, events=1))
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from slackwater.simulator.delays import Constant
from slackwater.simulator.losses import Bernoulli, LossSettings, parse_loss
from slackwater.simulator.recorded import DelaySettings, build_delay, parse_delay
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.settings import check, parse_many, parse_share, parsed_by

SECOND: Final = 10**9
RETRANSMISSIONS_MAX: Final = 100
"""After this many, the connection counts as broken and the message as lost."""
RETRANSMIT_TIMEOUT_MAX_NS: Final = 60 * SECOND


@dataclass(frozen=True, slots=True)
class Outage:
    """Nothing passes in [start, start + length), and again every ``every_ns`` if given."""

    start_ns: int
    length_ns: int
    every_ns: int | None = None

    def __post_init__(self) -> None:
        check(self.start_ns >= 0, "start", "must not be negative")
        check(self.length_ns > 0, "length", "must be positive")
        long = self.every_ns is None or self.every_ns > self.length_ns
        check(long, "every", "must be longer than length")

    def covers(self, since_ns: int) -> bool:
        """Whether ``since_ns`` after the run's start lies in the outage."""
        within = since_ns - self.start_ns
        if within < 0:
            return False
        return (within if self.every_ns is None else within % self.every_ns) < self.length_ns


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """One direction of a link.

    Attributes:
        delay: a law (``simulator.delays``) or a recording (``simulator.recorded``).
        correlation: of neighbouring delays, in [0, 1).
        fifo: no overtaking within one connection.
        reliable: losses become retransmissions.
        retransmit_timeout_ns: wait before the first retransmission, then doubled.
        loss: a loss model.
        duplicate: probability that a message arrives twice; not on reliable links.
        rate_bytes_per_s: of the bottleneck, None = infinite; all connections share it.
        queue_bytes: room in front of the bottleneck.
        outages: when nothing passes.
    """

    delay: DelaySettings = field(default=Constant(delay_ns=0), metadata=parsed_by(parse_delay))
    correlation: float = field(default=0.0, metadata=parsed_by(parse_share))
    fifo: bool = True
    reliable: bool = False
    retransmit_timeout_ns: int = 200_000_000
    loss: LossSettings = field(default=Bernoulli(), metadata=parsed_by(parse_loss))
    duplicate: float = field(default=0.0, metadata=parsed_by(parse_share))
    rate_bytes_per_s: int | None = None
    queue_bytes: int = 1_000_000
    outages: tuple[Outage, ...] = field(
        default=(), metadata=parsed_by(lambda value, place: parse_many(Outage, value, place))
    )

    def __post_init__(self) -> None:
        check(0 <= self.correlation < 1, "correlation", "must lie in 0..1, below 1")
        check(0 <= self.duplicate <= 1, "duplicate", "must lie in 0..1")
        check(self.retransmit_timeout_ns > 0, "retransmit_timeout", "must be positive")
        rate = self.rate_bytes_per_s is None or self.rate_bytes_per_s > 0
        check(rate, "rate_bytes_per_s", "must be positive")
        check(self.queue_bytes > 0, "queue_bytes", "must be positive")

    def datagrams(self) -> LinkSettings:
        """The same path for datagrams: independent, and never sent again."""
        return replace(self, fifo=False, reliable=False)


@dataclass(slots=True)
class Tally:
    """A number of messages and of the events in them."""

    messages: int = 0
    events: int = 0

    def add(self, events: int) -> None:
        self.messages += 1
        self.events += events

    def remove(self, events: int) -> None:
        self.messages -= 1
        self.events -= events


@dataclass(slots=True)
class LinkCounts:
    """Fates of all messages that entered a link; ``balance`` must be zero.

    Attributes:
        entered: given to ``transmit``.
        left: arrivals returned, including copies.
        copied: additional arrivals by duplication.
        lost: by the loss model (or, on a reliable link, by a broken connection).
        cut: by an outage.
        queue_dropped: no room in the queue.
        retransmitted: losses repaired by sending again (reliable links).
        queue_waited: found the queue full and waited (reliable links).
    """

    entered: Tally = field(default_factory=Tally)
    left: Tally = field(default_factory=Tally)
    copied: Tally = field(default_factory=Tally)
    lost: Tally = field(default_factory=Tally)
    cut: Tally = field(default_factory=Tally)
    queue_dropped: Tally = field(default_factory=Tally)
    retransmitted: Tally = field(default_factory=Tally)
    queue_waited: Tally = field(default_factory=Tally)

    def balance(self) -> tuple[int, int]:
        """In minus out: entered + copied - left - lost - cut - queue_dropped.

        Returns:
            The sum in messages and in events; (0, 0) unless there is a programming error.
        """
        gain = (self.entered, self.copied)
        gone = (self.left, self.lost, self.cut, self.queue_dropped)
        messages = sum(t.messages for t in gain) - sum(t.messages for t in gone)
        return messages, sum(t.events for t in gain) - sum(t.events for t in gone)


@dataclass(frozen=True, slots=True)
class Place:
    """Context of a world: start of virtual time, and the directory of recordings."""

    origin_ns: int
    data: Path


class Bottleneck:
    """The queue and the rate that all connections of one direction share."""

    def __init__(self, settings: LinkSettings) -> None:
        self._rate = settings.rate_bytes_per_s
        self._room = settings.queue_bytes
        self._free_ns = 0

    def full(self, now_ns: int, size_bytes: int) -> bool:
        """Whether ``size_bytes`` more do not fit; an empty queue takes any message."""
        if self._rate is None or self._free_ns <= now_ns:
            return False
        waiting = -(-(self._free_ns - now_ns) * self._rate // SECOND)
        return waiting + size_bytes > self._room

    def passed(self, now_ns: int, size_bytes: int) -> int:
        """The instant at which the message has left the bottleneck."""
        if self._rate is None:
            return now_ns
        self._free_ns = max(self._free_ns, now_ns) - (-size_bytes * SECOND // self._rate)
        return self._free_ns


class Link:
    """One connection in one direction.

    Args:
        settings: of this direction.
        seeds: gives the link its generators, ``NAME/delay``, ``NAME/loss``, ``NAME/copy``.
        name: of this connection and direction, unique in the world.
        place: start of time and directory of recordings.
        bottleneck: shared with the other connections of this direction; None: its own.
    """

    def __init__(
        self,
        settings: LinkSettings,
        seeds: Seeds,
        name: str,
        place: Place,
        bottleneck: Bottleneck | None = None,
    ) -> None:
        self.settings = settings
        self.counts = LinkCounts()
        self._origin_ns = place.origin_ns
        self._delay = build_delay(
            settings.delay,
            seeds.generator(f"{name}/delay"),
            settings.correlation,
            place.origin_ns,
            place.data,
        )
        self._loss = settings.loss.build(seeds.generator(f"{name}/loss"))
        self._copy = Bernoulli(settings.duplicate).build(seeds.generator(f"{name}/copy"))
        self._bottleneck = bottleneck or Bottleneck(settings)
        self._latest_ns = 0
        # Most links only delay: determined once, not for each message.
        self._only_delays = not settings.outages and settings.rate_bytes_per_s is None
        self._only_delays &= settings.loss == Bernoulli() and not settings.duplicate

    def transmit(
        self, now_ns: int, size_bytes: int, events: int, may_fail: bool = True
    ) -> tuple[int, ...]:
        """Take a message at true time ``now_ns``; call in order of time.

        Args:
            now_ns: when it enters.
            size_bytes: its size, for the bottleneck.
            events: number of its events, for the counts.
            may_fail: False: it passes as on a reliable link.

        Returns:
            The instants at which it arrives: none, one, or (duplicated) two.
        """
        counts = self.counts
        entered = counts.entered
        entered.messages += 1
        entered.events += events
        if self._only_delays:
            left = counts.left
            left.messages += 1
            left.events += events
            return (self._arrival(now_ns),)
        reliable = self.settings.reliable or not may_fail
        start_ns = self._entry(now_ns, events, reliable)
        if start_ns is None:
            return ()
        if self._bottleneck.full(now_ns, size_bytes):
            if not reliable:
                counts.queue_dropped.add(events)
                return ()
            counts.queue_waited.add(events)
        start_ns += self._bottleneck.passed(now_ns, size_bytes) - now_ns
        arrivals: tuple[int, ...] = (self._arrival(start_ns),)
        if not reliable and self._copy.lost():
            counts.copied.add(events)
            counts.left.add(events)
            arrivals += (self._arrival(start_ns),)
        counts.left.add(events)
        return arrivals

    def _entry(self, now_ns: int, events: int, reliable: bool) -> int | None:
        """When the successful attempt enters the link; None if there is none."""
        settings, counts = self.settings, self.counts
        at_ns, wait_ns = now_ns, settings.retransmit_timeout_ns
        for _ in range(RETRANSMISSIONS_MAX):
            since = at_ns - self._origin_ns
            cut = any(outage.covers(since) for outage in settings.outages)
            if not cut and not self._loss.lost():
                return at_ns
            if not reliable:
                (counts.cut if cut else counts.lost).add(events)
                return None
            counts.retransmitted.add(events)
            at_ns += wait_ns
            wait_ns = min(2 * wait_ns, RETRANSMIT_TIMEOUT_MAX_NS)
        counts.lost.add(events)
        return None

    def _arrival(self, start_ns: int) -> int:
        at_ns, latest_ns = start_ns + self._delay.sample(start_ns), self._latest_ns
        if at_ns < latest_ns:
            return latest_ns if self.settings.fifo else at_ns
        self._latest_ns = at_ns
        return at_ns

    def close(self, now_ns: int) -> int:
        """When the other end learns that the connection was closed: after all that was sent."""
        return max(now_ns + self._delay.sample(now_ns), self._latest_ns)
