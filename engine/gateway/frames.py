"""Frame builder: combines a site's messages and records, in arrival order, into one Arrow frame.

Messages stay unchanged until the frame is built; then each column is made with one concatenation
over all messages. Loops run over messages and columns, never over events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.edge_agent import records as r
from slackwater.edge_agent.messages import Data, Packed, StreamSchema, Texts, Values
from slackwater.edge_agent.pull_back import BatchSlice, Events, columns_of
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.frame import ATTR_PREFIX, Frame
from slackwater.engine.gateway.content import CODE, INT

ROW_BYTES: Final = 64
"""Charged per row for the columns that the gateway adds."""
CELL_BYTES: Final = 9
"""Charged per row and attribute: a value and its validity."""
TEXT_BYTES: Final = 64
"""Charged per entry of a dictionary in addition to its characters."""
_SYNC_FIELDS: Final = (r.OFFSET, r.DELAY, r.FIRST_SEQ, r.PRECISION, r.SKEW_ERROR_PPB)
_ARROW: Final = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
_NO_SCHEMA: Final = StreamSchema("")


class Part(NamedTuple):
    """Consecutive rows of a frame that arrived together.

    ``seq`` None: no number. ``sync``: the values of ``offset delay first_seq precision
    skew_error_ppb`` of a sync record.
    """

    kind: Kind
    arrival: int
    data: Events
    source: str | None = None
    stream: str | None = None
    seq: int | None = None
    incarnation: int = 0
    schema: StreamSchema = _NO_SCHEMA
    sync: tuple[int | None, ...] | None = None

    @property
    def rows(self) -> int:
        return self.data.rows


def clock_name(source: str, clock: str | None = None) -> str:
    """The log's name of a clock that a source names; None: the source's own.

    Names are unique over sources: the separator is escaped in a source's name.

    >>> clock_name("ward", "monitor/2"), clock_name("ward"), clock_name("ward/monitor")
    ('ward/monitor/2', 'ward', 'ward%2Fmonitor')
    """
    escaped = source.replace("%", "%25").replace("/", "%2F")
    return escaped if clock is None else f"{escaped}/{clock}"


def one_row(
    ts: int, type_: str | None = None, id_: int | None = None, clock: str | None = None
) -> Data:
    """The columns of a single record that is not an event."""
    ids = None if id_ is None else id_.to_bytes(8, "little", signed=True)
    types = None if type_ is None else Texts([type_], None)
    clocks = None if clock is None else Texts([clock], None)
    return Data(0, 0, 1, ts.to_bytes(8, "little", signed=True), None, ids, types, (), clocks)


class FrameBuilder:
    """Collects the parts of one frame."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.rows = 0
        self._parts: list[Part] = []
        self._attr_names: set[str] = set()
        self._row_bytes = ROW_BYTES
        self._whole: StreamSchema | None = None
        """The schema of the last part that had all its attributes."""
        self._text_bytes = 0
        self.bytes = 0
        """Approximate memory of the frame: a column that one part has covers every row."""

    def add(self, part: Part) -> None:
        """Add rows that arrived after all rows added before."""
        assert not self._parts or part.arrival >= self._parts[-1].arrival
        self._parts.append(part)
        data, schema = part.data, part.schema
        self.rows += data.rows
        if schema is not self._whole and schema.attrs:
            self._attr_names = self._attr_names_with(data, schema)
            self._row_bytes = ROW_BYTES + CELL_BYTES * len(self._attr_names)
            if None not in columns_of(data)[0].attrs:
                self._whole = schema
        self._text_bytes += _text_bytes(data)
        self.bytes = self.rows * self._row_bytes + self._text_bytes

    def bytes_with(self, data: Events, schema: StreamSchema) -> int:
        """``bytes`` if ``data`` were added."""
        row_bytes = self._row_bytes
        if schema is not self._whole:
            row_bytes = ROW_BYTES + CELL_BYTES * len(self._attr_names_with(data, schema))
        return (self.rows + data.rows) * row_bytes + self._text_bytes + _text_bytes(data)

    def _attr_names_with(self, data: Events, schema: StreamSchema) -> set[str]:
        """Names of the attributes with values in some row, including ``data``."""
        # Content is checked later.
        named = zip(schema.attrs, columns_of(data)[0].attrs, strict=False)
        return self._attr_names.union([name for name, column in named if column is not None])

    def tick(self, arrival: int) -> None:
        """Record that nothing came until ``arrival``. It replaces a tick directly before."""
        if self._parts and self._parts[-1].kind is Kind.TICK:
            self._parts.pop()
            self.rows -= 1
        self.add(Part(Kind.TICK, arrival, one_row(arrival)))

    def build(self) -> Frame:
        """The frame of everything added since ``clear``; at least one row."""
        assert self._parts
        return Frame(self.site, _batch(self._parts))

    def clear(self) -> None:
        """Begin the next frame: the last one is durable."""
        self._parts = []
        self._attr_names, self._whole, self._row_bytes = set(), None, ROW_BYTES
        self.rows = self._text_bytes = self.bytes = 0


