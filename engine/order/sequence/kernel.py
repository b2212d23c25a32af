"""``sequence``: one source's events put into the order of their numbers (R19 3.2.1, Fig 4.2).

Equal to the expected number: release it and the run of buffered successors. Larger: buffer.
Smaller: a duplicate if it was released, else late. When the earliest deadline of the buffer
passes, the numbers up to the first buffered one are missing and its run is released as of that
deadline, whenever that is noticed. A new incarnation waits until the old one is drained.

The reorder buffer is a ring indexed by number (O(1)); deadlines are kept as a staircase: of two
buffered events the one with the smaller number and the later deadline can never decide.
"""

from __future__ import annotations

import numpy as np

from engine.clocks.epochs import reference
from engine.kernels.integers import INT_MAX, INT_MIN, NONE
from engine.kernels.jit import inline, kernel
from engine.order.sequence.markers import apply_markers, next_deadline
from engine.order.sequence.merge import (
    correct,
    is_future,
    note,
    push,
    push_late,
    saw_ts,
    set_aside,
    set_key,
)
from engine.order.sequence.state import (
    DUPLICATE,
    MISSING_KEPT,
    NOTE_GAP,
    QUARANTINED_JUMP,
    S_DEFAULT_UNC,
    STAGE_HELD,
    STAGE_RING,
    Out,
    Trees,
)
from engine.order.sequence.timeout import later, saw_held, saw_in_order
from engine.order.sequence.tournament import hurry


@inline
def to_merge(
    rows: np.ndarray, ln: np.ndarray, ck: np.ndarray, tr: Trees, s: np.ndarray, out: Out, row: int
) -> None:
    """The next event by number leaves the sequence stage."""
    if correct(rows, ln, ck, s, out, row):
        push(rows, ln, tr, s, row)
    else:
        rows[row].stage = 0


@inline
def buffer_row(rows: np.ndarray, ln: np.ndarray, tr: Trees, row: int, deadline: int) -> None:
    """Put ``row`` into its lane's ring and its deadline into the staircase."""
    lane = rows[row].lane
    tr.ring[ln[lane].ring_off + (rows[row].seq & (ln[lane].ring_cap - 1))] = row
    ln[lane].ring_count += 1
    rows[row].stage = STAGE_RING
    rows[row].deadline = deadline
    tail = ln[lane].dq_tail
    if tail != NONE and rows[tail].seq > rows[row].seq and rows[tail].deadline <= deadline:
        return  # the usual late filler of a gap: a later number must be let go first anyway
    after, before = NONE, ln[lane].dq_tail
    while before != NONE and rows[before].seq > rows[row].seq:
        after, before = before, rows[before].dq_prev
    if after != NONE and rows[after].deadline <= deadline:
        return
    while before != NONE and rows[before].deadline >= deadline:
        before = rows[before].dq_prev
    rows[row].dq_prev = before
    rows[row].dq_next = after
    if before == NONE:
        ln[lane].dq_head = row
    else:
        rows[before].dq_next = row
    if after == NONE:
        ln[lane].dq_tail = row
    else:
        rows[after].dq_prev = row


@inline
def release_run(
    rows: np.ndarray,
    ln: np.ndarray,
    ck: np.ndarray,
    tr: Trees,
    s: np.ndarray,
    out: Out,
    lane: int,
    now: int,
    learn: bool,
) -> None:
    """Let the run of buffered events from the expected number on go to the merge."""
    if ln[lane].ring_count == 0:
        if ln[lane].pog_seq >= 0 or ln[lane].eos_seq >= 0:
            apply_markers(rows, ln, ck, tr, s, lane)
        return
    mask = ln[lane].ring_cap - 1
    while ln[lane].ring_count > 0:
        place = ln[lane].ring_off + (ln[lane].expected & mask)
        row = tr.ring[place]
        if row == NONE:
            break
        tr.ring[place] = NONE
        ln[lane].ring_count -= 1
        ln[lane].expected += 1
        if ln[lane].dq_head == row:  # before the row's links are used for the queue
            ln[lane].dq_head = rows[row].dq_next
        if learn:
            saw_held(ln, tr.memory, s, lane, now - rows[row].arrival)
        to_merge(rows, ln, ck, tr, s, out, row)
    if ln[lane].dq_head == NONE:
        ln[lane].dq_tail = NONE
    else:
        rows[ln[lane].dq_head].dq_prev = NONE
    apply_markers(rows, ln, ck, tr, s, lane)


