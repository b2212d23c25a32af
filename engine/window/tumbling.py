"""Tumbling windows (R19: time batch) with drift windows, bounds, completeness and corrections.

Source: R19 3.2.3.1, SPEC 4.4. Windows are [k*size, (k+1)*size) in ``ref`` since the epoch. A window
closes when progress reaches its end plus the margin by which events that belong to HIGH, or
may belong to it within their uncertainty, can still follow: ``max(ceil(T_a/2), largest
uncertainty of the window's events)``, the latter at most one size. ``DRIFT EACH`` emits LOW and
MIDDLE sooner, at their own ends; what is certain, ambiguous, missing and bounded is known when
HIGH closes, so it stands in that result and is None in the other two.

A row for a closed window retracts the old result and emits the corrected one as long as
progress is less than ``correction_horizon_ns`` past the window's end; after that it is counted.
A retraction repeats the result's content; its ``at`` is the instant of the retraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from edge_agent.records import DEFAULT_SITE
from engine.errors import UserError
from engine.operator import Result
from engine.query.expression import View, column, released_mask
from engine.query.fields import attributes_of, released_columns
from engine.query.plan import TumblingPlan
from engine.released import Released
from engine.window import assign as a
from engine.window.accumulate import Measure
from engine.window.aggregate import NEEDS_ALL_VALUES, NEEDS_AMBIGUOUS_VALUES, NEEDS_MOMENTS
from engine.window.cells import HEADERS, LIVE, Cells, chain, free_window, grown, new_cells
from engine.window.closing import LAST, Closing
from engine.window.drift import PART_BITS, check_size, shifts_ns
from engine.window.keys import Code, GroupKeys
from engine.window.missing import Missing
from engine.window.outcome import Content, Outcome

_CHUNK: Final = 1 << 16
_FIRST_CELLS: Final = 256
_DEFAULT_HORIZON_NS: Final = 60 * 10**9
_FIXED_COLUMNS: Final = frozenset({"ref", "unc", "release", "status", "source", "stream", "seq"})
_COUNTERS: Final = {
    "too_late": a.TOO_LATE, "refused_groups": a.REFUSED, "capped_uncertainty": a.CAPPED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """How long closed windows can be corrected, and how many cells may be held.

    ``correction_horizon_ns``: None means 60 s or one window size, whichever is longer.
    ``cells_max``: at most this many (window, key, part); a power of two. Rows beyond are counted.
    """

    correction_horizon_ns: int | None = None
    cells_max: int = 1 << 22


class TumblingWindow:
    """Operator of a ``TumblingPlan``.

    Args:
        plan: the query.
        settings: bounds.
        site: named in results.
    """

    def __init__(
        self, plan: TumblingPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
    ) -> None:
        self.plan = plan
        self.settings = settings or WindowSettings()
        self.site = site
        horizon = self.settings.correction_horizon_ns
        self._horizon = max(_DEFAULT_HORIZON_NS, plan.size_ns) if horizon is None else horizon
        self._geo = a.Geometry(plan.size_ns, 0, 0, self._horizon)
        self._keys = GroupKeys(plan.group_by, plan.name)
        self._measures = _measures(plan)
        self._outcome = Outcome(plan, self._measures)
        self._closing = Closing(plan.drift)
        self._missing = Missing()
        self._gaps_known = 0
        self._st = np.zeros(a.STATE_SIZE, np.int64)
        self._st[[a.FRONTIER, a.CLOSE_AT]] = a.INT_MIN
        self._note_closed()
        self._emitted: dict[tuple[int, str], dict[Code, Result]] = {}
        self._use(new_cells(_FIRST_CELLS, len(plan.group_by)))
        self._entries = a.Entries(
            np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int32), np.empty(_CHUNK, np.int32)
        )

    def _use(self, cells: Cells) -> None:
        self._cells = cells
        for measure in self._measures.values():
            measure.grow(len(cells.window))

    def required_columns(self) -> set[str]:
        return set(_FIXED_COLUMNS) | released_columns(attributes_of(self.plan))

    def counters(self) -> dict[str, int]:
        """Rows that some window did not get: see ``WindowSettings`` and the module."""
        return {name: int(self._st[place]) for name, place in _COUNTERS.items()}

    def process(self, released: Released) -> list[Result]:
        check_size(self.plan.size_ns, released.t_a, self.plan.drift, self.plan.name)
        st = self._st
        self._geo = a.Geometry(self.plan.size_ns, *shifts_ns(released.t_a), self._horizon)
        st[a.LASTING :] = 0
        self._set_close_at()
        codes = self._stream_codes(released)
        gaps = released.gaps
        read = np.ones(len(gaps.row), np.bool_) if codes is None else np.isin(gaps.stream, codes)
        known_before = len(self._missing.table.left)
        gap_row, gap_steps = self._missing.take(gaps, read)
        rows = self._rows(released, codes)
        steps = released.progress
        agenda = a.Agenda(steps.row, steps.frontier, steps.at, gap_row, gap_steps)
        inputs = self._inputs(released)
        results: list[Result] = []
        while True:
            can_grow = len(self._cells.window) < self.settings.cells_max
            why = a.assign(
                rows, agenda, self._missing.table, known_before, self._geo, self._cells, can_grow,
                st, self._entries,
            )  # fmt: skip
            self._accumulate(inputs)
            self._gaps_known = known_before + int(st[a.GAP])
            if st[a.DIRTY]:
                results += self._correct(int(st[a.DIRTY_AT]))
            if st[a.CLOSING]:
                st[a.CLOSING] = 0
                results += self._close(int(st[a.FRONTIER_AT]))
            if why == a.GROW:
                self._use(grown(self._cells))
            elif why == a.DONE:
                break
        if len(self._missing.table.left):
            self._forget_gaps()
        return results

    def advance(self, now: int) -> list[Result]:  # noqa: ARG002 - no window goes by this clock
        return []

    def finish(self, at: int) -> list[Result]:
        results = self._emit(self._closing.finish(self._live()[0]), at)
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
        if self.plan.where is not None:
            chosen = released_mask(self.plan.where, released)
            selected = selected & chosen if len(selected) else chosen
        names = ("ref", "unc", "release", "status", "source", "stream", "seq")
        keys, nulls = self._keys.codes(released)
        read = {name: columns[name] for name in names}
        return a.Rows(**read, selected=selected, keys=keys, nulls=nulls)

    def _inputs(self, released: Released) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
        """Per measure the values of all rows, where the batch has any."""
        view = View.of(released.columns, released.attr_types, released.strings)
        found = {}
        for name, measure in self._measures.items():
            value = column(name, view)
            if value.kind == "null":
                continue
            if value.kind == "str" and not measure.counts_only:
                raise UserError(
                    f"query {self.plan.name!r}: attribute {name!r} is text, and only count takes "
                    "text; leave it out of the other aggregates"
                )
            data = value.data if value.kind == "float" else value.data.astype(np.int64, copy=False)
            found[name] = (data, value.valid)
        return found

    def _accumulate(self, inputs: dict[str, tuple[np.ndarray, np.ndarray | None]]) -> None:
        n = int(self._st[a.ENTRIES])
        if n:
            row, cell = self._entries.row[:n], self._entries.cell[:n]
            has_ambiguous = bool(self._st[a.AMBIGUOUS_ENTRIES])
            for name, (values, valid) in inputs.items():
                self._measures[name].add(self._cells, row, cell, has_ambiguous, values, valid)
        self._st[[a.ENTRIES, a.AMBIGUOUS_ENTRIES]] = 0

    # ---- results ----------------------------------------------------------------------------

    def _live(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(windows ascending, their largest uncertainties, their headers)."""
        headers = self._cells.headers[: self._cells.tally[HEADERS]]
        headers = headers[np.argsort(self._cells.window[headers])]
        return self._cells.window[headers], self._cells.unc[headers], headers

    def _cells_of(self, header: int) -> np.ndarray:
        out = np.empty(int(self._cells.tally[LIVE]), np.int64)
        return out[: chain(self._cells, header, out)]

    def _set_close_at(self) -> None:
        windows, unc, _ = self._live()
        self._st[a.CLOSE_AT] = self._closing.next_at(windows, unc, self._geo)

    def _note_closed(self) -> None:
        closed = self._closing.closed
        self._st[a.CLOSED_LOW] = closed[0]
        self._st[a.CLOSED_MIDDLE] = closed[len(closed) // 2]
        self._st[a.CLOSED_ALL] = closed[-1]

    def _close(self, at: int) -> list[Result]:
        frontier = int(self._st[a.FRONTIER])
        windows, unc, headers = self._live()
        results = self._emit(self._closing.advance(frontier, windows, unc, self._geo), at)
        self._note_closed()
        ended = windows <= self._closing.closed[-1]
        over = ended & ((windows + 1) * self.plan.size_ns <= frontier - self._horizon)
        for window, header in zip(windows[over].tolist(), headers[over].tolist(), strict=True):
            for measure in self._measures.values():
                measure.forget(window, self._cells_of(header))
            free_window(self._cells, header)
            for stage in self._closing.stages:
                self._emitted.pop((window, stage), None)
        self._set_close_at()
        return results

    def _emit(self, due: list[tuple[int, str]], at: int) -> list[Result]:
        if not due:
            return []
        windows, _, headers = self._live()
        header_of = dict(zip(windows.tolist(), headers.tolist(), strict=True))
        results: list[Result] = []
        for window, stage in due:
            cells = self._cells_of(header_of[window])
            contents = self._outcome.contents(self._cells, window, cells, stage)
            missing = self._missing_in(window, stage)
            kept = self._emitted.setdefault((window, stage), {})
            for code in sorted(contents, key=self._keys.order):
                kept[code] = self._result(window, code, contents[code], missing, at)
                results.append(_copy(kept[code]))
        return results

    def _correct(self, at: int) -> list[Result]:
        """Retract and replace the results of closed windows that the last row changed."""
        n = int(self._st[a.DIRTY])
        dirty = np.unique(self._entries.dirty[:n].astype(np.int64))
        self._st[a.DIRTY] = 0
        results: list[Result] = []
        for cell in dirty[np.argsort(self._cells.window[dirty], kind="stable")].tolist():
            window = int(self._cells.window[cell])
            nulls = self._cells.tag[cell] >> PART_BITS
            cells = a.cells_of_key(self._cells, window, nulls, self._cells.keys[[cell]])
            for stage in self._closing.stages_closed(window):
                contents = self._outcome.contents(self._cells, window, cells, stage)
                missing = self._missing_in(window, stage)
                kept = self._emitted.setdefault((window, stage), {})
                for code, content in contents.items():
                    new = self._result(window, code, content, missing, at)
                    old = kept.get(code)
                    if old is not None and old | {"at": at} == new:
                        continue
                    if old is not None:
                        results.append(_copy(old) | {"op": "-", "at": at})
                    kept[code] = new
                    results.append(_copy(new))
        return results

    def _missing_in(self, window: int, stage: str) -> int | None:
        if stage != LAST:
            return None
        low = window * self.plan.size_ns - self._geo.low_shift
        high = (window + 1) * self.plan.size_ns + self._geo.high_shift
        return self._missing.between(low, high, self._gaps_known)

    def _result(
        self, window: int, code: Code, content: Content, missing: int | None, at: int
    ) -> Result:
        start = window * self.plan.size_ns
        return {
            "op": "+",
            "query": self.plan.name,
            "site": self.site,
            "at": at,
            "window": {"start": start, "end": start + self.plan.size_ns},
            "key": self._keys.value(code),
            **content,
            "missing": missing,
        }

    def _forget_gaps(self) -> None:
        """Drop gaps that no window still kept can touch."""
        frontier = int(self._st[a.FRONTIER])
        if frontier > a.INT_MIN:
            reach = self._horizon + 2 * self.plan.size_ns + 2 * self._geo.high_shift
            self._missing.forget(frontier - reach)
        self._gaps_known = len(self._missing.table.left)

    # ---- state ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        live = self._cells.table[self._cells.table >= 0]
        return {
            "st": self._st[: a.LASTING].tolist(),
            "geo": list(self._geo),
            "closed": list(self._closing.closed),
            "cells": {name: column.copy() for name, column in self._cells._asdict().items()},
            "measures": {name: m.snapshot() for name, m in self._measures.items()},
            "missing": self._missing.snapshot(),
            "keys": self._keys.snapshot(self._cells.keys[live]),
            "emitted": {place: dict(results) for place, results in self._emitted.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._st[: a.LASTING] = state["st"]
        self._geo = a.Geometry(*state["geo"])
        self._closing.closed = list(state["closed"])
        self._cells = Cells(**{name: column.copy() for name, column in state["cells"].items()})
        for name, measure in self._measures.items():
            measure.restore(state["measures"][name])
        self._missing.restore(state["missing"])
        self._gaps_known = len(self._missing.table.left)
        self._keys.restore(state["keys"])
        self._emitted = {place: dict(results) for place, results in state["emitted"].items()}


def _copy(result: Result) -> Result:
    """One to hand out: whoever changes it must not change what a retraction will repeat."""
    made = {name: dict(part) if isinstance(part, dict) else part for name, part in result.items()}
    if made["bounds"] is not None:
        made["bounds"] = {label: list(pair) for label, pair in made["bounds"].items()}
    return made


def _measures(plan: TumblingPlan) -> dict[str, Measure]:
    """One measure per aggregated attribute, keeping what its functions need."""
    functions: dict[str, set[str]] = {}
    for aggregate in plan.aggregates:
        if aggregate.attribute is not None:
            functions.setdefault(aggregate.attribute.name, set()).add(aggregate.function)
    return {
        name: Measure(
            moments=bool(used & NEEDS_MOMENTS),
            keep_ambiguous=bool(used & NEEDS_AMBIGUOUS_VALUES),
            keep_all=bool(used & NEEDS_ALL_VALUES),
            counts_only=used == {"count"},
        )
        for name, used in functions.items()
    }
