"""Results of a monitored pattern, as columns: alerts, cleared traces and violations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.engine.core.operator import Result, ResultColumns
from slackwater.engine.core.released import Strings
from slackwater.engine.kernels.records import NONE, numbers_of, records_at
from slackwater.engine.operators.constraint.traces import NODE, VIOLATION
from slackwater.engine.output.schema import (
    ALERT_FIELDS,
    ALERTS,
    KINDS_OF_ALERT,
    POSITION,
    SHARED_FIELDS,
    SO_FAR_FIELDS,
    decoded,
    one_of,
    same_for_all,
)

# The events so far of each result, as columns; copied, as they may move in the pool.


class SoFar(NamedTuple):
    """Concatenated lists of events: ``nodes`` (NODE), in order; ``lengths``: int64, per list."""

    nodes: np.ndarray
    lengths: np.ndarray


def so_far(ends: np.ndarray, pool: np.ndarray) -> SoFar:
    """Return copies of the lists of ``pool`` (NODE) that end at the places ``ends``."""
    places = [ends]
    while (places[-1] != NONE).any():  # no list is longer than its automaton has states
        places.append(np.where(places[-1] == NONE, NONE, pool["link"][places[-1]]))
    of = np.column_stack(places[::-1])
    there = of != NONE
    return SoFar(records_at(pool, of[there]), there.sum(axis=1))


def lists_of(found: list[SoFar], strings: Strings) -> pa.ListArray:
    """Return all lists as a column of results."""
    of = np.concatenate([numbers_of(each.nodes) for each in found]).reshape(-1).view(NODE)
    lengths, none = np.concatenate([each.lengths for each in found]), np.zeros(len(of), np.bool_)
    columns = {
        "type": decoded(of["type"], none, strings.text),
        "source": decoded(of["source"], none, strings.text),
        "seq": pa.array(of["seq"], mask=of["seq"] < 0),
        "ts": pa.array(of["ref"]),
    }
    events = pa.StructArray.from_arrays([columns[name] for name in SO_FAR_FIELDS], SO_FAR_FIELDS)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(starts), events)


# Results of a monitored pattern, as columns: alerts, cleared traces and violations.


_ORDER: Final = (POSITION, *SHARED_FIELDS, *ALERT_FIELDS)
_OPS: Final = ("-", "+")
CERTAINTIES: Final = ("confirmed", "uncertain", "unknown")


class AlertColumns(NamedTuple):
    """Columns of equal length; ``at`` and ``ts`` [ns]; ``seq`` may be null."""

    op: pa.Array
    at: pa.Array
    alert: pa.Array
    trace: pa.Array
    certainty: pa.Array
    type: pa.Array
    source: pa.Array
    seq: pa.Array
    ts: pa.Array
    allowed: pa.Array
    so_far: pa.Array


class Alerts(ResultColumns):
    """Results of one query and site, of the kind ``alerts``."""

    kind = ALERTS

    def __init__(self, columns: AlertColumns, query: str, site: str, constraint: str) -> None:
        self.columns, self.query, self.site, self.constraint = columns, query, site, constraint

    @property
    def plus(self) -> np.ndarray:
        """Which results are insertions; the others are retractions."""
        return np.asarray(np.asarray(self.columns.op.cast(pa.string())) == _OPS[1])

    def taken(self, rows: np.ndarray, plus: np.ndarray, at: np.ndarray) -> Alerts:
        """Return the results ``rows``, inserted (``plus``) or retracted at instants ``at``."""
        columns = AlertColumns(*(column.take(pa.array(rows)) for column in self.columns))
        columns = columns._replace(op=one_of(_OPS, plus), at=pa.array(at))
        return Alerts(columns, self.query, self.site, self.constraint)

    @classmethod
    def tables(cls, pieces: Sequence[Alerts]) -> Iterator[pa.Table]:
        for piece in pieces:
            n = len(piece)
            columns = {
                **piece.columns._asdict(),
                POSITION: pa.array(np.arange(n)),
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


def alert_columns(
    emitted: np.ndarray, at: np.ndarray, so_far: pa.Array, traces: pa.Array, allowed: Sequence[str],
    strings: Strings,
) -> AlertColumns:  # fmt: skip
    """Return emitted results as columns.

    Args:
        emitted: EMITTED.
        at: instants on the arrival clock [ns].
        so_far: the result of ``lists_of``.
        traces: the key of each trace.
        allowed: per state, the events that the constraint allows.
        strings: the string table of the codes.
    """
    no_event = emitted["type"] == NONE
    return AlertColumns(
        op=one_of(_OPS, emitted["plus"]),
        at=pa.array(at),
        alert=one_of(KINDS_OF_ALERT, emitted["kind"]),
        trace=traces.cast(pa.string()),
        certainty=one_of(CERTAINTIES, emitted["certainty"]),
        type=decoded(emitted["type"], no_event, strings.text),
        source=decoded(emitted["source"], no_event, strings.text),
        seq=pa.array(emitted["seq"], mask=emitted["seq"] < 0),
        ts=pa.array(emitted["ref"]),
        allowed=one_of(allowed, emitted["before"], emitted["kind"] != VIOLATION),
        so_far=so_far,
    )
