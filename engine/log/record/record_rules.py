"""Rules for the fields of one record, checked on whole columns (DESIGN "Trace").

They apply to all row-wise inputs: JSONL traces, CSV and Parquet.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.columns import COUNTS, LIMITS, RANGES, beyond, without_nan
from slackwater.engine.core.frame import ATTR_PREFIX, FIXED_TYPES, REQUIRED, STRING, Frame
from slackwater.engine.core.units import exact_units
from slackwater.engine.log.describe import ints

TIME_FIELDS: Final = (r.TS, r.TE, r.ARRIVAL, r.OFFSET, r.DELAY, r.PRECISION)
"""Fields in the trace's time unit; other integer fields are counts or parts per billion."""
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
    """The reason why ``line`` (1-based) of the input breaks a rule."""

    line: int
    reason: str


def row_faults(columns: dict[str, pa.Array], kind: np.ndarray, unit_ns: int) -> dict[int, str]:
    """Return the first fault of each row; later ones may only follow from it.

    Args:
        columns: record fields without attributes, times in ns.
        kind: ``Kind`` of each row.
        unit_ns: unit of times in messages [ns].
    """
    found: dict[int, str] = {}
    masks = {name: each.is_valid().to_numpy(zero_copy_only=False) for name, each in columns.items()}
    nothing = np.zeros(len(kind), bool)
    for each in Kind:
        of_kind = kind == each
        if not of_kind.any():
            continue
        name_of_kind = each.name.lower()
        for field, mask in masks.items():
            if field not in FIELDS_OF_KIND[each] and (of_kind & mask).any():
                remedy = f"; --map attrs.{field}={field} makes it an attribute"
                add_fault(
                    found, of_kind & mask,
                    f'"{field}" does not belong to a record of kind {name_of_kind}'
                    f"{remedy if each == Kind.EVENT else ''}",
                )  # fmt: skip
        for field, kinds in _NEEDED.items():
            lacks = of_kind & ~masks.get(field, nothing)
            if each in kinds and lacks.any():
                add_fault(found, lacks, f'a record of kind {name_of_kind} needs "{field}"')
    if (kind != Kind.EVENT).any():
        named = masks.get(r.TYPE, nothing) | masks.get(r.SOURCE, nothing)
        is_nameless = (kind == Kind.POG) & ~named
        add_fault(found, is_nameless, 'a record of kind pog needs "type" and/or "source"')
        _sync_faults(found, masks, kind == Kind.SYNC)
    _value_faults(found, columns, unit_ns)
    return found


def add_fault(found: dict[int, str], rows: np.ndarray, reason: str) -> None:
    """Add ``reason`` to ``found`` for each of ``rows`` (bool) without a fault."""
    for row in np.flatnonzero(rows).tolist():
        found.setdefault(row, reason)


def _sync_faults(found: dict[int, str], masks: dict[str, np.ndarray], is_sync: np.ndarray) -> None:
    nothing = np.zeros(len(is_sync), bool)
    offset, delay = masks.get(r.OFFSET, nothing), masks.get(r.DELAY, nothing)
    needs = "a record of kind sync needs"
    add_fault(found, is_sync & offset & ~delay, f'{needs} "delay" beside "offset"')
    add_fault(found, is_sync & delay & ~offset, f'{needs} "offset" beside "delay"')
    # A source without a clock reading may still announce its first number.
    announced = masks.get(r.FIRST_SEQ, nothing) | masks.get(r.INCARNATION, nothing)
    add_fault(
        found, is_sync & ~offset & ~announced,
        f'{needs} "offset" and "delay" (or "first_seq", "incarnation")',
    )  # fmt: skip


def beyond_said(field: str) -> str:
    """Return the reason for a value outside the range of ``field``."""
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
            ts, te = (exact_units(columns[name][row].as_py(), unit_ns) for name in (r.TS, r.TE))
            found.setdefault(
                int(row), f'"te" {te} lies before "ts" {ts}; an interval ends at or after its start'
            )


# Rules for the frames of a log, checked on whole columns (table in ``core.frame``).
#
# Frames that this project writes satisfy them. A damaged or foreign log may contain anything, and
# the kernels of the chain do not check their input, so frames are checked when a log is read.


_LAST_KIND: Final = int(max(Kind))


def _among(kinds: Collection[Kind]) -> np.ndarray:
    """Return a lookup by kind number. On the small frames of a quiet site, ``np.isin`` takes longer
    than the check itself.
    """
    return np.array([kind in kinds for kind in range(_LAST_KIND + 1)])


_TIMED: Final = _among((Kind.EVENT, Kind.POG, Kind.IBP, Kind.IBE))
_OF_SOURCE: Final = _among((Kind.EVENT, Kind.IBP, Kind.IBE, Kind.SYNC, Kind.EOS))
_NO_NUMBER: Final = -1


class FrameError(ValueError):
    """A frame breaks a rule; the message says which."""


