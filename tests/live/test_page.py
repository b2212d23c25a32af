"""``slackwater serve`` with its page, with TLS, and ``--demo``: real processes."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from bench.soak.watched import family
from tests.live.conftest import ENV, Field, free_port, until

pytestmark = pytest.mark.slow


def ask(port: int, path: str) -> bytes:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as reported:
        return bytes(reported.read())


def status(port: int, path: str) -> int:
    """The status of an answer."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as reported:
            return int(reported.status)
    except HTTPError as error:
        return error.code


def state(port: int) -> dict[str, Any]:
    return dict(json.loads(ask(port, "/state")))


def test_a_gateway_shows_its_sources_and_an_agent_its_metrics(field: Field) -> None:
    """Of a device whose clock is bent as its settings say."""
    page, metrics = free_port(), free_port()
    field.site(f"[page]\nport = {page}\n")
    gateway = field.serve()
    gateway.says(f"page at http://127.0.0.1:{page}/")
    bent = f"[clock]\nahead_ms = -90000\nfast_ppm = 10000\n[metrics]\nport = {metrics}\n"
    agent = field.fed(field.agent_file("d", '[[input]]\nkind = "stdin"', bent))
    agent.says(f"metrics at port {metrics}")
    agent.feed(*(json.dumps({"v": v}) for v in range(50)))
    acked = b'slackwater_agent_session_total{what="acked"} 50'
    until(lambda: acked in ask(metrics, "/metrics"), "acks")
    assert ask(metrics, "/healthz") == b"alive\n"
    agent.finish()
    reported = until(lambda: (now := state(page))["sums"]["logged"] == 50 and now, "50 events")
    (row,) = reported["rows"]
    assert (row["source"], row["state"], row["events"], row["missing"]) == ("d", "ended", 50, 0)
    assert 89.9 < row["offset"] < 90.0
    assert reported["sums"]["balance"] == 0
    recorded = b'slackwater_source_events_recorded_total{site="main",source="d"} 50.0'
    assert recorded in ask(page, "/metrics")
    assert ask(page, "/readyz") == b"ready\n"
    with socket.create_connection(("127.0.0.1", page)) as open_page:
        open_page.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in open_page.recv(1000)
        begun = time.monotonic()
        assert gateway.end(signal.SIGINT) == 0
        assert time.monotonic() - begun < 20
    assert gateway.said[-1] == "stopped; everything that came is in the log"


def test_a_port_that_is_taken_is_reported(field: Field) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        field.site(f"[page]\nport = {port}\n")
        gateway = field.start("serve", "--config", "site.toml")
        settings = field.agent_file("d", field.replay("a", range(3)), f"[metrics]\nport = {port}\n")
        agent = field.agent(settings)
        assert (gateway.end(None), agent.end(None)) == (2, 2)
    assert f"[page] port {port} at 127.0.0.1" in gateway.text
    assert f"[metrics] port {port} at 127.0.0.1" in agent.text


def readers() -> list[str]:
    """Command lines of the demonstration's processes."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "slackwater-demo-" in words or "server.demonstration" in words:
                found.append(words)
    return found


@pytest.mark.xdist_group("demonstration")  # each looks for what others leave
def test_the_demonstration_shows_bent_clocks_and_leaves_nothing(
    field: Field,
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

    def windows() -> list[dict[str, Any]]:
        files = field.folder.glob("slackwater-demo-*/*.answers/reads/*.jsonl")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    until(lambda: len({each["window"]["start"] for each in windows()}) > 1, "two windows", 90)
    assert all(each["ambiguous"] <= 1 for each in windows()), "clocks keep within their bounds"
    assert demo.end(signal.SIGINT) == 0
    assert demo.said[-1] == "the demonstration has ended; nothing of it is left"
    assert list(field.folder.glob("slackwater-demo-*")) == []
    assert readers() == []


def lives(pid: int) -> bool:
    """Whether a process runs: one that has ended may wait for somebody to ask for its end."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


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


