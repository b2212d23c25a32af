"""Agents, a gateway, its log and a query over it: as processes, on the sockets of this machine."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import ntplib
import pytest

from tests.live.conftest import ENV, SLACKWATER, Field, until


def test_what_agents_send_is_what_a_query_finds(field: Field) -> None:
    field.site('[tokens]\n"main/door" = "one"\n"main/gate" = "two"\n')
    gateway = field.serve()
    door = field.agent_file("door", field.replay("door.jsonl", range(3000)), token="one")
    gate = field.agent_file("gate", '[[input]]\nkind = "stdin"', token="two")
    first = field.start("agent", "--config", door)
    second = field.start("agent", "-c", gate, stdin=subprocess.PIPE)
    assert second.process.stdin is not None
    for v in range(0, 2000, 100):
        lines = [json.dumps({"type": "B", "v": each}) for each in range(v, v + 100)]
        second.process.stdin.write("\n".join(lines) + "\n")
        second.process.stdin.flush()
    second.process.stdin.close()
    assert (first.end(None), second.end(None)) == (0, 0), first.text + second.text
    assert "done: 3000 events acked" in first.text
    assert gateway.end() == 0
    assert field.values("door") == list(range(3000))
    assert field.values("gate") == list(range(2000))
    query = "SELECT count(*), sum(v) FROM events WHERE type = 'A' WINDOW TUMBLING 1 d"
    found = subprocess.run(
        [*SLACKWATER, "query", query, "--input", "site.log", "--quiet"],
        cwd=field.folder, env=ENV, check=True, capture_output=True, text=True,
    )  # fmt: skip
    values = [json.loads(line)["value"] for line in found.stdout.splitlines()]
    assert sum(value["count(*)"] for value in values) == 3000
    assert sum(value["sum(v)"] for value in values) == sum(range(3000))


def test_a_wrong_token_is_told_and_ends_the_agent(field: Field) -> None:
    field.site('[tokens]\n"main/door" = "right"\n')
    field.serve()
    door = field.agent_file("door", field.replay("d.jsonl", range(3)), token="wrong")
    agent = field.start("agent", "--config", door)
    assert agent.end(None) == 1
    assert "the gateway refuses: token: no such source, or not its token" in agent.text


def test_an_ntp_client_may_ask_the_gateway(field: Field) -> None:
    field.site()
    field.serve()
    answer = ntplib.NTPClient().request("127.0.0.1", version=4, port=field.port, timeout=10)
    assert answer.stratum == 10
    assert answer.leap == 0
    assert abs(answer.offset) < answer.delay / 2 + 0.001  # one clock, asked by itself
    with socket.socket(type=socket.SOCK_DGRAM) as asker:
        asker.settimeout(0.3)
        asker.sendto(b"no question", ("127.0.0.1", field.port))
        with pytest.raises(TimeoutError):
            asker.recv(100)


def test_a_gateway_that_is_killed_goes_on_with_its_log(field: Field) -> None:
    field.site('[limits]\nframe_every = "20 ms"\n')
    gateway = field.serve()
    door = field.agent_file("door", field.replay("door.jsonl", range(1500), pace=1))
    agent = field.start("agent", "--config", door)
    for _ in range(2):
        time.sleep(0.4)
        gateway.end(signal.SIGKILL)
        gateway = field.serve()
    assert agent.end(None) == 0, agent.text
    assert gateway.end() == 0
    assert field.values("door") == list(range(1500))


def test_an_agent_that_is_stopped_says_what_was_not_acked(field: Field) -> None:
    door = field.agent_file("door", '[[input]]\nkind = "stdin"')
    agent = field.start("agent", "--config", door, stdin=subprocess.PIPE)
    assert agent.process.stdin is not None
    agent.process.stdin.write('{"v": 1}\n{"v": 2}\nnonsense\n')
    agent.process.stdin.flush()
    agent.says("not JSON")
    assert agent.end() == 1
    assert "stopped: 2 of 2 events are not acked" in agent.text
    assert "1 records were left out as bad" in agent.text


def test_the_status_file_says_what_goes_on(field: Field) -> None:
    field.site()
    field.serve()
    door = field.agent_file("door", '[[input]]\nkind = "stdin"')
    text = (field.folder / door).read_text()
    field.write(door, text.replace("[agent]", '[agent]\nstatus = "s.json"\nstatus_every = "20 ms"'))
    agent = field.start("agent", "--config", door, stdin=subprocess.PIPE)
    assert agent.process.stdin is not None
    agent.process.stdin.write('{"v": 1}\n')
    agent.process.stdin.flush()
    path = field.folder / "s.json"
    status = until(
        lambda: path.exists() and (said := json.loads(path.read_text()))["state"] == "running"
        and said["session"].get("acked") and said,
        "an ack in the status file",
    )  # fmt: skip
    assert (status["interface"], status["address"]) == ("lo", "127.0.0.1")
    assert (status["clock"], status["next_seq"]) == ("synced", {"events": 1})
    agent.process.stdin.write('{"v": 2}\n' * 3)
    agent.process.stdin.close()
    assert agent.end(None) == 0
    last = json.loads(path.read_text())
    assert (last["state"], last["next_seq"]) == ("done", {"events": 4})


def test_a_program_is_run_and_started_again(field: Field) -> None:
    field.site()
    gateway = field.serve()
    code = "import pathlib, sys; p = pathlib.Path('n'); n = len(p.read_text()) if p.exists() else 0"
    code += "; p.write_text('x' * (n + 1)); print('{\"v\": %d}' % n); sys.exit(n < 2)"
    command = json.dumps([sys.executable, "-c", code])
    inputs = f'[[input]]\nkind = "exec"\ncommand = {command}\nrestart_wait = "10 ms"\n'
    agent = field.start("agent", "--config", field.agent_file("door", inputs))
    assert agent.end(None) == 0, agent.text
    assert gateway.end() == 0
    assert field.values("door") == [0, 1, 2]


def test_the_base_install_runs_the_agent(field: Field) -> None:
    """Nothing but the standard library, msgpack, ntplib and netifaces can be imported."""
    field.site()
    gateway = field.serve()
    door = field.agent_file("door", field.replay("d.jsonl", range(5)))
    code = """
