"""``merge``: the lanes' queues in one order by reference time (R19 3.2.2, Fig 3.3)."""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.engine.core.clocks.epochs import reference
from slackwater.engine.core.released import IN_ORDER, LATE, LATE_DROPPED, RESIDUAL
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, NONE
from slackwater.engine.order.sequence.state import (
    NOTE_PROGRESS,
    NOTE_QUARANTINE,
    QUARANTINED_FUTURE,
    STAGE_QUEUE,
    Sequencer,
)
from slackwater.engine.order.sequence.timeouts import add_wait

# Winner trees over the lanes: for the first lane of the merge, and for the next deadline.
#
# A node stores the winner's key, so that an update on the way to the root reads one neighbour per
# level, independent of earlier reads: O(log lanes), without a chain of cache misses.
#
# Source: Knuth, The Art of Computer Programming 3, 5.4.1 (tree of winners).


@kernel
def clear_trees(s: Sequencer) -> None:
    """Reset both trees: no lane is in the merge or has a deadline."""
    size = len(s.merge) // 2
    for place in range(2 * size - 1, 0, -1):
        first, due = s.merge[place], s.timer[place]
        first.key = first.tie = due.key = INT_MAX
        due.tie = 0
        first.lane = due.lane = place - size if place >= size else s.merge[2 * place].lane


@kernel
def set_leaf(tree: np.ndarray, lane: int, key: int, tie: int) -> None:
    """Set the leaf of ``lane`` to (key, tie); of equal keys the one in the left half wins."""
    place = lane + len(tree) // 2
    if tree[place].key == key and tree[place].tie == tie:
        return
    winner = lane
    while True:
        tree[place].key = key
        tree[place].tie = tie
        tree[place].lane = winner
        if place == 1:
            return
        other = place ^ 1
        first, second = tree[other].key, tree[other].tie
        if first < key or (first == key and (second < tie or (second == tie and other < place))):
            key, tie, winner = first, second, tree[other].lane
        place >>= 1


