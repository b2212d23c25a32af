"""WINDOW ROWS n [EVERY m]: per group, n events in order of reference time, from every m-th on.

Window k has the events number k * m to k * m + n - 1 of its group, of equal times in order of
release. A late event takes its number, and every one behind it moves by one: so it corrects its own
window and all told ones of the group that follow it. Hence each event is held until its windows are
corrected no more, and a window is added up when it is told. At the end of the input a window that
is not full is not told. An event that may not be there, as an uncertain result of another
statement, takes a number all the same: bounds are with it and without it.
"""

from __future__ import annotations

from typing import Any

from edge_agent.records import DEFAULT_SITE
from engine.kernels.integers import NONE
from engine.kernels.records import one
from engine.query.plan import WindowPlan
from engine.window.assign import INT_MIN
from engine.window.counted import held as h
from engine.window.counted.bounds import new_doubts
from engine.window.counted.order_statistics import new_sorted
from engine.window.counted.run import run
from engine.window.held.aggregate import DISTINCT, QUANTILE
from engine.window.held.copies import copied
from engine.window.own import batch as b
from engine.window.own.windows import OwnWindows
from engine.window.settings import WindowSettings


class CountedWindows(OwnWindows):
    """Operator of a ``WindowPlan`` of the kind ROWS."""

    lasting = h.LASTING

    def __init__(
        self, plan: WindowPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
    ) -> None:
        super().__init__(plan, settings, site)
        cells, kept = len(self._held.cells.window), len(self._held.kept.next)
        self._counted = h.new_counted(cells, kept, plan.rows)
        self._doubts = new_doubts(plan.rows)
        asked = self._held.asked.function
        sorts = (asked == QUANTILE).any() and not (asked == DISTINCT).any()
        self._sorted = new_sorted(len(self._arguments) if sorts else 0, plan.rows, plan.every_rows)

    def counters(self) -> dict[str, int]:
        """Rows too late, or without room; those of windows that are not full."""
        st, cells = self._state, self._held.cells
        live = cells.table[cells.table >= 0]
        of = self._counted.of[live[cells.window[live] == 0]]
        told = (of["next"] - 1) * self.plan.every_rows + self.plan.rows
        events = of["base"] + of["count"]
        return {
            "too_late": int(st["too_late"][0]), "refused_groups": int(st["refused"][0]),
            "in_no_full_window": int((events - (of["next"] > 0) * told).clip(0).sum()),
        }  # fmt: skip

    def _new_state(self) -> Any:
        return one(h.STATE, frontier=INT_MIN // 2, frontier_at=INT_MIN, asked=NONE)

    def _size_and_step(self) -> tuple[int, int]:
        return self.plan.rows, self.plan.every_rows

    def _pass(self, batch: b.OwnBatch) -> int:
        book = h.CountedBook(
            self._state, self._held, self._standing, self._outbox, self._scratch, self._entries,
            self._counted, self._doubts, self._sorted,
        )  # fmt: skip
        return run(batch, book)

    def _oldest(self) -> int:
        cells = self._held.cells
        live = cells.table[cells.table >= 0]
        return int(self._counted.of["floor"][live[cells.window[live] == 0]].min(initial=b.END))

    def _grow_more(self, why: int) -> None:
        if why in (b.GROW_CELLS, b.GROW_KEPT):
            cells, kept = len(self._held.cells.window), len(self._held.kept.next)
            self._counted = h.more_counted(self._counted, cells, kept)

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"counted": copied(self._counted._asdict())}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._state["asked"] = NONE
        self._sorted.of["group"] = NONE
        self._counted = h.Counted(**copied(state["counted"]))
