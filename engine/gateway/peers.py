"""Sources and connections as the gateway knows them, and who is let in.

A source is known by (site, name) and has one incarnation at a time. A new incarnation takes over
when the old one's connections are closed or silent for ``takeover_ns``: so a device that
restarted gets in, and a second device under the same name is refused, loudly, while the
first goes on undisturbed.
"""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from edge_agent.messages import HELLO_MAX, Hello, StreamSchema
from edge_agent.wire import Decoder
from engine.gateway.promises import WaitingPromises
from engine.gateway.received import ReceivedSet

SITE_ATTRS_MAX = 1024
PAST_INCARNATIONS = 8


class Lane:
    """Numbers of one stream (or of the controls): what came, and what of it is durable."""

    __slots__ = ("durable", "received", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.durable = start
        self.received = ReceivedSet(start)


@dataclass(slots=True, eq=False)
class Source:
    """One source in its present incarnation."""

    site: str
    name: str
    incarnation: int
    resend: bool
    schemas: tuple[StreamSchema, ...]
    lanes: list[Lane]
    control: Lane
    connections: dict[Hashable, int] = field(default_factory=dict)
    """Open connections, and when each was heard last (arrival clock)."""
    announced: bool = False
    """Whether the log has this incarnation's first numbers."""
    ended: bool = False
    dirty: bool = False
    """Something of it is in the frame that is being built."""
    promises: WaitingPromises = field(default_factory=WaitingPromises)
    past: deque[int] = field(default_factory=lambda: deque(maxlen=PAST_INCARNATIONS))


@dataclass(slots=True, eq=False)
class Peer:
    """One connection; ``source`` is None until its HELLO was accepted."""

    connection: Hashable
    hello_due: int
    decoder: Decoder = field(default_factory=lambda: Decoder(HELLO_MAX))
    source: Source | None = None


class Refusal(Exception):  # noqa: N818 - a peer is refused; nothing went wrong here
    """A HELLO that is not accepted. ``retry``: the same HELLO may be accepted later."""

    def __init__(self, reason: str, detail: str, *, retry: bool) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.retry = retry


class Admission:
    """All sources that were ever accepted, by (site, name)."""

    def __init__(
        self,
        tokens: Mapping[tuple[str, str], str] | None,
        sources_max: int,
        takeover_ns: int,
    ) -> None:
        """``tokens`` None: any source is accepted, without a token."""
        self.sources: dict[tuple[str, str], Source] = {}
        self._tokens = tokens
        self._sources_max = sources_max
        self._takeover_ns = takeover_ns
        self._attr_types: dict[str, dict[str, str]] = {}

    def check_token(self, hello: Hello) -> None:
        """Raises Refusal when the token is not this source's."""
        if self._tokens is None:
            return
        expected = self._tokens.get((hello.site, hello.source))
        if expected is None or not hmac.compare_digest(expected.encode(), hello.token.encode()):
            raise Refusal("token", "no such source, or not its token", retry=False)

    def admit(self, hello: Hello, arrival: int) -> tuple[Source, Source | None]:
        """The source of a HELLO whose token is right, and the incarnation that it replaces.

        Raises:
            Refusal: ``stale_incarnation``, ``duplicate_source``, ``schema`` (streams changed
                without a new incarnation), ``attr_type`` (an attribute has another type
                elsewhere at the site), ``attrs_max`` or ``sources_max``.
        """
        key = (hello.site, hello.source)
        old = self.sources.get(key)
        schemas = tuple(stream.schema for stream in hello.streams)
        if old is not None and old.incarnation == hello.incarnation:
            if old.schemas != schemas:
                raise Refusal("schema", "streams changed without a new incarnation", retry=False)
            return old, None
        if old is not None:
            self._check_takeover(old, hello.incarnation, arrival)
        elif len(self.sources) >= self._sources_max:
            raise Refusal("sources_max", f"{self._sources_max} sources are known", retry=True)
        self._check_attrs(hello.site, schemas)
        source = Source(
            hello.site, hello.source, hello.incarnation, hello.resend, schemas,
            [Lane(stream.acked) for stream in hello.streams], Lane(hello.control_acked),
        )  # fmt: skip
        if old is not None:
            source.past.extend((*old.past, old.incarnation))
        self.sources[key] = source
        return source, old

    def _check_takeover(self, old: Source, incarnation: int, arrival: int) -> None:
        if incarnation in old.past:
            raise Refusal("stale_incarnation", f"{incarnation} was replaced", retry=False)
        heard = max(old.connections.values(), default=None)
        if heard is not None and arrival - heard < self._takeover_ns:
            detail = f"another incarnation of {old.name} is connected and alive"
            raise Refusal("duplicate_source", detail, retry=True)

    def _check_attrs(self, site: str, schemas: tuple[StreamSchema, ...]) -> None:
        known = self._attr_types.get(site, {})
        new: dict[str, str] = {}
        for schema in schemas:
            for name, kind in schema.attrs.items():
                have = known.get(name) or new.setdefault(name, kind)
                if have != kind:
                    detail = f"attribute {name} is {kind} here and {have} elsewhere at the site"
                    raise Refusal("attr_type", detail, retry=False)
        if len(known) + len(new) > SITE_ATTRS_MAX:
            raise Refusal("attrs_max", f"{SITE_ATTRS_MAX} attributes at one site", retry=False)
        self._attr_types[site] = {**known, **new}
