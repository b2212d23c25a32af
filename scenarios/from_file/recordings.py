"""``[sources.recording]``: a CSV, Parquet or JSONL file, or an arrival log, as true events.

Each source of the file becomes a source with a simulated clock and link. Its event times are taken
as true. Its arrivals and numbers are not used: the simulation makes new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import slackwater
from slackwater.log import ATTR_PREFIX, LogReader
from slackwater.log import records as r
from slackwater.scenario import NS_PER, UserError, did_you_mean, parse_duration
from slackwater.simulation import Codes, RecordedStream

SETTINGS: Final = (
    "file", "time_unit", "mapping", "attrs", "delimiter", "header", "timezone", "only", "speed",
    "on_around",
)  # fmt: skip


def _are_texts(settings: object) -> bool:
    return isinstance(settings, list) and all(isinstance(each, str) for each in settings)


def _is_mapping(settings: object) -> bool:
    return isinstance(settings, dict) and all(isinstance(each, str) for each in settings.values())


def _is_unit(settings: object) -> bool:
    try:
        return isinstance(settings, str) and parse_duration(f"1 {settings}") > 0
    except UserError:
        return False


_TEXTS: Final = (_are_texts, 'a list of names, as in ["tag"]')
_FORMS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "file": (lambda settings: isinstance(settings, str) and bool(settings), "the name of a file"),
    "time_unit": (_is_unit, f"one of {' '.join(NS_PER)}"),
    "mapping": (_is_mapping, 'a table of fields with their columns, as in { ts = "time" }'),
    "attrs": _TEXTS,
    "delimiter": (
        lambda settings: isinstance(settings, str) and len(settings) == 1,
        "one character",
    ),
    "header": _TEXTS,
    "timezone": (lambda settings: isinstance(settings, str), "a name such as Europe/Berlin"),
    "only": (
        lambda settings: _are_texts(settings) and settings,
        'a list of sources, as in ["door"]',
    ),
}
_KINDS: Final[tuple[tuple[Any, str], ...]] = (
    (pa.types.is_boolean, "bool"), (pa.types.is_integer, "int"), (pa.types.is_floating, "float"),
)  # fmt: skip


def read_recording(
    settings: Mapping[str, Any], place: str, folder: Path
) -> dict[str, tuple[RecordedStream, ...]]:
    """The streams of each source in the file that ``settings`` names.

    Args:
        settings: the table ``recording``: ``file``, and as ``slackwater.read`` takes them
            ``time_unit mapping attrs delimiter header timezone``; ``only``: these sources;
            ``speed``: how many times faster than recorded. ``on_around`` is read elsewhere.
        place: of the table's owner, for messages.
        folder: to which ``file`` is relative.

    Raises:
        UserError: an unknown setting, or the file cannot be read.
    """
    spot = f"{place}.recording"
    for key in settings:
        if key not in SETTINGS:
            raise UserError(f"{spot}.{key}: unknown setting{did_you_mean(key, SETTINGS)}")
    for key, (right, what) in _FORMS.items():
        if key in settings and not right(settings[key]):
            raise UserError(f"{spot}.{key}: expected {what}, found {settings[key]!r}")
    if "file" not in settings:
        raise UserError(f"{spot}: file is missing: name that of the recording")
    speed = settings.get("speed", 1)
    if type(speed) not in (int, float) or not 0 < speed <= 1e9:
        raise UserError(f"{spot}.speed: expected a number above 0, found {speed!r}")
    only = settings.get("only")
    read_options = {key: settings[key] for key in SETTINGS[1:7] if key in settings}
    try:
        with slackwater.read(folder / settings["file"], sort="ts", **read_options) as read:
            table = _events(read.log)
    except UserError as error:
        raise UserError(f"{spot}.file: {error}") from error
    return _sources(table, only, speed, spot)


def _events(log: Path) -> pa.Table:
    """All events of a log in one table, although frames may lack columns."""
    parts = []
    for frame in LogReader(log):
        part = pa.table(frame.batch)
        if r.KIND in part.column_names:
            part = part.filter(pc.equal(part[r.KIND], int(r.Kind.EVENT)))
        for name in (r.SOURCE, r.STREAM, r.TYPE):
            if name in part.column_names:
                part = part.set_column(
                    part.column_names.index(name), name, part[name].cast(pa.string())
                )
        if r.STREAM not in part.column_names:
            part = part.append_column(r.STREAM, pa.repeat(r.DEFAULT_STREAM, part.num_rows))
        parts.append(part)
    return pa.concat_tables(parts, promote_options="permissive")


def _sources(
    table: pa.Table, only: Sequence[str] | None, speed: float, spot: str
) -> dict[str, tuple[RecordedStream, ...]]:
    if not table.num_rows:
        raise UserError(f"{spot}.file: has no events")
    te = table[r.TE] if r.TE in table.column_names else None
    ends = None if te is None else pc.coalesce(te, table[r.TS])
    known = table[r.TS] if ends is None else ends
    order = pc.sort_indices(known)
    table, first = table.take(order), pc.min(table[r.TS]).as_py()
    columns = {
        name.removeprefix(ATTR_PREFIX): table[name]
        for name in table.column_names
        if name.startswith(ATTR_PREFIX)
    }
    sources = table[r.SOURCE].unique().to_pylist()
    names = sources if only is None else only
    for name in names:
        if name not in sources:
            known_names = did_you_mean(name, [str(each) for each in sources])
            raise UserError(f"{spot}.only: no source {name!r} in the file{known_names}")
    found: dict[str, tuple[RecordedStream, ...]] = {}
    since = _scaled(table[r.TS], first, speed)
    until = None if ends is None else _scaled(ends.take(order), first, speed)
    for source in names:
        streams = []
        mine = pc.equal(table[r.SOURCE], source)
        for stream in table[r.STREAM].filter(mine).unique().to_pylist():
            rows = np.flatnonzero(pc.and_(mine, pc.equal(table[r.STREAM], stream)).to_numpy())
            try:
                streams.append(_stream(table, stream, rows, since, until, columns))
            except UserError as error:
                raise UserError(f"{spot}.file: source {source!r}: {error}") from error
        found[source] = tuple(streams)
    return found


def _scaled(times: pa.ChunkedArray, first: int, speed: float) -> np.ndarray:
    apart = np.asarray(times.to_numpy(), np.int64) - first
    return apart if speed == 1 else np.rint(apart / speed).astype(np.int64)


def _stream(
    table: pa.Table, name: str, rows: np.ndarray, since: np.ndarray, until: np.ndarray | None,
    columns: Mapping[str, pa.ChunkedArray],
) -> RecordedStream:  # fmt: skip
    types = table[r.TYPE].take(rows) if r.TYPE in table.column_names else None
    if types is None:
        codes = Codes([], np.full(rows.size, -1, np.int32).data)
    else:
        coded = types.combine_chunks().dictionary_encode()
        places = np.asarray(coded.indices.fill_null(-1), np.int32)
        codes = Codes(coded.dictionary.to_pylist(), places.data)
    attrs = {}
    for label, column in columns.items():
        values = column.take(rows)
        if values.null_count < len(values):
            attrs[label] = _column(values)
    return RecordedStream(name, since[rows], None if until is None else until[rows], codes, attrs)


def _column(values: pa.ChunkedArray) -> tuple[np.ndarray, str]:
    if pa.types.is_dictionary(values.type):
        values = values.cast(pa.string())
    kind = next((name for test, name in _KINDS if test(values.type)), "str")
    if values.null_count or kind == "str":
        return np.array(values.to_pylist(), object), kind
    return values.to_numpy(), kind
