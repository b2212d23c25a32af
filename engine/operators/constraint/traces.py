"""Record types of open traces, their events and their results.

A key is a value that events share. A key has one trace after another; each ends before the next.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MIN, NONE
from slackwater.engine.kernels.tables import mixed

TRACE: Final = np.dtype(
    [
        ("key", np.int64),
        ("last_ref", np.int64),  # of the last event
        ("last_end", np.int64),  # where it ends
        ("until", np.int64),  # no event so far can have been later
        ("epoch", np.int64),  # with ``clock``: of the last event
        ("clock", np.int32),
        ("number", np.uint32),
        ("path", np.int32),  # place in ``TracePool``: the last event that advanced the pattern
        # The last event, which may still change places with the next one:
        ("gap", np.uint32),  # lower bits: from the end of those before it to ``until`` [ns]
        ("gap_high", np.uint16),
        ("symbol", np.uint16),
        ("before", np.uint16),  # the state before it
        ("state", np.uint16),
        ("other", np.uint16),  # the state after another order of the events; else ``state``
        ("spare", np.uint8),
        ("flags", np.uint8),  # from ``KNOWN`` on, the verdict
    ]
)
"""A trace, 68 bytes.

42 bytes describe the last event, which is buffered because it may change places with the next one:
its time and uncertainty (in ``until``), its clock, its number and its type. The other 26 describe
the trace. ``state`` covers both the pattern and the constraint.
"""
OF_LAST_EVENT: Final = ("last_ref", "last_end", "until", "epoch", "clock", "number", "symbol")
FRESH: Final = 1
"""Flag: the next event of this key begins a trace."""
DOUBTFUL: Final = 2
"""Flag: the order of events may have led to more states than ``state`` and ``other``."""
MIXED: Final = 4
"""Flag: its events have more than one clock."""
FORKED: Final = 8
"""Flag: the state before its last event may have been another one than ``before``."""
RUN_OUT: Final = 16
"""Flag: the timeout has passed; the next event begins a trace."""
KNOWN: Final = 5
"""Lowest of the two bits of ``flags`` that hold the verdict."""
UNKNOWN: Final = 128
"""Flag: its events have several clocks, and one of them is unknown."""
OTHERS: Final = 1
"""Bit of an event: events of several clocks came by then, and one of the clocks is unknown."""
PERHAPS: Final = 2
"""Bit of an event that is a result: its certainty is ``uncertain``."""
NOBODY_KNOWS: Final = 4
"""Bit of an event that is a result: its certainty is ``unknown``."""
NO_FLAGS: Final = 255
"""A value of ``flags`` that no trace has."""

NO_GAP: Final = (1 << 48) - 1
"""``gap`` of a trace with at most one event. Longer gaps are stored as 1 ns less, 78 hours.

