"""Two gateways, any of which is killed at any time: their logs together have each event once."""

from __future__ import annotations

import signal
import time
from random import Random

import pytest

from slackwater.engine.cli.app import run
from slackwater.engine.log.arrival_log import LogReader
from tests.live.conftest import Field, Program
from tests.live.test_kills import Feeder

pytestmark = pytest.mark.slow


def agent_of(field: Field, other: Field, source: str, outbox: str) -> str:
    name = field.agent_file(source, '[[input]]\nkind = "stdin"', outbox)
    path = field.folder / name
    hosts = f'hosts = ["127.0.0.1", "127.0.0.1:{other.port}"]\n'
    path.write_text(path.read_text().replace("[gateway]\n", f"[gateway]\n{hosts}"))
    return name


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("outbox", ["", '[outbox]\nfolder = "out"\n'], ids=["memory", "outbox"])
def test_killed_in_turn_they_have_each_event_once(field: Field, outbox: str, seed: int) -> None:
    random = Random(seed)
    other = Field(field.folder / "second")
    other.folder.mkdir()
    try:
        _killed_in_turn(field, other, outbox, random)
    finally:
        for program in other.programs:
            if program.process.poll() is None:
                program.end(signal.SIGKILL)


def _killed_in_turn(field: Field, other: Field, outbox: str, random: Random) -> None:
    fields = (field, other)
    for each in fields:
        each.site('[limits]\ntakeover = "100 ms"\n')
    gateways: list[Program | None] = [each.serve() for each in fields]
    agent = field.fed(agent_of(field, other, "door", outbox))
    agent.says("door: running")
    feeder = Feeder(agent, 0)
    for round_ in range(6):
        feeder.feed(random.uniform(0.2, 0.8), random)
        place = random.randrange(2) if round_ else 0
        gateway = gateways[place]
        if gateway is None:
            gateways[place] = fields[place].serve()
        elif gateways[1 - place] is not None or random.random() < 0.3:
            gateway.end(signal.SIGKILL)
            gateways[place] = None
        while not any((other.folder / "site.log").glob("*.parquet")):  # until the agent is there
            feeder.feed(0.1, random)
    feeder.feed(0.3, random)
    for place, gateway in enumerate(gateways):
        if gateway is None:
            gateways[place] = fields[place].serve()
    agent.finish()
    time.sleep(0.1)
    for gateway in gateways:
        assert gateway is not None
        gateway.end()
    logs = [str(each.folder / "site.log") for each in fields]
    out = str(field.folder / "both.log")
    assert run(["log", "merge", *logs, "--apart", "1ms", "--out", out]) == 0
    rows = [
        row for frame in LogReader(out) for row in frame.batch.to_pylist()
        if not row.get("kind") and row["seq"] >= 0
    ]  # fmt: skip
    assert [row["seq"] for row in rows] == list(range(len(feeder)))
    assert [row["attrs.v"] for row in rows] == list(range(len(feeder)))
    parts = [sum(frame.rows for frame in LogReader(log)) for log in logs]
    assert all(parts)
