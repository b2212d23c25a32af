"""Sources and their connections, and the admission of HELLOs.

A source is identified by (site, name) and has one incarnation at a time. A new incarnation takes
over when the old one's connections are closed or silent for ``takeover_ns``. So a restarted device
is admitted, while a second device under the same name is refused with an error and the first
continues undisturbed. Incarnations increase (``edge_agent.sequence`` has the contract).
"""

from __future__ import annotations

import hmac
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from slackwater.edge_agent.device_clock import closed_clocks
from slackwater.edge_agent.messages import HELLO_MAX, PULL_BACK, Hello
from slackwater.edge_agent.ntp import NtpKeys
from slackwater.edge_agent.sequence import AHEAD
from slackwater.edge_agent.wire import Decoder
from slackwater.engine.gateway.content import Refusal, Schemas, SchemaStore, digest
from slackwater.engine.gateway.counters import counts_itself
from slackwater.engine.gateway.recall import PastSource, Recalled, ReceivedSet
from slackwater.engine.gateway.settings import GatewaySettings

# Promises of a source that wait for the numbers before them.
#
# A promise (POG) with number n follows the events below n. On another connection it may overtake
# them, and an engine that trusted it would release results too early. The gateway knows which
# numbers have arrived, so it logs the promise of a source that resends only when it is proven:
# every event below n precedes it in the log (L09 VI-A: a punctuate operator releases POGs "based on
# acknowledged receipt of the events in question").


KEYS_MAX: Final = 1024
"""Most pairs of stream and type with waiting promises per source."""


class GatewayPromise(NamedTuple):
    """No event numbered from ``next_seq`` on, of ``type`` (None: any), has ts below ``ts``."""

    type: str | None
    next_seq: int
    ts: int


class WaitingPromises:
    """Per stream and type the first waiting promise, for early use, and the newest, which says
    most; those in between are dropped.

    They exist in memory only: a promise lost with the gateway delays results and falsifies none.
    """

    def __init__(self) -> None:
        self._streams: dict[int, dict[str | None, tuple[GatewayPromise, GatewayPromise]]] = {}
        self.keys = 0
        """Number of pairs of stream and type with waiting promises."""

    def wait(self, stream: int, promised: GatewayPromise) -> bool:
        """Keep ``promised`` until it is proven; False: too many types."""
        waiting = self._streams.setdefault(stream, {})
        known = waiting.get(promised.type)
        if known is None:
            if self.keys >= KEYS_MAX:
                return False
            self.keys += 1
            waiting[promised.type] = (promised, promised)
            return True
        first = min(known[0], promised, key=_number)
        newest = max(known[1], promised, key=_number)
        waiting[promised.type] = (first, newest)
        return True

    def proven(self, stream: int, next_seq: int) -> list[GatewayPromise]:
        """Remove and return promises proven by all numbers below ``next_seq``, one per type."""
        waiting = self._streams.get(stream)
        if not waiting:
            return []
        found: list[GatewayPromise] = []
        for name, (first, newest) in list(waiting.items()):
            if newest.next_seq <= next_seq:
                found.append(newest)
                del waiting[name]
                self.keys -= 1
            elif first.next_seq <= next_seq:
                found.append(first)
                waiting[name] = (newest, newest)
        return found


def _number(promised: GatewayPromise) -> tuple[int, int]:
    return promised.next_seq, promised.ts


AHEAD_MAX: Final = 1 << 60
"""Most that an incarnation may be ahead of this clock [ns], 36 years: devices use their clocks,
which may be wrong, and the largest possible incarnation would block every later start."""
STEP_MAX: Final = 1 << 32
"""Or ahead of the previous incarnation, if that is later."""
_CLOCK_LEAST_NS: Final = 1_767_225_600 * 10**9
"""Year 2026: a clock that has not been set yet is behind it [ns]."""
SOURCE_BYTES: Final = 2048
LANE_BYTES: Final = 400
"""Charged per known source and per stream; measured [bytes]."""


class Lane:
    """Numbers of one stream (or of the controls): received, written, and durable."""

    __slots__ = ("durable", "received", "start", "written")

    def __init__(self, start: int, received: ReceivedSet | None = None) -> None:
        self.start = start
        self.received = ReceivedSet(start) if received is None else received
        self.received.add(0, start)
        self.written = self.durable = self.received.next


@dataclass(slots=True, eq=False)
class OpenInterval:
    """An interval that has begun and not arrived. ``due``: when to request it; ``waits``: number of
    doublings of the wait; ``is_requested``: whether a request is unanswered.
    """

    due: int
    waits: int = 0
    is_requested: bool = False


