"""Plan of a pattern with repeated steps or a limited choice of matches."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import combinations
from typing import Final

from msgspec import Struct

from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.query.clock_sensitivity import is_clocked
from slackwater.engine.query.fields import attributes_in, attributes_of
from slackwater.engine.query.plan import Attribute, Comparison, Predicate, SeqPlan, Step

# The plan of a pattern with repeated steps or a restricted choice of matches.
#
# A condition on a repeated step uses an attribute whose alias ends with a role: one of the step's
# events, or an aggregate over all of them.


ROLE: Final = "\1"
"""Separates alias and role; no query can contain such a name."""
EACH: Final = "i"
"""Role: each event of the step."""
BEFORE: Final = "i-1"
"""Role: the event of the step before the current one."""
FIRST: Final = "first"
LAST: Final = "last"
COUNT: Final = "count"
COLLECTED: Final = ("count", "sum", "avg", "min", "max")
"""Roles: aggregates over all events of the step."""


def with_role(alias: str, role: str) -> str:
    """Return the alias with a role."""
    return f"{alias}{ROLE}{role}"


def step_and_role(alias: str | None) -> tuple[str, str]:
    """Return a step's alias and its role; an empty role is the event itself."""
    step, _, role = str(alias).partition(ROLE)
    return step, role


class Contiguity(StrEnum):
    """Events allowed between two neighbours of a match, in addition to negated steps."""

    ANY = "any"
    """Any events (skip till any match)."""
    NEXT = "next"
    """No event that could match in place of the later neighbour (skip till next match)."""
    STRICT = "strict"
    """No event of the partition (strict contiguity; with PARTITION BY partition contiguity)."""


class Skip(StrEnum):
    """Matches that are dropped because of another match of their partition."""

    NONE = ""
    PAST_LAST = "past last event"
    """Matches that begin before the other one has ended."""
    TO_NEXT = "to next"
    """Matches that begin with the same event."""


TIMES: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
"""Least and most repetitions, by sign."""


class Often(Struct, frozen=True):
    """Repetitions of a step: ``least`` to ``most`` (None: unbounded).

    ``until``: an event that satisfies it (attributes have the step's alias) ends the repetition and
    does not belong to the step.
    """

    least: int = 1
    most: int | None = 1
    until: Predicate | None = None

    @property
    def repeats(self) -> bool:
        """Whether the step may have several events."""
        return self.most != 1


class RepeatPlan(SeqPlan, frozen=True):
    """``EVENT SEQ(A a, B+ b[], C c) ...``: a ``SeqPlan`` without ``pattern``, with repetition.

    ``often``: by step. ``partition``: attributes that partition events; a match is in one
    partition. ``others``: aliases may have roles. ``limit``: number of matches with the same last
    event, earliest first; None: all. ``sources``: the streams that it reads; empty: all.
    """

    often: tuple[Often, ...] = ()
    partition: tuple[str, ...] = ()
    contiguity: Contiguity = Contiguity.ANY
    skip: Skip = Skip.NONE
    limit: int | None = None
    sources: tuple[str, ...] = ()

    @property
    def needed_types(self) -> set[str]:
        steps = zip(self.steps, self.often, strict=True)
        return {step.type for step, often in steps if not step.negated and often.least > 0}

    @property
    def alone(self) -> bool:
        return False

    @property
    def unbounded(self) -> bool:
        """Whether the number of matches may double with each event of a step."""
        repeats = any(often.most is None or often.most > 2 for often in self.often)
        return repeats and self.contiguity is Contiguity.ANY and not self.chooses

    @property
    def chooses(self) -> bool:
        """Whether a match may be dropped because of another one."""
        return self.skip is not Skip.NONE or self.limit is not None

    @property
    def ambiguous(self) -> bool:
        """Whether the same events may match the steps in several ways: two steps have a variable
        number of events, and one event fits two steps with only optional steps between them.
        """
        steps = [
            (step, often) for step, often in zip(self.steps, self.often, strict=True)
            if not step.negated
        ]  # fmt: skip
        if sum(often.least != often.most for _, often in steps) < 2:
            return False
        return any(
            _share_type(steps[one][0], steps[two][0])
            and not any(often.least for _, often in steps[one + 1 : two])
            for one, two in combinations(range(len(steps)), 2)
        )

    @property
    def shows_steps(self) -> bool:
        """Whether a result shows which events belong to which step."""
        return bool(self.computed or self.returns)


def as_repetition(plan: object) -> RepeatPlan | None:
    """Return ``plan`` if its steps repeat, else None."""
    return plan if isinstance(plan, RepeatPlan) else None


def _share_type(one: Step, two: Step) -> bool:
    kinds = [set(step.types or (step.type,)) for step in (one, two)]
    return any(kind == {ANY_TYPE} for kind in kinds) or not kinds[0].isdisjoint(kinds[1])


@attributes_of.register
def _of_repetition(plan: RepeatPlan) -> Iterator[Attribute]:
    yield from attributes_of.dispatch(SeqPlan)(plan)
    for often in plan.often:
        yield from attributes_in(often.until)
    yield from (Attribute(name) for name in plan.partition)


def compares_others(plan: SeqPlan) -> bool:
    """Whether events of any source outside a match of ``plan`` may invalidate it."""
    if isinstance(plan, RepeatPlan):
        if "source" in plan.partition:
            return False
        until = any(often.until for often in plan.often)
        if plan.contiguity is not Contiguity.ANY or plan.chooses or until:
            return True
    negated = {step.alias for step in plan.steps if step.negated}
    return bool(negated) and not negated <= _tied(plan)


def _tied(plan: SeqPlan) -> set[str]:
    """Return the steps whose source must equal that of another step."""
    pairs = [[a for a in group if a.name == "source"] for group in plan.equalities]
    for other in plan.others:
        match other:
            case Comparison(op="=", left=Attribute(name="source") as one,
                            right=Attribute(name="source") as two):  # fmt: skip
                pairs.append([one, two])
    return {step_and_role(each.alias)[0] for pair in pairs if len(pair) > 1 for each in pair}


# Attributes that conditions require to be equal in all steps of a pattern.


def partitioned(plan: RepeatPlan) -> tuple[tuple[str, ...], tuple[Predicate, ...]]:
    """Return the attributes that partition events, and the remaining conditions.

    In addition to PARTITION BY these are attributes that WHERE requires to be equal in all steps,
    except with STRICT, which considers events of other partitions, too.
    """
    if plan.contiguity is Contiguity.STRICT or len(plan.steps) < 2:
        return plan.partition, plan.others
    # Required steps must be connected by equalities; an optional or negated step must equal a
    # required one, as it may be absent and cannot connect others.
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
    """Yield the equalities in ``others``: an attribute, and the aliases of two steps."""
    for other in others:
        match other:
            case Comparison(op="=", left=Attribute() as left, right=Attribute() as right):
                one, role = step_and_role(left.alias)
                two, its = step_and_role(right.alias)
                plain = {role, its} <= {"", EACH}
                if left.name == right.name and one != two and plain and not is_clocked(other):
                    yield left.name, one, two
