"""The event loop of ``sequence`` + ``merge``: records and deadlines in the order of their instants.

At one instant records go before deadlines (SPEC 4.2), so a deadline D acts, as of D, when the
first record later than D is seen, or at the end of the input.
"""

from __future__ import annotations

import numpy as np

from edge_agent.records import Kind
from engine.kernels.integers import INT_MAX, INT_MIN, NONE
from engine.kernels.jit import inline, kernel
from engine.order.sequence.kernel import accept, buffer_row, give_up, hold, resume_held
from engine.order.sequence.markers import apply_markers, mark, next_deadline, touch
from engine.order.sequence.merge import (
    drain,
    idle_deadline,
    set_key,
)
from engine.order.sequence.state import (
    MAX_RING,
    STAGE_HELD,
    STAGE_RING,
    V_CLOCK,
    V_EVENTS,
    V_GONE,
    V_MOST,
    Out,
    Trees,
)
from engine.order.sequence.timeout import saw_arrival
from engine.order.sequence.tournament import clear_trees, set_timer

_EVENT = int(Kind.EVENT)
_POG = int(Kind.POG)
_EOS = int(Kind.EOS)
_LEAST_RING = 16


@kernel
def new_rows(
    rows: np.ndarray, lane: np.ndarray, source: np.ndarray, seq: np.ndarray, ts: np.ndarray,
    arrival: np.ndarray, inc: np.ndarray, kind: np.ndarray, types: np.ndarray,
) -> None:  # fmt: skip
    """Records as the kernels see them. ``inc kind types``: empty where no record says any."""
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
def rebuild(rows: np.ndarray, pending: int, ln: np.ndarray, tr: Trees, s: np.ndarray) -> None:
    """Rings, queues, staircases and trees from the pending rows, which come in queue order."""
    for place in range(len(tr.ring)):
        tr.ring[place] = NONE
    lanes = len(ln)
    for lane in range(lanes):
        ln[lane].head = NONE
        ln[lane].tail = NONE
        ln[lane].held_head = NONE
        ln[lane].dq_head = NONE
        ln[lane].dq_tail = NONE
        ln[lane].ring_count = 0
    for row in range(pending):
        lane = rows[row].lane
        if rows[row].stage == STAGE_RING:
            buffer_row(rows, ln, tr, row, rows[row].deadline)
        elif rows[row].stage == STAGE_HELD:
            hold(rows, ln, row)
        else:
            rows[row].nxt = NONE
            if ln[lane].head == NONE:
                ln[lane].head = row
            else:
                rows[ln[lane].tail].nxt = row
            ln[lane].tail = row
    clear_trees(tr)
    for lane in range(lanes):
        set_key(rows, ln, tr, s, lane)
        when = min(next_deadline(rows, ln, lane), idle_deadline(ln, lane))
        set_timer(tr.timer, lane, when)


@kernel
def fire(
    rows: np.ndarray,
    ln: np.ndarray,
    ck: np.ndarray,
    tr: Trees,
    s: np.ndarray,
    out: Out,
    before: int,
) -> None:
    """Act on every deadline earlier than ``before``, each as of its own instant.

    Deadlines of one instant act together, so that it does not matter in which order they are
    noticed: all gaps are given up, all silent lanes are idle, and then the merge goes on.
    """
    while True:
        now = tr.timer[1].when
        if now >= before:
            return
        acted = False
        while tr.timer[1].when <= now:
            lane = tr.timer[1].lane
            if next_deadline(rows, ln, lane) <= now:
                give_up(rows, ln, ck, tr, s, out, lane, now)
                if ln[lane].held_head != NONE:
                    resume_held(rows, ln, ck, tr, s, out, lane, now)
                acted = True
            elif idle_deadline(ln, lane) <= now:
                ln[lane].idle = 1
                set_key(rows, ln, tr, s, lane)
                acted = True
            when = min(next_deadline(rows, ln, lane), idle_deadline(ln, lane))
            set_timer(tr.timer, lane, when)
        if acted:
            drain(rows, ln, tr, s, out, now, now)


