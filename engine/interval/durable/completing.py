"""A tree's plan with what its halves ask: each step that takes half an interval gets a negated
step, which is the whole of that interval.

So the pattern kernel needs to know nothing of halves: a match with a half is invalidated by the
event that completes the half, and the completed event makes a match of its own, if it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final

from msgspec.structs import replace

from engine.interval.durable.halves import WHOLE, half_of, id_of
from engine.pattern.compiled.tables import SamePlan
from engine.query.plan import (
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

_WHOLE: Final = "\0whole"
"""No query can write such a name."""
STEPS_MAX: Final = 62
"""An event says in so many bits which steps it can be."""


def takes_halves(plan: TreePlan) -> tuple[set[str], set[str]]:
    """Steps, positive ones and others, of which the start (the end) is enough in every branch."""

    def everywhere(which: str) -> set[str]:
        aliases = {step.alias for step in plan.steps}
        for branch in plan.branches:
            own = {step.alias for step in branch.steps}
            aliases -= own - set(getattr(branch, which))
        return aliases

    return everywhere("starts"), everywhere("ends")


def completed(plan: TreePlan, joins: str) -> tuple[TreePlan, set[str], set[str]]:
    """``with_completions``; the same plan for each of a run's sites."""
    return _completed(SamePlan(plan), joins)


@lru_cache(maxsize=64)
def _completed(key: SamePlan[TreePlan], joins: str) -> tuple[TreePlan, set[str], set[str]]:
    found, starts, ends = with_completions(key.plan)
    branches = tuple(replace(branch, joins=joins) for branch in found.branches)
    return replace(found, branches=branches), starts, ends


def with_completions(plan: TreePlan) -> tuple[TreePlan, set[str], set[str]]:
    """The plan for the kernel, and the steps that take start halves and end halves.

    Where there are too many steps for that, no positive step takes halves.
    """
    starts, ends = takes_halves(plan)
    some = [step for step in plan.steps if not step.negated and step.alias in starts | ends]
    if len(plan.steps) + len(some) > STEPS_MAX:
        positive = {step.alias for step in plan.steps if not step.negated}
        return plan, starts - positive, ends - positive
    whole = {step.alias: _whole_of(step) for step in some}
    branches = tuple(_completing(branch, whole) for branch in plan.branches)
    return replace(plan, steps=(*plan.steps, *whole.values()), branches=branches), starts, ends


def completed_by(step: Step, steps: Sequence[Step]) -> Step | None:
    """The step of ``steps`` whose half ``step`` completes; None: it is one of the query."""
    if not step.alias.endswith(_WHOLE):
        return None
    return next(each for each in steps if each.alias + _WHOLE == step.alias)


def _whole_of(step: Step) -> Step:
    alias = step.alias + _WHOLE
    return Step(alias, step.type, negated=True, where=_is(alias, WHOLE))


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
        # What a match is made of does not stand against it, nor does a half of that.
        same = [step for step in positive if step.type == absent.type]
        others += [_apart(step.alias, absent.alias) for step in same]
    return replace(
        branch, steps=tuple(steps), scopes=tuple(scopes), equalities=tuple(equalities),
        others=tuple(others),
    )  # fmt: skip


def _same_source(one: str, two: str) -> Predicate:
    return Comparison("=", Attribute("source", one), Attribute("source", two))


def _apart(one: str, two: str, *unless: Predicate) -> Predicate:
    """That two events are not of one interval; ``unless``: it is no matter if they are."""
    both = Comparison("=", id_of(one), id_of(two)), _same_source(one, two)
    return Logic("not", (Logic("and", (*both, *unless)),))


def _half(alias: str) -> Predicate:
    return Comparison(">", half_of(alias), Constant(WHOLE))
