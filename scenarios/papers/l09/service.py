"""When results leave if computing takes time: one server, first come, first served.

On the arrival clock an aggressive result leaves the instant its last event arrives, so what is left
of its latency is computing. L09 measures that on two machines; here the records arrive at a stated
rate, each takes its share of the CPU time of its call, and waits for those before it (Lindley's
recursion). A result leaves when the record that lets it go is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from scenarios.papers.l09.passes import Ran
from scenarios.papers.l09.workload import UNIT_NS

BUSY: Final = 0.8
"""Share of the time that a figure's slowest setup computes: the rate follows from it."""


def unit_seconds(rans: Iterable[Ran]) -> float:
    """How long a time unit lasts if the slowest of ``rans`` computes ``BUSY`` of the time."""
    return max(float(ran.seconds.sum()) / _units(ran) for ran in rans) / BUSY


def busy(ran: Ran, unit_s: float) -> float:
    """Share of the time that the chain computes; above 1 it cannot keep up."""
    return float(ran.seconds.sum()) / (_units(ran) * unit_s)


def latency_seconds(ran: Ran, unit_s: float) -> float:
    """L09's average application latency: of all tuples that leave, per result that stands.

    Args:
        ran: a pass.
        unit_s: how long a time unit lasts [s].
    """
    start = ran.arrival[0]
    arrival_s = (ran.arrival - start) / UNIT_NS * unit_s
    done_s = _done(arrival_s, np.repeat(ran.seconds / ran.rows, ran.rows))
    record = np.searchsorted(ran.arrival, ran.told.at, side="right") - 1
    caused_s = (ran.told.caused - start) / UNIT_NS * unit_s
    return float((done_s[record] - caused_s).sum()) / max(ran.told.standing, 1)


def _done(arrival_s: np.ndarray, service_s: np.ndarray) -> np.ndarray:
    """When each record is done.

    >>> _done(np.array([0.0, 1.0, 5.0]), np.array([2.0, 2.0, 2.0])).tolist()
    [2.0, 4.0, 7.0]
    """
    worked = np.cumsum(service_s)
    return np.asarray(np.maximum.accumulate(arrival_s - (worked - service_s)) + worked)


def _units(ran: Ran) -> float:
    return float(ran.arrival[-1] - ran.arrival[0]) / UNIT_NS
