"""Results of queries as columns: the fields of DESIGN "Results", for all kinds.

Objects whose fields the query names (keys, values) are structs if each field has one type in a
table, else JSON texts; attributes of events are JSON texts. Fields beyond DESIGN's are in ``more``,
a JSON object, so that operators may add fields without changes in sinks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.engine.core.clocks.epochs import CLOCK_STATUS, STATUSES
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.operator import Result

MATCHES: Final = "matches"
WINDOWS: Final = "windows"
ALERTS: Final = "alerts"
ITEMS: Final = "items"
"""Names of kinds (``engine.output.result_kinds``)."""
EMISSION: Final = ("op", "at")
"""Fields about the emission: whether it is a retraction, and its time."""
POSITION: Final = "position"
"""Place of a result in its batch: restores the order between kinds."""
MORE: Final = "more"
MORE_OF_CLOCKS: Final = tuple(f'{{"{CLOCK_STATUS}": "{name}"}}' for name in STATUSES)
"""``MORE`` of results whose clocks were not synchronized."""
TEXT: Final = pa.dictionary(pa.int32(), pa.string())
"""Type of texts that many rows share."""
EVENT_FIELDS: Final = {
    "site": TEXT,
    "stream": TEXT,
    "source": TEXT,
    "seq": pa.int64(),
    "type": TEXT,
    "ts": pa.int64(),
    "te": pa.int64(),
    "ref": pa.int64(),
    "attrs": pa.string(),
}
SHARED_FIELDS: Final = {
    "op": TEXT,
    "query": TEXT,
    "site": TEXT,
    "at": pa.int64(),
}
MATCH_FIELDS: Final = {
    **SHARED_FIELDS,
    "known_at": pa.int64(),
    "certainty": TEXT,
    "probability": pa.float64(),
    "events": pa.list_(pa.struct({**EVENT_FIELDS, MORE: pa.string()})),
    "value": pa.string(),
}
WINDOW_FIELDS: Final = {
    **SHARED_FIELDS,
    "window": pa.struct({"start": pa.int64(), "end": pa.int64()}),
    "key": pa.string(),
    "value": pa.string(),
    "low": pa.string(),
    "middle": pa.string(),
    "high": pa.string(),
    "certain": pa.int64(),
    "ambiguous": pa.int64(),
    "missing": pa.int64(),
}
KINDS_OF_ALERT: Final = ("alert", "cleared", "violation")
"""In the order of the numbers in ``engine.operators.constraint.traces``."""
SO_FAR: Final = "so_far"
SO_FAR_FIELDS: Final = {"type": TEXT, "source": TEXT, "seq": pa.int64(), "ts": pa.int64()}
"""Fields of the events in ``so_far``, which had advanced the pattern of a trace."""
ALERT_FIELDS: Final = {
    "alert": TEXT,
    "trace": pa.string(),
    "certainty": TEXT,
    "constraint": TEXT,
    "type": TEXT,
    "source": TEXT,
    "seq": pa.int64(),
    "ts": pa.int64(),
    "allowed": TEXT,
    SO_FAR: pa.list_(pa.struct(SO_FAR_FIELDS)),
}
"""Fields of monitored patterns; ``type source seq ts`` are those of the event that caused the
alert (null except ``ts`` after a timeout); ``allowed``: events allowed instead, in a violation.
"""
ALERT_SCHEMA: Final = pa.schema({POSITION: pa.int64(), **SHARED_FIELDS, **ALERT_FIELDS})
ITEM_FIELDS: Final = {
    "ts": pa.int64(),
    "source": TEXT,
    "seq": pa.int64(),
    "item": pa.string(),
    "certainty": TEXT,  # ``unknown``, or left out of JSONL
}
"""Fields of dataflows; ``ts source seq`` are those of the event that ends the item's tuple."""
JSON_FIELDS: Final = ("key", "value", "low", "middle", "high", "bounds", "attrs", "item")
"""JSON texts, or structs; each field of ``bounds`` is a struct of ``BOUNDS``, in JSON a pair."""
BOUNDS: Final = ("least", "most")
MATCH_SCHEMA: Final = pa.schema({POSITION: pa.int64(), **MATCH_FIELDS, MORE: pa.string()})
ITEM_SCHEMA: Final = pa.schema({POSITION: pa.int64(), **SHARED_FIELDS, **ITEM_FIELDS})
WINDOW_EXTRAS: Final = {
    "drift": TEXT,  # R19's flag: which of the three shifted windows a result is of
    "bounds": pa.string(),
    "certainty": TEXT,  # of windows that go by events, whose borders the clocks leave open
}
"""Fields of some kinds of windows; omitted in JSONL if absent."""
WINDOW_SCHEMA: Final = pa.schema(
    {POSITION: pa.int64(), **WINDOW_FIELDS, **WINDOW_EXTRAS, MORE: pa.string()}
)
"""Schema of results that are dicts; in columns of operators ``JSON_FIELDS`` may be structs."""


def as_json(value: Any) -> str:
    """Return ``value`` as JSON; NumPy numbers are converted.

    Raises:
        ContractViolation: NaN, an infinity or an object that JSON does not support.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise ContractViolation(f"a result holds {value!r}: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no JSON value")


def one_of(
    texts: Sequence[str | None], places: np.ndarray, absent: np.ndarray | None = None
) -> pa.DictionaryArray:
    """Return the text at each of ``places``, of type ``TEXT``; null where ``absent``."""
    found = pa.array(places.astype(np.int32), mask=absent)
    return pa.DictionaryArray.from_arrays(found, pa.array(texts, pa.string()))


def same_for_all(text: str, n: int) -> pa.DictionaryArray:
    """Return ``n`` times the same text, of type ``TEXT``."""
    return one_of((text,), np.zeros(n, np.int32))


def decoded(
    codes: np.ndarray, absent: np.ndarray, text: Callable[[int], str | None]
) -> pa.DictionaryArray:
    """Return codes as texts, calling ``text`` once per code; null where ``absent``."""
    found, which = np.unique(np.where(absent, -1, codes), return_inverse=True)
    texts = [text(code) if code >= 0 else "" for code in found.tolist()]
    return one_of(texts, which.reshape(-1), absent)


def rows_of(schema: pa.Schema, positions: Sequence[int], results: Sequence[Result]) -> pa.Table:
    """Return results as rows of ``schema``.

    Raises:
        ContractViolation: a value does not fit its field.
    """
    fields, inner = schema.names, _inner(schema)
    rows = [
        {**_row(result, fields, inner), POSITION: position}
        for position, result in zip(positions, results, strict=True)
    ]
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowException, OverflowError) as error:
        raise ContractViolation(f"a result does not fit its fields: {error}") from error


def _inner(fields: Iterable[pa.Field]) -> dict[str, list[str]]:
    """Return the fields of list elements, by the list's name."""
    return {
        field.name: [each.name for each in field.type.value_type]
        for field in fields
        if pa.types.is_list(field.type)
    }


def _row(
    result: Mapping[str, Any], fields: Sequence[str], inner: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    row = {name: result.get(name) for name in fields}
    for name in JSON_FIELDS:
        value = row.get(name)
        if value is not None:
            row[name] = as_json(value)
    for name, within in inner.items():
        row[name] = [_row(each, within, {}) for each in row[name] or ()]
    if "attrs" in row and row["attrs"] is None:
        row["attrs"] = "{}"
    if MORE in row:
        more = {name: value for name, value in result.items() if name not in row}
        row[MORE] = as_json(more) if more else None
    return row
