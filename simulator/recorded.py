"""Delays from a recording: resampled as a distribution, or in the recording's time order.

``net_cicv5g`` (CICV5G, Zenodo 10.5281/zenodo.17475688) holds round trips of a moving car over 5G,
at 10 to 100 Hz; half a round trip is used as one way. ``RecordedDelay`` preserves bursts and fades:
a message sent at virtual time t gets the delay measured at the same distance into the recording,
which is repeated if it is shorter than the run.

>>> trace = DelayTrace(np.array([0, 10, 20]), np.array([5, 500, 6]), length_ns=30)
>>> replay = RecordedDelay(trace, phase_ns=0)
>>> [replay.sample(t) for t in (0, 9, 10, 25, 31, 42)]
[5, 5, 500, 6, 5, 500]
"""

from __future__ import annotations

import csv
import gzip
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from slackwater.engine.core.errors import UserError
from slackwater.simulator.delays import DELAY_MODELS, Delay, DelayModel, DrawnDelay
from slackwater.simulator.normals import survival
from slackwater.simulator.settings import check, parse_model

MS: Final = 10**6
PAUSE_MAX_NS: Final = 10**9
"""Pause of the trace's time between two recorded runs, which were hours apart."""
CICV5G_FILE: Final = Path("net_cicv5g") / "cicv5g_rtt.csv.gz"


@dataclass(frozen=True, slots=True, eq=False)
class DelayTrace:
    """``delays_ns[i]`` holds from ``times_ns[i]`` on (int64, sorted, from 0) to ``length_ns``."""

    times_ns: np.ndarray
    delays_ns: np.ndarray
    length_ns: int

    def __post_init__(self) -> None:
        check(self.times_ns.size > 0, "trace", "holds no delay")
        check(self.times_ns.size == self.delays_ns.size, "trace", "needs one time per delay")
        check(int(self.times_ns[0]) == 0, "trace", "must begin at time 0")
        check(bool(np.all(np.diff(self.times_ns) >= 0)), "trace", "must be in order of time")
        check(self.length_ns > int(self.times_ns[-1]), "trace", "must be longer than its last time")
        check(int(self.delays_ns.min()) >= 0, "trace", "a delay is negative")

    def bend(self, normals: np.ndarray) -> np.ndarray:
        """As a distribution: the recording's own, by its quantiles."""
        ranked = np.sort(self.delays_ns)
        rank = ((1 - survival(normals)) * ranked.size).astype(np.int64)
        return ranked[np.minimum(rank, ranked.size - 1)].astype(np.float64)


class RecordedDelay:
    """Reads a trace in its time order, from ``phase_ns`` into it, repeatedly."""

    def __init__(self, trace: DelayTrace, phase_ns: int, origin_ns: int = 0) -> None:
        self._times: list[int] = trace.times_ns.tolist()
        self._delays: list[int] = trace.delays_ns.tolist()
        self._length = trace.length_ns
        self._shift = phase_ns - origin_ns

    def sample(self, send_ns: int) -> int:
        place = (send_ns + self._shift) % self._length
        return self._delays[bisect_right(self._times, place) - 1]


@dataclass(frozen=True, slots=True)
class RecordedSettings:
    """Settings: which recording, and how to read it.

    Attributes:
        trace: name of a recording in ``TRACES``.
        in_time: read in the recording's own time order, from a random place on; else
            resampled as a law (and then ``correlation`` of the link applies).
    """

    trace: str
    in_time: bool = True

    def __post_init__(self) -> None:
        known = ", ".join(TRACES)
        check(self.trace in TRACES, "trace", f"unknown recording {self.trace!r}; known are {known}")


DelaySettings = DelayModel | RecordedSettings


def parse_delay(value: object, place: str) -> DelaySettings:
    """Delay settings from a dict with the key ``model``.

    Raises:
        UserError: unknown model or key, value out of range.
    """
    known: dict[str, type[Any]] = {**DELAY_MODELS, "recorded": RecordedSettings}
    settings: DelaySettings = parse_model(known, value, place)
    return settings


def build_delay(
    settings: DelaySettings,
    generator: np.random.Generator,
    correlation: float,
    origin_ns: int,
    data: Path,
) -> Delay:
    """The running delay for these settings.

    Args:
        settings: a distribution or a recording.
        generator: the component's own.
        correlation: AR(1) of the distribution; a recording in time order has its own.
        origin_ns: start of the run's virtual time.
        data: directory of the recordings (``data_directory``).

    Raises:
        UserError: the recording is missing (the message says how to get it).
    """
    if not isinstance(settings, RecordedSettings):
        return DrawnDelay(settings, generator, correlation)
    trace = TRACES[settings.trace](data)
    if not settings.in_time:
        return DrawnDelay(trace, generator, correlation)
    return RecordedDelay(trace, int(generator.integers(trace.length_ns)), origin_ns)


def data_directory(environment: Mapping[str, str]) -> Path:
    """``$SLACKWATER_DATA``, else ``../shared/data`` next to this checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(environment.get("SLACKWATER_DATA", beside))


def load_cicv5g(data: Path) -> DelayTrace:
    """The 5G recording in ``data``: round trip / 2, runs one after the other.

    Raises:
        UserError: the file is missing or invalid.
    """
    return _read_cicv5g(data / CICV5G_FILE)


TRACES: Final[dict[str, Callable[[Path], DelayTrace]]] = {"net_cicv5g": load_cicv5g}


@cache
def _read_cicv5g(path: Path) -> DelayTrace:
    if not path.is_file():
        raise UserError(
            f"{path}: the recording net_cicv5g is not there; it is CICV5G, Zenodo "
            "10.5281/zenodo.17475688: put cicv5g_rtt.csv.gz (columns run, pub_time_ms, rtt_ms) "
            "into net_cicv5g/ of a directory and set SLACKWATER_DATA to that directory"
        )
    with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        head = next(rows, [])
        columns = ("run", "pub_time_ms", "rtt_ms")
        if any(name not in head for name in columns):
            raise UserError(f"{path}:1: expected the columns {', '.join(columns)}")
        run_at, time_at, rtt_at = (head.index(name) for name in columns)
        kept = [(row[run_at], int(row[time_at]), int(row[rtt_at])) for row in rows]
    sent = np.array([time for _, time, _ in kept], np.int64) * MS
    trips = np.array([rtt for _, _, rtt in kept], np.int64) * MS
    gaps = np.clip(np.diff(sent), 0, PAUSE_MAX_NS)
    same_run = np.array([left[0] == right[0] for left, right in pairwise(kept)])
    gaps[~same_run] = PAUSE_MAX_NS
    times = np.concatenate([np.zeros(1, np.int64), np.cumsum(gaps)])
    return DelayTrace(times, np.maximum(trips, 0) // 2, int(times[-1]) + PAUSE_MAX_NS)
