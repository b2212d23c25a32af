"""The set-up on real sockets: emulated links, a gateway, and an agent per device, as processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.real_sockets import device_clock
from bench.real_sockets.device_clock import Bend
from bench.real_sockets.programs import FIRST, PATIENCE_SECONDS, SLACKWATER, RunningPrograms
from bench.real_sockets.setup import DEVICES, GATEWAY, SECOND, SocketsDevice, SocketsSetup
from slackwater.simulator.emulator.settings import read_links_file

BEND_ERROR_NS = 20_000
"""The bend must be a line as exactly as this, or nothing is known of the truth."""


def lacks() -> str | None:
    """What this machine lacks for it; None: nothing."""
    if os.geteuid() != 0:
        return "real sockets behind emulated links need root"
    packages = {"ip": "iproute2", "faketime": "faketime", "chrt": "util-linux"}
    for program, package in packages.items():
        if shutil.which(program) is None:
            return f"real sockets with wrong clocks need {program} (Debian: apt install {package})"
    if subprocess.run([*FIRST, "true"], capture_output=True, check=False).returncode:
        return "a real-time priority is needed, so that other work delays nothing, and is refused"
    if not Path("/dev/net/tun").exists():
        return "emulated links need /dev/net/tun (modprobe tun)"
    return None


@dataclass(frozen=True)
class RealRun:
    """What came of it: log, true time of the start [ns], bends of the clocks, counts of links."""

    log: Path
    start_ns: int
    bends: dict[str, Bend]
    links: list[dict[str, Any]]


class RealWorld:
    """Runs the set-up once in ``folder``."""

    def __init__(self, setup: SocketsSetup, folder: Path) -> None:
        self._setup = setup
        self._folder = folder
        self._prefix = f"swreal{os.getpid()}-"
        self._programs = RunningPrograms(folder, self._prefix)

    def run(self) -> RealRun:
        """Raises RuntimeError: a program failed; says what it said."""
        with self._programs as programs:
            return self._run(programs)

    def _run(self, programs: RunningPrograms) -> RealRun:
        folder, setup = self._folder, self._setup
        (folder / "site.toml").write_text(setup.site_file())
        names = [device.name for device in DEVICES]
        programs.start_links(setup.links_file(self._prefix), [GATEWAY, *names])
        gateway = read_links_file(folder / "links.toml").addresses[GATEWAY]
        serve = [*SLACKWATER, "serve", "--config", "site.toml"]
        programs.start(GATEWAY, [*programs.inside(GATEWAY), *serve])
        programs.until(GATEWAY, lambda: "listening" in programs.said(GATEWAY))
        for device in DEVICES:
            self._start_agent(device, gateway)
        bends = {device.name: self._bend(device) for device in DEVICES}
        for name in names:
            programs.until(name, lambda name=name: ": running" in programs.said(name))
        start_ns = device_clock.true_ns() + SECOND
        for name in names:
            start = folder / f"{name}.start"
            start.with_suffix(".writing").write_text(str(bends[name].device_ns(start_ns)))
            start.with_suffix(".writing").replace(start)
        for name in names:
            programs.ended(name, self._setup.seconds + PATIENCE_SECONDS)
            check_bend(folder, name, bends[name])
        for name in (GATEWAY, "links"):
            programs.stop(name)
        counts = json.loads((folder / "links.json").read_text())["links"]
        return RealRun(folder / "site.log", start_ns, bends, counts)

    def _start_agent(self, device: SocketsDevice, gateway: str) -> None:
        name = device.name
        (self._folder / f"{name}.toml").write_text(self._setup.agent_file(device, gateway))
        times, keys = self._setup.events[name]
        lines = [
            json.dumps({"type": device.type, "ts": at, "v": v, "k": k})
            for v, (at, k) in enumerate(
                zip(
                    # On the device's clock, which counts from the start's reading.
                    [round(at * device.rate) for at in times.tolist()], keys.tolist(), strict=True
                )
            )
        ]  # fmt: skip
        (self._folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        bend = f"{device.fast_ns // SECOND:+d}s x{device.rate:.6f}"
        program = [sys.executable, "-m", "bench.real_sockets.bent_agent", str(self._folder), name]
        self._programs.start(name, [*self._programs.inside(name), "faketime", "-f", bend, *program])

    def _bend(self, device: SocketsDevice) -> Bend:
        path = self._folder / f"{device.name}.clock"
        self._programs.until(device.name, path.exists)
        return Bend(device_clock.load(path)[0], device.rate)


def check_bend(folder: Path, name: str, bend: Bend) -> None:
    """Raises RuntimeError: the clock of the device ``name`` has left its line."""
    last = device_clock.load(folder / f"{name}.clock")[-1]
    error_ns = last.device_ns - bend.device_ns(last.true_ns)
    if abs(error_ns) > BEND_ERROR_NS:
        raise RuntimeError(f"{name}: its clock left its line by {error_ns} ns")
