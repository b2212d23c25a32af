"""SEQ: strictly increasing event time, every combination, with its certainty (SPEC 4.1, 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from msgspec.structs import replace

from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.engine.barrier.base import (
    ORDER,
    BarrierRequirements,
    BarrierStage,
    Changes,
    MatcherOutput,
    ReleasedMatches,
)
from slackwater.engine.barrier.registry import BarrierSettings, barrier_in_force, build_barrier
from slackwater.engine.core.clocks.epochs import CLOCK_STATUS, MIXED, STAMPED_BY
from slackwater.engine.core.clocks.stream_clocks import NOTHING, StreamClocks
from slackwater.engine.core.columns import varying
from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.core.operator import Restorable, Result, ResultPieces
from slackwater.engine.core.released import IN_ORDER, Released, Strings
from slackwater.engine.core.timeline import CHANCE, LONG_AGO, Moved, Steps, in_stream
from slackwater.engine.kernels.records import INT_MAX
from slackwater.engine.operators.match.certainty.chances import no_surer_than
from slackwater.engine.operators.match.certainty.matches import (
    Judge,
    all_of,
    difference,
    one_of_each,
)
from slackwater.engine.operators.match.compiler.membership import (
    kept_attributes,
    members,
    step_filters,
)
from slackwater.engine.operators.match.compiler.tables import Layout, layout_of
from slackwater.engine.operators.match.match_results import Matches
from slackwater.engine.operators.match.search.host import Kernel
from slackwater.engine.operators.match.search.state import Stacks
from slackwater.engine.operators.match.store import (
    DOUBTED,
    EXPIRES,
    FIELDS,
    HORIZON,
    LATE,
    MEMBER,
    T_A,
    UNC_END,
    Store,
    widest_unc,
)
from slackwater.engine.query.fields import attributes_of, released_columns
from slackwater.engine.query.pattern_settings import PURGES, PatternSettings, Rule
from slackwater.engine.query.plan import OrPlan, SeqPlan
from slackwater.engine.query.shape import of_rows

# SEQ: strictly increasing event time, every combination, with its certainty (SPEC 4.1, 4.3).
#
# The matcher is independent of the barrier: it outputs the changes of matches by each released row,
# which completes new matches and, if it is of a negated step, invalidates older ones or makes them
# uncertain; the barrier turns changes into results. There is no table of matches: the kernel finds
# both kinds among the events.
#
# An event is stored until ``ref + unc + W + keep_late_ns`` is before progress by more than clock
# errors (``clocks.stream_clocks``); then no row that is less than ``keep_late_ns`` late can need it
# (an event of a negated step at the front is stored for another W). Later rows are counted and
# ignored. Without WITHIN no event can be dropped; the number of stored events is counted.


_DEFAULT_KEEP_LATE_NS: Final = 60 * 10**9
_NO_STRINGS: Final = Strings()
"""The table of texts before the first batch."""


class SeqMatcher(Restorable):
    """Operator of a ``SeqPlan`` or an ``OrPlan``.

    Args:
        plan: the query.
        settings: certainty and bounds.
        site: name of the site.

    Raises:
        UserError: the certainty is unknown, or a negated step has no bounds.
    """

    state_fields: ClassVar[tuple[str, ...]] = (
        "table",
        "_horizon",
        "_too_late",
        "_most",
        "_withdrawn",
        "_kernel",
    )

    def __init__(
        self,
        plan: SeqPlan | OrPlan,
        settings: PatternSettings | None = None,
        site: str = DEFAULT_SITE,
    ) -> None:
        self.plan = plan
        self.settings = settings or PatternSettings()
        self.site = site
        self._rule = Rule(self.settings.certainty)
        if self.settings.purge not in PURGES:
            raise UserError(f"purge {self.settings.purge!r}: use {', '.join(PURGES)}")
        self._layout = self._made_layout()
        steps = self._layout.steps
        self.requirements = BarrierRequirements(
            tuple(steps[step].type for step in self._layout.tables.scopes["step"].tolist()),
            tuple(dict.fromkeys(step.type for step in steps if not step.negated)),
            len(steps),
            self.settings.purge == "promises",
        )
        self.types = tuple(sorted({step.type for step in steps}))
        self.takes_halves = False
        self._horizon = NOTHING
        self._by_ends = self._layout.by_ends
        # Promises bound the ends of events, but the purge needs their begins.
        self._purges = self.settings.purge == "promises" and not self._by_ends
        self._within_ns = self._layout.branches[0].within_ns
        self._alone = max(map(len, self._layout.places)) == 1
        """Whether a match is a single event."""
        within_ns = 0 if self._alone and self._within_ns is None else self._within_ns
        self._keep_ns = kept_ns(within_ns, self.settings)
        self._breaking = sum({1 << step for step, _ in self._layout.negated})
        """Bits of the steps whose events may retract matches."""
        self._filters = step_filters(self._layout)
        self._attributes = kept_attributes(self.plan, self._layout)
        self.table = Store(self._layout.reads, self._layout.keyed)
        """The stored events."""
        drops = self._by_ends and self.settings.purge == "promises"
        self._kernel = self._made_kernel(drops=drops)
        self._strings = _NO_STRINGS
        self._too_late = 0
        self._most = 0
        self._withdrawn = 0
        self._has_cause = False

    def _made_layout(self) -> Layout:
        """Return the layout of the steps and their conditions."""
        return layout_of(self.plan, self.settings.intervals)

    def _made_kernel(self, *, drops: bool = False) -> Kernel:
        """Return the host of the kernel that finds matches."""
        return Kernel(
            self._layout, self._rule, self._within_ns, self._keep_ns,
            divider=self.settings.divider, most=self.settings.matches_max, drops=drops,
        )  # fmt: skip

    def required_columns(self) -> set[str]:
        """Without RETURN a match outputs every attribute
        (``engine.query.fields.needed_attributes``).
        """
        return {*FIELDS, "status"} | released_columns(attributes_of(self.plan))

    def counters(self) -> dict[str, int]:
        """Counters.

        ``too_late``: ignored rows. ``buffered``: stored events; ``buffered_max``: the most so far,
        with events that expire by a batch. ``confirmed_withdrawn``: confirmed matches whose clock
        bound was refuted later. ``stack_moves``: entries shifted by late events; ``looked_at``:
        candidates tested.
        """
        buffered = int((self.table.columns[EXPIRES][: self.table.n] >= self._horizon).sum())
        over = max(0, self.table.n - self.settings.buffer_warn)
        counts = {"too_late": self._too_late, "buffered": buffered, "beyond_limit": over}
        counts |= {"buffered_max": self._most} | self._kernel.counters()
        counts |= {"confirmed_withdrawn": self._withdrawn} if self._withdrawn else {}
        return counts

    @property
    def stacks(self) -> Stacks:
        """The stacks of the kernel."""
        return self._kernel.stacks

    def process(self, released: Released) -> Iterator[MatcherOutput]:
        """As ``engine.barrier.base.Matcher``.

        Raises:
            ContractViolation: the batch has no moves of clocks.
        """
        moved = released.moved
        if moved is None:
            raise ContractViolation(f"query {self.plan.name!r}: a batch without its clocks' moves")
        self._strings = released.strings
        timeline = moved.timeline(released, self.types, by_start=not self._by_ends)
        refuted = self._refuted(released) if len(released.refuted.by) else None
        changes = self._changes(released, moved, timeline.received.promised)
        self._horizon = moved.horizon
        if refuted is not None:
            was, now = refuted.before, refuted.after
            lost = was.stands & was.confirmed & ~(now.stands & now.confirmed)
            self._withdrawn += int(lost.sum())
            changes = self._caused_by_none(refuted, changes, released, moved)
        yield MatcherOutput(changes, timeline)

    def _refuted(self, released: Released) -> Changes | None:
        """Changes of matches by larger clock errors of stored events than known before.

        Released matches change too; matches whose events are dropped do not.
        """
        doubts = self.table.refuted(released.refuted)
        if not doubts.by.any():
            return None
        self.table.expire(self._horizon)
        before = self._matches(wider=False)
        self.table.widen(doubts)
        if self._rule is Rule.MAX_DELAY:
            events = self.table.events[: self.table.n]
            is_buffered = events["expires"] > LONG_AGO
            widest = max(int(events[name][is_buffered].max(initial=0)) for name in ("unc", UNC_END))
            events["t_a"][:] = np.maximum(events["t_a"], 2 * widest)
        self._kernel.renumber(np.arange(self.table.n), self.table)
        return difference(before, self._matches(wider=True))

    def _matches(self, *, wider: bool) -> Changes | None:  # noqa: ARG002
        """Return the matches of the stored events, one change for each; ``wider``: clock errors are
        larger than at the arrival of the events.
        """
        return self._replayed(self._judge(self.table))

    def _judge(self, store: Store) -> Judge:
        """Return the judge, which makes changes from the output of a kernel on ``store``."""
        return Judge(self._layout, self._rule, store, self._strings)

    def _replayed(self, judge: Judge, first: int = 0) -> Changes | None:
        """Return the changes by the events of the judge's store from ``first`` on, one per match;
        earlier events were matched before.
        """
        kernel, strings = self._made_kernel(), self._strings
        kernel.take_in(judge.store, 0, first, strings)
        return one_of_each(judge.changes(*kernel.construct(judge.store, first, strings, {})))

    def _caused_by_none(
        self, refuted: Changes, changes: Changes | None, released: Released, moved: Moved
    ) -> Changes:
        """``refuted`` and ``changes``; the cause of the former is a row of no step."""
        at = min([released.refuted.at, *released.columns.get("release", ())[:1]])
        self._has_cause = True
        refuted.cause[:] = refuted.completing[:] = self._moment(moved.first - 1, at)
        return refuted if changes is None else all_of([refuted, changes])

    def _moment(self, order: int, at: int) -> int:
        """Return a row of no step in the store, for the moment after row ``order`` of the stream,
        at the instant ``at``.
        """
        store = self.table
        row = store.taken(np.zeros(1, np.int64))
        for name, value in ((ORDER, order), ("release", at), (MEMBER, 0), (EXPIRES, LONG_AGO)):
            row[name][:] = value
        store.add(row, store.attr_types, self._strings)
        return store.n - 1

    def advance(self, now: int) -> Iterable[MatcherOutput]:  # noqa: ARG002 - no event waits
        return ()

    def finish(self, at: int) -> Iterable[MatcherOutput]:  # noqa: ARG002 - no event waits
        return ()

    def results(self, matches: ReleasedMatches) -> Sequence[Result]:
        of = matches
        if CHANCE in self.table.columns:
            of = no_surer_than(self.table.chances(matches.rows), matches)
        return Matches(of, self.table, self._layout, self._strings, self.plan.name, self.site)

    def unpacked(self, state: dict[str, Any]) -> Matches:
        return Matches.unpacked(state, self._layout, self._strings, self.plan.name, self.site)

    def _changes(
        self, released: Released, moved: Moved, promised: dict[str, Steps]
    ) -> Changes | None:
        promised = promised if self._purges else {}
        first_new, rows = self.table.n, self._taken_in(released, moved)
        if not (len(rows) or (promised and first_new)):
            return None
        self._most = max(self._most, self.table.n)
        if promised:
            self._kernel.count_on(released.bound, moved.t_a)
        found = self._kernel.construct(self.table, first_new, released.strings, promised)
        return self._judge(self.table).changes(*found)

    def _taken_in(self, released: Released, moved: Moved) -> np.ndarray:
        """Append the rows of the batch that may be steps to the store; returns their rows."""
        if not released.n:
            return np.empty(0, np.int64)
        member = self._members(released)
        expires = self._expiry(released, member)
        horizon = moved.rows.horizon
        # A match of a single event is never too late.
        late = (member != 0) & (expires < horizon) & (not self._alone)
        self._too_late += int(late.sum())
        rows = np.flatnonzero((member != 0) & ~late)
        taken: np.ndarray | slice
        taken = slice(None) if len(rows) == released.n else rows  # of all, no copies are made
        more = {
            ORDER: moved.first + rows,
            EXPIRES: expires[taken],
            MEMBER: member[taken],
            HORIZON: horizon[taken],
            T_A: moved.rows.t_a[taken],
        }
        if MIXED in released.columns:
            more[MIXED] = released.columns[MIXED][taken]
        for name in (STAMPED_BY, CLOCK_STATUS):
            if name in released.columns:
                more[name] = released.columns[name][taken]
        if self._alone and of_rows(self.plan):
            more[LATE] = released.columns["status"][taken] != IN_ORDER
        if CHANCE in released.columns:
            more[CHANCE] = released.columns[CHANCE][taken]
            unsure, values = more[CHANCE] != 1, varying(released.columns, released.n)[taken]
            more[DOUBTED] = (unsure * (1 + values)).astype(np.int32)
        now = self._at_once(released, moved, rows, more)
        rows = rows[now]
        if len(rows):
            more = {name: column[now] for name, column in more.items()}
            self.table.append(released, rows, self._attributes, more)
        return rows

    def _members(self, released: Released) -> np.ndarray:
        """Per row, bit k: it may be step k."""
        return members(self._filters, released)

    def _at_once(
        self,
        released: Released,  # noqa: ARG002
        moved: Moved,  # noqa: ARG002
        rows: np.ndarray,  # noqa: ARG002
        more: dict[str, np.ndarray],  # noqa: ARG002
    ) -> np.ndarray | slice:
        """Return whether each of ``rows`` is matched now, not later (``spill.matcher``)."""
        return slice(None)

    def _expiry(self, released: Released, member: np.ndarray) -> np.ndarray:
        if self._keep_ns is None:
            return np.full(released.n, INT_MAX)
        ref, unc = released.columns["ref"], widest_unc(released)
        expires = ref + unc + self._keep_ns
        spread = self._t_a(released)
        for step, leading in self._layout.negated:
            # A match that it may change is final once it is dropped.
            longer = (self._within_ns or 0) if leading else 0
            mine = np.flatnonzero(member >> step & 1)
            negative = ref[mine] + np.maximum(unc, spread)[mine] + self._keep_ns + longer
            expires[mine] = np.maximum(expires[mine], negative)
        return np.asarray(expires)

    def _t_a(self, released: Released) -> np.ndarray:
        """Per row, the largest error of the difference of two times near it by R19's rule [ns]."""
        spread = np.full(released.n, released.t_a)
        if self._rule is Rule.MAX_DELAY:
            spread = np.maximum(spread, 2 * released.bound.at(released.columns["ref"]))
        return spread

    def purge(self, held_rows: Callable[[], np.ndarray]) -> np.ndarray | None:
        """Drop expired events once they are half of the stored ones."""
        self.table.n -= self._has_cause  # removes the row of ``_caused_by_none``
        self._has_cause, n = False, self.table.n
        if not n:
            return None
        alive = self.table.columns[EXPIRES][:n] >= self._horizon
        return self._kept(alive, held_rows) if 2 * int(alive.sum()) <= n else None

    def _kept(self, alive: np.ndarray, held_rows: Callable[[], np.ndarray]) -> np.ndarray:
        """Keep the rows ``alive`` and those of held matches; returns the new number of each row."""
        alive[held_rows()] = True
        number = self.table.keep(alive)
        self._kernel.renumber(number, self.table)
        return number

    def codes(self) -> np.ndarray | None:
        return self.table.codes()

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"strings": list(self._strings.texts)}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._strings = Strings(state["strings"])