def _text_bytes(data: Events) -> int:
    if not isinstance(data, BatchSlice):
        return _bytes_of_texts(data)
    known = data.batch.text_bytes
    if known is None:
        known = data.batch.text_bytes = _bytes_of_texts(data.batch.data)
    return known


def _bytes_of_texts(data: Data) -> int:
    size = 0
    for column in (data.types, data.clocks, *data.attrs):
        if isinstance(column, Texts):
            size += TEXT_BYTES * len(column.names) + len("".join(column.names))
    return size


class _Cuts(NamedTuple):
    """Location of the parts' columns: one piece per message or batch that has some, and the place
    of each row among the rows of all pieces; None: they are in order.
    """

    data: list[Data]
    schemas: list[StreamSchema]
    sources: list[str | None]
    starts: list[int]
    ends: list[int]
    counts: np.ndarray
    longest: int
    places: np.ndarray | None

    @classmethod
    def of(
        cls, events: Sequence[Events], of_schemas: Sequence[StreamSchema],
        of_sources: Sequence[str | None], counts: np.ndarray,
    ) -> _Cuts:  # fmt: skip
        found = [columns_of(each) for each in events]
        pieces: dict[int, int] = {}
        of_each = [pieces.setdefault(id(data), len(pieces)) for data, _, _ in found]
        if len(pieces) == len(events):
            data, starts, ends = map(list, zip(*found, strict=True))
            kept = data, list(of_schemas), list(of_sources), starts, ends, counts
            return cls(*kept, int(counts.max()), None)
        piece = np.array(of_each)
        _, firsts, lasts = zip(*found, strict=True)
        first, last = np.array(firsts), np.array(lasts)
        low = np.full(len(pieces), last.max())
        np.minimum.at(low, piece, first)
        high = np.zeros(len(pieces), np.int64)
        np.maximum.at(high, piece, last)
        rows = high - low
        before = np.cumsum(rows) - rows
        places = np.arange(counts.sum()) + np.repeat(
            (before - low)[piece] + first - (np.cumsum(counts) - counts), counts
        )
        _, at = np.unique(piece, return_index=True)
        data = [found[part][0] for part in at]
        schemas, sources = ([of[part] for part in at] for of in (of_schemas, of_sources))
        return cls(
            data, schemas, sources, low.tolist(), high.tolist(), rows, int(rows.max()), places
        )

    def in_order(self, rows: np.ndarray) -> np.ndarray:
        """Reorder rows of all pieces to the rows of the parts."""
        return rows if self.places is None else rows[self.places]

    def numbers(self, columns: Sequence[Packed]) -> np.ndarray:
        """One int64 column of the parts."""
        rows = zip(columns, self.starts, self.ends, strict=True)
        packed = b"".join([each[8 * a : 8 * b] for each, a, b in rows])
        return self.in_order(np.frombuffer(packed, INT))


