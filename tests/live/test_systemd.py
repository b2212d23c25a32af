"""What an agent tells systemd over its socket."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from pathlib import Path

from edge_agent.drivers.systemd import Systemd
from tests.live.conftest import ENV, SLACKWATER, Field


def listening(path: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    link.bind(str(path))
    link.settimeout(20)
    return link


def test_an_agent_says_that_it_is_ready_alive_and_stopping(field: Field, tmp_path: Path) -> None:
    name = field.agent_file("door", '[[input]]\nkind = "stdin"\n')
    with listening(tmp_path / "notify") as link:
        env = ENV | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        running = subprocess.Popen(
            [*SLACKWATER, "agent", "--config", name, "--quiet"],
            cwd=field.folder, env=env, stdin=subprocess.PIPE,
        )  # fmt: skip
        said = []
        while "STOPPING=1" not in said:
            said.append(link.recv(4096).decode())
            if said.count("WATCHDOG=1") == 3:
                running.terminate()
        assert running.wait(20) == 0
        assert running.stdin is not None
        running.stdin.close()
    assert "READY=1" in said
    assert any(line.startswith("STATUS=main/door: connecting") for line in said)


def test_nobody_is_told_where_nobody_asks(tmp_path: Path) -> None:
    Systemd({}).ready()
    Systemd({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()
    asyncio.run(Systemd({"WATCHDOG_USEC": "1", "WATCHDOG_PID": str(os.getpid() + 1)}).watch())
    asyncio.run(Systemd({"WATCHDOG_USEC": "many"}).watch())


def test_an_abstract_address_is_understood() -> None:
    address = f"slackwater-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind(f"\0{address}")
        link.settimeout(5)
        Systemd({"NOTIFY_SOCKET": f"@{address}"}).doing("one\ntwo")
        assert link.recv(100) == b"STATUS=one"
