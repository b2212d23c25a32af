"""Frames and plain rows of a DataFrame as input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    FractionalType,
    IntegralType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from slackwater.edge_agent import records as r
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.core.columns import beyond, joined_type, without_nan
from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.core.frame import ATTR_PREFIX, Frame
from slackwater.engine.core.units import unit_ns
from slackwater.engine.log.input.intake import RowIntake
from slackwater.engine.log.input.numbering import Numbering
from slackwater.engine.log.record.record_rules import FrameError, attribute_types, checked
from slackwater.engine.log.whole_file import DAMAGED

# Frames of a DataFrame, checked in the workers, as kernels do not check their input.
#
# A DataFrame of frames may come from any system, so each frame is checked by the rules of a log.


def frames_of(site: str, rows: Sequence[Row], attributes: Mapping[str, str] | None) -> list[Frame]:
    """Return the frames of a site in order of arrival.

    Args:
        site: site of all rows.
        rows: ``payload``, ``first_arrival`` and place (``file``, ``place``) of each frame.
        attributes: declared types of attributes; None: none are declared.

    Raises:
        UserError: a frame breaks a rule or contradicts its declaration; the message names it.
    """
    return [_frame(site, row, attributes) for row in sorted(rows, key=_place)]


def _place(row: Row) -> tuple[int, str, int, bytes]:
    if row.first_arrival is None or row.payload is None:
        raise UserError(
            f"site {row.site!r}: a frame without payload or first_arrival; leave it out"
        )
    return row.first_arrival, row.file, row.place, bytes(row.payload)


def _frame(site: str, row: Row, attributes: Mapping[str, str] | None) -> Frame:
    try:
        frame = checked(Frame.from_bytes(site, bytes(row.payload)))
        _check_said(frame, row.first_arrival, attributes or {})
    except (ContractViolation, FrameError, *DAMAGED) as error:
        raise UserError(
            f"site {site!r}: the frame of first_arrival {row.first_arrival} cannot be: {error}; "
            "correct it, or leave it out"
        ) from error
    return frame


def _check_said(frame: Frame, first_arrival: int, attributes: Mapping[str, str]) -> None:
    """Check arrival and attribute types against their declarations; an integer may stand for a
    float, no other type for another.
    """
    if frame.first_arrival != first_arrival:
        raise FrameError(f"it begins at arrival {frame.first_arrival}")
    for column, found in attribute_types(frame.batch).items():
        name = column.removeprefix(ATTR_PREFIX)
        said = attributes.get(name)
        if column != name and said is not None and joined_type(said, found) != said:
            raise FrameError(f"attribute {name!r} is {found}, attributes= says {said}")


# Plain rows of a DataFrame as records: columns are checked on the driver, rows in the workers.
#
# Errors in the schema are raised when the step is applied. Errors in data (nulls, times out of
# range) are raised for the row, which the message names.


_TEXTS: Final = (r.SITE, r.STREAM, r.SOURCE, r.CLOCK, r.TYPE)
_TIMES: Final = (r.TS, r.TE, r.ARRIVAL)
_COUNTS: Final = (r.SEQ, r.INCARNATION)
_FIELDS: Final = (*_TEXTS, *_TIMES, *_COUNTS)
_NEEDED: Final = (r.SOURCE, r.TS, r.ARRIVAL)
_CONTENT: Final = "slackwater content"
"""A column with 64 bits of a row's fields and attributes, which identifies copies."""
_ORDER: Final = (r.ARRIVAL, r.SOURCE, r.STREAM, r.INCARNATION, r.TS, r.SEQ, r.TYPE)
"""Rows of one arrival are ordered, too: results must not depend on Spark's shuffle."""
_REMEMBERED: Final = 1 << 13
"""Numbers whose content a step remembers; a stream writes them to its state in each batch."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """Roles of the columns, for the workers.

    ``units``: unit of each column of times [ns]. ``attributes``: types (``int float bool str``) of
    the attribute columns; ``taken``: the selected ones. ``numbered``: every event needs a ``seq``.
    ``bits``: of counters that wrap around, by stream.
    """

    units: dict[str, int]
    attributes: dict[str, str]
    taken: frozenset[str]
    numbered: bool
    bits: Mapping[str, int] = field(default_factory=dict)

    def numbering(self) -> Numbering:
        """Return the numbering for a site's rows from the first on."""
        return Numbering(self.bits, _REMEMBERED)


