"""From an application's columns to ``Data`` messages, or a ValueError that names the column.

A wrong column is a bug of the program that emits it, so it is told at once and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edge_agent import messages as m
from edge_agent import wire
from edge_agent.columns import Buffer, Codes, Column, Masked, check_finite, may_be_infinite, packed
from edge_agent.errors import SettingsError, WireError


def check_schemas(streams: Sequence[m.StreamSchema]) -> None:
    """Refuses what the gateway would refuse.

    Raises:
        SettingsError: no stream, too many, two of one name, or a name or type out of its range.
    """
    names = [stream.name for stream in streams]
    if not 1 <= len(names) <= m.STREAMS_MAX or len(set(names)) < len(names):
        raise SettingsError(f"give 1 to {m.STREAMS_MAX} streams of different names, not {names}")
    for stream in streams:
        check_name(stream.name, "stream")
        if len(stream.attrs) > m.ATTRS_MAX:
            raise SettingsError(f"stream {stream.name}: more than {m.ATTRS_MAX} attributes")
        for attr, kind in stream.attrs.items():
            check_name(attr, f"stream {stream.name}: attribute")
            if kind not in m.ATTR_TYPES:
                raise SettingsError(
                    f"stream {stream.name}: attribute {attr} is of type {kind!r},"
                    f" not one of {', '.join(m.ATTR_TYPES)}"
                )


def check_name(name: str, what: str) -> None:
    """Raises SettingsError when ``name`` is empty or longer than NAME_MAX characters."""
    if not 1 <= len(name) <= m.NAME_MAX:
        raise SettingsError(f"{what}: a name has 1 to {m.NAME_MAX} characters, not {len(name)}")


def data_message(
    index: int,
    schema: m.StreamSchema,
    *,
    ts: Buffer,
    te: Buffer | None,
    ids: Buffer | None,
    types: str | Codes | None,
    attrs: Mapping[str, Column] | None,
    clocks: str | Codes | None = None,
) -> m.Data:
    """The columns, checked and copied, as one ``Data`` with first_seq 0.

    It may be longer than a message is allowed to be: ``cut`` gives parts of it.

    Raises:
        ValueError: no rows, columns of different lengths or wrong elements, an attribute that the
            schema lacks, too many or too long strings.
    """
    rows = len(memoryview(ts))
    if not rows:
        raise ValueError(f"stream {schema.name}: emit 1 to {m.ROWS_MAX} rows at once, not 0")
    given = attrs or {}
    columns = [
        None if name not in given else _attr(given[name], kind, rows, name)
        for name, kind in schema.attrs.items()
    ]
    if may_be_infinite([each.values for each in columns if isinstance(each, m.Values)]):
        for (name, kind), column in zip(schema.attrs.items(), columns, strict=True):
            if kind == "float" and isinstance(column, m.Values):
                check_finite(column.values, name, column.valid)
    if not schema.attrs.keys() >= given.keys():
        unknown, known = min(given.keys() - schema.attrs), ", ".join(schema.attrs) or "none"
        raise ValueError(f"stream {schema.name} has no attribute {unknown}; it has: {known}")
    return m.Data(
        index,
        0,
        rows,
        packed(ts, "int", rows, "ts"),
        None if te is None else packed(te, "int", rows, "te"),
        None if ids is None else packed(ids, "int", rows, "ids"),
        _types(types, rows, "types"),
        tuple(columns),
        _types(clocks, rows, "clocks"),
    )


def cut(data: m.Data, start: int, end: int, first_seq: int) -> m.Data:
    """Rows [start, end) of ``data``, numbered from ``first_seq``."""

    def texts(column: m.Texts) -> m.Texts:
        if column.codes is None:
            return column
        return m.Texts(column.names, column.codes[4 * start : 4 * end])

    attrs: list[m.Values | m.Texts | None] = []
    for column in data.attrs:
        if isinstance(column, m.Values):
            size = len(column.values) // data.rows
            valid = None if column.valid is None else column.valid[start:end]
            attrs.append(m.Values(column.values[size * start : size * end], valid))
        else:
            attrs.append(None if column is None else texts(column))
    begin, stop = 8 * start, 8 * end
    return m.Data(
        data.stream,
        first_seq,
        end - start,
        data.ts[begin:stop],
        None if data.te is None else data.te[begin:stop],
        None if data.ids is None else data.ids[begin:stop],
        None if data.types is None else texts(data.types),
        tuple(attrs),
        None if data.clocks is None else texts(data.clocks),
    )


def encoded_data(message: m.Data, first_seq: int, name: str) -> bytes:
    """The bytes of ``message``, of stream ``name``, whose first event gets number ``first_seq``.

    Raises:
        ValueError: they are more than MESSAGE_MAX, the rows or their values too many.
    """
    rows, given = message.rows, len(message.attrs) - message.attrs.count(None)
    if rows > m.ROWS_MAX:
        raise ValueError(f"stream {name}: emit 1 to {m.ROWS_MAX} rows at once, not {rows}")
    if rows * given > m.CELLS_MAX:
        raise ValueError(
            f"stream {name}: {rows} rows of {given} attributes at once; emit fewer rows: at most "
            f"{m.CELLS_MAX} values"
        )
    try:
        return wire.encode(message._replace(first_seq=first_seq))
    except WireError as error:
        raise ValueError(f"stream {name}: {error.detail}; emit fewer rows") from error


def _types(types: str | Codes | None, rows: int, what: str) -> m.Texts | None:
    if types is None:
        return None
    if isinstance(types, str):
        return m.Texts(_names([types], 1, m.NAME_MAX, what), None)
    return _texts(types, rows, what, 1, m.NAME_MAX)


def _names(names: Sequence[str], shortest: int, longest: int, name: str) -> list[str]:
    if len(names) > m.NAMES_MAX:
        raise ValueError(f"{name}: {len(names)} different strings, {m.NAMES_MAX} are allowed")
    if not all(shortest <= len(each) <= longest for each in names):
        raise ValueError(f"{name}: a string has {shortest} to {longest} characters")
    return list(names)


def _texts(column: Codes, rows: int, name: str, shortest: int, longest: int) -> m.Texts:
    names = _names(column.names, shortest, longest, name)
    return m.Texts(names, packed(column.codes, "code", rows, name))


def _attr(column: Column, kind: str, rows: int, name: str) -> m.Values | m.Texts:
    if isinstance(column, Codes) != (kind == "str"):
        raise ValueError(f"attribute {name} is of type {kind}; only strings are given as Codes")
    if isinstance(column, Codes):
        return _texts(column, rows, name, 0, m.TEXT_MAX)
    if isinstance(column, Masked):
        valid = packed(column.valid, "bool", rows, f"{name} (valid)")
        return m.Values(packed(column.values, kind, rows, name), valid)
    return m.Values(packed(column, kind, rows, name), None)
