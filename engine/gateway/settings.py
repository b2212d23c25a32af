"""Limits, periods and admission settings of a gateway."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Final

from slackwater.edge_agent.listening import is_loopback
from slackwater.edge_agent.ntp import ServerClock
from slackwater.edge_agent.sequence import AHEAD
from slackwater.engine.core.errors import UserError
from slackwater.engine.gateway.content import Refusal

# Limits and periods of a gateway, and which peers it admits; checked on creation.


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Limits and periods. Durations are of the arrival clock.

    Raises:
        UserError: no tokens, although peers of other machines may connect.
    """

    tokens: Mapping[tuple[str, str], str] | None = None
    """Token of each (site, source); None: any source that may connect is admitted."""
    listen: str = "127.0.0.1"
    """Address that the server binds."""
    without_tokens: bool = False
    """Whether any client that reaches ``listen`` may send, even from other machines."""
    seq_bits: Mapping[str, int] = field(default_factory=dict)
    """Bits of the counters of peers that number events themselves, by stream."""
    tick_every_ns: int = 100_000_000
    """Silence after which a site gets a tick record; 0: no ticks."""
    ticks_per_s_max: int = 1_000
    """Over all sites: more than 100 silent ones get ticks less often."""
    tick_limit_ns: int = 60_000_000_000
    """A site without connections gets no more ticks after this time."""
    frame_rows: int = 8192
    frame_bytes: int = 4 << 20
    frame_every_ns: int = 200_000_000
    """A frame is closed at the first of these three: rows, bytes, age of its first record."""
    commit_every_ns: int = 0
    """Closed frames are made durable and acked together after this time; 0: at once."""
    sink_retry_ns: int = 1_000_000_000
    """Wait before a failed sink is retried."""
    waiting_bytes_max: int = 256 << 20
    """Size of all open frames; while the sink fails and this is full, peers must wait."""
    connections_max: int = 4096
    connections_per_source: int = 64
    connections_per_address: int = 1024
    failed_logins_per_minute: int = 120
    """Per address, which is then refused until failures have expired. Addresses of this machine
    have neither of the two limits."""
    connection_bytes_per_s: int = 128 << 20
    connection_events_per_s: int = 1_000_000
    """A connection that sends more than a second's worth at once is not read for a while."""
    half_messages_max: int = 256 << 20
    """Bytes of incomplete messages, over all connections."""
    message_timeout_ns: int = 30_000_000_000
    """Longest time from the first byte of a message to its last."""
    sources_max: int = 65_536
    sources_bytes_max: int = 256 << 20
    """Memory of all sources: names, schemas of connected ones, numbers of their streams."""
    islands_max: int = 4096
    """Runs of numbers received beyond a gap, per stream."""
    islands_total_max: int = 1 << 20
    """The same over all streams of all sources."""
    clocks_max: int = 4096
    """Clocks that events of one source may name in one start of its agent."""
    promises_max: int = 1 << 18
    """Promises that wait for earlier numbers, over all sources."""
    pull_back_ns: int = 10_000_000_000
    """Wait before an interval that has begun and not arrived is requested; 0: never."""
    pull_back_max: int = 1 << 16
    """Such intervals that are tracked, over all sources."""
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
        """For ``sites`` sites [ns]: silence until a tick (0: none), and age of frames."""
        least = sites * 1_000_000_000 // self.ticks_per_s_max
        return self.tick_every_ns and max(self.tick_every_ns, least), self.frame_every_ns

    def admits(self, host: str) -> bool:
        """Whether a peer at address ``host`` may connect at all."""
        return self.tokens is not None or self.without_tokens or is_loopback(host)


# Connections and failed logins per address.
#
# One machine must not take all connections, nor guess tokens at full speed. So an address has a
# limit of open connections, and of failed logins, a minute's worth (a leaky bucket), after which it
# is refused at once until they have expired. Devices behind one router share its address, and all
# IPv6 addresses with the same first 64 bits count as one, because a subnet owns them all. This
# machine's own addresses have no limits: they include a proxy in front of the gateway.


REMEMBERED_MAX: Final = 65_536
"""Addresses with failed logins that are remembered; beyond, the oldest are forgotten."""
_NO_FAULT: Final = frozenset({
    "attr_type", "attrs_max", "busy", "duplicate_source", "hello_timeout", AHEAD, "schema",
    "sources_bytes_max", "sources_max", "stale_incarnation", "version",
})  # fmt: skip
"""Reasons that are no failed logins: a whole fleet behind one router may have them."""
_MINUTE_NS: Final = 60 * 10**9
_SUBNET: Final = 64


class Addresses:
    """Limits per address; connections count from ``opened`` to ``closed``."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._all = 0
        self._open: Counter[str] = Counter()
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """Level of failed logins, and the time of that level."""

    def refusal(self, host: str, now_ns: int) -> Refusal | None:
        """Why no peer at ``host`` may connect now; None: it may."""
        settings, place = self._settings, place_of(host)
        if not settings.admits(host):
            return Refusal("no_tokens", "only this machine may connect", retry=False)
        if self._all >= settings.connections_max:
            return Refusal("connections_max", "too many connections", retry=True)
        if self._open[place] >= settings.connections_per_address:
            detail = f"{settings.connections_per_address} from one address"
            return Refusal("connections_per_address", detail, retry=True)
        if self._level(place, now_ns) > settings.failed_logins_per_minute - 1:
            detail = f"{settings.failed_logins_per_minute} failed from this address"
            return Refusal("failed_logins_per_minute", detail, retry=True)
        return None

    def opened(self, host: str) -> None:
        """Count an opened connection."""
        self._all += 1
        if place := place_of(host):
            self._open[place] += 1

    def closed(self, host: str) -> None:
        """Count a closed connection."""
        self._all -= 1
        if place := place_of(host):
            self._open[place] -= 1
            if not self._open[place]:
                del self._open[place]

    def failed(self, host: str, reason: str, now_ns: int) -> None:
        """Count a refused HELLO from ``host``."""
        place = place_of(host)
        if not place or reason in _NO_FAULT:
            return
        self._failed[place] = (self._level(place, now_ns) + 1, now_ns)
        self._failed.move_to_end(place)
        if len(self._failed) > REMEMBERED_MAX:
            self._failed.popitem(last=False)

    def __len__(self) -> int:
        """Number of addresses with stored state."""
        return len(self._open.keys() | self._failed.keys())

    def _level(self, place: str, now_ns: int) -> float:
        level, at_ns = self._failed.get(place, (0.0, now_ns))
        level -= (now_ns - at_ns) * self._settings.failed_logins_per_minute / _MINUTE_NS
        if level <= 0:
            self._failed.pop(place, None)
        return max(level, 0.0)


def place_of(host: str) -> str:
    """The unit of address limits; "": no limits apply.

    >>> place_of("10.0.0.7"), place_of("::ffff:10.0.0.7"), place_of("fe80::1:2%eth0")
    ('10.0.0.7', '10.0.0.7', 'fe80::/64')
    >>> place_of("127.0.0.1"), place_of("")
    ('', '')
    """
    if not host or is_loopback(host):
        return ""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> _SUBNET << _SUBNET)}/{_SUBNET}"