def checked(frame: Frame) -> Frame:
    """Return ``frame`` with null for NaN, after checking the rules.

    Raises:
        FrameError: a rule is broken.
    """
    batch = frame.batch
    _check_columns(batch.schema)
    try:
        batch.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        raise FrameError(str(error).splitlines()[0]) from error
    if not batch.num_rows:
        raise FrameError("it has no rows")
    kind = _kinds(batch)
    _check_presence(batch, kind)
    names = set(batch.schema.names)
    for name in LIMITS:
        if name in names and not pa.types.is_null(batch.column(name).type):
            _check_range(name, batch.column(name), kind)
    arrival = batch.column(r.ARRIVAL).to_numpy()
    if (arrival[1:] < arrival[:-1]).any():
        row = int(np.flatnonzero(arrival[1:] < arrival[:-1])[0]) + 1
        raise FrameError(f"record {row} arrived at {arrival[row]}, after {arrival[row - 1]}")
    if r.TE in batch.schema.names and not pa.types.is_null(batch.column(r.TE).type):
        early = pc.less(batch.column(r.TE), batch.column(r.TS)).fill_null(False)
        if pc.any(early).as_py():
            raise FrameError(f"record {pc.index(early, True).as_py()} ends before it begins")
    return _finite(frame)


def attribute_types(batch: pa.RecordBatch) -> dict[str, str]:
    """Return the type (``int float bool str``) of each attribute and ``id`` with values."""
    found = {}
    for field in batch.schema:
        if field.name == r.ID or field.name.startswith(ATTR_PREFIX):
            type_ = _value_type(field.type)
            if type_ is not None:
                found[field.name] = type_
    return found


def _value_type(type_: pa.DataType) -> str | None:
    if pa.types.is_null(type_):
        return None
    if pa.types.is_boolean(type_):
        return "bool"
    if pa.types.is_integer(type_) and type_ != pa.uint64():
        return "int"
    if pa.types.is_floating(type_):
        return "float"
    value = type_.value_type if pa.types.is_dictionary(type_) else type_
    if pa.types.is_string(value) or pa.types.is_large_string(value):
        return "str"
    raise FrameError(f"a value of type {type_}")


def _check_columns(schema: pa.Schema) -> None:
    names = schema.names
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise FrameError(f"no column {', '.join(missing)}")
    if len(set(names)) < len(names):
        raise FrameError("two columns of one name")
    for field in schema:
        expected = FIXED_TYPES.get(field.name)
        if expected is None:
            if field.name != r.ID and not field.name.startswith(ATTR_PREFIX):
                raise FrameError(f"an unknown column {field.name!r}")
            if field.name == r.ID and _value_type(field.type) not in (None, "int", "str"):
                raise FrameError(f"{field.name} is {field.type}")
            _value_type(field.type)
        elif expected == STRING:
            if _value_type(field.type) not in ("str", None):
                raise FrameError(f"{field.name} is {field.type}, not text")
        elif field.type != expected and not (
            pa.types.is_null(field.type) and field.name not in (r.TS, r.ARRIVAL)
        ):
            raise FrameError(f"{field.name} is {field.type}, not {expected}")


def _kinds(batch: pa.RecordBatch) -> np.ndarray:
    if r.KIND not in batch.schema.names or pa.types.is_null(batch.column(r.KIND).type):
        return np.zeros(batch.num_rows, np.int8)
    column = batch.column(r.KIND)
    if column.null_count:
        column = pc.fill_null(column, int(Kind.EVENT))
    kind = column.to_numpy(zero_copy_only=False)
    unknown = (kind < 0) | (kind > _LAST_KIND)
    if unknown.any():
        raise FrameError(f"a record of kind {kind[unknown][0]}, which there is not")
    return np.asarray(kind)


def _check_presence(batch: pa.RecordBatch, kind: np.ndarray) -> None:
    """Check times and sources; orders that need sequence numbers check these themselves."""
    if batch.column(r.ARRIVAL).null_count:
        raise FrameError("a record without arrival")
    for name, kinds in ((r.TS, _TIMED), (r.SOURCE, _OF_SOURCE)):
        column = batch.column(name)
        hidden = pa.types.is_dictionary(column.type) and column.dictionary.null_count > 0
        if not column.null_count and not hidden:
            continue
        plain = column.dictionary_decode() if hidden else column
        absent = plain.is_null().to_numpy(zero_copy_only=False)
        lacking = absent & kinds[kind]
        if lacking.any():
            which = Kind(int(kind[lacking][0])).name.lower()
            raise FrameError(f"a record of kind {which} without {name}")


def _check_range(name: str, column: pa.Array, kind: np.ndarray) -> None:
    least, most = pc.min_max(column).as_py().values()
    if least is None:
        return
    low, high = LIMITS[name]
    if low <= least and most <= high:
        return
    values = np.asarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False))
    outside = beyond(name, values)
    if name == r.SEQ:
        outside &= (values != _NO_NUMBER) | (kind == Kind.EVENT)
    if not outside.any():
        return
    row = int(np.flatnonzero(outside)[0])
    which = Kind(int(kind[row])).name.lower()
    raise FrameError(f"record {row} of kind {which}: {beyond_said(name).partition(';')[0]}")


def _finite(frame: Frame) -> Frame:
    """Replace NaN by null; refuse infinite values."""
    batch = frame.batch
    for place, field in enumerate(batch.schema):
        if not pa.types.is_floating(field.type):
            continue
        if pc.all(pc.is_finite(batch.column(place))).as_py() is not False:
            continue
        column, infinite = without_nan(batch.column(place))
        if infinite.any():
            raise FrameError(f"{field.name} is infinite in record {np.flatnonzero(infinite)[0]}")
        if column.null_count != batch.column(place).null_count:
            batch = batch.set_column(place, field, column)
    return frame if batch is frame.batch else Frame(frame.site, batch)
