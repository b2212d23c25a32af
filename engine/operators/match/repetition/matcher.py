"""SEQ with repeated and optional steps, contiguity, SKIP and LIMIT.

A match is a sequence of events in strictly increasing reference time, each of one step; which ones
are matches, ``docs/repetition.md`` says. Like that of other patterns the matcher says what each
released row does to them: completing new ones, breaking older ones or putting them in doubt, and,
where only some are chosen, choosing others. Events are kept as there
(``engine.operators.match.seq``); matches are kept while the barrier holds them.

When not to use: a fixed number of steps without contiguity, which ``SeqMatcher`` finds faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.engine.barrier.base import (
    BarrierRequirements,
    Changes,
    MatcherOutput,
    ReleasedMatches,
)
from slackwater.engine.core.clocks.stream_clocks import COMPARED
from slackwater.engine.core.operator import Result, ResultPieces
from slackwater.engine.core.released import Released, Strings
from slackwater.engine.core.timeline import ALL, LONG_AGO, Moved, Steps
from slackwater.engine.kernels.records import FAR, longer, numbers_of
from slackwater.engine.operators.match.certainty.matches import one_of_each
from slackwater.engine.operators.match.compiler.membership import step_filters
from slackwater.engine.operators.match.compiler.records import EVENT
from slackwater.engine.operators.match.compiler.tables import Layout
from slackwater.engine.operators.match.repetition import construction as c
from slackwater.engine.operators.match.repetition.compiler import (
    CHOICE,
    LEVEL,
    LINK,
    MARK,
    MATCH_CHANGE,
    PATH_EVENT,
    READING,
    ROLES,
    RUN_STATE,
    RepeatLayout,
    SearchState,
    made_kinds,
    repeat_layout,
)
from slackwater.engine.operators.match.repetition.matches import (
    FoundRuns,
    MatchTable,
    RepeatJudge,
    RepeatMatches,
    scopes_of,
    shown_runs,
)
from slackwater.engine.operators.match.search.construction import DONE, DOUBT, STACKS_FULL
from slackwater.engine.operators.match.search.host import KernelHost
from slackwater.engine.operators.match.seq import SeqMatcher
from slackwater.engine.operators.match.store import EXPIRES, HORIZON, MEMBER, Store, widest_unc
from slackwater.engine.query.pattern_settings import MATCHES_MAX, PatternSettings, Rule
from slackwater.engine.query.repeat_plan import RepeatPlan

# Host of the kernel of repetition: keeps its stacks, hands it its arrays, makes them larger.


_LEAST: Final = 1 << 10
"""Matches that there is room for at first, and of those that are kept."""
_LINKS: Final = 8
"""Events of runs by event; runs that find no room are walked. What is not used takes no memory."""
_EVENTS: Final = 320
"""Of the matches of a call, by match that one event may complete."""


class RepeatKernel(KernelHost):
    """Host of ``engine.operators.match.repetition.construction``: a stack for each partition.

    Args:
        repeat: of the query.
        rule: how uncertain the order of two events is.
        keep_ns: how long beyond its ref an event is kept, or None.
        most: matches that one event may complete or change.
    """

    state_fields = ("_state", "_chosen", "_ended")

    def __init__(
        self, repeat: RepeatLayout, rule: Rule, keep_ns: int | None, most: int = MATCHES_MAX
    ) -> None:
        super().__init__(repeat.layout, repeat.setting.copy(), rule, keep_ns, most)
        self._repeat = repeat
        self._chosen, self._ended = np.empty(0, CHOICE), np.empty(0, np.int64)
        self._forget()
        self._forget_runs(0)
        room = min(_LEAST, most)
        self._runs = FoundRuns(
            np.empty(room, MATCH_CHANGE), np.empty(4 * room, PATH_EVENT), np.empty(room, DOUBT)
        )

    def _kinds_read(self, kinds: np.ndarray) -> np.ndarray:
        return made_kinds(self._repeat.tables, kinds)

    def counters(self) -> dict[str, int]:
        """As of ``Kernel``."""
        moved = int(self.stacks.used["moved"][0])
        return {"stack_moves": moved, "looked_at": int(self._state["looked"][0])}

    def choose_again(self, store: Store, first: int, strings: Strings, *, wider: bool) -> FoundRuns:
        """What SKIP and LIMIT choose, but for what stays, in the partitions that the rows from
        ``first`` on name, which are no events. ``wider``: events err by more than when they came.
        """
        self._state["again"] = wider
        self.reopen()
        found = self._search(c.choose_again, store, first, store.n, strings)
        self._state["again"] = 0
        return found

    def construct(
        self,
        store: Store,
        first: int,
        strings: Strings,
        promised: dict[str, Steps] | None = None,  # noqa: ARG002 - the horizon of rows has them
    ) -> FoundRuns:
        """What the rows of ``store`` from ``first`` on do to matches; good until the next call.

        Raises:
            OverBudget: there are more matches than there may be.
        """
        return self._search(c.construct, store, first, store.n, strings)

    def take_in(self, store: Store, first: int, stop: int, strings: Strings) -> None:
        """As ``engine.operators.match.search.host.Kernel.take_in``."""
        self._state["quiet"] = 1
        self._search(c.construct, store, first, stop, strings)
        self._state["quiet"] = 0

    def _search(
        self, go_through: Callable[..., tuple[int, int]], store: Store, first: int, stop: int,
        strings: Strings,
    ) -> FoundRuns:  # fmt: skip
        """What a kernel finds of the rows from ``first`` up to ``stop``."""
        tables = self._repeat.tables
        now, places = self._state[0], ROLES * len(tables.steps)
        now["found_n"] = now["path_n"] = now["doubts_n"] = 0
        now["inserted"] = first - 1
        programs = self._compiled(store.kinds, strings)
        self._lengthen(store.n)
        numbers_of(self._chosen)[first : store.n], self._ended[first : store.n] = 0, FAR
        registers = len(store.registers.raw)
        made = (
            np.full(places, -1), np.zeros((registers, places), np.int64),
            np.zeros((registers, places), np.bool_), np.zeros(places, EVENT), np.arange(places),
            made_kinds(tables, store.kinds),
            np.zeros(store.n + 1, LEVEL), np.zeros(store.n + 1, READING),
            np.zeros(store.n + 1, PATH_EVENT),
        )  # fmt: skip
        ready = np.zeros(store.n + 1, np.int64)
        if self._links["row"][0] > len(self._links) // 2:
            self._forget_runs(len(self._standing))
        while True:
            first, why = go_through(
                SearchState(
                    tables, self._state, store.events, *store.registers, programs, self._ranks,
                    self.stacks, *made, self._chosen, self._ended, self._marks, self._standing,
                    self._links, ready, self._step_rows, self._stack_keys, *self._runs,
                ),
                first, stop,
            )  # fmt: skip
            if why == DONE:
                n, path, doubts = (int(now[name]) for name in ("found_n", "path_n", "doubts_n"))
                found = self._runs
                if n > self._budget.most:
                    self._budget.check(found.found["cause"][:n])
                return FoundRuns(found.found[:n], found.path[:path], found.doubts[:doubts])
            if why == STACKS_FULL:
                left, known = stop - first, int(self.stacks.used["stacks"][0])
                marks, keys = self._marks, self._stack_keys
                # What is not used takes no memory.
                self._restack(store, left, 4 * left + 64)
                self._forget()
                numbers_of(self._marks)[:known] = numbers_of(marks)[:known]
                self._stack_keys[:known] = keys[:known]
            else:
                self._runs = self._with_room()

    def _lengthen(self, events: int) -> None:
        """Room for what is known of so many events."""
        if len(self._chosen) < events:
            self._chosen = longer(self._chosen, 2 * events)
            never = np.full(2 * events, FAR)
            never[: len(self._ended)] = self._ended
            self._ended = never
            self._forget_runs(2 * events)

    def _with_room(self) -> FoundRuns:
        """What is found, with more room for what had none."""
        found, path, doubts = self._runs
        if self._state["lacks_path"][0]:
            most = _EVENTS * self._budget.most
            if len(path) >= most:
                raise self._budget.exceeded(f"its matches have more than {most:,} events together")
            return FoundRuns(found, longer(path, min(4 * len(path), most)), doubts)
        found_n = int(self._state["found_n"][0])
        room = self._budget.larger(len(found), found["cause"][:found_n])
        return FoundRuns(longer(found, room), path, longer(doubts, room))

    def _forget(self) -> None:
        """Forgets what is known of stacks; the next look computes it again."""
        self._marks = np.zeros(len(self.stacks.stack), MARK)
        self._stack_keys = np.zeros((len(self._marks), 2 * int(self._state["keys"][0])), np.int64)

    def _forget_runs(self, events: int) -> None:
        """And so is what is known of runs; there is room for those of so many events."""
        self._standing = np.zeros(events, RUN_STATE)
        self._marks["seen"] = 0
        self._links = np.empty(_LINKS * events + 1, LINK)
        self._links["row"][0] = 0
        self._step_rows = np.empty((events, int(self._state["steps"][0])), np.int64)

    def reopen(self) -> None:
        """Any match may go on, as its events err by more than was known."""
        self._ended[:] = FAR
        self._forget()
        self._forget_runs(len(self._standing))

    def renumber(self, number: np.ndarray, store: Store) -> None:
        super().renumber(number, store)
        self._lengthen(len(number))
        kept_rows = number >= 0
        chosen = numbers_of(self._chosen)[: len(number)][kept_rows]
        self._chosen = chosen.view(CHOICE).reshape(len(chosen))
        self._ended = self._ended[: len(number)][kept_rows]
        self._forget()
        self._forget_runs(len(self._ended))

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._forget()
        self._forget_runs(len(self._ended))


class RepeatMatcher(SeqMatcher):
    """Operator of a ``RepeatPlan``; see ``engine.operators.match.seq.SeqMatcher``.

    Args:
        plan: the query.
        settings: certainty and bounds; ``intervals`` and ``joins`` are not used.
        site: named in results.

    Raises:
        UserError: an unknown certainty.
    """

    state_fields = (*SeqMatcher.state_fields, "_found")

    plan: RepeatPlan
    _kernel: RepeatKernel  # type: ignore[assignment]

    def __init__(
        self, plan: RepeatPlan, settings: PatternSettings | None = None, site: str = DEFAULT_SITE
    ) -> None:
        self._repeat = repeat_layout(plan)
        super().__init__(plan, settings, site)
        self._purges = False  # the horizon of rows has the promises
        self._breaking = -1
        positive = [step.type for step in plan.steps if not step.negated]
        self.requirements = BarrierRequirements(
            tuple(scope.type for scope in scopes_of(plan)), tuple(dict.fromkeys(positive)),
            len(plan.steps), self.settings.purge == "promises",
        )  # fmt: skip
        self._filters = step_filters(self._layout, tuple(self._repeat.partition))
        self._found = MatchTable(by_step=plan.shows_steps)

    def _made_layout(self) -> Layout:
        return self._repeat.layout

    def _made_kernel(self, *, drops: bool = False) -> RepeatKernel:  # type: ignore[override]  # noqa: ARG002
        return RepeatKernel(self._repeat, self._rule, self._keep_ns, self.settings.matches_max)

    def _judge(self, store: Store) -> RepeatJudge:
        """``store``: the events held, or others, whose matches have numbers of their own."""
        is_local = store is self.table
        matches = self._found if is_local else MatchTable(by_step=self.plan.shows_steps)
        return RepeatJudge(self._layout, self._rule, store, self._strings, self.plan, matches)

    def process(self, released: Released) -> Iterator[MatcherOutput]:
        moved = released.moved
        if self.settings.purge == "promises" and moved is not None:
            released = replace(released, moved=self._by_promises(moved))
        return super().process(released)

    def _by_promises(self, moved: Moved) -> Moved:
        """Events are gone that no event to come can be in one WITHIN with, as promises of all types
        of the query say (L09 VI-B): as if progress had come that far.
        """
        rows, promised = moved.rows, moved.received.promised
        if self._keep_ns is None:
            return moved
        n, late = len(rows.horizon), self._keep_ns - (self._within_ns or 0)
        moment, least = 2 * (moved.first + np.arange(n)), np.full(n, FAR)
        for kind in self.types:
            said, value = promised.get(kind, promised.get(ALL)), np.full(n, -FAR)
            if said is not None:
                value = said.value[np.searchsorted(said.moment, moment, side="right") - 1]
            least = np.minimum(least, value)
        spread = np.maximum(2 * rows.error, rows.t_a)
        left = np.maximum(least, -FAR) - COMPARED * spread + late
        horizon = np.maximum.accumulate(np.maximum(np.maximum(rows.horizon, left), self._horizon))
        last = max(moved.horizon, self._horizon, *horizon[-1:].tolist())
        return replace(moved, rows=replace(rows, horizon=horizon), horizon=last)

    def _members(self, released: Released) -> np.ndarray:
        """An event that ends a repetition is none of its step's."""
        found = super()._members(released)
        if self.plan.sources:
            codes = [released.strings.find(each) for each in self.plan.sources]
            known = [code for code in codes if code >= 0]
            found[~np.isin(released.columns["stream"], known)] = 0
        for step, until in self._repeat.untils.items():
            found[found >> until & 1 == 1] &= ~(1 << step)
        return found

    def _expiry(self, released: Released, member: np.ndarray) -> np.ndarray:
        found = super()._expiry(released, member)
        if self._keep_ns is None:
            return found
        # No match that an event may have broken is changed by another one once it is gone.
        error = np.maximum(widest_unc(released), self._t_a(released))
        found = np.maximum(found, released.columns["ref"] + error + self._keep_ns)
        leading = int(self._repeat.setting["leading"][0])
        longer = (member & leading != 0) * (self._within_ns or 0)
        return np.asarray(found + longer)

    def _matches(self, *, wider: bool) -> Changes | None:
        if not self.plan.chooses:
            self._kernel.reopen()
            return super()._matches(wider=wider)
        n = self._name_partitions()
        found = self._kernel.choose_again(self.table, n, self._strings, wider=wider)
        changes = one_of_each(self._judge(self.table).changes(*found))
        self.table.n = n
        return changes

    def _name_partitions(self) -> int:
        """Adds to the store a row of each partition, which is no event; gives the first of them."""
        store = self.table
        keys = (store.registers.same[:, : store.n], store.registers.tag[:, : store.n])
        _, of_each = np.unique(np.vstack(keys), axis=1, return_index=True)
        rows, n = store.taken(of_each), store.n
        for name, value in ((MEMBER, 0), (EXPIRES, LONG_AGO), (HORIZON, self._horizon)):
            rows[name][:] = value
        store.add(rows, store.attr_types, self._strings)
        return n

    def results(self, matches: ReleasedMatches) -> Sequence[Result]:
        return ResultPieces(list(shown_runs(
            matches, self._found, self.table, self._repeat, self._strings, self.site
        )))  # fmt: skip

    def unpacked(self, state: dict[str, Any]) -> RepeatMatches:
        found = RepeatMatches.unpacked(
            state, self._layout, self._strings, self.plan.name, self.site
        )  # fmt: skip
        found.place_columns(self.plan, state["step_of"])
        return found

    def purge(self, held_rows: Callable[[], np.ndarray]) -> np.ndarray | None:
        """Drops matches, too, that the barrier does not hold."""
        number = super().purge(held_rows)
        if number is None:
            rows = held_rows()
            if len(self._found) > max(_LEAST, 2 * len(rows)):
                number = self._found.keep(rows)
        return number

    def _kept(self, alive: np.ndarray, held_rows: Callable[[], np.ndarray]) -> np.ndarray:
        """As of patterns; rows of changes are numbers of matches."""
        number = self._found.keep(held_rows())
        self._found.renumber(super()._kept(alive, lambda: self._found.path["row"]))
        return number
