"""Gateway core: many connections write one arrival log per site and get acks back.

Sans-IO: the caller passes bytes, datagrams and the engine's clock; ``outputs()`` returns what to
send. Arrival is the engine's clock when the bytes came, made monotone. The gateway either records
what a peer sends, or refuses, counts and keeps it. It acks what the sink has made durable.

Numbers of a message whose *content* is refused count as received (the message is kept in the dead
letters), because resending the same bytes would not help; the engine sees them as missing.

After a failure of the sink (OSError) writing is retried; nothing is acked until it succeeds, and
when the memory for waiting frames is full, peers are asked to return later. While the sink is
slow the gateway is ``congested``, and its driver stops reading. What it must know of a log that it
continues is passed as ``Recalled``.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.edge_agent.errors import NtpRefused, WireError
from slackwater.edge_agent.pull_back import BatchSlice
from slackwater.engine.gateway.content import Refusal
from slackwater.engine.gateway.counters import Counters
from slackwater.engine.gateway.intake import Intake, Site
from slackwater.engine.gateway.outputs import (
    LATER,
    ArrivalClock,
    CloseConnection,
    DeadLetters,
    Output,
    Send,
    Sink,
    Timers,
)
from slackwater.engine.gateway.peers import Admission, Lane, Peer, Source
from slackwater.engine.gateway.recall import Recalled
from slackwater.engine.gateway.settings import Addresses, GatewaySettings

# From closed frames to acks: frames go to the sink and are durable when it says so.
#
# A sink that writes in its own thread answers ``flush`` with LATER. The content of frames up to
# then, a *flight*, is durable when the sink reports it. While the sink is behind, few flights wait:
# frames stay open and grow, so that a slow disk gets fewer and larger writes.


FLIGHTS_MAX: Final = 16
"""While this many flights wait for the sink, frames stay open."""


class _Flight(NamedTuple):
    """``written``: per lane, the number up to which it is included; ``bytes``: approximate size."""

    sources: list[Source]
    written: list[tuple[Lane, int]]
    bytes: int


class Commits:
    """What the sink was given, and how much of it is durable.

    Attributes:
        error: the sink's failure at the last attempt; None: there was none.
        waiting_bytes: size of all open frames and of those that are not durable.
        due: whether ``flush`` has something to do.
    """

    def __init__(self, sink: Sink) -> None:
        self.error: OSError | None = None
        self.waiting_bytes = 0
        self.due = False
        self._sink = sink
        self._written: dict[Source, None] = {}
        """Sources with records in frames that the sink has and was not asked to flush."""
        self._bytes = 0
        self._unflushed = False
        self._flights: deque[_Flight] = deque()
        self._done = 0

    @property
    def room(self) -> bool:
        """Whether due frames may be closed; otherwise they stay open until ``flushed``."""
        return len(self._flights) < FLIGHTS_MAX and not (self._flights and self.error)

    def append(self, site: Site) -> None:
        """Close the site's frame and give it to the sink.

        Raises:
            OSError: from the sink; the frame stays open.
        """
        if site.builder.rows:
            self._sink.append(site.builder.build())
            self._unflushed = True
            self._bytes += site.builder.bytes
        for source in site.flushed():
            for lane in (source.control, *source.lanes):
                lane.written = lane.received.next
            self._written[source] = None
        self.due = self._unflushed or bool(self._written)

    def flush(self) -> Iterable[Source]:
        """Ask the sink for progress; return the sources with more durable events.

        Raises:
            OSError: from the sink; call again.
        """
        later = self._sink.flush() is LATER if self._unflushed else False
        self._unflushed = False
        sources = list(self._written)
        lanes = [(lane, lane.written) for s in sources for lane in (s.control, *s.lanes)]
        self._flights.append(_Flight(sources, lanes, self._bytes))
        self._written, self._bytes, self.due = {}, 0, False
        if later:
            return ()
        if len(self._flights) > 1:
            # No record of these is in a frame, but earlier messages must be durable first.
            last = self._flights.pop()
            before = self._flights.pop()
            joined = {**dict.fromkeys(before.sources), **dict.fromkeys(last.sources)}
            written = [*before.written, *last.written]
            self._flights.append(_Flight(list(joined), written, before.bytes + last.bytes))
            return ()
        return self._landed(1)

    def flushed(self, count: int) -> Iterable[Source]:
        """Take the sink's report of ``count`` flushes in all; return as ``flush``."""
        new, self._done = count - self._done, count
        return self._landed(new)

    def _landed(self, count: int) -> Iterable[Source]:
        self.error = None
        sources: dict[Source, None] = {}
        for _ in range(count):
            flight = self._flights.popleft()
            self.waiting_bytes -= flight.bytes
            for lane, written in flight.written:
                lane.durable = max(lane.durable, written)
            sources.update(dict.fromkeys(flight.sources))
        return sources


