"""Agents, gateway and engine together, any of which is killed at any time: none of it shows."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from random import Random

import pyarrow.parquet as pq
import pytest

from bench.soak.watched import command, family
from tests.live.conftest import Field, Program, free_port, until
from tests.live.test_answers import QUERIES, answered, asked, assert_all_answered

pytestmark = pytest.mark.slow

PER_LIFE = 1_000_000

AGENTS = ("door", "gate")

START_SECONDS = 40
"""What an engine may take until it answers, with its JVM."""

MISSING_SECONDS = 30
"""For so long answers may be missing after the last kill."""


class Feeder:
    """Writes numbered events into an agent's standard input, as fast as it takes them."""

    def __init__(self, agent: Program, life: int) -> None:
        self._agent = agent
        self._next = life * PER_LIFE

    def feed(self, seconds: float, random: Random) -> None:
        """Some lines at a time, for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            count = random.randint(1, 40)
            numbers = range(self._next, self._next + count)
            self._agent.feed(*(json.dumps({"type": "A", "v": v}) for v in numbers))
            self._next += count
            time.sleep(random.uniform(0, 0.01))

    def __len__(self) -> int:
        return self._next % PER_LIFE

    @property
    def next(self) -> int:
        """The number of the next line."""
        return self._next


class Fed:
    """An agent, its lives, and what each of them was given."""

    def __init__(self, field: Field, source: str) -> None:
        self._field = field
        outbox = f'[outbox]\nfolder = "{source}.outbox"\n'
        self._file = field.agent_file(source, '[[input]]\nkind = "stdin"', outbox)
        self.source = source
        self.lives: list[Feeder] = []
        self.start()

    def start(self) -> None:
        """A life more."""
        self.agent = self._field.fed(self._file)
        self.agent.says(f"{self.source}: ")
        self.lives.append(Feeder(self.agent, len(self.lives)))

    def finish(self) -> None:
        """Its input ends; it ends when all is acked."""
        self.agent.finish()
        assert "done" in self.agent.text
        assert not list((self._field.folder / f"{self.source}.outbox").glob("0*"))

    def check(self) -> None:
        """Each number once and none missing; of each life a beginning, of the last one all."""
        rows = [row for row in self._field.rows() if row["source"] == self.source]
        assert len({row.get("incarnation", 0) for row in rows}) == 1
        found = sorted((row["seq"], row["attrs.v"]) for row in rows)
        assert [seq for seq, _ in found] == list(range(len(found)))
        values = [v for _, v in found]
        assert values == sorted(values)
        for life, feeder in enumerate(self.lives):
            of_life = [v % PER_LIFE for v in values if v // PER_LIFE == life]
            # What the agent had written when it was killed is a beginning of what it was given.
            assert of_life == list(range(len(of_life))), (self.source, life)
            assert len(of_life) <= len(feeder)
        assert len(of_life) == len(self.lives[-1])


class Served:
    """A gateway, its engine, and what followers of the answers have seen."""

    def __init__(self, field: Field, engine: str) -> None:
        self._field = field
        self._seen = dict.fromkeys(QUERIES, b"")
        more = 'formats = ["jsonl", "parquet"]\nparquet_every = "300 ms"\nmaster = "local[1]"'
        settings = asked(engine=engine, more=more)
        field.site(settings.replace("[limits]\n", '[limits]\ntakeover = "100 ms"\n'))
        self._gateway = field.serve()

    @property
    def engine(self) -> list[int]:
        """Its processes; none: it waits for its next start."""
        return family(self._gateway.process.pid)

    def kill_engine(self, what: str) -> bool:
        """Whether there was one, or its JVM."""
        wanted = {"engine": "python", "jvm": "java"}[what]
        found = [each for each in self.engine if name_of(each) == wanted]
        for each in found[:1]:
            os.kill(each, signal.SIGKILL)
        return bool(found)

    def kill(self, wait_s: float) -> None:
        """The gateway alone: its engine is left behind, and finds that out by itself."""
        self._gateway.process.kill()
        self._gateway.process.wait()
        time.sleep(wait_s)
        self._gateway = self._field.serve()

    def look(self) -> bool:
        """Answers only grow; whether they have."""
        before = self._seen
        self._seen = {query: answered(self._field, query) for query in before}
        for query, now in self._seen.items():
            was = before[query]
            assert now.startswith(was[: was.rfind(b"\n") + 1])
        return self._seen != before

    def has(self, source: str, number: int) -> bool:
        """Whether an answer is made of a line with this number or a later one.

        Lines read at one instant make no pair, so a given one may be in no answer.
        """
        lines = answered(self._field, "q2").split(b"\n")[:-1]
        events = (each for line in lines for each in json.loads(line)["events"])
        return any(each["source"] == source and each["attrs"]["v"] >= number for each in events)

    def stop(self) -> None:
        """In good order, when all is answered."""
        for _ in range(5):
            until(lambda: self.engine, "the engine's next start", 120)
            assert self._gateway.end() == 0
            if "not all are written yet" not in self._gateway.text:
                return
            self._gateway = self._field.serve()
            deadline = time.monotonic() + START_SECONDS
            while not self.look() and time.monotonic() < deadline:
                time.sleep(0.1)  # all may be answered but what the end makes known
        raise AssertionError(self._gateway.text)

    def check(self) -> None:
        """Lines are those of a query; tables follow one another, and have as many rows."""
        assert_all_answered(self._field)
        for query in QUERIES:
            folder = self._field.folder / "site.log.answers" / query
            files = sorted(folder.glob("main.rows-*.parquet"))
            begins, ends = zip(*(path.stem.split("-")[-2:] for path in files), strict=True)
            assert [0, *map(int, ends[:-1])] == list(map(int, begins))
            assert sum(pq.read_metadata(path).num_rows for path in files) == int(ends[-1])
            assert int(ends[-1]) == answered(self._field, query).count(b"\n")


def name_of(pid: int) -> str:
    """Of a process; "" when it has just ended."""
    try:
        return command(pid)
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.parametrize(
    ("engine", "kills", "seed"),
    [
        ("embedded", 9, 5),
        pytest.param("embedded", 100, 6, marks=pytest.mark.deep),
        pytest.param("spark", 40, 5, marks=[pytest.mark.spark, pytest.mark.deep]),
    ],
)
def test_whatever_is_killed_nothing_is_lost_or_doubled(
    field: Field, engine: str, kills: int, seed: int
) -> None:
    """With Spark its JVM may be killed, too; often what is killed is waited for."""
    random = Random(seed)
    served = Served(field, engine)
    agents = [Fed(field, source) for source in AGENTS]
    killed: Counter[str] = Counter()
    while killed.total() < kills:
        for each in agents:
            each.lives[-1].feed(random.uniform(0, 0.4), random)
        if engine == "spark" and random.random() < 0.6:
            served.look()
            agents[0].lives[-1].feed(0.1, random)
            until(served.look, "answers", 240)
            time.sleep(random.uniform(0, 3))
        victims = ("agent", "gateway", "engine", *(["jvm"] if engine == "spark" else []))
        victim = random.choice(victims)
        if victim in ("engine", "jvm"):
            if not served.kill_engine(victim):
                continue  # it waits for its next start
        elif victim == "agent":
            one = random.choice(agents)
            one.agent.end(random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
            one.start()
        else:
            served.kill(random.choice((0.0, random.uniform(0, 0.3))))
        killed[victim] += 1
        served.look()
    print(dict(killed))
    last = time.monotonic()
    feeder = agents[0].lives[-1]
    number = feeder.next
    feeder.feed(0.3, random)
    until(lambda: served.has(agents[0].source, number), "answers", 240)
    missing_s = time.monotonic() - last
    print(f"answers {missing_s:.1f} s after the last kill")
    for each in agents:
        each.finish()
    served.stop()
    for each in agents:
        each.check()
    served.check()
    assert missing_s < MISSING_SECONDS


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