@inline
def set_deadline(timer: np.ndarray, lane: int, when: int) -> None:
    """Set the next deadline of the lane to ``when`` if that is earlier. Stale ones are ignored."""
    if when < timer[lane + len(timer) // 2].key:
        set_leaf(timer, lane, when, 0)


# ``merge``: the lanes' queues in one order by reference time (R19 3.2.2, Fig 3.3).
#
# The heads of the queues are compared by ``ref``, ties by (source, seq). A lane with an empty queue
# blocks the merge until its timeout since its last arrival is over; then it is idle and is skipped,
# until its next arrival. A punctuation that promises more than the smallest head unblocks at once.
# An event whose ``ref`` is below the last released one, or below a promise that the merge has
# passed on, is released at once and counts as residual disorder.
#
# A winner tree over the lanes gives the smallest head in O(log lanes) per event.
#
# When not to use: a single source, or clocks that were never compared with the engine's (all
# offsets 0): then ``ref`` is only as good as the devices' clocks.


TIE_NOW: Final = -2
"""The tie rank of a head that is released at once: before every blocking lane."""
TIE_BLOCK: Final = -1


@inline
def set_key(s: Sequencer, lane: int) -> None:
    """Recompute the lane's key in the merge: of its head, a promise, a block, or nothing."""
    of = s.lanes[lane]
    head = of.head
    if head != NONE:
        if s.rows[head].ref < s.state[0].frontier:
            key, tie = INT_MIN, TIE_NOW
        else:
            key, tie = s.rows[head].ref, of.rank
    elif of.closed or of.idle:
        key, tie = INT_MAX, INT_MAX
    else:
        key, tie = of.bound, TIE_BLOCK
    set_leaf(s.merge, lane, key, tie)


@inline
def clock_of(s: Sequencer, row: int) -> int:
    """The code of the clock that stamped ``row``, an event of a lane."""
    return int(s.clock[row]) if len(s.clock) else int(s.lanes[s.rows[row].lane].source)


@inline
def is_in_future(s: Sequencer, ref: int, unc: int, arrival: int) -> bool:
    """Whether ``ref`` is later than ``arrival`` by more than the future guard allows."""
    guard = s.state[0].guard
    return guard >= 0 and ref > add_wait(arrival, add_wait(unc, guard))


@inline
def latest_of(s: Sequencer, row: int) -> int:
    """The latest possible time [ns] of ``row``; INT_MAX: the future guard refuses it, as it is too
    far after its arrival.
    """
    new = s.rows[row]
    ref, unc, _ = reference(s.clocks, s.state[0].default_uncertainty, clock_of(s, row), new.ts)
    return INT_MAX if is_in_future(s, ref, unc, new.arrival) else int(ref + unc)


@inline
def emit(s: Sequencer, row: int, now: int, status: int) -> None:
    """Release ``row`` at arrival-clock instant ``now``."""
    state = s.state[0]
    new = s.rows[row]
    event = s.events[state.events]
    event.row = row
    event.lane = new.lane
    event.release = now
    event.ref = new.ref
    event.unc = new.unc
    event.status = status
    state.events += 1


@kernel
def note(s: Sequencer, kind: int) -> int:
    """Begin a note after the events released so far; returns its place."""
    state = s.state[0]
    place = state.notes
    s.notes[place].kind = kind
    s.notes[place].released = state.events
    state.notes = place + 1
    return int(place)


@kernel
def note_refused(s: Sequencer, row: int, reason: int) -> None:
    """Report ``row`` as refused, for ``reason``."""
    refused = s.notes[note(s, NOTE_QUARANTINE)]
    refused.row = row
    refused.reason = reason


@inline
def correct(s: Sequencer, row: int) -> bool:
    """Set the reference time of ``row``; False: the future guard quarantines it."""
    state = s.state[0]
    new = s.rows[row]
    of = s.lanes[new.lane]
    ref, unc, epoch = reference(s.clocks, state.default_uncertainty, clock_of(s, row), new.ts)
    new.ref = ref
    new.unc = unc
    new.epoch = epoch
    if is_in_future(s, ref, unc, new.arrival):
        note_refused(s, row, QUARANTINED_FUTURE)
        state.gone += 1
        of.quarantined_future += 1
        return False
    note_time(s, row)
    return True


@kernel
def refuse(s: Sequencer, row: int, reason: int) -> None:
    """Refuse ``row``: it is reported with its reference time, and not released."""
    state = s.state[0]
    new = s.rows[row]
    ref, unc, _ = reference(s.clocks, state.default_uncertainty, clock_of(s, row), new.ts)
    new.ref = ref
    new.unc = unc
    new.stage = 0
    note_refused(s, row, reason)
    state.gone += 1


@inline
def note_time(s: Sequencer, row: int) -> None:
    """Update the newest event time of lane and clock by a trusted event."""
    ts = s.rows[row].ts
    of, clock = s.lanes[s.rows[row].lane], s.clocks[clock_of(s, row)]
    of.max_ts = max(of.max_ts, ts)
    clock.max_ts = max(clock.max_ts, ts)


@inline
def push(s: Sequencer, row: int) -> None:
    """Append an event, the next one by number, to its lane's queue."""
    new = s.rows[row]
    lane = new.lane
    of = s.lanes[lane]
    new.stage = STAGE_QUEUE
    new.nxt = NONE
    s.state[0].queued += 1
    of.last_low = new.ref - new.unc
    if new.ref < of.top_ref:
        of.backwards += 1
        of.backwards_ns = max(of.backwards_ns, of.top_ref - new.ref)
    else:
        of.top_ref = new.ref
    if of.head == NONE:
        of.head = row
        of.tail = row
        set_key(s, lane)
    else:
        s.rows[of.tail].nxt = row
        of.tail = row


@kernel
def push_late(s: Sequencer, row: int, now: int) -> None:
    """Process a late event: drop it, release it at once, or insert it into its lane's queue."""
    state = s.state[0]
    new = s.rows[row]
    lane = new.lane
    of = s.lanes[lane]
    new.late = 1
    if not state.late_pass:
        of.late_dropped += 1
        new.stage = 0
        emit(s, row, now, LATE_DROPPED)
        return
    of.late_passed += 1
    if new.ref < state.frontier:
        new.stage = 0
        emit(s, row, now, LATE)
        return
    insert(s, row)


@kernel
def insert(s: Sequencer, row: int) -> None:
    """Insert an event into its lane's queue, by ``ref``."""
    new = s.rows[row]
    lane = new.lane
    of = s.lanes[lane]
    new.stage = STAGE_QUEUE
    s.state[0].queued += 1
    before, after = NONE, of.head
    while after != NONE and s.rows[after].ref <= new.ref:
        before, after = after, s.rows[after].nxt
    new.nxt = after
    if before == NONE:
        of.head = row
    else:
        s.rows[before].nxt = row
    if after == NONE:
        of.tail = row
    set_key(s, lane)


@inline
def _pop(s: Sequencer, lane: int, now: int) -> None:
    """Release the head of ``lane``."""
    state = s.state[0]
    of = s.lanes[lane]
    row = of.head
    of.head = s.rows[row].nxt
    if of.head == NONE:
        of.tail = NONE
    s.rows[row].stage = 0
    state.queued -= 1
    below = s.rows[row].ref < state.frontier
    if not below:
        state.frontier = s.rows[row].ref
    if s.rows[row].late:
        emit(s, row, now, LATE)
    elif not below:
        of.in_order += 1
        emit(s, row, now, IN_ORDER)
    elif state.residual_drop:
        of.residual_dropped += 1
        emit(s, row, now, LATE_DROPPED)
    else:
        of.residual += 1
        emit(s, row, now, RESIDUAL)
    set_key(s, lane)


@inline
def idle_deadline(s: Sequencer, lane: int) -> int:
    """The instant [ns] at which an empty lane stops blocking the merge."""
    of = s.lanes[lane]
    if of.head != NONE or of.idle or of.closed:
        return INT_MAX
    return add_wait(of.last_arrival, of.idle_timeout)


@inline
def drain(s: Sequencer, now: int, passed: int) -> None:
    """Release every head that no lane can still precede, at instant ``now``.

    ``passed``: deadlines up to this instant are over; those of ``now`` are not while records of
    that instant may follow.
    """
    state = s.state[0]
    blocker = state.blocker
    while True:
        first = s.merge[1]
        lane, key, tie = first.lane, first.key, first.tie
        if key == INT_MAX and tie == INT_MAX:
            state.blocker = NONE
            state.since = INT_MAX
            return
        if s.lanes[lane].head != NONE:
            # The other lanes continue: they waited for the lane that blocked until now.
            if state.since < now and lane != blocker and tie != TIE_NOW:
                s.lanes[blocker].blocked_ns += now - state.since
                state.since = INT_MAX
            _pop(s, lane, now)
            continue
        deadline = idle_deadline(s, lane)
        if deadline <= passed:
            s.lanes[lane].idle = 1
            set_key(s, lane)
            continue
        set_deadline(s.timer, lane, deadline)
        if key > state.frontier:  # a promise of silence: progress without an event
            state.frontier = key
            step = s.notes[note(s, NOTE_PROGRESS)]
            step.frontier = key
            step.at = now
        state.blocker = lane
        if state.queued == 0:
            state.since = INT_MAX
        elif state.since == INT_MAX:
            state.since = now
        return
