"""One source's events in the order of their numbers, and its markers (R19 3.2.1)."""

from __future__ import annotations

from slackwater.edge_agent.records import Kind
from slackwater.engine.core.clocks.epochs import reference
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, NONE, Record
from slackwater.engine.order.sequence.merge import (
    correct,
    insert,
    latest_of,
    note,
    note_refused,
    note_time,
    push,
    push_late,
    refuse,
    set_deadline,
    set_key,
)
from slackwater.engine.order.sequence.state import (
    DUPLICATE,
    MARKER_JUMP,
    MAX_RING,
    NOTE_GAP,
    QUARANTINED_JUMP,
    STAGE_HELD,
    STAGE_RING,
    Sequencer,
)
from slackwater.engine.order.sequence.timeouts import (
    add_wait,
    learn_interval,
    learn_late,
    learn_release,
)

# Markers of a source's progress: punctuations and ends of stream, per lane (SPEC 3.2).
#
# A marker with number n follows the events below n, so it applies once these have arrived or are
# declared missing; until then it waits like a buffered event, with its own deadline. A marker
# without a number follows the events that arrived before it.


_POG = int(Kind.POG)


@inline
def next_deadline(s: Sequencer, lane: int) -> int:
    """The earliest deadline of the lane's gap: of a buffered event or of a waiting marker."""
    of = s.lanes[lane]
    when = min(of.pog_deadline, of.eos_deadline)
    if of.dq_head != NONE:
        when = min(when, s.rows[of.dq_head].deadline)
    return int(when)


@kernel
def promise(s: Sequencer, lane: int, clock: int, ts: int) -> None:
    """Apply a promise: no later event of the lane has a time below ``ts``, of clock ``clock``."""
    of = s.lanes[lane]
    bound, _, _ = reference(s.clocks, s.state[0].default_uncertainty, clock, ts)
    if bound > of.bound:
        of.bound = bound
        set_key(s, lane)


@inline
def promise_later(s: Sequencer, lane: int, seq: int, clock: int, ts: int, deadline: int) -> None:
    """Keep a punctuation until the numbers below ``seq`` have arrived.

    The first waiting one keeps its deadline, so that later ones cannot postpone it; of the later
    ones only the newest is kept, as it promises most.
    """
    of = s.lanes[lane]
    if of.pog_seq < 0:
        of.pog_seq = seq
        of.pog_ts = ts
        of.pog_clock = clock
        of.pog_deadline = deadline
    elif seq == of.pog_seq and clock == of.pog_clock:
        of.pog_ts = max(of.pog_ts, ts)
    elif seq > of.pog_seq:
        of.next_pog_seq = seq
        of.next_pog_ts = ts
        of.next_pog_clock = clock
        of.next_pog_deadline = deadline


@kernel
def apply_markers(s: Sequencer, lane: int) -> None:
    """Apply punctuations and ends of stream whose earlier numbers have arrived or are missing."""
    of = s.lanes[lane]
    while of.pog_seq >= 0 and of.expected >= of.pog_seq:
        promise(s, lane, of.pog_clock, of.pog_ts)
        of.pog_seq = of.next_pog_seq
        of.pog_ts = of.next_pog_ts
        of.pog_clock = of.next_pog_clock
        of.pog_deadline = of.next_pog_deadline
        of.next_pog_seq = -1
        of.next_pog_deadline = INT_MAX
    if of.eos_seq >= 0 and of.expected >= of.eos_seq:
        of.eos_seq = -1
        of.eos_deadline = INT_MAX
        of.closed = 1
        set_key(s, lane)


@inline
def clear_idle(s: Sequencer, lane: int, now: int) -> None:
    """Clear the idle flag of a lane at an arrival."""
    of = s.lanes[lane]
    if of.last_arrival > INT_MIN and not of.closed:
        of.silences += add_wait(of.last_arrival, of.idle_timeout) < now
    of.last_arrival = now
    if of.idle:
        of.idle = 0
        set_key(s, lane)


