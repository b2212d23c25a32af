"""Following the events of a batch in their traces: one look-up in the table of automata each."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.core.clocks.epochs import UNKNOWN_EPOCH
from slackwater.engine.core.released import IN_ORDER, NO_EPOCH, Released
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, NONE, Record
from slackwater.engine.operators.constraint.traces import (
    ALERT,
    AT_ONCE,
    CLEARED,
    DOUBTFUL,
    FORKED,
    FRESH,
    KNOWN,
    LATER,
    MIXED,
    NO_GAP,
    NOBODY_KNOWS,
    OTHERS,
    PERHAPS,
    RUN_OUT,
    UNKNOWN,
    VIOLATION,
    Keyed,
    Recent,
    TraceEvents,
    TracePool,
    TraceProgress,
    TraceTables,
    enter_traces,
)
from slackwater.engine.operators.window.settings import workdays_later
from slackwater.engine.query.automata import OPEN, SATISFIABLE, START, UNSATISFIABLE

# Progress at each event of a batch, and the move that passes a given instant.


PLACES: Final = 4
"""Places of an event: its results, the moves by it, the moves after it."""


class Moves(NamedTuple):
    """Moves of progress, less clock errors: ``to`` (ascending) at arrival-clock instant ``at``,
    with ``place`` among the batch's results; and progress ``before`` each event.
    """

    to: np.ndarray
    at: np.ndarray
    place: np.ndarray
    before: np.ndarray

    def progress(self, until: np.ndarray) -> TraceProgress:
        """Return the progress of traces; ``until``: at each row, then (last) before the first."""
        return TraceProgress(self.to, np.append(until[self.place // PLACES], until[-1]))

    def passing(self, deadlines: np.ndarray) -> np.ndarray:
        """Return the move that passes each of the ``deadlines``."""
        return np.searchsorted(self.to, deadlines, side="right")


def moves_of(released: Released, begun: int, widest: np.ndarray) -> Moves:
    """Return the moves of a batch; ``begun``: progress before it. ``widest``: the largest clock
    error known before each row, and after the last.

    Progress moves by events in order, by punctuations, and by the slack of an order, as for windows
    (SPEC 4.4).
    """
    columns, steps, slack = released.columns, released.progress, released.slack
    rows = np.arange(released.n)
    in_order = columns["status"] == IN_ORDER
    to = np.concatenate((
        np.where(in_order, columns["ref"] - widest[1:], INT_MIN),
        *(
            np.maximum(moved.frontier, INT_MIN + widest[moved.row]) - widest[moved.row]
            for moved in (steps, slack)
        ),
    ))  # fmt: skip
    at = np.concatenate((columns["release"], steps.at, slack.at))
    place = np.concatenate((
        PLACES * rows + 1, PLACES * (steps.row - 1) + 2, PLACES * (slack.row - 1) + 3,
    ))  # fmt: skip
    order = np.argsort(place, kind="stable")
    to, place = np.maximum(np.maximum.accumulate(to[order]), begun), place[order]
    until = np.searchsorted(place, PLACES * rows, side="left") - 1
    before = np.where(until >= 0, to[until], begun) if len(to) else np.full(released.n, begun)
    return Moves(to, at[order], place, before)


# The events of a batch, in release order, each to its trace.


@kernel
def follow(
    first: int, keyed: Keyed, now: np.ndarray, progress: TraceProgress, settled: np.ndarray,
    kept: np.ndarray,
    timeout: int, tables: TraceTables,
    events: TraceEvents, pool: TracePool, recent: Recent, emitted: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Process the events from ``first`` on in their traces.

    ``now``: progress before each. ``settled``: no clock error moves an event before that time.
    ``kept``: no result before that time is retracted. ``emitted`` has room for twice the results of
    ``recent``.

    Returns:
        the first event without room (their number: all are processed), and the number of results.
    """
    i, rows, n = first, 0, len(keyed.entry)
    while i < n:
        stop = min(n, i + AT_ONCE)
        most = recent.used[0] + (MOST_RESULTS + 2) * AT_ONCE
        if keyed.tally[0] + AT_ONCE > len(keyed.traces) or most > len(recent.results):
            return i, rows
        enter_traces(i, stop, events.symbol, keyed)
        while i < stop:
            if rows + MOST_RESULTS + 2 > len(emitted) or pool.used[0] >= len(pool.nodes):
                return i, rows
            entry = keyed.entry[i]
            if entry != NONE:
                trace, before = keyed.traces[entry], rows
                if timeout > 0 and due(trace, now[i], timeout, tables):
                    rows = run_out_later(trace, progress, timeout, tables, emitted, rows)
                if may_deny(trace, i, events):
                    keep_recent(emitted, before, rows, recent)
                    if no_room(rows, recent, emitted):
                        return i, rows
                    before = rows = take_back(
                        trace, i, timeout, kept[i], tables, events, recent, emitted, rows
                    )
                rows = step(trace, i, i, timeout, settled[i], tables, events, pool, emitted, rows)
                if timeout > 0 and due(trace, now[i], timeout, tables):
                    rows = run_out(trace, i, timeout, tables, emitted, rows)
                keep_recent(emitted, before, rows, recent)
            i += 1
    return n, rows


