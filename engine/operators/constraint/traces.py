"""Open traces, their events and their results, as records.

A key is a value that events share; its traces come one after another, each over before the next.
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
        ("path", np.int32),  # of ``TracePool``: the last event that brought the pattern on; NONE
        # Of the last event, which may still change places with the next one:
        ("gap", np.uint32),  # lower bits: until when those before it were, before ``until`` [ns]
        ("gap_high", np.uint16),
        ("symbol", np.uint16),
        ("before", np.uint16),  # the state before it
        ("state", np.uint16),
        ("other", np.uint16),  # where another order of the events would have led; else ``state``
        ("spare", np.uint8),
        ("flags", np.uint8),  # from ``KNOWN`` on, the verdict
    ]
)
"""68 bytes. 42 are of the last event, which is buffered as it may change places with the next one:
its time and how far that may be off (in ``until``), its clock, its number and its type. The other
26 are the trace's. The tables know by ``state`` where the constraint is.
"""
OF_LAST_EVENT: Final = ("last_ref", "last_end", "until", "epoch", "clock", "number", "symbol")
FRESH: Final = 1
"""Flag: the next event of this key begins a trace: none has come, or the last was allowed none."""
DOUBTFUL: Final = 2
"""Flag: the order of events may have led to more states than ``state`` and ``other``."""
MIXED: Final = 4
"""Flag: its events are of more than one clock."""
FORKED: Final = 8
"""Flag: before its last event it may have been in another state than ``before``."""
RUN_OUT: Final = 16
"""Flag: no event came in time; the next one begins a trace."""
KNOWN: Final = 5
"""The bit of ``flags`` from which on two tell the verdict."""
UNKNOWN: Final = 128
"""Flag: its events are of several clocks, one of which is unknown."""
OTHERS: Final = 1
"""Bit of an event: until then events of several clocks came, of which one is unknown."""
PERHAPS: Final = 2
"""Bit of an event that is a result: it is uncertain."""
NOBODY_KNOWS: Final = 4
"""Bit of an event that is a result: it is unknown."""
NO_FLAGS: Final = 255
"""``flags`` of no trace."""

NO_GAP: Final = (1 << 48) - 1
"""``gap``: there was one event, or none. A longer one counts as a ns less: 78 hours, which matters
only to a clock that may be wrong by half of that.
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
        ("link", np.int32),  # to the one before; NONE
        ("symbol", np.uint16),
        ("state", np.uint16),  # on a path: where the pattern is after it
        ("doubt", np.int8),  # as of ``TraceEvents``
    ],
    align=True,
)
"""A buffered event, 80 bytes."""

ALERT: Final = 0
CLEARED: Final = 1
VIOLATION: Final = 2

EMITTED: Final = np.dtype(
    [
        ("row", np.int64),  # of the batch, with which it became known; LATER: the clock passed it
        ("key", np.int64),
        ("number", np.int64),
        ("ref", np.int64),
        # Of one clock's events: where the last ends; of a time that ran out, the first instant
        # after it.
        ("end", np.int64),
        ("due", np.int64),  # no error of a clock can have put ``end`` later
        ("most", np.int64),  # among ``Recent``: the latest ``due`` until this one
        ("epoch", np.int64),  # with ``clock``: of its event, or of the last before the silence
        ("seq", np.int64),
        ("clock", np.int32),
        ("source", np.int32),
        ("type", np.int32),  # NONE: of no event; a time ran out
        ("path", np.int32),
        ("before", np.uint16),  # the state before the event
        ("kind", np.int8),  # ALERT CLEARED VIOLATION; NONE: not emitted after all
        ("plus", np.bool_),
        ("certainty", np.int8),  # place in ``engine.operators.constraint.alerts.CERTAINTIES``
    ],
    align=True,
)
"""What became known."""
LATER: Final = -1
"""``row``: found out by progress, of which ``engine.operators.constraint.step`` knows the place."""


class TraceEvents(NamedTuple):
    """Columns of events: their symbol (negative: not read), when each one happened, give or take
    ``unc`` [ns], and by which clock: two of one clock and epoch are in order. An interval begins
    then; it goes to ``end``, at the ``latest`` to that. ``doubt``: bits ``OTHERS PERHAPS
    NOBODY_KNOWS``.

    ``number`` counts the rows of the released stream.
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
    """Confirmed results that an event to come may deny, as clocks' errors may put it before theirs:
    ``results`` (EMITTED), of which the first ``used[0]`` are in use.
    """

    results: np.ndarray
    used: np.ndarray


class TraceProgress(NamedTuple):
    """How far time has come in a batch (``to``, ascending), and until when an event of an unknown
    clock may lie, of which a trace may be (``until`` [ns], one more).
    """

    to: np.ndarray
    until: np.ndarray


class TracePool(NamedTuple):
    """Buffered events: ``nodes`` (NODE), of which the first ``used[0]`` are in use."""

    nodes: np.ndarray
    used: np.ndarray


class TraceTables(NamedTuple):
    """``engine.query.automata.Encoded`` as kernels read it; ``emits``: whether a verdict
    gives a result, by its number; ``allowed``: of each state, equal where C allows the same events.

    ``day_starts`` and ``day_ends``: of workdays [ns], if the timeout counts them; empty: it is in
    ns.
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
    """Buffered events, in the same memory."""
    return TraceEvents(*(nodes[name] for name in TraceEvents._fields))


# Traces by key: a hash table as of ``engine.kernels.tables``, asked for many keys at once.
#
# Keys are mostly numbers in a row, such as those of texts. A slot is the upper bits of a key's
# product with the golden ratio, which puts numbers in a row apart (Knuth, TAOCP 3, 6.4: Fibonacci
# hashing): most keys are alone in their slot then, though four of five slots are taken. Of any
# number of slots, not only of powers of two, so that memory follows the traces closely.


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