import sys
class Device:
    def find_spec(name, path=None, target=None):
        top = name.partition(".")[0]
        ours = {"edge_agent", "engine", "msgpack", "ntplib", "netifaces", "_netifaces"}
        if top not in ours | set(sys.stdlib_module_names):
            raise ModuleNotFoundError(f"a device has no {top}", name=name)
sys.meta_path.insert(0, Device)
from engine.cli import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "agent", "--config", door],
        cwd=field.folder, env=ENV, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert gateway.end() == 0
    assert field.values("door") == list(range(5))


def test_python_m_edge_agent_is_the_same_command(tmp_path: Path) -> None:
    said = [
        subprocess.run(
            [*words, "--help"], cwd=tmp_path, env=ENV, check=True, capture_output=True, text=True
        ).stdout
        for words in ([sys.executable, "-m", "edge_agent"], [*SLACKWATER, "agent"])
    ]
    assert said[0] == said[1]
    assert "--dry-run" in said[0]


def test_a_dry_run_prints_the_events(field: Field) -> None:
    door = field.agent_file("door", field.replay("d.jsonl", range(2)))
    text = (field.folder / door).read_text()
    field.write(door, text.replace("restamp = true", ""))
    done = subprocess.run(
        [*SLACKWATER, "agent", "--config", door, "--dry-run"],
        cwd=field.folder, env=ENV, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"site": "main", "source": "door", "stream": "events", "type": "A", "ts": 10**6 * v,
         "attrs": {"v": v}}
        for v in range(2)
    ]  # fmt: skip
