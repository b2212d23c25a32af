"""Traces by key: a hash table as of ``engine.kernels.tables``, asked for many keys at once.

Keys are mostly numbers in a row, such as those of texts. A slot is the upper bits of a key's
product with the golden ratio, which puts numbers in a row apart (Knuth, TAOCP 3, 6.4: Fibonacci
hashing): most keys are alone in their slot then, though four of five slots are taken. Of any number
of slots, not only of powers of two, so that memory follows the traces closely.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MIN, NONE
from slackwater.engine.kernels.tables import mixed
from slackwater.engine.operators.constraint.traces import FRESH, NO_FLAGS

AT_ONCE: Final = 256
"""Events whose traces are looked up together."""


class Keyed(NamedTuple):
    """Traces by key.

    Attributes:
        traces: TRACE, those that there are first.
        slots: the hash table.
        tally: int64 (1,): how many traces there are.
        key: int64, of each event of a batch.
        entry: int32, of each event the place of its trace, NONE for what is not read; to be filled.
    """

    traces: np.ndarray
    slots: np.ndarray
    tally: np.ndarray
    key: np.ndarray
    entry: np.ndarray


def slots_for(entries: int) -> np.ndarray:
    """Free slots for so many traces, which take four of five."""
    return np.full(entries + entries // 4 + 1, NONE, np.int32)


@inline
def _home(slots: np.ndarray, key: int) -> int:
    """The slot of a key that is alone there: upper bits, scaled to the number of slots."""
    upper = np.uint64(np.int64(mixed(0, key))) >> np.uint64(32)
    return int(np.int64(upper * np.uint64(len(slots)) >> np.uint64(32)))


@inline
def _slot(slots: np.ndarray, traces: np.ndarray, key: int) -> int:
    """The slot of the trace with this key, or the free one where it belongs."""
    slot = _home(slots, key)
    while slots[slot] != NONE and traces[slots[slot]].key != key:
        slot += 1
        if slot == len(slots):
            slot = 0
    return int(slot)


@kernel
def enter_all(slots: np.ndarray, traces: np.ndarray, known: int) -> None:
    """Enter the first ``known`` traces; no two have one key."""
    for entry in range(known):
        slots[_slot(slots, traces, traces[entry].key)] = entry


@inline
def enter_traces(first: int, stop: int, symbol: np.ndarray, keyed: Keyed) -> None:
    """Fill in the entries of some events; new keys get one, for which there is room.

    Some at once, as look-ups of several events do not wait for one another, and so few that their
    traces are still at hand when the events come to them. For the same reason most entries are
    found without a branch, in the slot where their key would be if it were alone there. The last
    field of a trace is read with its key, so that both lines of memory that it may lie in are
    fetched: else the second would be waited for, event after event.
    """
    known, traces, slots = keyed.tally[0], keyed.traces, keyed.slots
    for i in range(first, stop):
        keyed.entry[i] = slots[_home(slots, keyed.key[i])]
    for i in range(first, stop):
        entry = keyed.entry[i]
        there = int(entry != NONE and symbol[i] >= 0)
        trace = traces[entry * there]
        same = there & int(trace.key == keyed.key[i]) & int(trace.flags != NO_FLAGS)
        keyed.entry[i] = (entry - NONE) * same + NONE
    for i in range(first, stop):
        if keyed.entry[i] != NONE or symbol[i] < 0:
            continue
        slot = _slot(slots, traces, keyed.key[i])
        if slots[slot] == NONE:
            slots[slot] = known
            traces[known].key = keyed.key[i]
            traces[known].last_ref = INT_MIN
            traces[known].last_end = INT_MIN
            traces[known].path = NONE
            traces[known].flags = FRESH
            known += 1
        keyed.entry[i] = slots[slot]
    keyed.tally[0] = known
