"""Real agents' settings and a real gateway behind emulated links: twelve settings that are known.

The device's clock is bent by its own ``[clock]``, both clocks being one crystal's; no faketime.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.conftest import Emulator, _emulator
from tests.live.conftest import SLACKWATER

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("links")]
emulator = _emulator

SITE = """
[gateway]
listen = "10.203.0.2"
port = 9780
log = "shop.log"
without_tokens = true
"""
AGENT = """
[agent]
source = "door"
[gateway]
host = "10.203.0.2"
port = 9780
[clock]
ahead_ms = {ahead}
fast_ppm = {fast}
[[input]]
kind = "stdin"
"""
SETTINGS = [
    (ahead, fast, up, down, loss)
    for up, down, loss in ((1, 1, 0.0), (10, 10, 0.02), (30, 5, 0.0), (80, 60, 0.1))
    for ahead, fast in ((0, 0), (-250, 80), (3_600_000, -200))
]
EACH_LINK_ONCE = (0, 4, 8, 9)
"""Of the settings, for `make test-all`: with each clock, too."""
SECONDS = 6


def links(up: int, down: int, loss: float) -> str:
    law = '{{ model = "constant", delay = "{} ms" }}'
    return (
        f"[links.up]\ndelay = {law.format(up)}\nloss = {loss}\n"
        f"[links.down]\ndelay = {law.format(down)}\n"
    )


def until_it_answers(emulator: Emulator, gateway: subprocess.Popen[str]) -> None:
    code = "import socket; socket.create_connection(('10.203.0.2', 9780), 5)"
    for _ in range(60):
        assert gateway.poll() is None, gateway.communicate()
        if emulator.python("a", code).wait(30) == 0:
            return
        time.sleep(0.5)
    raise AssertionError(f"no gateway at {socket.gethostname()}")


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("ahead", "fast", "up", "down", "loss"),
    [
        pytest.param(*each, marks=() if place in EACH_LINK_ONCE else pytest.mark.deep)
        for place, each in enumerate(SETTINGS)
    ],
)
def test_what_is_measured_holds_the_truth_and_the_verdict_is_right(
    ahead: int, fast: int, up: int, down: int, loss: float, emulator: Emulator, tmp_path: Path
) -> None:
    (tmp_path / "site.toml").write_text(SITE)
    (tmp_path / "agent.toml").write_text(AGENT.format(ahead=ahead, fast=fast))
    emulator.start(links(up, down, loss))
    words = [*SLACKWATER, "serve", "--config", "site.toml", "--engine", "none", "--quiet"]
    gateway = emulator.inside("b", words, cwd=tmp_path)
    until_it_answers(emulator, gateway)
    short = f"EVENT SEQ(A a, B b) WITHIN {up + down} ms"
    long = f"EVENT SEQ(A a, B b) WITHIN {1000 * (up + down + 20)} ms"
    asked = ["--query", short, "--query", long, "--duration", f"{SECONDS}s", "--json", "--quiet"]
    device = emulator.inside(
        "a", [*SLACKWATER, "validate", "--config", "agent.toml", *asked], cwd=tmp_path
    )
    said, _ = device.communicate(timeout=120)
    found: dict[str, Any] = json.loads(said)
    (source,) = found["sources"]
    clock, link = source["clock"], source["link"]
    gained_ns = abs(fast) * 1000 * (SECONDS + 2)
    assert abs(clock["offset_ns"] + ahead * 10**6) <= clock["offset_bound_ns"] + gained_ns
    assert abs(clock["skew_ppb"] + fast * 1000) <= clock["skew_bound_ppb"] + 20_000
    assert clock["delay_ns"] >= (up + down) * 10**6 - 100_000
    assert link["least_ns"] + link["transit_error_ns"] >= up * 10**6
    low, high = link["loss_bounds"]
    assert low <= loss <= high
    assert [each["verdict"] == "not fit" for each in found["queries"]] == [True, False]
    assert device.returncode == 1
