"""A device sends HL7 messages until each is acknowledged; its agent is killed again and again."""

from __future__ import annotations

import signal
import socket
import threading
import time
from random import Random

import pytest

from tests.live.conftest import Field, free_port, until

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


@pytest.mark.parametrize(
    ("messages", "kills", "seed"),
    [(100, 3, 1), *(pytest.param(600, 12, seed, marks=pytest.mark.deep) for seed in range(2, 6))],
)
def test_every_message_is_in_the_log_once_though_the_agent_is_killed(
    field: Field, messages: int, kills: int, seed: int
) -> None:
    random, port = Random(seed), free_port()
    settings = f'[[input]]\nkind = "hl7-mllp"\nport = {port}\n[input.map]\nv = "value"\n'
    name = field.agent_file("monitor", settings, '[outbox]\nfolder = "outbox"\n')
    field.site()
    field.serve()
    device = Device(port, messages)
    device.start()
    running = field.agent(name)
    for _ in range(kills):
        before = device.acknowledged
        until(lambda before=before: device.acknowledged > before, "an acknowledgement")
        time.sleep(random.random() * 0.05)
        running.end(signal.SIGKILL)
        running = field.agent(name)
    device.join(60)
    assert device.acknowledged == messages
    wanted = [v for n in range(1, messages + 1) for v in (n, -n)]
    until(lambda: len(field.values("monitor")) >= len(wanted), "all events in the log")
    assert running.end() == 0
    assert field.values("monitor") == wanted
    assert device.sent_again > 0
