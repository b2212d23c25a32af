"""Queries by name, as a scenario has them: each a statement or several, whichever read others."""

from __future__ import annotations

from collections.abc import Mapping

from engine.errors import UserError
from engine.query.analysis.cascade import read_statements
from engine.query.plan import Plan


def parse_queries(queries: Mapping[str, str]) -> tuple[Plan, ...]:
    """The plans of all statements, after those that they read.

    Args:
        queries: text by name; a statement that ``CREATE STREAM`` names has that name instead.

    Raises:
        UserError: one is at fault (``engine.query.analysis.cascade.StatementError``).
    """
    if not queries:
        return ()
    plans, explained = read_statements(list(queries.values()), names=list(queries))
    if explained:
        raise UserError("EXPLAIN asks for plans, which have no answer: leave it out")
    return plans
