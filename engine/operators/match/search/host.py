"""Host of the kernel: owns the stacks, passes the arrays, and bounds the number of matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from slackwater.engine.core.errors import OverBudget
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import ClockBound, Strings
from slackwater.engine.core.timeline import ALL, LONG_AGO, Steps
from slackwater.engine.kernels.records import INT_MAX, longer
from slackwater.engine.operators.match.compiler.membership import step_filters
from slackwater.engine.operators.match.compiler.program import (
    awaits_text,
    compile_programs,
    text_constants,
    text_ranks,
    uses_text_order,
)
from slackwater.engine.operators.match.compiler.tables import Layout
from slackwater.engine.operators.match.search import construction as c
from slackwater.engine.operators.match.search import state as search
from slackwater.engine.operators.match.search.machine import NO_PROGRAMS, Programs
from slackwater.engine.operators.match.store import UNC_END, Store
from slackwater.engine.query.pattern_settings import MATCHES_MAX, MATCHES_TOGETHER, Rule

# Bounds of the number of matches: by one event, and in one call of a kernel.
#
# The bound per event does not depend on how the stream is cut; that per call bounds the memory.


@dataclass(frozen=True, slots=True)
class MatchBudget:
    """The budget of query ``name``: one event may complete or change ``most`` matches."""

    name: str
    most: int

    def larger(self, room: int, causes: np.ndarray) -> int:
        """Return the next larger room for matches.

        ``causes``: see ``check``, for the matches found before the event that had no room.

        Raises:
            OverBudget: the room exceeds the budget of one event.
        """
        self.check(causes)
        if room - len(causes) >= self.most:
            raise self._of_one()
        together = MATCHES_TOGETHER * self.most
        if len(causes) > together:
            raise self.exceeded(f"events of one call complete more than {together:,} matches")
        return min(4 * room, together + self.most)

    def check(self, causes: np.ndarray) -> None:
        """Check the matches per event; ``causes``: in order, the events that complete or change
        them.

        Raises:
            OverBudget: one event completes or changes too many matches.
        """
        ends = np.flatnonzero(np.diff(causes, append=-1))
        if np.diff(ends, prepend=-1).max(initial=0) > self.most:
            raise self._of_one()

    def _of_one(self) -> OverBudget:
        return self.exceeded(f"one event completes or changes more than {self.most:,} matches")

    def exceeded(self, does: str) -> OverBudget:
        """Return the error to raise; ``does``: the verb phrase of its message."""
        return OverBudget.of(self.name, does, self.most)


# Hosts of kernels: they own the stacks and the programs of conditions, pass a kernel its arrays,
# and enlarge them when they are full.


_LEAST: Final = 1 << 10
_FITS: Final = 8
_NO_MOVES: Final = np.empty(0, search.MOVE)


class KernelHost(Restorable):
    """Stacks of one query, and the programs of its conditions.

    Args:
        layout: the layout of the query.
        state: the settings and state of the kernel, one record.
        rule: the rule of uncertain order.
        keep_ns: how long an event is stored after its ref [ns]; None: for ever.
        most: largest number of matches that one event may complete or change.
    """

    def __init__(
        self, layout: Layout, state: np.ndarray, rule: Rule, keep_ns: int | None, most: int
    ) -> None:
        self._layout, self._state = layout, state
        self._budget = MatchBudget(layout.branches[0].name, most)
        state["max_delay"] = rule.by_delay
        state["keep"] = -1 if keep_ns is None else keep_ns
        self.stacks = search.empty_stacks()
        self._programs: Programs | None = None
        self._kinds = np.empty(0, np.int8)
        self._texts, self._generation = -1, 0
        self._awaits = False
        self._ranks = np.empty(0, np.int64)

    def _kinds_read(self, kinds: np.ndarray) -> np.ndarray:
        """Return the kinds of all registers of programs; ``kinds``: those of the store."""
        return kinds

    def _compiled(self, kinds: np.ndarray, strings: Strings) -> Programs:
        """Return the programs of the conditions; compiled again if kinds or texts have changed."""
        predicates = self._layout.predicates
        grown = strings.assignments != self._texts
        changed = self._programs is None or bool((kinds != self._kinds).any())
        changed |= strings.generation != self._generation
        if self._programs is None or changed or (grown and self._awaits):
            self._programs = compile_programs(
                predicates, self._layout.place, self._layout.register, self._kinds_read(kinds),
                strings,
            )  # fmt: skip
            self._kinds, self._awaits = kinds.copy(), awaits_text(predicates, strings)
            grown = True
        if grown:
            self._texts, self._generation = strings.assignments, strings.generation
            if uses_text_order(self._programs):
                self._ranks = text_ranks(strings, text_constants(predicates))
        return self._programs

    def _restack(self, store: Store, left: int, entries: int) -> None:
        """Rebuild the stacks with room for ``left`` rows and their ``entries``.

        The room is in proportion to the stored events, as changing keys fill it again and again.
        """
        known, used = self.stacks.used[["stacks", "pool"]][0].tolist()
        room = left // 4 + known // 2 + 16
        self.stacks = search.rebuilt_stacks(
            self.stacks, np.arange(store.n), room, entries + used // 2
        )

    def renumber(self, number: np.ndarray, store: Store) -> None:
        """Row i of ``store`` becomes ``number[i]``; -1: it and its clock error are gone."""
        kept = store.events[: store.n]
        self._state["doubted"] = kept["doubted"].any()
        self._state["widest"] = max(kept[name].max(initial=0) for name in ("unc", UNC_END))
        self._state["widest_t_a"] = kept["t_a"].max(initial=0)
        self.stacks = search.rebuilt_stacks(self.stacks, number, 16, 64)

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"stacks": search.packed_stacks(self.stacks)}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.stacks = search.unpacked_stacks(state["stacks"])


class Kernel(KernelHost):
    """Host of ``engine.operators.match.search.construction``.

    Args:
        layout: the layout of the query.
        rule: the rule of uncertain order.
        within_ns: WITHIN [ns]; None: there is none.
        keep_ns: how long an event is stored after its ref [ns]; None: for ever.
        divider: whether stacks are searched from the begin of the window.
        most: largest number of matches that one event may complete or change.
        drops: whether useless intervals are dropped (``engine.operators.match.search.purge``).
    """

    state_fields = ("_state", "_covered", "_begun", "_open_at", "_open_n", "_heard", "_lost")

    def __init__(
        self, layout: Layout, rule: Rule, within_ns: int | None, keep_ns: int | None,
        *, divider: bool = True, most: int = MATCHES_MAX, drops: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(layout, np.zeros(1, search.STATE), rule, keep_ns, most)
        now = self._state[0]
        now["within"] = -1 if within_ns is None else within_ns
        filters = step_filters(layout)
        for name, negated in (("longest", False), ("longest_negated", True)):
            bounds = [each.longest_ns for each in filters if each.step.negated == negated]
            now[name] = max((-1 if one is None else one for one in bounds), default=-1)
        now["join_orders_n"] = len(layout.tables.join_orders)
        now["indexes_n"] = len(layout.tables.indexes)
        now["divider"] = divider
        now["drops"] = drops
        self._begun = np.empty(0, search.BEGUN)
        steps = len(layout.steps)
        self._open_at, self._open_n = np.empty((steps, 0), np.int64), np.zeros(steps, np.int64)
        self._heard, self._lost = (np.full(steps, INT_MAX) for _ in range(2))
        self._covered = np.full(steps, LONG_AGO)
        self._room = 0
        self._last: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def counters(self) -> dict[str, int]:
        """``stack_moves``: entries shifted by late events; ``looked_at``: candidates tested."""
        used = self.stacks.used[0]
        return {"stack_moves": int(used["moved"]), "looked_at": int(used["looked"])}

    def dropped(self) -> dict[str, int]:
        """Intervals of an ISEQ that were ``dropped`` at arrival, and ``cascaded`` later."""
        return {name: int(self._state[name][0]) for name in ("dropped", "cascaded")}

    def hear(self, begun: np.ndarray, heard: int, lost: dict[str, int]) -> None:
        """Pass on the IBPs before the next rows (BEGUN records, in order).

        ``heard``: the row from which on IBPs announce every interval. ``lost``: by type the row
        from which on they do not.
        """
        self._begun = np.concatenate((self._begun, begun))
        kinds = [step.type for step in self._layout.steps]
        self._heard = np.full(len(kinds), heard)
        self._lost = np.array([lost.get(kind, INT_MAX) for kind in kinds], np.int64)

    def _with_room(self, horizon: int) -> None:
        """Make room for the starts announced by IBPs, without those before every window."""
        within = int(self._state["within"][0])
        kept = [starts[:n] for starts, n in zip(self._open_at, self._open_n.tolist(), strict=True)]
        if within >= 0:
            kept = [starts[starts >= horizon - within] for starts in kept]
        self._open_n = np.array([len(starts) for starts in kept], np.int64)
        room = int(self._open_n.max(initial=0)) + len(self._begun)
        self._open_at = np.zeros((len(kept), room), np.int64)
        for starts, of in zip(self._open_at, kept, strict=True):
            starts[: len(of)] = of

    def count_on(self, bound: ClockBound, t_a: int) -> None:
        """Set the bound of clock errors and the largest delay so far, for the next purge."""
        now = self._state[0]
        now["bound_unc"], now["bound_rate"] = bound.unc_ns, bound.rate_ppb
        now["bound_since"], now["largest_t_a"] = bound.since, t_a
        now["bound_back"], now["bound_until"] = bound.back_ppb, bound.until

    def construct(
        self, store: Store, first: int, strings: Strings, promised: dict[str, Steps],
        stop: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """Return the changes of matches by the rows of ``store`` from ``first`` on.

        Args:
            store: the events.
            first: the first new row.
            strings: the site's table of texts.
            promised: by type or for all types, the promises for the purge; empty: no purge.
            stop: the end of the new rows; None: the end of the store.

        Returns:
            ``found``, ``rows`` and ``doubts`` of ``engine.operators.match.search.state.Search``;
            valid until the next call.

        Raises:
            OverBudget: there are more matches than allowed.
        """
        stop = store.n if stop is None else stop
        programs = NO_PROGRAMS
        if self._layout.predicates:
            programs = self._compiled(store.kinds, strings)
        steps, now = len(self._layout.steps), self._state[0]
        now["found_n"] = now["doubts_n"] = now["moves_n"] = now["begun_n"] = 0
        if len(self._begun):
            self._with_room(int(store.events["horizon"][max(0, first - 1)]) if first else LONG_AGO)
        moves, clock_of = _NO_MOVES, np.full(steps, -1)
        if promised:
            moves, clock_of = self._moves(promised)
        room = min(max(_LEAST + (stop - first) // 2, self._room), self._budget.most)
        # The arrays of the last call are reused if they fit, as new memory is slow.
        if self._last is not None and room <= len(self._last[0]) <= _FITS * room:
            found, rows, doubts = self._last
        else:
            found, rows = np.empty(room, c.FOUND), np.empty((room, steps), np.int64)
            doubts = np.empty(room, c.DOUBT)
        while True:
            first, why = c.construct(
                search.Search(
                    self._layout.tables, self._state, store.events, *store.registers, programs,
                    self._ranks, self.stacks, np.full(steps, -1), np.zeros(steps, search.RANGE),
                    np.empty(steps, np.int64), moves, self._covered, clock_of, found, rows, doubts,
                    self._begun, self._open_at, self._open_n, self._heard, self._lost,
                ),
                first, stop,
            )  # fmt: skip
            if why == c.DONE:
                self._begun = self._begun[:0]
                n = int(now["found_n"])
                if n > self._budget.most:
                    self._budget.check(found["cause"][:n])
                self._room, self._last = n + n // 8, (found, rows, doubts)
                return found[:n], rows[:n], doubts[: int(now["doubts_n"])]
            if why == c.STACKS_FULL:
                left = stop - first
                self._restack(store, left, (left // 2 + 64) * int(now["indexes_n"]))
            else:
                room = self._budget.larger(len(found), found["cause"][: int(now["found_n"])])
                found, rows, doubts = (longer(part, room) for part in (found, rows, doubts))

    def take_in(self, store: Store, first: int, stop: int, strings: Strings) -> None:
        """Insert the rows of ``store`` from ``first`` to ``stop`` into the stacks, without a
        search.
        """
        self._state["join_orders_n"] = 0
        self.construct(store, first, strings, {}, stop)
        self._state["join_orders_n"] = len(self._layout.tables.join_orders)

    def _moves(self, promised: dict[str, Steps]) -> tuple[np.ndarray, np.ndarray]:
        """Return the moves of promises (MOVE), and the clock of each step."""
        names = list(promised)
        everywhere = names.index(ALL) if ALL in promised else -1
        clock_of = [
            names.index(step.type) if step.type in promised else everywhere
            for step in self._layout.steps
        ]
        parts = []
        for clock, steps in enumerate(promised.values()):
            part = np.empty(len(steps.value) - 1, search.MOVE)
            part["moment"], part["clock"], part["value"] = steps.moment[1:], clock, steps.value[1:]
            parts.append(part)
        moves = np.concatenate(parts)
        in_order = np.lexsort((moves["clock"], moves["moment"]))
        return moves[in_order], np.array(clock_of, np.int64)

    def renumber(self, number: np.ndarray, store: Store) -> None:
        kept = store.events[: store.n]
        self._state["spans"] = (kept["ref_end"] != kept["ref"]).any()
        super().renumber(number, store)
