"""Tumbling windows (R19: time batch) with drift windows, bounds, completeness and corrections.

Source: R19 3.2.3.1, SPEC 4.4. Windows are [k*size, (k+1)*size) in ``ref`` since the epoch. A window
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
from engine.errors import UserError
from engine.kernels.records import copy_of, one
from engine.operator import Result, Results
from engine.query.expression import View, column, released_mask
from engine.query.fields import attributes_of, released_columns
from engine.query.plan import Drift, TumblingPlan
from engine.stream.ends import ends_of
from engine.stream.released import Released
from engine.window import assign as a
from engine.window import told as t
from engine.window.closing import Closing
from engine.window.doubt.missing import Missing
from engine.window.doubt.where import chosen
from engine.window.drift import SURE, Geometry, considered_delay, shifts_ns
from engine.window.held.accumulate import FLOATS, Values, more_sums, new_sums, values_of
from engine.window.held.aggregate import asked_of, attributes_asked
from engine.window.held.cells import Cells, grown, new_cells
from engine.window.held.content import EACH, PLAIN, STAGE_LAST, TOGETHER, Held, new_content
from engine.window.held.kept import Kept, more_kept, new_kept, widen_kept
from engine.window.held.windows_freed import free_over
from engine.window.keys import GroupKeys
from engine.window.run import run
from engine.window.settings import WindowSettings, horizon_ns
from engine.window.shown.results import WindowResults

_CHUNK: Final = 1 << 16
_FIRST: Final = 256
_OUTBOX_MAX: Final = 1 << 14
_TOLD_AT_ONCE: Final = 1 << 10
"""Keys, or those of one window if it has more: bounds what is told, and so the outbox."""
_FIXED_COLUMNS: Final = frozenset(
    {"ref", "unc", "epoch", "release", "status", "source", "stream", "seq"}
)
_COUNTERS: Final = {
    "too_late": "too_late", "refused_groups": "refused", "capped_uncertainty": "capped",
    "wide_gaps": "wide_gaps",
}  # fmt: skip
_MODES: Final = {Drift.NONE: PLAIN, Drift.EACH: EACH, Drift.TOGETHER: TOGETHER}


class TumblingWindow:
    """Operator of a ``TumblingPlan``.

    Args:
        plan: the query.
        settings: bounds.
        site: named in results.
    """

    types: Final = None

    def __init__(
        self, plan: TumblingPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
    ) -> None:
        self.plan = plan
        self.settings = settings or WindowSettings()
        self.site = site
        self._geo = Geometry(plan.size_ns, 0, 0, horizon_ns(self.settings, plan.size_ns))
        self._keys = GroupKeys(plan.group_by, plan.name)
        self._closing = Closing(plan.drift)
        self._missing = Missing()
        self._left_out = 0
        self._state = one(a.STATE, frontier=a.INT_MIN, close_at=a.INT_MIN)
        self._note_closed()
        self._attributes, of = attributes_asked(plan)
        self._held = Held(
            asked_of(plan, self._attributes), _MODES[plan.drift],
            new_cells(_FIRST, len(plan.group_by)), new_sums(of, _FIRST),
            new_kept(_FIRST, len(of)),
        )  # fmt: skip
        n = len(plan.aggregates)
        self._standing = t.new_standing(_FIRST, self._held.mode, n)
        self._outbox = t.new_outbox(_FIRST, len(plan.group_by), n)
        self._scratch = new_content(n)
        self._entries = t.Entries(np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int64))
        self._no_key = np.zeros((1, len(plan.group_by)), np.int64)
        self._changed = np.empty((2, a.CHANGED_MAX), np.int64)

    def required_columns(self) -> set[str]:
        return set(_FIXED_COLUMNS) | released_columns(attributes_of(self.plan))

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
        results = Results()
        self._geo = Geometry(self.plan.size_ns, *shifts_ns(t_a), self._geo.horizon)
        for field in a.BATCH:
            self._state[field] = 0
        self._set_close_at()
        codes = self._stream_codes(released)
        gaps = released.gaps
        read = np.ones(len(gaps.row), np.bool_) if codes is None else np.isin(gaps.stream, codes)
        known = len(self._missing.table.left)
        gap_row, gap_steps = self._missing.take(gaps, read, self._geo)
        steps = released.slack if len(released.slack.row) else released.progress
        agenda = a.Agenda(steps.row, steps.frontier, steps.at, gap_row, gap_steps)
        rows, values = self._rows(released, codes), self._values(released)
        why = None
        while why != a.DONE:
            can_grow = len(self._held.cells.window) < self.settings.cells_max
            batch = a.Batch(rows, values, agenda, self._missing.table, known, self._geo, can_grow)
            why = run(batch, self._book())
            if why == a.CLOSING:
                self._close(int(self._state["frontier_at"][0]), results)
            elif why == a.OUTBOX_FULL:
                self._send(results)
                self._make_outbox(min(2 * len(self._outbox.at), _OUTBOX_MAX))
            elif why != a.DONE:
                self._grow(why)
        self._send(results)
        if len(self._missing.table.left):
            self._forget_gaps()
        return results

    def advance(self, now: int) -> Sequence[Result]:  # noqa: ARG002 - no window goes by this clock
        return []

    def finish(self, at: int) -> Sequence[Result]:
        results = Results()
        self._tell_stale(at, results)
        windows, _, headers = self._live()
        self._tell_due(self._closing.finish(windows), windows, headers, at, results)
        self._send(results)
        self._note_closed()
        return results

    # ---- a batch ----------------------------------------------------------------------------

    def _stream_codes(self, released: Released) -> np.ndarray | None:
        if not self.plan.streams:
            return None
        return np.array([released.strings.find(name) for name in self.plan.streams], np.int32)

    def _rows(self, released: Released, codes: np.ndarray | None) -> a.Rows:
        columns = released.columns
        selected = np.empty(0, np.bool_)
        if codes is not None:
            selected = np.isin(columns["stream"], codes)
        perhaps, reach = None, columns["unc"]
        if self.plan.where is not None:
            perhaps = chosen(self.plan.where, released, self.plan.size_ns)
            mine = released_mask(self.plan.where, released) if perhaps is None else perhaps.taken
            selected = selected & mine if len(selected) else mine
        if perhaps is not None:
            reach = np.where(perhaps.how == SURE, reach, np.maximum(reach, self.plan.size_ns + 1))
        keys, nulls = self._keys.codes(released)
        # An interval is known, and counts, when it ends.
        read = {name: columns[name] for name in _FIXED_COLUMNS} | {"ref": ends_of(released)}
        exact = np.empty(0, np.int64)
        return a.Rows(
            **read, selected=selected, keys=keys, nulls=nulls, reach=reach,
            how=np.empty(0, np.int8) if perhaps is None else perhaps.how,
            low=exact if perhaps is None else perhaps.low,
            high=exact if perhaps is None else perhaps.high,
        )  # fmt: skip

    def _values(self, released: Released) -> Values:
        """Of each aggregated attribute the values of all rows."""
        view = View.of(released.columns, released.attr_types, released.strings)
        found: list[tuple[np.ndarray, np.ndarray | None] | None] = []
        for name, counts_only in self._attributes.items():
            value = column(name, view)
            if value.kind == "str" and not counts_only:
                raise UserError(
                    f"query {self.plan.name!r}: attribute {name!r} is text, and only count takes "
                    "text; leave it out of the other aggregates"
                )
            found.append(None if value.kind == "null" else (value.data, value.valid))
        sums = self._held.sums
        before = sums.of["is_float"].copy()
        values = values_of(found, sums, released.n)
        for m in np.flatnonzero(sums.of["is_float"] & ~before).tolist():
            widen_kept(self._held.kept, m)
        return values

    def _book(self) -> t.Book:
        return t.Book(
            self._state,
            self._held,
            self._standing,
            self._outbox,
            self._scratch,
            self._entries,
            self._changed[0],
            self._changed[1],
            self._no_key,
        )

    def _grow(self, why: int) -> None:
        """Double what has too little room."""
        held = self._held
        if why == a.GROW_CELLS:
            cells = grown(held.cells)
            sums = more_sums(held.sums, len(cells.window))
            self._held = held._replace(cells=cells, sums=sums)
        elif why == a.GROW_KEPT:
            self._held = held._replace(kept=more_kept(held.kept))
        else:
            self._stand(2 * len(self._standing.next))

    def _stand(self, capacity: int) -> None:
        self._standing = t.more_standing(self._standing, capacity, self._held.mode)

    # ---- results ----------------------------------------------------------------------------

    def _live(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(windows ascending, their largest uncertainties, their headers)."""
        cells = self._held.cells
        headers = cells.headers[: cells.tally["headers"][0]]
        headers = headers[np.argsort(cells.window[headers])]
        return cells.window[headers], cells.unc[headers], headers

    def _set_close_at(self) -> None:
        windows, unc, _ = self._live()
        self._state["close_at"] = self._closing.next_at(windows, unc, self._geo)

    def _note_closed(self) -> None:
        closed = self._closing.closed
        self._state["closed_low"] = closed[0]
        self._state["closed_middle"] = closed[len(closed) // 2]
        self._state["closed_all"] = closed[-1]

    def _close(self, at: int, results: Results) -> None:
        frontier, before = int(self._state["frontier"][0]), self._closing.closed[-1]
        windows, unc, headers = self._live()
        due = self._closing.advance(frontier, windows, unc, self._geo)
        if self._closing.closed[-1] > before:
            self._tell_stale(at, results)
        self._tell_due(due, windows, headers, at, results)
        self._note_closed()
        if self._closing.closed[-1] > before:
            ended = windows <= self._closing.closed[-1]
            over = ended & ((windows + 1) * self.plan.size_ns <= frontier - self._geo.horizon)
            free_over(self._held, self._standing, headers[over])
        self._set_close_at()

    def _tell_due(
        self, due: list[tuple[int, int]], windows: np.ndarray, headers: np.ndarray, at: int,
        results: Results,
    ) -> None:  # fmt: skip
        """Tell the (window, stage) of ``due``; ``windows``, ascending, have ``headers``."""
        of, stages = np.array(due, np.int64).reshape(-1, 2).T
        self._tell(headers[np.searchsorted(windows, of)], stages, at, results)

    def _tell_stale(self, at: int, results: Results) -> None:
        """Correct the closed windows whose ``missing`` has changed."""
        _, _, headers = self._live()
        stale = headers[self._held.cells.stale[headers] != 0]
        self._tell(stale, np.full(len(stale), STAGE_LAST), at, results)

    def _tell(self, headers: np.ndarray, stages: np.ndarray, at: int, results: Results) -> None:
        """One stage of each of these windows, one after another."""
        if not len(headers):
            return
        counts = t.key_counts(self._held.cells, headers)
        group = np.cumsum(counts) // _TOLD_AT_ONCE
        cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(headers)]
        for first, last in pairwise(cuts):
            some = slice(first, last)
            self._tell_some(headers[some], stages[some], counts[some], at, results)

    def _tell_some(
        self, headers: np.ndarray, stages: np.ndarray, counts: np.ndarray, at: int,
        results: Results,
    ) -> None:  # fmt: skip
        """As ``_tell``; its keys, of which each window has ``counts``, in order of their values."""
        cells, keys = self._held.cells, int(counts.sum())
        leaders = t.keys_of(cells, headers, keys)
        if (counts > 1).any():  # of windows with missing events alone it is 0
            window = np.repeat(np.arange(len(headers)), counts)
            order = self._keys.in_order(cells.tag[leaders], cells.keys[leaders], window)
            leaders = leaders[order]
        needed = keys + len(headers) + t.SPARE
        if self._standing.tally["live"][0] + needed > len(self._standing.next):
            self._stand(2 * len(self._standing.next) + needed)
        if self._outbox.tally[0] + 2 * needed > len(self._outbox.at):
            self._send(results)
            self._make_outbox(max(4 * needed, min(2 * len(self._outbox.at), _OUTBOX_MAX)))
        ends = np.cumsum(counts)
        t.tell_windows(self._book(), headers, stages, leaders, ends, self.plan.size_ns, at)

    def _make_outbox(self, capacity: int) -> None:
        """Larger ones make fewer and longer pieces of results, but every site has one."""
        if capacity > len(self._outbox.at):
            columns, n = len(self.plan.group_by), len(self.plan.aggregates)
            self._outbox = t.new_outbox(capacity, columns, n)

    def _send(self, results: Results) -> None:
        if self._outbox.tally[0]:
            results.extend(
                WindowResults(t.in_words(self._outbox), self.plan, self._keys, self.site)
            )
            self._outbox.tally[0] = 0

    def _forget_gaps(self) -> None:
        """Drop gaps that no window still kept can touch."""
        frontier = int(self._state["frontier"][0])
        if frontier > a.INT_MIN:
            reach = self._geo.horizon + 2 * self.plan.size_ns + 2 * self._geo.high_shift
            self._missing.forget(frontier - reach)

    # ---- state ------------------------------------------------------------------------------

    def codes(self) -> np.ndarray | None:
        cells, kept, gaps = self._held.cells, self._held.kept, self._missing.table
        keys = self._keys.used(cells.keys[cells.table[cells.table >= 0]])
        # Of events no longer kept, too: which those are takes longer to find than they matter.
        return np.concatenate([keys, np.unique(kept.source), gaps.source, gaps.stream])

    def snapshot(self) -> dict[str, Any]:
        held = self._held
        live = held.cells.table[held.cells.table >= 0]
        parts: dict[str, dict[str, np.ndarray]] = {
            "cells": held.cells._asdict(),
            "sums": held.sums._asdict(),
            "kept": held.kept._asdict(),
            "standing": self._standing._asdict(),
        }
        return {
            "state": {name: int(self._state[name][0]) for name in a.LASTING},
            "geo": list(self._geo),
            "closed": list(self._closing.closed),
            "left_out": self._left_out,
            "missing": self._missing.snapshot(),
            "keys": self._keys.snapshot(held.cells.keys[live]),
            **{
                name: _copied({n: column for n, column in part.items() if n != "floats"})
                for name, part in parts.items()
            },
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        self._state = one(a.STATE, **state["state"])
        self._geo = Geometry(*state["geo"])
        self._closing.closed = list(state["closed"])
        self._left_out = state["left_out"]
        self._missing.restore(state["missing"])
        self._keys.restore(state["keys"])
        sums = _with_floats(state["sums"], FLOATS)
        kept = _with_floats(state["kept"], np.float64)
        self._held = self._held._replace(
            cells=Cells(**_copied(state["cells"])), kept=Kept(**kept),
            sums=self._held.sums._replace(**sums),
        )  # fmt: skip
        self._standing = t.Standing(**_copied(state["standing"]))


def _copied(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        name: copy_of(column) if column.dtype.names and name != "of" else column.copy()
        for name, column in columns.items()
    }


def _with_floats(columns: dict[str, np.ndarray], kind: Any) -> dict[str, np.ndarray]:
    """Integers are seen as floats, too."""
    made = _copied(columns)
    return made | {"floats": made["ints"].view(kind)}
