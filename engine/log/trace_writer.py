"""Writer of JSONL traces: frames as DESIGN "Trace" records, one a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from edge_agent import records as r
from edge_agent.records import Kind
from engine.errors import UserError
from engine.log.record.record_rules import FIELDS_OF_KIND, TIME_FIELDS
from engine.log.row_export import in_unit
from engine.stream.frame import ATTR_PREFIX, Frame
from engine.units import unit_ns

FIELD_ORDER: Final = tuple(name for name in r.RECORD_FIELDS if name not in (r.SITE, r.ATTRS))
_DEFAULTS: Final = {r.KIND: "event", r.SITE: r.DEFAULT_SITE, r.STREAM: r.DEFAULT_STREAM}


class TraceWriter:
    """Writes frames to ``out`` with times in ``time_unit``; ``records`` counts the lines.

    Fields that say their default are left out: kind, site, stream, te. The incarnation is written
    from the first one on that is not 0, as from there its default varies.
    """

    def __init__(self, out: TextIO, time_unit: str = "ns") -> None:
        self._out = out
        self._unit = time_unit
        self._unit_ns = unit_ns(time_unit)
        self._incarnations = False
        self.records = 0

    def write(self, frame: Frame) -> None:
        """Appends the records of ``frame``.

        Raises:
            UserError: a time that is no whole number of the unit, or an infinite attribute.
        """
        batch = frame.batch
        if r.INCARNATION in batch.schema.names:
            self._incarnations = self._incarnations or bool(
                pc.any(pc.not_equal(batch.column(r.INCARNATION), 0)).as_py()
            )
        present = [name for name in FIELD_ORDER if name in batch.schema.names]
        columns = {name: batch.column(name).to_pylist() for name in present}
        for name in TIME_FIELDS:
            if name in columns:
                what = f'site {frame.site!r}: "{name}"'
                exact = in_unit(batch.column(name), self._unit_ns, what, self._unit)
                columns[name] = exact.to_pylist()
        kinds = columns.get(r.KIND, [0] * frame.rows)
        columns[r.KIND] = [Kind(kind).name.lower() for kind in kinds]
        if self._incarnations:
            columns.setdefault(r.INCARNATION, [0] * frame.rows)
        else:
            columns.pop(r.INCARNATION, None)
        columns[r.SEQ] = [None if seq is None or seq < 0 else seq for seq in columns[r.SEQ]]
        if r.TE in columns:
            pairs = zip(columns[r.TE], columns[r.TS], strict=True)
            columns[r.TE] = [None if te == ts else te for te, ts in pairs]
        attrs = attr_dicts(batch, frame.site)
        self._lines(frame.site, columns, attrs)
        self.records += frame.rows

    def _lines(
        self, site: str, columns: dict[str, list[Any]], attrs: list[dict[str, Any]] | None
    ) -> None:
        names = [name for name in FIELD_ORDER if name in columns]
        place = {} if site == r.DEFAULT_SITE else {r.SITE: site}
        encode = json.JSONEncoder(ensure_ascii=False).encode
        lines = []
        for row, values in enumerate(zip(*(columns[name] for name in names), strict=True)):
            allowed = FIELDS_OF_KIND[r.KIND_NAMES[values[0]]]
            record = {
                name: value
                for name, value in zip(names, values, strict=True)
                if value is not None and value != _DEFAULTS.get(name) and name in allowed
            } | place
            if attrs is not None and attrs[row] and r.ATTRS in allowed:
                record[r.ATTRS] = attrs[row]
            lines.append(encode(record))
        if lines:
            self._out.write("\n".join(lines) + "\n")


def attr_dicts(batch: pa.RecordBatch, site: str) -> list[dict[str, Any]] | None:
    """The attributes of each row as a dict without nulls; None when there are no attributes.

    NaN, which JSON does not have, counts as "no such attribute".

    Raises:
        UserError: an infinite value, which JSON cannot say.
    """
    names = [name for name in batch.schema.names if name.startswith(ATTR_PREFIX)]
    if not names:
        return None
    columns = []
    for name in names:
        column = batch.column(name)
        if pa.types.is_floating(column.type):
            if pc.any(pc.is_inf(column)).as_py():
                row = pc.index(pc.is_inf(column), value=True).as_py()
                raise UserError(
                    f"site {site!r}: {name} is infinite in the record of arrival "
                    f"{batch.column(r.ARRIVAL)[row].as_py()}, which JSON cannot say; write Parquet"
                )
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        columns.append(column.to_pylist())
    short = [name.removeprefix(ATTR_PREFIX) for name in names]
    return [
        {name: value for name, value in zip(short, values, strict=True) if value is not None}
        for values in zip(*columns, strict=True)
    ]


def write_trace(frames: Iterable[Frame], out: TextIO, time_unit: str = "ns") -> int:
    """Writes ``frames`` to ``out`` as a JSONL trace; gives the number of records.

    Raises:
        UserError: as ``TraceWriter.write``.
    """
    writer = TraceWriter(out, time_unit)
    for frame in frames:
        writer.write(frame)
    return writer.records
