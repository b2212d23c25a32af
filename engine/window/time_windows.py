"""Windows of time, with drift windows, bounds, completeness and corrections.

Source: R19 3.2.3.1 (time batch), SPEC 4.4. Windows are [k*step, k*step + size) in ``ref`` since the
epoch; those that tumble have the size as step. A row is entered in each window that it may be in
(``engine.window.panes`` has another way). A window
closes when progress reaches its end plus the margin by which events that belong to HIGH, or
may belong to it within their uncertainty, can still follow: ``max(ceil(T_a/2), largest
uncertainty of the window's events)``, the latter at most one size. ``DRIFT EACH`` emits LOW and
MIDDLE sooner, at their own ends; what is certain, ambiguous, missing and bounded is known when
HIGH closes, so it stands in that result and is None in the other two.

A row for a closed window retracts the old result and emits the corrected one as long as
progress is less than the correction horizon past the window's end; after that it is counted.
A retraction repeats the result's content; its ``at`` is the instant of the retraction. Where
only ``missing`` changed, in a window or for a key that the late event is not of, the correction
goes out with the next window that closes: one late event changes it for every key.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from edge_agent.records import DEFAULT_SITE
from engine.kernels.records import one
from engine.operator import Result, ResultPieces
from engine.query.plan import Drift, WindowPlan
from engine.stream.released import Released
from engine.window import assign as a
from engine.window import told as t
from engine.window.base import FIRST, OUTBOX_MAX, Windows
from engine.window.closing import Closing
from engine.window.drift import Geometry, considered_delay
from engine.window.held.accumulate import Values, widen
from engine.window.held.cells import SPARE
from engine.window.held.content import EACH, PLAIN, STAGE_LAST, TOGETHER
from engine.window.held.windows_freed import free_over
from engine.window.panes.held import Entries, new_panes
from engine.window.run import run
from engine.window.settings import WindowSettings, horizon_ns

_CHUNK: Final = 1 << 16
_TOLD_AT_ONCE: Final = 1 << 10
"""Keys, or those of one window if it has more: bounds what is told, and so the outbox."""
_COUNTERS: Final = {
    "too_late": "too_late", "refused_groups": "refused", "capped_uncertainty": "capped",
    "wide_gaps": "wide_gaps",
}  # fmt: skip
_MODES: Final = {Drift.NONE: PLAIN, Drift.EACH: EACH, Drift.TOGETHER: TOGETHER}


class TimeWindows(Windows):
    """Operator of a ``WindowPlan``."""

    lasting = a.LASTING
    in_panes = False
    """Whether rows go to panes, which the windows share."""

    def __init__(
        self, plan: WindowPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
    ) -> None:
        super().__init__(plan, settings, site, mode=_MODES[plan.drift])
        self._geo = Geometry(
            plan.size_ns, 0, 0, horizon_ns(self.settings, plan.size_ns), plan.step_ns
        )
        self._closing = Closing(plan.drift)
        self._left_out = 0
        self._state = one(a.STATE, frontier=a.INT_MIN, close_at=a.INT_MIN)
        self._note_closed()
        self._room = a.room_factor(self._geo)
        columns = len(plan.group_by)
        chunk = _CHUNK if self.in_panes else 0
        self._panes = new_panes(self._of, self._picked, FIRST, columns, chunk)
        chunk = max(_CHUNK, 2 * SPARE * self._room)
        self._entries = Entries(np.empty(chunk, np.int64), np.empty(chunk, np.int64))
        self._no_key = np.zeros((1, columns), np.int64)
        self._changed = np.empty((2, a.windows_of_a_row(self._geo)), np.int64)
        self._extent = (plan.step_ns, plan.size_ns)

    def counters(self) -> dict[str, int]:
        """Rows that some window did not get: see ``WindowSettings`` and the module.

        ``wide_gaps``: missing events whose place is so vague that windows without any event do not
        tell of them. ``sources_left_out_of_t_a``: the most sources at once whose delay is as long
        as the window, so that T_a leaves them out (``engine.window.drift``).
        """
        counts = {name: int(self._state[field][0]) for name, field in _COUNTERS.items()}
        if self.plan.drift is not Drift.NONE:
            counts["sources_left_out_of_t_a"] = self._left_out
        return counts

    def process(self, released: Released) -> Sequence[Result]:
        t_a, left_out = considered_delay(self.plan, released.t_a, released.delays)
        self._left_out = max(self._left_out, left_out)
        self._geo = self._geo._replace(low_shift=t_a // 2, high_shift=(t_a + 1) // 2)
        return self._run(*self._read(released, self._geo))

    def _run(self, rows: a.Rows, values: Values, agenda: a.Agenda, known: int) -> ResultPieces:
        results = ResultPieces()
        for field in a.BATCH:
            self._state[field] = 0
        self._set_close_at()
        why = None
        while why != a.DONE:
            batch = a.Batch(
                rows, values, agenda, self._missing.table, known, self._geo, self._room,
                self._can_grow(), self.in_panes, self._panes_grow(), self._on_change,
            )  # fmt: skip
            why = run(batch, self._book())
            if why == a.CLOSING:
                so_far = known + int(self._state["gap"][0])
                self._close(int(self._state["frontier_at"][0]), so_far, results)
            elif why == a.TICK:
                self._tell_open(int(agenda.tick_at[self._state["tick"][0] - 1]), results)
            elif why == a.OUTBOX_FULL:
                self._send(results)
                most = max(OUTBOX_MAX, 2 * t.SPARE * self._room)
                self._more_outbox(min(2 * len(self._outbox.at), most))
            elif why != a.DONE:
                self._grow(why)
        self._send(results)
        if len(self._missing.table.left):
            self._forget_gaps()
        return results

    def finish(self, at: int) -> Sequence[Result]:
        results = self._until(at + 1, last=True)
        self._tell_stale(at, results)
        due = self._closing.finish(self._begun(every=True)[0])
        self._make(due, len(self._missing.table.left))
        self._tell_due(due, a.INT_MIN, at, results)
        self._send(results)
        self._note_closed()
        return results

    # ---- a batch ----------------------------------------------------------------------------

    def _spans(self) -> Geometry:
        return self._geo

    def _widen(self, m: int) -> None:
        super()._widen(m)
        widen(self._panes.sums, m)

    def _book(self) -> t.Book:
        return t.Book(
            self._state,
            self._held,
            self._standing,
            self._outbox,
            self._scratch,
            self._entries,
            self._panes,
            self._changed[0],
            self._changed[1],
            self._no_key,
        )

    def _grow(self, why: int) -> None:
        """Double what has too little room."""
        if why == a.GROW_CELLS:
            self._more_cells()
        elif why == a.GROW_KEPT:
            self._more_kept()
        else:
            self._more_standing()

    # ---- results ----------------------------------------------------------------------------

    def _headers(self) -> np.ndarray:
        """Of the windows that hold something, in no order."""
        cells = self._held.cells
        return np.asarray(cells.headers[: cells.tally["headers"][0]])

    def _open(self, closed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(windows behind ``closed``, ascending, their largest uncertainties, their headers)."""
        cells, headers = self._held.cells, self._headers()
        headers = headers[cells.window[headers] > closed]
        headers = headers[np.argsort(cells.window[headers])]
        return cells.window[headers], cells.unc[headers], headers

    def _begun(self, *, every: bool = False) -> tuple[np.ndarray, np.ndarray]:  # noqa: ARG002
        """Windows that something is, or may be, in, ascending, and their largest uncertainties;
        at least those that progress may close now, or ``every`` one.
        """
        return self._open(self._closing.closed[-1])[:2]

    def _make(self, due: list[tuple[int, int]], known: int) -> None:
        """The windows of ``due`` get cells; the first ``known`` gaps are known."""

    def _panes_grow(self) -> bool:
        return False

    def _set_close_at(self) -> None:
        windows, unc = self._begun()
        self._state["close_at"] = self._closing.next_at(windows, unc, self._geo)

    def _note_closed(self) -> None:
        closed = self._closing.closed
        self._state["closed_low"] = closed[0]
        self._state["closed_middle"] = closed[len(closed) // 2]
        self._state["closed_all"] = closed[-1]

    def _close(self, at: int, known: int, results: ResultPieces) -> None:
        frontier, before = int(self._state["frontier"][0]), self._closing.closed[-1]
        due = self._closing.advance(frontier, *self._begun(), self._geo)
        self._make(due, known)
        if self._closing.closed[-1] > before:
            self._tell_stale(at, results)
        self._tell_due(due, before, at, results)
        self._note_closed()
        if self._closing.closed[-1] > before:
            headers = self._headers()
            windows = self._held.cells.window[headers]
            ended = windows <= self._closing.closed[-1]
            ends = windows * self.plan.step_ns + self.plan.size_ns
            over = ended & (ends <= frontier - self._geo.horizon)
            if over.any():
                free_over(self._held, self._standing, headers[over])
                if self._ranked is not None:
                    self._send(results)
                    self._ranked.forget(windows[over])
        self._set_close_at()

    def _tell_due(
        self, due: list[tuple[int, int]], closed: int, at: int, results: ResultPieces
    ) -> None:
        """Tell the (window, stage) of ``due``, all behind window ``closed``."""
        windows, _, headers = self._open(closed)
        of, stages = np.array(due, np.int64).reshape(-1, 2).T
        self._tell(headers[np.searchsorted(windows, of)], stages, at, results)

    def _tell_open(self, at: int, results: ResultPieces) -> None:
        """What open windows say so far."""
        self._tell_stale(at, results)
        windows, _, headers = self._open(self._closing.closed[-1])
        stages = self._closing.stages
        still = [headers[windows > closed] for closed in self._closing.closed]
        of = np.concatenate(still)
        stage = np.repeat(stages, [len(each) for each in still])
        order = np.lexsort((stage, self._held.cells.window[of]))
        self._tell(of[order], stage[order], at, results)

    def _tell_stale(self, at: int, results: ResultPieces) -> None:
        """Correct the closed windows whose ``missing`` has changed."""
        cells, headers = self._held.cells, self._headers()
        stale = headers[cells.stale[headers] != 0]
        stale = stale[np.argsort(cells.window[stale])]
        self._tell(stale, np.full(len(stale), STAGE_LAST), at, results)

    def _tell(
        self, headers: np.ndarray, stages: np.ndarray, at: int, results: ResultPieces
    ) -> None:
        """One stage of each of these windows, one after another."""
        if not len(headers):
            return
        counts = t.key_counts(self._held.cells.link, headers)
        group = np.cumsum(counts) // _TOLD_AT_ONCE
        cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(headers)]
        for first, last in pairwise(cuts):
            some = slice(first, last)
            self._tell_some(headers[some], stages[some], counts[some], at, results)

    def _tell_some(
        self, headers: np.ndarray, stages: np.ndarray, counts: np.ndarray, at: int,
        results: ResultPieces,
    ) -> None:  # fmt: skip
        """As ``_tell``; its keys, of which each window has ``counts``, in order of their values."""
        cells, keys = self._held.cells, int(counts.sum())
        leaders = t.keys_of(cells.link, headers, keys)
        if (counts > 1).any():  # of windows with missing events alone it is 0
            window = np.repeat(np.arange(len(headers)), counts)
            order = self._keys.in_order(cells.tag[leaders], cells.keys[leaders], window)
            leaders = leaders[order]
        needed = keys + len(headers) + t.SPARE
        if self._standing.tally["live"][0] + needed > len(self._standing.next):
            self._more_standing(needed)
        if self._outbox.tally[0] + 2 * needed > len(self._outbox.at):
            self._send(results)
            self._more_outbox(max(4 * needed, min(2 * len(self._outbox.at), OUTBOX_MAX)))
        ends = np.cumsum(counts)
        t.tell_windows(self._book(), headers, stages, leaders, ends, self._extent, at)

    def _forget_gaps(self) -> None:
        """Drop gaps that no window still kept can touch."""
        frontier = int(self._state["frontier"][0])
        if frontier > a.INT_MIN:
            reach = self._geo.horizon + 2 * self.plan.size_ns + 2 * self._geo.high_shift
            self._missing.forget(frontier - reach)

    # ---- state ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "geo": list(self._geo), "closed": list(self._closing.closed),
            "left_out": self._left_out,
            "ranked": [] if self._ranked is None else self._ranked.snapshot(),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._geo = Geometry(*state["geo"])
        self._closing.closed = list(state["closed"])
        self._left_out = state["left_out"]
        if self._ranked is not None:
            self._ranked.restore(state["ranked"])
