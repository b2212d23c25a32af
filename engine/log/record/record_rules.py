"""Rules between the fields of one record, checked on whole columns (DESIGN "Trace").

Used for every kind of row-wise input: JSONL traces, CSV, Parquet.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edge_agent import records as r
from edge_agent.records import Kind
from engine.log.describe import ints
from engine.stream.columns import COUNTS, LIMITS, RANGES, beyond

TIME_FIELDS: Final = (r.TS, r.TE, r.ARRIVAL, r.OFFSET, r.DELAY, r.PRECISION)
"""Fields in the trace's time unit; the other integers are counts or parts per billion."""
_EVERYWHERE: Final = {r.KIND, r.SITE, r.ARRIVAL}
_NAMED: Final = _EVERYWHERE | {r.STREAM, r.SOURCE, r.CLOCK, r.SEQ, r.INCARNATION}
FIELDS_OF_KIND: Final[dict[Kind, set[str]]] = {
    Kind.EVENT: _NAMED | {r.TYPE, r.TS, r.TE, r.ID, r.ATTRS},
    Kind.POG: _NAMED | {r.TYPE, r.TS},
    Kind.IBP: _NAMED | {r.TYPE, r.TS, r.ID, r.ATTRS},
    Kind.IBE: _NAMED | {r.TYPE, r.TS, r.ID, r.ATTRS},
    Kind.SYNC: _NAMED | {r.TS, r.OFFSET, r.DELAY, r.FIRST_SEQ, r.PRECISION, r.SKEW_ERROR_PPB},
    Kind.TICK: _EVERYWHERE,
    Kind.EOS: _NAMED | {r.TS},
}
_NEEDED: Final[dict[str, tuple[Kind, ...]]] = {
    r.TS: (Kind.EVENT, Kind.POG, Kind.IBP, Kind.IBE),
    r.TYPE: (Kind.IBP, Kind.IBE),
    r.ID: (Kind.IBP, Kind.IBE),
    r.ARRIVAL: (Kind.TICK,),
}
_NOT_NEGATIVE: Final = (
    r.SEQ, r.INCARNATION, r.DELAY, r.FIRST_SEQ, r.PRECISION, r.SKEW_ERROR_PPB,
)  # fmt: skip


class Fault(NamedTuple):
    """``line`` (1-based) of the input breaks a rule, for ``reason``."""

    line: int
    reason: str


def row_faults(columns: dict[str, pa.Array], kind: np.ndarray, unit_ns: int) -> dict[int, str]:
    """The first fault of each row looked at by itself, as later ones may only follow from it.

    Args:
        columns: record fields, times in ns; attributes apart.
        kind: ``Kind`` of each row.
        unit_ns: ns of the unit in which messages say times.
    """
    found: dict[int, str] = {}
    given = {name: each.is_valid().to_numpy(zero_copy_only=False) for name, each in columns.items()}
    nothing = np.zeros(len(kind), bool)
    for each in Kind:
        of_kind = kind == each
        if not of_kind.any():
            continue
        name_of_kind = each.name.lower()
        for field, mask in given.items():
            if field not in FIELDS_OF_KIND[each] and (of_kind & mask).any():
                remedy = f"; --map attrs.{field}={field} makes it an attribute"
                add_fault(
                    found, of_kind & mask,
                    f'"{field}" does not belong to a record of kind {name_of_kind}'
                    f"{remedy if each == Kind.EVENT else ''}",
                )  # fmt: skip
        for field, kinds in _NEEDED.items():
            lacks = of_kind & ~given.get(field, nothing)
            if each in kinds and lacks.any():
                add_fault(found, lacks, f'a record of kind {name_of_kind} needs "{field}"')
    if (kind != Kind.EVENT).any():
        named = given.get(r.TYPE, nothing) | given.get(r.SOURCE, nothing)
        is_nameless = (kind == Kind.POG) & ~named
        add_fault(found, is_nameless, 'a record of kind pog needs "type" and/or "source"')
        _sync_faults(found, given, kind == Kind.SYNC)
    _value_faults(found, columns, unit_ns)
    return found


def add_fault(found: dict[int, str], rows: np.ndarray, reason: str) -> None:
    """``reason`` for each of ``rows`` (bool) that has none."""
    for row in np.flatnonzero(rows).tolist():
        found.setdefault(row, reason)


def _sync_faults(found: dict[int, str], given: dict[str, np.ndarray], is_sync: np.ndarray) -> None:
    nothing = np.zeros(len(is_sync), bool)
    offset, delay = given.get(r.OFFSET, nothing), given.get(r.DELAY, nothing)
    needs = "a record of kind sync needs"
    add_fault(found, is_sync & offset & ~delay, f'{needs} "delay" beside "offset"')
    add_fault(found, is_sync & delay & ~offset, f'{needs} "offset" beside "delay"')
    # A source without a clock reading may still announce where its numbers start.
    announced = given.get(r.FIRST_SEQ, nothing) | given.get(r.INCARNATION, nothing)
    add_fault(
        found, is_sync & ~offset & ~announced,
        f'{needs} "offset" and "delay" (or "first_seq", "incarnation")',
    )  # fmt: skip


def in_units(ns: int, unit_ns: int) -> str:
    """A time as its user wrote it: in units of ``unit_ns``."""
    whole, rest = divmod(ns, unit_ns)
    return str(whole) if not rest else str(Decimal(ns) / unit_ns)


def beyond_said(field: str) -> str:
    """Why a value outside ``field``'s range is refused."""
    if field in RANGES:
        return f'"{field}" is beyond {RANGES[field][2]} in nanoseconds; check --time-unit'
    percent = ", which is 100 %" if field == r.SKEW_ERROR_PPB else ""
    return f'"{field}" is beyond {COUNTS[field]}{percent}'


def _value_faults(found: dict[int, str], columns: dict[str, pa.Array], unit_ns: int) -> None:
    for field, (low, high) in LIMITS.items():
        if field not in columns:
            continue
        least, most = pc.min_max(columns[field]).as_py().values()
        if least is None or low <= least <= most <= high:
            continue
        values, _ = ints(columns[field])
        if field in _NOT_NEGATIVE:
            add_fault(found, values < 0, f'"{field}" must not be negative')
        add_fault(found, beyond(field, values), beyond_said(field))
    if r.TE in columns and r.TS in columns:
        backwards = pc.fill_null(pc.less(columns[r.TE], columns[r.TS]), fill_value=False)
        for row in np.flatnonzero(backwards.to_numpy(zero_copy_only=False)):
            ts, te = (in_units(columns[name][row].as_py(), unit_ns) for name in (r.TS, r.TE))
            found.setdefault(
                int(row), f'"te" {te} lies before "ts" {ts}; an interval ends at or after its start'
            )
