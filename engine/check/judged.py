"""Results that were held or marked, as columns of their kind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.operator import Result, ResultColumns
from engine.query.check_plan import DOUBTFUL
from engine.results.kinds import KINDS
from engine.results.schema import MORE


class JudgedResults(ResultColumns):
    """Results of one query and site as a table of their kind's schema."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    @classmethod
    def tables(cls, pieces: Sequence[Self]) -> Iterator[pa.Table]:
        return (piece.table for piece in pieces)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Result]:
        for lines in KINDS[self.kind].lines(self.table, 1):
            yield from map(json.loads, lines.to_pylist())


@cache
def judged_of(kind: str) -> type[JudgedResults]:
    """The class of those of a ``kind`` (``engine.results.kinds``)."""
    return type(f"Judged{kind.capitalize()}", (JudgedResults,), {"kind": kind})


def marked(
    table: pa.Table, at: np.ndarray, broken: np.ndarray, names: Sequence[str]
) -> pa.Table:  # fmt: skip
    """``table`` with results given ``at`` [ns], and the rules that they disagree with.

    Args:
        table: of one kind's schema, which has ``more``.
        at: int64 per result.
        broken: per result, bit i where it disagrees with ``names[i]``.
        names: of the rules.
    """
    table = table.set_column(table.schema.get_field_index("at"), "at", pa.array(at))
    if not broken.any():
        return table
    masks, which = np.unique(broken, return_inverse=True)
    told = pa.array([_told(int(mask), names) for mask in masks.tolist()], pa.string())
    texts = told.take(pa.array(which.reshape(-1)))
    place = table.schema.get_field_index(MORE)
    more = pc.fill_null(table.column(place), "{}").combine_chunks()
    inside = pc.utf8_slice_codeunits(more, 1, -1)
    comma = pc.if_else(pc.greater(pc.binary_length(inside), 0), ", ", "")
    whole = pc.binary_join_element_wise("{", inside, comma, texts, "}", "")
    found = pc.if_else(pa.array(broken != 0), whole, table.column(place).combine_chunks())
    return table.set_column(place, MORE, found)


def _told(mask: int, names: Sequence[str]) -> str:
    broken = [name for number, name in enumerate(names) if mask >> number & 1]
    return f'"{DOUBTFUL}": {json.dumps(broken, ensure_ascii=False)}'
