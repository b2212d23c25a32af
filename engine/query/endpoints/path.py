"""Which end points of an ISEQ an index serves: a longest chain of them (L10 5.3.2, 5.4.1)."""

from __future__ import annotations

from typing import Final

from engine.errors import UserError
from engine.query.endpoints.order import longest_path
from engine.query.plan import SeqPlan
from engine.query.shape import endpoint_order, shape_of

NAIVE: Final = "naive"
INDEXED: Final = "indexed"
IBP: Final = "ibp"
INDEXES: Final = (NAIVE, INDEXED, IBP)
"""How an ISEQ is searched: every event is tested; by ends; by starts too. The same results."""


def check_index(text: str) -> str:
    """``text``, if it names an index.

    Raises:
        UserError: it does not.
    """
    if text not in INDEXES:
        raise UserError(f"intervals {text!r}: use {', '.join(INDEXES)}")
    return text


def indexed_path(plan: SeqPlan, index: str) -> list[int]:
    """The end points that an index serves (``engine.query.endpoints.order``), in order of time.

    Intervals come in the order of their ends; only IBPs have their starts come in order too.
    """
    if index == NAIVE:
        return []
    ends = [2 * step + 1 for step in shape_of(plan).positive]
    points = ends if index == INDEXED else [*ends, *(point - 1 for point in ends)]
    path = longest_path(endpoint_order(plan), points)
    return path if len({point // 2 for point in path}) > 1 else []
