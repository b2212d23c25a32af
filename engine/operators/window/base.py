"""The common part of the window operators: their state, reading a batch, and snapshots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np

from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.engine.core.clocks.epochs import IS_UNKNOWN, MIXED, ComparedClocks
from slackwater.engine.core.operator import Restorable, Result, ResultPieces
from slackwater.engine.core.released import LATEST, Refuted, Released
from slackwater.engine.core.timeline import ends_of
from slackwater.engine.kernels.records import FAR, NONE, one, take_rows
from slackwater.engine.kernels.tables import over_pool
from slackwater.engine.operators.window import assign as a
from slackwater.engine.operators.window import emission as t
from slackwater.engine.operators.window.assign import Agenda, Rows
from slackwater.engine.operators.window.input_rows import (
    FIXED_COLUMNS,
    argument_values,
    late_rows,
    no_rows,
    rows_of,
    stream_codes,
)
from slackwater.engine.operators.window.keys import GroupKeys
from slackwater.engine.operators.window.output.expressions import (
    bounded_by_values,
    computed,
    holds,
    judged_plan,
    output_numbers,
    unchanged,
)
from slackwater.engine.operators.window.output.results import WindowResults, extent_of, text_codes
from slackwater.engine.operators.window.output.table import RankedGroups
from slackwater.engine.operators.window.progress import ClockMoves, WindowClock, some_gaps
from slackwater.engine.operators.window.settings import (
    Geometry,
    WindowSettings,
    horizon_ns,
    starts_of,
)
from slackwater.engine.operators.window.state.accumulate import (
    FLOATS,
    RowValues,
    more_sums,
    new_sums,
    no_values,
    values_of,
)
from slackwater.engine.operators.window.state.aggregate import arguments_asked, asked_of
from slackwater.engine.operators.window.state.cells import (
    SPARE,
    Cells,
    Kept,
    copied,
    grown,
    new_cells,
    new_kept,
    with_floats,
    without_floats,
)
from slackwater.engine.operators.window.state.content import (
    EACH,
    PLAIN,
    TOGETHER,
    WindowStore,
    new_content,
)
from slackwater.engine.operators.window.state.panes import new_entries
from slackwater.engine.operators.window.uncertainty.missing import Missing
from slackwater.engine.query.clock_sensitivity import is_clocked
from slackwater.engine.query.fields import attributes_of, released_columns
from slackwater.engine.query.plan import Drift, Emit, WindowKind, WindowPlan

FIRST: Final = 32
"""The initial room of arrays that grow."""
OUTBOX_MAX: Final = 1 << 14
_OUTBOX_LEAST: Final = 256
_MODES: Final = {Drift.NONE: PLAIN, Drift.EACH: EACH, Drift.TOGETHER: TOGETHER}
CHUNK: Final = 1 << 10


class Windows(Restorable, ABC):
    """Cells of groups, their sums and events, emitted results, and missing events.

    Args:
        plan: the query.
        settings: bounds.
        site: named in results.
    """

    state_fields: ClassVar[tuple[str, ...]] = ("_missing", "_compared", "_clock")

    types: Final = None
    snapshot_fields: ClassVar[tuple[str, ...]]
    """Fields of the pass's state that a snapshot has."""
    record: ClassVar[np.dtype[np.void]]
    """The record type of the pass's state."""
    initial: ClassVar[Mapping[str, int]]
    """Initial values of the state that are not 0."""
    behind: ClassVar[int] = 0
    """Number of columns of a result after those of its aggregates."""
    in_panes: ClassVar[bool] = False
    """Whether rows go to panes, which the windows share."""
    run_pass: ClassVar[staticmethod[[a.PassBatch, t.PassState], int]]
    """The kernel of the pass; continues at its state and returns why it stops."""

    def __init__(
        self, plan: WindowPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE,
    ) -> None:  # fmt: skip
        self._output_plan, self._judged = plan, judged_plan(plan)
        mode = _MODES[plan.drift]
        self._output_numbers = output_numbers(plan, self._judged, self.behind)
        self.plan = plan = self._judged.worked_out
        self.settings = settings or WindowSettings()
        self.site = site
        self._keys = GroupKeys(plan.group_by, plan.name)
        self._ranked = (
            None
            if plan.ranking is None
            else RankedGroups(self._judged, self._keys, self._output_numbers)
        )
        self._missing = Missing()
        by_time = plan.where is not None and is_clocked(plan.where)
        self._numbers_depend = by_time and plan.kind is WindowKind.ROWS
        """Whether events may be shifted in time, so that the numbers of later ones change."""
        self._shifted = 0 if plan.drift is Drift.NONE else plan.size_ns
        self._compared = ComparedClocks(
            [key.name for key in plan.group_by],
            unknown=self.settings.unknown,
            before=LATEST if self._numbers_depend else self._shifted,
            near=None if plan.kind is WindowKind.TIME else plan.size_ns,
        )
        self._clock = WindowClock(plan, self.settings.barrier)
        self._in_advance = plan.emit is not Emit.CLOSE
        self._on_change = plan.emit is Emit.CHANGE
        self._arguments, self._of, self._picked = arguments_asked(plan)
        self._store = WindowStore(
            asked_of(plan, self._arguments), mode, new_cells(FIRST, len(plan.group_by)),
            new_sums(self._of, self._picked, FIRST), new_kept(FIRST, len(self._of)),
        )  # fmt: skip
        self._numbers = len(plan.aggregates) + self.behind
        self._results = t.new_emitted(FIRST, mode, self._numbers)
        self._outbox_room = _OUTBOX_LEAST
        self._outbox = self._new_outbox(0)
        self._scratch = new_content(self._numbers)
        size, step = plan.size_ns, plan.step_ns
        if plan.kind is WindowKind.ROWS:
            size, step = plan.rows, plan.every_rows
        horizon = horizon_ns(self.settings, plan.size_ns)
        self._geo = Geometry(size, 0, 0, horizon, step, starts_of(plan))
        self._state = one(self.record, earliest=LATEST, **self.initial)
        self._room, self._entries = 1, new_entries(0)

    def required_columns(self) -> set[str]:
        return {*FIXED_COLUMNS, "incarnation"} | released_columns(attributes_of(self.plan))

    def process(self, released: Released) -> Sequence[Result]:
        rows, values, agenda, known = self._read(released, self._spans())
        parts: Iterable[tuple[int, int]] = ()
        if MIXED in released.columns or not released.n:
            chosen = rows.selected if len(rows.selected) else None
            before = np.arange(released.n) + int(self._state["taken"][0])
            parts = self._compared.see_until_unknown(released, rows.ref, before, chosen)
        return self._run(rows, values, agenda, known, parts=parts)

    def advance(self, now: int) -> Sequence[Result]:
        return self._until(now)

    def _until(self, now: int, *, last: bool = False) -> ResultPieces:
        """Results that are due on the arrival clock before ``now``; ``last``: no row follows."""
        moves = self._clock.until(now, last=last)
        if moves is None:
            return ResultPieces()
        known = len(self._missing.table.left)
        gaps = self._missing.take(moves.gaps, self._spans())
        return self._run(*self._no_rows(), _agenda(moves, gaps), known)

    def finish(self, at: int) -> Sequence[Result]:
        results = self._until(at + 1, last=True)
        known = len(self._missing.table.left)
        results.extend(self._run(*self._no_rows(), self._ending(at), known, at))
        return results

    def _no_rows(self) -> tuple[Rows, RowValues]:
        return no_rows(len(self.plan.group_by)), no_values(len(self._arguments))

    def _run(
        self, rows: Rows, values: RowValues, agenda: Agenda, known: int, ends_at: int = a.INT_MIN,
        parts: Iterable[tuple[int, int]] = (),
    ) -> ResultPieces:  # fmt: skip
        """Process a batch; ``known``: gaps known before it; ``ends_at``: as in ``PassBatch``;
        ``parts``: as ``ComparedClocks.see_until_unknown`` yields them.
        """
        results = ResultPieces()
        self._outbox = self._new_outbox(self._outbox_room)
        self._make_entries(max(CHUNK, 2 * SPARE * self._room))
        for field in a.IN_BATCH:
            self._state[field] = 0
        for stop, low in parts:
            part, due = Rows(*(column[:stop] for column in rows)), a.before_row(agenda, stop)
            self._pass(part, values, due, known, a.INT_MIN, results)
            self._mark_unknown(low)
        self._pass(rows, values, agenda, known, ends_at, results)
        self._state["taken"] += len(rows.ref)
        self._outbox = self._new_outbox(0)  # releases memory: of many sites few are active
        self._make_entries(0)
        self._forget()
        return results

    def _pass(
        self, rows: Rows, values: RowValues, agenda: Agenda, known: int, ends_at: int,
        results: ResultPieces,
    ) -> None:  # fmt: skip
        """Process the rows that follow; adds what is emitted to ``results``."""
        why = None
        while why != a.DONE:
            batch = a.PassBatch(
                rows, values, agenda, self._missing.table, known, self._geo, self._room,
                self._can_grow(), self.in_panes, self._panes_grow(), self._in_advance,
                self._on_change, ends_at,
            )  # fmt: skip
            book = t.PassState(
                self._state, self._store, self._results, self._outbox, self._scratch,
                self._entries, self._assigner_state(),
            )  # fmt: skip
            why = self.run_pass(batch, book)
            needed = int(self._state["needed"][0])
            if why == a.OUTBOX_FULL:
                self._send(results)
                most = max(OUTBOX_MAX, 2 * t.SPARE * self._room)
                longer = min(2 * len(self._outbox.results.at), most)
                self._outbox_room = max(needed, longer, self._outbox_room)
                self._outbox = self._new_outbox(self._outbox_room)
            elif why != a.DONE:
                self._grow(why, needed)
            self._state["needed"] = 0
        self._send(results)

    @abstractmethod
    def _assigner_state(self) -> tuple[Any, ...]:
        """``PassState.assigner``."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop gaps that no correctable window needs."""

    def _ending(self, _at: int) -> Agenda:
        """Return the agenda after the last row, besides ``ends_at``."""
        return Agenda(*(np.empty(0, np.int64) for _ in Agenda._fields))

    def _make_entries(self, room: int) -> None:
        self._entries = new_entries(room)

    def _panes_grow(self) -> bool:
        return False

    @abstractmethod
    def _spans(self) -> Geometry:
        """Return the geometry by which gaps are counted."""

    # ---- a batch ----------------------------------------------------------------------------

    def _refute(self, refuted: Refuted) -> None:
        """Widen the events of refuted clock bounds, and correct the windows that are not final."""
        high, state = int(refuted.high.max()) + 1, self._state
        if self._numbers_depend:
            high = LATEST
        low = max(int(refuted.low.min()), int(state["earliest"][0]) - int(refuted.by.max()))
        if self._corrected_from() <= state["refuted_to"][0] > state["refuted_from"][0]:
            low, high = min(low, state["refuted_from"][0]), max(high, state["refuted_to"][0])
        state["refuted_from"], state["refuted_to"] = low, high
        self._mark_refuted(low, high)

    @abstractmethod
    def _corrected_from(self) -> int:
        """Windows that ended before this time [ns] are final."""

    @abstractmethod
    def _mark_refuted(self, low: int, high: int) -> None:
        """Mark emitted windows that may have events between two times [ns] for correction."""

    def _mark_unknown(self, low: int) -> None:
        """Mark emitted results of windows that end after ``low`` [ns] and became unknown with the
        last row: they are emitted again when the next window closes.
        """
        cells, emitted = self._store.cells, self._results
        leaders = np.flatnonzero(cells.slot != NONE)
        slots = cells.slot[leaders]
        now = np.full(len(leaders), int(self._state["taken"][0]) + int(self._state["row"][0]))
        changed = np.zeros(len(leaders), np.bool_)
        for place in range(emitted.there.shape[1]):
            rows, words = emitted.rows[slots, place], emitted.words[slots, place].view(np.int64)
            words = words.reshape(len(slots), emitted.words.shape[2], 2)
            start, end = extent_of(self.plan, cells.window[leaders], words)
            before, after = (self._compared.of(start, at) & IS_UNKNOWN for at in (rows, now))
            mine = emitted.there[slots, place] & (rows >= 0) & (after > before)
            mine &= end + self._shifted > low
            emitted.rows[slots[mine], place] = ~rows[mine]
            changed |= mine
        self._mark_stale(leaders[changed])

    @abstractmethod
    def _mark_stale(self, leaders: np.ndarray) -> None:
        """Mark the closed windows among those of these cells for correction."""

    def _read(self, released: Released, spans: Geometry) -> tuple[Rows, RowValues, Agenda, int]:
        """Read a batch: its rows, the values of the arguments of aggregates, its agenda, and the
        number of gaps known before it. Adds its gaps, counted by ``spans``.
        """
        if len(released.refuted.by):
            self._refute(released.refuted)
        if released.n:
            earliest = int((ends_of(released) - released.columns["unc"]).min())
            self._state["earliest"] = min(earliest, int(self._state["earliest"][0]))
        known = len(self._missing.table.left)
        codes = stream_codes(self.plan, released)
        gaps = released.gaps
        if codes is not None:
            gaps = some_gaps(gaps, np.isin(gaps.stream, codes))
        moves = self._clock.take(released, ends_of(released), gaps)
        late = late_rows(released)
        agenda = _agenda(moves, self._missing.take(moves.gaps, spans, late))
        rows = rows_of(self.plan, self._keys, released, codes)._replace(status=moves.status)
        sums = self._store.sums
        found = argument_values(self.plan, self._arguments, sums.of, released)
        before = sums.of["is_float"].copy()
        values = values_of(found, sums, rows.ref)
        for m in np.flatnonzero(sums.of["is_float"] & ~before).tolist():
            self._widen(m)
        return rows, values, agenda, known

    def _widen(self, m: int) -> None:
        """Change argument ``m`` from int to float."""
        kept = self._store.kept
        kept.floats[:, m] = kept.ints[:, m].astype(np.float64)

    def _can_grow(self) -> bool:
        return len(self._store.cells.window) < self.settings.cells_max

    def _grow(self, why: int, needed: int) -> None:
        """Double the full array, or more if that is ``needed``."""
        if why == a.GROW_CELLS:
            self._more_cells()
        elif why == a.GROW_KEPT:
            kept = self._store.kept
            room = new_kept(2 * len(kept.next), kept.ints.shape[1])
            self._store = self._store._replace(kept=over_pool(room, kept))
        elif why == a.GROW_STANDING:
            old = len(self._results.next)
            made = t.new_emitted(old + max(old, needed), self._store.mode, self._numbers)
            self._results = over_pool(made, self._results)

    def _more_cells(self) -> None:
        cells = grown(self._store.cells)
        sums = more_sums(self._store.sums, len(cells.window))
        self._store = self._store._replace(cells=cells, sums=sums)

    def _new_outbox(self, capacity: int) -> t.ResultBuffer:
        return t.new_outbox(capacity, len(self.plan.group_by), self._numbers)

    def _send(self, results: ResultPieces) -> None:
        if self._outbox.tally[0]:
            rows = self._in_order(t.in_words(self._outbox))
            start, _ = extent_of(self.plan, rows.window, rows.words)
            rows = rows._replace(compares=self._compared.of(start, rows.rows))
            if self.plan.varying or self.plan.lacks:
                rows = bounded_by_values(self.plan, rows)
            rows = self._judge(computed(self._judged, rows, self._keys.strings))
            if self._ranked is not None and len(rows.at):
                rows = self._ranked.changes(rows)
            if len(rows.at):
                if (some := self._output_numbers) is not None:
                    rows = rows._replace(kinds=rows.kinds[:, some], words=rows.words[:, some])
                made = WindowResults(rows, self._output_plan, self._keys, self.site)
                made.clock = self._compared.clock_of(made.columns.rows, made.columns.keys)
                results.extend(made)
            self._outbox.tally[0] = 0

    def _judge(self, outbox: t.ResultRows) -> t.ResultRows:
        """Return the results that satisfy HAVING, without unchanged ones; ranked results are
        compared later, by their ranks.
        """
        if self._judged.having is None and self._output_numbers is None:
            return outbox
        holds_having = holds(self._judged, outbox, self._keys.strings)
        if self._output_numbers is not None and self._ranked is None:
            holds_having = holds_having & ~unchanged(outbox, self._output_numbers, holds_having)
        return take_rows(outbox, holds_having)

    def _in_order(self, outbox: t.ResultRows) -> t.ResultRows:
        """Return the results in output order; there is at least one."""
        return outbox

    # ---- state ------------------------------------------------------------------------------

    def unpacked(self, state: dict[str, Any]) -> WindowResults:
        """Results from their saved state."""
        return WindowResults.unpacked(state, self._output_plan, self.site)

    def _in_use(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes of keys (cells, columns), and of texts among values."""
        cells = self._store.cells
        # Codes of dropped events are included; to find them would cost more than it saves.
        texts = text_codes(self._store, self._results)
        return cells.keys[cells.table[cells.table >= 0]], texts

    def codes(self) -> np.ndarray:
        keys, texts = self._in_use()
        clocks, gaps = np.unique(self._store.kept.clock), self._missing.table
        return np.concatenate([
            self._compared.codes(), self._keys.used(keys), clocks, gaps.source, gaps.stream, texts,
            self._clock.codes(),
        ])  # fmt: skip

    def snapshot(self) -> dict[str, Any]:
        store = self._store
        return super().snapshot() | {
            "state": {name: int(self._state[name][0]) for name in self.snapshot_fields},
            "keys": self._keys.snapshot(*self._in_use()),
            "cells": without_floats(store.cells._asdict()),
            "sums": without_floats(store.sums._asdict()),
            "kept": without_floats(store.kept._asdict()),
            "results": without_floats(self._results._asdict()),
        }

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._state = one(self.record, **{**self.initial, **state["state"]})
        self._keys.restore(state["keys"])
        sums = with_floats(state["sums"], FLOATS)
        kept = with_floats(state["kept"], np.float64)
        self._store = self._store._replace(
            cells=Cells(**copied(state["cells"])), kept=Kept(**kept),
            sums=self._store.sums._replace(**sums),
        )  # fmt: skip
        self._results = t.EmittedResults(**copied(state["results"]))


def _agenda(moves: ClockMoves, gaps: tuple[np.ndarray, np.ndarray]) -> Agenda:
    """``gaps``: the row and the steps before each."""
    steps = moves.steps
    frontier, at = np.ascontiguousarray(steps.frontier), np.ascontiguousarray(steps.at)
    ticks = moves.tick_row, moves.tick_steps, moves.tick_at
    return Agenda(steps.row, frontier, at, *gaps, *ticks)  # arrays of one kind for the kernel


# Windows defined by the events of each group: the common part of SESSION and ROWS.
#
# A window of a group has one cell. Its edges are events, so there are no LOW and HIGH results; the
# certainty of the result covers clock errors.


OLD_GAPS_MAX: Final = 4096
"""The most gaps older than the correction horizon. Beyond it gaps are merged in pairs, to bound the
memory; the events of a merged gap may be missing in either."""
_TIMES: Final = Geometry(1, 0, 0, 0, 1)
"""Gaps between neighbours as times, not as numbers of windows."""


class OwnWindows(Windows):
    """The base of both kinds. After the numbers of its aggregates a result has its extent."""

    behind = 1
    initial = MappingProxyType({"frontier": a.INT_MIN // 2, "frontier_at": a.INT_MIN})

    def counters(self) -> dict[str, int]:
        """Rows too late, or without room."""
        st = self._state
        return {"too_late": int(st["too_late"][0]), "refused_groups": int(st["refused"][0])}

    def _forget(self) -> None:
        if len(self._missing.table.left):
            # A window may begin long before that: its gaps count until it is dropped.
            self._missing.forget(self._corrected_from())
            self._missing.merge(self._corrected(), OLD_GAPS_MAX)

    def _corrected(self) -> int:
        reach = self._geo.horizon + 4 * self.plan.size_ns
        return int(max(self._state["frontier"][0], FAR + reach - 2**63) - reach)

    def _corrected_from(self) -> int:
        return min(self._corrected(), self._oldest())

    def _ending(self, at: int) -> Agenda:
        # Open windows have at most early results, which are retracted.
        none, at_once, when = np.empty(0, np.int64), np.zeros(1, np.int64), np.full(1, at)
        return Agenda(at_once, np.full(1, FAR), when, none, none, at_once, at_once + 1, when)

    def _spans(self) -> Geometry:
        return _TIMES

    @abstractmethod
    def _oldest(self) -> int:
        """Return the earliest begin [ns] of the windows of all stored events."""
