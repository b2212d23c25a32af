"""Operators of windows that go by the events of each group: SESSION and ROWS.

A group's window has one cell, and no events are near its edge: its edges are events. So there are
no LOW and HIGH; what hangs on the clocks' errors is told by the result's certainty.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from edge_agent.records import DEFAULT_SITE
from engine.kernels.records import one
from engine.operator import Result, ResultPieces
from engine.query.fields import attributes_of, released_columns
from engine.query.plan import WindowPlan
from engine.stream.ends import ends_of
from engine.stream.released import Released
from engine.window import told as t
from engine.window.assign import Agenda, Rows
from engine.window.doubt.missing import Missing
from engine.window.drift import Geometry
from engine.window.held.accumulate import FLOATS, Values, more_sums, new_sums, no_values, values_of
from engine.window.held.aggregate import arguments_asked, asked_of
from engine.window.held.cells import Cells, grown, new_cells
from engine.window.held.content import PLAIN, Held, new_content
from engine.window.held.copies import copied, with_floats, without_floats
from engine.window.held.kept import Kept, more_kept, new_kept, widen_kept
from engine.window.keys import GroupKeys
from engine.window.own import batch as b
from engine.window.panes.held import Entries
from engine.window.rows_read import FIXED_COLUMNS, argument_values, rows_of, stream_codes
from engine.window.settings import WindowSettings, horizon_ns
from engine.window.shown.having import shown
from engine.window.shown.results import WindowResults
from engine.window.shown.text_codes import text_codes

_CHUNK: Final = 1 << 14
_FIRST: Final = 256
_OUTBOX_MAX: Final = 1 << 14
_TIMES: Final = Geometry(1, 0, 0, 0, 1)
"""Gaps between neighbours as times, not as numbers of windows."""


class OwnWindows(ABC):
    """What both kinds share.

    Args:
        plan: the query.
        settings: bounds.
        site: named in results.
    """

    types: Final = None
    lasting: tuple[str, ...] = ()
    """Fields of the pass's state that a snapshot has."""

    def __init__(
        self, plan: WindowPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
    ) -> None:
        self.plan = plan
        self.settings = settings or WindowSettings()
        self.site = site
        self._keys = GroupKeys(plan.group_by, plan.name)
        self._missing = Missing()
        self._arguments, of, picked = arguments_asked(plan)
        self._held = Held(
            asked_of(plan, self._arguments), PLAIN, new_cells(_FIRST, len(plan.group_by)),
            new_sums(of, picked, _FIRST), new_kept(_FIRST, len(of)),
        )  # fmt: skip
        behind = len(plan.aggregates) + 1
        self._standing = t.new_standing(_FIRST, PLAIN, behind)
        self._outbox = t.new_outbox(_FIRST, len(plan.group_by), behind)
        self._scratch = new_content(behind)
        self._entries = Entries(np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int64))
        self._state = self._new_state()

    @property
    def horizon(self) -> int:
        """How long windows are corrected [ns]."""
        return horizon_ns(self.settings, self.plan.size_ns)

    def required_columns(self) -> set[str]:
        return set(FIXED_COLUMNS) | released_columns(attributes_of(self.plan))

    def process(self, released: Released) -> Sequence[Result]:
        codes = stream_codes(self.plan, released)
        gaps = released.gaps
        read = np.ones(len(gaps.row), np.bool_) if codes is None else np.isin(gaps.stream, codes)
        known = len(self._missing.table.left)
        gap_row, gap_steps = self._missing.take(gaps, read, _TIMES)
        steps = released.slack if len(released.slack.row) else released.progress
        agenda = Agenda(steps.row, steps.frontier, steps.at, gap_row, gap_steps)
        rows = rows_of(self.plan, self._keys, released, codes)
        results = self._run(rows, self._values(released), agenda, known)
        if len(self._missing.table.left):
            self._missing.forget(self._forgettable())
        return results

    def advance(self, now: int) -> Sequence[Result]:  # noqa: ARG002 - no window goes by this clock
        return []

    def finish(self, at: int) -> Sequence[Result]:
        none, at_once = np.empty(0, np.int64), np.zeros(1, np.int64)
        agenda = Agenda(at_once, np.full(1, b.END), np.full(1, at), none, none)
        known = len(self._missing.table.left)
        rows = no_rows(len(self.plan.group_by))
        return self._run(rows, no_values(len(self._arguments)), agenda, known)

    def _run(self, rows: Rows, values: Values, agenda: Agenda, known: int) -> ResultPieces:
        results = ResultPieces()
        for field in ("row", "step", "gap", "entries"):  # the rest is at rest between batches
            self._state[field] = 0
        why = None
        while why != b.DONE:
            can_grow = len(self._held.cells.window) < self.settings.cells_max
            size, step = self._size_and_step()
            batch = b.OwnBatch(
                rows, values, agenda, self._missing.table, known, size, step, self.horizon,
                can_grow,
            )  # fmt: skip
            why = self._pass(batch)
            if why == b.OUTBOX_FULL:
                self._send(results)
                self._more_outbox()
            elif why != b.DONE:
                self._grow(why)
        self._send(results)
        return results

    @abstractmethod
    def _new_state(self) -> np.ndarray:
        """The pass's state at the beginning."""

    @abstractmethod
    def _size_and_step(self) -> tuple[int, int]:
        """As in ``OwnBatch``."""

    @abstractmethod
    def _pass(self, batch: b.OwnBatch) -> int:
        """Run the pass; gives why it returned."""

    @abstractmethod
    def _grow_more(self, why: int) -> None:
        """Make room in what a kind has for itself."""

    def _values(self, released: Released) -> Values:
        sums = self._held.sums
        before = sums.of["is_float"].copy()
        found = argument_values(self.plan, self._arguments, sums.of, released)
        values = values_of(found, sums, ends_of(released))
        for m in np.flatnonzero(sums.of["is_float"] & ~before).tolist():
            widen_kept(self._held.kept, m)
        return values

    def _grow(self, why: int) -> None:
        """Double what has too little room."""
        held = self._held
        if why == b.GROW_CELLS:
            cells = grown(held.cells)
            self._held = held._replace(cells=cells, sums=more_sums(held.sums, len(cells.window)))
        elif why == b.GROW_KEPT:
            self._held = held._replace(kept=more_kept(held.kept))
        elif why == b.GROW_STANDING:
            self._standing = t.more_standing(self._standing, 2 * len(self._standing.next), PLAIN)
        self._grow_more(why)

    def _more_outbox(self) -> None:
        """Larger ones make fewer and longer pieces of results, but every site has one."""
        capacity = min(2 * len(self._outbox.at), _OUTBOX_MAX)
        if capacity > len(self._outbox.at):
            behind = len(self.plan.aggregates) + 1
            self._outbox = t.new_outbox(capacity, len(self.plan.group_by), behind)

    def _send(self, results: ResultPieces) -> None:
        if self._outbox.tally[0]:
            told = shown(self.plan, t.in_words(self._outbox), self._keys.strings)
            if told.tally[0]:
                results.extend(WindowResults(told, self.plan, self._keys, self.site))
            self._outbox.tally[0] = 0

    def _forgettable(self) -> int:
        """Gaps that end before this touch no window that is kept [ns]."""
        reach = self.horizon + 4 * self.plan.size_ns
        return int(max(self._state["frontier"][0], b.END + reach - 2**63) - reach)

    # ---- state ------------------------------------------------------------------------------

    def codes(self) -> np.ndarray | None:
        cells, kept, gaps = self._held.cells, self._held.kept, self._missing.table
        keys = self._keys.used(cells.keys[cells.table[cells.table >= 0]])
        told = text_codes(self._held, self._standing)
        return np.concatenate([keys, np.unique(kept.source), gaps.source, gaps.stream, told])

    def snapshot(self) -> dict[str, Any]:
        held = self._held
        live = held.cells.table[held.cells.table >= 0]
        parts: dict[str, dict[str, np.ndarray]] = {
            "cells": held.cells._asdict(), "sums": held.sums._asdict(),
            "kept": held.kept._asdict(), "standing": self._standing._asdict(),
        }  # fmt: skip
        return {
            "state": {name: int(self._state[name][0]) for name in self.lasting},
            "missing": self._missing.snapshot(),
            "keys": self._keys.snapshot(held.cells.keys[live], text_codes(held, self._standing)),
            **{name: without_floats(part) for name, part in parts.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._state = one(self._state.dtype, **state["state"])
        self._missing.restore(state["missing"])
        self._keys.restore(state["keys"])
        sums = with_floats(state["sums"], FLOATS)
        kept = with_floats(state["kept"], np.float64)
        self._held = self._held._replace(
            cells=Cells(**copied(state["cells"])), kept=Kept(**kept),
            sums=self._held.sums._replace(**sums),
        )  # fmt: skip
        self._standing = t.Standing(**copied(state["standing"]))


def no_rows(columns: int) -> Rows:
    """An empty batch of keys with ``columns``."""
    none = np.empty(0, np.int64)
    small = np.empty(0, np.int8)
    codes = np.empty(0, np.int32)
    return Rows(
        ref=none, unc=none, epoch=none, release=none, status=small, source=codes, stream=codes,
        seq=none, selected=np.empty(0, np.bool_), keys=np.zeros((0, columns), np.int64),
        nulls=none, how=small, low=none, high=none, reach=none,
    )  # fmt: skip
