"""Windows that slide, made of panes: one addition per event, whatever size by slide is."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.kernels.records import copy_of
from engine.window import assign as a
from engine.window.held.accumulate import FLOATS, more_sums
from engine.window.held.cells import Cells, copied, grown, with_floats, without_floats
from engine.window.output.results import picked_codes
from engine.window.panes.state import Panes
from engine.window.time_windows import TimeWindows


class PaneWindows(TimeWindows):
    """``TimeWindows`` of a plan whose aggregates need no single values."""

    in_panes = True

    def _panes_grow(self) -> bool:
        return len(self._panes.cells.window) < self.settings.cells_max

    def _grow(self, why: int, needed: int) -> None:
        if why != a.GROW_PANES:
            super()._grow(why, needed)
            return
        cells = grown(self._panes.cells)
        sums = more_sums(self._panes.sums, len(cells.window))
        self._panes = self._panes._replace(cells=cells, sums=sums)

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