@kernel
def remember_missing(
    ln: np.ndarray, mm: np.ndarray, lane: int, inc: int, first: int, end: int, counted: int
) -> None:
    """Keep the run [first, end) of ``inc`` so that a late event is told from a duplicate.

    ``counted``: 1 when its numbers were reported as missing, 0 when nobody waited for them.
    """
    n = ln[lane].missing_n
    kept = mm[ln[lane].memory].missing
    if n == MISSING_KEPT:
        if kept[0, 0] == ln[lane].inc:
            ln[lane].forgotten = max(ln[lane].forgotten, kept[0, 2])
        for i in range(1, n):
            for part in range(4):
                kept[i - 1, part] = kept[i, part]
        n -= 1
    kept[n, 0] = inc
    kept[n, 1] = first
    kept[n, 2] = end
    kept[n, 3] = counted
    ln[lane].missing_n = n + 1


@kernel
def take_missing(ln: np.ndarray, mm: np.ndarray, lane: int, inc: int, seq: int) -> bool:
    """True (once) when (inc, seq) was passed over; it is not missing any more."""
    kept = mm[ln[lane].memory].missing
    n = ln[lane].missing_n
    for i in range(n):
        if kept[i, 0] == inc and kept[i, 1] <= seq < kept[i, 2]:
            end, counted = kept[i, 2], kept[i, 3]
            kept[i, 2] = seq
            if kept[i, 1] == seq:
                for j in range(i + 1, n):
                    for part in range(4):
                        kept[j - 1, part] = kept[j, part]
                ln[lane].missing_n = n - 1
            if seq + 1 < end:
                remember_missing(ln, mm, lane, inc, seq + 1, end, counted)
            ln[lane].missing_filled += counted
            return True
    return False


@kernel
def is_open(ln: np.ndarray, mm: np.ndarray, lane: int, inc: int) -> bool:
    """Whether the numbers after the last one of an earlier start are remembered as missing."""
    kept = mm[ln[lane].memory].missing
    found = False
    for i in range(ln[lane].missing_n):
        found |= kept[i, 0] == inc and kept[i, 2] == INT_MAX
    return found


@kernel
def give_up(
    rows: np.ndarray,
    ln: np.ndarray,
    ck: np.ndarray,
    tr: Trees,
    s: np.ndarray,
    out: Out,
    lane: int,
    now: int,
) -> None:
    """The gap's deadline ``now`` has passed: what is missing is missing, the run goes."""
    first = ln[lane].expected
    end = INT_MAX
    if ln[lane].pog_seq >= 0:
        end = min(end, ln[lane].pog_seq)
    if ln[lane].eos_seq >= 0:
        end = min(end, ln[lane].eos_seq)
    high = now
    if ln[lane].ring_count > 0:
        seq, mask = first, ln[lane].ring_cap - 1
        while seq < end and tr.ring[ln[lane].ring_off + (seq & mask)] == NONE:
            seq += 1
        row = tr.ring[ln[lane].ring_off + (seq & mask)]
        if row != NONE:
            end = seq
            if not is_future(rows, ln, ck, s, row):
                high, _, _ = reference(ck, s[S_DEFAULT_UNC], ln[lane].source, rows[row].ts)
    if end == INT_MAX or end <= first:
        return
    low = ln[lane].last_ref
    i = note(s, out, NOTE_GAP, lane, first)
    out.note[i, 4] = end - first
    out.note[i, 5] = high if low == INT_MIN else min(low, high)
    out.note[i, 6] = high
    ln[lane].missing_total += end - first
    remember_missing(ln, tr.memory, lane, ln[lane].inc, first, end, 1)
    ln[lane].expected = end
    release_run(rows, ln, ck, tr, s, out, lane, now, False)


@kernel
def late_or_duplicate(
    rows: np.ndarray,
    ln: np.ndarray,
    ck: np.ndarray,
    tr: Trees,
    s: np.ndarray,
    out: Out,
    row: int,
    now: int,
) -> None:
    """A number below the expected one: late if it was passed over, else a duplicate."""
    lane, inc, seq = rows[row].lane, rows[row].inc, rows[row].seq
    late = take_missing(ln, tr.memory, lane, inc, seq)
    if not late and inc == ln[lane].inc:
        late = seq < ln[lane].forgotten
    if not late and inc < ln[lane].inc and not is_open(ln, tr.memory, lane, inc):
        first = ln[lane].prev_expected if inc == ln[lane].prev_inc else INT_MIN
        remember_missing(ln, tr.memory, lane, inc, first, INT_MAX, 0)
        late = take_missing(ln, tr.memory, lane, inc, seq)
    ln[lane].earlier_start += late and inc < ln[lane].inc
    if not late:
        ln[lane].duplicate += 1
        set_aside(rows, ln, ck, s, out, row, DUPLICATE)
    elif correct(rows, ln, ck, s, out, row):
        push_late(rows, ln, tr, s, out, row, now)
    else:
        rows[row].stage = 0


@kernel
def hold(rows: np.ndarray, ln: np.ndarray, row: int) -> None:
    """Keep an event of a later incarnation until the present one is drained."""
    lane = rows[row].lane
    rows[row].stage = STAGE_HELD
    rows[row].nxt = NONE
    if ln[lane].held_head == NONE:
        ln[lane].held_head = row
    else:
        rows[ln[lane].held_tail].nxt = row
    ln[lane].held_tail = row


