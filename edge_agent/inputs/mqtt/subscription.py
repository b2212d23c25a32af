"""``kind = "mqtt"``: subscribes with QoS 1 and acknowledges durable messages."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from slackwater.edge_agent.errors import did_you_mean
from slackwater.edge_agent.inputs.base import Backoff, Outlet, Surroundings, read_backoff
from slackwater.edge_agent.inputs.mqtt.link import BrokerConnection, BrokerSettings, ReceivedMessage
from slackwater.edge_agent.inputs.record_fields import FIELDS, RecordFields, read_fields, read_text
from slackwater.edge_agent.inputs.stamping import DEVICE, read_stamping, stamping_outlet
from slackwater.edge_agent.listening import TlsFiles, read_tls
from slackwater.edge_agent.outbox.journal import KEY_BYTES
from slackwater.edge_agent.packing import BadRecord, Row, fits
from slackwater.edge_agent.settings_file import Table
from slackwater.edge_agent.units import NS_PER

# Mapping of an MQTT message to events: a JSON payload, and the levels of its topic.
#
# A payload is an object (one event, with the fields of a trace), a list of objects (several
# events), or a bare number, text or bool, which becomes the attribute that ``value`` names.
# ``parts`` names the topic levels that are fields or attributes; a value in the payload takes
# precedence.


PAYLOAD_MAX: Final = 256 << 10
"""A longer payload is skipped [bytes]."""
EVENTS_MAX: Final = 1_000
"""Most events in one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadFields:
    """Mapping of an input's messages to events."""

    fields: RecordFields
    parts: tuple[str, ...]
    """Field or attribute of each topic level; empty: the level is ignored."""
    value: str
    """The attribute that gets a bare payload; empty: the payload must be an object."""

    def events(self, topic: str, payload: bytes, now_ns: int) -> list[tuple[str, Row]]:
        """Return stream and event of each record of a message; ``now_ns``: its arrival.

        Raises:
            BadRecord: names what is wrong; no event of the message is taken.
        """
        if len(payload) > PAYLOAD_MAX:
            raise BadRecord(f"a payload of {len(payload)} bytes; the longest is {PAYLOAD_MAX}")
        try:
            found = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise BadRecord(f"not JSON: {error}") from error
        records = found if isinstance(found, list) else [found]
        if len(records) > EVENTS_MAX:
            raise BadRecord(f"{len(records)} events in one message; the most are {EVENTS_MAX}")
        said = dict(zip(self.parts, topic.split("/"), strict=False))
        read = (self.fields.event(self._record(each, said), now_ns, topic) for each in records)
        return [each for each in read if each is not None]

    def _record(self, found: Any, said: Mapping[str, str]) -> dict[str, Any]:
        if isinstance(found, dict):
            record = found
        elif self.value and not isinstance(found, list):
            record = {self.value: found}
        else:
            raise BadRecord("not an object of JSON")
        stream = record.get("stream", said.get("stream", self.fields.stream))
        schema = self.fields.schemas.get(stream) if isinstance(stream, str) else None
        kinds = {} if schema is None else schema.attrs
        added = {
            name: read_text(text, "int" if name == "id" else kinds.get(name, "str"), name)
            for name, text in said.items()
            if name and name not in record
        }
        return record | added


def read_payload_fields(table: Table, fields: RecordFields) -> PayloadFields:
    """Read the settings ``parts`` and ``value`` of an input."""
    attrs = {attr for schema in fields.schemas.values() for attr in schema.attrs}
    parts = tuple(table.texts("parts", []))
    value = table.text("value", "")
    for key, names, known in (
        ("parts", [name for name in parts if name], [*FIELDS, *attrs]),
        ("value", [value] if value else [], attrs),
    ):
        for name in _strangers(names, known):
            raise table.wrong(key, f'"{name}" is no field or attribute{did_you_mean(name, known)}')
    return PayloadFields(fields=fields, parts=parts, value=value)


def _strangers(names: Sequence[str], known: Any) -> list[str]:
    return [name for name in names if name not in known]


# ``kind = "mqtt"``: subscribes with QoS 1 and acknowledges durable messages to the broker.
#
# While the agent is away, the broker keeps the session (client id, subscriptions, unacknowledged
# messages) and later sends the unacknowledged messages again. A message with MQTT's mark for this
# (DUP) that was taken before is recognised by its key, so a lost connection or a killed agent
# causes no duplicates (``edge_agent.outbox.journal``). A broker that has lost the session, for
# example one without persistence, restarts its message numbers: keys include the session number.


