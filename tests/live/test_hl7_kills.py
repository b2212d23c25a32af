"""A device sends HL7 messages until each is acknowledged; its agent is killed again and again."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from random import Random
from typing import Any

import pytest

from tests.live.conftest import Field, Program, free_port, until

pytestmark = pytest.mark.slow

MESSAGE = (
    "\x0bMSH|^~\\&|MON|ICU|||20240101120000+0000||ORU^R01|{n}|P|2.5\r"
    "OBR|1||||||20240101120000+0000\rOBX|1|NM|HR||{n}\rOBX|2|NM|HR||-{n}\r\x1c\r"
)


class Device(threading.Thread):
    """Sends a message again until it is acknowledged, over a new connection when one is lost."""

    def __init__(self, port: int, count: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.count = count
        self.acknowledged = 0
        self.sent_again = 0

    def run(self) -> None:
        for number in range(1, self.count + 1):
            while not self._sent(number):
                self.sent_again += 1
                time.sleep(0.01)
            self.acknowledged = number

    def _sent(self, number: int) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 10) as link:
                link.sendall(MESSAGE.format(n=number).encode())
                said = b""
                while not said.endswith(b"\x1c\r"):
                    more = link.recv(4096)
                    if not more:
                        return False
                    said += more
        except OSError:
            return False
        assert f"\rMSA|AA|{number}\r".encode() in said, said
        return True


def play(field: Field, messages: int, kills: int, seed: int) -> None:
    random = Random(seed)
    port = free_port()
    settings = f'[[input]]\nkind = "hl7-mllp"\nport = {port}\n[input.map]\nv = "value"\n'
    name = field.agent_file("monitor", settings, '[outbox]\nfolder = "outbox"\n')
    field.site()
    field.serve()
    device = Device(port, messages)
    device.start()

    def agent() -> Program:
        return field.start("agent", "--config", name)

    running = agent()
    for _ in range(kills):
        before = device.acknowledged
        until(lambda before=before: device.acknowledged > before, "an acknowledgement")
        time.sleep(random.random() * 0.05)
        running.end(signal.SIGKILL)
        running = agent()
    device.join(60)
    assert device.acknowledged == messages
    wanted = [v for n in range(1, messages + 1) for v in (n, -n)]
    until(lambda: len(field.values("monitor")) >= len(wanted), "all events in the log")
    assert running.end() == 0
    assert field.values("monitor") == wanted
    assert device.sent_again > 0


def test_every_message_is_in_the_log_once_though_the_agent_is_killed(field: Field) -> None:
    play(field, messages=100, kills=3, seed=1)


@pytest.mark.parametrize(
    "seed", [2, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(3, 6))]
)
def test_many_kills(field: Field, seed: int) -> None:
    play(field, messages=600, kills=12, seed=seed)


def test_without_an_outbox_the_gateway_s_ack_counts(field: Field) -> None:
    port = free_port()
    settings = f'[[input]]\nkind = "hl7-mllp"\nport = {port}\nname = "bed-1"\n'
    name = field.agent_file("monitor", settings + '[input.map]\nv = "value"\n')
    text = (field.folder / name).read_text()
    (field.folder / name).write_text(
        text.replace("[agent]\n", '[agent]\nstatus = "status.json"\nstatus_every = "20 ms"\n')
    )
    field.site()
    running = field.start("agent", "--config", name)
    running.says("Connect call failed")
    device = Device(port, 1)
    device.start()
    time.sleep(0.3)
    assert device.acknowledged == 0
    field.serve()
    until(lambda: device.acknowledged == 1, "the answer")
    assert field.values("monitor") == [1, -1]

    def status() -> dict[str, Any]:
        return dict(json.loads((field.folder / "status.json").read_text()))

    until(lambda: status()["inputs"]["bed-1"].get("accepted") == 1, "the status")
    assert status()["outbox"] == {}
    running.end()
