"""Events of many records at once: read as columns if possible, else record by record.

Both ways give the same events (``RecordFields.event`` defines them). Columns are possible if all
their values have types that need no conversion: then a few calls check all records, instead of
several calls per record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from operator import lt
from typing import Any, Final

from slackwater.edge_agent import records as r
from slackwater.edge_agent.inputs.record_fields import ParsedRecords, RecordFields, read_text
from slackwater.edge_agent.messages import NAME_MAX, NAMES_MAX, TEXT_MAX
from slackwater.edge_agent.packing import FLOAT_WHOLE_MAX, INT64_MAX, BadRecord, Row, fits
from slackwater.edge_agent.records import TIME_MAX_NS
from slackwater.edge_agent.units import NS_PER

Bad = Callable[[str, int], None]
_NONE: Final = type(None)
_DIGITS_MAX: Final = 20
"""Most digits that ``quantity`` accepts."""
_row: Final = partial(tuple.__new__, Row)
"""``Row._make`` without its length check."""


class _NotPlain(Exception):  # noqa: N818 - control flow, not an error
    """Some value needs to be read record by record."""


def events(
    fields: RecordFields, batch: ParsedRecords, now_ns: int, bad: Bad, *, apart: bool = False
) -> Iterator[tuple[str, list[Row]]]:
    """Yield pairs of stream and events; each list fits into one batch of columns.

    Args:
        fields: how a record is read.
        batch: the records.
        now_ns: when they were read.
        bad: called with what is wrong with a bad record, and its place in the batch.
        apart: whether events may be yielded stream by stream, each stream in order; otherwise all
            events are in the order of the records.
    """
    if batch.regular and fields.counters is None:
        try:
            stream, rows = _plain(fields, batch, now_ns)
        except (_NotPlain, BadRecord, ValueError, OverflowError):
            pass  # the error, and its record, are reported below
        else:
            for first in range(0, len(rows), NAMES_MAX):
                yield stream, rows[first : first + NAMES_MAX]
            return
    streams = _streams(fields, batch) if apart else {}
    if len(streams) > 1:
        for places in streams.values():
            yield from events(fields, batch.part(places), now_ns, _at(places, bad))
    else:
        yield from _one_by_one(fields, batch, now_ns, bad)


def _streams(fields: RecordFields, batch: ParsedRecords) -> dict[str | None, list[int]]:
    """The places of each stream's records; key None: of lines that are no record."""
    found: dict[str | None, list[int]] = {}
    for place, named in enumerate(batch.sorts(fields.map.get(r.STREAM, r.STREAM))):
        found.setdefault(fields.stream if named == "" else named, []).append(place)
    return found


def _at(places: Sequence[int], bad: Bad) -> Bad:
    """``bad`` for a part of the batch that consists of ``places``."""
    return lambda what, place: bad(what, places[place])


def _one_by_one(
    fields: RecordFields, batch: ParsedRecords, now_ns: int, bad: Bad
) -> Iterator[tuple[str, list[Row]]]:
    rows: list[Row] = []
    stream = ""
    for place in range(len(batch)):
        try:
            found = fields.event(batch.record(place), now_ns)
        except BadRecord as error:
            bad(str(error), place)
            continue
        if found is None:
            continue
        named, row = found
        if rows and (named != stream or not fits(rows, row)):
            yield stream, rows
            rows = []
        stream = named
        rows.append(row)
    if rows:
        yield stream, rows


def _plain(fields: RecordFields, batch: ParsedRecords, now_ns: int) -> tuple[str, list[Row]]:
    def field(name: str) -> Sequence[Any]:
        return batch.field(fields.map.get(name, name))

    stream_names = field(r.STREAM)
    _only(stream_names, str, _NONE)
    streams = {name or fields.stream for name in stream_names}
    if len(streams) != 1 or not streams <= fields.schemas.keys():
        raise _NotPlain
    (stream,) = streams
    texts, scale = fields.texts, NS_PER[fields.time_unit]
    times = _times(field(r.TS), scale, texts)
    ts = times or [now_ns] * len(batch)
    te = _times(field(r.TE), scale, texts) or ts
    if te is not ts and any(map(lt, te, ts)):
        raise _NotPlain
    ids = _ids(field(r.ID), texts)
    types = field(r.TYPE)
    _only(types, str, _NONE)
    names = set(types)
    if texts and "" in names:
        types = [name or None for name in types]
    _check_texts(names - {None, ""} if texts else names - {None}, 1, NAME_MAX)
    attrs = [
        _values(batch.attribute(fields.map.get(name, name)), kind, texts)
        for name, kind in fields.schemas[stream].attrs.items()
    ]
    of_each = zip(*attrs, strict=True) if attrs else repeat(())
    clocks = repeat(None) if times is None else _devices(fields, field)
    return stream, list(map(_row, zip(ts, te, ids, types, of_each, clocks, strict=False)))