# Gateway core: many connections write one arrival log per site and get acks back.


__all__ = [
    "CloseConnection",
    "GatewayCore",
    "GatewaySettings",
    "Output",
    "Recalled",
    "Send",
    "Sink",
]

TIMERS_PER_WAKE: Final = 64
"""Most timers per ``wake``, which is then due again at once: thousands of sites that are due
together must not keep the driver from its connections."""
_COMMIT: Final = "commit"


class GatewayCore:
    """All connections of one gateway. ``connection`` is a unique hashable key."""

    def __init__(
        self, settings: GatewaySettings, sink: Sink, dead_letters: DeadLetters | None = None,
        recalled: Recalled | None = None,
    ) -> None:  # fmt: skip
        """``recalled``: knowledge of the log that ``sink`` continues; None: a new log."""
        recalled = Recalled() if recalled is None else recalled
        self.settings = settings
        self.dead_letters = DeadLetters() if dead_letters is None else dead_letters
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """By (site, source, reason), the first two "" while unknown. Events: ``received`` =
        ``recorded`` + ``duplicate`` + ``refused`` + ``put_off``, and ``given_up``;
        ``reused`` is part of ``recorded``. All other reasons count messages, connections,
        datagrams, or failures (``sink_failed``)."""
        self.clock = ArrivalClock(recalled.last_arrival)
        self._commits = Commits(sink)
        self.admission = Admission(settings, recalled)
        self.counters = Counters(settings, recalled)
        self._intake = Intake(self.counts, settings, self.dead_letters, self.counters)
        self._peers: dict[Hashable, Peer] = {}
        self._addresses = Addresses(settings)
        self._half_bytes = 0
        self._sites: dict[str, Site] = {}
        self._waiting_sites: dict[str, Site] = {}
        """Sites whose frames are due and stay open until the sink has room."""
        self.timers = Timers()
        self._outputs: list[Output] = []

    @property
    def sink_error(self) -> OSError | None:
        """The sink's failure at the last attempt; None: there was none."""
        return self._commits.error

    @property
    def congested(self) -> bool:
        """Whether the sink is behind and half the memory is used: the driver should stop
        reading.
        """
        waiting, error = self._commits.waiting_bytes, self._commits.error
        return error is None and 2 * waiting > self.settings.waiting_bytes_max

    def outputs(self) -> list[Output]:
        """What the driver must do, in this order. Drained; call it after every input."""
        made, self._outputs = self._outputs, []
        return made

    def connected(self, connection: Hashable, now_ns: int, host: str) -> None:
        """A peer at address ``host`` connected; it must send HELLO within ``hello_timeout_ns``."""
        arrival = self.clock.advance(now_ns)
        assert connection not in self._peers
        refusal = self._addresses.refusal(host, arrival)
        if refusal is not None:
            self.counts["", "", refusal.reason] += 1
            self._close(connection, refusal)
        else:
            self._peers[connection] = Peer(connection, host)
            self._addresses.opened(host)
            self.timers.set(("peer", connection), arrival + self.settings.hello_timeout_ns)

    def disconnected(self, connection: Hashable, now_ns: int) -> None:
        """A connection is gone; harmless if it was refused or closed before."""
        self.clock.advance(now_ns)
        self._remove(connection)

    def received(self, connection: Hashable, data: bytes | BatchSlice, now_ns: int) -> int:
        """Take bytes of a connection, or a ``BatchSlice`` where messages come whole; their records
        arrive now. Returns the number of events in them.
        """
        arrival = self.clock.advance(now_ns)
        peer = self._peers.get(connection)
        if peer is None:
            self.counts["", "", "closed_connection"] += 1
            return 0
        whole = events = 0
        try:
            for message in (data,) if isinstance(data, BatchSlice) else peer.decoder.feed(data):
                whole += 1
                events += message.rows if isinstance(message, (m.Data, BatchSlice)) else 0
                self._take(peer, message, arrival)
                if connection not in self._peers:
                    break
        except WireError as error:
            self._refuse(peer, Refusal(error.reason, error.detail, retry=True), error.sample)
        if not isinstance(data, BatchSlice):
            self._watch_rest(peer, whole, arrival)
        if self._commits.due or self._intake.pull_back.moved:
            self._commit_if_due()
        return events

    def datagram_received(self, data: bytes, received_ns: int, sent_ns: int) -> bytes | None:
        """Answer an NTP question; None: no answer.

        ``received_ns`` and ``sent_ns``: the engine's clock at its arrival and at its departure.
        """
        ahead = self.clock.ahead_ns
        try:
            return self.admission.time(data, received_ns + ahead, sent_ns + ahead)
        except NtpRefused as refused:
            self.counts["", "", f"ntp_{refused.reason}"] += 1
            return None

    def next_wake(self) -> int | None:
        """Instant of the engine's clock by which ``wake`` must be called."""
        due = self.timers.next_due()
        return None if due is None else self.clock.engine_ns(due)

    def wake(self, now_ns: int) -> None:
        """Handle due ticks, frames and silent peers; harmless if nothing is due.

        If too many are due, some are left and ``next_wake`` is not later than ``now_ns``.
        """
        due = self.next_wake()
        if due is None or now_ns < due:
            return
        arrival = self.clock.advance(now_ns)
        for _ in range(TIMERS_PER_WAKE):
            match self.timers.pop_due(arrival):
                case None:
                    break
                case ("peer", connection):
                    self._too_slow(self._peers[connection])
                case ("site", name):
                    self._site_due(self._sites[str(name)], arrival)
                case ("ask", _):
                    for source, request in self._intake.pull_back.requests(arrival):
                        self._tell(source, request)
                case _:
                    self._commit_later()
        self._commit_if_due()

    def finish(self, now_ns: int) -> None:
        """Stop the gateway: close and ack every frame.

        Raises:
            OSError: from the sink; frames that it did not take are kept for another call.
        """
        self.clock.advance(now_ns)
        for site in self._sites.values():
            self._commits.append(site)
        self._ack(self._commits.flush())

    def flushed(self, count: int, now_ns: int) -> None:
        """The sink, which answered LATER, has done ``count`` flushes in all."""
        arrival = self.clock.advance(now_ns)
        self._ack(self._commits.flushed(count))
        waiting, self._waiting_sites = self._waiting_sites, {}
        for site in waiting.values():
            site.awaits_flush, site.frame_due = False, arrival
            self.timers.set(site.timer, site.due)

    def flush_failed(self, error: OSError) -> None:
        """The sink has failed; it or the gateway will retry."""
        self.counts["", "", "sink_failed"] += 1
        self._commits.error = error

    # --- inside

    def _close(self, connection: Hashable, why: Refusal, name: str = "") -> None:
        """Send the reason to a peer, and close its connection."""
        error = m.ErrorMessage(why.reason, why.detail[: m.TEXT_MAX], why.retry, why.above)
        self._outputs.append(Send(connection, wire.encode(error)))
        self._outputs.append(CloseConnection(connection, why.reason, why.detail, name))

    def _remove(self, connection: Hashable) -> None:
        peer = self._peers.pop(connection, None)
        if peer is None:
            return
        self._addresses.closed(peer.host)
        self.timers.set(("peer", connection), None)
        self._half_bytes -= peer.half_bytes
        peer.half_bytes = 0
        if peer.source is not None:
            peer.source.connections.pop(connection, None)
            if not peer.source.connections:
                self._left(peer.source)

    def _left(self, source: Source) -> None:
        self.admission.left(source)
        site = self._sites[source.site]
        if not source.announced:
            self._intake.forgot(source)
        if not source.announced and site.sources.get(source.name) is source:
            del site.sources[source.name]
            self._forget_if_idle(site)

    def _forget_if_idle(self, site: Site) -> None:
        # A site without sources may still have rows to write, of a superseded start.
        if not (site.sources or site.builder.rows or site.awaits_flush or site.due is not None):
            del self._sites[site.name]

    def _watch_rest(self, peer: Peer, whole: int, arrival: int) -> None:
        """Set a deadline for the rest of an incomplete message, and limit the memory of all of
        them.
        """
        if peer.connection not in self._peers:
            return
        half = peer.decoder.pending
        self._half_bytes += half - peer.half_bytes
        if peer.source is not None and (whole or not peer.half_bytes):
            due = arrival + self.settings.message_timeout_ns if half else None
            self.timers.set(("peer", peer.connection), due)
        peer.half_bytes = half
        if self._half_bytes > self.settings.half_messages_max:
            self._refuse(peer, Refusal("busy", "too many unfinished messages", retry=True))

    def _too_slow(self, peer: Peer) -> None:
        if self.congested:  # the rest may have arrived and not been read
            again = self.clock.now + self.settings.hello_timeout_ns
            self.timers.set(("peer", peer.connection), again)
        elif peer.source is None:
            self._refuse(peer, Refusal("hello_timeout", "no HELLO came", retry=True))
        else:
            self._refuse(peer, Refusal("message_timeout", "half a message came", retry=True))

    def _refuse(self, peer: Peer, why: Refusal, sample: bytes = b"", name: str = "") -> None:
        """Send the reason to the peer, close its connection and keep its message."""
        source = peer.source
        if source is None:
            self._addresses.failed(peer.host, why.reason, self.clock.now)
        site, name = (source.site, source.name) if source else ("", name)
        self.counts[*(source.key if source else ("", "")), why.reason] += 1
        letter = (site, name, str(peer.connection))
        self.dead_letters.add(
            self.clock.now, letter, why.reason, why.detail, self._without_token(source, sample)
        )
        self._close(peer.connection, why, f"{site}/{name}".strip("/"))
        self._remove(peer.connection)

    def _without_token(self, source: Source | None, sample: bytes) -> bytes:
        """The part of a message that may be kept: before a source is known, it may be a HELLO."""
        if source is None:
            return b""
        token = (self.settings.tokens or {}).get(source.key, "").encode()
        return sample.replace(token, b"*" * len(token)) if token else sample

    def _take(self, peer: Peer, message: m.Message | BatchSlice, arrival: int) -> None:
        source = peer.source
        if isinstance(message, m.Hello) or source is None:
            self._first(peer, message, arrival)
            return
        source.connections[peer.connection] = arrival
        site, commits = self._sites[source.site], self._commits
        if commits.error and commits.waiting_bytes > self.settings.waiting_bytes_max:
            self._refuse(peer, Refusal("busy", "the log cannot be written", retry=True))
            return
        builder, before = site.builder, site.builder.bytes
        match message:
            case m.Data() | BatchSlice():
                if not self._intake.fits(source, site, message):
                    self._write(site, now=True)
                    before = builder.bytes
                new = self._intake.data(peer.connection, source, site, message, arrival)
            case m.Promise() | m.Begin() | m.Sync() | m.Eos():
                new = self._intake.control(source, site, message, arrival)
            case m.MissingIntervals():
                self._intake.pull_back.answered(source, message)
                return
            case _:
                raise WireError("direction", f"{type(message).__name__} is the gateway's to say")
        commits.waiting_bytes += builder.bytes - before
        if not new:
            # A duplicate: its ack may have been lost with the connection that carried it.
            self._ack([source])
            return
        site.heard(arrival, *self.settings.rhythm(len(self._sites)))
        limits = self.settings
        full = builder.rows >= limits.frame_rows or builder.bytes >= limits.frame_bytes
        if full and commits.error is None:
            self._write(site)
        self.timers.set(site.timer, site.due)

    def _first(self, peer: Peer, hello: m.Message | BatchSlice, arrival: int) -> None:
        if peer.source is not None:
            raise WireError("hello_twice", "a connection says HELLO once")
        if not isinstance(hello, m.Hello):
            raise WireError("no_hello", "HELLO comes first")
        try:
            self.admission.check_token(hello)
            source, old = self.admission.admit(hello, arrival)
        except Refusal as refusal:
            self._refuse(peer, refusal, name=f"{hello.site}/{hello.source}")
            return
        if old is not None and old.announced:
            self._intake.forgot(old)
        for connection in list(old.connections) if old else ():
            former = self._peers[connection]
            self._refuse(former, Refusal("superseded", "a newer incarnation came", retry=False))
        oldest = min(source.connections, key=source.connections.__getitem__, default=None)
        full = len(source.connections) >= self.settings.connections_per_source
        peer.source = source
        peer.decoder.limit = m.MESSAGE_MAX
        self.timers.set(("peer", peer.connection), None)
        source.connections[peer.connection] = arrival
        if full and oldest is not None:
            self._refuse(
                self._peers[oldest], Refusal("replaced", "too many connections", retry=True)
            )
        site = self._sites.setdefault(source.site, Site(source.site))
        site.sources[source.name] = source
        self._intake.heard_again(source, site, hello, arrival, self.settings.frame_every_ns)
        self.timers.set(site.timer, site.due)
        capabilities = tuple(each for each in hello.capabilities if each == m.CLOCKS)
        welcome = m.Welcome(*source.durable, capabilities)
        self._outputs.append(Send(peer.connection, wire.encode(welcome)))

    def _site_due(self, site: Site, arrival: int) -> None:
        try:
            if site.tick_due is not None and site.tick_due <= arrival:
                self._tick(site, arrival)
            if site.frame_due is not None and site.frame_due <= arrival:
                self._write(site)
        finally:
            self.timers.set(site.timer, site.due)
            self._forget_if_idle(site)

    def _tick(self, site: Site, arrival: int) -> None:
        sources = site.sources.values()
        left = not any(source.connections for source in sources)
        forgotten = left and arrival - site.last_record > self.settings.tick_limit_ns
        # No sources: one start was superseded, and the next has not connected yet.
        over = forgotten or (bool(sources) and all(source.ended for source in sources))
        before = site.builder.bytes
        site.ticked(arrival, *self.settings.rhythm(len(self._sites)), last=over)
        self._commits.waiting_bytes += site.builder.bytes - before

    # --- durability

    def _write(self, site: Site, *, now: bool = False) -> None:
        """Close the site's frame; retry later if the sink fails.

        Unless ``now``, the frame stays open while the sink is behind.
        """
        if not (now or self._commits.room):
            site.awaits_flush = True
            self._waiting_sites[site.name] = site
            return
        try:
            self._commits.append(site)
        except OSError as error:
            self.flush_failed(error)
            site.frame_due = self.clock.now + self.settings.sink_retry_ns
        else:
            self._waiting_sites.pop(site.name, None)

    def _commit_if_due(self) -> None:
        """Commit now, or set the time of the commit, and of the next interval request."""
        self.timers.set(("ask", ""), self._intake.pull_back.next_due())
        if self._commits.due and not self.timers.is_set(_COMMIT):
            if self.settings.commit_every_ns:
                self.timers.set(_COMMIT, self.clock.now + self.settings.commit_every_ns)
            else:
                self._commit_later()

    def _commit_later(self) -> None:
        """Flush the sink and ack what is durable; retry later if the sink fails."""
        try:
            self._ack(self._commits.flush())
        except OSError as error:
            self.flush_failed(error)
            self.timers.set(_COMMIT, self.clock.now + self.settings.sink_retry_ns)

    def _ack(self, sources: Iterable[Source]) -> None:
        for source in sources:
            self._tell(source, m.Ack(*source.durable))

    def _tell(self, source: Source, message: m.Ack | m.IntervalsRequest) -> None:
        """Send a message on the most recently active connection."""
        if source.connections:
            connection = max(source.connections, key=source.connections.__getitem__)
            self._outputs.append(Send(connection, wire.encode(message)))
