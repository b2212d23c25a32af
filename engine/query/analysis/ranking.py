"""ORDER BY ... LIMIT k: which of a window's groups are shown."""

from __future__ import annotations

from typing import Final

from engine.query.aggregates import Ranking
from engine.query.analysis.extent import Window
from engine.query.analysis.judging import JudgingAggregates
from engine.query.language import syntax as s
from engine.query.language.ranking import OrderBy
from engine.query.plan import Attribute

_OF_ONE_GROUP: Final = {s.SessionWindow: "SESSION", s.CountWindow: "ROWS"}
_LIMIT_MAX: Final = 1 << 24


def ranking_of(
    clause: OrderBy,
    aggregates: JudgingAggregates,
    window: Window,
    group_by: tuple[Attribute, ...],
) -> Ranking:
    """The ranking of ``clause``, by ``aggregates``.

    Raises:
        UserError: it names anything but aggregates, or a window has no groups to be ranked.
    """
    context = aggregates.context
    kind = _OF_ONE_GROUP.get(type(window))
    if kind is not None:
        message = f"ORDER BY ranks the groups of one window, and one of {kind} has one group alone"
        raise context.refuse(clause.at, message, "use TUMBLING or SLIDING, or leave it out")
    if not group_by:
        message = "ORDER BY ranks the groups of a window, and there is one group"
        raise context.refuse(clause.at, message, "add GROUP BY, or leave it out")
    limit = clause.limit
    if not limit.text.isdecimal() or not 1 <= int(limit.text[:20]) <= _LIMIT_MAX:
        message = f"LIMIT is a whole number from 1 to {_LIMIT_MAX}"
        raise context.refuse(limit.at, message, "as in ORDER BY count(*) DESC LIMIT 5")
    labels: list[str] = []
    for entry in clause.entries:
        node = entry.node
        if not isinstance(node, s.Call | s.Reference):
            message = "ORDER BY takes aggregates, and no arithmetic of them"
            raise context.refuse(node.at, message, "select it under a name, and ORDER BY this")
        label = aggregates.label(node, "ORDER BY")
        if label in labels:
            raise context.refuse(node.at, "this is ordered by twice", "keep one of them")
        labels.append(label)
    return Ranking(tuple(labels), tuple(one.descending for one in clause.entries), int(limit.text))
