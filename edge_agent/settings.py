"""Settings of an agent's session, checked on creation, and the promises that it sends."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.messages import NAMES_MAX, Texts
from slackwater.edge_agent.ntp import NtpKey
from slackwater.edge_agent.packing import check_name
from slackwater.edge_agent.timesync import GATEWAY, SyncSettings

# Promises (POGs) after events, so that barriers that need punctuations wait less.
#
# An agent emits the events of a stream soon after they happen, so at any time it knows an event
# time below which no further event will come. But each promise costs a message. A share of the
# events is followed by one, evenly spaced: the POG percentage of L09 VII-A, promises over events.
# ``Heartbeat`` sends promises for silent streams.


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseSettings:
    """How often an agent sends promises on its own.

    Attributes:
        share: promises per event, in [0, 1]; 0: never.
        by_type: count and promise each type separately, instead of the whole stream.
        phase: in [0, 1): the elapsed part of the first round of 1/share events.
    """

    share: float = 0.0
    by_type: bool = False
    phase: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise SettingsError(f"promise share must lie in 0..1, is {self.share}")
        if not 0 <= self.phase < 1:
            raise SettingsError(f"promise phase must lie in 0..1, below 1, is {self.phase}")


class PromiseRule:
    """Counts the events of one stream and decides when a promise is due.

    >>> rule = PromiseRule(PromiseSettings(share=0.4))
    >>> [len(rule.due(1, None)) for _ in range(10)]
    [0, 0, 1, 0, 1, 0, 0, 1, 0, 1]
    """

    def __init__(self, settings: PromiseSettings) -> None:
        self._settings = settings
        self._credit: dict[str | None, float] = {}

    def due(self, rows: int, types: Texts | None) -> list[str | None]:
        """Types to promise after a message of ``rows`` events; None stands for every type.

        One promise per message is enough, however many are due. Events without a type, and types
        beyond ``NAMES_MAX``, are promised with the whole stream only.
        """
        share = self._settings.share
        if not share:
            return []
        counts = _counts_by_type(rows, types) if self._settings.by_type else {None: rows}
        found: list[str | None] = []
        for name, events in counts.items():
            known = name if name in self._credit or len(self._credit) < NAMES_MAX else None
            credit = self._credit.get(known, self._settings.phase) + events * share
            self._credit[known] = credit % 1.0
            if credit >= 1.0:
                found.append(known)
        return [None] if None in found else found


def _counts_by_type(rows: int, types: Texts | None) -> dict[str | None, int]:
    """Events per type; key None: events without a type."""
    if types is None:
        return {None: rows}
    if types.codes is None:
        return {types.names[0]: rows}
    codes = Counter(struct.unpack(f"<{rows}i", types.codes))
    return {types.names[code] if code >= 0 else None: n for code, n in sorted(codes.items())}


# Promises of streams without events: silence must not look like loss.


class Heartbeat:
    """Watches ``streams`` streams for silence of ``interval_ns`` (0: off)."""

    def __init__(self, streams: int, interval_ns: int) -> None:
        self.due: int | None = None
        """Monotonic instant [ns] at which some stream may have been silent for ``interval_ns``."""
        self._interval_ns = interval_ns
        self._quiet_since = [0] * streams

    def start(self, mono_ns: int) -> None:
        """Watch the streams from now on."""
        if self._interval_ns:
            self._quiet_since = [max(since, mono_ns) for since in self._quiet_since]
            self.due = mono_ns + self._interval_ns

    def stop(self) -> None:
        self.due = None

    def put_event(self, stream: int, mono_ns: int) -> None:
        """An event of ``stream`` was emitted."""
        self._quiet_since[stream] = mono_ns

    def take_silent(self, mono_ns: int) -> list[int]:
        """The streams to promise for now; call it at ``due``, it sets the next one."""
        found = [
            stream
            for stream, since in enumerate(self._quiet_since)
            if since + self._interval_ns <= mono_ns
        ]
        for stream in found:
            self._quiet_since[stream] = mono_ns
        self.due = min(self._quiet_since) + self._interval_ns
        return found


# Settings of an agent's session, checked on creation.


class Delivery(Enum):
    """What happens to data messages of a lost connection."""

    RESEND = "resend"
    """Kept until acked, resent when their connection is lost."""
    ONCE = "once"
    """Forgotten once given to a connection: losses of the network are final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Identity and timeouts of the agent. All durations are of the monotonic clock."""

    source: str
    site: str = "main"
    token: str = ""
    connections: int = 1
    delivery: Delivery = Delivery.RESEND
    sync: SyncSettings = field(default_factory=SyncSettings)
    time_places: tuple[int, ...] = (GATEWAY,)
    """Places to ask for the time, in this order (``TimeSync``)."""
    heartbeat_ns: int = 1_000_000_000
    """A stream that is silent for this long gets a promise; 0: never."""
    heartbeat_lag_ns: int = 0
    """Longest time from ``ts`` to the emission of an event; every promise is wall clock - lag."""
    promises: PromiseSettings = field(default_factory=PromiseSettings)
    """Promises that the agent sends while its streams have events."""
    unacked_bytes_max: int = 8 << 20
    """Bytes of messages kept until acked; when full, ``emit`` refuses."""
    pull_back_bytes: int = 1 << 20
    """Bytes of messages kept to resend requested intervals whose begins were sent; 0: the gateway
    sends no requests."""
    hello_timeout_ns: int = 10_000_000_000
    ack_timeout_ns: int = 30_000_000_000
    """A message that is unacked for this long causes its connection to be closed."""
    ack_timeout_min_ns: int = 0
    """Above 0: the timeout adapts to the round trips (RFC 6298), from this to
    ``ack_timeout_ns``.
    """
    gateways: int = 1
    """Number of gateways that the driver can connect to; the next is tried if one is missing."""
    reconnect_ns: int = 100_000_000
    reconnect_ns_max: int = 10_000_000_000

    @property
    def ntp_key(self) -> NtpKey | None:
        """Key that authenticates time sync with the gateway; None: there is no token."""
        return NtpKey(self.site, self.source, self.token) if self.token else None

    def __post_init__(self) -> None:
        check_name(self.source, "source")
        check_name(self.site, "site")
        if not 1 <= self.connections <= 64:
            raise SettingsError(f"connections must be 1 to 64, is {self.connections}")
        if self.gateways < 1:
            raise SettingsError(f"gateways must be at least 1, is {self.gateways}")
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