@kernel
def take_marker(s: Sequencer, row: int, lane: int, now: int) -> None:
    """Process a punctuation or end of stream for ``lane``, now or after the earlier numbers.

    One of another incarnation than the lane's, or with a number too far ahead, only shows that the
    source is alive.
    """
    new = s.rows[row]
    of = s.lanes[lane]
    clear_idle(s, lane, now)
    ts, seq, expected = new.ts, new.seq, of.expected
    clock = s.clock[row] if len(s.clock) else of.source
    if seq < 0:
        seq = s.rows[of.dq_tail].seq + 1 if of.ring_count > 0 else expected
    elif new.inc != of.inc:
        return
    elif seq > expected and seq - expected >= MAX_RING:
        note_refused(s, row, MARKER_JUMP)
        return
    deadline = add_wait(now, of.gap_timeout)
    if new.kind == _POG:
        if seq <= expected:
            promise(s, lane, clock, ts)
        else:
            promise_later(s, lane, seq, clock, ts, deadline)
    elif seq <= expected:
        of.eos_seq = -1
        of.eos_deadline = INT_MAX
        of.closed = 1
        set_key(s, lane)
    elif seq != of.eos_seq:
        of.eos_seq = seq
        of.eos_deadline = deadline
    if seq > expected:
        set_deadline(s.timer, lane, next_deadline(s, lane))


# ``sequence``: one source's events in the order of their numbers (R19 3.2.1, Fig 4.2).
#
# The expected number: release it and the run of buffered successors. A larger one: buffer it. A
# smaller one: a duplicate if it was released, else late. At the earliest deadline of the buffer,
# the numbers up to the first buffered one are missing, and its run is released as of that deadline.
# A new incarnation waits until the old one is drained.
#
# The reorder buffer is a ring indexed by number (O(1)); deadlines are a staircase, without events
# that have a smaller number and a later deadline than another one.


@inline
def to_merge(s: Sequencer, row: int) -> None:
    """Pass the next event by number on to the merge."""
    if correct(s, row):
        push(s, row)
    else:
        s.rows[row].stage = 0


@inline
def buffer_row(s: Sequencer, row: int, deadline: int) -> None:
    """Put ``row`` into its lane's ring and its deadline into the staircase."""
    new = s.rows[row]
    lane = new.lane
    of = s.lanes[lane]
    s.ring[of.ring_off + (new.seq & (of.ring_cap - 1))] = row
    of.ring_count += 1
    new.stage = STAGE_RING
    new.deadline = deadline
    tail = of.dq_tail
    if tail != NONE and s.rows[tail].seq > new.seq and s.rows[tail].deadline <= deadline:
        return  # usually fills a gap late: a later number has an earlier deadline
    after, before = NONE, of.dq_tail
    while before != NONE and s.rows[before].seq > new.seq:
        after, before = before, s.rows[before].dq_prev
    if after != NONE and s.rows[after].deadline <= deadline:
        return
    while before != NONE and s.rows[before].deadline >= deadline:
        before = s.rows[before].dq_prev
    new.dq_prev = before
    new.dq_next = after
    if before == NONE:
        of.dq_head = row
    else:
        s.rows[before].dq_next = row
    if after == NONE:
        of.dq_tail = row
    else:
        s.rows[after].dq_prev = row


@inline
def release_run(s: Sequencer, lane: int, now: int, learn: bool) -> None:
    """Pass the run of buffered events from the expected number on to the merge."""
    of = s.lanes[lane]
    if of.ring_count == 0:
        if of.pog_seq >= 0 or of.eos_seq >= 0:
            apply_markers(s, lane)
        return
    mask = of.ring_cap - 1
    while of.ring_count > 0:
        place = of.ring_off + (of.expected & mask)
        row = s.ring[place]
        if row == NONE:
            break
        s.ring[place] = NONE
        of.ring_count -= 1
        of.expected += 1
        if of.dq_head == row:  # before the queue reuses the row's links
            of.dq_head = s.rows[row].dq_next
        learn_release(
            s.state[0], of, s.memories[of.memory], s.rows[row].seq, s.rows[row].arrival, now, learn
        )
        to_merge(s, row)
    if of.dq_head == NONE:
        of.dq_tail = NONE
    else:
        s.rows[of.dq_head].dq_prev = NONE
    apply_markers(s, lane)


@kernel
def remember_missing(
    s: Sequencer, of: Record, inc: int, first: int, end: int, as_missing: int
) -> None:
    """Remember the run [first, end) of ``inc``, so that its late events are not duplicates.

    ``as_missing``: 1: its numbers were reported as missing; 0: no event waited for them.
    """
    if of.missing_n == of.runs_cap:
        oldest = s.runs[of.runs_off]
        if oldest.inc == of.inc:
            of.forgotten = max(of.forgotten, oldest.end)
        _drop_run(s, of, of.runs_off)
    run = s.runs[of.runs_off + of.missing_n]
    run.inc, run.first, run.end, run.as_missing = inc, first, end, as_missing
    of.missing_n += 1


