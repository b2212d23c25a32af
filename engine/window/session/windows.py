"""WINDOW SESSION: per group, events less than a gap apart, until the gap's silence.

Source: Akidau et al. 2015 (Dataflow) 2.2, windows that merge. A session is [first, last + gap); an
event that lies less than a gap from two sessions makes them one. It is told when progress has
passed its end (``engine.window.session.run``), and corrected as windows of time are. Whether it is
one session, and all of it, may hang on the clocks (``engine.window.session.cover``, ``is_apart``):
then it is uncertain, and all of its events are ambiguous.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edge_agent.records import DEFAULT_SITE
from engine.kernels.records import one
from engine.query.plan import WindowPlan
from engine.window.assign import INT_MIN
from engine.window.held.copies import copied
from engine.window.own import batch as b
from engine.window.own.windows import OwnWindows
from engine.window.session import held as h
from engine.window.session.run import run
from engine.window.settings import WindowSettings

_SEAMS = 64


class SessionWindows(OwnWindows):
    """Operator of a ``WindowPlan`` of the kind SESSION."""

    lasting = h.LASTING

    def __init__(
        self, plan: WindowPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
    ) -> None:
        super().__init__(plan, settings, site)
        self._sessions = h.new_sessions(len(self._held.cells.window), _SEAMS)

    def counters(self) -> dict[str, int]:
        """Rows too late, or without room."""
        st = self._state
        return {"too_late": int(st["too_late"][0]), "refused_groups": int(st["refused"][0])}

    def _new_state(self) -> np.ndarray:
        return one(h.STATE, frontier=INT_MIN // 2, frontier_at=INT_MIN)

    def _size_and_step(self) -> tuple[int, int]:
        return self.plan.size_ns, 0

    def _pass(self, batch: b.OwnBatch) -> int:
        book = h.SessionBook(
            self._state, self._held, self._standing, self._outbox, self._scratch, self._entries,
            self._sessions,
        )  # fmt: skip
        return run(batch, book)

    def _oldest(self) -> int:
        cells = self._held.cells
        live = cells.table[cells.table >= 0]
        first = self._sessions.of["first"][live[cells.window[live] > 0]]
        return int(first.min(initial=b.END)) - 2 * self.plan.size_ns

    def _grow_more(self, why: int) -> None:
        if why == b.GROW_CELLS:
            self._sessions = h.more_sessions(self._sessions, len(self._held.cells.window))
        elif why == b.GROW_MORE:
            self._sessions = h.more_seams(self._sessions)

    def codes(self) -> np.ndarray | None:
        base = super().codes()
        clocks = self._sessions.of["clock"]
        return clocks if base is None else np.concatenate([base, np.unique(clocks)])

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"sessions": copied(self._sessions._asdict())}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._sessions = h.Sessions(**copied(state["sessions"]))