def kept_ns(within_ns: int | None, settings: PatternSettings) -> int | None:
    """How long events are stored after progress has passed them [ns]; None: for ever."""
    if within_ns is None:
        return None
    if settings.purge == "slack":
        return within_ns + settings.slack_ns
    keep_late = settings.keep_late_ns
    if keep_late is None:
        keep_late = max(_DEFAULT_KEEP_LATE_NS, within_ns)
    return within_ns + keep_late


# A matcher with its barrier and its stream's clocks, without an order, for ordered streams.


class Alone(Restorable):
    """Answers one query over a released stream.

    Args:
        matcher: the query's.
        barrier: the barrier; None: by the query's REALTIME.
    """

    state_fields = ("_stage", "_clocks")

    def __init__(self, matcher: SeqMatcher, barrier: BarrierSettings | None = None) -> None:
        in_force = barrier_in_force(barrier, matcher.plan.realtime)
        self.matcher = matcher
        self._stage = BarrierStage(matcher, build_barrier(in_force, matcher.requirements))
        settings = matcher.settings
        self._clocks = StreamClocks(
            frozenset(matcher.types),
            by_clock=settings.purge == "slack",
            certainty=settings.certainty,
        )

    def process(self, released: Released) -> ResultPieces:
        """Return the results by a batch."""
        ordered = in_stream(released)
        ordered = replace(ordered, moved=self._clocks.advance(ordered))
        results = ResultPieces()
        results.extend(self._stage.process(ordered))
        return results

    def advance(self, now: int) -> Sequence[Result]:
        """Results due before ``now`` on the arrival clock."""
        return self._stage.advance(now)

    def finish(self, at: int) -> Sequence[Result]:
        """Results at the end of the stream, at arrival-clock instant ``at``."""
        return self._stage.finish(at)

    def counters(self) -> dict[str, int]:
        """Return the counters of matcher and barrier."""
        return self._stage.counters()
