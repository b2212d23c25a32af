"""Aggregates that HAVING and ORDER BY name and results do not show.

They are numbers of results until these are judged, and then left out. What is taken back and given
again with other hidden numbers alone is no correction: nobody could tell the two apart.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from engine.query.fields import attributes_in
from engine.query.plan import WindowPlan
from engine.window.held.content import NUMBERS
from engine.window.told import Outbox


def judged_plan(plan: WindowPlan) -> WindowPlan:
    """``plan`` with the aggregates that it judges by among those in results, behind its own."""
    names = {one.name for one in attributes_in(plan.having)}
    if plan.ranking is not None:
        names |= set(plan.ranking.labels)
    names -= {one.label for one in plan.aggregates}
    if not names:
        return plan
    judging = tuple(one for one in plan.hidden if one.label in names)
    rest = tuple(one for one in plan.hidden if one.label not in names)
    return replace(plan, aggregates=plan.aggregates + judging, hidden=rest)


def shown_numbers(plan: WindowPlan, judged: WindowPlan, behind: int) -> np.ndarray | None:
    """The places of the numbers that results of ``plan`` have, among those of ``judged``.

    Args:
        plan: of the query.
        judged: as of ``judged_plan``.
        behind: how many columns of numbers results have behind those of their aggregates.

    Returns:
        None: all of them.
    """
    if judged is plan:
        return None
    own, whole = len(plan.aggregates), len(judged.aggregates)
    return np.concatenate(
        [np.arange(own * NUMBERS), np.arange(whole * NUMBERS, (whole + behind) * NUMBERS)]
    )


def without_hidden(outbox: Outbox, numbers: np.ndarray | None) -> Outbox:
    """``outbox``, in words, with these ``numbers`` alone; None: all."""
    if numbers is None:
        return outbox
    return outbox._replace(kinds=outbox.kinds[:, numbers], words=outbox.words[:, numbers])
