"""How long to wait for a missing number, and for a silent source (R19 3.2.1; SPEC 3.1).

Three choices. ``r19``: Eq 3.1-3.11, exponential smoothing of inter-arrival and holding times.
``fixed``: a constant. ``quantile``: the time that the share q of the events needed at most, late
ones included, were they to be in time (``order/waits.py``); capped by the latency threshold, which
also stands in until 1/(1-q) events, and as many different arrivals or 256, have been seen: events
of one message have one fate. The silence of a source is judged by the same
quantile of the times between its distinct arrivals, from a coarse sketch that halves its counts
every ``silence_window`` samples.

What ``quantile`` promises: while waiting times are stationary (correlated over less than some
hundred events), the share of the events that come too late is 1-q; less only where fewer need to
wait at all, or where many need to wait equally long. After a change the timeout is right again
within 1,000 events. The estimate is looked at anew after every 128 events.

Averages are integers in 1/1000 ns, smoothing factors in 1/1000: no floats for time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.integers import INT_MAX, INT_MIN
from engine.kernels.jit import inline, kernel
from engine.kernels.log_bins import bin_start, count_in, log_bin, tail_bin
from engine.kernels.records import Record
from engine.order.sequence.highs import first_larger, saw_high
from engine.order.sequence.state import BINS, MODE_FIXED, MODE_QUANTILE, MODE_R19
from engine.order.sequence.wait_sketch import in_ns
from engine.order.sequence.waits import learn_wait, needed_value

WINDOW: Final = 4096
_UNIT: Final = 1000
_AGE: Final = 8
_ARRIVALS: Final = 256
_MILLION: Final = 1_000_000
_BITS: Final = 4
_SHORT: Final = 111
"""Bins of what is shorter than 1024 ns, beyond one that stands for all of them."""
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
def _silence_bin(silence_ns: int) -> int:
    """0 below 1024 ns, then 16 per octave."""
    return min(max(log_bin(silence_ns, _BITS) - _SHORT, 0), BINS - 1)


@kernel
def _silence_quantile(bins: np.ndarray, total: int, tail_ppm: int) -> int:
    """The silence [ns] that at most ``tail_ppm`` millionths of those counted exceed."""
    found = tail_bin(bins, total, tail_ppm)
    return bin_start(found + 1 + _SHORT, _BITS) - 1 if found >= 0 else 0


def silence_window(tail_ppm: int) -> int:
    """Times between arrivals that are remembered: enough for the tail to hold four of them."""
    return min(max(WINDOW, 4_000_000 // max(tail_ppm, 4)), 1 << 20)


@kernel
def _refresh(state: Record, of: Record, memory: Record, now: int) -> None:
    """Recompute the lane's timeouts from what it has learnt up to ``now``."""
    latency, mode, tail = state.latency, state.mode, state.tail_ppm
    if mode == MODE_FIXED:
        of.gap_timeout = state.fixed
        of.idle_timeout = state.fixed
    elif mode == MODE_R19:
        inter = of.inter_avg + 2 * of.inter_dev
        hold = of.hold_avg + 2 * of.hold_dev
        of.gap_timeout = min(latency, max(inter, hold) // _UNIT)
        of.idle_timeout = of.gap_timeout
    else:
        gap, idle = latency, latency
        needed = needed_value(of, memory, tail)
        if needed >= 0 and of.inters_n >= min(_ARRIVALS, _MILLION // tail) - 1:
            needed = min(latency, in_ns(needed, state.bits))
            # A wait longer than the lane is old cannot have been seen.
            if (now - of.born) // _AGE >= min(latency // _AGE, needed):
                gap = needed
        if of.inters_n * tail >= _MILLION:
            idle = min(latency, _silence_quantile(memory.inters, of.inters_n, tail))
        of.gap_timeout = gap
        of.idle_timeout = max(gap, idle)


def first_timeout(state: np.void) -> int:
    """What a lane that has learnt nothing waits [ns], by the settings in a STATE."""
    by_mode = {MODE_FIXED: state["fixed"], MODE_R19: 0, MODE_QUANTILE: state["latency"]}
    return int(by_mode[int(state["mode"])])


@inline
def saw_in_order(state: Record, of: Record, memory: Record, now: int) -> None:
    """The expected number arrived: Eq 3.2-3.5 on the time since the last such arrival."""
    if state.mode != MODE_R19:
        return
    last = of.last_in_order
    of.last_in_order = now
    if last == INT_MIN:
        return
    of.inter_avg, of.inter_dev = learn_average(
        of.inter_n, of.inter_avg, of.inter_dev, now - last, state.alpha
    )
    of.inter_n += 1
    _refresh(state, of, memory, now)


@inline
def saw_held(state: Record, of: Record, memory: Record, held: int) -> None:
    """A buffered event was let go because its gap closed: Eq 3.7-3.10 on its holding time."""
    if state.mode != MODE_R19:
        return
    of.hold_avg, of.hold_dev = learn_average(of.hold_n, of.hold_avg, of.hold_dev, held, state.beta)
    of.hold_n += 1
    _refresh(state, of, memory, INT_MIN)


@inline
def saw_arrival(state: Record, of: Record, memory: Record, seq: int, now: int, before: int) -> None:
    """Every event of the lane teaches ``quantile`` how long to wait for such a one.

    ``before`` is the lane's previous arrival.
    """
    if state.mode != MODE_QUANTILE:
        return
    if of.born == INT_MIN:
        of.born = now
    is_new_instant = before != now
    if is_new_instant and before != INT_MIN:  # events of one message say nothing of silence
        of.inters_n = count_in(
            memory.inters, of.inters_n, _silence_bin(now - before),
            state.silence_window,
        )  # fmt: skip
    wait = 0
    if seq > of.max_seq:
        of.max_seq = seq
        saw_high(of, memory, seq, now)
    else:
        wait = now - first_larger(of, memory, seq)
    if learn_wait(of, memory, wait, is_new_instant, state.bits, state.window):
        _refresh(state, of, memory, now)
