"""Agents and gateways that are killed at random: what was acked is in the log, once."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from random import Random

import pytest

from engine.log.arrival_log import LogReader
from tests.live.conftest import Field, Program

pytestmark = pytest.mark.slow

PER_LIFE = 1_000_000


def numbered(field: Field) -> list[tuple[int, int, int]]:
    """(incarnation, seq, v) of every event in the log, in its order."""
    return [
        (row.get("incarnation", 0), row["seq"], row["attrs.v"])
        for frame in LogReader(field.folder / "site.log")
        for row in frame.batch.to_pylist()
        if row.get("kind", 0) == 0
    ]


class Feeder:
    """Writes numbered events into an agent's standard input, as fast as it takes them."""

    def __init__(self, agent: Program, life: int) -> None:
        self._agent = agent
        self._next = life * PER_LIFE

    def feed(self, seconds: float, random: Random) -> None:
        """Some lines at a time, for so long."""
        assert self._agent.process.stdin is not None
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            count = random.randint(1, 40)
            lines = [json.dumps({"type": "A", "v": self._next + i}) for i in range(count)]
            self._agent.process.stdin.write("\n".join(lines) + "\n")
            self._agent.process.stdin.flush()
            self._next += count
            time.sleep(random.uniform(0, 0.01))

    def __len__(self) -> int:
        return self._next % PER_LIFE


def lives(field: Field, seed: int, count: int) -> None:
    print(f"seed {seed}, {count} lives")
    random = Random(seed)
    field.site('[limits]\nframe_every = "20 ms"\ntakeover = "100 ms"\n')
    name = field.agent_file("door", '[[input]]\nkind = "stdin"', '[outbox]\nfolder = "outbox"\n')
    gateway = field.serve()
    fed = []
    for life in range(count):
        agent = field.start("agent", "--config", name, stdin=subprocess.PIPE)
        agent.says("door: ")
        feeder = Feeder(agent, life)
        fed.append(feeder)
        feeder.feed(random.uniform(0, 0.6), random)
        if random.random() < 0.5:
            gateway.end(signal.SIGKILL)
            feeder.feed(random.uniform(0, 0.2), random)
            gateway = field.serve()
            feeder.feed(random.uniform(0, 0.3), random)
        agent.end(random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
    agent = field.start("agent", "--config", name, stdin=subprocess.DEVNULL)
    assert agent.end(None) == 0, agent.text
    assert "done" in agent.text
    assert not list((field.folder / "outbox").glob("0*"))
    assert gateway.end() == 0
    check(field, fed)


def check(field: Field, fed: list[Feeder]) -> None:
    found = numbered(field)
    assert len({incarnation for incarnation, _, _ in found}) == 1
    assert sorted(seq for _, seq, _ in found) == list(range(len(found)))
    values = sorted(v for _, _, v in found)
    assert [v for _, _, v in sorted(found)] == values
    for life, feeder in enumerate(fed):
        of_life = [v % PER_LIFE for v in values if v // PER_LIFE == life]
        # What the agent had written when it was killed is a beginning of what it was given.
        assert of_life == list(range(len(of_life)))
        assert len(of_life) <= len(feeder)
    assert found


def test_what_is_killed_goes_on(field: Field) -> None:
    lives(field, seed=1, count=4)


@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.deep)])
def test_what_is_killed_often_goes_on(field: Field, seed: int) -> None:
    lives(field, seed, count=20)


def test_an_outage_fills_the_outbox_and_is_made_up_for(field: Field) -> None:
    """No gateway while everything is read: what is on the disk is sent when there is one."""
    name = field.agent_file(
        "door", field.replay("d.jsonl", range(5000)), '[outbox]\nfolder = "outbox"\n'
    )
    agent = field.start("agent", "--config", name)
    time.sleep(1.0)
    agent.end(signal.SIGTERM)
    assert "wait in" in agent.text
    field.site()
    gateway = field.serve()
    # The recording is played once more: another 5000 events, after those that wait.
    again = field.start("agent", "--config", name)
    assert again.end(None) == 0, again.text
    assert gateway.end() == 0
    values = field.values("door")
    assert sorted(values) == sorted([*range(5000), *range(5000)])


def test_an_outbox_belongs_to_one_agent_and_one_source(field: Field) -> None:
    more = '[outbox]\nfolder = "outbox"\n'
    first = field.agent_file("door", '[[input]]\nkind = "stdin"', more)
    running = field.start("agent", "--config", first, stdin=subprocess.PIPE)
    running.says("door: connecting")
    other = field.start("agent", "--config", first)
    assert other.end(None) == 1
    assert "another agent has this outbox" in other.text
    running.end()
    second = field.start(
        "agent", "--config", field.agent_file("gate", '[[input]]\nkind = "stdin"', more)
    )
    assert second.end(None) == 2
    assert "holds events of main/door, and this agent is main/gate" in second.text


def test_the_oldest_are_dropped_and_the_gap_is_told(field: Field) -> None:
    """Without a gateway, a small outbox keeps the newest; the log's numbers show what is gone."""
    more = '[outbox]\nfolder = "outbox"\nmax = "1 MiB"\n'
    name = field.agent_file("door", field.replay("d.jsonl", range(60_000)), more)
    text = (field.folder / name).read_text()
    field.write(name, text.replace("attrs = { v", 'when_full = "drop-oldest"\nattrs = { v'))
    agent = field.start("agent", "--config", name)
    time.sleep(4.0)
    field.site()
    gateway = field.serve()
    assert agent.end(None) == 0, agent.text
    assert gateway.end() == 0
    dropped = int(next(line for line in agent.said if "oldest events were" in line).split()[0])
    found = numbered(field)
    assert dropped > 0
    assert len(found) == 60_000 - dropped
    assert all(seq == v for _, seq, v in found)
    assert max(v for _, _, v in found) == 59_999
