"""Frame: a columnar batch of one site's records in arrival order (DESIGN idea 4).

The payload is an Arrow record batch. Strings are dictionary-encoded; a column that would
say the same for every row is left out:

==============  ==================  ===========================================
column          Arrow type          when absent
==============  ==================  ===========================================
kind            int8                every record is an event
stream          dictionary<string>  every record is of stream ``events``
source          dictionary<string>  (always present; null for ticks)
clock           dictionary<string>  null: the source's own clock, of its name
seq             int64               (always present; null or -1: no number)
incarnation     int64               every record is of incarnation 0
type            dictionary<string>  null: no type
ts, arrival     int64 ns            (always present)
te              int64 ns            te = ts
id              int64 | dictionary  null: not an interval
offset, delay,  int64, nullable     no sync record in this frame
first_seq, precision, skew_error_ppb
attrs.NAME      int64 | float64 |   null: this record has no such attribute
                bool | dictionary
==============  ==================  ===========================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import ContractViolation

ATTR_PREFIX: Final = "attrs."
FRAMES_AT_ONCE: Final = 8_192
"""Frames of at least 10 kB each; those of a quiet site have two rows."""
STRING: Final = pa.dictionary(pa.int32(), pa.string())
FIXED_TYPES: Final[dict[str, pa.DataType]] = {
    r.KIND: pa.int8(),
    r.STREAM: STRING,
    r.SOURCE: STRING,
    r.CLOCK: STRING,
    r.SEQ: pa.int64(),
    r.INCARNATION: pa.int64(),
    r.TYPE: STRING,
    r.TS: pa.int64(),
    r.TE: pa.int64(),
    r.ARRIVAL: pa.int64(),
    r.OFFSET: pa.int64(),
    r.DELAY: pa.int64(),
    r.FIRST_SEQ: pa.int64(),
    r.PRECISION: pa.int64(),
    r.SKEW_ERROR_PPB: pa.int64(),
}
_ALIGNED: Final = 8
REQUIRED: Final = (r.SOURCE, r.SEQ, r.TS, r.ARRIVAL)


class Frame(Struct, frozen=True):
    """Records of one ``site``; ``batch`` has the columns of this module's table."""

    site: str
    batch: pa.RecordBatch

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)

    @property
    def first_arrival(self) -> int:
        return int(self.batch.column(r.ARRIVAL)[0].as_py())

    @property
    def last_arrival(self) -> int:
        return int(self.batch.column(r.ARRIVAL)[self.rows - 1].as_py())

    def slice(self, start: int, rows: int) -> Frame:
        """Return ``rows`` records from ``start``, without copying."""
        return Frame(self.site, self.batch.slice(start, rows))

    def to_bytes(self) -> bytes:
        """Return the payload: an Arrow IPC stream with this batch."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.batch.schema) as writer:
            writer.write_batch(self.batch)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, site: str, payload: bytes | pa.Buffer) -> Frame:
        """Return the frame of ``to_bytes``; the arrays share the memory of ``payload``.

        Raises:
            ContractViolation: not an Arrow stream of a frame.
        """
        buffer = pa.py_buffer(payload)
        if buffer.address % _ALIGNED:  # kernels are compiled for aligned arrays
            buffer = pa.py_buffer(buffer.to_pybytes())
        try:
            table = pa.ipc.open_stream(buffer).read_all()
        except pa.ArrowInvalid as error:
            raise ContractViolation(f"site {site!r}: damaged frame payload: {error}") from error
        missing = [name for name in REQUIRED if name not in table.column_names]
        if missing:
            raise ContractViolation(f"site {site!r}: frame without column {', '.join(missing)}")
        batches = table.combine_chunks().to_batches()
        if not batches:
            return cls(site, pa.RecordBatch.from_pylist([], schema=table.schema))
        return cls(site, batches[0])


def clock_names(batch: pa.RecordBatch) -> pa.Array:
    """Return the name of the clock that stamped each record: its ``clock``, else its source.

    Dictionary-encoded if no record names a clock.
    """
    source = batch.column(r.SOURCE)
    if r.CLOCK not in batch.schema.names or batch.column(r.CLOCK).null_count == batch.num_rows:
        return source
    return pc.coalesce(*(batch.column(name).cast(pa.string()) for name in (r.CLOCK, r.SOURCE)))


def corrected(frame: Frame, offsets: Mapping[str, int]) -> Frame:
    """Return ``frame`` with the offset [ns] of its clock, if any, added to each event's time."""
    batch = frame.batch
    place, names = batch.schema.get_field_index(r.TS), clock_names(batch).cast(pa.string())
    for name, offset in offsets.items():
        ts = batch.column(place)
        is_of = pc.fill_null(pc.equal(names, name), fill_value=False)
        batch = batch.set_column(place, r.TS, pc.if_else(is_of, pc.add(ts, offset), ts))
    return Frame(frame.site, batch)


def column_ints(batch: pa.RecordBatch, name: str, absent: int) -> np.ndarray:
    """Return a column as int64; ``absent`` for null or a missing column."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, absent, np.int64)
    column = batch.column(name).cast(pa.int64())
    return np.asarray(column.fill_null(absent).to_numpy(zero_copy_only=False))


def kinds_of(batch: pa.RecordBatch) -> np.ndarray:
    """Return the kind of each record, int64."""
    return column_ints(batch, r.KIND, int(r.Kind.EVENT))


def attribute_type(type_: pa.DataType) -> str:
    """Return the type of attributes, ``bool int float str``, for a column of ``type_``."""
    if pa.types.is_boolean(type_):
        return "bool"
    if pa.types.is_integer(type_):
        return "int"
    return "float" if pa.types.is_floating(type_) else "str"


def by_site(frames: Iterable[Frame], rows: int) -> Iterator[dict[str, list[Frame]]]:
    """Yield the frames of each site, in batches of at least ``rows`` records or ``FRAMES_AT_ONCE``;
    the last may be empty.
    """
    waiting: dict[str, list[Frame]] = {}
    rows_waiting = frames_waiting = 0
    for frame in frames:
        waiting.setdefault(frame.site, []).append(frame)
        rows_waiting, frames_waiting = rows_waiting + frame.batch.num_rows, frames_waiting + 1
        if rows_waiting >= rows or frames_waiting >= FRAMES_AT_ONCE:
            yield waiting
            waiting, rows_waiting, frames_waiting = {}, 0, 0
    yield waiting
