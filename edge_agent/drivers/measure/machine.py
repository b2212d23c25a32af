"""Disk, processor, memory and the clocks' own grain."""

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
from edge_agent.columns import Codes, Column
from edge_agent.measure.findings import DiskFindings, MachineFindings
from edge_agent.messages import StreamSchema
from edge_agent.packing import data_message

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
