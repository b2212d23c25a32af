"""SEQ with repeated and optional steps, contiguity, SKIP and LIMIT.

A match is a sequence of events in strictly increasing reference time, each of one step;
``docs/repetition.md`` defines the matches. Like the matcher of other patterns, this one outputs the
effect of each released row: the matches that it completes, invalidates or makes uncertain, and
those that SKIP or LIMIT choose instead. Events are kept as in ``engine.operators.match.seq``;
matches are kept while the barrier holds them.

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

# Host of the kernel of repetition: owns its stacks and arrays, and makes them larger.


_LEAST: Final = 1 << 10
"""Initial room for matches, and the least number of kept matches before a purge."""
_LINKS: Final = 8
"""Room for events of runs per event; runs without room are walked. Unused room takes no memory."""
_EVENTS: Final = 320
"""Largest number of events in all matches of a call, per match that one event may complete."""


class RepeatKernel(KernelHost):
    """Host of ``engine.operators.match.repetition.construction``: a stack for each partition.

    Args:
        repeat: the layout of the query.
        rule: the rule of uncertain order.
        keep_ns: how long an event is kept after its ref [ns]; None: for ever.
        most: largest number of matches that one event may complete or change.
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
        """Return ``stack_moves`` and ``looked_at``; see ``engine.operators.match.search.host``."""
        moved = int(self.stacks.used["moved"][0])
        return {"stack_moves": moved, "looked_at": int(self._state["looked"][0])}

    def choose_again(self, store: Store, first: int, strings: Strings, *, wider: bool) -> FoundRuns:
        """Return the changes of what SKIP and LIMIT choose in some partitions.

        The rows from ``first`` on are not events; each names a partition. ``wider``: the clock
        errors of events have grown since they came.
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
        """Return the effect of the rows from ``first`` on matches; valid until the next call.

        Raises:
            OverBudget: an event completes or changes too many matches.
        """
        return self._search(c.construct, store, first, store.n, strings)

    def take_in(self, store: Store, first: int, stop: int, strings: Strings) -> None:
        """See ``engine.operators.match.search.host.Kernel.take_in``."""
        self._state["quiet"] = 1
        self._search(c.construct, store, first, stop, strings)
        self._state["quiet"] = 0

    def _search(
        self, go_through: Callable[..., tuple[int, int]], store: Store, first: int, stop: int,
        strings: Strings,
    ) -> FoundRuns:  # fmt: skip
        """Run the kernel ``go_through`` over the rows [``first``, ``stop``); return the runs."""
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
                # Unused room takes no memory.
                self._restack(store, left, 4 * left + 64)
                self._forget()
                numbers_of(self._marks)[:known] = numbers_of(marks)[:known]
                self._stack_keys[:known] = keys[:known]
            else:
                self._runs = self._with_room()

    def _lengthen(self, events: int) -> None:
        """Make room for the state of ``events`` events."""
        if len(self._chosen) < events:
            self._chosen = longer(self._chosen, 2 * events)
            never = np.full(2 * events, FAR)
            never[: len(self._ended)] = self._ended
            self._ended = never
            self._forget_runs(2 * events)

    def _with_room(self) -> FoundRuns:
        """Return the found runs with more room where it was too small.

        Raises:
            OverBudget: the matches are too many or have too many events.
        """
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
        """Drop the cached state of stacks; the next search computes it again."""
        self._marks = np.zeros(len(self.stacks.stack), MARK)
        self._stack_keys = np.zeros((len(self._marks), 2 * int(self._state["keys"][0])), np.int64)

    def _forget_runs(self, events: int) -> None:
        """Drop the cached state of runs, and make room for the runs of ``events`` events."""
        self._standing = np.zeros(events, RUN_STATE)
        self._marks["seen"] = 0
        self._links = np.empty(_LINKS * events + 1, LINK)
        self._links["row"][0] = 0
        self._step_rows = np.empty((events, int(self._state["steps"][0])), np.int64)

    def reopen(self) -> None:
        """Allow all matches to continue, as the clock errors of their events have grown."""
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
        site: name of the site.

    Raises:
        UserError: the certainty is unknown.
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
        """Return a judge for ``store``; stores other than ``table`` number matches separately."""
        is_local = store is self.table
        matches = self._found if is_local else MatchTable(by_step=self.plan.shows_steps)
        return RepeatJudge(self._layout, self._rule, store, self._strings, self.plan, matches)

    def process(self, released: Released) -> Iterator[MatcherOutput]:
        moved = released.moved
        if self.settings.purge == "promises" and moved is not None:
            released = replace(released, moved=self._by_promises(moved))
        return super().process(released)

    def _by_promises(self, moved: Moved) -> Moved:
        """Advance the horizon by promises of all types of the query (L09 VI-B).

        An event is dropped if no later event can be in one WITHIN with it, as if by progress.
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
        """Return the steps of each row; an event that ends a repetition is not of its step."""
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
        # An event stays as long as other events may change a match that it may have invalidated.
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
        """Append a row per partition to the store, which is not an event; return the first one."""
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
        """Drop events, and also matches that the barrier does not hold."""
        number = super().purge(held_rows)
        if number is None:
            rows = held_rows()
            if len(self._found) > max(_LEAST, 2 * len(rows)):
                number = self._found.keep(rows)
        return number

    def _kept(self, alive: np.ndarray, held_rows: Callable[[], np.ndarray]) -> np.ndarray:
        """Keep events as for other patterns; here rows of changes are numbers of matches."""
        number = self._found.keep(held_rows())
        self._found.renumber(super()._kept(alive, lambda: self._found.path["row"]))
        return number
