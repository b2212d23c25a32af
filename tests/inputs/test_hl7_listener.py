"""The listener on sockets of this machine: answers come when events are durable, once each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from slackwater.edge_agent.errors import AgentError
from tests.inputs.outlet import KeptOutlet, an_input, met
from tests.inputs.test_hl7 import a_message

VALUE = {"value": "float"}


def framed(number: int, value: int = 1) -> bytes:
    return b"\x0b" + a_message(f"OBX|1|NM|A||{value}", number=number).encode() + b"\x1c\r"


class Sender:
    """A device: sends, and reads one answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, data: bytes) -> str:
        self.writer.write(data)
        return await self.answer()

    async def answer(self) -> str:
        async with asyncio.timeout(5):
            said = await self.reader.readuntil(b"\x1c\r")
        return said.decode().split("\rMSA|")[1].split("\r")[0]


@asynccontextmanager
async def listening(outlet: KeptOutlet, **settings: Any) -> AsyncIterator[Any]:
    made = an_input({"kind": "hl7-mllp", "port": 0, **settings}, VALUE)
    task = asyncio.create_task(made.run(outlet))
    await met(lambda: made.port)
    made.senders = []
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for sender in made.senders:
        sender.writer.close()
    await asyncio.sleep(0)


async def a_sender(made: Any) -> Sender:
    made.senders.append(Sender(*await asyncio.open_connection("127.0.0.1", made.port)))
    return made.senders[-1]


async def test_the_answer_waits_until_the_events_are_durable() -> None:
    outlet = KeptOutlet()
    outlet.safe.clear()
    async with listening(outlet) as made:
        sender = await a_sender(made)
        sender.writer.write(framed(1))
        await met(lambda: outlet.rows)
        await asyncio.sleep(0.05)
        assert sender.reader._buffer == b""  # type: ignore[attr-defined]
        outlet.safe.set()
        assert await sender.answer() == "AA|1"


async def test_a_message_that_comes_again_is_answered_and_not_taken_again() -> None:
    outlet = KeptOutlet()
    outlet.safe.clear()
    async with listening(outlet) as made:
        first, second = await a_sender(made), await a_sender(made)
        first.writer.write(framed(1))
        second.writer.write(framed(1))  # at the same time, over another connection
        await asyncio.sleep(0.05)
        outlet.safe.set()
        assert [await first.answer(), await second.answer()] == ["AA|1", "AA|1"]
        assert await first.ask(framed(1)) == "AA|1"
        assert await first.ask(framed(1, value=2)) == "AA|1"  # a device that counts from 1 again
        assert [row.attrs for _, row in outlet.rows] == [(1.0,), (2.0,)]
        assert (made.counts["accepted"], made.counts["repeated"]) == (2, 2)


async def test_no_room_is_reported_and_the_message_may_come_again() -> None:
    outlet = KeptOutlet()
    outlet.room = False
    async with listening(outlet) as made:
        sender = await a_sender(made)
        assert await sender.ask(framed(1)) == "AE|1|no room for its events"
        outlet.room = True
        assert await sender.ask(framed(1)) == "AA|1"
        assert len(outlet.rows) == 1


async def test_senders_that_pipeline_are_answered_in_turn() -> None:
    outlet = KeptOutlet()
    async with listening(outlet) as made:
        sender = await a_sender(made)
        sender.writer.write(b"".join(framed(number) for number in range(1, 100)))
        assert [await sender.answer() for _ in range(1, 100)] == [
            f"AA|{number}" for number in range(1, 100)
        ]


async def test_too_many_connections_and_broken_ones_are_counted() -> None:
    outlet = KeptOutlet()
    async with listening(outlet, connections=1) as made:
        first = await a_sender(made)
        assert await first.ask(framed(1)) == "AA|1"
        second = await a_sender(made)
        assert await second.reader.read() == b""
        first.writer.write(b"\x0bMSH|half")
        await first.writer.drain()
        first.writer.transport.abort()
        await met(lambda: not made._connections)
        third = await a_sender(made)
        assert await third.ask(framed(3)) == "AA|3"
        assert made.counts["refused_connections"] == 1
        assert "more than 1 connections" in outlet.faults[0]


async def test_a_port_that_is_taken_is_reported() -> None:
    outlet = KeptOutlet()
    async with listening(outlet) as made:
        other = an_input({"kind": "hl7-mllp", "port": made.port}, VALUE)
        with pytest.raises(AgentError, match=f"hl7-mllp: 127.0.0.1 port {made.port}: "):
            await other.run(outlet)


async def test_a_flood_of_empty_messages_is_refused() -> None:
    outlet = KeptOutlet()
    async with listening(outlet) as made:
        sender = await a_sender(made)
        sender.writer.write(b"\x0b\x1c" * 1000)
        for _ in range(1000):
            assert (await sender.answer()).startswith("AR||a message begins with MSH")
        assert made.counts["refused_AR"] == 1000


async def test_a_sender_that_says_no_more_still_gets_its_answer() -> None:
    outlet = KeptOutlet()
    async with listening(outlet) as made:
        sender = await a_sender(made)
        sender.writer.write(framed(1))
        sender.writer.write_eof()
        assert await sender.answer() == "AA|1"
        assert await sender.reader.read() == b""
