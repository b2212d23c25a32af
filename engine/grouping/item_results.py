"""Results of a dataflow, as columns: its items."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from engine.operator import Result, ResultColumns
from engine.results.schema import ITEM_FIELDS, ITEMS, POSITION, SHARED_FIELDS, one_of, same_for_all

_ORDER: Final = (POSITION, *SHARED_FIELDS, *ITEM_FIELDS)


class ItemColumns(NamedTuple):
    """Equally long. ``back``: taken back; ``at`` and ``ts`` in ns; ``seq`` with nulls; ``item``:
    structs or JSON texts.
    """

    back: np.ndarray
    at: pa.Array
    ts: pa.Array
    source: pa.Array
    seq: pa.Array
    item: pa.Array


class DerivedItems(ResultColumns):
    """Results of one query and site, of the kind ``items``."""

    kind = ITEMS

    def __init__(self, columns: ItemColumns, query: str, site: str) -> None:
        self.columns, self.query, self.site = columns, query, site

    @classmethod
    def tables(cls, pieces: Sequence[DerivedItems]) -> Iterator[pa.Table]:
        for piece in pieces:
            n = len(piece)
            columns = {
                **piece.columns._asdict(),
                POSITION: pa.array(np.arange(n)),
                "op": one_of(("+", "-"), piece.columns.back.astype(np.int32)),
                "query": same_for_all(piece.query, n),
                "site": same_for_all(piece.site, n),
            }
            yield pa.table({name: columns[name] for name in _ORDER})

    def __len__(self) -> int:
        return len(self.columns.at)

    def __iter__(self) -> Iterator[Result]:
        is_text = pa.types.is_string(self.columns.item.type)
        for table in self.tables([self]):
            for result in table.drop_columns(POSITION).to_pylist():
                if is_text:
                    result["item"] = json.loads(result["item"])
                yield result
