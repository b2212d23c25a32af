"""Names of aggregates, and the order of groups by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

AGGREGATES: Final = (
    "count", "sum", "avg", "min", "max", "stddev", "var", "median", "quantile", "first", "last",
    "min_by", "max_by",
)  # fmt: skip
TAKES_TEXT: Final = frozenset({"count", "count_distinct", "first", "last", "min_by", "max_by"})
"""Aggregates whose argument may be text; what ``min_by`` and ``max_by`` go by may not."""
COMPUTED: Final = "computed"
"""In place of a function: arithmetic of aggregates, as in ``max(v) - min(v)``."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """``ORDER BY label [DESC], ... LIMIT limit``: of each window the results of the first
    ``limit`` groups, by the aggregates of these ``labels``, the largest first where
    ``descending``. Null comes last; of equal ones the group with the smaller key comes first.
    """

    labels: tuple[str, ...]
    descending: tuple[bool, ...]
    limit: int
