"""A real NTP server as the reference: chrony, with a clock that is known, behind a known link."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.conftest import Emulator, _emulator
from tests.live.conftest import SLACKWATER, until
from tests.validate.test_namespaces import AGENT, SITE, until_it_answers

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("links")]
emulator = _emulator

PORT = 9123
PID_FILE = "chronyd.pid"
CHRONY = f"""
local stratum 2
allow all
port {PORT}
cmdport 0
pidfile {{folder}}/{PID_FILE}
"""
MS = 10**6
SECOND = 10**9
DURATION_S = 7
CHRONYD = shutil.which("chronyd") or shutil.which("chronyd", path="/usr/sbin")


def lacks() -> str | None:
    if CHRONYD is None:
        return "a real NTP server needs chronyd (Debian: apt install chrony)"
    if shutil.which("faketime") is None:
        return "its wrong clock needs faketime (Debian: apt install faketime)"
    return None


@pytest.fixture(autouse=True)
def _servers_end_first(emulator: Emulator, tmp_path: Path) -> Iterator[None]:
    """A faketime that is killed leaves its server running, and semaphores to a later process."""
    yield
    pid = tmp_path / PID_FILE
    if pid.exists():
        os.kill(int(pid.read_text()), signal.SIGTERM)
        bent = [one for one in emulator.programs if "faketime" in one.args]
        until(lambda: all(one.poll() is not None for one in bent), "faketime's end")


def forget_killed_ones() -> None:
    """faketime names what it shares by its process; one that was killed left it to another."""
    for left in Path("/dev/shm").glob("*faketime_s*_*"):
        if not Path("/proc", left.name.rpartition("_")[2]).exists():
            left.unlink(missing_ok=True)


def start_chrony(emulator: Emulator, bend: str, folder: Path) -> None:
    """In the gateway's namespace; ``-x``: it never touches the machine's clock."""
    (folder / "chrony.conf").write_text(CHRONY.format(folder=folder))
    forget_killed_ones()
    words = [str(CHRONYD), "-x", "-d", "-f", str(folder / "chrony.conf"), "-u", "root"]
    program = emulator.inside("b", ["faketime", "-f", bend, *words])
    pid = folder / PID_FILE
    until(lambda: pid.exists() or program.poll() is not None, "chronyd")
    assert program.poll() is None, program.communicate()


def validated(emulator: Emulator, folder: Path, ahead_ms: int) -> dict[str, Any]:
    (folder / "agent.toml").write_text(AGENT.format(ahead=ahead_ms, fast=0))
    asked = ["--server", f"10.203.0.2:{PORT}", "--duration", f"{DURATION_S}s", "--json", "--quiet"]
    words = [*SLACKWATER, "validate", "--config", "agent.toml", *asked]
    device = emulator.inside("a", words, cwd=folder)
    said, _ = device.communicate(timeout=120)
    assert device.returncode in (0, 1), said
    found: dict[str, Any] = json.loads(said)
    return found


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("bend", "ahead_ms", "up_ms", "down_ms"),
    [
        ("-3600s", 250, 25, 3),
        pytest.param("+0s", 0, 1, 1, marks=pytest.mark.deep),
        pytest.param("+100s", 0, 12, 12, marks=pytest.mark.deep),
        ("+30s x1.0002", -1_000, 4, 9),
    ],
)
def test_a_real_servers_time_is_found_within_the_bound(
    bend: str, ahead_ms: int, up_ms: int, down_ms: int, emulator: Emulator, tmp_path: Path
) -> None:
    reason = lacks()
    if reason is not None:
        pytest.skip(reason)
    law = 'delay = {{ model = "constant", delay = "{} ms" }}'
    emulator.start(f"[links.up]\n{law.format(up_ms)}\n[links.down]\n{law.format(down_ms)}\n")
    start_chrony(emulator, bend, tmp_path)
    found = validated(emulator, tmp_path, ahead_ms)
    (server,) = found["facts"]["servers"]
    assert server["answered"] >= 3
    assert server["stratum"] == 2
    assert not server["refused"]
    fast_s, _, rate = bend.partition("s")
    # chrony's clock less the device's, which is ahead of the machine's.
    truth = int(fast_s) * SECOND - ahead_ms * MS
    gained = round((float(rate.strip(" x") or 1) - 1) * SECOND * (DURATION_S + 10))
    trip = (up_ms + down_ms) * MS
    assert trip <= server["delay_ns"] <= trip + 20 * MS
    assert trip / 2 <= server["bound_ns"] <= trip / 2 + 12 * MS
    assert -server["bound_ns"] <= server["offset_ns"] - truth <= server["bound_ns"] + gained
    # No gateway: the server is what the clock is measured by, and says what the way costs.
    (source,) = found["sources"]
    assert source["clock"]["offset_ns"] == server["offset_ns"]
    skew = round((float(rate.strip(" x") or 1) - 1) * SECOND)
    assert abs(source["clock"]["skew_ppb"] - skew) <= source["clock"]["skew_bound_ppb"]
    # Half of what one way is longer than the other, and no more, is what nobody can see.
    asymmetry = (up_ms - down_ms) * MS / 2
    assert abs(server["offset_ns"] - truth - asymmetry) <= 10 * MS + gained


@pytest.mark.timeout(180)
def test_a_real_server_and_the_gateway_agree_or_are_told_apart(
    emulator: Emulator, tmp_path: Path
) -> None:
    reason = lacks()
    if reason is not None:
        pytest.skip(reason)
    (tmp_path / "site.toml").write_text(SITE)
    emulator.start('[links.up]\ndelay = { model = "constant", delay = "3 ms" }\n')
    words = [*SLACKWATER, "serve", "--config", "site.toml", "--engine", "none", "--quiet"]
    until_it_answers(emulator, emulator.inside("b", words, cwd=tmp_path))
    start_chrony(emulator, "+0s", tmp_path)
    found = validated(emulator, tmp_path, 400)
    (server,) = found["facts"]["servers"]
    (source,) = found["sources"]
    own = source["clock"]
    assert abs(own["offset_ns"] + 400 * MS) <= own["offset_bound_ns"]
    assert (
        abs(server["offset_ns"] - own["offset_ns"]) <= server["bound_ns"] + own["offset_bound_ns"]
    )
    assert found["facts"]["agreement"]["count"] == 1
    assert server["agrees"]
