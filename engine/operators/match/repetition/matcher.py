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
from typing import Any

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
from slackwater.engine.core.released import Released
from slackwater.engine.core.timeline import ALL, LONG_AGO, Moved
from slackwater.engine.kernels.records import FAR
from slackwater.engine.operators.match.compiled.membership import step_filters
from slackwater.engine.operators.match.compiled.tables import Layout
from slackwater.engine.operators.match.repetition.compiled import repeat_layout
from slackwater.engine.operators.match.repetition.kernel import RepeatKernel
from slackwater.engine.operators.match.repetition.matches import MatchTable, RepeatJudge, scopes_of
from slackwater.engine.operators.match.repetition.results import RepeatMatches, shown_runs
from slackwater.engine.operators.match.seq import SeqMatcher
from slackwater.engine.operators.match.settings import PatternSettings
from slackwater.engine.operators.match.store import EXPIRES, HORIZON, MEMBER, Store, widest_unc
from slackwater.engine.operators.match.verdict.matches import one_of_each
from slackwater.engine.query.repeat_plan import RepeatPlan

_LEAST_MATCHES = 1 << 10


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
        self.asked = BarrierRequirements(
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
        own = store is self.table
        matches = self._found if own else MatchTable(by_step=self.plan.shows_steps)
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
            wanted = [released.strings.find(each) for each in self.plan.sources]
            known = [code for code in wanted if code >= 0]
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

    def shown(self, given: ReleasedMatches) -> Sequence[Result]:
        return ResultPieces(list(shown_runs(
            given, self._found, self.table, self._repeat, self._strings, self.site
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
            held = held_rows()
            if len(self._found) > max(_LEAST_MATCHES, 2 * len(held)):
                number = self._found.keep(held)
        return number

    def _kept(self, alive: np.ndarray, held_rows: Callable[[], np.ndarray]) -> np.ndarray:
        """As of patterns; rows of changes are numbers of matches."""
        number = self._found.keep(held_rows())
        self._found.renumber(super()._kept(alive, lambda: self._found.path["row"]))
        return number
