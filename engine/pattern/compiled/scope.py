"""The scope of a negated step while a query's tables are made."""

from __future__ import annotations

from msgspec import Struct

from engine.errors import UserError
from engine.pattern.compiled.relations import Related
from engine.query.plan import Attribute, Comparison, Logic, Predicate, SeqPlan
from engine.query.shape import Between, of_intervals


def after_first(plan: SeqPlan, between: Between) -> Predicate:
    """That the negated step begins after the first of some: no range of starts says so."""
    alias = [step.alias for step in plan.steps]
    mine = Attribute("ts", alias[between.step])
    terms = [Comparison("<", Attribute("ts", alias[x]), mine) for x in between.after_first]
    return Logic("or", tuple(terms))


class CompiledScope(Struct, frozen=True):
    """A negated step's scope: its row, the groups it is joined by, how its ends bound it."""

    number: int
    step: int
    groups: list[int]
    ends: list[Related]
    joined: bool

    def related(self, step: int) -> list[Related]:
        """How its event is related to a positive step that bounds it."""
        return [end for end in self.ends if step in (end.left, end.right)]

    @property
    def low(self) -> int | None:
        """The one step that bounds it below, if nothing but keys joins it with others."""
        return self._one(below=True)

    @property
    def high(self) -> int | None:
        return self._one(below=False)

    def _one(self, *, below: bool) -> int | None:
        lower = [end.left for end in self.ends if end.right == self.step]
        upper = [end.right for end in self.ends if end.left == self.step]
        if len(lower) != 1 or len(upper) != 1 or self.joined:
            return None
        return lower[0] if below else upper[0]


def check_negated(plan: SeqPlan) -> None:
    """Texts are checked before, with a caret (``engine.query``); this is for plans from Python."""
    if all(step.negated for step in plan.steps):
        raise UserError(f"query {plan.name!r}: every step is negated; leave one positive")
    if of_intervals(plan):
        return
    for end in (plan.steps[0], plan.steps[-1]):
        if end.negated and plan.within_ns is None:
            raise UserError(f"query {plan.name!r}: {end.alias!r} is negated at an end: add WITHIN")
