"""Host of the kernel of repetition: keeps its stacks, hands it its arrays, makes them larger."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import Strings
from slackwater.engine.kernels.records import numbers_of
from slackwater.engine.operators.match.compiled.program import (
    awaits_text,
    compile_programs,
    text_constants,
    text_ranks,
    uses_text_order,
)
from slackwater.engine.operators.match.compiled.records import EVENT
from slackwater.engine.operators.match.repetition import construction as c
from slackwater.engine.operators.match.repetition.compiled import (
    CHOICE,
    EVENT_OF,
    FAR,
    GAP_DOUBT,
    LEVEL,
    LINK,
    MARK,
    READING,
    ROLES,
    RUN,
    STANDING,
    RepeatLayout,
    SearchState,
    made_kinds,
)
from slackwater.engine.operators.match.search import stacks
from slackwater.engine.operators.match.search.host import MatchBudget
from slackwater.engine.operators.match.search.machine import NO_PROGRAMS, Programs
from slackwater.engine.operators.match.settings import Rule
from slackwater.engine.operators.match.store import UNC_END, Store
from slackwater.engine.query.purge_settings import MATCHES_MAX

_LEAST: Final = 1 << 10
_LINKS: Final = 8
"""Events of runs by event; runs that find no room are walked. What is not used takes no memory."""
_EVENTS: Final = 320
"""Of the matches of a call, by match that one event may complete."""
_OPEN: Final = np.empty(0, np.float64)


class FoundRuns(NamedTuple):
    """What events do to matches: RUN, the EVENT_OF of all of them, GAP_DOUBT."""

    found: np.ndarray
    path: np.ndarray
    doubts: np.ndarray


class RepeatKernel(Restorable):
    """Stacks of one query by partition, and what they are searched with.

    Args:
        layout: of the query.
        rule: how uncertain the order of two events is.
        keep_ns: how long beyond its ref an event is kept, or None.
        most: matches that one event may complete or change.
    """

    state_fields = ("_setting", "_chosen", "_ended")

    def __init__(
        self, layout: RepeatLayout, rule: Rule, keep_ns: int | None, most: int = MATCHES_MAX
    ) -> None:
        self._layout, self._budget = layout, MatchBudget(layout.plan.name, most)
        self._setting = layout.setting.copy()
        self._setting["max_delay"] = rule.by_delay
        self._setting["keep"] = -1 if keep_ns is None else keep_ns
        self.stacks = stacks.empty_stacks()
        self._chosen, self._ended = np.empty(0, CHOICE), np.empty(0, np.int64)
        self._forget()
        self._forget_runs(0)
        self._programs: Programs = NO_PROGRAMS
        self._kinds = np.full(len(layout.layout.reads), -1, np.int8)
        self._texts, self._generation = -1, -1
        self._awaits = False
        self._ranks = np.empty(0, np.int64)
        room = min(_LEAST, most)
        self._runs = FoundRuns(
            np.empty(room, RUN), np.empty(4 * room, EVENT_OF), np.empty(room, GAP_DOUBT)
        )

    def counters(self) -> dict[str, int]:
        """``stack_moves``: entries shifted by late ones; ``looked_at``: candidates tested."""
        moved = int(self.stacks.used["moved"][0])
        return {"stack_moves": moved, "looked_at": int(self._setting["looked"][0])}

    def choose_again(self, store: Store, first: int, strings: Strings, *, wider: bool) -> FoundRuns:
        """What SKIP and LIMIT choose, but for what stays, in the partitions that the rows from
        ``first`` on name, which are no events. ``wider``: events err by more than when they came.
        """
        self._setting["again"] = wider
        self.reopen()
        found = self.construct(store, first, strings, choose=True)
        self._setting["again"] = 0
        return found

    def construct(
        self, store: Store, first: int, strings: Strings, *, choose: bool = False
    ) -> FoundRuns:
        """What the rows of ``store`` from ``first`` on do to matches; good until the next call.

        ``choose``: they are no events, and only say where to choose again.

        Raises:
            OverBudget: there are more matches than there may be.
        """
        now, places = self._setting[0], ROLES * len(self._layout.tables.steps)
        now["found_n"] = now["path_n"] = now["doubts_n"] = 0
        now["inserted"] = first - 1
        if self._layout.layout.predicates:
            self._compile(store.kinds, strings)
        if len(self._chosen) < store.n:
            longer = np.zeros(2 * store.n, CHOICE)
            numbers_of(longer)[: len(self._chosen)] = numbers_of(self._chosen)
            self._chosen = longer
            never = np.full(2 * store.n, FAR)
            never[: len(self._ended)] = self._ended
            self._ended = never
            self._forget_runs(2 * store.n)
        numbers_of(self._chosen)[first : store.n], self._ended[first : store.n] = 0, FAR
        registers = len(store.registers.raw)
        made = (
            np.full(places, -1), np.zeros((registers, places), np.int64),
            np.zeros((registers, places), np.bool_), np.zeros(places, EVENT), np.arange(places),
            made_kinds(self._layout.tables, store.kinds),
            np.zeros(store.n + 1, LEVEL), np.zeros(store.n + 1, READING),
            np.zeros(store.n + 1, EVENT_OF),
        )  # fmt: skip
        ready = np.zeros(store.n + 1, np.int64)
        if self._links["row"][0] > len(self._links) // 2:
            self._forget_runs(len(self._standing))
        go_through = c.choose_again if choose else c.construct
        while True:
            first, why = go_through(
                SearchState(
                    self._layout.tables, self._setting, store.events, *store.registers,
                    self._programs, self._ranks, _OPEN, self.stacks, *made, self._chosen,
                    self._ended, self._marks, self._standing, self._links, ready, self._taken,
                    self._own, *self._runs,
                ),
                first, store.n,
            )  # fmt: skip
            if why == c.DONE:
                n, path, doubts = (int(now[name]) for name in ("found_n", "path_n", "doubts_n"))
                found = self._runs
                if n > self._budget.most:
                    self._budget.check(found.found["cause"][:n])
                return FoundRuns(found.found[:n], found.path[:path], found.doubts[:doubts])
            if why == c.STACKS_FULL:
                left, (known, used) = (
                    store.n - first,
                    self.stacks.used[["stacks", "pool"]][0].tolist(),
                )
                marks, own = self._marks, self._own
                self.stacks = stacks.rebuilt(
                    self.stacks, np.arange(store.n), left // 4 + known // 2 + 16,
                    4 * left + 64 + used // 2,  # what is not used takes no memory
                )  # fmt: skip
                self._forget()
                numbers_of(self._marks)[:known] = numbers_of(marks)[:known]
                self._own[:known] = own[:known]
            else:
                self._runs = self._with_room()

    def _with_room(self) -> FoundRuns:
        """What is found, with more room for what had none."""
        found, path, doubts = self._runs
        if self._setting["lacks_path"][0]:
            most = _EVENTS * self._budget.most
            if len(path) >= most:
                raise self._budget.exceeded(f"its matches have more than {most:,} events together")
            return FoundRuns(found, _longer(path, min(4 * len(path), most)), doubts)
        found_n = int(self._setting["found_n"][0])
        room = self._budget.larger(len(found), found["cause"][:found_n])
        return FoundRuns(_longer(found, room), path, _longer(doubts, room))

    def _compile(self, kinds: np.ndarray, strings: Strings) -> None:
        """The programs of the conditions, recompiled where kinds or texts have changed."""
        layout = self._layout.layout
        grown = strings.given != self._texts or strings.generation != self._generation
        if bool((kinds != self._kinds).any()) or (grown and (self._awaits or self._generation < 0)):
            made = made_kinds(self._layout.tables, kinds)
            self._programs = compile_programs(
                layout.predicates, layout.place, layout.register, made, strings
            )
            self._kinds, self._awaits = kinds.copy(), awaits_text(layout.predicates, strings)
            grown = True
        if grown:
            self._texts, self._generation = strings.given, strings.generation
            if uses_text_order(self._programs):
                self._ranks = text_ranks(strings, text_constants(layout.predicates))

    def _forget(self) -> None:
        """Forgets what is known of stacks; the next look computes it again."""
        self._marks = np.zeros(len(self.stacks.stack), MARK)
        self._own = np.zeros((len(self._marks), 2 * int(self._setting["keys"][0])), np.int64)

    def _forget_runs(self, events: int) -> None:
        """And so is what is known of runs; there is room for those of so many events."""
        self._standing = np.zeros(events, STANDING)
        self._marks["seen"] = 0
        self._links = np.empty(_LINKS * events + 1, LINK)
        self._links["row"][0] = 0
        self._taken = np.empty((events, int(self._setting["steps"][0])), np.int64)

    def reopen(self) -> None:
        """Any match may go on, as its events err by more than was known."""
        self._ended[:] = FAR
        self._forget()
        self._forget_runs(len(self._standing))

    def renumber(self, number: np.ndarray, store: Store) -> None:
        """Row i of ``store`` is now called ``number[i]``; -1: it is gone, as its error."""
        kept = store.events[: store.n]
        self._setting["widest"] = max(kept[name].max(initial=0) for name in ("unc", UNC_END))
        self._setting["doubted"] = kept["doubted"].any()
        self._setting["widest_t_a"] = kept["t_a"].max(initial=0)
        kept_rows = number >= 0
        chosen = numbers_of(self._chosen)[: len(number)][kept_rows]
        self._chosen = chosen.view(CHOICE).reshape(len(chosen))
        self._ended = self._ended[: len(number)][kept_rows]
        self.stacks = stacks.rebuilt(self.stacks, number, 16, 64)
        self._forget()
        self._forget_runs(len(self._ended))

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"stacks": stacks.packed(self.stacks)}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.stacks = stacks.unpacked(state["stacks"])
        self._forget()
        self._forget_runs(len(self._ended))


def _longer(part: np.ndarray, room: int) -> np.ndarray:
    """With room for so many."""
    longer = np.empty(room, part.dtype)
    numbers_of(longer)[: len(part)] = numbers_of(part)
    return longer
