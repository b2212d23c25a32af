"""Timeouts: for a missing number, and for a silent source (R19 3.2.1; SPEC 3.1)."""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, Record
from slackwater.engine.kernels.tables import bin_start, count_in, log_bin, tail_bin
from slackwater.engine.order.sequence.state import (
    HIGH_LEVELS,
    HIGHS_KEPT,
    LEARNS_FROM,
    MODE_FIXED,
    MODE_QUANTILE,
    MODE_R19,
    MODE_R19_CODE,
    WAIT_BINS,
)

# Memory of the growth of a lane's highest number, for the waiting times of late events.
#
# An event waits for a smaller number since the first arrival of any larger one. These arrivals are
# the records of the highest number; level 0 keeps the newest 32 of them, level ``i`` every ``4 **
# i``-th one, again the newest 32. So a short wait is known exactly, a longer one to an eighth, by
# interpolation between the neighbours.


_MASK: Final = HIGHS_KEPT - 1


@inline
def note_high(of: Record, memory: Record, seq: int, now: int) -> None:
    """Remember that ``seq``, the lane's new highest number, arrived ``now``."""
    n = of.highs_n
    highs = memory.highs
    last = highs[(n - 1) & _MASK]
    if n > 0 and last.at == now:  # of one instant only the larger number is kept
        last.seq = seq
        return
    passed, base = n, 0
    for _ in range(1, HIGH_LEVELS):  # the record before this one is final
        if passed == 0 or passed & 3:
            break
        passed >>= 2
        base += HIGHS_KEPT
        highs[base + ((passed - 1) & _MASK)] = last
    highs[n & _MASK].seq = seq
    highs[n & _MASK].at = now
    of.highs_n = n + 1


@kernel
def first_larger(of: Record, memory: Record, seq: int) -> int:
    """The instant [ns] at which the first number larger than ``seq`` arrived; there is one."""
    highs = memory.highs
    n = of.highs_n
    base, step = 0, 1.0
    for level in range(HIGH_LEVELS):
        oldest = max(0, n - HIGHS_KEPT)
        if oldest == 0 or highs[base + (oldest & _MASK)].seq <= seq or level == HIGH_LEVELS - 1:
            break
        n = (of.highs_n - 1) >> (2 * (level + 1))
        base += HIGHS_KEPT
        step *= 4.0
    low, high = max(0, n - HIGHS_KEPT), n
    first = low
    while low < high:
        middle = (low + high) // 2
        if highs[base + (middle & _MASK)].seq > seq:
            high = middle
        else:
            low = middle + 1
    found = highs[base + (low & _MASK)]
    if base == 0 or low == first:
        return int(found.at)
    before = highs[base + ((low - 1) & _MASK)]
    span = found.at - before.at
    share = (seq - before.seq) / (found.seq - before.seq) + 0.5 / step
    return int(before.at + min(int(share * span), span))


# A sketch of waiting times, for their quantiles.
#
# Counts in bins of equal width up to ``FINE`` resolutions, then ``FINE`` bins per octave up to the
# latency threshold, the largest timeout. The resolution is a power of two, about a millionth of the
# threshold (0.5 us for 500 ms, 1 ns for 1 ms or less). Within a bin the density of events is linear
# between its neighbours, so that quantiles are more exact than the width of a bin (6 %). Counts are
# in 1/64 of an event, so that halving them has no rounding error.
#
# A value is a waiting time in 1/1024 of the resolution: it and a quotient of two fit in int64.


ONE: Final = 64
"""Units of one event."""
FINE: Final = 16
_FINE_BITS: Final = FINE.bit_length() - 1
_RANGE_BITS: Final = 20
assert WAIT_BINS == FINE + (_RANGE_BITS - _FINE_BITS) * FINE + 1  # the last one: longer waits
_VALUE_BITS: Final = 10
LONGEST: Final = (1 << _RANGE_BITS + _VALUE_BITS) - 1
"""The largest value of a waiting time."""


def resolution_bits(latency_ns: int) -> int:
    """The resolution is ``2 ** bits`` ns."""
    return max(0, latency_ns.bit_length() - _RANGE_BITS)


@inline
def wait_bin(wait_ns: int, bits: int) -> int:
    """The bin of a waiting time."""
    return min(log_bin(wait_ns >> bits, _FINE_BITS), WAIT_BINS - 1)


@inline
def _density(counts: np.ndarray, index: int) -> float:
    """Counts per resolution in a bin."""
    if index == WAIT_BINS:
        return 0.0
    width = bin_start(index + 1, _FINE_BITS) - bin_start(index, _FINE_BITS)
    return float(counts[index]) / width


