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

# The plan of a pattern whose steps repeat, or of whose matches only some are asked for.
#
# What a condition says of a step that repeats is an attribute whose alias ends in a role: which of
# the step's events is meant, or what is made of all of them.


ROLE: Final = "\1"
"""Between an alias and a role; no query can write such a name."""
EACH: Final = "i"
"""Roles: the condition applies to each event,"""
BEFORE: Final = "i-1"
"""the event of the step before that one,"""
FIRST: Final = "first"
LAST: Final = "last"
COUNT: Final = "count"
COLLECTED: Final = ("count", "sum", "avg", "min", "max")
"""and what is made of them all."""


def with_role(alias: str, role: str) -> str:
    """The alias of that role."""
    return f"{alias}{ROLE}{role}"


def step_and_role(alias: str | None) -> tuple[str, str]:
    """A step's alias, and the role behind it; empty: the event itself."""
    step, _, role = str(alias).partition(ROLE)
    return step, role


class Contiguity(StrEnum):
    """What may lie between two neighbours of a match, besides what a negated step forbids."""

    ANY = "any"
    """Anything (skip till any match)."""
    NEXT = "next"
    """Nothing that could have been the later one's in its place (skip till next match)."""
    STRICT = "strict"
    """Nothing of their partition (strict contiguity; with PARTITION BY partition contiguity)."""


class Skip(StrEnum):
    """Which matches are left out because of another one of their partition."""

    NONE = ""
    PAST_LAST = "past last event"
    """Those that begin before it has ended."""
    TO_NEXT = "to next"
    """Those that begin with the same event."""


TIMES: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
"""Signs for: at least and at most so many times."""


class Often(Struct, frozen=True):
    """How often a step occurs: ``least`` to ``most`` times (None: any number). ``until``: an event
    of which this holds (attributes have the step's alias) ends it, and is none of the step's.
    """

    least: int = 1
    most: int | None = 1
    until: Predicate | None = None

    @property
    def repeats(self) -> bool:
        """Whether it may have several events."""
        return self.most != 1


class RepeatPlan(SeqPlan, frozen=True):
    """``EVENT SEQ(A a, B+ b[], C c) ...``: a ``SeqPlan`` whose ``pattern`` is None, and more.

    ``often``: by step. ``partition``: attributes that split events first: all events of a
    match are in one partition. ``others``: aliases may have roles. ``limit``: of the matches
    with the same last event so many, the earliest; None: all. ``sources``: the streams that it is
    asked of; empty: all.
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
        """Whether the matches may double with each event of a step."""
        repeats = any(often.most is None or often.most > 2 for often in self.often)
        return repeats and self.contiguity is Contiguity.ANY and not self.chooses

    @property
    def chooses(self) -> bool:
        """Whether a match may be left out because of another one."""
        return self.skip is not Skip.NONE or self.limit is not None

    @property
    def ambiguous(self) -> bool:
        """Whether the same events may be its steps in several ways: two steps vary, and one event
        may be either of two steps between which none must occur.
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
        """Whether a result says which of its events are which step."""
        return bool(self.computed or self.returns)


def as_repetition(plan: object) -> RepeatPlan | None:
    """``plan``, if its steps repeat."""
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
    """Whether events that are no part of a match of ``plan``, of any source, may rule it out."""
    if isinstance(plan, RepeatPlan):
        if "source" in plan.partition:
            return False
        until = any(often.until for often in plan.often)
        if plan.contiguity is not Contiguity.ANY or plan.chooses or until:
            return True
    negated = {step.alias for step in plan.steps if step.negated}
    return bool(negated) and not negated <= _tied(plan)


def _tied(plan: SeqPlan) -> set[str]:
    """Steps whose source must be that of another one."""
    pairs = [[a for a in group if a.name == "source"] for group in plan.equalities]
    for other in plan.others:
        match other:
            case Comparison(op="=", left=Attribute(name="source") as one,
                            right=Attribute(name="source") as two):  # fmt: skip
                pairs.append([one, two])
    return {step_and_role(each.alias)[0] for pair in pairs if len(pair) > 1 for each in pair}


# Which attributes a pattern's conditions ask to be equal in all of its steps.


def partitioned(plan: RepeatPlan) -> tuple[tuple[str, ...], tuple[Predicate, ...]]:
    """The attributes that partition events, and the remaining conditions.

    Besides those of PARTITION BY an attribute that WHERE asks to be equal in all steps; but for
    STRICT, which looks at the events of other partitions, too.
    """
    if plan.contiguity is Contiguity.STRICT or len(plan.steps) < 2:
        return plan.partition, plan.others
    # Steps that must occur hold together what is equal; one that may be missing or is negated must
    # be equal to one of those, as it may not be there to stand between two others.
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
