"""What a lane has learnt of waiting times, and how it notices that they are no longer so.

Two wishes contradict each other: at q = 0.999 one event in a thousand tells where the quantile
lies, so tens of thousands must be remembered; and after a change the timeout must be right again
within 1,000 events. Hence:

* Events are counted in blocks of ``BLOCK`` and a block is held against the memory before it joins
  it: at every waiting time, is the share of longer ones the same, but for chance? One block out of
  line may be a burst, and is learnt; of two in a row the memory is given up for the second.
  Events that arrived at one instant count as one observation, as they most likely had one fate.
* The memory given up is kept as the *shape* of the tail that so few events cannot show. While less
  than ``KNOWN`` events of the new memory may be late, its own well known waiting time, which
  ``KNOWN`` events exceed, is stretched as the shape had it: a network that has become ten times
  slower mostly has the same tail, ten times as long. The stretched one is raised where the new
  memory alone contradicts it.
* The block that confirmed a change may hold the last events of the old network, so the memory
  begins anew with the block after it.

Without any change the memory halves its counts every ``window`` events.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np

from engine.kernels.jit import inline, kernel
from engine.order.sequence.wait_sketch import LONGEST, ONE, exceeded_by, wait_bin

BLOCK: Final = 128
FIRST_BLOCK: Final = 16
INSTANTS: Final = 32
"""A block has at least so many different arrivals, or ``LARGEST`` events."""
LARGEST: Final = 8192
REMEMBERED: Final = 256
"""Late events in a full memory."""
KNOWN: Final = 64
"""So many late events make a quantile well known."""
LEAST: Final = 4
"""Fewer say nothing of how waiting times have stretched..."""
APART: Final = 4
"""... when so many times as many events show it."""
UNLIKELY: Final = 4.0
"""Standard deviations between a block and the memory that chance does not explain..."""
SLACK: Final = 2.0
"""... beyond so many observations."""
_SURE: Final = 3
_MILLION: Final = 1_000_000


def memory_window(tail_ppm: int) -> int:
    """Events remembered: so many that ``REMEMBERED`` of them are late."""
    return min(max(4096, REMEMBERED * _MILLION // tail_ppm), 1 << 20)


@inline
def learn_wait(
    ln: np.ndarray,
    mm: np.ndarray,
    lane: int,
    wait: int,
    is_new_instant: bool,
    bits: int,
    window: int,
) -> bool:
    """Count the waiting time [ns] that an event needed. True when a block was full: look anew."""
    place = wait_bin(wait, bits)
    ln[lane].bins = max(ln[lane].bins, place + 1)
    mm[ln[lane].memory].fresh[place] += 1
    n = ln[lane].fresh_n + 1
    ln[lane].fresh_n = n
    ln[lane].fresh_instants += is_new_instant
    if n < FIRST_BLOCK or n * ONE < min(BLOCK * ONE, ln[lane].waits_n):
        return False
    if n >= BLOCK and n < LARGEST and ln[lane].fresh_instants < INSTANTS:
        return False
    _take_block(ln, mm, lane, window)
    return True


@kernel
def _take_block(ln: np.ndarray, mm: np.ndarray, lane: int, window: int) -> None:
    """A block joins the memory, waits for the next one's word, or replaces the memory."""
    if ln[lane].settling == 2:
        _forget(ln, mm, lane)
        _join(ln, mm, lane, mm[ln[lane].memory].doubt, ln[lane].doubt_n)
        ln[lane].doubt_n = 0
        ln[lane].settling = 0
    if ln[lane].settling == 1:
        _join(ln, mm, lane, mm[ln[lane].memory].fresh, ln[lane].fresh_n)
        _set_aside(ln, mm, lane)
        ln[lane].settling = 2
        return
    if ln[lane].fresh_n >= BLOCK and ln[lane].waits_n >= BLOCK * ONE and _contradicts(ln, mm, lane):
        if ln[lane].doubt_n == 0:
            _set_aside(ln, mm, lane)
            return
        _give_up(ln, mm, lane, window)
        ln[lane].settling = 1
    elif ln[lane].doubt_n > 0:
        _join(ln, mm, lane, mm[ln[lane].memory].doubt, ln[lane].doubt_n)
    ln[lane].doubt_n = 0
    _join(ln, mm, lane, mm[ln[lane].memory].fresh, ln[lane].fresh_n)
    _clear_block(ln, mm, lane)
    if ln[lane].waits_n >= window * ONE:
        ln[lane].waits_n = 0
        for index in range(ln[lane].bins):
            mm[ln[lane].memory].waits[index] >>= 1
            ln[lane].waits_n += mm[ln[lane].memory].waits[index]


