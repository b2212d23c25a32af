"""Which attributes a pattern's conditions ask to be equal in all of its steps."""

from __future__ import annotations

from collections.abc import Iterator

from engine.query.clocked import is_clocked
from engine.query.plan import Attribute, Comparison, Predicate
from engine.query.repeat_plan import EACH, Contiguity, RepeatPlan, step_and_role


def partitioned(plan: RepeatPlan) -> tuple[tuple[str, ...], tuple[Predicate, ...]]:
    """The attributes by which events are told apart first, and the conditions that are left.

    Besides those of PARTITION BY an attribute that WHERE asks to be equal in all steps; but for
    STRICT, which looks at the events of other partitions, too.
    """
    if plan.contiguity is Contiguity.STRICT or len(plan.steps) < 2:
        return plan.partition, plan.others
    return _equal_everywhere(plan)


def _equal_everywhere(plan: RepeatPlan) -> tuple[tuple[str, ...], tuple[Predicate, ...]]:
    """PARTITION BY's attributes and those that WHERE equates in every step, and what else it asks.

    Steps that must occur hold together what is equal; one that may be missing or is negated must
    be equal to one of those, as it may not be there to stand between two others.
    """
    needed = {
        step.alias for step, often in zip(plan.steps, plan.often, strict=True)
        if not step.negated and often.least
    }  # fmt: skip
    found, left = list(plan.partition), list(plan.others)
    for name in dict.fromkeys(name for name, _, _ in _equal(plan.others)):
        pairs = [pair for other, *pair in _equal(plan.others) if other == name]
        reached = {next(iter(sorted(needed)))}
        for _ in pairs:
            for one, two in pairs:
                if {one, two} <= needed and {one, two} & reached:
                    reached |= {one, two}
        if reached != needed:
            continue
        for step in plan.steps:
            if any(step.alias in pair and set(pair) & needed for pair in pairs):
                reached.add(step.alias)
        if reached == {step.alias for step in plan.steps}:
            found += [name] if name not in found else []
            left = [other for other in left if not any(n == name for n, _, _ in _equal((other,)))]
    return tuple(found), tuple(left)


def _equal(others: tuple[Predicate, ...]) -> Iterator[tuple[str, str, str]]:
    """What ``others`` ask to be equal: an attribute, and the aliases of two steps."""
    for other in others:
        match other:
            case Comparison(op="=", left=Attribute() as left, right=Attribute() as right):
                one, role = step_and_role(left.alias)
                two, its = step_and_role(right.alias)
                plain = {role, its} <= {"", EACH}
                if left.name == right.name and one != two and plain and not is_clocked(other):
                    yield left.name, one, two
