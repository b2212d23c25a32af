"""Settings of an agent's session, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from edge_agent.errors import SettingsError
from edge_agent.ntp import NtpKey
from edge_agent.packing import check_name
from edge_agent.promising import PromiseSettings
from edge_agent.timesync import GATEWAY, SyncSettings


class Delivery(Enum):
    """What becomes of data messages whose connection is lost."""

    RESEND = "resend"
    """Kept until acked, resent when their connection is lost."""
    ONCE = "once"
    """Forgotten when handed to a connection: what the network loses stays lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Who the agent is and how patient it is. All durations on the monotonic clock."""

    source: str
    site: str = "main"
    token: str = ""
    connections: int = 1
    delivery: Delivery = Delivery.RESEND
    sync: SyncSettings = field(default_factory=SyncSettings)
    time_places: tuple[int, ...] = (GATEWAY,)
    """Who is asked for the time, in this order (``TimeSync``)."""
    heartbeat_ns: int = 1_000_000_000
    """A stream silent for so long is promised for; 0: never."""
    heartbeat_lag_ns: int = 0
    """How long after its ``ts`` an event is emitted at most; every promise says wall - lag."""
    promises: PromiseSettings = field(default_factory=PromiseSettings)
    """How often the agent promises while its streams speak."""
    unacked_bytes_max: int = 8 << 20
    """Bytes of messages kept until acked; when full, ``emit`` refuses."""
    pull_back_bytes: int = 1 << 20
    """Of messages with intervals whose begins were told: kept to be sent again when the gateway
    asks for one; 0: it is told not to ask."""
    hello_timeout_ns: int = 10_000_000_000
    ack_timeout_ns: int = 30_000_000_000
    """A message unacked for so long condemns the connection that it was given to."""
    ack_timeout_min_ns: int = 0
    """Above 0: the wait fits how long acks take (RFC 6298), from this to ``ack_timeout_ns``."""
    reconnect_ns: int = 100_000_000
    reconnect_ns_max: int = 10_000_000_000

    @property
    def ntp_key(self) -> NtpKey | None:
        """What time sync with the gateway is authenticated by; None: there is no token."""
        return NtpKey(self.site, self.source, self.token) if self.token else None

    def __post_init__(self) -> None:
        check_name(self.source, "source")
        check_name(self.site, "site")
        if not 1 <= self.connections <= 64:
            raise SettingsError(f"connections must be 1 to 64, is {self.connections}")
        for name in ("hello_timeout_ns", "ack_timeout_ns", "reconnect_ns", "unacked_bytes_max"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} must be above 0, is {getattr(self, name)}")
        if not 0 <= self.ack_timeout_min_ns <= self.ack_timeout_ns:
            raise SettingsError("ack_timeout_min_ns must be from 0 to ack_timeout_ns")
        if self.pull_back_bytes < 0:
            raise SettingsError("pull_back_bytes must not be negative")
        if self.heartbeat_ns < 0 or self.heartbeat_lag_ns < 0:
            raise SettingsError("heartbeat_ns and heartbeat_lag_ns must not be negative")
        if self.reconnect_ns_max < self.reconnect_ns:
            raise SettingsError("reconnect_ns_max must not be below reconnect_ns")
