"""MQTT: payloads and topics become events; connections to a broker that says what a test wants."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from slackwater.edge_agent.inputs.mqtt import subscription
from slackwater.edge_agent.packing import BadRecord, Row
from tests.inputs.outlet import NOW_NS, KeptOutlet, an_input, met

ATTRS = {"temperature": "float", "machine": "str", "line": "int"}


def events(topic: str, payload: bytes, **settings: Any) -> list[Row]:
    made = an_input({"kind": "mqtt", "topics": ["#"], **settings}, ATTRS)
    return [row for _, row in made._payloads.events(topic, payload, NOW_NS)]


def test_a_payload_is_an_event_and_its_topic_says_more() -> None:
    # As Zigbee2MQTT and Tasmota publish: an object per reading, the device in the topic.
    payload = b'{"temperature": 21.5, "ts": "2024-01-01T00:00:00.5Z", "battery": 97}'
    found = events("hall/7/press-2/READING", payload, parts=["", "line", "machine", "type"])
    ts = 1704067200 * 10**9 + 500 * 10**6
    assert found == [Row(ts, ts, None, "READING", (21.5, "press-2", 7), "hall/7/press-2/READING")]


def test_a_list_is_some_events() -> None:
    found = events("t", b'[{"ts": 1, "temperature": 1}, {"ts": 2}]', time_unit="ms")
    assert [(row.ts, row.attrs[0]) for row in found] == [(10**6, 1.0), (2 * 10**6, None)]


def test_a_number_is_the_attribute_that_is_named() -> None:
    (found,) = events("press-2", b"-4.25", value="temperature", parts=["machine"])
    assert found == Row(NOW_NS, NOW_NS, None, None, (-4.25, "press-2", None))


def test_what_the_payload_says_itself_comes_first() -> None:
    (found,) = events("a", b'{"machine": "b"}', parts=["machine"])
    assert found.attrs[1] == "b"


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "not JSON"),
        (b"21.5", "not an object of JSON"),
        (b"[[1]]", "not an object of JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"temperature": "warm"}', "attribute temperature: 'warm' is not of type float"),
        (b"\xff\xfe", "not JSON"),
        (b'{"stream": "other"}', "no stream 'other'"),
        (b'{"stream": ["events"]}', "no stream"),
        (b'"' + b"x" * (256 << 10) + b'"', "a payload of 262146 bytes"),
        (b"[" + b"{}," * 1000 + b"{}]", "1001 events in one message"),
    ],
)
def test_payloads_that_are_no_events_are_reported(payload: bytes, message: str) -> None:
    with pytest.raises(BadRecord) as error:
        events("topic", payload)
    assert message in str(error.value)


def test_a_part_that_is_no_number_is_reported() -> None:
    with pytest.raises(BadRecord, match="line: 'x' is not of type int"):
        events("x", b"{}", parts=["line"])


CONNECT, PUBLISH, PUBACK, SUBSCRIBE, PINGREQ = 1, 3, 4, 8, 12


class Broker:
    """Notes what a client sends, and sends what a test asks for."""

    def __init__(self, *, present: bool = False, refuse: int = 0, suback: int = 1) -> None:
        self.present = present
        self.refuse = refuse
        self.suback = suback
        self.connects: list[bytes] = []
        self.subscribed = 0
        self.acknowledged: list[int] = []
        self.pings = 0
        self.writer: asyncio.StreamWriter | None = None
        self._server: Any = None

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self._server.close()
        self.drop()
        await asyncio.sleep(0.01)

    def drop(self) -> None:
        if self.writer is not None:
            self.writer.transport.abort()
            self.writer = None

    def send(self, first: int, body: bytes) -> None:
        size, length = len(body), b""
        while True:
            size, low = divmod(size, 128)
            length += bytes([low | (0x80 if size else 0)])
            if not size:
                break
        assert self.writer is not None
        self.writer.write(bytes([first]) + length + body)

    def publish(
        self, mid: int, payload: bytes, *, dup: bool = False, qos: int = 1, retain: bool = False
    ) -> None:
        topic = b"ward/3"
        number = struct.pack(">H", mid) if qos else b""
        first = PUBLISH << 4 | (8 if dup else 0) | qos << 1 | retain
        self.send(first, struct.pack(">H", len(topic)) + topic + number + payload)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                kind = (await reader.readexactly(1))[0] >> 4
                size = shift = 0
                while True:
                    (byte,) = await reader.readexactly(1)
                    size |= (byte & 0x7F) << shift
                    shift += 7
                    if byte < 0x80:
                        break
                body = await reader.readexactly(size)
                if kind == CONNECT:
                    self.connects.append(body)
                    self.writer = writer
                    self.send(0x20, bytes([self.present and not self.refuse, self.refuse]))
                elif kind == SUBSCRIBE:
                    self.subscribed += 1
                    self.send(0x90, body[:2] + bytes([self.suback]))
                elif kind == PUBACK:
                    self.acknowledged.append(int.from_bytes(body, "big"))
                elif kind == PINGREQ:
                    self.pings += 1
                    self.send(0xD0, b"")
        except (asyncio.IncompleteReadError, OSError):
            writer.transport.abort()


@asynccontextmanager
async def subscribing(broker: Broker, outlet: KeptOutlet, **settings: Any) -> AsyncIterator[Any]:
    port = await broker.start()
    made = an_input(
        {"kind": "mqtt", "port": port, "topics": ["ward/#"], "value": "v", "reconnect": "5 ms",
         "reconnect_max": "5 ms", "client_id": "me", **settings},
        {"v": "int"},
    )  # fmt: skip
    task = asyncio.create_task(made.run(outlet))
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await broker.stop()


def ready(made: Any) -> bool:
    """Whether the newest connection is there and subscribed."""
    return bool(made.counts["connected"] > made.counts["lost"] and made._link.subscribed)


def values(outlet: KeptOutlet) -> list[Any]:
    return [row.attrs[0] for _, row in outlet.rows]


async def test_a_message_is_acknowledged_when_it_is_durable_and_on_its_own_connection() -> None:
    broker, outlet = Broker(present=True), KeptOutlet()
    outlet.safe.clear()
    async with subscribing(broker, outlet, username="u", password="p") as made:
        await met(lambda: broker.subscribed)
        assert broker.connects[0] == (
            b"\x00\x04MQTT\x04\xc0\x00\x3c\x00\x02me\x00\x01u\x00\x01p"  # no clean session
        )
        broker.publish(7, b"61")
        await met(lambda: outlet.rows)
        await asyncio.sleep(0.05)
        assert broker.acknowledged == []
        broker.drop()
        await met(lambda: made.counts["connected"] == 2)
        broker.publish(7, b"61", dup=True)  # it comes again, as it was not acknowledged
        await met(lambda: made.counts["messages"] == 2)
        outlet.safe.set()
        await met(lambda: broker.acknowledged)
        await asyncio.sleep(0.05)
        assert broker.acknowledged == [7]  # once, and not for the connection that is gone
        assert values(outlet) == [61]
        assert made.counts["repeated"] == 1
        assert broker.subscribed == 1  # the broker had kept the session


@pytest.mark.parametrize(
    ("retained", "present", "taken"),
    [(False, False, [62]), (True, False, [61, 62]), (True, True, [62])],
)
async def test_an_old_value_of_the_broker_is_taken_where_the_settings_say_so(
    retained: bool, present: bool, taken: list[int]
) -> None:
    """Once: a session that was kept has had it. It is acknowledged either way, or the broker would
    send it for ever.
    """
    broker, outlet = Broker(present=present), KeptOutlet()
    async with subscribing(broker, outlet, retained=retained) as made:
        await met(lambda: broker.subscribed)
        broker.publish(7, b"61", retain=True)
        broker.publish(8, b"62")
        await met(lambda: broker.acknowledged == [7, 8])
        assert values(outlet) == taken
        assert made.counts["retained"] == (61 not in taken)


async def test_an_old_value_that_was_not_acknowledged_is_taken_when_it_comes_again() -> None:
    broker, outlet = Broker(present=True), KeptOutlet()
    async with subscribing(broker, outlet, retained=True):
        await met(lambda: broker.subscribed)
        broker.publish(7, b"61", retain=True, dup=True)
        await met(lambda: broker.acknowledged == [7])
        assert values(outlet) == [61]


async def test_a_number_that_is_used_again_is_another_message() -> None:
    broker, outlet = Broker(), KeptOutlet()
    async with subscribing(broker, outlet):
        await met(lambda: broker.subscribed)
        broker.publish(7, b"61")
        await met(lambda: broker.acknowledged == [7])
        broker.publish(7, b"61")  # not marked as sent again
        broker.publish(7, b"62", dup=True)  # marked, but never seen
        await met(lambda: len(broker.acknowledged) == 3)
        assert values(outlet) == [61, 61, 62]


async def test_attack2_01_a_new_session_numbers_its_messages_anew() -> None:
    broker, outlet = Broker(), KeptOutlet()
    async with subscribing(broker, outlet) as made:
        await met(lambda: broker.subscribed)
        broker.publish(1, b"98")
        await met(lambda: broker.acknowledged == [1])
        broker.drop()  # and what it knew is gone
        await met(lambda: broker.subscribed == 2)
        broker.publish(1, b"98", dup=True)
        await met(lambda: broker.acknowledged == [1, 1])
        broker.present = True
        broker.drop()
        await met(lambda: made.counts["connected"] == 3)
        broker.publish(1, b"98", dup=True)
        await met(lambda: broker.acknowledged == [1, 1, 1])
    assert values(outlet) == [98, 98]
    assert made.counts["repeated"] == 1


async def test_attack2_01_nothing_is_subscribed_before_the_new_session_is_known() -> None:
    broker, outlet = Broker(), KeptOutlet()
    known, number = asyncio.Event(), outlet.session

    async def session(sender: str, *, kept: bool) -> int:
        await known.wait()
        return await number(sender, kept=kept)

    outlet.session = session  # type: ignore[method-assign]
    async with subscribing(broker, outlet):
        await met(lambda: broker.connects)
        await asyncio.sleep(0.05)
        assert not broker.subscribed
        known.set()
        await met(lambda: broker.subscribed)


async def test_attack2_01_a_message_and_its_repetition_in_one_batch_are_one() -> None:
    broker, outlet = Broker(present=True), KeptOutlet()
    outlet.safe.clear()
    async with subscribing(broker, outlet) as made:
        await met(lambda: broker.subscribed)
        broker.publish(1, b"0")
        await met(lambda: outlet.rows)  # now it waits for the disk, and the others for it
        for times in range(3):
            broker.publish(7, b"61", dup=times > 0)
            broker.publish(8, b"61", dup=times > 0)
            await met(lambda times=times: made.counts["messages"] == 2 * times + 3)
            broker.drop()
            await met(lambda times=times: made.counts["connected"] == times + 2)
        outlet.safe.set()
        await met(lambda: not made._waiting)
        await asyncio.sleep(0.01)
    assert values(outlet) == [0, 61, 61]


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_is_lost_and_comes_again_is_taken_once(seed: int) -> None:
    """A broker that may forget its session; it forgets acknowledged messages, too."""
    chance, outlet = Random(seed), KeptOutlet()
    broker = Broker(present=True)
    published: list[int] = []
    numbers = iter(range(1, 10**6))
    left: dict[int, bytes] = {}
    async with subscribing(broker, outlet) as made:
        for _ in range(60):
            await met(lambda: ready(made) or (broker.present and made.counts["connected"] > 1
                      and made.counts["connected"] > made.counts["lost"]))  # fmt: skip
            kind = chance.random()
            if kind < 0.6:
                mid = next(numbers)
                left[mid] = b"%d" % chance.randrange(2)  # alike, so that keys are all there is
                broker.publish(mid, left[mid])
                published.append(mid)
            elif kind < 0.7:
                outlet.safe.clear()
            elif kind < 0.8:
                outlet.safe.set()
            elif kind < 0.95:
                connected = made.counts["connected"]
                broker.drop()
                await met(lambda connected=connected: made.counts["connected"] > connected)
                for mid in broker.acknowledged:
                    left.pop(mid, None)
                for mid, payload in left.items():
                    broker.publish(mid, payload, dup=True)
            else:  # a new session: all that it had sent is known to be safe, as is only fair
                outlet.safe.set()
                await met(lambda: len(outlet.rows) == len(published))
                await met(lambda: set(left) <= set(broker.acknowledged))
                connected, broker.present = made.counts["connected"], False
                broker.drop()
                await met(lambda connected=connected: made.counts["connected"] > connected)
                await met(lambda: ready(made))
                broker.present, numbers = True, iter(range(1, 10**6))
                broker.acknowledged.clear()
                left.clear()
        outlet.safe.set()
        await met(lambda: not made._waiting)
        await asyncio.sleep(0.02)
    assert len(outlet.rows) == len(published)


async def test_a_session_that_the_broker_lost_is_subscribed_anew() -> None:
    broker, outlet = Broker(), KeptOutlet()
    async with subscribing(broker, outlet) as made:
        await met(lambda: broker.subscribed)
        broker.drop()
        await met(lambda: broker.subscribed == 2)
        assert made.counts["lost"] == 1


async def test_refusals_are_reported() -> None:
    for broker, message in (
        (Broker(refuse=5), "the broker refuses: Not authorized"),
        (Broker(suback=0x80), "the broker refuses the topic 'ward/#'"),
    ):
        outlet = KeptOutlet()
        async with subscribing(broker, outlet) as made:
            await met(lambda made=made: made.counts["lost"] >= 2)
            assert message in outlet.faults[0]


async def test_bytes_that_are_no_mqtt_end_the_connection_only() -> None:
    broker, outlet = Broker(), KeptOutlet()
    async with subscribing(broker, outlet) as made:
        for first, body in (
            (0x00, b""), (0x32, b"\xff\xff"), (0x32, b""), (0x20, b""), (0xF0, b"\x01"),
            (0x90, b""), (0x36, b"\x00\x01a\x00\x01"), (0x32, b"\x00\x01\xff\x00\x01x"),
        ):  # fmt: skip
            await met(lambda: ready(made))
            broker.send(first, body)
            broker.send(0xFF, b"\xff\xff\xff")
            before = made.counts["lost"]
            await met(lambda before=before: made.counts["lost"] > before)
        await met(lambda: ready(made))
        broker.publish(1, b"5")
        await met(lambda: values(outlet) == [5])


async def test_a_broker_without_a_window_is_not_read_while_much_waits(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(subscription, "WAITING_MAX", 50_000)
    broker, outlet = Broker(), KeptOutlet()
    outlet.safe.clear()
    async with subscribing(broker, outlet) as made:
        await met(lambda: broker.subscribed)
        for mid in range(1, 2001):
            broker.publish(mid, b"%d" % mid)
        await asyncio.sleep(0.2)
        assert made.counts["messages"] < 1000
        outlet.safe.set()
        await met(lambda: len(broker.acknowledged) == 2000)
        assert values(outlet) == list(range(1, 2001))


async def test_messages_without_a_promise_are_taken_and_not_acknowledged() -> None:
    broker, outlet = Broker(), KeptOutlet()
    async with subscribing(broker, outlet, keepalive="1 s"):
        await met(lambda: broker.subscribed)
        broker.publish(0, b"3", qos=0)
        await met(lambda: values(outlet) == [3])
        await met(lambda: broker.pings)
        assert broker.acknowledged == []


def test_a_record_names_the_device_that_stamped_it() -> None:
    rows = events("t", b'[{"ts": 1, "dev": "a"}, {"ts": 2}, {"temperature": 3}]',
                  map={"clock": "dev"})  # fmt: skip
    assert [row.clock for row in rows] == ["a", "t", None]
    rows = events("t", b'{"ts": 1, "clock": "a"}', clock="agent")
    assert [row.clock for row in rows] == [None]
