"""Windows of time, with drift windows, bounds, completeness and corrections.

Source: R19 3.2.3.1 (time batch), SPEC 4.4. Windows are [k*step, k*step + size) in ``ref`` since the
epoch; tumbling windows have step = size. A row is entered in each window that it may be in
(``engine.operators.window.state.panes`` is an alternative). A window closes when progress reaches
its end plus a margin for events that belong to HIGH, or may belong to it within their uncertainty:
``max(ceil(T_a/2), largest uncertainty of the window's events)``. ``DRIFT EACH`` emits LOW and
MIDDLE earlier, at their own ends. The certain, ambiguous and missing counts and the bounds are
known when HIGH closes, so they are in that result and None in the other two.

A row for a closed window retracts the old result and emits the corrected one while progress is less
than the correction horizon after the window's end; later rows are only counted. A retraction
repeats the content of the result; its ``at`` is the instant of the retraction. If a late event only
changes ``missing`` of a window or key, the correction is emitted when the next window closes, as
one late event changes it for every key.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.engine.core.operator import Result
from slackwater.engine.core.released import Gaps, Released
from slackwater.engine.kernels.records import copy_of, take_rows
from slackwater.engine.operators.window import assign as a
from slackwater.engine.operators.window import emission as t
from slackwater.engine.operators.window.base import CHUNK, FIRST, Windows
from slackwater.engine.operators.window.output.results import picked_codes
from slackwater.engine.operators.window.run import run
from slackwater.engine.operators.window.settings import (
    Geometry,
    WindowSettings,
    considered_delay,
    extents,
    first_with,
)
from slackwater.engine.operators.window.state.accumulate import (
    FLOATS,
    more_sums,
    widen,
)
from slackwater.engine.operators.window.state.cells import (
    Cells,
    copied,
    grown,
    with_floats,
    without_floats,
)
from slackwater.engine.operators.window.state.panes import Panes, new_entries, new_panes
from slackwater.engine.query.plan import Drift, WindowPlan

_NO_SOURCE: Final = -2
"""No event has this code: none fills a gap of it."""
_COUNTERS: Final = {
    "too_late": "too_late", "refused_groups": "refused", "capped_uncertainty": "capped",
    "wide_gaps": "wide_gaps",
}  # fmt: skip


class TimeWindows(Windows):
    """Operator of a ``WindowPlan``."""

    state_fields = (*Windows.state_fields, "_left_out", "_ranked")

    run_pass = staticmethod(run)
    snapshot_fields = a.SNAPSHOT_FIELDS
    record = a.STATE
    initial = MappingProxyType(
        dict.fromkeys(("frontier", "closed_low", "closed_middle", "closed_all"), a.INT_MIN)
    )

    def __init__(
        self, plan: WindowPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
    ) -> None:
        super().__init__(plan, settings, site)
        self._left_out = 0
        columns = len(plan.group_by)
        self._panes = new_panes(self._of, self._picked, FIRST, columns)
        self._no_key = np.zeros((1, columns), np.int64)
        self._room = 0
        self._make_room(a.room_factor(self._geo))

    def counters(self) -> dict[str, int]:
        """Rows that some window did not get: see ``WindowSettings`` and the module.

        ``wide_gaps``: missing events whose place is so vague that windows without any event do not
        tell of them. ``sources_left_out_of_t_a``: the most sources at once whose delay is as long
        as the window, so that T_a leaves them out (``engine.operators.window.settings``).
        """
        counts = {name: int(self._state[field][0]) for name, field in _COUNTERS.items()}
        if self.plan.drift is not Drift.NONE:
            counts["sources_left_out_of_t_a"] = self._left_out
        return counts

    def process(self, released: Released) -> Sequence[Result]:
        t_a, left_out = considered_delay(self.plan, released.t_a, released.delays)
        self._left_out = max(self._left_out, left_out)
        self._geo = self._geo._replace(low_shift=t_a // 2, high_shift=(t_a + 1) // 2)
        widest = int(released.columns["unc"].max(initial=0)) if released.n else 0
        self._make_room(a.room_factor(self._geo, widest))
        most = a.widest_of(self._geo.size, self._geo.step)
        if widest > most:
            released = _with_far(released, most)
        return super().process(released)

    def _make_room(self, room: int) -> None:
        """For rows that can enter so many windows (``room_factor``)."""
        if room > self._room:
            self._room = room
            self._changed = np.empty((2, room * a.WINDOWS_OF_A_ROW), np.int64)

    # ---- a batch ----------------------------------------------------------------------------

    def _spans(self) -> Geometry:
        """Gaps know what their clocks err by; only R19's windows are shifted by more."""
        if self.plan.drift is Drift.NONE:
            return self._geo._replace(low_shift=0, high_shift=0)
        return self._geo

    def _widen(self, m: int) -> None:
        super()._widen(m)
        widen(self._panes.sums, m)

    def _assigner_state(self) -> t.TimeState:
        return t.TimeState(self._panes, self._changed[0], self._changed[1], self._no_key)

    def _forget(self) -> None:
        if self._ranked is not None:
            frontier, geo = int(self._state["frontier"][0]), self._geo
            over = first_with(geo, max(frontier - geo.horizon, a.INT_MIN + geo.size)) - 1
            self._ranked.forget(min(over, int(self._state["closed_all"][0])))
        if len(self._missing.table.left):  # drop gaps that no window still kept can touch
            self._missing.forget(self._corrected_from())

    def _in_order(self, outbox: t.ResultRows) -> t.ResultRows:
        """Sorts the results of one update of a window by their keys."""
        if outbox.block[-1] - outbox.block[0] == len(outbox.block) - 1:
            return outbox
        return take_rows(outbox, self._keys.in_order(outbox.nulls, outbox.keys, outbox.block))

    def _corrected_from(self) -> int:
        reach = self._geo.horizon + 2 * self.plan.size_ns + 2 * self._geo.high_shift
        return max(int(self._state["frontier"][0]), a.INT_MIN + reach) - reach

    def _mark_refuted(self, low: int, high: int) -> None:
        while not a.open_refuted(
            low, high, self._store.cells, self._missing.table, self._geo, self._state, self._no_key
        ):
            if not self._can_grow():
                self._state["refused"] += 1
                break
            self._more_cells()
        headers = self._headers()
        start, end = extents(self.plan, self._store.cells.window[headers])
        self._mark_stale(headers[(start < high) & (end >= low)])

    def _headers(self) -> np.ndarray:
        cells = self._store.cells
        return cells.headers[: int(cells.tally["headers"][0])]

    def _mark_stale(self, leaders: np.ndarray) -> None:
        cells, headers = self._store.cells, self._headers()
        window = cells.window[headers]
        emitted = self._on_change | (window <= self._state["closed_all"][0])
        mine = emitted & np.isin(window, cells.window[leaders])
        cells.stale[headers[mine]] = 1

    # ---- state ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"shifts": (self._geo.low_shift, self._geo.high_shift)}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        low, high = state["shifts"]
        self._geo = self._geo._replace(low_shift=low, high_shift=high)


