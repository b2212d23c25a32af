"""Host of the kernel: keeps the stacks, hands it its arrays, and makes them larger when full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from engine.pattern import construction as c
from engine.pattern import scopes, search, stacks
from engine.pattern.certainty import Rule
from engine.pattern.program import compile_programs, uses_text_order
from engine.pattern.program_machine import Programs
from engine.pattern.program_texts import awaits_text, text_constants, text_ranks
from engine.pattern.store import Store
from engine.pattern.tables import Layout
from engine.stream.clock_bound import ClockBound
from engine.stream.released import Strings
from engine.stream.timeline import ALL, LONG_AGO, Steps

_LEAST: Final = 1 << 10
_OPEN: Final = np.empty(0, np.float64)


@dataclass(frozen=True, slots=True)
class StackOptions:
    """How stacks are kept and searched (L10 4.5): other costs, the same results.

    ``rip``, ``rin``: every event keeps the place of its most recent predecessor (first successor)
    in the neighbouring stack, which late events shift; else places are found by binary search.
    ``clock``: an event newer than all is appended without a look at its neighbours (AIS-CLOCK).
    ``divider``: what lies before the window is left out by binary search, else by a test of each.
    ``lazy_purge``: stacks lose what has expired when they are looked at, else only when rebuilt.
    """

    rip: bool = False
    rin: bool = False
    clock: bool = True
    divider: bool = True
    lazy_purge: bool = True


class Kernel:
    """Stacks of one query, and what they are searched with.

    Args:
        layout: of the query.
        rule: how uncertain the order of two events is.
        within_ns: WITHIN, or None.
        keep_ns: how long beyond its ref an event is kept, or None.
        options: of the stacks.
    """

    def __init__(
        self, layout: Layout, rule: Rule, within_ns: int | None, keep_ns: int | None,
        options: StackOptions,
    ) -> None:  # fmt: skip
        self._layout = layout
        n = self._scalars = np.zeros(search.SCALARS, np.int64)
        n[search.MAX_DELAY] = rule is Rule.MAX_DELAY
        n[search.WITHIN] = -1 if within_ns is None else within_ns
        n[search.KEEP] = -1 if keep_ns is None else keep_ns
        n[search.TOURS_N] = len(layout.tables.tours)
        n[search.INDEXES_N] = len(layout.tables.indexes)
        n[search.CLOCK] = LONG_AGO
        n[search.RIP], n[search.RIN] = options.rip, options.rin
        n[search.AIS_CLOCK], n[search.DIVIDER] = options.clock, options.divider
        n[search.LAZY] = options.lazy_purge
        self._beside = None
        if options.rip or options.rin:
            self._beside = np.ascontiguousarray(layout.tables.indexes[:, 3:5])
        self._covered = np.full(len(layout.steps), LONG_AGO)
        self._stacks = stacks.empty_stacks()
        self._programs: Programs | None = None
        self._kinds = np.empty(0, np.int8)
        self._texts, self._generation = -1, 0
        self._awaits = False
        self._ranks = np.empty(0, np.int64)

    def counters(self) -> dict[str, int]:
        """``stack_moves``: entries shifted by late ones; ``looked_at``: candidates tested."""
        used = self._stacks.used
        return {"stack_moves": int(used[stacks.MOVED]), "looked_at": int(used[stacks.LOOKED])}

    def count_on(self, bound: ClockBound, t_a: int) -> None:
        """How wrong clocks may be, and the largest delay so far: what a purge counts on."""
        n = self._scalars
        n[search.BOUND_UNC], n[search.BOUND_RATE] = bound.unc_ns, bound.rate_ppb
        n[search.BOUND_SINCE], n[search.LARGEST_T_A] = bound.since, t_a

    def construct(
        self, store: Store, first: int, strings: Strings, promised: dict[str, Steps]
    ) -> tuple[np.ndarray, np.ndarray]:
        """What the rows of ``store`` from ``first`` on do to matches: ``found`` and ``doubts``.

        Args:
            store: the events.
            first: its first new row.
            strings: the site's table.
            promised: by type or for all of them, what the purge may count on; none: no such purge.
        """
        return self._constructed(store, first, store.n, strings, promised)

    def _constructed(
        self, store: Store, first: int, stop: int, strings: Strings, promised: dict[str, Steps]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same, of the rows up to ``stop``."""
        programs = self._compiled(store.kinds, strings)
        steps, n = len(self._layout.steps), self._scalars
        n[search.FOUND_N] = n[search.DOUBTS_N] = n[search.MOVES_N] = 0
        moves, clock_of = self._moves(promised)
        room = _LEAST + (stop - first) // 2
        found = np.empty((room, c.FACTS + steps), np.int64)
        doubts = np.empty((room, scopes.DOUBT), np.int64)
        while True:
            first, why = c.construct(
                search.Search(
                    self._layout.tables.t, n, store.events, *store.registers, programs,
                    self._ranks, self._stacks, np.full(steps, -1), np.zeros((steps, 2), np.int64),
                    moves, self._covered, clock_of, found, doubts, _OPEN,
                ),
                first, stop,
            )  # fmt: skip
            if why == c.DONE:
                return found[: n[search.FOUND_N]], doubts[: n[search.DOUBTS_N]]
            if why == c.STACKS_FULL:
                rows = stop - first
                entries = (rows // 2 + 64) * int(n[search.INDEXES_N])
                same = np.arange(store.n)
                # In proportion to what there is: keys that rotate fill them again and again.
                known, used = self._stacks.used[[stacks.STACKS, stacks.POOL]].tolist()
                self._stacks = stacks.rebuilt(
                    self._stacks, same, rows // 4 + known // 2 + 16, entries + used // 2,
                    self._beside,
                )  # fmt: skip
            else:
                found, doubts = (np.concatenate([part, np.empty((3 * len(part), part.shape[1]),
                                 np.int64)]) for part in (found, doubts))  # fmt: skip

    def take_in(self, store: Store, first: int, stop: int, strings: Strings) -> None:
        """Put the rows of ``store`` from ``first`` on, up to ``stop``, in the stacks; what they
        match is known.
        """
        tours, self._scalars[search.TOURS_N] = self._scalars[search.TOURS_N], 0
        self._constructed(store, first, stop, strings, {})
        self._scalars[search.TOURS_N] = tours

    def _moves(self, promised: dict[str, Steps]) -> tuple[np.ndarray, np.ndarray]:
        """(moment, clock, value) of each promise that moves, and the clock of each step."""
        names = list(promised)
        everywhere = names.index(ALL) if ALL in promised else -1
        clock_of = [
            names.index(step.type) if step.type in promised else everywhere
            for step in self._layout.steps
        ]
        parts = [
            np.column_stack([s.moment[1:], np.full(len(s.value) - 1, clock), s.value[1:]])
            for clock, s in enumerate(promised.values())
        ]
        moves = np.concatenate([np.empty((0, 3), np.int64), *parts])
        return moves[np.lexsort((moves[:, 1], moves[:, 0]))], np.array(clock_of, np.int64)

    def _compiled(self, kinds: np.ndarray, strings: Strings) -> Programs:
        """The programs of the conditions, anew where kinds or texts have changed."""
        predicates = self._layout.predicates
        grown = strings.given != self._texts
        changed = self._programs is None or bool((kinds != self._kinds).any())
        changed |= strings.generation != self._generation
        if self._programs is None or changed or (grown and self._awaits):
            self._programs = compile_programs(
                predicates, self._layout.place, self._layout.register, kinds, strings
            )
            self._kinds, self._awaits = kinds.copy(), awaits_text(predicates, strings)
            grown = True
        if grown:
            self._texts, self._generation = strings.given, strings.generation
            if uses_text_order(self._programs):
                self._ranks = text_ranks(strings, text_constants(predicates))
        return self._programs

    def renumber(self, number: np.ndarray, store: Store) -> None:
        """Row i of ``store`` is now called ``number[i]``; -1: it is gone, as its error."""
        kept = store.events[: store.n]
        self._scalars[search.WIDEST] = kept[:, search.UNC].max(initial=0)
        self._scalars[search.WIDEST_T_A] = kept[:, search.T_A].max(initial=0)
        self._stacks = stacks.rebuilt(self._stacks, number, 16, 64, self._beside)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "stacks": [part.copy() for part in self._stacks],
            "scalars": self._scalars.copy(),
            "covered": self._covered.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._stacks = stacks.Stacks(*(part.copy() for part in state["stacks"]))
        self._scalars, self._covered = state["scalars"].copy(), state["covered"].copy()