# One event of a trace: a look-up in the table of automata (L10 Algorithm 2, or 1 by choice).
#
# Extensions of L10, whose events are ordered points with exact clocks: an alert is uncertain if
# another possible order of its trace's events would not give it. The last two events are exchanged
# if their clocks allow it, and both states are followed from there on, also past the end of a
# trace. Overlapping intervals are not ordered (L10 6.1), so both orders are possible under any
# clocks. If three or more events may change places, or more than two states are possible, the trace
# is uncertain. A trace is certainly over once progress has passed its end by more than clock
# errors.


MOST_RESULTS: Final = 3
"""The most results of one event: the previous trace's timeout, a violation, a verdict."""


@inline
def begin(trace: Record) -> None:
    """Reset a trace: the next event of this key is its first one."""
    trace.state = START
    trace.other = START
    trace.until = INT_MIN
    trace.path = NONE
    trace.flags = OPEN << KNOWN


@inline
def _go_on(trace: Record, tables: TraceTables) -> None:
    """Begin another trace after one that is over, or would be in another order of its events, if
    clock errors may move the next event before its end; the other orders are followed.
    """
    trace.state = START
    trace.other = _open_state(tables, trace.other)
    trace.path = NONE
    trace.flags = trace.flags & (DOUBTFUL | MIXED | FORKED | UNKNOWN) | OPEN << KNOWN


@inline
def _open_state(tables: TraceTables, state: int) -> int:
    """Return the state before the next event: after the end of a trace another one begins."""
    return START if tables.ended[state] else int(state)


@inline
def _next(tables: TraceTables, state: int, symbol: int) -> int:
    return int(tables.table[_open_state(tables, state), symbol])


@inline
def _known(trace: Record) -> int:
    """Return the verdict after the last event."""
    return int(np.int64(trace.flags) >> KNOWN & 3)


@inline
def _certainty(trace: Record, doubtful: bool) -> int:
    """Return the certainty of a result, as place in
    ``engine.operators.constraint.alerts.CERTAINTIES``.
    """
    return 2 if trace.flags & UNKNOWN else int(doubtful)


@inline
def _until_before(trace: Record) -> int:
    """Return the latest possible time of the events before the last one [ns]; INT_MIN: there is
    none.
    """
    gap = np.int64(trace.gap) | np.int64(trace.gap_high) << 32
    return INT_MIN if gap == NO_GAP else int(trace.until - gap)


@inline
def _last_until(trace: Record, until: int) -> None:
    """Set the latest possible time of the last event to ``until`` [ns]."""
    before = trace.until
    trace.until = max(before, until)
    gap = NO_GAP
    if before != INT_MIN:
        gap = NO_GAP - 1 if before < trace.until - NO_GAP else min(trace.until - before, NO_GAP - 1)
    trace.gap = np.uint32(gap & 0xFFFFFFFF)
    trace.gap_high = np.uint16(gap >> 32)


