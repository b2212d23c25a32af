"""What a query asks of clocks and links, as numbers: orders, spans, windows."""

from __future__ import annotations

from dataclasses import dataclass

from engine.query.plan import Plan, WindowKind
from engine.query.shape import shape_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """``orders``: events of a match that must come one after another, counted as pairs next to one
    another. ``within_ns`` None: no bound.
    """

    name: str
    text: str
    kind: str
    events: int = 0
    orders: int = 0
    within_ns: int | None = None
    window_ns: int | None = None
    has_negation: bool = False

    @property
    def comparisons(self) -> int:
        """Pairs of event times that a match depends on: its orders, and its WITHIN."""
        return self.orders + (self.within_ns is not None and self.events > 1)


def asked_of(plan: Plan) -> Asked:
    """Of a pattern with OR: the branch with the most comparisons."""
    if plan.windows:
        window = plan.windows[0]
        if window.kind is WindowKind.SESSION:  # of two events it matters how far apart they are
            return Asked(
                name=plan.name, text=plan.text, kind="window", events=2, within_ns=window.size_ns
            )
        if window.kind is WindowKind.ROWS:  # at each end, which of two events is the earlier
            return Asked(name=plan.name, text=plan.text, kind="window", events=2, orders=2)
        return Asked(
            name=plan.name, text=plan.text, kind="window", window_ns=window.size_ns,
        )  # fmt: skip
    found = [_of_branch(plan, number) for number in range(len(plan.branches))]
    return max(found, key=lambda each: (each.comparisons, -(each.within_ns or 0)))


def _of_branch(plan: Plan, number: int) -> Asked:
    branch = plan.branches[number]
    shape = shape_of(branch)
    before = shape.before
    next_ones = [
        (x, y)
        for x, y in before
        if not any((x, z) in before and (z, y) in before for z in shape.positive)
    ]
    related = sum(each.left.alias != each.right.alias for each in branch.relations)
    return Asked(
        name=plan.name, text=plan.text, kind="pattern", events=len(shape.positive),
        orders=len(next_ones) + related, within_ns=branch.within_ns,
        has_negation=bool(shape.between),
    )  # fmt: skip
