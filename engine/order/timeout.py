"""How long to wait for a missing number, and for a silent source (R19 3.2.1; SPEC 3.1).

Three choices. ``r19``: Eq 3.1-3.11, exponential smoothing of inter-arrival and holding times.
``fixed``: a constant. ``quantile``: the q-quantile of how long one would have had to wait for
every event, late ones included, from a sketch of 16 bins per octave that halves its counts
every ``WINDOW`` samples and so forgets; capped by the latency threshold, which also stands in
until 1/(1-q) events have been seen. The silence of a source is judged by the same quantile of
the times between its distinct arrivals.

Averages are integers in 1/1000 ns, smoothing factors in 1/1000: no floats for time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.jit import inline, kernel
from engine.order.state import (
    BINS,
    HIGHS_KEPT,
    INT_MAX,
    INT_MIN,
    MODE_FIXED,
    MODE_R19,
    S_ALPHA,
    S_BETA,
    S_FIXED,
    S_LATENCY,
    S_MODE,
    S_TAIL,
    S_WINDOW,
)

WINDOW: Final = 4096
REFRESH: Final = 256
_HIGHS_MASK: Final = HIGHS_KEPT - 1
_UNIT: Final = 1000
_BEFORE_FIRST: Final = (1023 + 10) * 16 - 1  # what ``bin_of`` gives for 1024 ns, less 1
_LONGEST: Final = 8 * 10**12  # a sample is cut here (2.2 h), so that products stay in int64


@inline
def later(now: int, wait: int) -> int:
    """``now + wait``, or never where that is beyond int64."""
    return INT_MAX if now > INT_MAX - wait else now + wait


@kernel
def smooth(previous: int, sample: int, factor: int) -> int:
    """``factor * previous + (1 - factor) * sample``, rounded to the nearest unit."""
    return (factor * previous + (_UNIT - factor) * sample + _UNIT // 2) // _UNIT


@kernel
def learn_average(n: int, avg: int, dev: int, sample_ns: int, factor: int) -> tuple[int, int]:
    """New (avg, dev) after the ``n``-th earlier samples: Eq 3.2-3.5 and 3.7-3.10."""
    sample = min(sample_ns, _LONGEST) * _UNIT
    if n == 0:
        return sample, 0
    error = abs(sample - avg)
    return smooth(avg, sample, factor), (error if n == 1 else smooth(dev, error, factor))


@inline
def bin_of(wait_ns: int) -> int:
    """Bin of a waiting time: 0 below 1024 ns, then 16 per octave.

    A float's exponent and the first four bits of its fraction are just that number.
    """
    if wait_ns < 1024:
        return 0
    exact = int(np.float64(wait_ns).view(np.int64)) >> 48
    return min(exact - _BEFORE_FIRST, BINS - 1)


@kernel
def bin_end(index: int) -> int:
    """The longest waiting time of a bin [ns]."""
    if index == 0:
        return 1023
    octave, part = (index - 1) // 16 + 10, (index - 1) % 16
    return ((17 + part) << (octave - 4)) - 1


@kernel
def sketch_quantile(bins: np.ndarray, total: int, tail_ppm: int) -> int:
    """Waiting time [ns] that at most ``tail_ppm`` millionths of the samples exceed."""
    allowed = total * tail_ppm // 1_000_000
    above = 0
    for index in range(BINS - 1, -1, -1):
        above += bins[index]
        if above > allowed:
            return bin_end(index)
    return 0


@inline
def _learn_sketch(bins: np.ndarray, total: int, sample_ns: int, window: int) -> int:
    """Count one sample; halve everything when the window is full. Returns the new total."""
    bins[bin_of(sample_ns)] += 1
    total += 1
    if total >= window:
        total = 0
        for index in range(BINS):
            bins[index] >>= 1
            total += bins[index]
    return total


def sketch_window(tail_ppm: int) -> int:
    """Samples remembered: enough for the tail to hold four of them."""
    return min(max(WINDOW, 4_000_000 // max(tail_ppm, 4)), 1 << 20)


@kernel
def _refresh(ln: np.ndarray, s: np.ndarray, lane: int) -> None:
    """Recompute the lane's timeouts from what it has learnt."""
    latency, mode, tail = s[S_LATENCY], s[S_MODE], s[S_TAIL]
    if mode == MODE_FIXED:
        ln[lane].gap_timeout = s[S_FIXED]
        ln[lane].idle_timeout = s[S_FIXED]
    elif mode == MODE_R19:
        inter = ln[lane].inter_avg + 2 * ln[lane].inter_dev
        hold = ln[lane].hold_avg + 2 * ln[lane].hold_dev
        ln[lane].gap_timeout = min(latency, max(inter, hold) // _UNIT)
        ln[lane].idle_timeout = ln[lane].gap_timeout
    else:
        gap, idle = latency, latency
        if ln[lane].waits_n * tail >= 1_000_000:
            gap = min(latency, sketch_quantile(ln[lane].waits, ln[lane].waits_n, tail))
        if ln[lane].inters_n * tail >= 1_000_000:
            idle = min(latency, sketch_quantile(ln[lane].inters, ln[lane].inters_n, tail))
        ln[lane].gap_timeout = gap
        ln[lane].idle_timeout = max(gap, idle)
        ln[lane].waits_new = 0


@kernel
def start_lane(ln: np.ndarray, s: np.ndarray, lane: int) -> None:
    """Timeouts of a lane that has learnt nothing yet."""
    _refresh(ln, s, lane)


@inline
def saw_in_order(ln: np.ndarray, s: np.ndarray, lane: int, now: int) -> None:
    """The expected number arrived: Eq 3.2-3.5 on the time since the last such arrival."""
    if s[S_MODE] != MODE_R19:
        return
    last = ln[lane].last_in_order
    ln[lane].last_in_order = now
    if last == INT_MIN:
        return
    ln[lane].inter_avg, ln[lane].inter_dev = learn_average(
        ln[lane].inter_n, ln[lane].inter_avg, ln[lane].inter_dev, now - last, s[S_ALPHA]
    )
    ln[lane].inter_n += 1
    _refresh(ln, s, lane)


@inline
def saw_held(ln: np.ndarray, s: np.ndarray, lane: int, held: int) -> None:
    """A buffered event was let go because its gap closed: Eq 3.7-3.10 on its holding time."""
    if s[S_MODE] != MODE_R19:
        return
    ln[lane].hold_avg, ln[lane].hold_dev = learn_average(
        ln[lane].hold_n, ln[lane].hold_avg, ln[lane].hold_dev, held, s[S_BETA]
    )
    ln[lane].hold_n += 1
    _refresh(ln, s, lane)


@kernel
def _needed_wait(ln: np.ndarray, lane: int, seq: int, now: int, spacing: int) -> int:
    """How long one would have had to wait for ``seq``: since the first arrival of a larger one."""
    highs = ln[lane].highs
    n = ln[lane].highs_n
    low, high = max(0, n - HIGHS_KEPT), n
    while low < high:
        middle = (low + high) // 2
        if highs[middle & _HIGHS_MASK, 0] > seq:
            high = middle
        else:
            low = middle + 1
    # Highs are thinned to one per ``spacing``, so the first larger number may have come earlier.
    since = highs[min(low, n - 1) & _HIGHS_MASK, 1]
    return int(now - since + (spacing if low < n else 0))


@inline
def saw_arrival(ln: np.ndarray, s: np.ndarray, lane: int, seq: int, now: int, before: int) -> None:
    """Every event of the lane teaches ``quantile`` how long to wait for such a one.

    ``before`` is the lane's previous arrival.
    """
    if s[S_MODE] == MODE_FIXED or s[S_MODE] == MODE_R19:
        return
    window = s[S_WINDOW]
    if before != INT_MIN and now > before:  # events of one message say nothing of silence
        ln[lane].inters_n = _learn_sketch(ln[lane].inters, ln[lane].inters_n, now - before, window)
    wait = 0
    spacing = s[S_LATENCY] // (HIGHS_KEPT // 2)
    if seq > ln[lane].max_seq:
        ln[lane].max_seq = seq
        n = ln[lane].highs_n
        if n == 0 or now - ln[lane].highs[(n - 1) & _HIGHS_MASK, 1] >= spacing:
            ln[lane].highs[n & _HIGHS_MASK, 0] = seq
            ln[lane].highs[n & _HIGHS_MASK, 1] = now
            ln[lane].highs_n = n + 1
    else:
        wait = _needed_wait(ln, lane, seq, now, spacing)
    ln[lane].waits_n = _learn_sketch(ln[lane].waits, ln[lane].waits_n, wait, window)
    ln[lane].waits_new += 1
    if ln[lane].waits_new >= REFRESH or wait > ln[lane].gap_timeout:
        _refresh(ln, s, lane)
