"""Markers of how far a source has got: punctuations and ends of stream, lane by lane (SPEC 3.2).

A marker with number n follows the events below n and so counts once these are settled; until then
it waits like an event that was buffered, with a deadline of its own. One without a number follows
the events that came before it.
"""

from __future__ import annotations

import numpy as np

from edge_agent.records import Kind
from engine.clocks.epochs import reference
from engine.kernels.integers import INT_MAX, INT_MIN, NONE
from engine.kernels.jit import inline, kernel
from engine.order.sequence.merge import note, set_key
from engine.order.sequence.state import (
    MARKER_JUMP,
    MAX_RING,
    NOTE_QUARANTINE,
    S_DEFAULT_UNC,
    Out,
    Trees,
)
from engine.order.sequence.timeout import later
from engine.order.sequence.tournament import hurry

_POG = int(Kind.POG)


@inline
def next_deadline(rows: np.ndarray, ln: np.ndarray, lane: int) -> int:
    """Earliest deadline of the lane's gap: of a buffered event or of a marker beyond the gap."""
    when = min(ln[lane].pog_deadline, ln[lane].eos_deadline)
    if ln[lane].dq_head != NONE:
        when = min(when, rows[ln[lane].dq_head].deadline)
    return int(when)


@kernel
def promise(
    rows: np.ndarray, ln: np.ndarray, ck: np.ndarray, tr: Trees, s: np.ndarray, lane: int, ts: int
) -> None:
    """No later event of the lane has event time below ``ts``."""
    bound, _, _ = reference(ck, s[S_DEFAULT_UNC], ln[lane].source, ts)
    if bound > ln[lane].bound:
        ln[lane].bound = bound
        set_key(rows, ln, tr, s, lane)


@inline
def promise_later(ln: np.ndarray, lane: int, seq: int, ts: int, deadline: int) -> None:
    """A punctuation that waits for the numbers below ``seq``.

    The first one waiting keeps its deadline, so that many cannot put it off; of those behind it
    the newest is kept, as it says most.
    """
    if ln[lane].pog_seq < 0:
        ln[lane].pog_seq = seq
        ln[lane].pog_ts = ts
        ln[lane].pog_deadline = deadline
    elif seq == ln[lane].pog_seq:
        ln[lane].pog_ts = max(ln[lane].pog_ts, ts)
    elif seq > ln[lane].pog_seq:
        ln[lane].next_pog_seq = seq
        ln[lane].next_pog_ts = ts
        ln[lane].next_pog_deadline = deadline


@kernel
def apply_markers(
    rows: np.ndarray, ln: np.ndarray, ck: np.ndarray, tr: Trees, s: np.ndarray, lane: int
) -> None:
    """A punctuation or end of stream counts once every earlier number is settled."""
    while ln[lane].pog_seq >= 0 and ln[lane].expected >= ln[lane].pog_seq:
        promise(rows, ln, ck, tr, s, lane, ln[lane].pog_ts)
        ln[lane].pog_seq = ln[lane].next_pog_seq
        ln[lane].pog_ts = ln[lane].next_pog_ts
        ln[lane].pog_deadline = ln[lane].next_pog_deadline
        ln[lane].next_pog_seq = -1
        ln[lane].next_pog_deadline = INT_MAX
    if ln[lane].eos_seq >= 0 and ln[lane].expected >= ln[lane].eos_seq:
        ln[lane].eos_seq = -1
        ln[lane].eos_deadline = INT_MAX
        ln[lane].closed = 1
        set_key(rows, ln, tr, s, lane)


@inline
def touch(rows: np.ndarray, ln: np.ndarray, tr: Trees, s: np.ndarray, lane: int, now: int) -> None:
    """Any arrival of a lane clears its idle flag."""
    if ln[lane].last_arrival > INT_MIN and not ln[lane].closed:
        ln[lane].silences += later(ln[lane].last_arrival, ln[lane].idle_timeout) < now
    ln[lane].last_arrival = now
    if ln[lane].idle:
        ln[lane].idle = 0
        set_key(rows, ln, tr, s, lane)


@kernel
def mark(
    rows: np.ndarray,
    ln: np.ndarray,
    ck: np.ndarray,
    tr: Trees,
    s: np.ndarray,
    out: Out,
    row: int,
    lane: int,
    now: int,
) -> None:
    """A punctuation or end of stream for ``lane``: at once, or when earlier numbers are settled.

    One without a number follows the events that came before it. One of another incarnation than
    the lane's, or with a number beyond every jump, only shows that the source is alive.
    """
    touch(rows, ln, tr, s, lane, now)
    ts, seq, expected = rows[row].ts, rows[row].seq, ln[lane].expected
    if seq < 0:
        seq = rows[ln[lane].dq_tail].seq + 1 if ln[lane].ring_count > 0 else expected
    elif rows[row].inc != ln[lane].inc:
        return
    elif seq > expected and seq - expected >= MAX_RING:
        note(s, out, NOTE_QUARANTINE, row, MARKER_JUMP)
        return
    deadline = later(now, ln[lane].gap_timeout)
    if rows[row].kind == _POG:
        if seq <= expected:
            promise(rows, ln, ck, tr, s, lane, ts)
        else:
            promise_later(ln, lane, seq, ts, deadline)
    elif seq <= expected:
        ln[lane].eos_seq = -1
        ln[lane].eos_deadline = INT_MAX
        ln[lane].closed = 1
        set_key(rows, ln, tr, s, lane)
    elif seq != ln[lane].eos_seq:
        ln[lane].eos_seq = seq
        ln[lane].eos_deadline = deadline
    if seq > expected:
        hurry(tr.timer, lane, next_deadline(rows, ln, lane))