@kernel
def exceeded_by(counts: np.ndarray, bins: int, units: int) -> int:
    """The value that ``units`` of the ``counts`` exceed, all in the first ``bins``.

    0 when no more than ``units`` lie above bin 0.
    """
    above = 0
    for index in range(bins - 1, 0, -1):
        count = int(counts[index])
        if above + count > units:
            end = bin_start(index + 1, _FINE_BITS)
            width = end - bin_start(index, _FINE_BITS)
            after = _density(counts, index) + _density(counts, index + 1)
            before = _density(counts, index) + _density(counts, max(index - 1, 1))
            share = (units - above) / count * (before + after)
            back = share / (after + sqrt(after * after + (before - after) * share))
            return (end << _VALUE_BITS) - int((width << _VALUE_BITS) * back)
        above += count
    return 0


@inline
def in_ns(value: int, bits: int) -> int:
    """The longest waiting time [ns] that does not exceed ``value``."""
    if value == 0:
        return (1 << bits) - 1
    if bits >= _VALUE_BITS:
        return (value << (bits - _VALUE_BITS)) - 1
    return -(-(value << bits) >> _VALUE_BITS) - 1


# The memory of a lane's waiting times, and the detection of a change.
#
# Two requirements conflict: at q = 0.999 one event in a thousand determines the quantile, so tens
# of thousands must be remembered; and after a change the timeout must be right again within 1,000
# events. Hence:
#
# * Events are counted in blocks of ``BLOCK`` and a block is held against the memory before it joins
#   it: at every waiting time, is the share of longer ones the same, but for chance? One block out
# of   line may be a burst, and is learnt; of two in a row the memory is given up for the second.
#   Events that arrived at one instant count as one observation, as they most likely had one fate.
# * The memory given up is kept as the *shape* of the tail that so few events cannot show. While
# less   than ``KNOWN`` events of the new memory may be late, its own well known waiting time, which
#   ``KNOWN`` events exceed, is stretched as the shape had it: a network that has become ten times
#   slower mostly has the same tail, ten times as long. The stretched one is raised where the new
#   memory alone contradicts it.
# * The block that confirmed a change may hold the last events of the old network, so the memory
#   begins again with the block after it.
#
# Without any change the memory halves its counts every ``window`` events.


BLOCK: Final = 128
FIRST_BLOCK: Final = 16
INSTANTS: Final = 32
"""A block has at least this many distinct arrivals, or ``LARGEST`` events."""
LARGEST: Final = 8192
REMEMBERED: Final = 256
"""Late events in a full memory."""
KNOWN: Final = 64
"""The number of late events that makes a quantile well known."""
LEAST: Final = 4
"""The least events for an estimate of the stretch of waiting times..."""
APART: Final = 4
"""... compared with this many times as many events."""
UNLIKELY: Final = 4.0
"""The standard deviations between a block and the memory that indicate a change..."""
SLACK: Final = 2.0
"""... in addition to this many observations."""
_SURE: Final = 3
_MILLION: Final = 1_000_000


