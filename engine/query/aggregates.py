"""Names of aggregates, and the order of groups by them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

AGGREGATES: Final = (
    "count", "sum", "avg", "min", "max", "stddev", "var", "median", "quantile", "first", "last",
    "min_by", "max_by",
)  # fmt: skip
_CASE: Final = "sum(CASE WHEN v > 3 THEN 1 ELSE 0 END)"
_FIRST: Final = "of the first 3 groups ORDER BY sum(v) DESC LIMIT 3; of a window's events first(v)"
_BEFORE: Final = "of two events one after the other: first(v), last(v) ... WINDOW ROWS 2 EVERY 1"
_DIFFERENT: Final = "count(DISTINCT v)"
_SHARE: Final = "quantile(v, 0.9)"
_TEXTS: Final = "values are not put together: first(v), last(v), count(DISTINCT v)"
ELSEWHERE: Final = {
    "distinctcount": _DIFFERENT, "approx_count_distinct": _DIFFERENT,
    "row_number": _FIRST, "rank": _FIRST, "dense_rank": _FIRST, "top": _FIRST,
    "lag": _BEFORE, "lead": _BEFORE, "prev": _BEFORE,
    "ifthenelse": _CASE, "if": _CASE, "iif": _CASE, "countif": _CASE, "count_if": _CASE,
    "percentile": _SHARE, "percentile_cont": _SHARE, "approx_percentile": _SHARE,
    "stddev_pop": "stddev(v), which divides by n", "stddev_samp": "stddev(v), which divides by n",
    "var_pop": "var(v), which divides by n", "var_samp": "var(v), which divides by n",
    "first_value": "first(v)", "firstever": "first(v)", "any_value": "first(v)",
    "last_value": "last(v)", "lastever": "last(v)", "countever": "count(v)",
    "mean": "avg(v)", "average": "avg(v)", "rate": "count(*) / 10, of a window of 10 s",
    "listagg": _TEXTS, "group_concat": _TEXTS, "string_agg": _TEXTS, "collect": _TEXTS,
    "array_agg": _TEXTS,
}  # fmt: skip
"""Aggregates of other systems, and what to write for them."""
TAKES_TEXT: Final = frozenset({"count", "count_distinct", "first", "last", "min_by", "max_by"})
"""Aggregates whose argument may be text; what ``min_by`` and ``max_by`` go by may not."""
COMPUTED: Final = "computed"
"""In place of a function: arithmetic of aggregates, as in ``max(v) - min(v)``."""


class Ranking(Struct, frozen=True):
    """``ORDER BY label [DESC], ... LIMIT limit``: of each window the results of the first
    ``limit`` groups, by the aggregates of these ``labels``, the largest first where
    ``descending``. Null comes last; of equal ones the group with the smaller key comes first.
    """

    labels: tuple[str, ...]
    descending: tuple[bool, ...]
    limit: int
