"""Markers of how far a source has got: punctuations and ends of stream, lane by lane (SPEC 3.2).

A marker with number n follows the events below n and so counts once these are settled; until then
it waits like an event that was buffered, with a deadline of its own. One without a number follows
the events that came before it.
"""

from __future__ import annotations

from edge_agent.records import Kind
from engine.clocks.epochs import reference
from engine.kernels.integers import INT_MAX, INT_MIN, NONE
from engine.kernels.jit import inline, kernel
from engine.order.sequence.merge import note_refused, set_key
from engine.order.sequence.state import MARKER_JUMP, MAX_RING, Sequencer
from engine.order.sequence.timeout import later
from engine.order.sequence.tournament import hurry

_POG = int(Kind.POG)


@inline
def next_deadline(s: Sequencer, lane: int) -> int:
    """Earliest deadline of the lane's gap: of a buffered event or of a marker beyond the gap."""
    of = s.lanes[lane]
    when = min(of.pog_deadline, of.eos_deadline)
    if of.dq_head != NONE:
        when = min(when, s.rows[of.dq_head].deadline)
    return int(when)


@kernel
def promise(s: Sequencer, lane: int, clock: int, ts: int) -> None:
    """No later event of the lane has event time below ``ts``, at the clock of this code."""
    of = s.lanes[lane]
    bound, _, _ = reference(s.clocks, s.state[0].default_uncertainty, clock, ts)
    if bound > of.bound:
        of.bound = bound
        set_key(s, lane)


@inline
def promise_later(s: Sequencer, lane: int, seq: int, clock: int, ts: int, deadline: int) -> None:
    """A punctuation that waits for the numbers below ``seq``.

    The first one waiting keeps its deadline, so that many cannot put it off; of those behind it
    the newest is kept, as it says most.
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
    """A punctuation or end of stream counts once every earlier number is settled."""
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
def touch(s: Sequencer, lane: int, now: int) -> None:
    """Any arrival of a lane clears its idle flag."""
    of = s.lanes[lane]
    if of.last_arrival > INT_MIN and not of.closed:
        of.silences += later(of.last_arrival, of.idle_timeout) < now
    of.last_arrival = now
    if of.idle:
        of.idle = 0
        set_key(s, lane)


@kernel
def mark(s: Sequencer, row: int, lane: int, now: int) -> None:
    """A punctuation or end of stream for ``lane``: at once, or when earlier numbers are settled.

    One without a number follows the events that came before it. One of another incarnation than
    the lane's, or with a number beyond every jump, only shows that the source is alive.
    """
    new = s.rows[row]
    of = s.lanes[lane]
    touch(s, lane, now)
    ts, seq, expected = new.ts, new.seq, of.expected
    clock = s.clock[row] if len(s.clock) else of.source
    if seq < 0:
        seq = s.rows[of.dq_tail].seq + 1 if of.ring_count > 0 else expected
    elif new.inc != of.inc:
        return
    elif seq > expected and seq - expected >= MAX_RING:
        note_refused(s, row, MARKER_JUMP)
        return
    deadline = later(now, of.gap_timeout)
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
        hurry(s.timer, lane, next_deadline(s, lane))
