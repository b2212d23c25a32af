"""Agents, gateway and engine together, any of which is killed at any time: nothing of it is seen.

``SLACKWATER_KILLS=100`` makes it longer, ``SLACKWATER_SEED`` another one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from engine.log.arrival_log import LogReader
from tests.live.conftest import Field, Program, until
from tests.live.test_answers import QUERIES, answered, asked, assert_all_answered, kill_engine
from tests.live.test_kills import PER_LIFE, Feeder

AGENTS = ("door", "gate")
KILLS = int(os.environ.get("SLACKWATER_KILLS", "12"))
SEED = int(os.environ.get("SLACKWATER_SEED", "5"))


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


def engine_runs(gateway: Program) -> bool:
    children = Path(f"/proc/{gateway.process.pid}/task/{gateway.process.pid}/children")
    return bool(children.read_text().split())


@pytest.mark.slow
@pytest.mark.timeout(300 + 10 * KILLS)
def test_whatever_is_killed_nothing_is_lost_or_doubled(field: Field) -> None:
    print(f"seed {SEED}, {KILLS} kills")
    random = Random(SEED)
    settings = asked(more='formats = ["jsonl", "parquet"]\nparquet_every = "300 ms"')
    field.site(settings.replace("[limits]\n", '[limits]\ntakeover = "100 ms"\n'))
    gateway = field.serve()
    agents = [Fed(field, source) for source in AGENTS]
    seen = dict.fromkeys(QUERIES, b"")
    killed: Counter[str] = Counter()
    while killed.total() < KILLS:
        for each in agents:
            each.lives[-1].feed(random.uniform(0, 0.4), random)
        victim = random.choice(("agent", "gateway", "engine"))
        if victim == "engine" and not engine_runs(gateway):
            continue  # it waits for its next start
        killed[victim] += 1
        if victim == "agent":
            one = random.choice(agents)
            one.agent.end(signal.SIGKILL)
            one.start()
        elif victim == "engine":
            kill_engine(gateway)
        else:
            gateway.end(signal.SIGKILL)
            time.sleep(random.choice((0.0, random.uniform(0, 0.3))))
            gateway = field.serve()
        for query, before in seen.items():
            now = answered(field, query)
            assert now.startswith(before[: before.rfind(b"\n") + 1])
            seen[query] = now
    print(dict(killed))
    for each in agents:
        each.finish()
    until(lambda: engine_runs(gateway), "the engine's next start")
    assert gateway.end() == 0
    for each in agents:
        each.check()
    assert_all_answered(field)
