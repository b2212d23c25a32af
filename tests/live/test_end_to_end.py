"""Agents, a gateway and its log, as processes on the sockets of this machine."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.edge_agent.command import main
from slackwater.edge_agent.drivers.status import Systemd
from slackwater.engine.cli.app import run
from tests.live.conftest import ENV, SLACKWATER, Field, until

OUTBOX = '[outbox]\nfolder = "outbox"\n'
STDIN = '[[input]]\nkind = "stdin"'
STATUS = '[agent]\nstatus = "status.json"\nstatus_every = "20 ms"\n'


def status_of(field: Field) -> dict[str, object]:
    path = field.folder / "status.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


@pytest.mark.slow
def test_an_outage_is_made_up_for_and_the_closing_line_counts_all(field: Field) -> None:
    """What waits of streams as they were is sent first, then what comes of the new ones."""
    name = field.agent_file("door", field.replay("a.jsonl", range(50)), OUTBOX)
    first = field.agent(name)
    first.says("Connect call failed")
    until(lambda: list((field.folder / "outbox").glob("*/*.seg")), "the events on the disk")
    first.end()
    assert "wait in" in first.text
    field.agent_file("door", field.replay("b.jsonl", range(50, 70)), OUTBOX)
    field.change(name, '{ v = "int" }', '{ v = "int", w = "str" }')
    field.site()
    field.serve()
    second = field.agent(name)
    assert second.end(None) == 0
    assert second.said[-1] == "done: 70 events acked"
    assert field.values("door") == list(range(70))


@pytest.mark.slow
def test_an_outbox_belongs_to_one_agent_and_one_source(field: Field) -> None:
    name = field.agent_file("door", STDIN, OUTBOX)
    running = field.fed(name)
    running.says("door: connecting")
    other = field.agent(name)
    assert other.end(None) == 1
    assert "another agent has this outbox" in other.text
    running.end()
    second = field.agent(field.agent_file("gate", STDIN, OUTBOX))
    assert second.end(None) == 2
    assert "holds events of main/door, and this agent is main/gate" in second.text


@pytest.mark.slow
def test_the_oldest_are_dropped_and_the_gap_is_reported(field: Field) -> None:
    """Without a gateway, a small outbox keeps the newest; the log's numbers show what is gone."""
    more = f'{OUTBOX}max = "1 MiB"\n'
    name = field.agent_file("door", field.replay("d.jsonl", range(60_000)), more)
    field.change(name, "attrs = { v", 'when_full = "drop-oldest"\nattrs = { v')
    field.change(name, "[agent]\n", STATUS)
    agent = field.agent(name)
    until(lambda: status_of(field).get("next_seq") == {"events": 60_000}, "all that is read")
    field.site()
    gateway = field.serve()
    assert agent.end(None) == 0, agent.text
    assert gateway.end() == 0
    dropped = int(next(line for line in agent.said if "oldest events were" in line).split()[0])
    found = field.numbered()
    assert dropped > 0
    assert len(found) == 60_000 - dropped
    assert all(seq == v for _, seq, v in found)
    assert max(v for _, _, v in found) == 59_999


@pytest.mark.slow
def test_an_agent_that_is_stopped_says_what_was_not_acked(field: Field) -> None:
    agent = field.fed(field.agent_file("door", STDIN))
    agent.feed('{"v": 1}', '{"v": 2}', "nonsense")
    agent.says("not JSON")
    assert agent.end() == 1
    assert "stopped: 2 of 2 events are not acked" in agent.text
    assert "1 records were left out as bad" in agent.text


@pytest.mark.slow
def test_the_status_file_says_what_goes_on(field: Field) -> None:
    field.site()
    field.serve()
    name = field.agent_file("door", STDIN, OUTBOX)
    field.change(name, "[agent]\n", STATUS)
    agent = field.fed(name)
    agent.feed('{"v": 1}')
    until(lambda: status_of(field).get("session", {}).get("acked"), "an ack in the status file")
    status = status_of(field)
    assert (status["state"], status["clock"]) == ("running", "synced")
    assert (status["interface"], status["address"]) == ("lo", "127.0.0.1")
    assert status["next_seq"] == {"events": 1}
    assert status["outbox"]["events"]["committed"] == 1
    agent.feed('{"v": 2}', '{"v": 2}', '{"v": 2}')
    agent.finish()
    last = status_of(field)
    assert (last["state"], last["next_seq"]) == ("done", {"events": 4})


