"""The one order of all end points that a plan asks for, if it asks for one (Z10 5.2, 5.3.1)."""

from __future__ import annotations

from engine.query.endpoints.order import LESS
from engine.query.plan import SeqPlan
from engine.query.shape import endpoint_order


def series_of(plan: SeqPlan) -> dict[str, tuple[int, int]] | None:
    """By alias of each positive step the ranks of its start and its end; None: the relations of
    ``plan`` leave an order open. Intervals are taken to be longer than 0.

    >>> from engine.query import query
    >>> (plan,) = query("EVENT SEQ(A OVERLAP B BEFORE C) WITHIN 10").branches
    >>> series_of(plan)
    {'A': (0, 2), 'B': (1, 3), 'C': (4, 5)}
    """
    reach = endpoint_order(plan)
    positive = [n for n, step in enumerate(plan.steps) if not step.negated]
    points = [point for n in positive for point in (2 * n, 2 * n + 1)]

    def below(p: int, q: int) -> bool:
        return bool(reach[p, q] == LESS) or (p + 1 == q and p % 2 == 0)

    for p in points:
        for q in points:
            equal = reach[p, q] and reach[q, p]
            if p < q and not (below(p, q) or below(q, p) or equal):
                return None
    firsts = [p for p in points if not any(q < p and reach[p, q] and reach[q, p] for q in points)]
    rank = {p: sum(below(q, p) for q in firsts) for p in points}
    return {plan.steps[n].alias: (rank[2 * n], rank[2 * n + 1]) for n in positive}
