"""Gateway core: from many connections to one arrival log per site, and acks back.

Sans-IO: bytes, datagrams and the engine's clock are handed in, ``outputs()`` says what to send.
Arrival is the engine's clock when the bytes came, made monotone. Whatever a peer sends, the
gateway refuses, counts and keeps it, or records it; it acks what the sink has made durable.
Numbers of a message whose *content* is refused count as received (the message is kept in the
dead letters), since resending the same bytes would not help; the engine sees them as missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from edge_agent import messages as m
from edge_agent import wire
from edge_agent.errors import SAMPLE_BYTES, NtpRefused, WireError
from edge_agent.ntp import ServerClock
from engine.frame import Frame
from engine.gateway.content import ContentRefused
from engine.gateway.dead_letter import DeadLetters
from engine.gateway.intake import Intake, Site
from engine.gateway.peers import Admission, Peer, Refusal, Source
from engine.gateway.source_store import SourceStore


class Sink(Protocol):
    """Where frames go: the arrival log."""

    def append(self, frame: Frame) -> None:
        """Returns when ``frame`` is durable; an exception means that it is not."""


class Send(NamedTuple):
    """Write these bytes, one message, to this connection."""

    connection: Hashable
    data: bytes


class Close(NamedTuple):
    """Close this connection; nothing more is to be reported of it."""

    connection: Hashable
    reason: str


Output = Send | Close


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Limits and rhythms. Durations are on the arrival clock."""

    tokens: Mapping[tuple[str, str], str] | None = None
    """Token of each (site, source); None: the gateway is open to any source."""
    tick_every_ns: int = 100_000_000
    """A site silent for so long gets a tick record; 0: no ticks."""
    tick_limit_ns: int = 60_000_000_000
    """A site without connections gets no ticks any more after so long."""
    frame_rows: int = 8192
    frame_bytes: int = 4 << 20
    frame_every_ns: int = 200_000_000
    """A frame is closed at the first of these three: rows, bytes, age of its first record."""
    connections_max: int = 4096
    connections_per_source: int = 64
    sources_max: int = 65_536
    islands_max: int = 4096
    """Runs of numbers received ahead of a gap, per stream."""
    takeover_ns: int = 5_000_000_000
    hello_timeout_ns: int = 10_000_000_000
    ntp: ServerClock = field(default_factory=ServerClock)