@inline
def _drop_run(s: Sequencer, of: Record, place: int) -> None:
    for i in range(place + 1, of.runs_off + of.missing_n):
        s.runs[i - 1] = s.runs[i]
    of.missing_n -= 1


@kernel
def take_missing(s: Sequencer, of: Record, inc: int, seq: int) -> bool:
    """Whether (inc, seq) was skipped; it is no longer missing then, so True comes once."""
    for i in range(of.runs_off, of.runs_off + of.missing_n):
        run = s.runs[i]
        if run.inc == inc and run.first <= seq < run.end:
            end, as_missing = run.end, run.as_missing
            run.end = seq
            if run.first == seq:
                _drop_run(s, of, i)
            if seq + 1 < end:
                remember_missing(s, of, inc, seq + 1, end, as_missing)
            of.missing_filled += as_missing
            return True
    return False


@kernel
def is_open(s: Sequencer, of: Record, inc: int) -> bool:
    """Whether the numbers after the end of an earlier incarnation are remembered as missing."""
    found = False
    for i in range(of.runs_off, of.runs_off + of.missing_n):
        run = s.runs[i]
        found |= run.inc == inc and run.end == INT_MAX
    return found


@kernel
def declare_missing(s: Sequencer, lane: int, now: int) -> None:
    """The gap's deadline ``now`` has passed: declare its numbers missing and release the run."""
    of = s.lanes[lane]
    first = of.expected
    end = INT_MAX
    if of.pog_seq >= 0:
        end = min(end, of.pog_seq)
    if of.eos_seq >= 0:
        end = min(end, of.eos_seq)
    high = now
    if of.ring_count > 0:
        seq, mask = first, of.ring_cap - 1
        while seq < end and s.ring[of.ring_off + (seq & mask)] == NONE:
            seq += 1
        row = s.ring[of.ring_off + (seq & mask)]
        if row != NONE:
            end = seq
            latest = latest_of(s, row)
            high = latest if latest < INT_MAX else high
    if end == INT_MAX or end <= first:
        return
    low = of.last_low
    gap = s.notes[note(s, NOTE_GAP)]
    gap.lane, gap.inc = lane, of.inc
    gap.first = first
    gap.count = end - first
    gap.low = high if low == INT_MIN else min(low, high)
    gap.high = high
    of.missing_total += end - first
    remember_missing(s, of, of.inc, first, end, 1)
    of.expected = end
    release_run(s, lane, now, False)


@kernel
def take_late(s: Sequencer, row: int, now: int) -> None:
    """Process a number below the expected one: late if it was skipped, else a duplicate."""
    new = s.rows[row]
    lane, inc, seq = new.lane, new.inc, new.seq
    of = s.lanes[lane]
    late = take_missing(s, of, inc, seq)
    if not late and inc == of.inc:
        late = seq < of.forgotten
    if not late and inc < of.inc and not is_open(s, of, inc):
        first = of.prev_expected if inc == of.prev_inc else INT_MIN
        remember_missing(s, of, inc, first, INT_MAX, 0)
        late = take_missing(s, of, inc, seq)
    of.earlier_start += late and inc < of.inc
    if late and inc == of.inc:
        learn_late(s.state[0], of, s.memories[of.memory], seq, now)
    if not late:
        of.duplicate += 1
        refuse(s, row, DUPLICATE)
    elif correct(s, row):
        if inc == of.inc and seq < of.front:
            _move_front(s, row)
        push_late(s, row, now)
    else:
        new.stage = 0


@kernel
def _move_front(s: Sequencer, row: int) -> None:
    """A number below the first one of its incarnation: the numbers between them are missing."""
    new = s.rows[row]
    of = s.lanes[new.lane]
    first, end, high = new.seq + 1, of.front, of.front_high
    if end - first >= MAX_RING:  # as far off as an unconfirmed jump
        return
    if first < end:
        gap = s.notes[note(s, NOTE_GAP)]
        gap.lane, gap.inc, gap.first, gap.count = new.lane, of.inc, first, end - first
        gap.low, gap.high = min(new.ref - new.unc, high), high
        of.missing_total += end - first
        for i in range(of.runs_off, of.runs_off + of.missing_n):
            run = s.runs[i]
            if run.inc == of.inc and first <= run.first and run.end <= end:
                run.as_missing = 1
    of.front, of.front_high = new.seq, new.ref + new.unc


