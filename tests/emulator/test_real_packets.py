"""ping, UDP and TCP over emulated links: what is measured is what the settings say."""

from __future__ import annotations

import json
import re
import signal
import statistics
import subprocess
from typing import Any

import pytest

from simulator.emulator.kernel import LOCKS
from tests.emulator.conftest import Emulator
from tests.live.conftest import ENV

# One after the other: an emulator removes what a killed one has left, which a test looks at.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("links")]

CONSTANT = '{ model = "constant", delay = "%s" }'
RECEIVE = """
import json, socket, time
heard = socket.socket(type=socket.SOCK_DGRAM)
heard.bind(("0.0.0.0", 9)); heard.settimeout(15)
print("ready", flush=True)
came = []
while not came or came[-1][0] >= 0:
    data, _ = heard.recvfrom(2048)
    came.append((int(data[:8]), int(data[8:30]), time.time_ns()))
    heard.settimeout(3)
print(json.dumps(came[:-1]))
"""
SEND = """
import socket, time
to = ("10.203.0.2", 9)
said = socket.socket(type=socket.SOCK_DGRAM)
begin = time.monotonic()
for number in range({count}):
    time.sleep(max(begin + number * {gap} - time.monotonic(), 0))
    said.sendto(b"%08d%022d" % (number, time.time_ns()) + bytes({size}), to)
time.sleep(1)
for _ in range(50):
    said.sendto(b"%08d%022d" % (-1, 0), to)
"""


def datagrams(emulator: Emulator, count: int, gap: float, size: int = 70) -> list[list[int]]:
    """Number, sending and receipt [ns] of each datagram that b got from a, in order of receipt."""
    receiver = emulator.python("b", RECEIVE)
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == "ready\n"
    sender = emulator.python("a", SEND.format(count=count, gap=gap, size=size))
    assert sender.wait(60) == 0, sender.communicate()
    said, _ = receiver.communicate(timeout=30)
    found: list[list[int]] = json.loads(said)
    return found


def delays_ms(came: list[list[int]]) -> list[float]:
    return [(received - sent) / 1e6 for _, sent, received in came]


def assert_sums_agree(emulator: Emulator) -> None:
    """Of both ways: what comes when its socket is gone is answered (ICMP).

    What was under way when the emulator stopped is counted as waiting.
    """
    waiting = json.loads((emulator.folder / "status.json").read_text())["waiting"]
    ways = emulator.counters().values()
    came = sum(way["entered"] + way["copied"] for way in ways)
    went = ("delivered", "refused", "lost", "cut", "queue_dropped", "no_room")
    assert came == waiting + sum(way[what] for way in ways for what in went)


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


def test_loss_delay_and_reordering_of_datagrams_are_those_of_the_settings(
    emulator: Emulator,
) -> None:
    emulator.start(
        'up = { delay = { model = "uniform", low = "10 ms", high = "30 ms" }, fifo = false, '
        "loss = 0.1, duplicate = 0.05 }"
    )
    came = datagrams(emulator, count=2000, gap=0.002)
    emulator.stop()
    up = emulator.counters()["up"]
    assert up["lost"] == pytest.approx(205, abs=45)  # four deviations
    assert up["copied"] == pytest.approx(92, abs=40)
    assert_sums_agree(emulator)
    assert len({number for number, *_ in came}) == pytest.approx(1800, abs=55)
    delays = delays_ms(came)
    assert statistics.mean(delays) == pytest.approx(20, abs=1)
    assert min(delays) >= 10
    assert statistics.quantiles(delays, n=10)[0] == pytest.approx(12, abs=1)
    assert statistics.quantiles(delays, n=10)[-1] == pytest.approx(28, abs=1.5)
    # 2 ms apart, uniform over 20 ms: one overtakes its predecessor with probability 0.9^2 / 2.
    # Of those that were neither lost nor copied.
    order = [number for number, *_ in came]
    single = [number for number in order if order.count(number) == 1]
    place = {number: at for at, number in enumerate(single)}
    pairs = [(n, n + 1) for n in single if n + 1 in place]
    overtaken = sum(place[later] < place[former] for former, later in pairs) / len(pairs)
    assert overtaken == pytest.approx(0.405, abs=0.06)


def test_fifo_keeps_the_order_in_spite_of_jitter(emulator: Emulator) -> None:
    emulator.start('up = { delay = { model = "uniform", low = "1 ms", high = "30 ms" } }')
    numbers = [number for number, *_ in datagrams(emulator, count=500, gap=0.002)]
    assert numbers == list(range(500))


def test_a_bottleneck_limits_the_rate_and_drops_at_its_tail(emulator: Emulator) -> None:
    emulator.start("up = { rate_bytes_per_s = 50_000, queue_bytes = 10_000 }")
    came = datagrams(emulator, count=200, gap=0.002, size=970)
    emulator.stop()
    assert emulator.counters()["up"]["queue_dropped"] > 150  # 500 kB/s into 50 kB/s
    assert_sums_agree(emulator)
    # The queue is full nearly all the time: 10 kB at 50 kB/s.
    assert statistics.quantiles(delays_ms(came), n=10)[-1] == pytest.approx(195, abs=25)
    span_s = (came[-1][2] - came[0][2]) / 1e9
    assert (len(came) - 1) * 1028 / span_s == pytest.approx(50_000, rel=0.05)


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
