"""What a log says of its clocks: stamps and arrivals of their events, and their syncs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.frame import Frame, clock_names
from slackwater.engine.log.describe import group_rows, ints, string_codes

_OF_SYNC: Final = (r.TS, r.ARRIVAL, r.OFFSET, r.DELAY, r.PRECISION)


class ClockReadings(Struct, frozen=True):
    """Of one clock; int64 [ns], in order of arrival.

    ``sources``: whose events it stamped. ``ts``, ``arrival``: of its events. ``syncs``: by name of
    the field (``ts arrival offset delay precision``), of those that have an offset.
    """

    site: str
    name: str
    sources: tuple[str, ...]
    ts: np.ndarray
    arrival: np.ndarray
    syncs: dict[str, np.ndarray]


class _Parts(Struct):
    """What is collected of one clock."""

    sources: dict[str, None]
    events: list[tuple[np.ndarray, np.ndarray]]
    syncs: list[dict[str, np.ndarray]]


def clock_readings(
    frames: Iterable[Frame], advanced: Callable[[int], None] = lambda _rows: None
) -> list[ClockReadings]:
    """Of every clock that stamped events or was synchronised, by site and name.

    Args:
        frames: of a log.
        advanced: takes the number of records after each frame.
    """
    found: dict[tuple[str, str], _Parts] = {}
    for frame in frames:
        _add(found, frame)
        advanced(frame.rows)
    none = np.zeros(0, np.int64)
    return [
        ClockReadings(
            site, name, tuple(of.sources),
            np.concatenate([none, *(ts for ts, _ in of.events)]),
            np.concatenate([none, *(arrival for _, arrival in of.events)]),
            {field: np.concatenate([none, *(each[field] for each in of.syncs)])
             for field in _OF_SYNC},
        )
        for (site, name), of in sorted(found.items())
    ]  # fmt: skip


def _add(found: dict[tuple[str, str], _Parts], frame: Frame) -> None:
    batch = frame.batch
    names = set(batch.schema.names)

    def numbers(name: str) -> tuple[np.ndarray, np.ndarray]:
        if name in names and not pa.types.is_null(batch.column(name).type):
            return ints(batch.column(name))
        return np.zeros(frame.rows, np.int64), np.zeros(frame.rows, np.bool_)

    kind = numbers(r.KIND)[0]
    source, sources = string_codes(batch.column(r.SOURCE))
    clock, clocks = string_codes(clock_names(batch))
    offset, measured = numbers(r.OFFSET)
    rows = np.flatnonzero((source >= 0) & ((kind == Kind.EVENT) | ((kind == Kind.SYNC) & measured)))
    if not len(rows):
        return
    groups = group_rows([clock[rows], kind[rows]])
    ts, stamped = numbers(r.TS)
    arrival = numbers(r.ARRIVAL)[0]
    for own in np.split(rows[groups.order], groups.starts[1:]):
        name = clocks[int(clock[own[0]])]
        parts = found.setdefault((frame.site, name), _Parts({}, [], []))
        if kind[own[0]] == Kind.EVENT:
            parts.sources |= dict.fromkeys(sources[code] for code in np.unique(source[own]))
            parts.events.append((ts[own], arrival[own]))
        else:
            # A sync may lack its time: then it holds from its arrival on, as near as is known.
            when = np.where(stamped[own], ts[own], arrival[own] - offset[own])
            columns = {name: numbers(name)[0][own] for name in _OF_SYNC}
            parts.syncs.append(columns | {r.TS: when})