@kernel
def begin(rows: np.ndarray, ln: np.ndarray, tr: Trees, lane: int, row: int) -> None:
    """First event of a lane or of a new incarnation: where its numbers start."""
    inc = rows[row].inc
    if ln[lane].started:
        ln[lane].prev_inc = ln[lane].inc
        ln[lane].prev_expected = ln[lane].expected
        remember_missing(ln, tr.memory, lane, ln[lane].inc, ln[lane].expected, INT_MAX, 0)
    ln[lane].started = 1
    ln[lane].inc = inc
    ln[lane].expected = ln[lane].ann_first if ln[lane].ann_inc == inc else rows[row].seq
    ln[lane].far_seq = -2
    ln[lane].closed = 0
    ln[lane].pog_seq = -1
    ln[lane].pog_deadline = INT_MAX
    ln[lane].next_pog_seq = -1
    ln[lane].next_pog_deadline = INT_MAX
    ln[lane].eos_seq = -1
    ln[lane].eos_deadline = INT_MAX
    ln[lane].forgotten = -1
    ln[lane].max_seq = -1
    ln[lane].highs_n = 0
    remember_missing(ln, tr.memory, lane, inc, INT_MIN, ln[lane].expected, 0)


@kernel
def jumped(
    rows: np.ndarray,
    ln: np.ndarray,
    ck: np.ndarray,
    tr: Trees,
    s: np.ndarray,
    out: Out,
    row: int,
    now: int,
) -> bool:
    """A number too far ahead to buffer: refused, unless its successor confirms it (RFC 3550 A.1).

    Returns True when the lane restarts at this row.
    """
    lane, seq = rows[row].lane, rows[row].seq
    if seq != ln[lane].far_seq + 1:
        ln[lane].far_seq = seq
        ln[lane].quarantined_jump += 1
        set_aside(rows, ln, ck, s, out, row, QUARANTINED_JUMP)
        return False
    while ln[lane].ring_count > 0:
        give_up(rows, ln, ck, tr, s, out, lane, now)
    remember_missing(ln, tr.memory, lane, ln[lane].inc, ln[lane].expected, seq, 0)
    ln[lane].expected = seq
    return True


@inline
def accept(
    rows: np.ndarray,
    ln: np.ndarray,
    ck: np.ndarray,
    tr: Trees,
    s: np.ndarray,
    out: Out,
    row: int,
    now: int,
) -> None:
    """One event through the flow of R19 Fig 4.2, without the drain of the merge."""
    lane, seq, inc = rows[row].lane, rows[row].seq, rows[row].inc
    if not ln[lane].started or (
        inc > ln[lane].inc and ln[lane].ring_count == 0 and ln[lane].held_head == NONE
    ):
        begin(rows, ln, tr, lane, row)
        set_key(rows, ln, tr, s, lane)  # what ended before may hold others back again
    elif inc > ln[lane].inc:
        hold(rows, ln, row)
        return
    if inc < ln[lane].inc or seq < ln[lane].expected:
        late_or_duplicate(rows, ln, ck, tr, s, out, row, now)
        return
    if seq - ln[lane].expected >= ln[lane].ring_cap and not jumped(
        rows, ln, ck, tr, s, out, row, now
    ):
        return
    if seq == ln[lane].expected:
        saw_in_order(ln, tr.memory, s, lane, now)
        ln[lane].expected = seq + 1
        to_merge(rows, ln, ck, tr, s, out, row)
        release_run(rows, ln, ck, tr, s, out, lane, now, True)
    elif tr.ring[ln[lane].ring_off + (seq & (ln[lane].ring_cap - 1))] != NONE:
        ln[lane].duplicate += 1
        set_aside(rows, ln, ck, s, out, row, DUPLICATE)
    else:
        if not is_future(rows, ln, ck, s, row):
            saw_ts(rows, ln, row)
        buffer_row(rows, ln, tr, row, later(now, ln[lane].gap_timeout))
        hurry(tr.timer, lane, next_deadline(rows, ln, lane))


@kernel
def resume_held(
    rows: np.ndarray,
    ln: np.ndarray,
    ck: np.ndarray,
    tr: Trees,
    s: np.ndarray,
    out: Out,
    lane: int,
    now: int,
) -> None:
    """The old incarnation is drained: let the held events of later ones through, to the merge."""
    while ln[lane].held_head != NONE and ln[lane].ring_count == 0:
        row = ln[lane].held_head
        ln[lane].held_head = NONE
        ln[lane].held_tail = NONE
        while row != NONE:
            following = rows[row].nxt
            rows[row].nxt = NONE
            accept(rows, ln, ck, tr, s, out, row, now)
            row = following
