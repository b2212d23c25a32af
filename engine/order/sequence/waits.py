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
from engine.kernels.records import Record
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
    of: Record, memory: Record, wait: int, is_new_instant: bool, bits: int, window: int
) -> bool:
    """Count the waiting time [ns] that an event needed. True when a block was full: look anew."""
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
    """A block joins the memory, waits for the next one's word, or replaces the memory."""
    if of.settling == 2:
        _forget(of, memory)
        _join(of, memory, memory.doubt, of.doubt_n)
        of.doubt_n = 0
        of.settling = 0
    if of.settling == 1:
        _join(of, memory, memory.fresh, of.fresh_n)
        _set_aside(of, memory)
        of.settling = 2
        return
    if of.fresh_n >= BLOCK and of.waits_n >= BLOCK * ONE and _contradicts(of, memory):
        if of.doubt_n == 0:
            _set_aside(of, memory)
            return
        _give_up(of, memory, window)
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
def _set_aside(of: Record, memory: Record) -> None:
    """Keep the block beside the memory."""
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
def _give_up(of: Record, memory: Record, window: int) -> None:
    """Forget the memory; it becomes the shape unless it was too young to have one."""
    if of.shape_n == 0 or of.waits_n * REMEMBERED >= window * ONE * KNOWN:
        for index in range(of.bins):
            memory.tail_shape[index] = memory.waits[index]
        of.shape_n = of.waits_n
    _forget(of, memory)


@kernel
def _contradicts(of: Record, memory: Record) -> bool:
    """Whether at some waiting time more, or fewer, of the block wait longer than chance allows.

    Only a waiting time of the block can be the one: just above it fewest do, from it on most.
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
    """Whether ``mine`` of the block and ``theirs`` of the memory are not the same share."""
    off = abs(mine - block * theirs / remembered) - slack
    share = (mine + theirs) / (block + remembered)
    return off > 0.0 and off * off > spread * share * (1.0 - share)


@kernel
def needed_value(of: Record, memory: Record, tail_ppm: int) -> int:
    """The waiting time (as ``wait_sketch`` has values) that the wanted share exceeds; -1: unknown.

    ``k`` of ``n`` events lie, on average, ``k / (n + 1)`` of all: hence one event more.
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
    """What the shape says, brought to the scale of the memory; -1 where it says nothing.

    Two waiting times are compared, which ``near`` and ``far`` of the memory's counts exceed, and
    that have a like in the shape: their distance tells the scale, and the first one the place.
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
