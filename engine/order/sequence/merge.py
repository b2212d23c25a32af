"""``merge``: the lanes' queues put into one order by reference time (R19 3.2.2, Fig 3.3).

The heads of the queues are compared by ``ref``, ties by (source, seq). A lane with an empty queue
blocks the merge until its own timeout has passed since its last arrival; then it is idle and is
skipped, and any arrival clears the flag. A punctuation that promises more than the smallest head
unblocks at once. An event whose ``ref`` is below the last released one, or below a promise that the
merge has passed on, goes out at once and counts as residual disorder.

A winner tree over the lanes gives the smallest head in O(log lanes) per event.

When not to use: a single source, or one whose clock was never compared with the engine's (all
offsets 0): then ``ref`` is only as good as the devices' own clocks.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.clocks.epochs import reference
from engine.kernels.integers import INT_MAX, INT_MIN, NONE
from engine.kernels.jit import inline, kernel
from engine.order.sequence.state import (
    NOTE_PROGRESS,
    NOTE_QUARANTINE,
    QUARANTINED_FUTURE,
    S_DEFAULT_UNC,
    S_GUARD,
    S_LATE_PASS,
    S_RESIDUAL_DROP,
    STAGE_QUEUE,
    V_BLOCKER,
    V_EVENTS,
    V_FRONTIER,
    V_GONE,
    V_NOTES,
    V_QUEUED,
    V_SINCE,
    Out,
    Trees,
)
from engine.order.sequence.timeout import later
from engine.order.sequence.tournament import hurry, set_merge
from engine.stream.released import IN_ORDER, LATE, LATE_DROPPED, RESIDUAL

TIE_NOW: Final = -2
"""Tie rank of a head that must go at once: before every blocking lane."""
TIE_BLOCK: Final = -1


@inline
def set_key(rows: np.ndarray, ln: np.ndarray, tr: Trees, s: np.ndarray, lane: int) -> None:
    """Recompute what the lane brings to the merge: its head, a promise, a block, or nothing."""
    head = ln[lane].head
    if head != NONE:
        if rows[head].ref < s[V_FRONTIER]:
            key, tie = INT_MIN, TIE_NOW
        else:
            key, tie = rows[head].ref, ln[lane].rank
    elif ln[lane].closed or ln[lane].idle:
        key, tie = INT_MAX, INT_MAX
    else:
        key, tie = ln[lane].bound, TIE_BLOCK
    set_merge(tr.merge, lane, key, tie)


@inline
def beyond(s: np.ndarray, ref: int, unc: int, arrival: int) -> bool:
    """Whether ``ref`` lies beyond ``arrival`` by more than the future guard allows."""
    guard = s[S_GUARD]
    return guard >= 0 and ref > later(arrival, later(unc, guard))


@inline
def is_future(rows: np.ndarray, ln: np.ndarray, ck: np.ndarray, s: np.ndarray, row: int) -> bool:
    """Whether the future guard sets ``row`` aside: it lies beyond its arrival by too much."""
    ref, unc, _ = reference(ck, s[S_DEFAULT_UNC], ln[rows[row].lane].source, rows[row].ts)
    return beyond(s, ref, unc, rows[row].arrival)


@inline
def emit(rows: np.ndarray, s: np.ndarray, out: Out, row: int, now: int, status: int) -> None:
    """Release ``row`` at arrival-clock instant ``now``."""
    i = s[V_EVENTS]
    out.event[i].row = row
    out.event[i].lane = rows[row].lane
    out.event[i].release = now
    out.event[i].ref = rows[row].ref
    out.event[i].unc = rows[row].unc
    out.event[i].status = status
    s[V_EVENTS] = i + 1


@kernel
def note(s: np.ndarray, out: Out, kind: int, first: int, second: int) -> int:
    """Begin a note after the events released so far; returns its place."""
    i = s[V_NOTES]
    out.note[i, 0] = kind
    out.note[i, 1] = s[V_EVENTS]
    out.note[i, 2] = first
    out.note[i, 3] = second
    s[V_NOTES] = i + 1
    return int(i)


@inline
def correct(
    rows: np.ndarray, ln: np.ndarray, ck: np.ndarray, s: np.ndarray, out: Out, row: int
) -> bool:
    """Give ``row`` its reference time; False when the future guard quarantines it."""
    ref, unc, epoch = reference(ck, s[S_DEFAULT_UNC], ln[rows[row].lane].source, rows[row].ts)
    rows[row].ref = ref
    rows[row].unc = unc
    rows[row].epoch = epoch
    if beyond(s, ref, unc, rows[row].arrival):
        note(s, out, NOTE_QUARANTINE, row, QUARANTINED_FUTURE)
        s[V_GONE] += 1
        ln[rows[row].lane].quarantined_future += 1
        return False
    saw_ts(rows, ln, row)
    return True


@kernel
def set_aside(
    rows: np.ndarray, ln: np.ndarray, ck: np.ndarray, s: np.ndarray, out: Out, row: int, reason: int
) -> None:
    """``row`` goes no further; it is reported with its reference time."""
    ref, unc, _ = reference(ck, s[S_DEFAULT_UNC], ln[rows[row].lane].source, rows[row].ts)
    rows[row].ref = ref
    rows[row].unc = unc
    rows[row].stage = 0
    note(s, out, NOTE_QUARANTINE, row, reason)
    s[V_GONE] += 1


@inline
def saw_ts(rows: np.ndarray, ln: np.ndarray, row: int) -> None:
    """The lane's newest event time, which only events that are trusted move."""
    lane = rows[row].lane
    ln[lane].max_ts = max(ln[lane].max_ts, rows[row].ts)