def _batch(parts: list[Part]) -> pa.RecordBatch:
    # Transposed as a whole: a loop over the parts per field took longer than making the columns.
    of_kinds, arrivals, events, sources, streams, seqs, starts, schemas, syncs = zip(
        *parts, strict=True
    )
    counts = np.array([each.rows for each in events], np.int64)
    columns: dict[str, pa.Array] = {}
    kinds = np.array(of_kinds, np.int8)
    if kinds.any():
        columns[r.KIND] = pa.array(np.repeat(kinds, counts))
    if not {r.DEFAULT_STREAM, None}.issuperset(streams):
        columns[r.STREAM] = _labels(streams, counts)
    columns[r.SOURCE] = _labels(sources, counts)
    columns[r.SEQ] = _numbers(seqs, counts)
    incarnations = np.array(starts, np.int64)
    if incarnations.any():
        columns[r.INCARNATION] = pa.array(np.repeat(incarnations, counts))
    cuts = _Cuts.of(events, schemas, sources, counts)
    clocks = _clocks(cuts)
    if clocks is not None:
        columns[r.CLOCK] = _strings(clocks, cuts)
    if any(data.types is not None for data in cuts.data):
        columns[r.TYPE] = _strings([data.types for data in cuts.data], cuts)
    ts = cuts.numbers([data.ts for data in cuts.data])
    columns[r.TS] = pa.array(ts)
    if any(data.te is not None for data in cuts.data):
        te = cuts.numbers([data.te or data.ts for data in cuts.data])
        if (te != ts).any():
            columns[r.TE] = pa.array(te)
    if any(data.ids is not None for data in cuts.data):
        ids = [None if data.ids is None else Values(data.ids, None) for data in cuts.data]
        columns[r.ID] = _values(ids, "int", cuts)
    columns[r.ARRIVAL] = pa.array(np.repeat(arrivals, counts))
    if any(syncs):
        columns.update(_sync_columns(syncs, counts))
    columns.update(_attr_columns(cuts))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _clocks(cuts: _Cuts) -> list[Texts | None] | None:
    """Names of clocks as in the log; None: all events are stamped by their sources' own clocks."""
    named = any(data.clocks is not None for data in cuts.data)
    if not named and not any(source and clock_name(source) != source for source in cuts.sources):
        return None
    return [_of_source(data, source) for data, source in zip(cuts.data, cuts.sources, strict=True)]


def _of_source(data: Data, source: str | None) -> Texts | None:
    if source is None:
        return None
    default_name = clock_name(source)
    if data.clocks is None:
        return None if default_name == source else Texts([default_name], None)
    names = [clock_name(source, name) for name in data.clocks.names]
    codes = data.clocks.codes
    if default_name != source and codes is not None:
        # Rows stamped by the source's own clock get its name as well: null becomes one more name.
        found = np.frombuffer(codes, CODE)
        codes = np.where(found < 0, len(names), found).astype(CODE).tobytes()
        names.append(default_name)
    return Texts(names, codes)


def _labels(labels: Sequence[str | None], counts: np.ndarray) -> pa.Array:
    """One label per part, repeated over its rows, as a dictionary column."""
    codes: dict[str | None, int] = {}
    each = np.array([codes.setdefault(label, len(codes)) for label in labels], np.int32)
    empty = codes.pop(None, None)
    names: list[str] = [label for label in codes if label is not None]
    if empty is not None:
        # The null label used a code: close the gap.
        each = np.where(each == empty, -1, each - (each > empty).astype(np.int32))
    return _dictionary(np.repeat(each.astype(np.int32), counts), names)


