"""A real Mosquitto: what it hands over is acknowledged to it when it is durable, and comes once."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from tests.inputs.outlet import KeptOutlet, an_input
from tests.live.conftest import Field, free_port, until

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        MOSQUITTO is None, reason="no mosquitto here (Debian: apt-get install mosquitto)"
    ),
]


class Broker:
    """A Mosquitto that keeps sessions over restarts, on a port of its own."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.file = folder / "mosquitto.conf"
        store = folder / "mosquitto"
        store.mkdir()
        store.chmod(0o777)
        self.file.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"persistence_location {store}/\nautosave_interval 1\n"
            "max_queued_messages 0\nuser root\n"
        )
        self.start()

    def start(self) -> None:
        assert MOSQUITTO is not None
        self.process = subprocess.Popen(
            [MOSQUITTO, "-c", self.file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self._listens, "mosquitto")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def publish(self, topic: str, payloads: list[str]) -> None:
        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.max_queued_messages_set(0)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        for each in [client.publish(topic, payload, 1) for payload in payloads]:
            each.wait_for_publish(20)
        client.disconnect()
        client.loop_stop()


@pytest.fixture(name="broker")
def _broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    yield made
    made.stop()


def settings_of(broker: Broker) -> dict[str, Any]:
    return {
        "kind": "mqtt", "port": broker.port, "topics": ["ward/+/hr"], "parts": ["", "bed"],
        "value": "v", "reconnect": "20 ms", "reconnect_max": "100 ms",
    }  # fmt: skip


async def met(true: Any) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


def test_nothing_is_acknowledged_before_it_is_durable(broker: Broker) -> None:
    async def first() -> None:
        outlet = KeptOutlet()
        outlet.safe.clear()
        made = an_input(settings_of(broker), {"v": "int", "bed": "str"})
        task = asyncio.create_task(made.run(outlet))
        await met(lambda: made.counts["connected"])
        await met(lambda: made._link.subscribed)
        await asyncio.to_thread(broker.publish, "ward/3/hr", ["61", "62"])
        await met(lambda: outlet.rows and made.counts["messages"] == 2)
        assert made.counts["acknowledged"] == 0
        task.cancel()  # killed before anything was durable
        await asyncio.gather(task, return_exceptions=True)

    async def second() -> None:
        outlet = KeptOutlet()
        made = an_input(settings_of(broker), {"v": "int", "bed": "str"})
        task = asyncio.create_task(made.run(outlet))
        await met(lambda: made.counts["acknowledged"] == 2)
        assert [row.attrs for _, row in outlet.rows] == [(61, "3"), (62, "3")]
        await asyncio.to_thread(broker.stop)
        await met(lambda: made.counts["not_connected"])
        await asyncio.to_thread(broker.start)
        await met(lambda: made.counts["connected"] == 2)
        await asyncio.to_thread(broker.publish, "ward/4/hr", ["70", "x", "71"])
        await met(lambda: made.counts["acknowledged"] == 5)
        assert [row.attrs for _, row in outlet.rows][2:] == [(70, "4"), (71, "4")]
        assert made.counts["bad"] == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(first())
    asyncio.run(second())


def test_a_slow_outbox_slows_the_broker(broker: Broker) -> None:
    async def check() -> None:
        outlet = KeptOutlet()
        outlet.safe.clear()
        made = an_input(settings_of(broker), {"v": "int", "bed": "str"})
        task = asyncio.create_task(made.run(outlet))
        await met(lambda: made.counts["connected"] and made._link.subscribed)
        await asyncio.to_thread(broker.publish, "ward/1/hr", [str(v) for v in range(3000)])
        assert made.counts["messages"] <= 100
        outlet.safe.set()
        await met(lambda: made.counts["acknowledged"] == 3000)
        assert [row.attrs[0] for _, row in outlet.rows] == list(range(3000))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(check())


def test_every_message_is_in_the_log_once_though_agent_and_broker_are_killed(
    field: Field, broker: Broker
) -> None:
    random = Random(5)
    name = field.agent_file(
        "ward",
        f'[[input]]\nkind = "mqtt"\nport = {broker.port}\ntopics = ["v"]\nvalue = "v"\n'
        'reconnect = "20 ms"\nreconnect_max = "100 ms"\n',
        '[outbox]\nfolder = "outbox"\n',
    )
    field.site()
    field.serve()
    running = field.start("agent", "--config", name)
    running.says("running")
    time.sleep(0.5)  # it has subscribed
    for part in range(6):
        broker.publish("v", [str(v) for v in range(200 * part, 200 * part + 200)])
        time.sleep(random.random() * 0.2)
        running.end(signal.SIGKILL)
        if part == 3:
            broker.stop()
            broker.start()
        running = field.start("agent", "--config", name)
    until(lambda: len(field.values("ward")) >= 1200, "all messages in the log")
    time.sleep(0.5)
    assert running.end() == 0
    assert sorted(field.values("ward")) == list(range(1200))