@inline
def deadline(time: int, timeout: int, tables: TraceTables) -> int:
    """Return the last instant [ns] at which a trace without events since ``time`` is not over."""
    if len(tables.day_starts) == 0:
        return time + timeout
    return workdays_later(tables.day_starts, tables.day_ends, time, timeout)


@inline
def run_out(trace: Record, row: int, timeout: int, tables: TraceTables, emitted: np.ndarray,
            rows: int) -> int:  # fmt: skip
    """End a trace by its timeout; returns the number of results."""
    state = trace.state
    trace.flags |= RUN_OUT
    if tables.broken[state] or (tables.complete[state] and _known(trace) != OPEN):
        return rows
    out = emitted[rows]
    out.row = row
    out.key = trace.key
    out.number = trace.number
    out.ref = deadline(trace.last_end, timeout, tables)
    out.end = out.ref + 1
    out.due = deadline(trace.until, timeout, tables)
    moved = len(tables.day_starts) > 0  # its clock error may change the workdays
    out.clock = NONE if moved else trace.clock
    out.epoch = NO_EPOCH if moved else trace.epoch
    out.seq = -1
    out.source = NONE
    out.type = NONE
    out.path = trace.path
    out.before = state
    out.kind = CLEARED if tables.complete[state] else VIOLATION
    out.plus = True
    out.certainty = _certainty(trace, trace.flags & DOUBTFUL != 0 or trace.other != state)
    return rows + 1


@inline
def run_out_later(trace: Record, progress: TraceProgress, timeout: int, tables: TraceTables,
                  emitted: np.ndarray, rows: int) -> int:  # fmt: skip
    """As ``run_out``, by progress."""
    after = run_out(trace, LATER, timeout, tables, emitted, rows)
    if after > rows:
        passing = np.searchsorted(progress.to, emitted[rows].due, side="right")
        if 2 * trace.last_end - trace.until <= progress.until[passing]:
            emitted[rows].certainty = 2
    return after


@inline
def _emit(trace: Record, i: int, row: int, kind: int, doubtful: bool, old: int, events: TraceEvents,
          emitted: np.ndarray, rows: int) -> None:  # fmt: skip
    out = emitted[rows]
    out.row = row
    out.key = trace.key
    out.number = events.number[i]
    out.ref = events.ref[i]
    out.end = INT_MAX if trace.flags & MIXED != 0 else events.end[i]
    out.due = max(trace.until, events.latest[i])
    out.clock = events.clock[i]
    out.epoch = events.epoch[i]
    out.seq = events.seq[i]
    out.source = events.source[i]
    out.type = events.type[i]
    out.path = trace.path
    out.before = old
    out.kind = kind
    out.plus = True
    out.certainty = _certainty(trace, doubtful)


# A confirmed result holds for the events so far. A later one may have happened before it: if the
# trace then has another verdict, the result is retracted and emitted as uncertain.


@inline
def no_room(rows: int, recent: Recent, emitted: np.ndarray) -> bool:
    """Return whether there may be no room for the results of one more event."""
    used = recent.used[0]
    return bool(
        used + MOST_RESULTS + 2 > len(recent.results)
        or rows + 2 * used + MOST_RESULTS + 2 > len(emitted)
    )


@inline
def keep_recent(emitted: np.ndarray, first: int, rows: int, recent: Recent) -> None:
    """Add the confirmed results among the rows from ``first`` on to ``recent``."""
    for row in range(first, rows):
        if emitted[row].plus and emitted[row].certainty == 0:
            used = recent.used[0]
            mine = recent.results[used]
            recent.results[used] = emitted[row]
            mine.most = mine.due if used == 0 else max(mine.due, recent.results[used - 1].most)
            recent.used[0] = used + 1


@inline
def _of_one_clock(clock: int, epoch: int, exact: bool, i: int, events: TraceEvents) -> bool:
    """Return whether event ``i`` has this clock and epoch, so times are comparable exactly."""
    return bool(
        clock == events.clock[i]
        and epoch == events.epoch[i]
        and (epoch != NO_EPOCH or (exact and events.unc[i] == 0))
    )