PORT: Final = 1883
TLS_PORT: Final = 8883
WAITING_MAX: Final = 1 << 20
"""Bytes of payloads that may wait for the outbox; beyond, the broker is not read."""
BATCH_ROWS: Final = 256
"""Events that are passed on together, with the keys of their messages."""
BATCH_BYTES: Final = 256 << 10
_PER_MESSAGE: Final = 200
"""Memory of a message in addition to its payload [bytes]."""


class MqttInput:
    """One session with a broker, over successive connections."""

    def __init__(
        self, name: str, settings: BrokerSettings, tls: TlsFiles | None, payloads: PayloadFields,
        backoff: Backoff, wall_ns: Callable[[], int], *, retained: bool,
    ) -> None:  # fmt: skip
        self.counts: Counter[str] = Counter()
        """Connections: ``connected``, ``not_connected``, ``lost``; messages: ``messages``,
        ``acknowledged``, ``repeated``, ``retained`` (skipped), ``bad``."""
        self._name = name
        self._settings = settings
        self._tls = tls
        self._payloads = payloads
        self._backoff = backoff
        self._wall_ns = wall_ns
        self.stamped: Callable[[Outlet], Outlet] = lambda outlet: outlet
        """Wraps the outlet so that events get the clocks that stamped them."""
        self._retained = retained
        self._waiting: deque[ReceivedMessage] = deque()
        self._waiting_bytes = 0
        self._came = asyncio.Event()
        self._link: BrokerConnection | None = None
        self._sender = f"mqtt {settings.client_id} {settings.host} {settings.port}"

    def listener(self) -> MqttInput:
        """Return an input for ``slackwater validate`` that reads the same topics without touching
        the agent's session: it has its own client id and receives QoS 0 copies. Its events name the
        device that stamped them for every setting of ``clock``; those without a time of their own
        name none.
        """
        settings = replace(
            self._settings, client_id=f"{self._settings.client_id}-validate", is_kept=False
        )
        payloads = replace(self._payloads, fields=replace(self._payloads.fields, devices=True))
        made = MqttInput(
            self._name, settings, self._tls, payloads, self._backoff, self._wall_ns, retained=False
        )
        made.stamped = self.stamped
        return made

    async def run(self, outlet: Outlet) -> None:
        outlet = self.stamped(outlet)
        place = f"{self._name}: {self._settings.host} port {self._settings.port}"
        context = None if self._tls is None else self._tls.context()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._hand_on(outlet, place))
            while True:
                why = await self._connection(context, partial(self._welcome, tasks, outlet))
                outlet.trouble(why, place)
                await self._backoff.wait()

    # --- connections

    async def _connection(
        self, context: ssl.SSLContext | None, welcome: Callable[[BrokerConnection], None]
    ) -> str:
        """Run one connection; return why it was lost or could not be opened."""
        link = self._link = BrokerConnection(self._settings, context, welcome, self._receive)
        try:
            await link.connect()
            await link.ended()
        except (OSError, ValueError) as error:
            self.counts["not_connected"] += 1
            return str(error) or "no answer in time"
        finally:
            link.close()
        self.counts["lost"] += 1
        return link.why or "the broker closed the connection"

    def _welcome(self, tasks: asyncio.TaskGroup, outlet: Outlet, link: BrokerConnection) -> None:
        self.counts["connected"] += 1
        self._backoff.reset()
        first = self.counts["connected"] == 1
        tasks.create_task(self._begin(outlet, link, first=first))

    async def _begin(self, outlet: Outlet, link: BrokerConnection, *, first: bool) -> None:
        """Subscribe once the session's number is durable: a new session has no subscriptions and so
        receives nothing before. A kept session has some, but the topics in the settings may differ.
        """
        link.session.set_result(await outlet.session(self._sender, kept=link.kept))
        if first or not link.kept:
            link.subscribe()

    def _receive(self, delivery: ReceivedMessage) -> None:
        self.counts["messages"] += 1
        self._waiting.append(delivery)
        self._waiting_bytes += len(delivery.payload) + _PER_MESSAGE
        if self._waiting_bytes > WAITING_MAX:
            delivery.link.pause()
        self._came.set()

    # --- from messages to events

    async def _hand_on(self, outlet: Outlet, place: str) -> None:
        """Take waiting messages and acknowledge them when they are durable."""
        while True:
            self._came.clear()
            if not self._waiting:
                await self._came.wait()
                continue
            batch = self._batch()
            await self._take(batch, outlet, place)
            await outlet.durable()
            for each in batch:
                if each.qos:
                    each.link.acknowledge(each.mid)
                    self.counts["acknowledged"] += 1

    def _batch(self) -> list[ReceivedMessage]:
        batch: list[ReceivedMessage] = []
        size = 0
        while self._waiting and len(batch) < BATCH_ROWS and size < BATCH_BYTES:
            batch.append(self._waiting.popleft())
            size += len(batch[-1].payload)
            self._waiting_bytes -= len(batch[-1].payload) + _PER_MESSAGE
        if self._link is not None and self._waiting_bytes <= WAITING_MAX // 2:
            self._link.resume()
        return batch

    async def _take(self, batch: list[ReceivedMessage], outlet: Outlet, place: str) -> None:
        """Pass on consecutive events of one stream together, with the keys of their messages."""
        rows: list[Row] = []
        keys: list[bytes] = []
        stream = ""
        before: set[bytes] = set()
        for each in batch:
            key = self._key(each, await each.link.session)
            known = each.again and (key in before or outlet.knows(key))
            before.add(key)
            if known:
                self.counts["repeated"] += 1
            events = [] if known else self._events(each, outlet, place)
            full = len(rows) + len(events) > BATCH_ROWS  # events of one message stay together
            for at, (named, row) in enumerate(events):
                cut = named != stream or not fits(rows, row) or (full and at == 0)
                if rows and cut:
                    await outlet.take(stream, rows, keys)
                    rows, keys = [], []
                stream = named
                rows.append(row)
            if rows and each.qos:
                keys.append(key)  # with the last of its events
        if rows:
            await outlet.take(stream, rows, keys)

    def _events(
        self, delivery: ReceivedMessage, outlet: Outlet, place: str
    ) -> list[tuple[str, Row]]:
        # A kept session already had the retained messages; each subscription repeats them.
        is_new = self._retained and (delivery.again or not delivery.link.kept)
        if delivery.retained and not is_new:
            self.counts["retained"] += 1
            return []
        try:
            return self._payloads.events(delivery.topic, delivery.payload, self._wall_ns())
        except BadRecord as error:
            self.counts["bad"] += 1
            outlet.bad(str(error), f"{place}: topic {delivery.topic!r:.100}")
            return []

    def _key(self, delivery: ReceivedMessage, session: int) -> bytes:
        digest = hashlib.blake2b(digest_size=KEY_BYTES)
        for part in (self._name, self._sender, str(session), str(delivery.mid), delivery.topic):
            digest.update(part.encode("utf-8") + b"\0")
        digest.update(delivery.payload)
        return digest.digest()


