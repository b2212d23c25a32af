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

from edge_agent.drivers.agent_file import read_agent
from edge_agent.drivers.measure.inputs import measured_inputs
from edge_agent.measure.findings import DeviceFindings
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


@pytest.mark.parametrize(("ahead", "told"), [(14.0, "14.0 s ahead"), (-20.0, "20.0 s slow")])
def test_a_monitors_clock_is_read_from_its_message(tmp_path: Path, ahead: float, told: str) -> None:
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
    assert f"the monitor's clock is {told}" in found.said
    assert found.width_ns == 10**9 + 3000  # twice delay_min_max, and the time's grain


def test_a_monitor_that_says_nothing_is_not_judged(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(f'[[input]]\nkind = "hl7-mllp"\nport = {free_port()}\n')
    settings = read_agent(file, lambda: 0, lambda: "ward")
    (found,) = asyncio.run(measured_inputs(settings, tmp_path, patience_s=0.1))
    assert found.clock is not None
    assert found.clock.said == "the monitor's clock was not read"
    assert not found.clock.wrong
