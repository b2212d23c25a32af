"""Agents, gateway and engine together, any of which is killed at any time: nothing of it is seen.

``SLACKWATER_KILLS=100`` makes it longer, ``SLACKWATER_SEED`` another one. With Spark, its JVM may
be killed, too, and what is killed is often waited for until it answers again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from random import Random

import pytest

from bench.soak.watched import command, family
from engine.log.arrival_log import LogReader
from tests.live.conftest import Field, until
from tests.live.test_answers import QUERIES, answered, asked, assert_all_answered
from tests.live.test_kills import PER_LIFE, Feeder

AGENTS = ("door", "gate")
KILLS = {
    engine: int(os.environ.get("SLACKWATER_KILLS", usual))
    for engine, usual in (("embedded", "12"), ("spark", "8"))
}
SEED = int(os.environ.get("SLACKWATER_SEED", "5"))

START_SECONDS = 40
"""What an engine may take until it answers, with its JVM."""


class Fed:
    """An agent, its lives, and what each of them was given."""

    def __init__(self, field: Field, source: str) -> None:
        self._field = field
        self._file = field.agent_file(
            source, '[[input]]\nkind = "stdin"', f'[outbox]\nfolder = "{source}.outbox"\n'
        )
        self.source = source
        self.lives: list[Feeder] = []
        self.start()

    def start(self) -> None:
        """A life more."""
        self.agent = self._field.start("agent", "--config", self._file, stdin=subprocess.PIPE)
        self.agent.says(f"{self.source}: ")
        self.lives.append(Feeder(self.agent, len(self.lives)))

    def finish(self) -> None:
        """Its input ends; it ends when all is acked."""
        assert self.agent.process.stdin is not None
        self.agent.process.stdin.close()
        assert self.agent.end(None) == 0, self.agent.text
        assert "done" in self.agent.text

    def check(self) -> None:
        """Each number once and none missing; of each life a beginning, of the last one all."""
        found = [
            (row["seq"], row["attrs.v"])
            for frame in LogReader(self._field.folder / "site.log")
            for row in frame.batch.to_pylist()
            if row.get("kind", 0) == 0 and row["source"] == self.source
        ]
        assert sorted(seq for seq, _ in found) == list(range(len(found)))
        values = [v for _, v in sorted(found)]
        assert values == sorted(values)
        for life, feeder in enumerate(self.lives):
            of_life = [v % PER_LIFE for v in values if v // PER_LIFE == life]
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


def name_of(pid: int) -> str:
    """Of a process; "" when it has just ended."""
    try:
        return command(pid)
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine", ["embedded", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.deep])]
)
@pytest.mark.timeout(600 + 60 * max(KILLS.values()))
def test_whatever_is_killed_nothing_is_lost_or_doubled(field: Field, engine: str) -> None:
    print(f"seed {SEED}, {KILLS[engine]} kills")
    random = Random(SEED)
    served = Served(field, engine)
    agents = [Fed(field, source) for source in AGENTS]
    killed: Counter[str] = Counter()
    while killed.total() < KILLS[engine]:
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
            one.agent.end(signal.SIGKILL)
            one.start()
        else:
            served.kill(random.choice((0.0, random.uniform(0, 0.3))))
        killed[victim] += 1
        served.look()
    print(dict(killed))
    for each in agents:
        each.finish()
    served.stop()
    for each in agents:
        each.check()
    assert_all_answered(field)
