"""Rows of an input that stands in no order, put into one before they count as arrived (``--sort``).

The whole input is held in memory for it. Rows of equal place keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from edge_agent import records as r
from engine.errors import UserError
from engine.log.grouped import ints
from engine.log.input.lines import CHUNK_LINES

SORTS: Final = (r.ARRIVAL, r.TS)
_FIELD: Final = "field."
_VALUE: Final = "value."
_PLACE: Final = "place"
Rows = tuple[dict[str, pa.Array], dict[str, pa.Array], np.ndarray]
"""Record fields, attributes, and each row's line number."""


class Sorter:
    """Gathers the rows of the input ``name`` and gives them sorted ``by`` arrival or event time.

    Sorted by ``ts``, rows arrive in the order of happening; one without ``ts`` stays behind the
    row that stood before it.

    Raises:
        UserError: it is neither; names what rows can be sorted by.
    """

    def __init__(self, name: str, by: str) -> None:
        if by not in SORTS:
            raise UserError(f"unknown --sort {by!r}; use {' or '.join(SORTS)}")
        self.name = name
        self.by = by
        self._tables: list[pa.Table] = []
        self._last_ts = 0

    def add(self, fields: dict[str, pa.Array], attrs: dict[str, pa.Array], place: np.ndarray,
            lines: np.ndarray) -> None:  # fmt: skip
        """Rows without faults; ``place``: when each arrived [ns], or came in the input.

        Raises:
            UserError: to be sorted by event time, though they say when they arrived.
        """
        if self.by == r.TS:
            if r.ARRIVAL in fields and fields[r.ARRIVAL].null_count < len(lines):
                line = lines[ints(fields[r.ARRIVAL])[1]][0]
                raise UserError(
                    f"{self.name}:{line}: says when it arrived; --sort ts is for inputs without "
                    '"arrival": give --sort arrival'
                )
            place = self._event_times(fields, len(lines))
        columns = {_FIELD + name: column for name, column in fields.items()}
        columns |= {_VALUE + name: column for name, column in attrs.items()}
        self._tables.append(pa.table(columns | {_PLACE: place}))

    def _event_times(self, fields: dict[str, pa.Array], rows: int) -> np.ndarray:
        values, given = ints(fields.get(r.TS, pa.nulls(rows, pa.int64())))
        at = np.maximum.accumulate(np.where(given, np.arange(rows), -1))
        place = np.where(at >= 0, values[np.maximum(at, 0)], self._last_ts)
        self._last_ts = int(place[-1])
        return place

    def sorted(self) -> Iterator[Rows]:
        """All rows in order, some at a time, numbered from 1."""
        if not self._tables:
            return
        whole = pa.concat_tables(self._tables, promote_options="permissive").unify_dictionaries()
        self._tables.clear()
        order = np.argsort(whole.column(_PLACE).to_numpy(), kind="stable")
        for start in range(0, len(order), CHUNK_LINES):
            part = whole.take(pa.array(order[start : start + CHUNK_LINES])).combine_chunks()
            columns = {name: _one(part.column(name)) for name in part.column_names}
            fields, attrs = (
                {
                    name.removeprefix(prefix): column
                    for name, column in columns.items()
                    if name.startswith(prefix)
                }
                for prefix in (_FIELD, _VALUE)
            )
            yield fields, attrs, np.arange(start, start + part.num_rows) + 1


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