def memory_window(tail_ppm: int) -> int:
    """The number of remembered events: ``REMEMBERED`` of them are late."""
    return min(max(4096, REMEMBERED * _MILLION // tail_ppm), 1 << 20)


@inline
def learn_wait(
    of: Record, memory: Record, wait: int, is_new_instant: bool, bits: int, window: int
) -> bool:
    """Count the waiting time [ns] of an event. True: a block was full, so timeouts may change."""
    place = wait_bin(wait, bits)
    of.bins = max(of.bins, place + 1)
    memory.fresh[place] += 1
    n = of.fresh_n + 1
    of.fresh_n = n
    of.fresh_instants += is_new_instant
    if n < FIRST_BLOCK or n * ONE < min(BLOCK * ONE, int(of.waits_n)):
        return False
    if n >= BLOCK and n < LARGEST and of.fresh_instants < INSTANTS:
        return False
    _take_block(of, memory, window)
    return True


@kernel
def _take_block(of: Record, memory: Record, window: int) -> None:
    """Process a full block: add it to the memory, keep it aside, or replace the memory by it."""
    if of.settling == 2:
        _forget(of, memory)
        _join(of, memory, memory.doubt, of.doubt_n)
        of.doubt_n = 0
        of.settling = 0
    if of.settling == 1:
        _join(of, memory, memory.fresh, of.fresh_n)
        _keep_block(of, memory)
        of.settling = 2
        return
    if of.fresh_n >= BLOCK and of.waits_n >= BLOCK * ONE and _contradicts(of, memory):
        if of.doubt_n == 0:
            _keep_block(of, memory)
            return
        _discard_memory(of, memory, window)
        of.settling = 1
    elif of.doubt_n > 0:
        _join(of, memory, memory.doubt, of.doubt_n)
    of.doubt_n = 0
    _join(of, memory, memory.fresh, of.fresh_n)
    _clear_block(of, memory)
    if of.waits_n >= window * ONE:
        of.waits_n = 0
        for index in range(of.bins):
            memory.waits[index] >>= 1
            of.waits_n += memory.waits[index]


@inline
def _join(of: Record, memory: Record, block: np.ndarray, events: int) -> None:
    """Add a block to the memory."""
    for index in range(of.bins):
        memory.waits[index] += block[index] * ONE
    of.waits_n += events * ONE


@inline
def _keep_block(of: Record, memory: Record) -> None:
    """Keep the block outside the memory until the next one confirms a change."""
    for index in range(of.bins):
        memory.doubt[index] = memory.fresh[index]
    of.doubt_n = of.fresh_n
    _clear_block(of, memory)


@inline
def _clear_block(of: Record, memory: Record) -> None:
    for index in range(of.bins):
        memory.fresh[index] = 0
    of.fresh_n = 0
    of.fresh_instants = 0


@inline
def _forget(of: Record, memory: Record) -> None:
    for index in range(of.bins):
        memory.waits[index] = 0
    of.waits_n = 0


@inline
def _discard_memory(of: Record, memory: Record, window: int) -> None:
    """Discard the memory; it becomes the shape if it has enough events."""
    if of.shape_n == 0 or of.waits_n * REMEMBERED >= window * ONE * KNOWN:
        for index in range(of.bins):
            memory.tail_shape[index] = memory.waits[index]
        of.shape_n = of.waits_n
    _forget(of, memory)


@kernel
def _contradicts(of: Record, memory: Record) -> bool:
    """Whether the block differs from the memory: at a waiting time, more or fewer of its events
    wait longer than chance explains.

    Only the waiting times of the block are tested, as the difference is extreme at one of them.
    """
    waits, fresh = memory.waits, memory.fresh
    block, remembered = float(of.fresh_n), of.waits_n / ONE
    alike = block / max(1, of.fresh_instants)
    slack = SLACK * alike
    spread = UNLIKELY * UNLIKELY * alike * block * (1.0 + block / remembered)
    mine, theirs = 0, 0
    for index in range(of.bins - 1, 0, -1):
        if fresh[index] > 0:
            if _unlikely(mine, theirs / ONE, block, remembered, slack, spread):
                return True
            mine += fresh[index]
            if _unlikely(mine, (theirs + waits[index]) / ONE, block, remembered, slack, spread):
                return True
        theirs += waits[index]
    return _unlikely(mine, theirs / ONE, block, remembered, slack, spread)


@inline
def _unlikely(
    mine: int, theirs: float, block: float, remembered: float, slack: float, spread: float
) -> bool:
    """Whether ``mine`` of the block and ``theirs`` of the memory are significantly different."""
    off = abs(mine - block * theirs / remembered) - slack
    share = (mine + theirs) / (block + remembered)
    return off > 0.0 and off * off > spread * share * (1.0 - share)


@kernel
def needed_value(of: Record, memory: Record, tail_ppm: int) -> int:
    """The waiting time (a value of the sketch) that ``tail_ppm`` millionths exceed; -1: unknown.

    Of ``n`` events, ``k`` represent ``k / (n + 1)`` of all on average: hence one event more.
    """
    n = of.waits_n
    late = tail_ppm * (n + ONE) // _MILLION
    found = _stretched(of, memory, tail_ppm, late) if late < KNOWN * ONE else -1
    if found < 0:
        if n * tail_ppm < _MILLION * ONE:
            return -1
        found = exceeded_by(memory.waits, of.bins, late)
    return min(found, LONGEST)


@inline
def _stretched(of: Record, memory: Record, tail_ppm: int, late: int) -> int:
    """The quantile by the shape, scaled to the memory; -1: unknown.

    Two waiting times of the memory, which ``near`` and ``far`` of its counts exceed, are compared
    with the corresponding ones of the shape: their distance gives the scale, the first the offset.
    """
    waits, shape = memory.waits, memory.tail_shape
    n, known, bins = of.waits_n, of.shape_n, of.bins
    if known == 0:
        return -1
    waiting = min(n - waits[0], n * (known - shape[0]) // known)
    near = min(KNOWN * ONE, waiting // 2)
    far = min(APART * near, waiting)
    if near <= late or near < LEAST * ONE:
        return -1
    mine, theirs = exceeded_by(waits, bins, near), exceeded_by(shape, bins, near * known // n)
    apart = theirs - exceeded_by(shape, bins, far * known // n)
    if apart <= 0:
        return -1
    further = exceeded_by(shape, bins, tail_ppm * known // _MILLION) - theirs
    found = mine + (mine - exceeded_by(waits, bins, far)) * further // apart
    sure = late + ONE * (_SURE + int(_SURE * sqrt(late / ONE)))
    return max(found, exceeded_by(waits, bins, sure))


# Timeouts: for a missing number, and for a silent source (R19 3.2.1; SPEC 3.1).
#
# Four choices. ``r19``: Eq 3.1-3.11, exponential smoothing of inter-arrival and holding times.
# ``r19-code``: the thesis's published program (docs/papers/r19.md): averages without deviations, of
# event times and of holding times, which late events lengthen; an average of 0 is unset, and the
# latency threshold applies. ``fixed``: a constant. ``quantile``: the q-quantile of the times that
# events, late ones included, would have to wait to be in time; capped by the latency threshold,
# which also applies until 1/(1-q) events, and as many distinct arrivals or 256, are seen, as events
# of one message are not independent. The timeout of a silent source is the same quantile of the
# times between its distinct arrivals, from a sketch that halves its counts every ``silence_window``
# samples.
#
# ``quantile`` promises: while waiting times are stationary (correlated over less than some hundred
# events), the share of late events is 1-q; less only if fewer need to wait at all, or if many need
# to wait equally long. After a change the timeout is right again within 1,000 events. The estimate
# is updated every 128 events.
#
# Averages are integers in 1/1000 ns, smoothing factors in 1/1000: no floats for time.


WINDOW: Final = 4096
_UNIT: Final = 1000
_AGE: Final = 8
_ARRIVALS: Final = 256
_LONGEST: Final = 8 * 10**12  # the largest sample (2.2 h), so that products fit into int64


@inline
def add_wait(now: int, wait: int) -> int:
    """``now + wait``, limited to int64 (never)."""
    return INT_MAX if now > INT_MAX - wait else now + wait


@kernel
def smooth(previous: int, sample: int, factor: int) -> int:
    """``factor * previous + (1 - factor) * sample``, rounded to the nearest unit."""
    return (factor * previous + (_UNIT - factor) * sample + _UNIT // 2) // _UNIT


@kernel
def learn_average(n: int, avg: int, dev: int, sample_ns: int, factor: int) -> tuple[int, int]:
    """The new (avg, dev) for a sample after ``n`` earlier ones: Eq 3.2-3.5 and 3.7-3.10."""
    sample = min(sample_ns, _LONGEST) * _UNIT
    if n == 0:
        return sample, 0
    error = abs(sample - avg)
    return smooth(avg, sample, factor), (error if n == 1 else smooth(dev, error, factor))


@kernel
def _silence_quantile(bins: np.ndarray, total: int, tail_ppm: int, bits: int) -> int:
    """The silence [ns] that at most ``tail_ppm`` millionths of the silences exceed."""
    found = tail_bin(bins, total, tail_ppm)
    if found == WAIT_BINS - 1:
        return INT_MAX
    return (bin_start(found + 1, _FINE_BITS) << bits) - 1


def silence_window(tail_ppm: int) -> int:
    """The number of remembered times between arrivals: four of them are in the tail."""
    return min(max(WINDOW, 4_000_000 // max(tail_ppm, 4)), 1 << 20)


@kernel
def _refresh(state: Record, of: Record, memory: Record, now: int) -> None:
    """Recompute the lane's timeouts at instant ``now``."""
    latency, mode, tail = state.latency, state.mode, state.tail_ppm
    if mode == MODE_FIXED:
        of.gap_timeout = state.fixed
        of.idle_timeout = state.fixed
    elif mode == MODE_R19:
        inter = of.inter_avg + 2 * of.inter_dev
        hold = of.hold_avg + 2 * of.hold_dev
        of.gap_timeout = min(latency, max(inter, hold) // _UNIT)
        of.idle_timeout = of.gap_timeout
    elif mode == MODE_R19_CODE:
        known = of.inter_avg > 0 and of.hold_avg > 0
        of.gap_timeout = min(latency, max(of.inter_avg, of.hold_avg) // _UNIT) if known else latency
        of.idle_timeout = of.gap_timeout
    else:
        gap, idle = latency, latency
        needed = needed_value(of, memory, tail)
        if needed >= 0 and of.inters_n >= min(_ARRIVALS, _MILLION // tail) - 1:
            needed = min(latency, in_ns(needed, state.bits))
            # A wait longer than the age of the lane cannot have been observed.
            if (now - of.born) // _AGE >= min(latency // _AGE, needed):
                gap = needed
        if of.inters_n * tail >= _MILLION:
            idle = min(latency, _silence_quantile(memory.silences, of.inters_n, tail, state.bits))
        of.gap_timeout = gap
        of.idle_timeout = max(gap, idle)


def first_timeout(state: np.void) -> int:
    """The timeout [ns] of a new lane, by the settings in a STATE."""
    by_mode = {MODE_FIXED: state["fixed"], MODE_R19: 0}
    return int(by_mode.get(int(state["mode"]), state["latency"]))


@inline
def learn_interval(state: Record, of: Record, memory: Record, now: int, ts: int) -> None:
    """Learn from the arrival of the expected number: Eq 3.2-3.5 on the time since the last one.

    ``r19-code`` uses event times instead, and restarts if they go back.
    """
    if state.mode not in (MODE_R19, MODE_R19_CODE):
        return
    is_code = state.mode == MODE_R19_CODE
    at = ts if is_code else now
    last = of.last_in_order
    of.last_in_order = at
    if last == INT_MIN or at < last:
        return
    longest = _LONGEST // state.interval_factor
    interval = longest if add_wait(last, longest) <= at else at - last
    of.inter_avg, of.inter_dev = learn_average(
        of.inter_avg if is_code else of.inter_n, of.inter_avg, of.inter_dev,
        interval * state.interval_factor, state.alpha,
    )  # fmt: skip
    of.inter_n += 1
    _refresh(state, of, memory, now)


@inline
def learn_release(
    state: Record, of: Record, memory: Record, seq: int, arrival: int, now: int, is_closed: bool
) -> None:
    """Learn from the release of a buffered event: Eq 3.7-3.10 on its holding time if its gap
    closed.

    Else it was released by timeout, and ``r19-code`` remembers it.
    """
    if state.mode not in (MODE_R19, MODE_R19_CODE):
        return
    if is_closed:
        _learn_hold(state, of, now - arrival)
        _refresh(state, of, memory, INT_MIN)
    elif state.mode == MODE_R19_CODE:
        timed_out = memory.highs[of.highs_n % len(memory.highs)]
        timed_out.seq = seq
        timed_out.at = arrival
        of.highs_n += 1


@inline
def _learn_hold(state: Record, of: Record, hold_ns: int) -> None:
    n = of.hold_avg if state.mode == MODE_R19_CODE else of.hold_n
    of.hold_avg, of.hold_dev = learn_average(n, of.hold_avg, of.hold_dev, hold_ns, state.beta)
    of.hold_n += 1


@kernel
def learn_late(state: Record, of: Record, memory: Record, seq: int, now: int) -> None:
    """Learn from the arrival of a skipped number (``r19-code``).

    Each remembered event with a smaller number counts as held until ``now``.
    """
    if state.mode != MODE_R19_CODE:
        return
    size = len(memory.highs)
    for place in range(max(0, of.highs_n - size), of.highs_n):
        timed_out = memory.highs[place % size]
        if timed_out.seq < seq:
            _learn_hold(state, of, now - timed_out.at)
    _refresh(state, of, memory, INT_MIN)


@inline
def learn_arrival(
    state: Record, of: Record, memory: Record, seq: int, now: int, before: int
) -> None:
    """Learn the waiting time of an event of the lane (``quantile``).

    ``before``: the lane's previous arrival [ns].
    """
    if state.mode != MODE_QUANTILE or of.arrived < LEARNS_FROM:
        return
    if of.born == INT_MIN:
        of.born = now
    is_new_instant = before != now
    if is_new_instant and before != INT_MIN:  # events of one message are no silence
        of.inters_n = count_in(
            memory.silences, of.inters_n, wait_bin(now - before, state.bits),
            state.silence_window,
        )  # fmt: skip
    wait = 0
    if seq > of.max_seq:
        of.max_seq = seq
        note_high(of, memory, seq, now)
    else:
        wait = now - first_larger(of, memory, seq)
    if learn_wait(of, memory, wait, is_new_instant, state.bits, state.window):
        _refresh(state, of, memory, now)
