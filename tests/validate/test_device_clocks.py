"""The clock that stamps is the one that is judged: a reader's, a monitor's."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slackwater.edge_agent.drivers.agent_file import read_agent
from slackwater.edge_agent.drivers.measure.inputs import measured_inputs
from slackwater.edge_agent.measure import DeviceFindings
from tests.inputs.test_mqtt import Broker
from tests.live.conftest import free_port
from tests.live.test_device_clocks import Reader


def measured(folder: Path, table: str) -> DeviceFindings:
    file = folder / "agent.toml"
    file.write_text(f"[[input]]\n{table}")
    settings = read_agent(file, lambda: 0, lambda: "ward")
    (found,) = asyncio.run(measured_inputs(settings, folder, patience_s=2.0))
    assert found.clock is not None
    return found.clock


@contextlib.contextmanager
def a_reader(ahead: float) -> Iterator[str]:
    reader = Reader(ahead)
    try:
        yield f'kind = "rfid-llrp"\nhost = "127.0.0.1"\nport = {reader.port}\n'
    finally:
        reader.close()


def test_a_readers_clock_is_read_from_its_greeting(tmp_path: Path) -> None:
    with a_reader(-20.0) as table:
        found = measured(tmp_path, table)
        assert found.said.startswith(
            "the reader's clock is 20.0 s slow; its events are stamped by it, and the agent follows"
        )
        assert not found.wrong
        assert 0 < found.width_ns < 10**9
        found = measured(tmp_path, table + 'clock = "agent"\n')
        assert found.wrong
        assert 'takes them for right: set clock = "device"' in found.said
        found = measured(tmp_path, table + 'clock = "arrival"\n')
        assert found.width_ns == 60 * 10**9


def test_a_reader_that_is_right_may_be_taken_for_the_agent(tmp_path: Path) -> None:
    with a_reader(0.0) as table:
        found = measured(tmp_path, table + 'clock = "agent"\n')
    assert not found.wrong
    assert "the reader's clock is right to 0.1 s" in found.said


@pytest.mark.parametrize(("ahead", "reported"), [(14.0, "14.0 s ahead"), (-20.0, "20.0 s slow")])
def test_a_monitors_clock_is_read_from_its_message(
    tmp_path: Path, ahead: float, reported: str
) -> None:
    port = free_port()

    def send() -> None:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as to:
                shown = datetime.fromtimestamp(time.time() + ahead, UTC)
                text = f"MSH|^~\\&|MON|ICU|||{shown:%Y%m%d%H%M%S.%f}+0000||ORU^R01|1|P|2.6\r"
                to.sendall(b"\x0b" + text.encode() + b"\x1c\r")
                assert to.recv(100) == b""  # no acknowledgement: it will be sent again
                return
            time.sleep(0.02)

    sender = threading.Thread(target=send)
    sender.start()
    found = measured(tmp_path, f'kind = "hl7-mllp"\nport = {port}\n')
    sender.join()
    assert f"the monitor's clock is {reported}" in found.said
    assert found.width_ns == 10**9 + 3000  # twice delay_min_max, and the time's grain


async def soccer_findings(folder: Path, ahead: float, more: str = "") -> DeviceFindings:
    port = free_port()
    over = asyncio.Event()

    async def send() -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            while not over.is_set():
                ps = int((time.time() + ahead) * 1e12)
                sender.sendto(b"4,%d,1,2,3,0,0,0,0,0,0,0,0\n" % ps, ("127.0.0.1", port))
                await asyncio.sleep(0.05)

    sending = asyncio.create_task(send())
    found = await found_of(folder, f'kind = "soccer-udp"\nport = {port}\n{more}')
    over.set()
    await sending
    return found


async def found_of(folder: Path, table: str) -> DeviceFindings:
    file = folder / "agent.toml"
    file.write_text(f'[[stream]]\nname = "events"\nattrs = {{ v = "int" }}\n[[input]]\n{table}')
    if "soccer" in table:
        file.write_text(f"[[input]]\n{table}")
    settings = read_agent(file, lambda: 0, lambda: "ward")
    (found,) = await measured_inputs(settings, folder, patience_s=0.4)
    assert found.clock is not None
    return found.clock


@pytest.mark.parametrize(("ahead", "reported"), [(14.0, "14.0 s ahead"), (-20.0, "20.0 s slow")])
def test_the_clock_of_a_locating_system_is_read(
    tmp_path: Path, ahead: float, reported: str
) -> None:
    found = asyncio.run(soccer_findings(tmp_path, ahead))
    assert f"soccer-udp's clock is {reported}; its events are stamped by it" in found.said
    assert not found.wrong
    found = asyncio.run(soccer_findings(tmp_path, ahead, 'clock = "agent"\n'))
    assert f"clock is {reported}" in found.said
    assert found.wrong
    found = asyncio.run(soccer_findings(tmp_path, ahead, 'clock = "arrival"\n'))
    assert found.said == "events are stamped by the agent on arrival, up to 10 s late"


def test_a_locating_system_that_is_silent_is_not_judged(tmp_path: Path) -> None:
    found = asyncio.run(found_of(tmp_path, f'kind = "soccer-udp"\nport = {free_port()}\n'))
    assert found.said == ("the device's clock was not read: no message with a time of its own came")


async def mqtt_findings(folder: Path, aheads: dict[str, float], more: str) -> DeviceFindings:
    broker = Broker()
    port = await broker.start()
    over = asyncio.Event()

    async def publish() -> None:
        while not broker.subscribed:
            await asyncio.sleep(0.005)
        if not aheads or len(aheads) > 1:
            broker.publish(0, b'{"v": 1}', qos=0)  # no time: the agent's
        while not over.is_set():
            for name, ahead in aheads.items():
                ts = int((time.time() + ahead) * 1e9)
                broker.publish(0, b'{"v": 1, "clock": "%s", "ts": %d}' % (name.encode(), ts), qos=0)
            await asyncio.sleep(0.05)

    publishing = asyncio.create_task(publish())
    found = await found_of(
        folder, f'kind = "mqtt"\nport = {port}\ntopics = ["ward/#"]\nclient_id = "me"\n{more}'
    )
    over.set()
    await publishing
    assert broker.acknowledged == []
    (connect,) = broker.connects
    assert connect[7] & 2, "a session that the broker does not keep"
    assert connect.endswith(b"me-validate"), "the agent's own session is left alone"
    await broker.stop()
    return found


def test_the_clocks_of_publishers_are_read_beside_the_agent(tmp_path: Path) -> None:
    found = asyncio.run(mqtt_findings(tmp_path, {"a": 0.0, "b": -20.0}, ""))
    assert "mqtt/b's clock is 20.0 s slow; its events are stamped by it" in found.said
    assert "(the worst of 2 devices); 1 events are stamped by the agent on arrival" in found.said
    assert found.width_ns == 60 * 10**9
    assert not found.wrong
    found = asyncio.run(mqtt_findings(tmp_path, {"b": 3.0}, 'clock = "agent"\n'))
    assert "clock is 3.0 s ahead" in found.said
    assert found.wrong


@pytest.mark.parametrize("clock", ["device", "agent"])
def test_an_event_without_a_time_is_no_proof_of_a_devices_clock(tmp_path: Path, clock: str) -> None:
    """The agent stamps it when it comes, so its stamp always agrees with the agent's clock."""
    found = asyncio.run(mqtt_findings(tmp_path, {}, f'clock = "{clock}"\n'))
    assert found.said == "events are stamped by the agent on arrival, up to 1 min late"
    assert found.width_ns == 60 * 10**9
    assert not found.wrong


def test_a_silent_broker_proves_nothing(tmp_path: Path) -> None:
    asyncio.run(silent(tmp_path))


async def silent(folder: Path) -> None:
    broker = Broker()
    port = await broker.start()
    found = await found_of(folder, f'kind = "mqtt"\nport = {port}\ntopics = ["a"]\n')
    await broker.stop()
    assert "was not read: no message with a time of its own came" in found.said


def test_a_monitor_that_says_nothing_is_not_judged(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(f'[[input]]\nkind = "hl7-mllp"\nport = {free_port()}\n')
    settings = read_agent(file, lambda: 0, lambda: "ward")
    (found,) = asyncio.run(measured_inputs(settings, tmp_path, patience_s=0.1))
    assert found.clock is not None
    assert found.clock.said == "the monitor's clock was not read"
    assert not found.clock.wrong