@inline
def may_deny(trace: Record, i: int, events: TraceEvents) -> bool:
    """Return whether event ``i`` may have happened before another one of its trace."""
    anywhere = UNKNOWN_EPOCH in (trace.epoch, events.epoch[i])
    if trace.until == INT_MIN or not (anywhere or events.ref[i] - events.unc[i] <= trace.until):
        return False
    one_clock = _of_one_clock(trace.clock, trace.epoch, trace.until == trace.last_end, i, events)
    return not (one_clock and trace.flags & MIXED == 0 and events.ref[i] >= trace.last_end)


@inline
def certainty_with(
    trace: Record, i: int, result: Record, timeout: int, tables: TraceTables, events: TraceEvents
) -> int:
    """Return the certainty of a confirmed result of ``trace`` with event ``i`` as the next one."""
    ref, unc = events.ref[i], events.unc[i]
    one_clock = _of_one_clock(result.clock, result.epoch, result.due == result.end, i, events)
    if one_clock and ref >= result.end:
        return 0
    if not one_clock and UNKNOWN_EPOCH in (result.epoch, events.epoch[i]):
        return 2 if events.doubt[i] & OTHERS else 1
    low, before = ref - unc, _until_before(trace)
    if low > result.due:
        return 0
    last = result.type != NONE and trace.number == np.uint32(result.number)
    if not last or trace.flags & (FORKED | DOUBTFUL | RUN_OUT) != 0 or low <= before:
        return 1
    # Only the last two events may change places.
    one_clock = _of_one_clock(trace.clock, trace.epoch, trace.until == trace.last_end, i, events)
    if one_clock and ref >= trace.last_end:
        return 0
    first = before == INT_MIN  # earlier events may be less than a timeout away
    if timeout > 0 and (
        first or ref + unc > deadline(2 * trace.last_end - trace.until, timeout, tables)
    ):
        return 1
    state = _next(tables, _next(tables, trace.before, events.symbol[i]), trace.symbol)
    if result.kind == VIOLATION:
        return int(not tables.broken[state])
    opposite = SATISFIABLE if result.kind == ALERT else UNSATISFIABLE
    return int(tables.verdict[state] != opposite)


@inline
def denied(
    trace: Record, i: int, timeout: int, kept: int, tables: TraceTables, events: TraceEvents,
    recent: Recent, below: int,
) -> int:  # fmt: skip
    """Return the last place before ``below`` of a recent result that event ``i`` may deny; NONE."""
    low = kept
    if UNKNOWN_EPOCH not in (trace.epoch, events.epoch[i]):
        low = max(low, events.ref[i] - events.unc[i])
    for place in range(below - 1, -1, -1):
        result = recent.results[place]
        if result.most < low:
            break
        if (
            result.key == trace.key
            and result.certainty == 0
            and result.due >= low
            and certainty_with(trace, i, result, timeout, tables, events) != 0
        ):
            return place
    return NONE


@inline
def take_back(
    trace: Record, i: int, timeout: int, kept: int, tables: TraceTables, events: TraceEvents,
    recent: Recent, emitted: np.ndarray, rows: int,
) -> int:  # fmt: skip
    """Retract the results that event ``i`` may deny, and emit them with their new certainty;
    returns the number of rows.
    """
    place = denied(trace, i, timeout, kept, tables, events, recent, recent.used[0])
    while place != NONE:
        result = recent.results[place]
        for row in (rows, rows + 1):
            emitted[row] = recent.results[place]
            emitted[row].row = i
        result.certainty = certainty_with(trace, i, result, timeout, tables, events)
        emitted[rows].plus = False
        emitted[rows + 1].certainty = result.certainty
        rows += 2
        place = denied(trace, i, timeout, kept, tables, events, recent, place)
    return rows