def _dictionary(codes: np.ndarray, names: Sequence[str]) -> pa.Array:
    absent = codes < 0
    indices = pa.array(codes, mask=absent if absent.any() else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


def _numbers(seqs: Sequence[int | None], counts: np.ndarray) -> pa.Array:
    firsts = np.array([-1 if seq is None else seq for seq in seqs], np.int64)
    starts = np.cumsum(counts) - counts
    seq = np.arange(counts.sum(), dtype=np.int64) + np.repeat(firsts - starts, counts)
    if (firsts >= 0).all():
        return pa.array(seq)
    return pa.array(seq, mask=np.repeat(firsts < 0, counts))


def _values(columns: Sequence[Values | None], kind: str, cuts: _Cuts) -> pa.Array:
    """Numbers or bools of all parts; None stands for a part whose rows are all null."""
    size = 1 if kind == "bool" else 8
    zeros = bytes(cuts.longest * size)
    parts = [
        zeros[: size * (b - a)] if column is None else column.values[size * a : size * b]
        for column, a, b in zip(columns, cuts.starts, cuts.ends, strict=True)
    ]
    dtype = {"int": "<i8", "float": "<f8", "bool": "u1"}[kind]
    values = cuts.in_order(np.frombuffer(b"".join(parts), dtype))
    if kind == "bool":
        values = values != 0
    # A NaN means no value (engine.core.columns).
    nan = np.isnan(values) if kind == "float" else np.zeros(0, bool)
    if not nan.any() and all(c is not None and c.valid is None for c in columns):
        return pa.array(values)
    ones = bytes([1]) * cuts.longest
    masks = [
        (zeros if column is None else ones)[: b - a]
        if column is None or column.valid is None
        else column.valid[a:b]
        for column, a, b in zip(columns, cuts.starts, cuts.ends, strict=True)
    ]
    absent = cuts.in_order(np.frombuffer(b"".join(masks), np.uint8)) == 0
    if kind == "float":
        absent |= nan
    return pa.array(values, _ARROW[kind], mask=absent)


def _strings(columns: Sequence[Texts | None], cuts: _Cuts) -> pa.Array:
    """Strings of all parts in one dictionary; None stands for a part of nulls.

    ``place`` maps every part's own codes to the frame's: part i's code c is at ``base[i] + c``, and
    its null (-1) just before.
    """
    names: dict[str, int] = {}
    place: list[int] = [-1, -1]
    bases: list[int] = []
    known: dict[tuple[str, ...], int] = {}
    zeros = bytes(4 * cuts.longest)
    parts: list[Packed] = []
    for column, a, b in zip(columns, cuts.starts, cuts.ends, strict=True):
        if column is None or column.codes is None:
            parts.append(zeros[: 4 * (b - a)])
        else:
            parts.append(column.codes[4 * a : 4 * b])
        if column is None:
            bases.append(1)
            continue
        key = tuple(column.names)
        if key not in known:
            place.append(-1)
            known[key] = len(place)
            place += [names.setdefault(name, len(names)) for name in key]
        bases.append(known[key])
    at = np.frombuffer(b"".join(parts), CODE) + np.repeat(np.array(bases, np.int64), cuts.counts)
    return _dictionary(np.array(place, np.int32)[cuts.in_order(at)], list(names))


def _sync_columns(
    syncs: Sequence[tuple[int | None, ...] | None], counts: np.ndarray
) -> Iterable[tuple[str, pa.Array]]:
    none = (None,) * len(_SYNC_FIELDS)
    per_part = zip(*(sync or none for sync in syncs), strict=True)
    at = pa.array(np.repeat(np.arange(len(syncs)), counts))
    return {
        name: pa.array(values, pa.int64()).take(at)
        for name, values in zip(_SYNC_FIELDS, per_part, strict=True)
    }.items()


def _attr_columns(cuts: _Cuts) -> dict[str, pa.Array]:
    kinds: dict[str, str] = {}
    schemas = {id(schema): schema for schema in cuts.schemas}
    for schema in schemas.values():
        for name, kind in schema.attrs.items():
            assert kinds.setdefault(name, kind) == kind
    if not kinds:
        return {}
    orders = {key: _order(schema, list(kinds)) for key, schema in schemas.items()}
    per_part = [
        orders[id(schema)]((*data.attrs, None))
        for schema, data in zip(cuts.schemas, cuts.data, strict=True)
    ]
    columns: dict[str, pa.Array] = {}
    for (name, kind), parts in zip(kinds.items(), zip(*per_part, strict=True), strict=True):
        if parts.count(None) < len(parts):
            build = _strings if kind == "str" else partial(_values, kind=kind)
            columns[ATTR_PREFIX + name] = build(parts, cuts=cuts)
    return columns


def _order(schema: StreamSchema, names: Sequence[str]) -> Callable[[tuple[Any, ...]], Any]:
    """Return a function from a part's columns (plus a final None) to the columns of ``names``."""
    places = {name: place for place, name in enumerate(schema.attrs)}
    indexes = [places.get(name, -1) for name in names]
    # itemgetter with one place would return the column alone.
    return itemgetter(*indexes) if len(indexes) > 1 else lambda columns: (columns[indexes[0]],)
