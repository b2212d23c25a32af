"""ISEQ: the matcher of patterns whose steps are related by their end points (L10 5.3, 5.4).

It finds what ``engine.pattern.seq`` finds, with the same kernel; here is what IBPs add. An IBP
never changes a result: it tells, under ``purge=promises``, which intervals can be dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from edge_agent import records as r
from edge_agent.records import DEFAULT_SITE
from engine.barrier.base import MatcherOutput
from engine.interval.ibp_tracker import Announced
from engine.pattern.seq import SeqMatcher
from engine.pattern.settings import PatternSettings
from engine.query.endpoints.joins import IBP
from engine.query.plan import SeqPlan
from engine.stream.columns import Columns
from engine.stream.released import Released


class IseqMatcher(SeqMatcher):
    """Operator of an ISEQ.

    Args:
        plan: the query (``engine.query.shape.of_intervals``).
        settings: certainty, bounds, and how it is searched.
        site: named in results.
    """

    def __init__(
        self, plan: SeqPlan, settings: PatternSettings | None = None, site: str = DEFAULT_SITE
    ) -> None:
        super().__init__(plan, settings, site)
        self._listens = self.settings.purge == "promises" and self.settings.intervals == IBP
        kinds = [step.type for step in self._layout.steps]
        self._announced = Announced(kinds, self._within_ns)

    def required_columns(self) -> set[str]:
        """An interval's IBP is found by its ``id``."""
        more = {r.ID, r.INCARNATION} if self._listens else set()
        return super().required_columns() | more

    def begins(self, begun: Columns) -> None:
        """As ``engine.interval.ibp_tracker.Announced``."""
        if self._listens:
            self._announced.begins(begun)

    def process(self, released: Released) -> Iterator[MatcherOutput]:
        moved = released.moved
        if self._listens and moved is not None:
            heard = self._announced.before(released, moved.first, moved.rows.horizon)
            self._kernel.hear(heard.begun, heard.heard, heard.lost)
        return super().process(released)

    def counters(self) -> dict[str, int]:
        """Besides those of ``SeqMatcher``: ``dropped`` intervals were put in no stack as promises
        and IBPs left them no partner, ``cascaded`` ones lost theirs; ``ibp`` were heard, and
        ``unannounced`` intervals came whose IBP had not; ``ibp_late`` came when intervals may have
        been dropped for want of them; ``ibp_forgotten`` were too many with nothing released, and
        ended what is dropped by IBPs.
        """
        counts = super().counters() | self._kernel.dropped()
        if self._listens:
            counts |= {"ibp": self._announced.count, "unannounced": self._announced.missing}
            counts["ibp_late"] = self._announced.late
            counts["ibp_forgotten"] = self._announced.forgotten
        return counts

    def codes(self) -> np.ndarray | None:
        held = super().codes()
        return None if held is None else np.concatenate((held, self._announced.codes()))

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"announced": self._announced.snapshot()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._announced.restore(state["announced"])