def _devices(fields: RecordFields, field: Callable[[str], Sequence[Any]]) -> Iterable[str | None]:
    """The device that stamped each record; empty: the record names none."""
    if not fields.devices:
        return repeat(None)
    names = field(r.CLOCK)
    _only(names, str, _NONE)
    _check_texts(set(names) - ({None, ""} if fields.texts else {None}), 1, NAME_MAX)
    return [name or "" for name in names]


def _only(values: Sequence[Any], *known: type) -> set[type]:
    """Return the types of ``values``; raises _NotPlain if there are others than ``known``."""
    found = set(map(type, values))
    if not found <= set(known):
        raise _NotPlain
    return found


def _check_texts(texts: set[str], low: int, high: int) -> None:
    if texts and not low <= min(map(len, texts)) <= max(map(len, texts)) <= high:
        raise _NotPlain
    for text in texts:
        if not text.isascii():
            text.encode()  # raises ValueError for half of a surrogate pair


def _within(values: Sequence[Any], most: int) -> None:
    if values and not -most <= min(values) <= max(values) <= most:
        raise _NotPlain


def _times(values: Sequence[Any], scale: int, texts: bool) -> Sequence[int] | None:
    """Instants [ns]; None: no record has one."""
    if _only(values, int, str, _NONE) == {_NONE}:
        return None
    if texts:
        _only(values, str)
        if not any(values):
            return None
        digits = "".join(values)
        if not (digits.isascii() and digits.isdecimal() and all(values)):
            raise _NotPlain
        _check_texts(set(values), 1, _DIGITS_MAX)
        values = list(map(int, values))
    _only(values, int)
    if scale != 1:
        values = [value * scale for value in values]
    _within(values, TIME_MAX_NS)
    return values


def _ids(values: Sequence[Any], texts: bool) -> Sequence[int | None]:
    if _only(values, int, str, _NONE) == {_NONE} or (texts and not any(values)):
        return [None] * len(values)
    if texts:
        _only(values, str)
        values = list(map(int, values))
    _only(values, int)
    _within(values, INT64_MAX)
    return values


def _values(values: Sequence[Any], kind: str, texts: bool) -> Sequence[Any]:
    """Check and convert a column of an attribute of type ``kind``."""
    if texts:
        values = _read(values, kind)
    if kind == "str":
        _only(values, str, _NONE)
        _check_texts(set(values) - {None}, 0, TEXT_MAX)
    elif kind == "bool":
        _only(values, bool, _NONE)
    elif kind == "int":
        found = _only(values, int, _NONE)
        _within(values if _NONE not in found else [v for v in values if v is not None], INT64_MAX)
    else:
        if int in _only(values, int, float, _NONE):
            _within([v for v in values if type(v) is int], FLOAT_WHOLE_MAX - 1)
            values = [float(value) if type(value) is int else value for value in values]
        if math.inf in values or -math.inf in values:
            raise _NotPlain
    return values


def _read(values: Sequence[Any], kind: str) -> Sequence[Any]:
    """Parse a column of texts; empty is null. Raises ValueError or BadRecord for a bad text."""
    found = _only(values, str, _NONE)
    if kind == "str":
        return [value or None for value in values]
    if kind == "bool":
        known = {text: read_text(text, kind, "") for text in set(values)}
        return [known[text] for text in values]
    read = int if kind == "int" else float
    if _NONE in found or "" in values:
        return [read(value) if value else None for value in values]
    return list(map(read, values))
