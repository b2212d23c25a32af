"""A bent clock and the true one, read at once: the truth about libfaketime's bend.

libfaketime answers C's clock functions; the system call itself tells the true time.
"""

from __future__ import annotations

import ctypes
import json
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path

SECOND = 1_000_000_000
_CLOCK_GETTIME = {"x86_64": 228, "aarch64": 113}
_READINGS = 50


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


@dataclass(frozen=True)
class ClockPair:
    """Both clocks at one instant [ns since 1970]; ``width_ns``: how long the reading took."""

    true_ns: int
    device_ns: int
    width_ns: int


def true_ns() -> int:
    """The machine's wall clock, whatever libfaketime says."""
    found = _Timespec()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_CLOCK_GETTIME[platform.machine()], 0, ctypes.byref(found)):
        raise OSError(ctypes.get_errno(), "clock_gettime")
    return found.seconds * SECOND + found.nanoseconds


def read() -> ClockPair:
    """Of many readings, that between the closest two of the true clock."""
    found = []
    for _ in range(_READINGS):
        before, device, after = true_ns(), time.time_ns(), true_ns()
        found.append(ClockPair((before + after) // 2, device, after - before))
    return min(found, key=lambda reading: reading.width_ns)


@dataclass(frozen=True)
class Bend:
    """What a device's clock shows: ``rate`` times the true time since ``at``, plus ``at``'s."""

    at: ClockPair
    rate: float

    def device_ns(self, true: int) -> int:
        # The difference alone in floating point: whole nanoseconds of an hour fit into it.
        return self.at.device_ns + round((true - self.at.true_ns) * self.rate)

    def true_ns(self, device: int) -> int:
        return self.at.true_ns + round((device - self.at.device_ns) / self.rate)


def write(path: Path, readings: list[ClockPair]) -> None:
    """Appears whole."""
    unfinished = path.with_suffix(".writing")
    unfinished.write_text(json.dumps([asdict(reading) for reading in readings]))
    unfinished.replace(path)


def load(path: Path) -> list[ClockPair]:
    return [ClockPair(**each) for each in json.loads(path.read_text())]
