"""Trees of intervals on the pattern kernel, with halves of intervals (Z10 4 and 5).

``engine.query.analysis.spans`` has made relations of end points of the tree; here come the halves.
A half takes the place of a step as soon as what is known of it is enough: it stands for the
interval as a point, which says as much as the interval does of every order that the step needs
(``SeqPlan.starts``, ``SeqPlan.ends``). WITHIN counts what is known. The other half completes it:
the match with the half is taken back, and the one with the whole given, if it is one.

When not to use: results that must not be taken back, unless with a barrier that waits (REALTIME 0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from edge_agent import records as r
from edge_agent.records import DEFAULT_SITE
from engine.barrier.base import Happened
from engine.barrier.changes import Changes
from engine.interval.durable.completing import completed, completed_by
from engine.interval.durable.halves import (
    END,
    ID_VALID,
    REPEATED,
    START,
    WHOLE,
    Waiting,
    with_halves,
)
from engine.pattern.match_results import HALF_COLUMN
from engine.pattern.seq import SeqMatcher
from engine.pattern.settings import PatternSettings
from engine.query.endpoints.tree_joins import check_joins
from engine.query.plan import TreePlan
from engine.stream.released import Released
from engine.stream.timeline import Moved, Steps

_NEVER: Final = 2**62
"""No promise comes to this: only the other half, or the end of the input, lets such matches go."""


class TreeMatcher(SeqMatcher):
    """Operator of a ``TreePlan``; see ``engine.pattern.seq.SeqMatcher``."""

    def __init__(
        self,
        plan: TreePlan,
        settings: PatternSettings | None = None,
        site: str = DEFAULT_SITE,
    ) -> None:
        settings = settings or PatternSettings()
        complete, starts, ends = completed(plan, check_joins(settings.joins))
        super().__init__(complete, settings, site)
        self.takes_halves = True
        self._waiting = Waiting()
        self._halves = 0
        steps, scopes = self._layout.steps, self._layout.tables.scopes["step"].tolist()
        place = self._layout.place
        self._completes = {
            number: place[step.alias]
            for number, scope in enumerate(scopes)
            if (step := completed_by(steps[scope], steps)) is not None
        }
        """By scope of a half's completion, the step that the half is."""
        self._takes = {
            which: sum(1 << place for place, step in enumerate(steps) if step.alias in aliases)
            for which, aliases in ((START, starts), (END, ends))
        }

    def required_columns(self) -> set[str]:
        return super().required_columns() | {r.KIND, r.ID, ID_VALID}

    def counters(self) -> dict[str, int]:
        """``halves``: records of halves that came; ``halves_waiting``: that wait for the other."""
        more = {"halves": self._halves, "halves_waiting": self._waiting.n}
        return super().counters() | more

    def process(self, released: Released) -> Iterator[Happened]:
        released = with_halves(released)
        self._halves += int((released.columns[HALF_COLUMN] != WHOLE).sum())
        released = self._waiting.joined(released)
        yield from super().process(released)
        if self._keep_ns is not None:
            self._waiting.forget(self._horizon - self._keep_ns)

    def _members(self, released: Released) -> np.ndarray:
        """Halves can be those steps alone of which such a half is enough."""
        found = super()._members(released)
        half = released.columns[HALF_COLUMN]
        found[half == REPEATED] = 0
        for which, steps in self._takes.items():
            found[half == which] &= steps
        return found

    def _changes(
        self,
        released: Released,
        moved: Moved,
        promised: dict[str, Steps],  # noqa: ARG002
    ) -> Changes | None:
        # Promises are of ends, and the purge by promises asks when an event may still begin.
        found = super()._changes(released, moved, {})
        if found is None:
            return None
        half = self.table.columns[HALF_COLUMN]
        for scope, step in self._completes.items():
            rows = found.rows[:, step]
            waits = (rows >= 0) & (half[rows] != WHOLE)
            found.closes[waits, scope] = _NEVER
        return found

    def codes(self) -> np.ndarray | None:
        held = super().codes()
        return None if held is None else np.union1d(held, self._waiting.codes())

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"waiting": self._waiting.snapshot(), "halves": self._halves}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._waiting.restore(state["waiting"])
        self._halves = state["halves"]
