"""Sinks of a server: what its engine answers arrives elsewhere, whatever is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from random import Random

import pytest

from tests.live.conftest import Field, until
from tests.live.test_answers import PAIRS, asked, assert_all_answered
from tests.sinks.receivers import HttpServer, http_server

QUERIES = {"q1": PAIRS}


def with_sink(server: HttpServer, more: str = "") -> str:
    return asked(QUERIES) + (
        f'[[sink]]\nkind = "http"\nurl = "{server.url}"\nretry = "10 ms"\n'
        f'retry_max = "100 ms"\n{more}\n'
    )


def answered(field: Field) -> list[dict]:
    """Lines of the file of answers."""
    path = field.folder / "site.log.answers" / "q1" / "main.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def sinks_processes(gateway: int) -> list[int]:
    """Process ids of the sinks that this gateway has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"slackwater.engine.sinks.program" in words and parent == gateway:
            found.append(int(folder.name))
    return found


def test_answers_arrive_in_order_with_their_keys(field: Field) -> None:
    with http_server() as server:
        field.site(with_sink(server))
        gateway = field.serve()
        field.run_through("door", range(300))
        until(lambda: server.taken, "results")
        assert gateway.end() == 0, gateway.text
        lines = answered(field)
        assert [each["result"] for each in server.taken] == lines
        assert [each["key"].rpartition("/")[2] for each in server.taken] == [
            str(number) for number in range(len(lines))
        ]
    state = field.folder / "site.log.answers" / ".sinks" / "http.state"
    assert state.stat().st_mode & 0o027 == 0


@pytest.mark.slow
def test_a_receiver_that_is_away_delays_no_answer(field: Field) -> None:
    """Nor the end of the server; what was not delivered comes after the next start."""
    with http_server() as server:
        server.refuses = lambda _: 503
        field.site(with_sink(server))
        gateway = field.serve()
        field.run_through("door", range(300))
        until(lambda: answered(field), "answers")
        begun = time.monotonic()
        assert gateway.end() == 0, gateway.text
        assert time.monotonic() - begun < 30
        assert_all_answered(field, QUERIES)
        assert not server.taken
        assert "sink http: waits, and tries again:" in gateway.text
        assert "answers 503: said" in gateway.text
        server.refuses = lambda _: 200
        gateway = field.serve()
        until(lambda: len(server.taken) == len(answered(field)), "results")
        field.run_through("gate", range(300))
        assert gateway.end() == 0, gateway.text
    lines = answered(field)
    assert [each["result"] for each in server.taken] == lines
    assert len({each["key"] for each in server.taken}) == len(lines)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_kills_of_the_sinks_lose_nothing_and_keep_order_and_keys(field: Field, seed: int) -> None:
    random = Random(seed)
    with http_server() as server:
        server.refuses = lambda _: 200 if random.random() < 0.8 else 503
        field.site(with_sink(server, "batch = 7"))
        gateway = field.serve()
        door = field.replay("door.jsonl", range(1500), pace=1)
        agent = field.agent(field.agent_file("door", door))
        for _ in range(3):
            time.sleep(random.random())
            for number in until(lambda: sinks_processes(gateway.process.pid), "sinks"):
                os.kill(number, signal.SIGKILL)
        assert agent.end(None) == 0, agent.text
        server.refuses = lambda _: 200
        until(lambda: answered(field), "answers")
        assert gateway.end() == 0, gateway.text
        gateway = field.serve()
        until(lambda: len({e["key"] for e in server.taken}) == len(answered(field)), "results")
        assert gateway.end() == 0, gateway.text
    first = {each["key"]: each for each in reversed(server.taken)}
    assert all(first[each["key"]] == each for each in server.taken), "a copy differs"
    in_order = sorted(first, key=lambda key: int(key.rpartition("/")[2]))
    assert [first[key]["result"] for key in in_order] == answered(field)
    assert list(dict.fromkeys(each["key"] for each in server.taken)) == in_order
    assert "sinks: their process ended (-9); starts again in 1 s" in field.programs[0].text


def test_a_sink_needs_a_query(field: Field) -> None:
    field.site('[[sink]]\nkind = "http"\nurl = "http://127.0.0.1:1/"\n')
    refused = field.start("serve", "--config", "site.toml")
    assert refused.end(None) == 2
    assert "[sink] kind: there are no answers to take away: add a [[query]]" in refused.text
