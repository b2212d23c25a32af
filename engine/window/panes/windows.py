"""Windows that slide, made of panes: one addition per event, whatever size by slide is."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.kernels.records import copy_of
from engine.window import assign as a
from engine.window.drift import Geometry
from engine.window.held.accumulate import FLOATS, more_sums
from engine.window.held.cells import HEADER, Cells, grown
from engine.window.held.copies import copied, with_floats, without_floats
from engine.window.panes.geometry import pane_of
from engine.window.panes.held import Panes
from engine.window.panes.make import MADE, MORE_PANES, free_panes, make_window
from engine.window.shown.text_codes import picked_codes
from engine.window.time_windows import TimeWindows

_FEW: Final = 8
"""So many windows are looked at one by one; panes are given up so many windows at once."""


class PaneWindows(TimeWindows):
    """``TimeWindows`` of a plan whose aggregates need no single values."""

    in_panes = True

    def _panes_grow(self) -> bool:
        return len(self._panes.cells.window) < self.settings.cells_max

    def _grow(self, why: int) -> None:
        if why != a.GROW_PANES:
            super()._grow(why)
            return
        cells = grown(self._panes.cells)
        sums = more_sums(self._panes.sums, len(cells.window))
        self._panes = self._panes._replace(cells=cells, sums=sums)

    def _begun(self, *, every: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """As of ``TimeWindows``; unless ``every``, of panes those that progress may close now."""
        windows, unc, _ = self._open(self._closing.closed[-1])
        cells, geo = self._panes.cells, self._geo
        headers = cells.headers[: cells.tally["headers"][0]]
        headers = headers[cells.tag[headers] == HEADER]
        if not len(headers):
            return windows, unc
        start, wide = _starts(cells.window[headers], geo), cells.unc[headers]
        least, upto = self._closing.closed[0] + 1, None
        if not every:
            frontier = int(self._state["frontier"][0])
            upto = max((frontier + geo.low_shift - geo.size) // geo.step + 1, a.INT_MIN)
        mine, theirs = _windows_of(start, wide, least, upto, geo)
        if not len(mine):
            return windows, unc
        both, place = np.unique(np.concatenate((windows, mine)), return_inverse=True)
        largest = np.zeros(len(both), np.int64)
        np.maximum.at(largest, place.reshape(-1), np.concatenate((unc, theirs)))
        return both, largest

    def _make(self, due: list[tuple[int, int]], known: int) -> None:
        made = int(self._state["closed_low"][0])
        book = self._book()
        for window in sorted({window for window, _ in due if window > made}):
            why = None
            while why != MADE:
                grow = self._panes_grow(), self._can_grow()
                why, refused = make_window(
                    window, self._geo, self._panes, self._held, self._missing.table, known,
                    book.no_key, *grow,
                )  # fmt: skip
                self._state["refused"] += refused
                if why != MADE:
                    self._grow(a.GROW_PANES if why == MORE_PANES else a.GROW_CELLS)
        following = self._closing.closed[0] + 1
        if following // _FEW > (made + 1) // _FEW:
            free_panes(self._panes, int(pane_of(self._geo, following * self._geo.step)))

    def codes(self) -> np.ndarray | None:
        cells = self._panes.cells
        keys = self._keys.used(cells.keys[cells.table[cells.table >= 0]])
        keys = np.concatenate([keys, picked_codes(self._panes.sums, self._held.sums.of)])
        base = super().codes()
        return keys if base is None else np.concatenate([base, keys])

    def snapshot(self) -> dict[str, Any]:
        panes = self._panes
        live = panes.cells.table[panes.cells.table >= 0]
        state = super().snapshot()
        texts = self._keys.snapshot(
            panes.cells.keys[live], picked_codes(panes.sums, self._held.sums.of)
        )["texts"]
        state["keys"]["texts"] |= texts
        return state | {
            "panes": {
                "cells": copied(panes.cells._asdict()),
                "sums": without_floats(panes.sums._asdict()),
                "tally": copy_of(panes.tally),
            }
        }

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        held = state["panes"]
        sums = self._panes.sums._replace(**with_floats(held["sums"], FLOATS))
        self._panes = Panes(
            Cells(**copied(held["cells"])), sums, self._panes.entries, copy_of(held["tally"])
        )


def _starts(panes: np.ndarray, geo: Geometry) -> np.ndarray:
    """Where each of ``panes`` starts [ns]."""
    rest = geo.size % geo.step
    return panes * geo.step if rest == 0 else (panes >> 1) * geo.step + (panes & 1) * rest


def _windows_of(
    start: np.ndarray, unc: np.ndarray, least: int, upto: int | None, geo: Geometry
) -> tuple[np.ndarray, np.ndarray]:
    """(windows with one of the panes, ascending, their largest uncertainties).

    Panes ``start`` and have ``unc``; windows go from ``least`` to ``upto`` (None: all).
    """
    if upto is not None and upto - least < _FEW:
        some, wide = [], []
        for window in range(least, upto + 1):
            inside = (start >= window * geo.step) & (start < window * geo.step + geo.size)
            if inside.any():
                some.append(window)
                wide.append(unc[inside].max())
        return np.array(some, np.int64), np.array(wide, np.int64)
    order = np.argsort(start)
    start, unc = start[order], unc[order]
    first, last = (start - geo.size) // geo.step + 1, start // geo.step
    first = np.maximum(first, least)
    mine = _united(first, last if upto is None else np.minimum(last, upto))
    if not len(mine):
        return mine, mine
    ends = [np.searchsorted(start, edge) for edge in (mine * geo.step, mine * geo.step + geo.size)]
    widest = np.append(unc, 0)
    return mine, np.maximum.reduceat(widest, np.column_stack(ends).reshape(-1))[::2]


def _united(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The different numbers of the stretches [first, last], both of which ascend."""
    if not len(first):
        return first
    fresh = np.maximum(first, np.append(first[0], np.maximum.accumulate(last)[:-1] + 1))
    counts = np.maximum(last - fresh + 1, 0)
    before = np.cumsum(counts) - counts
    return np.repeat(fresh - before, counts) + np.arange(counts.sum())
