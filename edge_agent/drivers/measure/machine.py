"""Network interfaces, disk, processor, memory and the clocks' own grain."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from array import array
from itertools import pairwise
from pathlib import Path
from typing import Final

from edge_agent import wire
from edge_agent.clock import DeviceClock, Now
from edge_agent.listening import interface_of, interfaces
from edge_agent.measure.findings import DiskFindings, InterfaceFindings, MachineFindings
from edge_agent.messages import StreamSchema
from edge_agent.packing import Codes, Column, data_message

# Network interfaces by netifaces, and what Linux says of their links (/sys/class/net).


SYSFS: Final = Path("/sys/class/net")
WIRELESS: Final = Path("/proc/net/wireless")
_LOOPBACK: Final = "772"
_ETHERNET: Final = "1"
_CELLULAR: Final = ("wwan", "wwp", "ppp", "rmnet")


def measured_interfaces(local_address: str) -> tuple[InterfaceFindings, ...]:
    """All interfaces, the default route's first. ``local_address``: what the gateway's way uses."""
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
    """Of the interface that ``folder`` of sysfs is about."""
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
    """Interface -> signal [dBm], of /proc/net/wireless: two lines of headings, then rows."""
    found = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        cells = rest.split()
        if len(cells) > 2 and cells[2].rstrip(".").lstrip("-").isdigit():
            found[name.strip()] = int(cells[2].rstrip("."))
    return found


def _number(file: Path) -> int | None:
    """What a file of sysfs says; None: nothing, or -1 (unknown, as of a link that is down)."""
    text = _text(file)
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""  # no such link or no such fact: both are told as unknown


# Disk, processor, memory and the clocks' own grain.


_WRITES: Final = 50
_WRITE_BYTES: Final = 4096
_DISK_NS: Final = 2 * 10**9
_PACK_NS: Final = 200_000_000
_ROWS: Final = 64
_GRAIN_READINGS: Final = 2_000
_TRIES: Final = 5
_CLOSE_NS: Final = 50_000


def measured_disk(folder: Path) -> DiskFindings:
    """Small writes, each fsynced, on the disk of the outbox ``folder``, which is not touched.

    The file lies in the nearest folder above that is there and on the same disk, else in the
    outbox's own, and is removed.
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
    """Cores, load, memory, and how fast events of ``schema`` are packed, one core."""
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
    """(events per second, bytes per event) of messages as an agent makes them."""
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


def grain_ns(read: DeviceClock) -> tuple[int, int]:
    """Smallest steps that the wall and the monotonic clock are seen to make."""
    readings = [read.read() for _ in range(_GRAIN_READINGS)]
    pairs = list(pairwise(readings))
    wall = [b.wall_ns - a.wall_ns for a, b in pairs if b.wall_ns > a.wall_ns]
    mono = [b.mono_ns - a.mono_ns for a, b in pairs if b.mono_ns > a.mono_ns]
    said_wall = round(time.get_clock_info("time").resolution * 1e9)
    said_mono = round(time.get_clock_info("monotonic").resolution * 1e9)
    return min(wall, default=max(said_wall, 1)), min(mono, default=max(said_mono, 1))


def read_close(clock: DeviceClock) -> tuple[Now, int, int]:
    """Both clocks, the raw one, and how long the reading took: the quickest of a few."""
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
    """The hardware's clock, which nobody steers; the monotonic one where there is none."""
    raw = getattr(time, "CLOCK_MONOTONIC_RAW", None)
    return time.monotonic_ns() if raw is None else time.clock_gettime_ns(raw)