class GatewayCore:
    """All connections of one gateway. ``connection`` is any hashable key, never used twice."""

    def __init__(
        self, settings: GatewaySettings, sink: Sink, dead_letters: DeadLetters | None = None
    ) -> None:
        self.settings = settings
        self.sources = SourceStore()
        self.dead_letters = DeadLetters() if dead_letters is None else dead_letters
        self.counts: Counter[tuple[str, str]] = Counter()
        """By (source, reason); source "" before it is known. Of events: ``recorded``,
        ``duplicate``, ``refused``, ``given_up``; all others: messages, connections, datagrams."""
        self._sink = sink
        self._admission = Admission(settings.tokens, settings.sources_max, settings.takeover_ns)
        self._intake = Intake(self.sources, self.counts, settings.islands_max)
        self._peers: dict[Hashable, Peer] = {}
        self._sites: dict[str, Site] = {}
        self._arrival = -(2**63)
        self._due: int | None = None
        self._outputs: list[Output] = []

    def outputs(self) -> list[Output]:
        """What the driver has to do now, in this order. Drained; call it after every input."""
        made, self._outputs = self._outputs, []
        return made

    def connected(self, connection: Hashable, now_ns: int) -> None:
        """A peer connected; it has ``hello_timeout_ns`` to say who it is."""
        arrival = self._advance(now_ns)
        assert connection not in self._peers
        if len(self._peers) >= self.settings.connections_max:
            self.counts["", "connections_max"] += 1
            error = m.ErrorMessage("connections_max", "too many connections", retry=True)
            self._outputs.append(Send(connection, wire.encode(error)))
            self._outputs.append(Close(connection, "connections_max"))
            return
        due = arrival + self.settings.hello_timeout_ns
        self._peers[connection] = Peer(connection, due)
        self._wake_by(due)

    def disconnected(self, connection: Hashable, now_ns: int) -> None:
        """A connection is gone; harmless when it was refused or closed before."""
        self._advance(now_ns)
        self._remove(connection)

    def received(self, connection: Hashable, data: bytes, now_ns: int) -> None:
        """Bytes of a connection; the records in them arrive now."""
        arrival = self._advance(now_ns)
        peer = self._peers.get(connection)
        if peer is None:
            self.counts["", "closed_connection"] += 1
            return
        try:
            for message in peer.decoder.feed(data):
                self._take(peer, message, arrival)
                if connection not in self._peers:
                    return
        except WireError as error:
            self._refuse(peer, error.reason, error.detail, error.sample, retry=True)

    def datagram_received(self, data: bytes, received_ns: int, sent_ns: int) -> bytes | None:
        """The answer to an NTP question, or None when it deserves none.

        ``received_ns`` and ``sent_ns``: the engine's clock at its arrival and at its departure.
        """
        try:
            return self.settings.ntp.answer(data, received_ns, sent_ns)
        except NtpRefused as refused:
            self.counts["", f"ntp_{refused.reason}"] += 1
            return None

    def next_wake(self) -> int | None:
        """Instant of the engine's clock at which ``wake`` is due, at the latest."""
        return self._due

    def wake(self, now_ns: int) -> None:
        """Writes ticks, closes frames and silent newcomers that are due; harmless otherwise."""
        if self._due is None or now_ns < self._due:
            return
        arrival = self._advance(now_ns)
        late = [p for p in self._peers.values() if p.source is None and p.hello_due <= arrival]
        for peer in late:
            self._refuse(peer, "hello_timeout", "no HELLO came", b"", retry=True)
        newcomers = (p.hello_due for p in self._peers.values() if p.source is None)
        self._due = min(newcomers, default=None)
        for site in self._sites.values():
            if site.tick_due is not None and site.tick_due <= arrival:
                self._tick(site, arrival)
            if site.frame_due is not None and site.frame_due <= arrival:
                self._flush(site)
            for due in (site.tick_due, site.frame_due):
                if due is not None:
                    self._wake_by(due)

    def finish(self, now_ns: int) -> None:
        """The gateway stops: every frame is closed and acked."""
        self._advance(now_ns)
        for site in self._sites.values():
            self._flush(site)

    # --- inside

    def _advance(self, now_ns: int) -> int:
        """The arrival clock: the engine's clock, but never backwards."""
        self._arrival = max(self._arrival, now_ns)
        return self._arrival

    def _wake_by(self, due: int) -> None:
        self._due = due if self._due is None else min(self._due, due)

    def _remove(self, connection: Hashable) -> None:
        peer = self._peers.pop(connection, None)
        if peer is not None and peer.source is not None:
            peer.source.connections.pop(connection, None)

    def _refuse(
        self, peer: Peer, reason: str, detail: str, sample: bytes, *, retry: bool, name: str = ""
    ) -> None:
        """Tells the peer why, closes its connection and keeps what it sent."""
        source = peer.source
        site, name = (source.site, source.name) if source else ("", name)
        self.counts[source.name if source else "", reason] += 1
        self.dead_letters.add(
            self._arrival, (site, name, str(peer.connection)), reason, detail, sample
        )
        error = m.ErrorMessage(reason, detail[: m.TEXT_MAX], retry)
        self._outputs.append(Send(peer.connection, wire.encode(error)))
        self._outputs.append(Close(peer.connection, reason))
        self._remove(peer.connection)

    def _take(self, peer: Peer, message: m.Message, arrival: int) -> None:
        if isinstance(message, m.Hello):
            if peer.source is not None:
                raise WireError("hello_twice", "a connection says HELLO once")
            self._hello(peer, message, arrival)
            return
        source = peer.source
        if source is None:
            raise WireError("no_hello", "HELLO comes first")
        source.connections[peer.connection] = arrival
        site = self._sites[source.site]
        match message:
            case m.Data():
                new = self._data(peer, source, site, message, arrival)
            case m.Promise() | m.Begin() | m.Sync() | m.Eos():
                new = self._intake.control(source, site, message, arrival)
            case _:
                raise WireError("direction", f"{type(message).__name__} is the gateway's to say")
        if not new:
            # It came before: its ack may be lost with the connection that carried it.
            self._ack(source)
            return
        site.heard(arrival, self.settings)
        if site.builder.rows >= self.settings.frame_rows or (
            site.builder.bytes >= self.settings.frame_bytes
        ):
            self._flush(site)
        if site.frame_due is not None:
            self._wake_by(site.frame_due)
        if site.tick_due is not None:
            self._wake_by(site.tick_due)

    def _data(self, peer: Peer, source: Source, site: Site, data: m.Data, arrival: int) -> bool:
        try:
            return self._intake.data(source, site, data, arrival)
        except ContentRefused as refused:
            self.counts[source.name, refused.reason] += 1
            self.counts[source.name, "refused"] += refused.rows
            name = (source.site, source.name, str(peer.connection))
            sample = wire.encode(data)[:SAMPLE_BYTES]
            self.dead_letters.add(
                arrival, name, refused.reason, refused.detail, sample, refused.rows
            )
            return True

    def _hello(self, peer: Peer, hello: m.Hello, arrival: int) -> None:
        claimed = f"{hello.site}/{hello.source}"
        try:
            self._admission.check_token(hello)
            source, old = self._admission.admit(hello, arrival)
        except Refusal as refusal:
            detail, retry = refusal.detail, refusal.retry
            self._refuse(peer, refusal.reason, detail, b"", retry=retry, name=claimed)
            return
        for connection in list(old.connections) if old else ():
            former = self._peers[connection]
            self._refuse(former, "superseded", "a newer incarnation came", b"", retry=False)
        if len(source.connections) >= self.settings.connections_per_source:
            oldest = min(source.connections, key=source.connections.__getitem__)
            self._refuse(self._peers[oldest], "replaced", "too many connections", b"", retry=True)
        peer.source = source
        peer.decoder.limit = m.MESSAGE_MAX
        source.connections[peer.connection] = arrival
        site = self._sites.get(source.site)
        if site is None:
            site = self._sites[source.site] = Site(source.site)
        site.sources[source.name] = source
        welcome = m.Welcome(source.control.durable, tuple(lane.durable for lane in source.lanes))
        self._outputs.append(Send(peer.connection, wire.encode(welcome)))

    def _tick(self, site: Site, arrival: int) -> None:
        connected = any(source.connections for source in site.sources.values())
        ended = all(source.ended for source in site.sources.values())
        forgotten = not connected and arrival - site.last_record > self.settings.tick_limit_ns
        site.ticked(arrival, self.settings, last=ended or forgotten)

    def _flush(self, site: Site) -> None:
        """Close the site's frame: append it to the log, then ack what was in it."""
        if site.builder.rows:
            self._sink.append(site.builder.build())
        for source in site.flushed():
            for lane in (source.control, *source.lanes):
                lane.durable = lane.received.next
            self._ack(source)

    def _ack(self, source: Source) -> None:
        """On the connection heard last: the likeliest to be alive."""
        if not source.connections:
            return
        connection = max(source.connections, key=source.connections.__getitem__)
        ack = m.Ack(source.control.durable, tuple(lane.durable for lane in source.lanes))
        self._outputs.append(Send(connection, wire.encode(ack)))
