"""Host of the kernel: keeps the stacks, hands it its arrays, and makes them larger when full."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.pattern import construction as c
from engine.pattern import scopes, search, stacks
from engine.pattern.certainty import Rule
from engine.pattern.program import (
    awaits_text,
    compile_programs,
    text_constants,
    text_ranks,
    uses_text_order,
)  # fmt: skip
from engine.pattern.program_machine import Programs
from engine.pattern.store import Store
from engine.pattern.tables import Layout
from engine.released import Strings

_LEAST: Final = 1 << 10


class Kernel:
    """Stacks of one query, and what they are searched with.

    Args:
        layout: of the query.
        rule: how uncertain the order of two events is.
        within_ns: WITHIN, or None.
        keep_ns: how long beyond its ref an event is kept, or None.
    """

    def __init__(
        self, layout: Layout, rule: Rule, within_ns: int | None, keep_ns: int | None
    ) -> None:
        self._layout = layout
        n = self._scalars = np.zeros(search.SCALARS, np.int64)
        n[search.MAX_DELAY] = rule is Rule.MAX_DELAY
        n[search.WITHIN] = -1 if within_ns is None else within_ns
        n[search.KEEP] = -1 if keep_ns is None else keep_ns
        n[search.TOURS_N] = len(layout.tables.tours)
        n[search.INDEXES_N] = len(layout.tables.indexes)
        self._stacks = stacks.empty_stacks()
        self._programs: Programs | None = None
        self._kinds = np.empty(0, np.int8)
        self._texts = -1
        self._awaits = False
        self._ranks = np.empty(0, np.int64)

    def counters(self) -> dict[str, int]:
        """``stack_moves``: entries shifted by late ones; ``looked_at``: candidates tested."""
        used = self._stacks.used
        return {"stack_moves": int(used[stacks.MOVED]), "looked_at": int(used[stacks.LOOKED])}

    def construct(
        self, store: Store, first: int, strings: Strings
    ) -> tuple[np.ndarray, np.ndarray]:
        """What the rows of ``store`` from ``first`` on do to matches: ``found`` and ``doubts``."""
        programs = self._compiled(store.kinds, strings)
        steps, n = len(self._layout.steps), self._scalars
        n[search.FOUND_N] = n[search.DOUBTS_N] = 0
        room = _LEAST + (store.n - first) // 2
        found = np.empty((room, c.FACTS + steps), np.int64)
        doubts = np.empty((room, scopes.DOUBT), np.int64)
        while True:
            first, why = c.construct(
                search.Search(
                    self._layout.tables.t, n, store.events, *store.registers, programs,
                    self._ranks, self._stacks, np.full(steps, -1), np.zeros((steps, 2), np.int64),
                    found, doubts,
                ),
                first, store.n,
            )  # fmt: skip
            if why == c.DONE:
                return found[: n[search.FOUND_N]], doubts[: n[search.DOUBTS_N]]
            if why == c.STACKS_FULL:
                rows = store.n - first
                entries = (rows // 2 + 64) * int(n[search.INDEXES_N])
                same = np.arange(store.n)
                self._stacks = stacks.rebuilt(self._stacks, same, rows // 4 + 16, entries)
            else:
                found, doubts = (np.concatenate([part, np.empty((3 * len(part), part.shape[1]),
                                 np.int64)]) for part in (found, doubts))  # fmt: skip

    def take_in(self, store: Store, first: int, strings: Strings) -> None:
        """Put the rows of ``store`` from ``first`` on in the stacks; what they match is known."""
        tours, self._scalars[search.TOURS_N] = self._scalars[search.TOURS_N], 0
        self.construct(store, first, strings)
        self._scalars[search.TOURS_N] = tours

    def _compiled(self, kinds: np.ndarray, strings: Strings) -> Programs:
        """The programs of the conditions, anew where kinds or texts have changed."""
        predicates = self._layout.predicates
        grown = len(strings) != self._texts
        changed = self._programs is None or bool((kinds != self._kinds).any())
        if self._programs is None or changed or (grown and self._awaits):
            self._programs = compile_programs(
                predicates, self._layout.place, self._layout.register, kinds, strings
            )
            self._kinds, self._awaits = kinds.copy(), awaits_text(predicates, strings)
            grown = True
        if grown:
            self._texts = len(strings)
            if uses_text_order(self._programs):
                self._ranks = text_ranks(strings, text_constants(predicates))
        return self._programs

    def renumber(self, number: np.ndarray) -> None:
        """Row i of the store is now called ``number[i]``; -1: it is gone."""
        self._stacks = stacks.rebuilt(self._stacks, number, 16, 64)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"stacks": [part.copy() for part in self._stacks], "scalars": self._scalars.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._stacks = stacks.Stacks(*(part.copy() for part in state["stacks"]))
        self._scalars = state["scalars"].copy()
