"""How many connections an address has, and how often who comes from there is not who it says.

One machine must not take all connections from the others, nor try tokens as fast as it can. So an
address has a limit of open connections; and of failed logins a minute's worth (a leaky bucket),
after which it is turned away at once until they have drained. Devices behind one router share its
address, and all of IPv6's addresses with the same first 64 bits are one, as a subnet has them all.
This machine's own addresses have no limits: a proxy in front of the gateway is one of them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Final

from edge_agent.listening import is_loopback
from edge_agent.sequence import AHEAD
from engine.gateway.schemas import Refusal
from engine.gateway.settings import GatewaySettings

REMEMBERED_MAX: Final = 65_536
"""Addresses with failed logins; of more, those are forgotten that failed longest ago."""
_NO_FAULT: Final = frozenset({
    "attr_type", "attrs_max", "busy", "duplicate_source", "hello_timeout", AHEAD, "schema",
    "sources_bytes_max", "sources_max", "stale_incarnation", "version",
})  # fmt: skip
"""Reasons that say nothing of who it is: a whole fleet behind one router may have them."""
_MINUTE_NS: Final = 60 * 10**9
_SUBNET: Final = 64


class Addresses:
    """Of all peers, which are counted here from ``opened`` to ``closed``."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._all = 0
        self._open: Counter[str] = Counter()
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """How many, less those that have drained, and when that was."""

    def refusal(self, host: str, now_ns: int) -> Refusal | None:
        """Why nobody at ``host`` may connect now; None: one may."""
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
        """A connection more."""
        self._all += 1
        if place := place_of(host):
            self._open[place] += 1

    def closed(self, host: str) -> None:
        """One of those is gone."""
        self._all -= 1
        if place := place_of(host):
            self._open[place] -= 1
            if not self._open[place]:
                del self._open[place]

    def failed(self, host: str, reason: str, now_ns: int) -> None:
        """Who came from ``host`` was not let in, for that reason."""
        place = place_of(host)
        if not place or reason in _NO_FAULT:
            return
        self._failed[place] = (self._level(place, now_ns) + 1, now_ns)
        self._failed.move_to_end(place)
        if len(self._failed) > REMEMBERED_MAX:
            self._failed.popitem(last=False)

    def __len__(self) -> int:
        """Addresses with kept state."""
        return len(self._open.keys() | self._failed.keys())

    def _level(self, place: str, now_ns: int) -> float:
        level, at_ns = self._failed.get(place, (0.0, now_ns))
        level -= (now_ns - at_ns) * self._settings.failed_logins_per_minute / _MINUTE_NS
        if level <= 0:
            self._failed.pop(place, None)
        return max(level, 0.0)


def place_of(host: str) -> str:
    """What counts as one address; "": one without limits.

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