@pytest.mark.slow
def test_a_program_is_run_and_started_again(field: Field) -> None:
    field.site()
    gateway = field.serve()
    code = "import pathlib, sys; p = pathlib.Path('n'); n = len(p.read_text()) if p.exists() else 0"
    code += "; p.write_text('x' * (n + 1)); print('{\"v\": %d}' % n); sys.exit(n < 2)"
    command = json.dumps([sys.executable, "-c", code])
    inputs = f'[[input]]\nkind = "exec"\ncommand = {command}\nrestart_wait = "10 ms"\n'
    agent = field.agent(field.agent_file("door", inputs))
    assert agent.end(None) == 0, agent.text
    assert gateway.end() == 0
    assert field.values("door") == [0, 1, 2]


DEVICE = """
import sys
class Device:
    def find_spec(name, path=None, target=None):
        top = name.partition(".")[0]
        ours = {"slackwater", "msgpack", "ntplib", "netifaces", "_netifaces"}
        if top not in ours | set(sys.stdlib_module_names):
            raise ModuleNotFoundError(f"a device has no {top}", name=name)
sys.meta_path.insert(0, Device)
from slackwater.engine.cli import main
main()
"""


def test_the_base_install_runs_the_agent(field: Field) -> None:
    """Nothing but the standard library, msgpack, ntplib and netifaces can be imported."""
    name = field.agent_file("door", field.replay("d.jsonl", range(2)))
    field.change(name, "restamp = true", "")
    done = subprocess.run(
        [sys.executable, "-c", DEVICE, "agent", "--config", name, "--dry-run"],
        cwd=field.folder, env=ENV, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"site": "main", "source": "door", "stream": "events", "type": "A", "ts": 10**6 * v,
         "attrs": {"v": v}}
        for v in range(2)
    ]  # fmt: skip


@pytest.mark.slow
def test_the_base_install_sends_what_it_reads(field: Field) -> None:
    field.site()
    gateway = field.serve()
    name = field.agent_file("door", field.replay("d.jsonl", range(5)))
    words = [sys.executable, "-c", DEVICE, "agent", "--config", name]
    subprocess.run(words, cwd=field.folder, env=ENV, check=True)
    assert gateway.end() == 0
    assert field.values("door") == list(range(5))


@pytest.mark.slow
def test_python_m_edge_agent_is_the_same_command(tmp_path: Path) -> None:
    said = [
        subprocess.run(
            [*words, "--help"], cwd=tmp_path, env=ENV, check=True, capture_output=True, text=True
        ).stdout
        for words in ([sys.executable, "-m", "slackwater.edge_agent"], [*SLACKWATER, "agent"])
    ]
    assert said[0] == said[1]
    assert "--dry-run" in said[0]


@pytest.fixture(name="outbox")
def _outbox(field: Field) -> Path:
    """An outbox with three events, of an agent that never had a gateway and was killed."""
    agent = field.fed(field.agent_file("door", STDIN, OUTBOX))
    agent.feed('{"type": "A", "ts": 5, "v": 7}', '{"ts": 6, "te": 8}', '{"ts": 7, "v": -1}')
    folder = field.folder / "outbox"
    until(lambda: [f for f in folder.glob("*/*.seg") if f.stat().st_size > 60], "a segment")
    until(lambda: list(folder.glob("*/newest-00.copy")), "the note of it")
    agent.end(signal.SIGKILL)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "reported"),
    [
        ("deleted", "is not there, though nobody had removed it"),
        ("cut", "bytes at its end were cut"),
        ("flipped", "bytes at its end were cut"),
        ("untouched", "done: 3 events acked"),
    ],
)
def test_attack2_03_an_outbox_that_lost_events_says_so_and_fails(
    outbox: Path, field: Field, how: str, reported: str
) -> None:
    (segment,) = outbox.glob("*/*.seg")
    whole = segment.read_bytes()
    if how == "deleted":
        segment.unlink()
    elif how == "cut":
        segment.write_bytes(whole[:-3])
    elif how != "untouched":
        segment.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
    field.site()
    gateway = field.serve()
    agent = field.agent("door.toml", stdin=subprocess.DEVNULL)
    assert agent.end(None) == (how != "untouched")
    assert reported in agent.text
    assert ("others are gone" in agent.text) == (how != "untouched")
    assert gateway.end() == 0


