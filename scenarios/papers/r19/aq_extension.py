"""AQ-K-slack as the extension does it that R19 ran with its defaults (Query 5.5).

R19 prints no settings but the attribute. What the extension does is public
(siddhi-execution-reorder, ``akslack``, 2019), and differs from the article that it follows (R19
2.3.3, ``engine.order.slack.aq_kslack``):

* alpha is set once per batch of 10,000 events: ``alpha = |alpha + kp * err + kd * (err - err
  before)|`` with kp = 0.5 and kd = 0.8, both starting at 0; the first batch is held with alpha 1.
* ``err`` is the threshold less the coverage. The threshold takes the variance where the error
  model has the standard deviation: values of millions (speeds in um/s) make it 0, and err is
  minus the coverage. With a coverage near 1 alpha then goes 1.3, 0.8, 0.3, 0.2, 0.3, 0.2 ...
* The coverage is that of the 10 ms that lie alpha * K back, by what of them had come when the
  first event after them did.
* K is replaced by alpha times the longest delay since the clock advanced, if that delay is longer
  than K; so it becomes smaller as well as larger.

When not to use: to order anything; it is here to be measured.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from slackwater.engine.kernels.jit import njit
from slackwater.scenarios.papers.r19.data_sets import DataSet
from slackwater.scenarios.papers.r19.log_writing import PublishedSource

_MS: Final = 10**6


@dataclass(frozen=True, slots=True)
class Extension:
    """Its settings; all but ``window_ns``, a constant of it, are parameters of the query.

    ``batch``: events between two looks; ``error``, ``confidence``: wanted of a window's result;
    ``window_ns``: length of the window whose coverage is measured [ns].
    """

    batch: int = 10_000
    kp: float = 0.5
    kd: float = 0.8
    error: float = 0.03
    confidence: float = 0.95
    window_ns: int = 10 * _MS


AS_RUN: Final = Extension()


@dataclass(frozen=True, slots=True)
class ExtensionRelease:
    """What it let go, in order: times of the events, when they came and when they went [ns].

    ``alphas``: one per batch.
    """

    ts: np.ndarray
    arrival: np.ndarray
    release: np.ndarray
    alphas: np.ndarray


def let_go(
    data: DataSet, publishers: Sequence[PublishedSource], settings: Extension = AS_RUN
) -> ExtensionRelease:
    """The events of ``data`` from every source with a right clock, through the extension.

    What it still holds at the end goes at the last arrival.
    """
    order = np.argsort(data.arrival, kind="stable")
    shift = np.array([source.shift_ns for source in publishers], np.int64)
    arrival = (data.arrival[order][None, :] + shift[:, None]).ravel()
    by = np.argsort(arrival, kind="stable")
    row = np.tile(order, len(shift))[by]
    ts = data.events.ts[row] + np.repeat(shift, len(order))[by]
    arrival = arrival[by]
    z = NormalDist().inv_cdf(1 - (1 - settings.confidence) / 2)
    rows, release, alphas = _release(
        ts, arrival, data.events.attributes["v_abs"][row].astype(np.float64), settings.batch,
        settings.kp, settings.kd, settings.error, z, settings.window_ns,
    )  # fmt: skip
    return ExtensionRelease(ts[rows], arrival[rows], release, alphas)


@njit
def threshold(values: np.ndarray, error: float, z: float) -> float:
    """The least coverage that the extension wants: the least root of its two inequalities.

    Args:
        values: of the batch.
        error: relative error allowed.
        z: normal quantile of the confidence.
    """
    mean = values.mean()
    variance = ((values - mean) ** 2).mean()
    noise = z * z * (mean * mean + variance * variance) / (len(values) * mean * mean)
    least = np.inf
    for sign in (-1.0, 1.0):
        b = -(2.0 + 2.0 * sign * error + noise)
        under = b * b - 4.0 * (1.0 + noise) * (1.0 + sign * error) ** 2
        if under >= 0.0:
            least = min(least, (-b - np.sqrt(under)) / (2.0 * (1.0 + noise)))
    return least if least < np.inf else 0.0


@njit
def _coverage(
    ts: np.ndarray, kept: np.ndarray, n: int, now: int, back_ns: int, window_ns: int
) -> tuple[float, int]:
    """The share of a window that had come in time, and how many of ``kept`` stay."""
    high = now - back_ns
    low = high - window_ns
    begun = ended = False
    seen = met = stay = 0
    for place in range(n):
        row = kept[place]
        time = ts[row]
        begun = begun or time >= low
        ended = ended or time >= high
        if begun and low <= time <= high:
            seen += 1
            met += not ended
        if time > low:
            kept[stay] = row
            stay += 1
    return (met / seen if seen else 1.0), stay


@njit
def _release(
    ts: np.ndarray, arrival: np.ndarray, values: np.ndarray, batch: int, kp: float, kd: float,
    error: float, z: float, window_ns: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Rows in the order of their release, when each is released [ns], and alpha after each batch.

    Args:
        ts: event times [ns] in order of arrival.
        arrival: when they arrive [ns].
        values: of the attribute.
        batch: events between two looks at alpha.
        kp: gain of the error.
        kd: gain of its change.
        error: relative error allowed.
        z: normal quantile of the confidence.
        window_ns: see ``Extension``.
    """
    n = len(ts)
    rows, release = np.empty(n, np.int64), np.empty(n, np.int64)
    alphas = np.empty(n // (batch + 1), np.float64)
    kept, kept_n = np.empty(n, np.int64), 0
    heap = [(ts[0], 0)]
    heap.pop()
    gone = looks = start = in_batch = 0
    slack = back = 0
    clock = lowest = ts[0]
    fresh, first = True, True
    alpha, last_alpha, last_short = 1.0, 0.0, 0.0
    for row in range(n):
        time = ts[row]
        kept[kept_n] = row
        kept_n += 1
        heapq.heappush(heap, (time, row))
        lowest = time if fresh else min(lowest, time)
        fresh = False
        in_batch += 1
        if in_batch > batch:
            covered = 1.0
            if back:
                covered, kept_n = _coverage(ts, kept, kept_n, time, back, window_ns)
            short = threshold(values[start : row + 1], error, z) - covered
            alpha = abs(last_alpha + kp * short + kd * (short - last_short))
            last_alpha, last_short = alpha, short
            back = min(round(alpha * slack), slack)
            alphas[looks] = alpha
            looks += 1
            in_batch, start = 0, row + 1
        if first or time > clock:
            clock, first = time, False
            late = clock - lowest
            if late > slack:
                slack = round(late * alpha)
            fresh = True
            while heap and heap[0][0] + slack <= clock:
                _, rows[gone] = heapq.heappop(heap)
                release[gone] = arrival[row]
                gone += 1
    while heap:
        _, rows[gone] = heapq.heappop(heap)
        release[gone] = arrival[n - 1]
        gone += 1
    return rows, release, alphas[:looks]