@dataclass(slots=True, eq=False)
class Source:
    """One source in its current incarnation. ``schemas`` is empty while it is not connected."""

    site: str
    name: str
    incarnation: int
    start: int
    """The 64 random bits of the agent's start; see ``edge_agent.sequence``."""
    declared: bytes
    """Digest of the schemas."""
    lanes: list[Lane]
    control: Lane
    resend: bool
    counts_itself: bool = False
    """Whether its numbers may be those of a device's counter (``engine.gateway.counters``)."""
    schemas: Schemas = ()
    connections: dict[Hashable, int] = field(default_factory=dict)
    """Open connections, and the last activity of each (arrival clock)."""
    announced: bool = False
    """Whether the log has this incarnation's first numbers."""
    ended: bool = False
    dirty: bool = False
    """Whether the open frame has records of it."""
    promises: WaitingPromises = field(default_factory=WaitingPromises)
    answers: bool = False
    """Whether its agent answers requests for intervals (``engine.gateway.intake``)."""
    open: dict[tuple[int, int], OpenInterval] = field(default_factory=dict)
    """Open intervals by stream and id; only for agents that answer."""
    gap_seen: int = 0
    """When missing numbers last hurried requests (arrival clock)."""
    clocks: set[str] = field(default_factory=set)
    """Clocks that its messages have named."""
    before: PastSource | None = None
    """The newest of its earlier starts with records in the log."""

    @property
    def key(self) -> tuple[str, str]:
        """Site and name."""
        return self.site, self.name

    def named(self, clocks: Iterable[str], most: int) -> bool:
        """Remember the clocks that a message names; False: more than ``most``, not counting closed
        epochs.
        """
        if self.clocks.issuperset(clocks):
            return True
        together = self.clocks.union(clocks)
        if len(together) > most:
            together -= closed_clocks(together)
            if len(together) > most:
                return False
        self.clocks = together
        return True

    @property
    def durable(self) -> tuple[int, tuple[int, ...]]:
        """The control number, and those of the streams, below which everything is durable."""
        return self.control.durable, tuple(lane.durable for lane in self.lanes)


@dataclass(slots=True, eq=False)
class Peer:
    """One connection; ``source`` is None until its HELLO is accepted."""

    connection: Hashable
    host: str
    decoder: Decoder = field(default_factory=lambda: Decoder(HELLO_MAX))
    source: Source | None = None
    half_bytes: int = 0
    """Bytes of an incomplete message."""


