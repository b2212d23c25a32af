"""Host of the kernel: keeps the stacks, hands it its arrays, and makes them larger when full."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.pattern import construction as c
from engine.pattern import stacks as s
from engine.pattern.certainty import Rule
from engine.pattern.program import (
    awaits_text, compile_programs, text_constants, text_ranks, uses_text_order,
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
        self._rules = c.Rules(
            int(rule is Rule.MAX_DELAY),
            -1 if within_ns is None else within_ns,
            -1 if keep_ns is None else keep_ns,
        )
        self._stacks = s.empty_stacks()
        self._widest = np.zeros(2, np.int64)
        self._programs: Programs | None = None
        self._kinds = np.empty(0, np.int8)
        self._texts = -1
        self._awaits = False
        self._ranks = np.empty(0, np.int64)
        self._room = _LEAST

    def counters(self) -> dict[str, int]:
        used = self._stacks.used
        return {"stack_moves": int(used[s.MOVED]), "looked_at": int(used[s.LOOKED])}

    def construct(self, store: Store, first: int, strings: Strings) -> c.Out:
        """What the rows of ``store`` from ``first`` on do to matches."""
        self._compile(store.kinds, strings)
        out = self._empty(self._room)
        while True:
            search = self._search(store, out)
            first, why = c.construct(search, first, store.n)
            if why == c.DONE:
                return out
            if why == c.STACKS_FULL:
                rows = store.n - first
                indexes = len(self._layout.tables.indexes)
                same = np.arange(store.n)
                self._stacks = s.rebuilt(
                    self._stacks, same, rows // 4 + 16, (rows // 2 + 64) * indexes
                )
            else:
                out = self._larger(out)

    def _search(self, store: Store, out: c.Out) -> c.Search:
        steps = len(self._layout.steps)
        assert self._programs is not None
        work = c.Work(
            np.full(steps, -1), np.zeros(steps, np.int64), np.zeros(steps, np.int64), self._widest
        )
        return c.Search(
            self._layout.tables, store.events(), store.registers, self._rules, self._programs,
            self._ranks, self._stacks, out, work,
        )  # fmt: skip

    def _compile(self, kinds: np.ndarray, strings: Strings) -> None:
        """The programs of the conditions, anew where kinds or texts have changed."""
        predicates = self._layout.predicates
        grown = len(strings) != self._texts
        changed = self._programs is None or (kinds != self._kinds).any()
        if changed or (grown and self._awaits):
            self._programs = compile_programs(
                predicates, self._layout.place, self._layout.register, kinds, strings
            )
            self._kinds, self._awaits = kinds.copy(), awaits_text(predicates, strings)
            self._texts = -1
        if self._texts != len(strings):
            self._texts = len(strings)
            if uses_text_order(self._programs):
                self._ranks = text_ranks(strings, text_constants(predicates))

    def _empty(self, room: int) -> c.Out:
        return c.Out(
            np.empty((room, len(self._layout.steps)), np.int64),
            np.empty((room, c.FACTS), np.int64),
            np.empty((room, c.DOUBT), np.int64),
            np.zeros(2, np.int64),
        )

    def _larger(self, out: c.Out) -> c.Out:
        room = 4 * max(len(out.rows), len(out.doubts))
        larger = self._empty(room)
        matches, doubts = out.used.tolist()
        larger.rows[:matches] = out.rows[:matches]
        larger.facts[:matches] = out.facts[:matches]
        larger.doubts[:doubts] = out.doubts[:doubts]
        larger.used[:] = out.used
        return larger

    def renumber(self, number: np.ndarray) -> None:
        """Row i of the store is now called ``number[i]``; -1: it is gone."""
        self._stacks = s.rebuilt(self._stacks, number, 16, 64)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"stacks": [part.copy() for part in self._stacks], "widest": self._widest.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._stacks = s.Stacks(*(part.copy() for part in state["stacks"]))
        self._widest = state["widest"].copy()
