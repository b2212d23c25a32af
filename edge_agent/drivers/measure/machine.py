"""Network interfaces, disk, processor, memory and the resolution of the clocks."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from slackwater.edge_agent import wire
from slackwater.edge_agent.clock import MachineClock, Now
from slackwater.edge_agent.drivers.agent_file import AgentSettings
from slackwater.edge_agent.drivers.measure.gateway import GatewayPath, NtpServer
from slackwater.edge_agent.drivers.measure.inputs import measured_inputs
from slackwater.edge_agent.drivers.session_driver import TimeServer
from slackwater.edge_agent.listening import interface_of, interfaces
from slackwater.edge_agent.measure import (
    ClockFindings,
    ClockWatch,
    DiskFindings,
    Findings,
    InterfaceFindings,
    MachineFindings,
)
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import Codes, Column, data_message

# Network interfaces from netifaces, with facts about their links from Linux (/sys/class/net).


SYSFS: Final = Path("/sys/class/net")
WIRELESS: Final = Path("/proc/net/wireless")
_LOOPBACK: Final = "772"
_ETHERNET: Final = "1"
_CELLULAR: Final = ("wwan", "wwp", "ppp", "rmnet")


def measured_interfaces(local_address: str) -> tuple[InterfaceFindings, ...]:
    """All interfaces, the default route's first. ``local_address``: of the path to the gateway."""
    used = interface_of(local_address) if local_address else None
    signals = _signals(_text(WIRELESS))
    return tuple(
        InterfaceFindings(
            name=each.name, kind=kind_of(SYSFS / each.name), addresses=each.addresses,
            mtu=_number(SYSFS / each.name / "mtu"), speed_mbit=_number(SYSFS / each.name / "speed"),
            signal_dbm=signals.get(each.name), is_used=used is not None and used.name == each.name,
        )
        for each in interfaces()
    )  # fmt: skip


def kind_of(folder: Path) -> str:
    """Kind of the interface whose sysfs folder is ``folder``."""
    name = folder.name
    events = _text(folder / "uevent")
    if name == "lo" or _text(folder / "type") == _LOOPBACK:
        return "loopback"
    if not folder.exists():  # no sysfs here
        return "other"
    if (folder / "wireless").exists() or (folder / "phy80211").exists():
        return "wifi"
    if "DEVTYPE=wlan" in events:
        return "wifi"
    if "DEVTYPE=wwan" in events or name.startswith(_CELLULAR):
        return "cellular"
    if not (folder / "device").exists():
        return "virtual"
    return "ethernet" if _text(folder / "type") == _ETHERNET else "other"


def _signals(text: str) -> dict[str, int]:
    """Interface -> signal [dBm], from /proc/net/wireless: two header lines, then rows."""
    found = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        cells = rest.split()
        if len(cells) > 2 and cells[2].rstrip(".").lstrip("-").isdigit():
            found[name.strip()] = int(cells[2].rstrip("."))
    return found


def _number(file: Path) -> int | None:
    """A number from a sysfs file; None: none, or -1 (unknown, as for a link that is down)."""
    text = _text(file)
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""  # no such link or attribute: unknown


# Disk, processor, memory and the resolution of the clocks.


_WRITES: Final = 50
_WRITE_BYTES: Final = 4096
_DISK_NS: Final = 2 * 10**9
_PACK_NS: Final = 200_000_000
_ROWS: Final = 64
_GRAIN_READINGS: Final = 2_000
_TRIES: Final = 5
_CLOSE_NS: Final = 50_000


def measured_disk(folder: Path) -> DiskFindings:
    """Measure small fsynced writes on the disk of the outbox ``folder``, without touching its
    files.

    The temporary file is in the parent of ``folder`` if that is writable and on the same disk, else
    in the nearest existing folder.
    """
    place = _place(folder)
    taken: list[int] = []
    try:
        free = shutil.disk_usage(place).free
        until = time.monotonic_ns() + _DISK_NS
        with tempfile.NamedTemporaryFile(dir=place, prefix=".slackwater-validate-") as file:
            data = bytes(_WRITE_BYTES)
            while len(taken) < _WRITES and time.monotonic_ns() < until:
                file.write(data)
                begun = time.monotonic_ns()
                file.flush()
                os.fsync(file.fileno())
                taken.append(time.monotonic_ns() - begun)
    except OSError as error:
        return DiskFindings(folder=str(place), error=error.strerror or str(error))
    return DiskFindings(folder=str(place), fsync_ns=tuple(taken), free_bytes=free)


