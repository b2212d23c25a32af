"""Results of a monitored pattern, as columns: alerts, what is cleared, and violations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from engine.operator import Result, ResultColumns
from engine.results.schema import (
    ALERT_FIELDS,
    ALERTS,
    POSITION,
    SHARED_FIELDS,
    one_of,
    same_for_all,
)

_ORDER: Final = (POSITION, *SHARED_FIELDS, *ALERT_FIELDS)
CERTAINTIES: Final = ("confirmed", "uncertain")


class AlertColumns(NamedTuple):
    """Equally long; texts as Arrow arrays, ``at`` and ``ts`` in ns, ``seq`` with nulls."""

    at: pa.Array
    alert: pa.Array
    trace: pa.Array
    certainty: pa.Array
    type: pa.Array
    source: pa.Array
    seq: pa.Array
    ts: pa.Array
    allowed: pa.Array


class Alerts(ResultColumns):
    """Results of one query and site, of the kind ``alerts``."""

    kind = ALERTS

    def __init__(
        self, columns: AlertColumns, query: str, site: str, constraint: str,
        plus: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """``plus``: which are given, or else taken back; None: all are given."""
        self.columns, self.query, self.site, self.constraint = columns, query, site, constraint
        self.plus = np.ones(len(columns.at), np.bool_) if plus is None else plus

    def taken(self, rows: np.ndarray, plus: np.ndarray, at: np.ndarray) -> Alerts:
        """The results ``rows``, given (``plus``) or taken back at instants ``at``."""
        columns = AlertColumns(*(column.take(pa.array(rows)) for column in self.columns))
        columns = columns._replace(at=pa.array(at))
        return Alerts(columns, self.query, self.site, self.constraint, plus)

    @classmethod
    def tables(cls, pieces: Sequence[Alerts]) -> Iterator[pa.Table]:
        for piece in pieces:
            n = len(piece)
            columns = {
                **piece.columns._asdict(),
                POSITION: pa.array(np.arange(n)),
                "op": one_of(("-", "+"), piece.plus),
                "query": same_for_all(piece.query, n),
                "site": same_for_all(piece.site, n),
                "constraint": same_for_all(piece.constraint, n),
            }
            yield pa.table({name: columns[name] for name in _ORDER})

    def __len__(self) -> int:
        return len(self.columns.at)

    def __iter__(self) -> Iterator[Result]:
        for table in self.tables([self]):
            yield from table.drop_columns(POSITION).to_pylist()