@kernel
def hold(s: Sequencer, row: int) -> None:
    """Keep an event of a later incarnation until the current one is drained."""
    new = s.rows[row]
    lane = new.lane
    of = s.lanes[lane]
    new.stage = STAGE_HELD
    new.nxt = NONE
    if of.held_head == NONE:
        of.held_head = row
    else:
        s.rows[of.held_tail].nxt = row
    of.held_tail = row


@kernel
def begin(s: Sequencer, lane: int, row: int) -> None:
    """Start the numbers of a lane or of a new incarnation at its first event."""
    of = s.lanes[lane]
    inc = s.rows[row].inc
    if of.started:
        of.prev_inc = of.inc
        of.prev_expected = of.expected
        remember_missing(s, of, of.inc, of.expected, INT_MAX, 0)
    of.started = 1
    of.inc = inc
    of.expected = of.ann_first if of.ann_inc == inc else s.rows[row].seq
    of.front = INT_MIN
    latest = latest_of(s, row)
    if of.ann_inc != inc and latest < INT_MAX:
        of.front, of.front_high = of.expected, latest
    of.far_seq = -2
    of.closed = 0
    of.pog_seq = -1
    of.pog_deadline = INT_MAX
    of.next_pog_seq = -1
    of.next_pog_deadline = INT_MAX
    of.eos_seq = -1
    of.eos_deadline = INT_MAX
    of.forgotten = -1
    of.max_seq = -1
    of.highs_n = 0
    remember_missing(s, of, inc, INT_MIN, of.expected, 0)


@kernel
def is_jump(s: Sequencer, row: int, now: int) -> bool:
    """Process a number too far ahead to buffer: refused, unless its successor confirms it (RFC 3550
    A.1).

    Returns:
        whether the lane restarts at this row.
    """
    lane, seq = s.rows[row].lane, s.rows[row].seq
    of = s.lanes[lane]
    if seq != of.far_seq + 1:
        of.far_seq = seq
        of.quarantined_jump += 1
        refuse(s, row, QUARANTINED_JUMP)
        return False
    while of.ring_count > 0:
        declare_missing(s, lane, now)
    remember_missing(s, of, of.inc, of.expected, seq, 0)
    of.expected = seq
    return True


@kernel
def accept_unnumbered(s: Sequencer, row: int) -> None:
    """Process an event without a number: it waits with its lane, then is merged by ``ref``."""
    of = s.lanes[s.rows[row].lane]
    if of.ring_count > 0:
        hold(s, row)
    elif correct(s, row):
        insert(s, row)
    else:
        s.rows[row].stage = 0


@inline
def accept(s: Sequencer, row: int, now: int) -> None:
    """Process one event by R19 Fig 4.2, without draining the merge."""
    lane, seq, inc = s.rows[row].lane, s.rows[row].seq, s.rows[row].inc
    of = s.lanes[lane]
    if seq < 0:
        accept_unnumbered(s, row)
        return
    if not of.started or (inc > of.inc and of.ring_count == 0 and of.held_head == NONE):
        begin(s, lane, row)
        set_key(s, lane)  # an ended lane may block others again
    elif inc > of.inc:
        hold(s, row)
        return
    if inc < of.inc or seq < of.expected:
        take_late(s, row, now)
        return
    if seq - of.expected >= of.ring_cap and not is_jump(s, row, now):
        return
    if seq == of.expected:
        learn_interval(s.state[0], of, s.memories[of.memory], now, s.rows[row].ts)
        of.expected = seq + 1
        to_merge(s, row)
        release_run(s, lane, now, True)
    elif s.ring[of.ring_off + (seq & (of.ring_cap - 1))] != NONE:
        of.duplicate += 1
        refuse(s, row, DUPLICATE)
    else:
        if latest_of(s, row) < INT_MAX:
            note_time(s, row)
        buffer_row(s, row, add_wait(now, of.gap_timeout))
        set_deadline(s.timer, lane, next_deadline(s, lane))


@kernel
def resume_held(s: Sequencer, lane: int, now: int) -> None:
    """Process the held events of later incarnations, as the old one is drained."""
    of = s.lanes[lane]
    while of.held_head != NONE and of.ring_count == 0:
        row = of.held_head
        of.held_head = NONE
        of.held_tail = NONE
        while row != NONE:
            following = s.rows[row].nxt
            s.rows[row].nxt = NONE
            accept(s, row, now)
            row = following