SERVER = '[tls]\ncertificate = "gateway.pem"\nkey = "gateway.key"\n'

AGENT = '[tls]\non = true\nauthorities = "ca.pem"\n'

TURNED_AWAY = re.compile("certificate required|closed the connection", re.IGNORECASE)

DEVICE = 'certificate = "device.pem"\nkey = "device.key"\n'


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def authority(folder: Path, name: str) -> None:
    openssl(
        folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
        f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem",
    )  # fmt: skip


def certificate(folder: Path, name: str, ca: str) -> None:
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    openssl(
        folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
        "-keyout", f"{name}.key", "-out", f"{name}.csr",
    )  # fmt: skip
    openssl(
        folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key",
        "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem",
    )  # fmt: skip


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made with openssl")
    folder = tmp_path_factory.mktemp("certificates")
    authority(folder, "ca")
    authority(folder, "other")
    certificate(folder, "gateway", "ca")
    certificate(folder, "device", "ca")
    return folder


@pytest.fixture(name="tls")
def _tls(field: Field, made: Path) -> Field:
    shutil.copytree(made, field.folder, dirs_exist_ok=True)
    return field


def test_a_device_with_its_certificate_is_admitted(tls: Field) -> None:
    tls.site(SERVER + 'clients = "ca.pem"\n')
    gateway = tls.serve()
    assert "(TLS)" in gateway.text
    door = tls.agent_file("door", tls.replay("d.jsonl", range(500)), AGENT + DEVICE)
    agent = tls.agent(door)
    assert agent.end(None) == 0, agent.text
    assert gateway.end() == 0
    assert tls.values("door") == list(range(500))


def test_a_device_without_a_certificate_is_not(tls: Field) -> None:
    tls.site(SERVER + 'clients = "ca.pem"\n')
    gateway = tls.serve()
    agent = tls.agent(tls.agent_file("door", tls.replay("d.jsonl", range(5)), AGENT))
    until(lambda: TURNED_AWAY.search(agent.text), "the refusal")
    assert agent.end() == 1
    assert gateway.end() == 0
    assert tls.rows() == []


def test_the_page_is_encrypted_and_asks_browsers_for_no_certificate(tls: Field) -> None:
    page = free_port()
    tls.site(f'{SERVER}clients = "ca.pem"\n[page]\nport = {page}\ntls = true\n')
    gateway = tls.serve()
    gateway.says(f"page at https://127.0.0.1:{page}/")
    trusts = ssl.create_default_context(cafile=tls.folder / "ca.pem")
    with urlopen(f"https://127.0.0.1:{page}/healthz", timeout=20, context=trusts) as answer:
        assert answer.read() == b"alive\n"
    with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urlopen(f"https://127.0.0.1:{page}/healthz", timeout=20)
    assert gateway.end() == 0


def test_a_gateway_of_another_authority_is_not_believed(tls: Field) -> None:
    tls.site(SERVER)
    tls.serve()
    more = '[tls]\non = true\nauthorities = "other.pem"\n'
    agent = tls.start(
        "agent", "--config", tls.agent_file("door", tls.replay("d.jsonl", range(5)), more)
    )
    agent.says("certificate verify failed")
    assert agent.end() == 1


@pytest.mark.parametrize("encrypted", [True, False], ids=["gateway", "device"])
def test_one_side_that_speaks_tls_alone_is_named(tls: Field, encrypted: bool) -> None:
    tls.site(SERVER if encrypted else "")
    gateway = tls.serve()
    more = "" if encrypted else AGENT
    agent = tls.start(
        "agent", "--config", tls.agent_file("door", tls.replay("d.jsonl", range(5)), more)
    )
    agent.says("it may want TLS ([tls])" if encrypted else "no TLS is spoken there: leave out")
    assert agent.end() == 1
    assert gateway.end() == 0
    letters = (tls.folder / "site.log.refused.jsonl").read_text()
    assert encrypted or "this is TLS, which needs [tls] on both sides" in letters