@inline
def _join(ln: np.ndarray, mm: np.ndarray, lane: int, block: np.ndarray, events: int) -> None:
    """Add a block to the memory."""
    for index in range(ln[lane].bins):
        mm[ln[lane].memory].waits[index] += block[index] * ONE
    ln[lane].waits_n += events * ONE


@inline
def _set_aside(ln: np.ndarray, mm: np.ndarray, lane: int) -> None:
    """Keep the block beside the memory."""
    for index in range(ln[lane].bins):
        mm[ln[lane].memory].doubt[index] = mm[ln[lane].memory].fresh[index]
    ln[lane].doubt_n = ln[lane].fresh_n
    _clear_block(ln, mm, lane)


@inline
def _clear_block(ln: np.ndarray, mm: np.ndarray, lane: int) -> None:
    for index in range(ln[lane].bins):
        mm[ln[lane].memory].fresh[index] = 0
    ln[lane].fresh_n = 0
    ln[lane].fresh_instants = 0


@inline
def _forget(ln: np.ndarray, mm: np.ndarray, lane: int) -> None:
    for index in range(ln[lane].bins):
        mm[ln[lane].memory].waits[index] = 0
    ln[lane].waits_n = 0


@inline
def _give_up(ln: np.ndarray, mm: np.ndarray, lane: int, window: int) -> None:
    """Forget the memory; it becomes the shape unless it was too young to have one."""
    if ln[lane].shape_n == 0 or ln[lane].waits_n * REMEMBERED >= window * ONE * KNOWN:
        for index in range(ln[lane].bins):
            mm[ln[lane].memory].shape[index] = mm[ln[lane].memory].waits[index]
        ln[lane].shape_n = ln[lane].waits_n
    _forget(ln, mm, lane)


@kernel
def _contradicts(ln: np.ndarray, mm: np.ndarray, lane: int) -> bool:
    """Whether at some waiting time more, or fewer, of the block wait longer than chance allows.

    Only a waiting time of the block can be the one: just above it fewest do, from it on most.
    """
    waits, fresh = mm[ln[lane].memory].waits, mm[ln[lane].memory].fresh
    block, memory = float(ln[lane].fresh_n), ln[lane].waits_n / ONE
    alike = block / max(1, ln[lane].fresh_instants)
    slack = SLACK * alike
    spread = UNLIKELY * UNLIKELY * alike * block * (1.0 + block / memory)
    mine, theirs = 0, 0
    for index in range(ln[lane].bins - 1, 0, -1):
        if fresh[index] > 0:
            if _unlikely(mine, theirs / ONE, block, memory, slack, spread):
                return True
            mine += fresh[index]
            if _unlikely(mine, (theirs + waits[index]) / ONE, block, memory, slack, spread):
                return True
        theirs += waits[index]
    return _unlikely(mine, theirs / ONE, block, memory, slack, spread)


@inline
def _unlikely(
    mine: int, theirs: float, block: float, memory: float, slack: float, spread: float
) -> bool:
    """Whether ``mine`` of the block and ``theirs`` of the memory are not the same share."""
    off = abs(mine - block * theirs / memory) - slack
    share = (mine + theirs) / (block + memory)
    return off > 0.0 and off * off > spread * share * (1.0 - share)


@kernel
def needed_value(ln: np.ndarray, mm: np.ndarray, lane: int, tail_ppm: int) -> int:
    """The waiting time (as ``wait_sketch`` has values) that the wanted share exceeds; -1: unknown.

    ``k`` of ``n`` events lie, on average, ``k / (n + 1)`` of all: hence one event more.
    """
    n = ln[lane].waits_n
    late = tail_ppm * (n + ONE) // _MILLION
    found = _stretched(ln, mm, lane, tail_ppm, late) if late < KNOWN * ONE else -1
    if found < 0:
        if n * tail_ppm < _MILLION * ONE:
            return -1
        found = exceeded_by(mm[ln[lane].memory].waits, ln[lane].bins, late)
    return min(found, LONGEST)


@inline
def _stretched(ln: np.ndarray, mm: np.ndarray, lane: int, tail_ppm: int, late: int) -> int:
    """What the shape says, brought to the scale of the memory; -1 where it says nothing.

    Two waiting times are compared, which ``near`` and ``far`` of the memory's counts exceed, and
    that have a like in the shape: their distance tells the scale, and the first one the place.
    """
    waits, shape = mm[ln[lane].memory].waits, mm[ln[lane].memory].shape
    n, known, bins = ln[lane].waits_n, ln[lane].shape_n, ln[lane].bins
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