@inline
def put(pool: TracePool, i: int, events: TraceEvents, link: int, state: int) -> int:
    """Buffer an event; returns its place."""
    place = pool.used[0]
    pool.used[0] = place + 1
    node = pool.nodes[place]
    node.ref = events.ref[i]
    node.unc = events.unc[i]
    node.end = events.end[i]
    node.latest = events.latest[i]
    node.seq = events.seq[i]
    node.epoch = events.epoch[i]
    node.number = events.number[i]
    node.source = events.source[i]
    node.clock = events.clock[i]
    node.type = events.type[i]
    node.link = link
    node.symbol = events.symbol[i]
    node.state = state
    node.doubt = events.doubt[i]
    return int(place)


@inline
def _bring_on(trace: Record, i: int, to: int, events: TraceEvents, pool: TracePool) -> None:
    """Advance the pattern to state ``to`` by event ``i``. If it was there before, the events since
    then are dropped from the path.
    """
    place = trace.path
    while place != NONE and pool.nodes[place].state != to:
        place = pool.nodes[place].link
    if to == START:
        trace.path = NONE
    elif place != NONE:
        trace.path = place
    else:
        trace.path = put(pool, i, events, trace.path, to)


@inline
def _doubt(trace: Record, new: int, other: int, may_swap: bool, symbol: int, same_clock: bool,
           tables: TraceTables) -> int:  # fmt: skip
    """Set the state of the other possible order (``other``: without an exchange of the last two
    events), and the flags.
    """
    forked = trace.flags & FORKED != 0
    trace.flags &= ~FORKED
    if trace.other != trace.state:
        trace.flags |= FORKED
    if not may_swap or same_clock:
        return other
    if forked:
        trace.flags |= DOUBTFUL
    swapped = _next(tables, _next(tables, trace.before, symbol), trace.symbol)
    if swapped == new:
        return other
    if other not in (new, swapped):
        trace.flags |= DOUBTFUL
    return int(swapped)


@inline
def _may_be_another(trace: Record, state: int) -> None:
    """Note ``state`` as possible under other clock errors."""
    if trace.other == trace.state:
        trace.other = state
    elif state not in (trace.state, trace.other):
        trace.flags |= DOUBTFUL


@inline
def _arrive(trace: Record, i: int, row: int, timeout: int, settled: int, tables: TraceTables,
            events: TraceEvents, emitted: np.ndarray, rows: int) -> tuple[int, bool]:  # fmt: skip
    """Begin a trace if necessary; returns the number of results, and whether event ``i`` is
    certainly after the previous one, by their common clock.
    """
    one_clock = _of_one_clock(trace.clock, trace.epoch, trace.until == trace.last_end, i, events)
    same_clock = one_clock and events.ref[i] >= trace.last_end
    over, again = trace.flags & FRESH != 0, trace.flags & RUN_OUT != 0
    first = over and not tables.ended[trace.state]  # of its key
    silent, ref, last = timeout > 0 and not first, events.ref[i], trace.last_end
    mine, its = 0, 0  # a common clock error moves both, perhaps to other workdays
    if not first and (not same_clock or len(tables.day_starts) > 0):
        mine, its = events.unc[i], trace.until - last
    in_time = not silent or ref <= deadline(last, timeout, tables)
    late = silent and (again or not in_time)
    surely = late and (in_time or ref - mine > deadline(last + its, timeout, tables))
    perhaps = silent and ref + mine > deadline(last - its, timeout, tables)
    if late and not over and not again:
        before, rows = rows, run_out(trace, row, timeout, tables, emitted, rows)
        if rows > before and not surely:
            emitted[before].certainty = max(emitted[before].certainty, 1)
    if first or surely or (over and trace.until < settled):
        begin(trace)
        return rows, True
    if perhaps or not same_clock:
        trace.flags |= MIXED
    if not one_clock and UNKNOWN_EPOCH in (events.epoch[i], trace.epoch):
        trace.flags |= UNKNOWN if events.doubt[i] & OTHERS else DOUBTFUL
    if over or late:
        on, other = _open_state(tables, trace.state), _open_state(tables, trace.other)
        _go_on(trace, tables)
        trace.other = START
        if late and not over:
            _may_be_another(trace, on)
        _may_be_another(trace, other)
    elif perhaps:
        trace.other = _open_state(tables, trace.other)
        _may_be_another(trace, START)
    return rows, same_clock


