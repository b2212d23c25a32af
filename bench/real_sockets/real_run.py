"""The set-up on real sockets: emulated links, a gateway, and an agent per device, as processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.real_sockets import device_clock
from bench.real_sockets.device_clock import Bend
from bench.real_sockets.setup import DEVICES, GATEWAY, SECOND, Device, Setup
from simulator.emulator.settings import read_links_file

ROOT = Path(__file__).resolve().parents[2]
SLACKWATER = [sys.executable, "-c", "from engine.cli import main; main()"]
PATIENCE_SECONDS = 60.0
FIRST = ("chrt", "--rr", "1")
"""Other work of the machine is not part of the set-up, and must not delay it."""
CONGESTION = "echo reno > /proc/sys/net/ipv4/tcp_congestion_control"
"""What every kernel has; defaults differ, and BBR spaces packets."""
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

    def __init__(self, setup: Setup, folder: Path) -> None:
        self._setup = setup
        self._folder = folder
        self._prefix = f"swreal{os.getpid()}-"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def run(self) -> RealRun:
        """Raises RuntimeError: a program failed; says what it said."""
        try:
            return self._run()
        finally:
            for process in self._running.values():
                if process.poll() is None:
                    process.terminate()
            for process in self._running.values():
                process.wait(PATIENCE_SECONDS)

    def _run(self) -> RealRun:
        folder, setup = self._folder, self._setup
        links = folder / "links.toml"
        links.write_text(setup.links_file(self._prefix))
        (folder / "site.toml").write_text(setup.site_file())
        gateway = read_links_file(links).addresses[GATEWAY]
        self._start("links", [*SLACKWATER, "emulate", "links.toml"])
        self._until("links", (folder / "links.json").exists)
        for namespace in [GATEWAY, *(device.name for device in DEVICES)]:
            subprocess.run([*self._inside(namespace), "sh", "-c", CONGESTION], check=True)
        serve = [*SLACKWATER, "serve", "--config", "site.toml"]
        self._start(GATEWAY, [*self._inside(GATEWAY), *serve])
        self._until(GATEWAY, lambda: "listening" in self._said(GATEWAY))
        for device in DEVICES:
            self._start_agent(device, gateway)
        bends = {device.name: self._bend(device) for device in DEVICES}
        for device in DEVICES:
            self._until(device.name, lambda name=device.name: ": running" in self._said(name))
        start_ns = device_clock.true_ns() + SECOND
        for device in DEVICES:
            start = folder / f"{device.name}.start"
            start.with_suffix(".writing").write_text(str(bends[device.name].device_ns(start_ns)))
            start.with_suffix(".writing").replace(start)
        for device in DEVICES:
            self._ended(device.name, self._setup.seconds + PATIENCE_SECONDS)
            self._check_bend(device, bends[device.name])
        for name in (GATEWAY, "links"):
            self._running[name].terminate()
            self._ended(name, PATIENCE_SECONDS)
        counts = json.loads((folder / "links.json").read_text())["links"]
        return RealRun(folder / "site.log", start_ns, bends, counts)

    def _start_agent(self, device: Device, gateway: str) -> None:
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
        self._start(name, [*self._inside(name), "faketime", "-f", bend, *program])

    def _bend(self, device: Device) -> Bend:
        path = self._folder / f"{device.name}.clock"
        self._until(device.name, path.exists)
        return Bend(device_clock.load(path)[0], device.rate)

    def _check_bend(self, device: Device, bend: Bend) -> None:
        last = device_clock.load(self._folder / f"{device.name}.clock")[-1]
        error_ns = last.device_ns - bend.device_ns(last.true_ns)
        if abs(error_ns) > BEND_ERROR_NS:
            raise RuntimeError(f"{device.name}: its clock left its line by {error_ns} ns")

    def _inside(self, namespace: str) -> list[str]:
        return ["ip", "netns", "exec", self._prefix + namespace]

    def _start(self, name: str, words: list[str]) -> None:
        with (self._folder / f"{name}.txt").open("wb") as said:
            self._running[name] = subprocess.Popen(
                [*FIRST, *words], cwd=self._folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )  # fmt: skip

    def _said(self, name: str) -> str:
        return (self._folder / f"{name}.txt").read_text()

    def _until(self, name: str, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not true():
            if self._running[name].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not come up; it said:\n{self._said(name)}")
            time.sleep(0.05)

    def _ended(self, name: str, seconds: float) -> None:
        try:
            code = self._running[name].wait(seconds)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{name} does not end; it said:\n{self._said(name)}") from None
        if code:
            raise RuntimeError(f"{name} ended with {code}; it said:\n{self._said(name)}")
