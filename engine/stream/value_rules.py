"""Which values a record may hold: the one rule of every door.

Doors are the gateway, traces (JSONL), CSV, Parquet, the DataFrame step and the arrival log. What
one of them lets in, the chain must be able to answer at every replay, so the doors may
differ in what they say and never in what they let in:

* **Times and durations** within ``RANGES`` (ns) are taken as they are; others are *refused*.
* **Counts** (numbers, incarnations, first numbers) lie in [0, COUNTER_MAX].
* **Fractions**: NaN means "no such attribute" and becomes null, as that is what who writes it
  wants to say; an infinite value is *refused*, since no sum or mean survives it.
* **Types**: an attribute is a number, a text or a truth value throughout a site. Whole numbers
  and fractions mix and the attribute is a fraction then; any other mixture is *refused*.

Inside the chain only uncertainties grow: they *saturate* at ``UNC_MAX_NS``
(``engine.order.sequence.merge.reference``). With the ranges above, every sum of a time, an offset,
two uncertainties and a duration fits into 64 bits (``edge_agent.limits``).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edge_agent import limits
from edge_agent import records as r

RANGES: Final[dict[str, tuple[int, int, str]]] = {
    r.TS: (-limits.TIME_MAX_NS, limits.TIME_MAX_NS, "146 years"),
    r.TE: (-limits.TIME_MAX_NS, limits.TIME_MAX_NS, "146 years"),
    r.ARRIVAL: (-limits.TIME_MAX_NS, limits.TIME_MAX_NS, "146 years"),
    r.OFFSET: (-limits.OFFSET_MAX_NS, limits.OFFSET_MAX_NS, "73 years"),
    r.DELAY: (0, limits.DELAY_MAX_NS, "9 years"),
    r.PRECISION: (0, limits.PRECISION_MAX_NS, "4 years"),
}
"""Least and greatest value [ns] of each field that is a time, and the greatest in words."""
COUNTS: Final[dict[str, int]] = {
    r.SEQ: limits.COUNTER_MAX,
    r.INCARNATION: limits.COUNTER_MAX,
    r.FIRST_SEQ: limits.COUNTER_MAX,
    r.SKEW_ERROR_PPB: limits.SKEW_ERROR_MAX_PPB,
}
"""Greatest value of each field that counts; the least is 0."""


LIMITS: Final = {
    **{field: (low, high) for field, (low, high, _) in RANGES.items()},
    **{field: (0, most) for field, most in COUNTS.items()},
}
"""Least and greatest value of each field that has some."""


def beyond(field: str, values: np.ndarray, unit_ns: int = 1) -> np.ndarray:
    """Where ``values`` (int64; of a time in units of ``unit_ns``) lie outside ``field``'s range."""
    low, high = LIMITS[field]
    if field in RANGES:
        low, high = -(-low // unit_ns), high // unit_ns
    return np.asarray((values < low) | (values > high))


def without_nan(column: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """A float column with null for NaN, and where it is infinite (bool per row)."""
    infinite = pc.fill_null(pc.is_inf(column), fill_value=False)
    if pc.any(pc.is_nan(column)).as_py():
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return column, np.asarray(infinite.to_numpy(zero_copy_only=False))


def joined_type(known: str | None, found: str) -> str | None:
    """The type of an attribute that was ``known`` (None: new) and now is ``found``.

    Types are ``int float bool str``. None: they do not go together, which is refused.
    """
    if known is None or known == found:
        return found
    return "float" if {known, found} == {"int", "float"} else None
