"""SEQ/PAL trees of intervals whose halves may arrive apart (Z10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final

import numpy as np
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.engine.barrier.base import Changes, MatcherOutput
from slackwater.engine.core.columns import Columns
from slackwater.engine.core.released import Released
from slackwater.engine.kernels.records import FAR
from slackwater.engine.operators.match.certainty.matches import Judge
from slackwater.engine.operators.match.compiler.tables import SamePlan
from slackwater.engine.operators.match.interval.half_intervals import (
    END,
    ID_VALID,
    REPEATED,
    START,
    WHOLE,
    Announced,
    Waiting,
    half_of,
    id_of,
    with_halves,
)
from slackwater.engine.operators.match.match_results import HALF_COLUMN
from slackwater.engine.operators.match.seq import SeqMatcher
from slackwater.engine.operators.match.store import Store
from slackwater.engine.query.joins import IBP, check_joins
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import (
    Attribute,
    Comparison,
    Constant,
    Logic,
    Predicate,
    Scope,
    SeqPlan,
    Step,
    TreePlan,
)

# ISEQ: the matcher of patterns whose steps are related by their end points (L10 5.3, 5.4).
#
# It uses the kernel of ``seq`` and adds IBPs. An IBP never changes a result: with
# ``purge=promises`` it shows which intervals can be dropped.


class IseqMatcher(SeqMatcher):
    """Operator of an ISEQ.

    Args:
        plan: the query (``engine.query.shape.of_intervals``).
        settings: certainty, bounds, and how the search works.
        site: name of the site.
    """

    state_fields = (*SeqMatcher.state_fields, "_announced")

    def __init__(
        self, plan: SeqPlan, settings: PatternSettings | None = None, site: str = r.DEFAULT_SITE
    ) -> None:
        super().__init__(plan, settings, site)
        self._listens = self.settings.purge == "promises" and self.settings.intervals == IBP
        kinds = [step.type for step in self._layout.steps]
        self._announced = Announced(kinds, self._within_ns)

    def required_columns(self) -> set[str]:
        """Return the columns to read; the ``id`` links an interval to its IBP."""
        more = {r.ID, r.INCARNATION} if self._listens else set()
        return super().required_columns() | more

    def begins(self, begun: Columns) -> None:
        """Pass IBPs to ``engine.operators.match.interval.half_intervals.Announced``."""
        if self._listens:
            self._announced.begins(begun)

    def process(self, released: Released) -> Iterator[MatcherOutput]:
        moved = released.moved
        if self._listens and moved is not None:
            heard = self._announced.before(released, moved.first, moved.rows.horizon)
            self._kernel.hear(heard.begun, heard.heard, heard.lost)
        return super().process(released)

    def counters(self) -> dict[str, int]:
        """Return the counters of ``SeqMatcher`` and those of intervals.

        ``dropped``: intervals not stored, as promises and IBPs exclude any partner. ``cascaded``:
        stored intervals that lost their partners. ``ibp``: IBPs received. ``unannounced``:
        intervals without an earlier IBP. ``ibp_late``: IBPs that came after intervals may have
        been dropped without them. ``ibp_forgotten``: IBPs dropped because too many waited; from
        then on no interval is dropped by IBPs.
        """
        counts = super().counters() | self._kernel.dropped()
        if self._listens:
            counts |= {"ibp": self._announced.count, "unannounced": self._announced.missing}
            counts["ibp_late"] = self._announced.late
            counts["ibp_forgotten"] = self._announced.forgotten
        return counts

    def codes(self) -> np.ndarray | None:
        codes = super().codes()
        return None if codes is None else np.concatenate((codes, self._announced.codes()))


# The plan of a tree, extended for halves: each step that accepts half an interval gets a negated
# step for the whole interval.
#
# So the pattern kernel needs no code for halves: the event that completes a half invalidates the
# match with the half, and may be part of a match of its own.


_WHOLE: Final = "\0whole"
"""Suffix of aliases of whole intervals; no query can contain it."""
STEPS_MAX: Final = 62
"""Largest number of steps: ``MEMBER`` has one bit per step."""


def takes_halves(plan: TreePlan) -> tuple[set[str], set[str]]:
    """Return the steps that need only the start, and those that need only the end, everywhere.

    Negated steps are included; a step must need no more in every branch that has it.
    """

    def everywhere(which: str) -> set[str]:
        aliases = {step.alias for step in plan.steps}
        for branch in plan.branches:
            branch_aliases = {step.alias for step in branch.steps}
            aliases -= branch_aliases - set(getattr(branch, which))
        return aliases

    return everywhere("starts"), everywhere("ends")


def completed(plan: TreePlan, joins: str) -> tuple[TreePlan, set[str], set[str]]:
    """Return ``with_completions``, cached: all sites of a run share one plan."""
    return _completed(SamePlan(plan), joins)


@lru_cache(maxsize=64)
def _completed(key: SamePlan[TreePlan], joins: str) -> tuple[TreePlan, set[str], set[str]]:
    found, starts, ends = with_completions(key.plan)
    branches = tuple(replace(branch, joins=joins) for branch in found.branches)
    return replace(found, branches=branches), starts, ends


def with_completions(plan: TreePlan) -> tuple[TreePlan, set[str], set[str]]:
    """Return the plan for the kernel, and the steps that accept start halves and end halves.

    With more than ``STEPS_MAX`` steps no positive step accepts halves.
    """
    starts, ends = takes_halves(plan)
    some = [step for step in plan.steps if not step.negated and step.alias in starts | ends]
    if len(plan.steps) + len(some) > STEPS_MAX:
        positive = {step.alias for step in plan.steps if not step.negated}
        return plan, starts - positive, ends - positive
    whole = {
        step.alias: Step(name, step.type, negated=True, where=_is(name, WHOLE))
        for step in some
        for name in (step.alias + _WHOLE,)
    }
    branches = tuple(_completing(branch, whole) for branch in plan.branches)
    return replace(plan, steps=(*plan.steps, *whole.values()), branches=branches), starts, ends


def completed_by(step: Step, steps: Sequence[Step]) -> Step | None:
    """Return the step of ``steps`` whose half ``step`` completes; None: a step of the query."""
    if not step.alias.endswith(_WHOLE):
        return None
    return next(each for each in steps if each.alias + _WHOLE == step.alias)


def _is(alias: str, which: int) -> Predicate:
    return Comparison("=", half_of(alias), Constant(which))


def _completing(branch: SeqPlan, whole: dict[str, Step]) -> SeqPlan:
    mine = [step for step in branch.steps if step.alias in whole]
    steps, scopes = list(branch.steps), list(branch.scopes)
    equalities, others = list(branch.equalities), list(branch.others)
    for step in mine:
        other = whole[step.alias]
        scopes.append(Scope(len(steps), (), ()))
        steps.append(other)
        equalities.append((id_of(step.alias), id_of(other.alias)))
        others.append(_same_source(step.alias, other.alias))
        others.append(Comparison(">", half_of(step.alias), half_of(other.alias)))
    positive = [step for step in branch.steps if not step.negated]
    for one, two in combinations(positive, 2):
        if one.type == two.type and {one.alias, two.alias} & whole.keys():
            halved = Logic("or", (_half(one.alias), _half(two.alias)))
            others.append(_apart(one.alias, two.alias, halved))
    for absent in [step for step in branch.steps if step.negated]:
        # An event of the match, or a half of it, does not invalidate the match.
        same = [step for step in positive if step.type == absent.type]
        others += [_apart(step.alias, absent.alias) for step in same]
    return replace(
        branch, steps=tuple(steps), scopes=tuple(scopes), equalities=tuple(equalities),
        others=tuple(others),
    )  # fmt: skip


def _same_source(one: str, two: str) -> Predicate:
    return Comparison("=", Attribute("source", one), Attribute("source", two))


def _apart(one: str, two: str, *unless: Predicate) -> Predicate:
    """Return the condition: two events are of different intervals, or not all ``unless`` hold."""
    both = Comparison("=", id_of(one), id_of(two)), _same_source(one, two)
    return Logic("not", (Logic("and", (*both, *unless)),))


def _half(alias: str) -> Predicate:
    return Comparison(">", half_of(alias), Constant(WHOLE))


# Trees of intervals on the pattern kernel, with halves of intervals (Z10 4 and 5).
#
# ``engine.query.analysis.interval_tree`` converts the tree to relations of end points; this part
# adds the halves. A half matches a step if its known end suffices: as a point it represents the
# interval in every order relation of the step (``SeqPlan.starts``, ``SeqPlan.ends``). WITHIN
# applies to the known times. The other half completes it: the match with the half is retracted,
# and the match with the whole interval emitted, if it is a match.
#
# When not to use: if results must not be retracted, unless a barrier waits (REALTIME 0).


class TreeJudge(Judge):
    """Makes a match with a half wait for the other half.

    ``completes``: per scope of a completion, the step that the half matches.
    """

    completes: dict[int, int]

    def changes(self, facts: np.ndarray, rows: np.ndarray, doubts: np.ndarray) -> Changes | None:
        found = super().changes(facts, rows, doubts)
        if found is not None:
            half = self.store.columns[HALF_COLUMN]
            for scope, step in self.completes.items():
                mine = found.rows[:, step]
                # No promise releases it, only the other half or the end of the input.
                found.closes[(mine >= 0) & (half[mine] != WHOLE), scope] = FAR
        return found


class TreeMatcher(SeqMatcher):
    """Operator of a ``TreePlan``; see ``engine.operators.match.seq.SeqMatcher``."""

    state_fields = (*SeqMatcher.state_fields, "_waiting", "_halves")

    def __init__(
        self,
        plan: TreePlan,
        settings: PatternSettings | None = None,
        site: str = r.DEFAULT_SITE,
    ) -> None:
        settings = settings or PatternSettings()
        complete, starts, ends = completed(plan, check_joins(settings.joins))
        super().__init__(complete, settings, site)
        self._purges = False  # promises concern ends
        self.takes_halves = True
        self._waiting = Waiting()
        self._halves = 0
        steps, scopes = self._layout.steps, self._layout.tables.scopes["step"].tolist()
        place = self._layout.place
        self._completes = {
            number: place[step.alias]
            for number, scope in enumerate(scopes)
            if (step := completed_by(steps[scope], steps)) is not None
        }
        self._takes = {
            which: sum(1 << place for place, step in enumerate(steps) if step.alias in aliases)
            for which, aliases in ((START, starts), (END, ends))
        }

    def required_columns(self) -> set[str]:
        return super().required_columns() | {r.KIND, r.ID, ID_VALID}

    def counters(self) -> dict[str, int]:
        """Return ``halves``: records of halves; ``halves_waiting``: those waiting; and others."""
        more = {"halves": self._halves, "halves_waiting": self._waiting.n}
        return super().counters() | more

    def process(self, released: Released) -> Iterator[MatcherOutput]:
        released = with_halves(released)
        self._halves += int((released.columns[HALF_COLUMN] != WHOLE).sum())
        before = None
        if self._keep_ns is not None and released.moved is not None:
            before = np.maximum(released.moved.rows.horizon, -FAR) - self._keep_ns
        released = self._waiting.joined(released, before)
        yield from super().process(released)
        if self._keep_ns is not None:
            self._waiting.forget(self._horizon - self._keep_ns)

    def _members(self, released: Released) -> np.ndarray:
        """Return the steps of each row; a half matches only steps that accept such a half."""
        found = super()._members(released)
        half = released.columns[HALF_COLUMN]
        found[half == REPEATED] = 0
        for which, steps in self._takes.items():
            found[half == which] &= steps
        return found

    def _expiry(self, released: Released, member: np.ndarray) -> np.ndarray:
        """Return the expiry of each row: an interval lives as long as its end half would.

        K-iSlack counts from its begin instead (Z10 5.3.1).
        """
        found = super()._expiry(released, member)
        if self._keep_ns is None or self.settings.purge == "slack":
            return found
        return np.asarray(found + (released.columns["te"] - released.columns["ts"]))

    def _judge(self, store: Store) -> TreeJudge:
        return TreeJudge(self._layout, self._rule, store, self._strings, self._completes)

    def codes(self) -> np.ndarray | None:
        codes = super().codes()
        return None if codes is None else np.union1d(codes, self._waiting.codes())
