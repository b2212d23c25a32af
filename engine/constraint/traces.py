"""The state of every open trace, and one event of it: a look-up in the table of automata.

Source: L10 Algorithm 2. What it leaves out, as its events are in order and its clocks right: an
alert is uncertain if events of its trace may have been the other way round, and if that way they
would not have led to the same state.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.kernels.integers import INT_MIN, NONE
from engine.kernels.jit import kernel
from engine.kernels.table import slot_of
from engine.query.automata.verdicts import SATISFIABLE, START
from engine.stream.released import NO_EPOCH

TRACE: Final = np.dtype(
    [
        ("key", np.int64),
        ("until", np.int64),  # no event so far can have been later
        ("until_before", np.int64),  # none but the last
        ("epoch", np.int64),  # with ``source``: the clock of the last event
        ("source", np.int32),
        ("state", np.uint16),
        ("before", np.uint16),  # the state before the last event
        ("symbol", np.uint16),  # of the last event
        ("flags", np.uint8),
    ],
    align=True,
)
"""48 bytes, 24 of which tell what the last event was."""
OVER: Final = 1
"""Flag: the constraint allows nothing more; the next event of this key begins a trace."""
DOUBTFUL: Final = 2
"""Flag: the order of events may have led to the state."""
MIXED: Final = 4
"""Flag: its events are of more than one clock."""

ALERT: Final = 0
CLEARED: Final = 1
VIOLATION: Final = 2


class Tables(NamedTuple):
    """``engine.query.automata.verdicts.Encoded`` as kernels read it; ``told``: whether to tell of a
    verdict, by its number.
    """

    table: np.ndarray
    verdict: np.ndarray
    broken: np.ndarray
    ended: np.ndarray
    told: np.ndarray


class Events(NamedTuple):
    """Columns of the events of a batch: their symbol (negative: not read), the key of their trace,
    when each one happened, give or take ``unc`` [ns], and by which clock: two of one source and
    epoch are in order.
    """

    symbol: np.ndarray
    key: np.ndarray
    ref: np.ndarray
    unc: np.ndarray
    source: np.ndarray
    epoch: np.ndarray


class Told(NamedTuple):
    """What became known: at which event, ALERT CLEARED VIOLATION, if in doubt, and the state in
    which the trace was before it.
    """

    event: np.ndarray
    kind: np.ndarray
    doubtful: np.ndarray
    before: np.ndarray


def room_for(events: int) -> Told:
    """Room for all that so many events can tell: two things each."""
    return Told(
        np.empty(2 * events, np.int64),
        np.empty(2 * events, np.int8),
        np.empty(2 * events, np.bool_),
        np.empty(2 * events, np.uint16),
    )


@kernel
def follow(
    traces: np.ndarray, keys: np.ndarray, slots: np.ndarray, known: int, tables: Tables,
    events: Events, told: Told,
) -> tuple[int, int]:  # fmt: skip
    """Take each event to its trace; ``keys`` is the memory of ``traces`` as rows of int64.

    Returns:
        How many traces there are now (``known`` before the first), and how many rows of ``told``.
    """
    rows = 0
    for i in range(len(events.symbol)):
        symbol = events.symbol[i]
        if symbol < 0:
            continue
        slot = slot_of(slots, keys, (events.key[i],))
        fresh = slots[slot] == NONE
        if fresh:
            slots[slot] = known
            traces[known].key = events.key[i]
            known += 1
        trace = traces[slots[slot]]
        if fresh or trace.flags & OVER:
            fresh = True
            trace.state = START
            trace.until = INT_MIN
            trace.until_before = INT_MIN
            trace.flags = 0
        same_clock = (
            events.epoch[i] != NO_EPOCH
            and trace.epoch == events.epoch[i]
            and trace.source == events.source[i]
        )
        if not fresh and not same_clock:
            trace.flags |= MIXED
        low, high = events.ref[i] - events.unc[i], events.ref[i] + events.unc[i]
        old = int(trace.state)
        new = tables.table[old, symbol]
        if trace.flags & MIXED and low <= trace.until:
            swapped = tables.table[tables.table[trace.before, symbol], trace.symbol]
            if low <= trace.until_before or (not same_clock and swapped != new):
                trace.flags |= DOUBTFUL
        if tables.broken[new] and not tables.broken[old]:
            told.event[rows] = i
            told.kind[rows] = VIOLATION
            told.doubtful[rows] = trace.flags & DOUBTFUL != 0
            told.before[rows] = old
            rows += 1
        verdict = tables.verdict[new]
        if tables.told[verdict] and (fresh or tables.verdict[old] != verdict):
            told.event[rows] = i
            told.kind[rows] = ALERT if verdict == SATISFIABLE else CLEARED
            told.doubtful[rows] = trace.flags & DOUBTFUL != 0
            told.before[rows] = old
            rows += 1
        trace.before = old
        trace.symbol = symbol
        trace.source = events.source[i]
        trace.epoch = events.epoch[i]
        trace.state = new
        trace.until_before = trace.until
        trace.until = max(trace.until, high)
        if tables.ended[new]:
            trace.flags |= OVER
    return known, rows


@kernel
def keep_open(traces: np.ndarray, known: int) -> int:
    """Move traces that are not over to the front; gives their number."""
    kept = 0
    for entry in range(known):
        if not traces[entry].flags & OVER:
            traces[kept] = traces[entry]
            kept += 1
    return kept
