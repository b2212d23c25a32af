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
    for plan in plans:
        if checks_of(plan) is not None:
            from engine.check import Judging  # noqa: PLC0415 - for few runs

            return Judging(plans)
    return None


def counted(
    plans: Sequence[Plan], operators: Sequence[Operator], until_end: Sequence[dict[str, int]],
    judging: Judging | None,
) -> dict[str, dict[str, int]]:  # fmt: skip
    """What operators and checks counted, by the name of the query."""
    found = {}
    for number, plan in enumerate(plans):
        found[plan.name] = operators[number].counters() | until_end[number]
        if judging is not None:
            found[plan.name] |= judging.counters(number)
    return found
