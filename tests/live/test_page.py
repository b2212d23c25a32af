"""``slackwater serve`` with its page, and ``--demo``: real processes, from start to Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from bench.soak.watched import family
from tests.live.conftest import ENV, Field, free_port, until

TOKEN = "a token of the page"


def ask(port: int, path: str, **headers: str) -> bytes:
    with urlopen(Request(f"http://127.0.0.1:{port}{path}", headers=headers), timeout=20) as told:
        return bytes(told.read())


def state(port: int, **headers: str) -> dict[str, Any]:
    return dict(json.loads(ask(port, "/state", **headers)))


def test_a_gateway_shows_its_sources(field: Field) -> None:
    page = free_port()
    field.site(f"[page]\nport = {page}\n")
    gateway = field.serve()
    gateway.says(f"page at http://127.0.0.1:{page}/")
    agent = field.start("agent", "--config", field.agent_file("d", field.replay("a", range(50))))
    assert agent.end(None) == 0
    told = until(lambda: (now := state(page))["sums"]["logged"] == 50 and now, "50 events")
    (row,) = told["rows"]
    assert (row["source"], row["state"], row["events"], row["missing"]) == ("d", "ended", 50, 0)
    assert abs(row["offset"]) < 0.05
    assert told["sums"]["balance"] == 0
    assert b'slackwater_source_events_recorded_total{site="main",source="d"} 50.0' in ask(
        page, "/metrics"
    )
    assert ask(page, "/readyz") == b"ready\n"
    with socket.create_connection(("127.0.0.1", page)) as open_page:
        open_page.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in open_page.recv(1000)
        begun = time.monotonic()
        assert gateway.end(signal.SIGINT) == 0
        assert time.monotonic() - begun < 20
    assert gateway.said[-1] == "stopped; everything that came is in the log"


def test_a_page_with_a_token(field: Field) -> None:
    page = free_port()
    field.site(f'[page]\nlisten = "0.0.0.0"\nport = {page}\ntoken = "{TOKEN}"\n')
    gateway = field.serve()
    gateway.says("page at")
    with pytest.raises(HTTPError) as refused:
        ask(page, "/state")
    refused.value.close()
    assert refused.value.code == 401
    assert state(page, Authorization=f"Bearer {TOKEN}")["total"] == 0
    assert ask(page, "/healthz") == b"alive\n"
    assert gateway.end() == 0
    assert TOKEN not in gateway.text


def test_a_page_whose_port_is_taken_is_told(field: Field) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        page = taken.getsockname()[1]
        field.site(f"[page]\nport = {page}\n")
        gateway = field.start("serve", "--config", "site.toml")
        assert gateway.end(None) == 2
    assert f"[page] port {page} at 127.0.0.1" in gateway.text


def readers() -> list[str]:
    """Command lines of the demonstration's processes."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "slackwater-demo-" in words or "server.demo.readings" in words:
                found.append(words)
    return found


@pytest.mark.slow
@pytest.mark.xdist_group("demonstration")  # each looks for what others leave
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demonstration_shows_bent_clocks_and_leaves_nothing(
    field: Field, number: signal.Signals
) -> None:
    demo = field.start("serve", "--demo", env=ENV | {"TMPDIR": str(field.folder)})
    url = demo.says("page at")
    port = int(re.findall(r":(\d+)/", url)[0])

    def clocks() -> dict[str, float]:
        rows = state(port)["rows"]
        return {row["source"]: row["offset"] for row in rows if row["offset"] is not None}

    until(lambda: len(clocks()) == 3, "three clocks")
    found = clocks()
    for source, offset in (("shelf", -2.5), ("checkout", 1.2), ("exit", -0.34)):
        assert abs(found[source] - offset) < 0.1
    until(lambda: state(port)["sums"]["inserted"] > 0, "a result", 120)
    assert state(port)["sums"]["balance"] == 0
    assert demo.end(number) == 0
    assert demo.said[-1] == "the demonstration has ended; nothing of it is left"
    assert list(field.folder.glob("slackwater-demo-*")) == []
    assert readers() == []


def lives(pid: int) -> bool:
    """Whether a process runs: one that has ended may wait for somebody to ask for its end."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
@pytest.mark.xdist_group("demonstration")  # each looks for what others leave
def test_a_demonstration_that_is_killed_leaves_no_agent(field: Field) -> None:
    demo = field.start("serve", "--demo", env=ENV | {"TMPDIR": str(field.folder)})
    demo.says("page at")
    mine = str(field.folder)
    until(lambda: sum(mine in words for words in readers()) >= 3, "three agents")
    started = until(lambda: len(all_ := family(demo.process.pid)) >= 7 and all_, "all of them")
    demo.end(signal.SIGKILL)
    until(lambda: not any(mine in words for words in readers()), "the end of the agents")
    # Three agents, their three devices, the engine.
    until(lambda: not any(map(lives, started)), "the end of all that it has started")


def test_the_demonstration_takes_no_settings(field: Field) -> None:
    field.site()
    both = field.start("serve", "--demo", "--config", "site.toml")
    assert both.end(None) == 2
    assert "--demo has settings of its own" in both.text
    neither = field.start("serve")
    assert neither.end(None) == 2
    assert "--config FILE must be given; --demo shows what it is like" in neither.text


def test_a_running_agent_tells_its_metrics(field: Field) -> None:
    port = free_port()
    field.site()
    field.serve()
    inputs = field.replay("a.jsonl", range(1000), pace=1, step_ms=20)
    settings = field.agent_file("d", inputs, f"[metrics]\nport = {port}\n")
    agent = field.start("agent", "--config", settings)
    agent.says(f"metrics at port {port}")
    acked = re.compile(rb'^slackwater_agent_session_total\{what="acked"\} [1-9]', re.MULTILINE)
    until(lambda: acked.search(ask(port, "/metrics")), "acks")
    assert ask(port, "/healthz") == b"alive\n"
    agent.end()


def test_a_clock_is_bent_as_its_settings_say(field: Field) -> None:
    page = free_port()
    field.site(f"[page]\nport = {page}\n")
    field.serve()
    bent = "[clock]\nahead_ms = -90000\nfast_ppm = 10000\n"
    inputs = field.replay("a.jsonl", range(300), pace=1, step_ms=10)
    agent = field.start("agent", "--config", field.agent_file("d", inputs, bent))
    assert agent.end(None) == 0
    (row,) = until(lambda: state(page)["rows"], "a source")
    assert 89.9 < row["offset"] < 90.0


def test_a_metrics_port_that_is_taken_is_told(field: Field) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        inputs = field.replay("a.jsonl", range(3))
        settings = field.agent_file("d", inputs, f"[metrics]\nport = {port}\n")
        agent = field.start("agent", "--config", settings)
        assert agent.end(None) == 2
    assert f"[metrics] port {port} at 127.0.0.1" in agent.text