class Admission:
    """All sources that were accepted, by (site, name)."""

    def __init__(self, settings: GatewaySettings, recalled: Recalled) -> None:
        """``recalled``: knowledge of the log that is continued."""
        self.sources: dict[tuple[str, str], Source] = {}
        self._settings = settings
        self._ntp_keys = NtpKeys(settings.tokens or {})
        self._past = dict(recalled.sources)
        self._schemas = SchemaStore(recalled.attr_types)
        self._bytes = 0

    @property
    def kept_bytes(self) -> int:
        """Approximate memory of all sources [bytes]."""
        return self._bytes + self._schemas.bytes

    def time(self, data: bytes, received_ns: int, sent_ns: int) -> bytes:
        """Answer an NTP question, authenticated if the question is.

        Raises:
            NtpRefused: no valid question, or its MAC matches no source's token.
        """
        key = self._ntp_keys.key_of(data)
        if key is None:
            return self._settings.ntp.answer(data, received_ns, sent_ns)
        return key.signed(self._settings.ntp.answer(key.packet(data), received_ns, sent_ns))

    @property
    def not_back(self) -> int:
        """Number of sources in the log that have not connected since the start."""
        return len(self._past)

    def check_token(self, hello: Hello) -> None:
        """Raises Refusal if the token is not this source's."""
        if self._settings.tokens is None:
            return
        expected = self._settings.tokens.get((hello.site, hello.source))
        if expected is None or not hmac.compare_digest(expected.encode(), hello.token.encode()):
            raise Refusal("token", "no such source, or not its token", retry=False)

    def admit(self, hello: Hello, arrival: int) -> tuple[Source, Source | None]:
        """The source of a HELLO with the right token, and the incarnation that it replaces.

        Raises:
            Refusal: ``stale_incarnation``, ``incarnation_ahead``, ``duplicate_source``, ``schema``
                (streams changed without a new incarnation), ``attr_type`` (an attribute has another
                type elsewhere at the site), ``attrs_max``, ``sources_max`` or
                ``sources_bytes_max``.
        """
        key = (hello.site, hello.source)
        old, past = self.sources.get(key), self._past.get(key)
        schemas = tuple(stream.schema for stream in hello.streams)
        declared = digest(schemas)
        same = old is not None and _same_start(old, hello)
        if same and old is not None and old.declared != declared:
            raise Refusal("schema", "streams changed without a new incarnation", retry=False)
        if not same:
            self._check_start(hello, old, past, arrival)
        new = self._schemas.new_types(hello.site, schemas)
        has_schemas = same and old is not None and bool(old.schemas)
        cost = 0 if has_schemas else self._schemas.cost(declared, schemas, new)
        cost += 0 if old is not None else SOURCE_BYTES + LANE_BYTES * len(hello.streams)
        if self.kept_bytes + cost > self._settings.sources_bytes_max:
            limit = self._settings.sources_bytes_max
            raise Refusal("sources_bytes_max", f"{limit} bytes of sources are kept", retry=True)
        if same and old is not None:
            source = old
        else:
            source = self._made(hello, declared, old)
            self._schemas.claim(hello.site, schemas)
        source.answers = PULL_BACK in hello.capabilities
        if not source.schemas:
            source.schemas = self._schemas.hold(declared, schemas)
        return source, None if same else old

    def left(self, source: Source) -> None:
        """The last connection of ``source`` closed: its schemas come again with the next HELLO.

        A start without records is forgotten; earlier starts are not.
        """
        self._schemas.release(source.declared)
        if not source.announced:
            self._schemas.give_up(source.site, source.schemas)
            if self.sources[source.site, source.name] is source:
                del self.sources[source.site, source.name]
                if source.before is not None:
                    self._past[source.site, source.name] = source.before
                self._bytes -= SOURCE_BYTES + LANE_BYTES * len(source.lanes)
        source.schemas = ()

    def _made(self, hello: Hello, declared: bytes, old: Source | None) -> Source:
        key = (hello.site, hello.source)
        past = self._past.pop(key, None)
        known = past if past is not None and past.incarnation == hello.incarnation else None
        streams = {} if known is None else known.streams
        source = Source(
            hello.site, hello.source, hello.incarnation, hello.start, declared,
            [Lane(each.acked, streams.get(each.schema.name)) for each in hello.streams],
            Lane(hello.control_acked), hello.resend, announced=known is not None,
            counts_itself=counts_itself(hello), before=_before(old, past),
        )  # fmt: skip
        self._bytes += SOURCE_BYTES + LANE_BYTES * len(source.lanes)
        if old is not None:
            self._bytes -= SOURCE_BYTES + LANE_BYTES * len(old.lanes)
        self.sources[key] = source
        return source

    def _check_start(
        self, hello: Hello, old: Source | None, past: PastSource | None, arrival: int
    ) -> None:
        """Refuse a HELLO that is no newer start of its source, or comes while the old start is
        active.
        """
        newest = old.incarnation if old else past.incarnation if past else None
        # The start that the log remembers may continue under the same incarnation.
        over = old is not None or (past is not None and past.over)
        if newest is not None and hello.incarnation < newest + over:
            detail = (
                f"{hello.incarnation} of {hello.source} is not above {newest}, which the gateway "
                "knows; each start of a source needs a larger incarnation"
            )
            raise Refusal("stale_incarnation", detail, retry=True, above=newest)
        least = max(arrival, _CLOCK_LEAST_NS, -1 if newest is None else newest)
        most = max(max(arrival, _CLOCK_LEAST_NS) + AHEAD_MAX, (newest or 0) + STEP_MAX)
        if hello.incarnation > most:
            detail = (
                f"{hello.incarnation} of {hello.source} is more than {most}: set the device's "
                "clock, or count its starts from 1 on"
            )
            raise Refusal(AHEAD, detail, retry=True, above=least)
        if old is None:
            if len(self.sources) >= self._settings.sources_max:
                raise Refusal(
                    "sources_max", f"{self._settings.sources_max} sources are known", retry=True
                )
            return
        heard = max(old.connections.values(), default=None)
        if heard is not None and arrival - heard < self._settings.takeover_ns:
            detail = f"another incarnation of {old.name} is connected and alive"
            raise Refusal("duplicate_source", detail, retry=True)


def _before(old: Source | None, past: PastSource | None) -> PastSource | None:
    if old is not None:
        return PastSource(old.incarnation, over=True) if old.announced else old.before
    return past


def _same_start(source: Source, hello: Hello) -> bool:
    return (source.incarnation, source.start) == (hello.incarnation, hello.start)
