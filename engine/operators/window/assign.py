"""The pass over released rows: assign rows to windows and cells, aggregate, correct results.

Sequential in row order, so results do not depend on how the stream is cut into batches. The pass
stops when an array is full, and continues there once Python has enlarged it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.core.released import IN_ORDER, NO_EPOCH
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE, Record, record
from slackwater.engine.operators.window.emission import STAGES, PassState, emit_keys
from slackwater.engine.operators.window.settings import (
    AMBIGUOUS,
    CERTAIN,
    HIGH,
    LOW,
    MIDDLE,
    PART_BITS,
    SURE,
    UNLIKELY,
    Geometry,
    end_of,
    first_with,
    last_with,
    start_of,
)
from slackwater.engine.operators.window.state.accumulate import RowValues, add_rows
from slackwater.engine.operators.window.state.cells import SPARE, Cells, add_to_window, keep
from slackwater.engine.operators.window.state.content import (
    EVERY_PASS,
    STAGE_LAST,
    STAGE_LOW,
    WindowStore,
)
from slackwater.engine.operators.window.uncertainty.missing import (
    ROWS_MAX,
    WINDOWS_MAX,
    GapTable,
    count_gap,
    gives_rows,
    header_of,
)

INT_MIN: Final = -(2**63)
NEVER: Final = 2**62

IN_BATCH: Final = ("row", "step", "scanned", "gap", "tick", "entries", "emit_at", "needed")
"""Fields of every pass: its position in the batch, and the room that it lacks."""
SNAPSHOT_FIELDS: Final = (
    "frontier", "frontier_at", "close_at", "closed_low", "closed_middle", "closed_all",
    "too_late", "refused", "capped", "wide_gaps", *EVERY_PASS,
)  # fmt: skip
STATE: Final = record(
    *SNAPSHOT_FIELDS, *IN_BATCH, "changed", "emitting", "upto_low", "upto_middle", "upto_all",
    "at_window", "at_stage", "made",
)  # fmt: skip
"""``frontier``: progress, and its instant. ``close_at``: the progress at which the next window
closes. ``closed_...``: the largest window with that result emitted. Counters
(``window.time_windows``). And the position in the batch; ``emitting`` ... ``made``:
``window.closing``.
"""

DONE, CLOSING, GROW_CELLS, GROW_KEPT, GROW_STANDING, GROW_MORE, OUTBOX_FULL = range(7)
"""Why a pass stops: all rows are processed; windows are due; an array is full (``GROW_MORE``: one
of the assigner)."""
ROW, GAP, STEP, TICK = range(7, 11)
"""The next item of the agenda; early results of open windows are due at a tick."""


class Rows(NamedTuple):
    """The rows of a batch, for the pass. ``selected``, ``nulls`` and ``clocks`` (the status of each
    row's clock) are empty if they are the same for all rows.

    int64 of length n: ``ref unc epoch release``; int32 codes ``clock``; int8 ``status``; ``keys``
    int64 (n x g); ``nulls`` int64, bit j set where group column j is null.
    ``how``, ``low``, ``high``: of ``window.uncertainty.bounds``, empty where WHERE is exact;
    ``reach``: ``unc``, but more than any window's size for rows that are not ``SURE``.
    """

    ref: np.ndarray
    unc: np.ndarray
    epoch: np.ndarray
    release: np.ndarray
    status: np.ndarray
    clock: np.ndarray
    selected: np.ndarray
    keys: np.ndarray
    nulls: np.ndarray
    how: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reach: np.ndarray
    clocks: np.ndarray


@inline
def clocks_of(rows: Rows, i: int, known: int = 0) -> int:
    """Return the worse one of ``known`` and the status of the clock of row ``i``."""
    return max(known, rows.clocks[i]) if len(rows.clocks) > 0 else known


class Agenda(NamedTuple):
    """Progress steps, gaps and ticks of the batch, each with the row before which it applies; gaps
    and ticks also with the number of steps before them.
    """

    step_row: np.ndarray
    step_frontier: np.ndarray
    step_at: np.ndarray
    gap_row: np.ndarray
    gap_steps: np.ndarray
    tick_row: np.ndarray
    tick_steps: np.ndarray
    tick_at: np.ndarray


def before_row(agenda: Agenda, row: int) -> Agenda:
    """What holds before a row that comes before ``row``."""
    steps, gaps, ticks = (
        int(np.searchsorted(rows, row))
        for rows in (agenda.step_row, agenda.gap_row, agenda.tick_row)
    )
    ends = (steps, steps, steps, gaps, gaps, ticks, ticks, ticks)
    return Agenda(*(column[:end] for column, end in zip(agenda, ends, strict=True)))


class PassBatch(NamedTuple):
    """The input of a pass. ``gaps``: ``known`` ones of earlier batches, then this batch's.

    ``geo``: for SESSION ``size`` is the gap [ns]; for ROWS ``size`` and ``step`` count events.
    ``room``: ``room_factor``. ``in_panes``: rows are added to panes where possible;
    ``panes_grow``: there may be more panes. ``in_advance``: open windows emit early results;
    ``on_change``: on each row. ``ends_at``: the instant at which all windows end, after the rows;
    INT_MIN: they do not.
    """

    rows: Rows
    values: RowValues
    agenda: Agenda
    gaps: GapTable
    known: int
    geo: Geometry
    room: int
    can_grow: bool
    in_panes: bool
    panes_grow: bool
    in_advance: bool
    on_change: bool
    ends_at: int


@inline
def due(i: int, agenda: Agenda, st: Record) -> int:
    """Return the kind of the next item before row ``i``, or that the row is next."""
    gap, step, tick = st.gap, st.step, st.tick
    ticks = len(agenda.tick_row)
    if tick < ticks and agenda.tick_row[tick] <= i and agenda.tick_steps[tick] <= step:
        return TICK
    if gap < len(agenda.gap_row) and agenda.gap_row[gap] <= i and agenda.gap_steps[gap] <= step:
        return GAP
    if step < len(agenda.step_row) and agenda.step_row[step] <= i:
        return STEP
    return ROW


@inline
def take_step(agenda: Agenda, st: Record) -> None:
    """Apply the next progress step."""
    st.frontier = max(st.frontier, agenda.step_frontier[st.step])
    st.frontier_at = agenda.step_at[st.step]
    st.step += 1


@inline
def row_taken(i: int, rows: Rows, st: Record) -> None:
    """Mark row ``i`` as processed."""
    if rows.status[i] == IN_ORDER:
        st.frontier = max(st.frontier, rows.ref[i])
    st.frontier_at = rows.release[i]  # also of a late row: it may correct a window at once
    st.row = i + 1


@inline
def room(batch: PassBatch, book: PassState, spare: int) -> int:
    """``DONE`` if there is room for ``spare`` cells, kept events and results, else what is full."""
    cells, kept, results = book.store.cells, book.store.kept, book.results
    if batch.can_grow and cells.tally[0].live > len(cells.window) - spare:
        return GROW_CELLS
    if kept.tally[0].live > len(kept.next) - spare:
        return GROW_KEPT
    if results.tally[0].live > len(results.next) - spare:
        return GROW_STANDING
    if book.outbox.tally[0] > len(book.outbox.results.at) - 4 * spare:
        return OUTBOX_FULL
    return DONE


WINDOWS_OF_A_ROW: Final = 8
"""More windows than a row can be in if they tumble and its uncertainty is at most their size: three
by that and two more by LOW and HIGH; else times its ``room_factor``. Arrays keep SPARE places."""
_SPREAD_MOST: Final = 512
"""The most windows before or after its own that an event may be in; others count it as missing."""


@inline
def widest_of(size: int, step: int) -> int:
    """Return the largest uncertainty of an event in windows of ``size`` and ``step`` [ns]."""
    return max(size, _SPREAD_MOST * step)


def room_factor(geo: Geometry, widest: int = 0) -> int:
    """Return the factor of the SPARE places for the windows that one row can be in.

    ``widest``: its uncertainty [ns], if it is more than a window's size.
    """
    more = 2 * (max(min(widest, widest_of(geo.size, geo.step)) - geo.size, 0) // geo.step + 1)
    if geo.step == geo.size:
        return 1 if widest <= geo.size else -(-more // WINDOWS_OF_A_ROW) + 1
    return -(-(5 * (geo.size // geo.step + 1) + 3 + more) // WINDOWS_OF_A_ROW)


@inline
def over(st: Record, geo: Geometry) -> int:
    """Return the largest final window: closed, and not corrected any more."""
    if st.frontier < INT_MIN + geo.horizon + 2 * geo.size:
        return INT_MIN
    return int(min(st.closed_all, first_with(geo, st.frontier - geo.horizon) - 1))


@kernel
def open_refuted(
    low: int, high: int, cells: Cells, gaps: GapTable, geo: Geometry, state: np.ndarray,
    no_key: np.ndarray,
) -> bool:  # fmt: skip
    """Create headers of the windows between two times [ns] whose clock bounds are refuted, so that
    they have results; False: no room.
    """
    st = state[0]
    first, last = max(first_with(geo, low), over(st, geo) + 1), last_with(geo, high - 1)
    if last - first >= WINDOWS_MAX or cells.tally[0].headers >= ROWS_MAX:
        st.wide_gaps += 1
        return True
    if cells.tally[0].live + last + 1 - first + SPARE > len(cells.window):
        return False
    for window in range(first, last + 1):
        header_of(cells, window, gaps, len(gaps.left), no_key)
    return True


@inline
def emitted_upto(batch: PassBatch, st: Record) -> int:
    """Return the largest window that may have been emitted."""
    return NEVER if batch.on_change else int(st.closed_all)


@kernel
def add_entries(batch: PassBatch, book: PassState, st: Record) -> None:
    """Add the entries so far to the sums."""
    n = st.entries
    if n > 0:
        add_rows(book.entries.row[:n], book.entries.cell[:n], batch.values, book.store.sums)
        st.entries = 0


@inline
def _contribute(
    k: int, part: int, u: int, how: int, i: int, batch: PassBatch, book: PassState, st: Record
) -> tuple[int, int]:
    """Add row ``i`` to window ``k``: (header, leader); -1: no room; -2: too late."""
    rows, cells = batch.rows, book.store.cells
    if k <= over(st, batch.geo):
        return -2, NONE
    header = header_of(cells, k, batch.gaps, batch.known + st.gap, book.assigner.no_key)
    if header == NONE:
        return NONE, NONE
    tag = part
    if len(rows.nulls) > 0:
        tag |= rows.nulls[i] << PART_BITS
    cell = add_to_window(cells, header, tag, rows.keys, i)
    if cell == NONE:
        return NONE, NONE
    cells.rows[cell] += 1
    cells.clocks[cell] = clocks_of(rows, i, cells.clocks[cell])
    cells.unc[header] = max(cells.unc[header], u)
    book.entries.row[st.entries] = i
    book.entries.cell[st.entries] = cell
    st.entries += 1
    leader = cells.lead[cell]
    if part & AMBIGUOUS or keeps_all(book.store):
        event = (rows.clock[i], rows.epoch[i], rows.ref[i], rows.unc[i])
        if how != SURE:  # in or out, whatever else is in
            event = (rows.clock[i], NO_EPOCH, start_of(batch.geo, k), 1)
        keep(book.store.kept, cells, leader, part, batch.values, i, event)
    return header, leader


@inline
def keeps_all(store: WindowStore) -> bool:
    """Return whether some aggregate needs every single value."""
    for m in range(len(store.sums.of)):  # noqa: SIM110 - compiled code has no any()
        if store.sums.of[m].keeps_all:
            return True
    return False


@inline
def _part(k: int, r: int, low: int, high: int, how: int, geo: Geometry) -> int:
    """Return the parts of window ``k``: its drift windows that contain ``r``, and the certainty for
    the window itself.

    ``low``, ``high``: bounds of the true time [ns], if the row counts at all.
    """
    part = 0
    start, end = start_of(geo, k), end_of(geo, k)
    if how != UNLIKELY:
        if start <= r + geo.low_shift < end:
            part |= LOW
        if start <= r < end:
            part |= MIDDLE
        if start <= r - geo.high_shift < end:
            part |= HIGH
    if how == SURE and low >= start and high < end:
        part |= CERTAIN
    elif high >= start and low < end:
        part |= AMBIGUOUS
    return part


@inline
def _next_with(k: int, r: int, low: int, geo: Geometry) -> int:
    """Return the next window after ``k`` that may contain the event; HIGH, LOW and the true time
    can be far from one another.
    """
    following = max(r + geo.low_shift, low)
    for time in (r, low, r - geo.high_shift):
        if first_with(geo, time) > k:
            following = min(following, time)
    return max(k + 1, first_with(geo, following))


@inline
def enter(
    i: int, u: int, batch: PassBatch, book: PassState, st: Record, without: tuple[int, int]
) -> int:
    """Add a row to each of its windows, except ``without`` (first, last); returns the header of the
    window that contains its measured time, or -1.
    """
    geo, r = batch.geo, batch.rows.ref[i]
    low, high, how = r - u, r + u, SURE
    if len(batch.rows.how) > 0 and batch.rows.how[i] != SURE:
        low, high, how = batch.rows.low[i], batch.rows.high[i], batch.rows.how[i]
    k = first_with(geo, low if how == UNLIKELY else min(low, r - geo.high_shift))
    last = last_with(geo, high if how == UNLIKELY else max(high, r + geo.low_shift))
    home, n = NONE, 0
    skipped, skipped_to = without
    lost, refused = False, False
    while k <= last:
        part = _part(k, r, low, high, how, geo)
        if skipped <= k <= skipped_to:
            k = skipped_to + 1
            continue
        if part == 0:
            k = _next_with(k, r, low, geo)
            continue
        header, leader = _contribute(k, part, u, how, i, batch, book, st)
        lost = lost or header == -2
        refused = refused or header == NONE
        if header >= 0:
            if k == last_with(geo, r):
                home = header
            if k <= st.closed_low or batch.on_change:
                book.assigner.headers[n] = header
                book.assigner.leaders[n] = leader
                n += 1
        k += 1
    st.too_late += lost
    if refused:
        _without_room(min(low, r), max(high, r), batch, book, st)
    st.changed = n
    return home


@kernel
def _without_room(low: int, high: int, batch: PassBatch, book: PassState, st: Record) -> None:
    """Mark the windows between two times as without bounds: a row there was refused."""
    st.refused += 1
    if st.refuted_to > st.refuted_from:
        low, high = min(low, st.refuted_from), max(high, st.refuted_to - 1)
    st.refuted_from, st.refuted_to = low, high + 1
    cells = book.store.cells
    for place in range(cells.tally[0].headers):
        header = cells.headers[place]
        window = cells.window[header]
        start, end = start_of(batch.geo, window), end_of(batch.geo, window)
        if window <= emitted_upto(batch, st) and low < end and start <= high:
            cells.stale[header] = 1


@inline
def correct(at: int, batch: PassBatch, book: PassState, st: Record) -> None:
    """Retract and replace the results of a row's key in the emitted windows that it is in."""
    store = book.store
    first = STAGE_LOW if book.results.there.shape[1] == STAGES else STAGE_LAST
    closed = st.closed_low, st.closed_middle, st.closed_all
    for j in range(st.changed):
        header = book.assigner.headers[j]
        window = store.cells.window[header]
        extent = (start_of(batch.geo, window), end_of(batch.geo, window))
        for stage in range(first, STAGE_LAST + 1):
            if window <= closed[stage] or batch.on_change:
                emit_keys(book, header, book.assigner.leaders[j : j + 1], False, stage, extent, at)
    st.changed = 0


@inline
def take_agenda(i: int, batch: PassBatch, book: PassState, st: Record) -> int:
    """Process the agenda before row ``i``; DONE, or why the pass stops."""
    cells = book.store.cells
    while True:
        what = due(i, batch.agenda, st)
        if what == TICK:
            st.tick += 1
            return TICK
        if what == GAP:
            j = batch.known + st.gap
            new = 0
            if gives_rows(cells, batch.gaps, j):
                new = batch.gaps.last[j] - batch.gaps.first[j] + 1
            needed = cells.tally[0].live + new + SPARE * batch.room
            if batch.can_grow and needed > len(cells.window):
                return GROW_CELLS
            refused, too_wide = count_gap(
                cells,
                batch.gaps,
                j,
                emitted_upto(batch, st),
                over(st, batch.geo),
                book.assigner.no_key,
            )
            st.refused += refused
            st.wide_gaps += too_wide
            st.gap += 1
        elif what == STEP:
            take_step(batch.agenda, st)
            if st.frontier >= st.close_at:
                return CLOSING
        else:
            return DONE


@inline
def next_agenda(agenda: Agenda, st: Record) -> int:
    """Return the next row before which a gap becomes known, a step closes a window, or a tick is
    due.
    """
    st.scanned = max(st.scanned, st.step)
    steps = len(agenda.step_row)
    while st.scanned < steps and agenda.step_frontier[st.scanned] < st.close_at:
        st.scanned += 1
    following = NEVER
    if st.gap < len(agenda.gap_row):
        following = min(following, agenda.gap_row[st.gap])
    if st.tick < len(agenda.tick_row):
        following = min(following, agenda.tick_row[st.tick])
    if st.scanned < steps:
        following = min(following, agenda.step_row[st.scanned])
    return int(following)