@kernel
def run(
    rows: np.ndarray,
    start: int,
    end: int,
    ln: np.ndarray,
    ck: np.ndarray,
    tr: Trees,
    s: np.ndarray,
    out: Out,
) -> None:
    """Records [start, end) in arrival order; ``start`` rows before them are pending."""
    rebuild(rows, start, ln, tr, s)
    came = start
    for row in range(start, end):
        now = rows[row].arrival
        if tr.timer[1].when < now:
            fire(rows, ln, ck, tr, s, out, now)
        s[V_CLOCK] = now
        kind, lane = rows[row].kind, rows[row].lane
        if kind == _EVENT:
            ln[lane].arrived += 1
            before = ln[lane].last_arrival
            refused = ln[lane].duplicate + ln[lane].quarantined_jump
            touch(rows, ln, tr, s, lane, now)
            accept(rows, ln, ck, tr, s, out, row, now)
            taken = refused == ln[lane].duplicate + ln[lane].quarantined_jump
            if taken and rows[row].inc == ln[lane].inc:
                saw_arrival(ln, tr.memory, s, lane, rows[row].seq, now, before)
            if ln[lane].held_head != NONE:
                resume_held(rows, ln, ck, tr, s, out, lane, now)
            drain(rows, ln, tr, s, out, now, now - 1)
            came += 1
            s[V_MOST] = max(s[V_MOST], came - s[V_EVENTS] - s[V_GONE])
        elif (kind == _POG and rows[row].plain) or kind == _EOS:
            # A lane begins with its first event or announcement: before that it hears nothing.
            if rows[row].seq >= 0:
                if lane != NONE and ln[lane].started:
                    mark(rows, ln, ck, tr, s, out, row, lane, now)
            elif rows[row].source != NONE:
                lane = ck[rows[row].source, 0].first_lane
                while lane != NONE:
                    if ln[lane].started:
                        mark(rows, ln, ck, tr, s, out, row, lane, now)
                    lane = ln[lane].next_lane
            drain(rows, ln, tr, s, out, now, now - 1)


@kernel
def flush(
    rows: np.ndarray,
    pending: int,
    ln: np.ndarray,
    ck: np.ndarray,
    tr: Trees,
    s: np.ndarray,
    out: Out,
) -> None:
    """End of the input at the last arrival: every buffer and queue is let go, in order."""
    rebuild(rows, pending, ln, tr, s)
    now = s[V_CLOCK]
    fire(rows, ln, ck, tr, s, out, now)
    for lane in range(len(ln)):
        while ln[lane].ring_count > 0 or ln[lane].held_head != NONE:
            if ln[lane].ring_count > 0:
                give_up(rows, ln, ck, tr, s, out, lane, now)
            else:
                resume_held(rows, ln, ck, tr, s, out, lane, now)
        while ln[lane].started and (ln[lane].pog_seq >= 0 or ln[lane].eos_seq >= 0):
            give_up(rows, ln, ck, tr, s, out, lane, now)
            apply_markers(rows, ln, ck, tr, s, lane)
    for lane in range(len(ln)):
        ln[lane].idle = 1
        set_key(rows, ln, tr, s, lane)
    drain(rows, ln, tr, s, out, now, now)


@kernel
def survivors(rows: np.ndarray, ln: np.ndarray, tr: Trees, keep: np.ndarray) -> int:
    """Write the rows still pending to ``keep`` in the order that ``rebuild`` needs."""
    n = 0
    for lane in range(len(ln)):
        row = ln[lane].head
        while row != NONE:
            keep[n] = row
            n += 1
            row = rows[row].nxt
        if ln[lane].ring_count > 0:
            left, seq = ln[lane].ring_count, ln[lane].expected
            mask, base = ln[lane].ring_cap - 1, ln[lane].ring_off
            while left > 0:
                row = tr.ring[base + (seq & mask)]
                if row != NONE:
                    keep[n] = row
                    n += 1
                    left -= 1
                seq += 1
        row = ln[lane].held_head
        while row != NONE:
            keep[n] = row
            n += 1
            row = rows[row].nxt
    return n


@kernel
def place_rings(rows: np.ndarray, ln: np.ndarray, low: np.ndarray, high: np.ndarray) -> int:
    """Give each lane a ring as large as this call can need; returns the sum of their sizes.

    ``low``, ``high``: room for the smallest and largest number that may meet in a lane's ring.
    """
    _needed(rows, ln, low, high)
    offset = 0
    for lane in range(len(ln)):
        capacity = _LEAST_RING
        if high[lane] > INT_MIN:
            if low[lane] <= high[lane] - MAX_RING:
                capacity = MAX_RING
            while capacity < high[lane] - low[lane] + 2 and capacity < MAX_RING:
                capacity *= 2
        ln[lane].ring_off = offset
        ln[lane].ring_cap = capacity
        offset += capacity
    return offset


@inline
def _needed(rows: np.ndarray, ln: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    for lane in range(len(ln)):
        low[lane] = ln[lane].expected if ln[lane].started else INT_MAX
        high[lane] = INT_MIN
        if ln[lane].ann_inc > ln[lane].inc:  # may begin during this call
            low[lane] = min(low[lane], ln[lane].ann_first)
    for row in range(len(rows)):
        if rows[row].kind == _EVENT:
            lane, seq = rows[row].lane, rows[row].seq
            low[lane] = min(low[lane], seq)
            high[lane] = max(high[lane], seq)
