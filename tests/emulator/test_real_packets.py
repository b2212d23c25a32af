"""ping, UDP and TCP over emulated links: what is measured is what the settings say."""

from __future__ import annotations

import os
import re
import signal
import statistics
import subprocess
from typing import Any

import pytest

from slackwater.simulator.emulator.kernel import LOCKS
from tests.emulator.conftest import Emulator
from tests.live.conftest import ENV, until

# One after the other: an emulator removes what a killed one has left, which a test looks at.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("links")]

CONSTANT = '{ model = "constant", delay = "%s" }'


def test_ping_takes_both_delays_and_the_emulator_is_less_than_a_millisecond_late(
    emulator: Emulator,
) -> None:
    emulator.start(f"up = {{ delay = {CONSTANT % '20 ms'} }}\n"
                   f"down = {{ delay = {CONSTANT % '7 ms'} }}")  # fmt: skip
    said, _ = emulator.inside("a", ["ping", "-i", "0.01", "-c", "200", "10.203.0.2"]).communicate()
    times = [float(found) for found in re.findall(r"time=([0-9.]+) ms", said)]
    assert len(times) == 200, said
    assert min(times) >= 27
    assert statistics.median(times) < 29
    assert emulator.stop() == 0
    for way in emulator.counters().values():
        assert way["entered"] == way["delivered"] == 200
        assert way["late_mean_us"] < 1000
    assert "a -> b" in "\n".join(emulator.said)


def test_tcp_survives_loss_jitter_and_an_outage(emulator: Emulator) -> None:
    emulator.start(
        'up = { delay = { model = "uniform", low = "5 ms", high = "15 ms" }, fifo = false, '
        'loss = 0.02, outages = [{ start = "3 s", length = "1 s" }] }'
    )
    server = emulator.python(
        "b",
        "import hashlib, socket; s = socket.create_server(('0.0.0.0', 9)); "
        "print('ready', flush=True); c, _ = s.accept(); h = hashlib.sha256()\n"
        "while data := c.recv(65536): h.update(data)\n"
        "print(h.hexdigest())",
    )
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    client = emulator.python(
        "a",
        "import hashlib, random, socket, time; c = socket.create_connection(('10.203.0.2', 9)); "
        "r, h = random.Random(1), hashlib.sha256()\n"
        "for _ in range(100): d = r.randbytes(2000); h.update(d); c.sendall(d); time.sleep(0.05)\n"
        "c.close(); print(h.hexdigest())",
    )
    sent, _ = client.communicate(timeout=60)
    received, _ = server.communicate(timeout=60)
    assert sent == received
    emulator.stop()
    up = emulator.counters()["up"]
    assert up["cut"] > 0
    assert up["lost"] > 0


def test_a_command_within_gives_its_exit_code(emulator: Emulator) -> None:
    emulator.write("")

    def code(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            emulator.words("--in", "a", "--quiet", "--", *words),
            cwd=emulator.folder, env=ENV, capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert code("ping", "-c", "1", "-W", "5", "10.203.0.2").returncode == 0
    assert code("sh", "-c", "exit 7").returncode == 7
    assert code("sh", "-c", "kill -9 $$").returncode == 137
    wrong = subprocess.run(
        emulator.words("--in", "c", "--", "true"),
        cwd=emulator.folder, env=ENV, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert wrong.returncode == 2
    assert "--in c: no such namespace in the settings; there are a, b" in wrong.stderr
    assert emulator.namespaces() == []


def alive(mark: str) -> list[str]:
    """Processes with ``mark`` among their words."""
    said = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in said.stdout.splitlines() if mark in line and "emulate" not in line]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("within", [(), ("--in", "a")])
def test_attack2_nothing_is_left_when_it_is_stopped(
    emulator: Emulator, number: int, within: tuple[str, ...]
) -> None:
    """Neither namespaces, nor what its command has started, nor what that has."""
    emulator.write("")
    mark = f"{1000 + os.getpid()}.25"
    inner = f"trap '' TERM; sleep {mark} & sleep {mark}1 & wait"
    words = (*within, "--quiet", "--", "sh", "-c", f'sh -c "{inner}" & sleep {mark}2 & wait')
    emulator.process = subprocess.Popen(emulator.words(*words), cwd=emulator.folder, env=ENV)
    until(lambda: len(alive(f"sleep {mark}")) >= 3, "the command")
    assert len(emulator.namespaces()) == 2
    emulator.process.send_signal(number)
    assert emulator.process.wait(30) == 128 + signal.SIGTERM
    assert emulator.namespaces() == []
    assert alive(f"sleep {mark}") == []


def test_attack2_a_signal_while_namespaces_are_made_leaves_none(emulator: Emulator) -> None:
    emulator.write("")
    process = subprocess.Popen(emulator.words("--quiet"), cwd=emulator.folder, env=ENV)
    until(emulator.namespaces, "the first namespace")
    process.send_signal(signal.SIGHUP)
    assert process.wait(30) == 0
    assert emulator.namespaces() == []


def test_what_a_killed_emulator_left_is_removed_by_the_next(emulator: Emulator) -> None:
    emulator.start("")
    assert len(emulator.namespaces()) == 2
    emulator.stop(signal.SIGKILL)
    assert len(emulator.namespaces()) == 2
    (emulator.folder / "status.json").unlink()
    prefix, emulator.prefix = emulator.prefix, f"{emulator.prefix}next-"
    emulator.start("")
    emulator.prefix = prefix
    assert sorted(emulator.namespaces()) == [f"{prefix}next-a", f"{prefix}next-b"]
    assert emulator.stop(signal.SIGINT) == 0
    assert emulator.namespaces() == []
    assert [path for path in LOCKS.iterdir() if path.name.startswith(prefix)] == []


def test_two_emulators_do_not_share_namespaces(emulator: Emulator) -> None:
    emulator.start("")
    second: Any = subprocess.run(
        emulator.words(), cwd=emulator.folder, env=ENV, capture_output=True, text=True, check=False
    )
    assert second.returncode == 2
    assert f"another emulator is running with namespace {emulator.prefix}a" in second.stderr
    assert len(emulator.namespaces()) == 2
    said, _ = emulator.inside("a", ["ping", "-c", "1", "-W", "5", "10.203.0.2"]).communicate()
    assert "1 received" in said


def test_a_device_that_goes_away_ends_the_emulator_with_a_word(emulator: Emulator) -> None:
    emulator.start("")
    subprocess.run(
        ["ip", "-n", f"{emulator.prefix}a", "link", "del", "dev", "b"], check=True, timeout=10
    )
    assert emulator.ended() == 1
    assert "the device from a to b is gone" in "\n".join(emulator.said)
    assert emulator.namespaces() == []