def mqtt_input(table: Table, around: Surroundings) -> MqttInput:
    """``kind = "mqtt"``; its settings are in docs/devices.md."""
    folder = Path(table.file).parent
    tls = read_tls(table.table("tls"), folder)
    topics = tuple(table.texts("topics"))
    if not topics or not all(0 < len(topic.encode()) <= 65_535 for topic in topics):
        raise table.wrong("topics", 'write the topics to subscribe to: ["ward/+/vitals"]')
    keepalive_ns = table.duration_ns("keepalive", 60 * NS_PER["s"], low=NS_PER["s"])
    settings = BrokerSettings(
        host=table.host("host", "127.0.0.1"),
        port=table.integer("port", PORT if tls is None else TLS_PORT, 1, 65_535),
        client_id=table.text("client_id", f"slackwater-{around.source}-{around.name}"),
        username=table.text("username", ""),
        password=table.secret("password", folder),
        topics=topics,
        keepalive_s=min(keepalive_ns // NS_PER["s"], 65_535),
    )
    retained = table.flag("retained", False)
    backoff = read_backoff(table, around.jitter)
    stamping = read_stamping(
        table, DEVICE, delay_min_max_ns=NS_PER["s"], delay_max_ns=60 * NS_PER["s"]
    )
    fields = read_fields(table, around.schemas, devices=stamping.clock == DEVICE)
    payloads = read_payload_fields(table, fields)
    found = MqttInput(
        around.name, settings, tls, payloads, backoff, around.wall_ns, retained=retained
    )
    fields.count_in(found.counts, around)
    found.stamped = stamping_outlet(stamping, fields, around, found.counts)
    return found