def _place(folder: Path) -> Path:
    whole = folder.absolute()
    there = next(path for path in (whole, *whole.parents) if path.is_dir())
    above = there.parent
    if there == whole and above.stat().st_dev == there.stat().st_dev and os.access(above, os.W_OK):
        return above
    return there


def measured_machine(schema: StreamSchema) -> MachineFindings:
    """Cores, load, memory, and the rate at which one core packs events of ``schema``."""
    memory = _memory()
    speed, size = _packing(schema)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return MachineFindings(
        cores=os.cpu_count() or 1, load=load, memory_bytes=memory.get("MemTotal"),
        memory_free_bytes=memory.get("MemAvailable"), packed_per_s=speed, event_bytes=size,
    )  # fmt: skip


def _memory() -> dict[str, int]:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}  # not Linux: unknown
    pairs = (line.split(":") for line in lines if line.endswith("kB"))
    return {name: int(rest.split()[0]) * 1024 for name, rest in pairs}


def _packing(schema: StreamSchema) -> tuple[float, float]:
    """(events per second, bytes per event) of messages as an agent packs them."""
    numbers = array("q", range(_ROWS))
    made: dict[str, Column] = {
        "int": numbers, "float": array("d", [0.5] * _ROWS), "bool": array("B", bytes(_ROWS)),
        "str": Codes(["some text"], array("i", bytes(4 * _ROWS))),
    }  # fmt: skip
    attrs = {name: made[kind] for name, kind in schema.attrs.items()}
    events = size = 0
    begun = time.perf_counter_ns()
    while time.perf_counter_ns() - begun < _PACK_NS:
        message = data_message(0, schema, ts=numbers, te=None, ids=None, types="EVENT", attrs=attrs)
        size += len(wire.encode(message))
        events += _ROWS
    seconds = (time.perf_counter_ns() - begun) / 1e9
    return events / seconds, size / events


def grain_ns(read: MachineClock) -> tuple[int, int]:
    """Smallest observed steps of the wall clock and the monotonic clock [ns]."""
    readings = [read.read() for _ in range(_GRAIN_READINGS)]
    pairs = list(pairwise(readings))
    wall = [b.wall_ns - a.wall_ns for a, b in pairs if b.wall_ns > a.wall_ns]
    mono = [b.mono_ns - a.mono_ns for a, b in pairs if b.mono_ns > a.mono_ns]
    said_wall = round(time.get_clock_info("time").resolution * 1e9)
    said_mono = round(time.get_clock_info("monotonic").resolution * 1e9)
    return min(wall, default=max(said_wall, 1)), min(mono, default=max(said_mono, 1))


def read_close(clock: MachineClock) -> tuple[Now, int, int]:
    """Both clocks, the raw clock, and the duration of the reading [ns]: the fastest of a few."""
    best: tuple[Now, int, int] | None = None
    for _ in range(_TRIES):
        before = time.monotonic_ns()
        now, raw = clock.read(), raw_ns()
        took = time.monotonic_ns() - before
        if best is None or took < best[2]:
            best = now, raw, took
        if took < _CLOSE_NS:
            break
    assert best is not None
    return best


def raw_ns() -> int:
    """The hardware clock without adjustments; the monotonic clock where there is none."""
    raw = getattr(time, "CLOCK_MONOTONIC_RAW", None)
    return time.monotonic_ns() if raw is None else time.clock_gettime_ns(raw)


# Measurement of a device's set-up: everything that ``slackwater validate`` examines.
#
# First come measurements that would disturb those of the clocks (disk, processor, inputs), then
# clocks and path for ``duration_s``, then, with ``rate``, the capacity of the path. A run that ends
# early returns its measurements so far.


_WATCH_S: Final = 0.05
_STEER_MIN_NS: Final = 5 * 10**9
"""A shorter watch says nothing about a frequency in ppb [ns]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """Duration and density of the measurement."""

    duration_s: float = 30.0
    train_s: float = 0.25
    """Time between trains of questions to the gateway."""
    server_s: float = 2.0
    """Time between questions to one standard server, as with ntpd's iburst."""
    timeout_s: float = 2.0
    rate: bool = False