def plan_rows(
    df: DataFrame, attributes_read: set[str] | None, time_unit: str, *, numbered: bool,
    bits: Mapping[str, int] | None = None,
) -> tuple[DataFrame, RowPlan]:  # fmt: skip
    """Return the relevant columns of ``df``, with one type each, and their roles.

    Args:
        df: has a column for each field of a record; every other column is an attribute.
        attributes_read: attributes to select; None: all.
        time_unit: unit of integer columns that are times.
        numbered: whether every event needs a number.
        bits: of counters that wrap around, by stream.

    Raises:
        UserError: a column is missing, duplicate, or of a wrong type.
    """
    names = df.columns
    needed = [r.SOURCE, *([r.SEQ] if numbered else []), r.TS, r.ARRIVAL]
    missing = [name for name in needed if name not in names]
    if missing:
        raise UserError(
            f"the DataFrame has no column {', '.join(missing)}; it has {', '.join(names)}; name it "
            f'as in df.withColumnRenamed("...", "{missing[0]}")'
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"the DataFrame has two columns {twice[0]}; drop or rename one of them")
    chosen: list[Column] = []
    units: dict[str, int] = {}
    attributes: dict[str, str] = {}
    taken: set[str] = set()
    for each in df.schema:
        column = _column(each)
        if each.name in _TIMES:
            column, units[each.name] = _time(each.name, column, each.dataType, time_unit)
        elif each.name in _COUNTS:
            _check(each.name, each.dataType, IntegralType, "whole numbers", "long")
            column = column.cast("long")
        elif each.name in _TEXTS:
            _check(each.name, each.dataType, StringType, "texts", "string")
        else:
            name = each.name.removeprefix(ATTR_PREFIX)
            is_wanted = attributes_read is None or name in attributes_read
            found = _attribute_type(each.dataType)
            if found is None and is_wanted:
                raise _no_attribute(each.name, each.dataType)
            attributes |= {} if found is None else {name: found}
            if not is_wanted:
                continue
            taken.add(name)
            column = column.cast("double") if attributes[name] == "float" else column
        chosen.append(column.alias(each.name))
    if r.SITE not in names:
        chosen.append(F.lit(r.DEFAULT_SITE).alias(r.SITE))
    if r.SEQ in names:
        every = [_column(f) for f in df.schema if f.name not in (*_FIELDS, r.SITE)
                 and _attribute_type(f.dataType) is not None]  # fmt: skip
        # Selected or not, and with their nulls, which the hash ignores.
        content = [part for column in every for part in (column, column.isNull())]
        chosen.append(F.xxhash64(F.lit(0), *content).alias(_CONTENT))
    return df.select(*chosen), RowPlan(units, attributes, frozenset(taken), numbered, bits or {})


def _column(of: StructField) -> Column:
    return F.col(f"`{of.name.replace('`', '``')}`")


def _time(name: str, column: Column, kind: DataType, time_unit: str) -> tuple[Column, int]:
    """Return the column as integers, and their unit [ns]."""
    if isinstance(kind, DateType | TimestampNTZType):
        column, kind = column.cast("timestamp"), TimestampType()
    if isinstance(kind, TimestampType):
        return F.unix_micros(column), NS_PER["us"]
    _check(name, kind, IntegralType, "whole numbers or timestamps", "timestamp")
    return column.cast("long"), unit_ns(time_unit)


def _check(name: str, kind: DataType, expected: type, what: str, cast: str) -> None:
    if not isinstance(kind, expected):
        raise UserError(
            f"column {name} is {kind.simpleString()}, and {name} takes {what}: "
            f'df.withColumn("{name}", df["{name}"].cast("{cast}")) if that is what it says'
        )


def _attribute_type(kind: DataType) -> str | None:
    if isinstance(kind, BooleanType):
        return "bool"
    if isinstance(kind, StringType):
        return "str"
    if isinstance(kind, IntegralType):
        return "int"
    return "float" if isinstance(kind, FractionalType) else None


def _no_attribute(name: str, kind: DataType) -> UserError:
    return UserError(
        f"column {name} is {kind.simpleString()}; an attribute is a number, a text or a truth "
        f'value: df.drop("{name}"), or cast it'
    )