@inline
def _leave(trace: Record, i: int, new: int, other: int, verdict: int, events: TraceEvents,
           ended: bool) -> None:  # fmt: skip
    """Set the trace to state ``new`` after event ``i``."""
    trace.before = trace.state
    trace.symbol = events.symbol[i]
    trace.clock = events.clock[i]
    trace.epoch = events.epoch[i]
    trace.number = np.uint32(events.number[i])
    trace.state = new
    trace.other = other
    trace.last_ref = events.ref[i]
    trace.last_end = events.end[i]
    _last_until(trace, events.latest[i])
    trace.flags = trace.flags & ((1 << KNOWN) - 1 | UNKNOWN) | verdict << KNOWN
    if ended:
        trace.flags |= FRESH


@inline
def step(
    trace: Record, i: int, row: int, timeout: int, settled: int, tables: TraceTables,
    events: TraceEvents, pool: TracePool, emitted: np.ndarray, rows: int,
) -> int:  # fmt: skip
    """Process event ``i`` of ``trace``, known with ``row`` of a batch; returns the number of
    results.

    ``rows``: number of results before. ``settled``: a trace that ended before it is over under
    every clock error. ``timeout``: a trace is over after that many ns or workdays without an event
    (0: never). ``emitted`` has room for ``MOST_RESULTS`` more rows, ``pool`` for one more node.
    """
    rows, same_clock = _arrive(trace, i, row, timeout, settled, tables, events, emitted, rows)
    if events.doubt[i] & NOBODY_KNOWS:
        trace.flags |= UNKNOWN
    if events.doubt[i] & PERHAPS:
        trace.flags |= DOUBTFUL
    symbol, old = events.symbol[i], int(trace.state)
    new = int(tables.table[old, symbol])
    other = new
    if trace.flags & MIXED:
        low = events.ref[i] - events.unc[i]
        other = _next(tables, trace.other, symbol)
        if low <= _until_before(trace):
            trace.flags |= DOUBTFUL
        other = _doubt(trace, new, other, low <= trace.until, symbol, same_clock, tables)
    to = tables.moves[old, symbol]
    if to >= 0:
        _bring_on(trace, i, to, events, pool)
    doubtful = trace.flags & DOUBTFUL != 0
    if tables.broken[new] and not tables.broken[old]:
        doubt = doubtful or not tables.broken[other]
        _emit(trace, i, row, VIOLATION, doubt, old, events, emitted, rows)
        rows += 1
    verdict = int(tables.verdict[new])
    if verdict != _known(trace) and tables.emits[verdict]:
        doubt = doubtful or tables.verdict[other] != verdict
        kind = ALERT if verdict == SATISFIABLE else CLEARED
        _emit(trace, i, row, kind, doubt, old, events, emitted, rows)
        rows += 1
    if verdict == UNSATISFIABLE:
        trace.path = NONE  # early buffer release
    _leave(trace, i, new, other, verdict, events, tables.ended[new])
    return rows


@inline
def due(trace: Record, now: int, timeout: int, tables: TraceTables) -> bool:
    """Return whether progress has passed the deadline of the trace under every clock error, and no
    result was emitted for that.
    """
    return bool(
        timeout > 0
        and trace.flags & (FRESH | RUN_OUT) == 0
        and now > deadline(trace.until, timeout, tables)
    )


@kernel
def sweep(
    traces: np.ndarray, known: int, now: int, progress: TraceProgress, timeout: int,
    tables: TraceTables, recent: Recent, emitted: np.ndarray, first: int,
) -> tuple[int, int]:  # fmt: skip
    """End the traces from ``first`` on whose timeouts have passed; returns the first one without
    room (``known``: none), and the number of results.
    """
    rows = 0
    for entry in range(first, known):
        if no_room(rows, recent, emitted):
            return entry, rows
        if due(traces[entry], now, timeout, tables):
            before = rows
            rows = run_out_later(traces[entry], progress, timeout, tables, emitted, rows)
            keep_recent(emitted, before, rows, recent)
    return known, rows