def test_a_spool_is_listed_dumped_and_verified(
    outbox: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def spool(word: str) -> tuple[int, str]:
        return main(["spool", word, str(outbox)]), capsys.readouterr().out

    code, said = spool("ls")
    assert code == 0
    assert re.search(r"main/door, incarnation \d+", said)
    assert "events: 3 events wait, numbers 0 to 2, 1 files" in said
    found = [json.loads(line) for line in spool("dump")[1].splitlines()]
    assert {each.pop("incarnation") for each in found} != {0}
    same = {"site": "main", "source": "door", "stream": "events"}
    assert found == [
        {**same, "seq": 0, "type": "A", "ts": 5, "te": 5, "attrs": {"v": 7}},
        {**same, "seq": 1, "ts": 6, "te": 8},
        {**same, "seq": 2, "ts": 7, "te": 7, "attrs": {"v": -1}},
    ]
    assert "0 faults" in spool("verify")[1]
    segment = next(outbox.glob("*/*.seg"))
    whole = segment.read_bytes()
    for content, reported in (
        (whole[:-3], "torn end of"),
        (b"XX" + whole[2:], "bytes are damaged"),
    ):
        segment.write_bytes(content)
        code, said = spool("verify")
        assert (code, reported in said, segment.read_bytes()) == (1, True, content)  # not repaired
    segment.unlink()
    code, said = spool("verify")
    assert (code, f"{segment}: is not there" in said) == (1, True)
    segment.write_bytes(whole)

    def bad_sector(path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(Path, "read_bytes", bad_sector)
    code, said = spool("verify")
    assert (code, "bytes are damaged" in said) == (1, True)
    assert main(["spool", "ls", str(outbox / "none")]) == 1


@pytest.mark.slow
def test_systemd_hears_ready_alive_and_stopping(field: Field, tmp_path: Path) -> None:
    name = field.agent_file("door", STDIN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind(str(tmp_path / "notify"))
        link.settimeout(20)
        env = ENV | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        running = field.agent(name, stdin=subprocess.PIPE, env=env)
        said: list[str] = []
        while "STOPPING=1" not in said:
            said.append(link.recv(4096).decode())
            if said.count("WATCHDOG=1") == 3:
                running.process.terminate()
        assert running.end(None) in (0, 1)
    assert "READY=1" in said
    assert any(line.startswith("STATUS=main/door: connecting") for line in said)


def test_systemd_hears_nothing_where_it_does_not_ask(tmp_path: Path) -> None:
    Systemd({}).ready()
    Systemd({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()
    asyncio.run(Systemd({"WATCHDOG_USEC": "1", "WATCHDOG_PID": str(os.getpid() + 1)}).watch())
    asyncio.run(Systemd({"WATCHDOG_USEC": "many"}).watch())
    address = f"slackwater-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind(f"\0{address}")
        link.settimeout(5)
        Systemd({"NOTIFY_SOCKET": f"@{address}"}).set_status("one\ntwo")
        assert link.recv(100) == b"STATUS=one"


def test_what_cannot_start_is_refused(field: Field, capsys: pytest.CaptureFixture[str]) -> None:
    """A demonstration with settings, none at all, certificates that are not there."""
    field.site('[tls]\ncertificate = "gateway.pem"\nkey = "gateway.key"\n')
    site = str(field.folder / "site.toml")
    door = field.agent_file("door", STDIN, '[tls]\non = true\nauthorities = "ca.pem"\n')
    for words, reported in (
        (["serve", "--demo", "--config", site], "--demo has settings of its own"),
        (["serve"], "--config FILE must be given; --demo shows what it is like"),
        (["serve", "--config", site, "--check"], "gateway.pem"),
        (["agent", "check", str(field.folder / door)], "ca.pem: No such file"),
    ):
        assert run(words) == 2
        assert reported in capsys.readouterr().err