def _with_far(released: Released, widest: int) -> Released:
    """``released``, whose events that may lie too far off to enter all those windows count as
    missing in them, each as a gap of its own.
    """
    far = np.flatnonzero(released.columns["unc"] > widest)
    ref, unc, gaps = released.columns["ref"][far], released.columns["unc"][far], released.gaps
    more = Gaps(
        row=far, source=np.full(len(far), _NO_SOURCE),
        stream=released.columns["stream"][far].astype(np.int64),
        incarnation=np.zeros(len(far), np.int64), first_seq=far,
        count=np.ones(len(far), np.int64), low=ref - unc, high=ref + unc,
        steps=np.searchsorted(released.progress.row, far, "right"),
    )  # fmt: skip
    row = np.concatenate([gaps.row, more.row])
    order = np.argsort(row, kind="stable")
    both = {
        name: np.concatenate([getattr(gaps, name), getattr(more, name)])[order]
        for name in Gaps.__struct_fields__
    }
    return replace(released, gaps=Gaps(**both))


# Sliding windows made of panes: one addition per event, for any ratio of size and slide.


class PaneWindows(TimeWindows):
    """``TimeWindows`` of a plan whose aggregates need no single values."""

    in_panes = True

    def _make_entries(self, room: int) -> None:
        super()._make_entries(room)
        of_panes = new_entries(min(room, CHUNK))
        self._panes = self._panes._replace(entries=of_panes)

    def _panes_grow(self) -> bool:
        return len(self._panes.cells.window) < self.settings.cells_max

    def _grow(self, why: int, needed: int) -> None:
        if why != a.GROW_MORE:
            super()._grow(why, needed)
            return
        cells = grown(self._panes.cells)
        sums = more_sums(self._panes.sums, len(cells.window))
        self._panes = self._panes._replace(cells=cells, sums=sums)

    def _in_use(self) -> tuple[np.ndarray, np.ndarray]:
        keys, texts = super()._in_use()
        cells, picked = self._panes.cells, picked_codes(self._panes.sums, self._store.sums.of)
        keys = np.concatenate([keys, cells.keys[cells.table[cells.table >= 0]]])
        return keys, np.concatenate([texts, picked])

    def snapshot(self) -> dict[str, Any]:
        panes = self._panes
        return super().snapshot() | {
            "panes": {
                "cells": copied(panes.cells._asdict()),
                "sums": without_floats(panes.sums._asdict()),
                "tally": copy_of(panes.tally),
            }
        }

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        panes = state["panes"]
        sums = self._panes.sums._replace(**with_floats(panes["sums"], FLOATS))
        self._panes = Panes(
            Cells(**copied(panes["cells"])), sums, self._panes.entries, copy_of(panes["tally"])
        )