That matters only to a clock with an error of half of that.
"""

NODE: Final = np.dtype(
    [
        ("ref", np.int64),
        ("unc", np.int64),
        ("end", np.int64),
        ("latest", np.int64),
        ("seq", np.int64),
        ("epoch", np.int64),
        ("number", np.int64),
        ("source", np.int32),
        ("clock", np.int32),
        ("type", np.int32),
        ("link", np.int32),  # the previous event; NONE
        ("symbol", np.uint16),
        ("state", np.uint16),  # on a path: the state after it
        ("doubt", np.int8),  # see ``TraceEvents``
    ],
    align=True,
)
"""A buffered event, 80 bytes."""

ALERT: Final = 0
CLEARED: Final = 1
VIOLATION: Final = 2

EMITTED: Final = np.dtype(
    [
        ("row", np.int64),  # row of the batch that caused it; LATER: progress caused it
        ("key", np.int64),
        ("number", np.int64),
        ("ref", np.int64),
        # With events of one clock: the end of the last one; after a timeout: the first instant
        # after it.
        ("end", np.int64),
        ("due", np.int64),  # the latest ``end`` under any clock error
        ("most", np.int64),  # in ``Recent``: the largest ``due`` up to this one
        ("epoch", np.int64),  # with ``clock``: of its event, or of the last one before a timeout
        ("seq", np.int64),
        ("clock", np.int32),
        ("source", np.int32),
        ("type", np.int32),  # NONE: no event, the timeout passed
        ("path", np.int32),
        ("before", np.uint16),  # the state before the event
        ("kind", np.int8),  # ALERT CLEARED VIOLATION; NONE: withdrawn before it is emitted
        ("plus", np.bool_),
        ("certainty", np.int8),  # place in ``engine.operators.constraint.alerts.CERTAINTIES``
    ],
    align=True,
)
"""A result."""
LATER: Final = -1
"""``row`` of a result of progress; ``Moves`` of ``constraint.step`` gives its place."""


class TraceEvents(NamedTuple):
    """Columns of events.

    ``symbol``: negative: not read. ``ref``: event time, with uncertainty ``unc`` [ns]. ``clock``
    and ``epoch``: the order of two events that share both is certain. ``end``: end of an interval;
    ``latest``: its latest end under any clock error. ``doubt``: bits ``OTHERS PERHAPS
    NOBODY_KNOWS``. ``number``: counts the rows of the released stream.
    """

    symbol: np.ndarray
    ref: np.ndarray
    unc: np.ndarray
    end: np.ndarray
    latest: np.ndarray
    source: np.ndarray
    clock: np.ndarray
    epoch: np.ndarray
    seq: np.ndarray
    type: np.ndarray
    number: np.ndarray
    doubt: np.ndarray


class Recent(NamedTuple):
    """Confirmed results that a later event may still retract because of clock errors.

    The first ``used[0]`` of ``results`` (EMITTED) are in use.
    """

    results: np.ndarray
    used: np.ndarray


class TraceProgress(NamedTuple):
    """Progress in a batch: ``to``, ascending [ns].

    ``until``: the latest time of an event of an unknown clock that a trace may have [ns]; one more
    element than ``to``.
    """

    to: np.ndarray
    until: np.ndarray


class TracePool(NamedTuple):
    """Buffered events: the first ``used[0]`` of ``nodes`` (NODE) are in use."""

    nodes: np.ndarray
    used: np.ndarray


class TraceTables(NamedTuple):
    """``engine.query.automata.Encoded`` as kernels read it.

    ``emits``: by number of the verdict, whether it emits a result. ``allowed``: (states,), equal
    where the constraint allows the same events. ``day_starts`` and ``day_ends``: the workdays
    [ns] if the timeout counts workdays; empty if it counts ns.
    """

    table: np.ndarray
    verdict: np.ndarray
    broken: np.ndarray
    ended: np.ndarray
    complete: np.ndarray
    moves: np.ndarray
    emits: np.ndarray
    allowed: np.ndarray
    day_starts: np.ndarray
    day_ends: np.ndarray


def events_of(nodes: np.ndarray) -> TraceEvents:
    """Return buffered events as columns that share their memory."""
    return TraceEvents(*(nodes[name] for name in TraceEvents._fields))


# Traces by key: a hash table as in ``engine.kernels.tables``, looked up for many keys at once.
#
# Keys are mostly consecutive numbers, such as codes of texts. A slot is the upper bits of the
# product of a key and the golden ratio, which spreads consecutive numbers (Knuth, TAOCP 3, 6.4:
# Fibonacci hashing). So most keys have a slot of their own though four of five slots are taken.
# Any number of slots works, not only powers of two, so memory follows the number of traces.


AT_ONCE: Final = 256
"""Number of events whose traces are looked up together."""


class Keyed(NamedTuple):
    """Traces by key.

    Attributes:
        traces: TRACE; the first ``tally[0]`` are in use.
        slots: the hash table.
        tally: int64 (1,), the number of traces.
        key: int64, the key of each event of a batch.
        entry: int32, the place of each event's trace; NONE: not read. Output of the kernels.
    """

    traces: np.ndarray
    slots: np.ndarray
    tally: np.ndarray
    key: np.ndarray
    entry: np.ndarray


def slots_for(entries: int) -> np.ndarray:
    """Return free slots for ``entries`` traces, which take four of five."""
    return np.full(entries + entries // 4 + 1, NONE, np.int32)


@inline
def _home(slots: np.ndarray, key: int) -> int:
    """Return the first slot of a key: its upper bits, scaled to the number of slots."""
    upper = np.uint64(np.int64(mixed(0, key))) >> np.uint64(32)
    return int(np.int64(upper * np.uint64(len(slots)) >> np.uint64(32)))


@inline
def _slot(slots: np.ndarray, traces: np.ndarray, key: int) -> int:
    """Return the slot of the trace with this key, or the free slot for it."""
    slot = _home(slots, key)
    while slots[slot] != NONE and traces[slots[slot]].key != key:
        slot += 1
        if slot == len(slots):
            slot = 0
    return int(slot)


@kernel
def enter_all(slots: np.ndarray, traces: np.ndarray, known: int) -> None:
    """Enter the first ``known`` traces, whose keys are distinct."""
    for entry in range(known):
        slots[_slot(slots, traces, traces[entry].key)] = entry


@inline
def enter_traces(first: int, stop: int, symbol: np.ndarray, keyed: Keyed) -> None:
    """Fill in the entries of events [``first``, ``stop``); new keys get a new trace.

    The table has room for them. Batches hide memory latency, since look-ups of several events
    overlap, and are small enough that the traces stay in the cache. For the same reason most
    entries are found without a branch, in the first slot of their key. The last field of a trace
    is read with its key to prefetch both cache lines that the trace may span.
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
