"""Our matcher with its stacks exchanged for those that assume total order (L10 Figure 4.9).

All else is the same: which step an event is of, the store, the barrier, the results. So the two
differ by their stacks: ours are ready for disorder, and serve every query besides.
"""

from __future__ import annotations

import numpy as np

from engine.errors import ContractViolation
from engine.pattern.search.construction import FOUND
from engine.pattern.search.kernel import Kernel
from engine.pattern.search.scopes import DOUBT
from engine.pattern.seq import SeqMatcher
from engine.pattern.settings import PatternSettings
from engine.pattern.store import MEMBER, Store
from engine.query.plan import SeqPlan
from engine.stream.clock_bound import ClockBound
from engine.stream.released import Strings
from engine.stream.timeline import Steps
from scenarios.papers.l10.ch4.in_order_stacks import in_order_matches


class InOrderMatcher(SeqMatcher):
    """For one batch that holds the whole stream, in total order, by clocks that do not err.

    Args:
        plan: positive steps of different types, without predicates, with WITHIN.
        settings: as the other matcher's.
    """

    def __init__(self, plan: SeqPlan, settings: PatternSettings) -> None:
        super().__init__(plan, settings)
        self._kernel = _InOrderKernel(plan)


class _InOrderKernel(Kernel):
    """Keeps nothing from batch to batch, so there is nothing to rename or to count either."""

    def __init__(self, plan: SeqPlan) -> None:
        self._steps = len(plan.steps)
        self._within_ns = plan.within_ns or 0

    def renumber(self, number: np.ndarray, store: Store) -> None:
        """See the class."""

    def counters(self) -> dict[str, int]:
        """See the class."""
        return {}

    def count_on(self, bound: ClockBound, t_a: int) -> None:
        """Its clocks are exact, and it purges nothing."""

    def construct(
        self, store: Store, first: int, strings: Strings, promised: dict[str, Steps],
        stop: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """As ``Kernel.construct``, of all rows at once."""
        del strings, promised, stop
        if first:
            raise ContractViolation("stacks in total order: one batch must hold the whole stream")
        ref, member = (store.columns[name][: store.n] for name in ("ref", MEMBER))
        step = np.frexp(member.astype(np.float64))[1].astype(np.int64) - 1
        rows = in_order_matches(ref, step, self._steps, self._within_ns)
        found = np.zeros(len(rows), FOUND)
        found["cause"] = found["completing"] = rows[:, -1]
        for fact in ("new", "stands", "sure"):
            found[fact] = 1
        return found, rows, np.empty(0, DOUBT)
