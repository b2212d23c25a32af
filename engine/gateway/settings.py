"""Limits and rhythms of a gateway, whom it is open to, and what it knows of each source's clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edge_agent.listening import is_loopback
from edge_agent.messages import Sync
from edge_agent.ntp import ServerClock
from engine.errors import UserError

# The source information store (R19 3.2.2, Figure 4.1): what is known of each source's clock.


@dataclass(frozen=True, slots=True)
class SourceClock:
    """The newest time-sync report of one source.

    ``offset_ns``: engine's clock minus source's, positive = the source is slow; it and
    ``delay_ns`` are None when the source was never synchronised. ``measured_at_ns`` is at the
    source's clock, ``stored_at_ns`` on the arrival clock.
    """

    incarnation: int
    offset_ns: int | None
    delay_ns: int | None
    measured_at_ns: int
    stored_at_ns: int
    precision_ns: int
    skew_error_ppb: int


class SourceStore:
    """Newest report per site and source; as many as the gateway admits sources."""

    def __init__(self) -> None:
        self._sites: dict[str, dict[str, SourceClock]] = {}

    def put(self, site: str, source: str, incarnation: int, sync: Sync, at_ns: int) -> None:
        """``sync`` of ``source`` was recorded at arrival-clock instant ``at_ns``."""
        self._sites.setdefault(site, {})[source] = SourceClock(
            incarnation=incarnation,
            offset_ns=sync.offset,
            delay_ns=sync.delay,
            measured_at_ns=sync.measured_at,
            stored_at_ns=at_ns,
            precision_ns=sync.precision,
            skew_error_ppb=sync.skew_error_ppb,
        )

    def get(self, site: str, source: str) -> SourceClock | None:
        return self._sites.get(site, {}).get(source)

    def t_a_ns(self, site: str) -> int:
        """T_a: the largest filtered delay over the site's sources (R19 Eq 3.16); 0 if none."""
        known = self._sites.get(site, {}).values()
        return max((each.delay_ns for each in known if each.delay_ns is not None), default=0)


# Limits and rhythms of a gateway, and whom it is open to; checked when they are made.


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Limits and rhythms. Durations are on the arrival clock.

    Raises:
        UserError: no tokens, though peers of other machines may connect.
    """

    tokens: Mapping[tuple[str, str], str] | None = None
    """Token of each (site, source); None: any source that may connect is let in."""
    listen: str = "127.0.0.1"
    """Address that the server binds."""
    without_tokens: bool = False
    """Any client that reaches ``listen`` may send, even from other machines."""
    tick_every_ns: int = 100_000_000
    """A site silent for so long gets a tick record; 0: no ticks."""
    ticks_per_s_max: int = 1_000
    """Of all sites together: more than 100 silent ones get theirs less often."""
    tick_limit_ns: int = 60_000_000_000
    """A site without connections gets no ticks any more after so long."""
    frame_rows: int = 8192
    frame_bytes: int = 4 << 20
    frame_every_ns: int = 200_000_000
    """A frame is closed at the first of these three: rows, bytes, age of its first record."""
    commit_every_ns: int = 0
    """Closed frames are made durable, and acked, together after so long; 0: at once."""
    sink_retry_ns: int = 1_000_000_000
    """A sink that failed is tried again after so long."""
    waiting_bytes_max: int = 256 << 20
    """Of all frames in the making; while the sink fails and this is full, peers must wait."""
    connections_max: int = 4096
    connections_per_source: int = 64
    connections_per_address: int = 1024
    failed_logins_per_minute: int = 120
    """Of an address: then it is turned away until they have drained. This machine's own have no
    limit of these two kinds."""
    connection_bytes_per_s: int = 128 << 20
    connection_events_per_s: int = 1_000_000
    """A connection that brings more than a second's worth at once is not read for a while."""
    half_messages_max: int = 256 << 20
    """Bytes of incomplete messages, over all connections."""
    message_timeout_ns: int = 30_000_000_000
    """So long may a message take from its first byte to its last."""
    sources_max: int = 65_536
    sources_bytes_max: int = 256 << 20
    """What is kept of all sources: names, schemas of the connected, numbers of their streams."""
    islands_max: int = 4096
    """Runs of numbers received ahead of a gap, per stream."""
    islands_total_max: int = 1 << 20
    """The same over all streams of all sources."""
    clocks_max: int = 4096
    """Clocks that the events of one source name, in one start of its agent."""
    promises_max: int = 1 << 18
    """Promises that wait for the numbers before them, over all sources."""
    pull_back_ns: int = 10_000_000_000
    """An interval that has begun and not come is requested after so long; 0: never."""
    pull_back_max: int = 1 << 16
    """Such intervals that are known of, over all sources."""
    takeover_ns: int = 5_000_000_000
    hello_timeout_ns: int = 10_000_000_000
    ntp: ServerClock = field(default_factory=ServerClock)

    def __post_init__(self) -> None:
        if self.tokens is None and not self.without_tokens and not is_loopback(self.listen):
            raise UserError(
                f"the gateway listens at {self.listen} and has no tokens, so anyone could write "
                "into its log: give tokens, listen at 127.0.0.1, or set without_tokens"
            )

    def rhythm(self, sites: int) -> tuple[int, int]:
        """Of each of ``sites`` sites, in ns: silence until a tick (0: none), age of its frames."""
        least = sites * 1_000_000_000 // self.ticks_per_s_max
        return self.tick_every_ns and max(self.tick_every_ns, least), self.frame_every_ns

    def admits(self, host: str) -> bool:
        """Whether a peer at address ``host`` may connect at all."""
        return self.tokens is not None or self.without_tokens or is_loopback(host)
