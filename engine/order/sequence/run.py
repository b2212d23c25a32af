"""The event loop of ``sequence`` + ``merge``: records and deadlines in the order of their instants.

At one instant records come before deadlines (SPEC 4.2), so a deadline D fires, as of D, at the
first record later than D, or at the end of the input.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.edge_agent.records import Kind
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, NONE
from slackwater.engine.order.sequence.merge import (
    clear_trees,
    drain,
    idle_deadline,
    set_key,
    set_leaf,
)
from slackwater.engine.order.sequence.numbers import (
    accept,
    apply_markers,
    buffer_row,
    clear_idle,
    declare_missing,
    hold,
    next_deadline,
    resume_held,
    take_marker,
)
from slackwater.engine.order.sequence.state import (
    MAX_RING,
    MISSING_KEPT,
    STAGE_HELD,
    STAGE_RING,
    Sequencer,
)
from slackwater.engine.order.sequence.timeouts import learn_arrival

_EVENT = int(Kind.EVENT)
_POG = int(Kind.POG)
_EOS = int(Kind.EOS)
_LEAST_RING = 16


@kernel
def new_rows(
    rows: np.ndarray, lane: np.ndarray, source: np.ndarray, seq: np.ndarray, ts: np.ndarray,
    arrival: np.ndarray, inc: np.ndarray, kind: np.ndarray, types: np.ndarray,
) -> None:  # fmt: skip
    """Write records as ROW. ``inc kind types``: empty if no record has one."""
    for i in range(len(rows)):
        rows[i].seq = seq[i]
        rows[i].inc = inc[i] if len(inc) else 0
        rows[i].ts = ts[i]
        rows[i].arrival = arrival[i]
        rows[i].ref = 0
        rows[i].unc = 0
        rows[i].lane = lane[i]
        rows[i].source = source[i]
        rows[i].epoch = 0
        rows[i].kind = kind[i] if len(kind) else _EVENT
        rows[i].stage = 0
        rows[i].late = 0
        rows[i].plain = types[i] < 0 if len(types) else 1


@kernel
def rebuild(s: Sequencer, pending: int) -> None:
    """Rebuild rings, queues, staircases and trees from the pending rows, in queue order."""
    for place in range(len(s.ring)):
        s.ring[place] = NONE
    for lane in range(len(s.lanes)):
        of = s.lanes[lane]
        of.head, of.tail, of.held_head, of.dq_head, of.dq_tail = NONE, NONE, NONE, NONE, NONE
        of.ring_count = 0
    for row in range(pending):
        lane = s.rows[row].lane
        if s.rows[row].stage == STAGE_RING:
            buffer_row(s, row, s.rows[row].deadline)
        elif s.rows[row].stage == STAGE_HELD:
            hold(s, row)
        else:
            s.rows[row].nxt = NONE
            if s.lanes[lane].head == NONE:
                s.lanes[lane].head = row
            else:
                s.rows[s.lanes[lane].tail].nxt = row
            s.lanes[lane].tail = row
    clear_trees(s)
    for lane in range(len(s.lanes)):
        set_key(s, lane)
        when = min(next_deadline(s, lane), idle_deadline(s, lane))
        set_leaf(s.timer, lane, when, 0)


@kernel
def fire(s: Sequencer, before: int) -> None:
    """Fire every deadline earlier than ``before``, each as of its instant.

    Deadlines of one instant fire together, so that their order does not matter: all gaps are
    declared missing, all silent lanes are idle, and then the merge continues.
    """
    while True:
        now = s.timer[1].key
        if now >= before:
            return
        acted = False
        while s.timer[1].key <= now:
            lane = s.timer[1].lane
            if next_deadline(s, lane) <= now:
                declare_missing(s, lane, now)
                if s.lanes[lane].held_head != NONE:
                    resume_held(s, lane, now)
                acted = True
            elif idle_deadline(s, lane) <= now:
                s.lanes[lane].idle = 1
                set_key(s, lane)
                acted = True
            when = min(next_deadline(s, lane), idle_deadline(s, lane))
            set_leaf(s.timer, lane, when, 0)
        if acted:
            drain(s, now, now)


@kernel
def run(s: Sequencer, start: int, end: int) -> None:
    """Process records [start, end) in arrival order; the ``start`` rows before are pending."""
    state = s.state[0]
    rebuild(s, start)
    came = start
    for row in range(start, end):
        now = s.rows[row].arrival
        if s.timer[1].key < now:
            fire(s, now)
        state.clock = now
        kind = s.rows[row].kind
        if kind == _EVENT:
            _take_event(s, row, now)
            came += 1
            state.most = max(state.most, came - state.events - state.gone)
        elif (kind == _POG and s.rows[row].plain) or kind == _EOS:
            _take_marker(s, row, now)


@inline
def _take_event(s: Sequencer, row: int, now: int) -> None:
    new, lane = s.rows[row], s.rows[row].lane
    of = s.lanes[lane]
    of.arrived += 1
    before = of.last_arrival
    refused = of.duplicate + of.quarantined_jump
    clear_idle(s, lane, now)
    accept(s, row, now)
    if new.seq >= 0 and refused == of.duplicate + of.quarantined_jump and new.inc == of.inc:
        learn_arrival(s.state[0], of, s.memories[of.memory], new.seq, now, before)
    if of.held_head != NONE:
        resume_held(s, lane, now)
    drain(s, now, now - 1)


@inline
def _take_marker(s: Sequencer, row: int, now: int) -> None:
    """Process a marker; a lane that has not begun with an event or announcement ignores it."""
    lane = s.rows[row].lane
    if s.rows[row].seq >= 0:
        if lane != NONE and s.lanes[lane].started:
            take_marker(s, row, lane, now)
    elif s.rows[row].source != NONE:
        lane = s.clocks[s.rows[row].source].first_lane
        while lane != NONE:
            if s.lanes[lane].started:
                take_marker(s, row, lane, now)
            lane = s.lanes[lane].next_lane
    drain(s, now, now - 1)


@kernel
def flush(s: Sequencer, pending: int) -> None:
    """End of the input at the last arrival: release every buffer and queue, in order."""
    rebuild(s, pending)
    now = s.state[0].clock
    fire(s, now)
    for lane in range(len(s.lanes)):
        of = s.lanes[lane]
        while of.ring_count > 0 or of.held_head != NONE:
            if of.ring_count > 0:
                declare_missing(s, lane, now)
            else:
                resume_held(s, lane, now)
        while of.started and (of.pog_seq >= 0 or of.eos_seq >= 0):
            declare_missing(s, lane, now)
            apply_markers(s, lane)
    for lane in range(len(s.lanes)):
        s.lanes[lane].idle = 1
        set_key(s, lane)
    drain(s, now, now)


@kernel
def survivors(s: Sequencer, keep: np.ndarray) -> int:
    """Write the pending rows to ``keep``, in the order for ``rebuild``; returns their number."""
    n = 0
    for lane in range(len(s.lanes)):
        of = s.lanes[lane]
        n = _list(s, of.head, keep, n)
        left, seq = of.ring_count, of.expected
        while left > 0:
            row = s.ring[of.ring_off + (seq & (of.ring_cap - 1))]
            if row != NONE:
                keep[n] = row
                n += 1
                left -= 1
            seq += 1
        n = _list(s, of.held_head, keep, n)
    return n


@inline
def _list(s: Sequencer, row: int, keep: np.ndarray, n: int) -> int:
    while row != NONE:
        keep[n] = row
        n += 1
        row = s.rows[row].nxt
    return n


@kernel
def place_rings(rows: np.ndarray, lanes: np.ndarray, low: np.ndarray, high: np.ndarray) -> int:
    """Assign each lane a ring of the size that this call may need; returns the sum of the sizes.

    ``low``, ``high``: scratch: the smallest and largest number in each lane's ring.
    """
    for lane in range(len(lanes)):
        low[lane] = lanes[lane].expected if lanes[lane].started else INT_MAX
        high[lane] = INT_MIN
        if lanes[lane].ann_inc > lanes[lane].inc:  # may begin during this call
            low[lane] = min(low[lane], lanes[lane].ann_first)
    for row in range(len(rows)):
        if rows[row].kind == _EVENT and rows[row].seq >= 0:
            lane, seq = rows[row].lane, rows[row].seq
            low[lane] = min(low[lane], seq)
            high[lane] = max(high[lane], seq)
    offset = 0
    for lane in range(len(lanes)):
        capacity = _LEAST_RING
        if high[lane] > INT_MIN:
            if low[lane] <= high[lane] - MAX_RING:
                capacity = MAX_RING
            while capacity < high[lane] - low[lane] + 2 and capacity < MAX_RING:
                capacity *= 2
        lanes[lane].ring_off = offset
        lanes[lane].ring_cap = capacity
        offset += capacity
    return offset


_RUNS_OF_AN_EVENT: Final = 3
"""The most runs that an event adds: two of a new incarnation, and the gap before it."""
_RUNS_OF_MARKERS: Final = 5
"""The most runs by an announcement and by waiting markers."""


@kernel
def place_runs(rows: np.ndarray, lanes: np.ndarray) -> int:
    """Assign each lane room for all runs that this call may add; returns the sum of the rooms."""
    markers = 0
    for lane in range(len(lanes)):
        lanes[lane].runs_cap = lanes[lane].missing_n + _RUNS_OF_MARKERS
    for row in range(len(rows)):
        if rows[row].kind == _EVENT:
            lanes[rows[row].lane].runs_cap += _RUNS_OF_AN_EVENT
        else:
            markers += 1
    offset = 0
    for lane in range(len(lanes)):
        lanes[lane].runs_off = offset
        lanes[lane].runs_cap = min(lanes[lane].runs_cap + markers, MISSING_KEPT)
        offset += lanes[lane].runs_cap
    return offset


@kernel
def move_runs(lanes: np.ndarray, packed: np.ndarray, placed: np.ndarray, back: bool) -> None:
    """Copy the runs of all lanes, ``packed`` one after another, to their places, or ``back``."""
    at = 0
    for lane in range(len(lanes)):
        for i in range(lanes[lane].missing_n):
            place = lanes[lane].runs_off + i
            if back:
                packed[at] = placed[place]
            else:
                placed[place] = packed[at]
            at += 1