@inline
def push(rows: np.ndarray, ln: np.ndarray, tr: Trees, s: np.ndarray, row: int) -> None:
    """Append an event that is next by sequence number to its lane's queue."""
    lane = rows[row].lane
    rows[row].stage = STAGE_QUEUE
    rows[row].nxt = NONE
    s[V_QUEUED] += 1
    ln[lane].last_ref = rows[row].ref
    if rows[row].ref < ln[lane].top_ref:
        ln[lane].backwards += 1
        ln[lane].backwards_ns = max(ln[lane].backwards_ns, ln[lane].top_ref - rows[row].ref)
    else:
        ln[lane].top_ref = rows[row].ref
    if ln[lane].head == NONE:
        ln[lane].head = row
        ln[lane].tail = row
        set_key(rows, ln, tr, s, lane)
    else:
        rows[ln[lane].tail].nxt = row
        ln[lane].tail = row


@kernel
def push_late(
    rows: np.ndarray, ln: np.ndarray, tr: Trees, s: np.ndarray, out: Out, row: int, now: int
) -> None:
    """A late event: dropped, sent at once, or put among its lane's queue by ``ref``."""
    lane = rows[row].lane
    rows[row].late = 1
    if not s[S_LATE_PASS]:
        ln[lane].late_dropped += 1
        rows[row].stage = 0
        emit(rows, s, out, row, now, LATE_DROPPED)
        return
    ln[lane].late_passed += 1
    if rows[row].ref < s[V_FRONTIER]:
        rows[row].stage = 0
        emit(rows, s, out, row, now, LATE)
        return
    rows[row].stage = STAGE_QUEUE
    s[V_QUEUED] += 1
    before, after = NONE, ln[lane].head
    while after != NONE and rows[after].ref <= rows[row].ref:
        before, after = after, rows[after].nxt
    rows[row].nxt = after
    if before == NONE:
        ln[lane].head = row
    else:
        rows[before].nxt = row
    if after == NONE:
        ln[lane].tail = row
    set_key(rows, ln, tr, s, lane)


@inline
def _pop(
    rows: np.ndarray, ln: np.ndarray, tr: Trees, s: np.ndarray, out: Out, lane: int, now: int
) -> None:
    """Release the head of ``lane``."""
    row = ln[lane].head
    ln[lane].head = rows[row].nxt
    if ln[lane].head == NONE:
        ln[lane].tail = NONE
    rows[row].stage = 0
    s[V_QUEUED] -= 1
    below = rows[row].ref < s[V_FRONTIER]
    if not below:
        s[V_FRONTIER] = rows[row].ref
    if rows[row].late:
        emit(rows, s, out, row, now, LATE)
    elif not below:
        ln[lane].in_order += 1
        emit(rows, s, out, row, now, IN_ORDER)
    elif s[S_RESIDUAL_DROP]:
        ln[lane].residual_dropped += 1
        emit(rows, s, out, row, now, LATE_DROPPED)
    else:
        ln[lane].residual += 1
        emit(rows, s, out, row, now, RESIDUAL)
    set_key(rows, ln, tr, s, lane)


@inline
def idle_deadline(ln: np.ndarray, lane: int) -> int:
    """When an empty lane stops blocking the merge."""
    if ln[lane].head != NONE or ln[lane].idle or ln[lane].closed:
        return INT_MAX
    return later(ln[lane].last_arrival, ln[lane].idle_timeout)


@inline
def drain(
    rows: np.ndarray, ln: np.ndarray, tr: Trees, s: np.ndarray, out: Out, now: int, passed: int
) -> None:
    """Release every head that no lane can still precede, at instant ``now``.

    ``passed``: deadlines up to here are over; those of ``now`` itself are not while its records
    are still coming.
    """
    blocker = s[V_BLOCKER]
    while True:
        lane, key = tr.merge[1].lane, tr.merge[1].key
        if key == INT_MAX and tr.merge[1].tie == INT_MAX:
            s[V_BLOCKER] = NONE
            s[V_SINCE] = INT_MAX
            return
        if ln[lane].head != NONE:
            # Others go on: what they had waited for was the lane that blocked until now.
            if s[V_SINCE] < now and lane != blocker and tr.merge[1].tie != TIE_NOW:
                ln[blocker].blocked_ns += now - s[V_SINCE]
                s[V_SINCE] = INT_MAX
            _pop(rows, ln, tr, s, out, lane, now)
            continue
        deadline = idle_deadline(ln, lane)
        if deadline <= passed:
            ln[lane].idle = 1
            set_key(rows, ln, tr, s, lane)
            continue
        hurry(tr.timer, lane, deadline)
        if key > s[V_FRONTIER]:  # a promise of silence: progress without an event
            s[V_FRONTIER] = key
            note(s, out, NOTE_PROGRESS, key, now)
        s[V_BLOCKER] = lane
        if s[V_QUEUED] == 0:
            s[V_SINCE] = INT_MAX
        elif s[V_SINCE] == INT_MAX:
            s[V_SINCE] = now
        return
