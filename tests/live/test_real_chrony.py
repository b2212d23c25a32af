"""A host that a real chronyd keeps: the agent's bound is chronyc's, and covers the true error.

The daemon is the test's own (``-x``: it never touches the machine's clock) and asks a server whose
clock is off by a known amount. ``chronyc`` is the real one, pointed at that daemon's socket.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.edge_agent import ntp
from slackwater.edge_agent.records import Kind
from slackwater.engine.server.tcp_host import NtpResponder
from tests.live.conftest import ENV, Field, Program, free_port, until

WHERE = f"{os.environ['PATH']}:/usr/sbin:/sbin"
CHRONYD, CHRONYC = (shutil.which(name, path=WHERE) for name in ("chronyd", "chronyc"))
MS = 10**6
FROM_CHRONY = '[time]\nfrom = "chrony"\n'
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        None in (CHRONYD, CHRONYC), reason="no chronyd here (Debian: apt-get install chrony)"
    ),
]


class Chrony:
    """A chronyd of its own, the server that it asks, and the ``chronyc`` that agents find."""

    def __init__(self, folder: Path, ahead_ns: int) -> None:
        self.folder = folder
        folder.mkdir(0o770)
        self.socket = folder / "chronyd.sock"
        self.port = free_port()
        self.ahead_ns = ahead_ns
        (folder / "chrony.conf").write_text(
            f"server 127.0.0.1 port {self.port} minpoll -4 maxpoll -4 iburst\n"
            f"port 0\ncmdport 0\nbindcmdaddress {self.socket}\npidfile {folder}/chronyd.pid\n"
        )
        (folder / "chronyc").write_text(f'#!/bin/sh\nexec {CHRONYC} -h {self.socket} "$@"\n')
        (folder / "chronyc").chmod(0o755)
        self.env = ENV | {"PATH": f"{folder}:{os.environ['PATH']}"}
        words = [str(CHRONYD), "-x", "-d", "-f", str(folder / "chrony.conf")]
        self.daemon = subprocess.Popen(
            [*words, *(["-u", "root"] if os.geteuid() == 0 else [])],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.server: NtpResponder | None = None

    def serve(self) -> None:
        """The server answers from now on; its clock is ``ahead_ns`` of this machine's."""
        clock = ntp.ServerClock(stratum=3, root_delay_ns=4 * MS, root_dispersion_ns=MS)
        ahead = self.ahead_ns
        self.server = NtpResponder(
            "127.0.0.1",
            self.port,
            lambda data, at, sent: clock.answer(data, at + ahead, sent + ahead),
        )
        self.server.start()
        until(lambda: b"Normal" in self.says(), "chronyd to be synchronised")

    def says(self, *words: str) -> bytes:
        asked = [str(self.folder / "chronyc"), *(words or ntp.CHRONY_COMMAND[1:])]
        return subprocess.run(asked, capture_output=True, check=False).stdout

    def figure(self, name: str) -> float:
        """A figure of the text that a person reads, in seconds."""
        (line,) = (
            line for line in self.says("tracking").decode().splitlines() if line.startswith(name)
        )
        return float(line.partition(": ")[2].split()[0])

    def kill(self) -> None:
        self.daemon.kill()
        self.daemon.wait(10)

    def close(self) -> None:
        self.kill()
        if self.server is not None:
            self.server.close()


@pytest.fixture(name="chrony")
def _chrony(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Chrony]:
    made = Chrony(tmp_path / "chrony", getattr(request, "param", 0))
    until(made.socket.exists, "chronyd")
    yield made
    made.close()


def ward(field: Field, chrony: Chrony) -> Program:
    field.site()
    field.serve()
    name = field.agent_file("ward", '[[input]]\nkind = "stdin"', FROM_CHRONY)
    field.change(name, "attempts = 3\n", 'resync = "1 s"\nretry = "200 ms"\n')
    return field.agent(name, stdin=subprocess.PIPE, env=chrony.env)


def synced(field: Field) -> list[int]:
    """Half of the delay of each sync that the log has: the bound of an offset of 0."""
    rows = [row for row in field.rows(Kind.SYNC) if row.get("offset") is not None]
    assert {row["offset"] for row in rows} <= {0}
    return [row["delay"] // 2 for row in rows]


@pytest.mark.parametrize("chrony", [0, 30 * MS, -2000 * MS], indirect=True)
def test_the_bound_in_the_log_is_chronys_and_covers_the_true_error(
    field: Field, chrony: Chrony
) -> None:
    chrony.serve()
    agent = ward(field, chrony)
    agent.says("running")
    bounds = until(lambda: (found := synced(field))[2:] and found, "three syncs")
    shown = chrony.figure("System time") + chrony.figure("Root dispersion")
    shown_ns = (shown + chrony.figure("Root delay") / 2) * 1e9
    agent.finish()
    assert "clock synced" in agent.text
    for bound in bounds:
        assert abs(chrony.ahead_ns) <= bound
        assert bound == pytest.approx(shown_ns, abs=2 * MS)


def test_a_daemon_that_is_not_synchronised_yet_is_asked_again(field: Field, chrony: Chrony) -> None:
    agent = ward(field, chrony)
    agent.says("chrony is not synchronised; see chronyc sources")
    assert synced(field) == []
    chrony.serve()
    until(lambda: synced(field), "a sync")
    agent.finish()


def test_a_daemon_that_is_gone_leaves_the_last_bound(field: Field, chrony: Chrony) -> None:
    chrony.serve()
    agent = ward(field, chrony)
    until(lambda: synced(field), "a sync")
    chrony.kill()
    assert "chronyd running?" in agent.says("Could not open connection to daemon")
    known = len(synced(field))
    agent.feed('{"v": 1}')
    until(lambda: field.values("ward") == [1], "an event")
    agent.finish()
    assert len(synced(field)) == known