async def measure_setup(
    settings: AgentSettings, folder: Path, servers: Sequence[TimeServer], measuring: Measuring,
    advanced: Callable[[str, float], None] = lambda _what, _share: None,
) -> Findings:  # fmt: skip
    """Measure the set-up; SIGINT and SIGTERM end the measurement early.

    Args:
        settings: of the agent; an artificial clock error applies here as well.
        folder: of its settings file.
        servers: standard NTP servers, asked in addition to the gateway.
        measuring: duration and density.
        advanced: called with the current step and its progress (0 to 1).
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    with suppress(ValueError, RuntimeError):  # not the main thread: the caller handles signals
        for number in signals:
            loop.add_signal_handler(number, stop.set)
    try:
        return await _measured(settings, folder, servers, measuring, advanced, stop)
    finally:
        with suppress(ValueError, RuntimeError):
            for number in signals:
                loop.remove_signal_handler(number)


async def _measured(
    settings: AgentSettings, folder: Path, servers: Sequence[TimeServer], measuring: Measuring,
    advanced: Callable[[str, float], None], stop: asyncio.Event,
) -> Findings:  # fmt: skip
    loop = asyncio.get_running_loop()
    clock = MachineClock()
    clock.bend(settings.clock_ahead_ns, settings.clock_fast_ppb)
    advanced("disk, processor, inputs", 0.0)
    wall_ns, mono_ns = grain_ns(clock)
    disk = None if settings.outbox is None else measured_disk(settings.outbox)
    machine = measured_machine(settings.streams[0])
    inputs = await measured_inputs(settings, folder, wall_ns=lambda: clock.read().wall_ns)
    path = GatewayPath(settings, clock, max(wall_ns, 1), measuring.train_s)
    await path.connect()
    ntp_servers = [NtpServer(each, clock, measuring.timeout_s) for each in servers]
    begun = loop.time()

    def over() -> bool:
        share = min((loop.time() - begun) / measuring.duration_s, 1.0)
        advanced("clocks and path", share)
        return stop.is_set() or share >= 1.0

    watching = _ClockWatch(clock)
    await asyncio.gather(
        path.run(over),
        watching.run(over, stop),
        *(_ask(each, over, stop, measuring) for each in ntp_servers),
    )
    seconds = loop.time() - begun
    if measuring.rate and not stop.is_set():
        advanced("rate of the path", 1.0)
        await path.burst()
    found = path.findings()
    return Findings(
        site=settings.session.site, source=settings.session.source, path=found,
        servers=tuple(each.findings() for each in ntp_servers),
        clock=watching.findings(wall_ns, mono_ns),
        interfaces=measured_interfaces(found.local_address), disk=disk, machine=machine,
        inputs=inputs, seconds=seconds, is_whole=not stop.is_set(),
    )  # fmt: skip


async def _ask(
    server: NtpServer, over: Callable[[], bool], stop: asyncio.Event, measuring: Measuring
) -> None:
    while not over():
        await asyncio.to_thread(server.ask)
        await _pause(stop, measuring.server_s)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


class _ClockWatch:
    """The device's clocks compared with each other."""

    def __init__(self, clock: MachineClock) -> None:
        self._clock = clock
        self._watch = ClockWatch()
        self._first: tuple[int, int] | None = None
        self._last = (0, 0)

    async def run(self, over: Callable[[], bool], stop: asyncio.Event) -> None:
        while not over():
            now, raw, took = read_close(self._clock)
            self._watch.see(now, took)
            self._last = (now.mono_ns, raw)
            self._first = self._first or self._last
            await _pause(stop, _WATCH_S)

    def findings(self, wall_ns: int, mono_ns: int) -> ClockFindings:
        watch = self._watch
        steered = None
        if self._first is not None:
            mono = self._last[0] - self._first[0]
            raw = self._last[1] - self._first[1]
            steered = (mono - raw) * 10**9 // raw if raw >= _STEER_MIN_NS else None
        return ClockFindings(
            resolution_ns=wall_ns, monotonic_resolution_ns=mono_ns, readings=watch.readings,
            seconds=watch.watched_ns / 1e9, steps=tuple(watch.steps),
            backwards=watch.backwards, disciplined_ppb=steered,
        )  # fmt: skip
