"""The times at which results leave if computing takes time: one server, first come, first served.

On the arrival clock an aggressive result leaves the instant its last event arrives, so all of its
latency is computing time. L09 measures this on two machines; here each record takes its share of
the CPU time of its call, and a result leaves when the record that releases it is done. In a slow
stream that is all; in a fast one, records also wait for those before them (Lindley's recursion).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from slackwater.scenarios.papers.l09.passes import StrategyRun
from slackwater.scenarios.papers.l09.workload import UNIT_NS

_SLOWER: Final = 1.1
BUSY: Final = 0.8
"""Share of the time that a figure's slowest setup computes: the rate follows from it."""


def unit_seconds(rans: Iterable[StrategyRun]) -> float:
    """Duration of a time unit [s] if the slowest of ``rans`` computes ``BUSY`` of the time."""
    return max(float(ran.seconds.sum()) / _units(ran) for ran in rans) / BUSY


def busy(ran: StrategyRun, unit_s: float) -> float:
    """Share of the time that the chain computes; above 1 it cannot keep up."""
    return float(ran.seconds.sum()) / (_units(ran) * unit_s)


def keeps_up(ran: StrategyRun, unit_s: float) -> bool:
    """Whether the queue empties: nothing waits when one of the last tenth of records arrives."""
    arrival_s = (ran.arrival - ran.arrival[0]) / UNIT_NS * unit_s
    done_s = _done(arrival_s, _service(ran))
    last = max(len(done_s) * 9 // 10, 1)
    return bool((done_s[last - 1 : -1] <= arrival_s[last:]).any())


def sustained(rans: Sequence[StrategyRun], share: float) -> float:
    """Duration of a time unit [s] in the fastest stream that all of ``rans`` can keep up with.

    The slowest of them computes ``share`` of the time; if some still do not keep up, the stream
    is slowed down by a tenth at a time until all do.
    """
    unit_s = max(busy(ran, 1.0) for ran in rans) / share
    while not all(keeps_up(ran, unit_s) for ran in rans):
        unit_s *= _SLOWER
    return unit_s


def computing_seconds(ran: StrategyRun) -> float:
    """Seconds that computing adds to L09's average application latency in a slow stream."""
    of_tuples = _service(ran)[_record(ran)]
    return float(of_tuples.sum()) / max(ran.tuples.final, 1)


def latency_seconds(ran: StrategyRun, unit_s: float) -> float:
    """L09's average application latency: summed over all tuples that leave, per final result.

    Args:
        ran: a pass.
        unit_s: duration of a time unit [s].
    """
    start = ran.arrival[0]
    arrival_s = (ran.arrival - start) / UNIT_NS * unit_s
    done_s = _done(arrival_s, _service(ran))
    caused_s = (ran.tuples.caused - start) / UNIT_NS * unit_s
    return float((done_s[_record(ran)] - caused_s).sum()) / max(ran.tuples.final, 1)


def _service(ran: StrategyRun) -> np.ndarray:
    """CPU time of each record."""
    return np.repeat(ran.seconds / ran.rows, ran.rows)


def _record(ran: StrategyRun) -> np.ndarray:
    """For each tuple, the record that releases it: the last one of its instant."""
    return np.searchsorted(ran.arrival, ran.tuples.at, side="right") - 1


def _done(arrival_s: np.ndarray, service_s: np.ndarray) -> np.ndarray:
    """Time at which each record is done.

    >>> _done(np.array([0.0, 1.0, 5.0]), np.array([2.0, 2.0, 2.0])).tolist()
    [2.0, 4.0, 7.0]
    """
    worked = np.cumsum(service_s)
    return np.asarray(np.maximum.accumulate(arrival_s - (worked - service_s)) + worked)


def _units(ran: StrategyRun) -> float:
    return float(ran.arrival[-1] - ran.arrival[0]) / UNIT_NS
