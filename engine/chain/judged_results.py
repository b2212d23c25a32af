"""What a chain has of checks: who judges its results, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.operator import Operator
from engine.query.check_plan import checks_of
from engine.query.plan import Plan

if TYPE_CHECKING:
    from engine.check import Judging


def judging_of(plans: Sequence[Plan]) -> Judging | None:
    """Who judges the results of ``plans``; None: none of them has checks.

    Raises:
        UserError: a rule asks for the history of a query that is not among them.
    """
    if all(checks_of(plan) is None for plan in plans):
        return None
    from engine.check import Judging  # noqa: PLC0415 - for few runs

    return Judging(plans)


def counted(
    plans: Sequence[Plan], operators: Sequence[Operator], judging: Judging | None
) -> dict[str, dict[str, int]]:
    """What operators and checks counted, by the name of the query."""
    found = {plan.name: op.counters() for plan, op in zip(plans, operators, strict=True)}
    if judging is not None:
        for number, plan in enumerate(plans):
            found[plan.name] |= judging.counters(number)
    return found