def frame_of(
    site: str, rows: Sequence[Row], plan: RowPlan, numbering: Numbering | None = None
) -> Frame:
    """Return the rows of a site as one frame, in order of arrival.

    Args:
        site: site of all rows.
        rows: columns chosen by ``plan_rows``.
        plan: roles of the columns.
        numbering: of the site's rows so far; None: these are the first.

    Raises:
        UserError: a row lacks ``ts``, ``arrival``, ``source`` or a number, or its time or number
            is out of range; the message names the row.
    """
    names = [name for name in rows[0].__fields__ if name != r.SITE]
    values = zip(*([row[name] for name in names] for row in rows), strict=True)
    table = pa.table(
        [pa.array(of, _type(name, plan)) for name, of in zip(names, values, strict=True)], names
    )
    order = [(name, "ascending") for name in _ORDER if name in names]
    table = table.take(pc.sort_indices(table, sort_keys=order)).combine_chunks()
    needed = (*_NEEDED, r.SEQ) if plan.numbered else _NEEDED
    for name in needed:
        _refuse(site, table, name, table[name].is_null(), "has no")
    columns: dict[str, pa.Array] = {}
    for name in names:
        column = table[name].combine_chunks()
        if name in plan.units:
            column = _in_ns(site, table, name, plan.units[name])
        elif pa.types.is_string(column.type):
            column = column.dictionary_encode()
        elif pa.types.is_floating(column.type):
            column = _finite(site, table, name)
        elif name in _COUNTS:
            wrong = beyond(name, column.fill_null(0).to_numpy(zero_copy_only=False))
            _refuse(site, table, name, pa.array(wrong), "is out of range in")
        is_field = name in _FIELDS
        columns[name if is_field else ATTR_PREFIX + name.removeprefix(ATTR_PREFIX)] = column
    if r.SEQ in columns:
        content = {_CONTENT: columns.pop(ATTR_PREFIX + _CONTENT)} if _CONTENT in names else {}
        _number(site, table, columns, content, numbering or plan.numbering())
    else:
        columns[r.SEQ] = pa.nulls(table.num_rows, pa.int64())
    return Frame(site, pa.RecordBatch.from_pydict(columns))


def _number(
    site: str, table: pa.Table, columns: dict[str, pa.Array], content: dict[str, pa.Array],
    numbering: Numbering,
) -> None:  # fmt: skip
    """Set ``seq`` and ``incarnation`` as for files (``engine.log.input.numbering``)."""
    intake = RowIntake(1, numbering)
    fields = {name: column for name, column in columns.items() if name in _FIELDS}
    lines = np.arange(1, table.num_rows + 1)
    wrong = [fault.line - 1 for fault in intake.check(fields, lines, ordered=False)]
    _refuse(site, table, r.SEQ, pa.array(np.isin(lines - 1, wrong)),
            "does not fit into the bits of seq_bits with its")  # fmt: skip
    (frame,) = intake.frames(fields, content, lines)
    columns[r.SEQ] = frame.batch.column(r.SEQ)
    if r.INCARNATION in frame.batch.schema.names:
        columns[r.INCARNATION] = frame.batch.column(r.INCARNATION)


def _type(name: str, plan: RowPlan) -> pa.DataType:
    if name in _TIMES or name in _COUNTS or name == _CONTENT:
        return pa.int64()
    if name in _TEXTS:
        return pa.string()
    kind = plan.attributes[name.removeprefix(ATTR_PREFIX)]
    return {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "str": pa.string()}[kind]


def _in_ns(site: str, table: pa.Table, name: str, unit: int) -> pa.Array:
    column = table[name].combine_chunks()
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    _refuse(site, table, name, pa.array(beyond(name, values, unit)), "is out of range in")
    return pa.array(values * unit, mask=column.is_null().to_numpy(zero_copy_only=False))


def _finite(site: str, table: pa.Table, name: str) -> pa.Array:
    """Return the column with null for NaN; infinite values are refused."""
    column, infinite = without_nan(table[name].combine_chunks())
    _refuse(site, table, name, pa.array(infinite), "has an infinite")
    return column


def _refuse(site: str, table: pa.Table, name: str, wrong: Any, what: str) -> None:
    """Raise an error that names the first ``wrong`` row, if any."""
    if not pc.any(wrong).as_py():
        return
    row = pc.index(wrong, value=True).as_py()
    fields = {n: table[n][row].as_py() for n in table.column_names if n in _FIELDS}
    raise UserError(
        f"site {site!r}: a row {what} {name}: {fields}; correct it, or leave such rows out before "
        "the step, as in df.where(...)"
    )
