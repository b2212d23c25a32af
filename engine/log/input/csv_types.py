"""Types of CSV's columns, from all of their values; and its rows in those types.

Text comes unconverted, so that a bad value is found by its row and column.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edge_agent import records as r
from engine.log.input.row_import import (
    FIELDS,
    ColumnPlan,
    RowBatch,
    as_attribute,
    column_faults,
    kind_codes,
    time_faults,
)
from engine.log.record.record_rules import TIME_FIELDS, Fault
from engine.log.record.times import Times
from engine.log.record.trace_record import INT64_MIN, INT_FIELDS
from engine.stream.frame import STRING
from engine.units import INT64_MAX

_INT: Final = r"^-?(0|[1-9][0-9]*)$"
_INT_FIELD: Final = r"^-?[0-9]+$"
_FLOAT: Final = (
    r"^[+-]?(((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity))$"
)
"""Numbers without leading zeros: 007 is a name."""
_COMMA: Final = r"^[+-]?((0|[1-9][0-9]*)(,[0-9]*)?|,[0-9]+)([eE][+-]?[0-9]+)?$"
_NEAR: Final = 0.75
_DIGITS_SHOWN: Final = 40
_LONG_INT: Final = r"^[+-]?[0-9]{17,}$"
"""Whole numbers that a float may not hold exactly."""
_BOOL: Final = r"^(true|false|True|False|TRUE|FALSE)$"
_FITS: Final[dict[str, Callable[[pa.Array], bool]]] = {
    "int": lambda text: _all_match(text, _INT) and _whole(text) is not None,
    "float": lambda text: (
        _all_match(text, _FLOAT) and not pc.any(pc.match_substring_regex(text, _LONG_INT)).as_py()
    ),
    "comma": lambda text: _all_match(text, _COMMA),
    "bool": lambda text: _all_match(text, _BOOL),
    "text": lambda _: True,
}


@dataclass(frozen=True, slots=True)
class Text:
    """Rows as text columns; ``broken``: reason and text of rows that gave none, by number."""

    columns: dict[str, pa.Array]
    lines: np.ndarray
    broken: dict[int, tuple[str, str]]


class ColumnTypes:
    """Narrows down the types of ``columns`` and of the one with interval ids, ``id_column``.

    ``comma``: fractions may have one for the point; not in a file whose values commas part.
    """

    def __init__(self, columns: Iterable[str], id_column: str | None, *, comma: bool) -> None:
        types = [each for each in _FITS if comma or each != "comma"]
        self._open = {column: list(types) for column in columns}
        if id_column is not None:
            self._open[id_column] = ["int", "text"]

    def learn(self, columns: dict[str, pa.Array]) -> None:
        """Looks at some more rows."""
        for column, left in self._open.items():
            if len(left) > 1:
                self._open[column] = [each for each in left if _FITS[each](columns[column])]

    @property
    def found(self) -> dict[str, str]:
        """The narrowest type that all values of each column allow."""
        return {column: left[0] for column, left in self._open.items()}


def any_kind(column: pa.Array) -> bool:
    """Whether some text names a kind of record, or is a misspelling of one."""
    words = [word for word in pc.unique(column).to_pylist() if word is not None]
    return any(difflib.get_close_matches(word, r.KIND_NAMES, n=1, cutoff=_NEAR) for word in words)


def typed_rows(text: Text, plan: ColumnPlan, types: dict[str, str], times: Times) -> RowBatch:
    """The rows as columns of their types; a row with a value of another one is a fault."""
    columns, lines = text.columns, text.lines
    fields: dict[str, pa.Array] = {}
    attrs: dict[str, pa.Array] = {}
    faults = [Fault(row, why) for row, (why, _) in text.broken.items()]
    for field in (name for name in FIELDS if name in plan.fields):
        column = plan.fields[field]
        if field in TIME_FIELDS:
            fields[field], why_not = times.texts(field, columns[column], lines)
            faults += time_faults(why_not, lines, column, columns[column])
        elif field in INT_FIELDS:
            fields[field], bad = _int_field(columns[column], lines, column)
            faults += bad
        elif field == r.KIND:
            fields[field], unknown = kind_codes(columns[column])
            why = f"is no kind of record; known are {', '.join(r.KIND_NAMES)}"
            why += f"; {as_attribute(column)}"
            faults += column_faults(unknown, lines, column, columns[column], why)
        elif field == r.ID:
            fields[field] = _converted(columns[column], types[column])
        else:
            fields[field] = columns[column]
    for name, column in plan.attrs.items():
        attrs[name] = _converted(columns[column], types[column])
        if types[column] in ("float", "comma"):
            infinite = pc.fill_null(pc.is_inf(attrs[name]), fill_value=False)
            rows = infinite.to_numpy(zero_copy_only=False)
            why = "is beyond what a float holds"
            faults += column_faults(rows, lines, column, columns[column], why)
    place = {int(line): row for row, line in enumerate(lines)} if faults else {}

    def text_of(line: int) -> str:
        if line in text.broken:
            return text.broken[line][1]
        row = place[line] if place else int(np.searchsorted(lines, line))
        return json.dumps({name: column[row].as_py() for name, column in columns.items()})

    return RowBatch(lines, fields, attrs, faults, text_of)


def _int_field(text: pa.Array, lines: np.ndarray, column: str) -> tuple[pa.Array, list[Fault]]:
    """An integer field; faults where the text is no integer of 64 bits."""
    whole = _whole(text) if _all_match(text, _INT_FIELD) else None
    if whole is not None:
        return whole, []
    values: list[int | None] = []
    faults: list[Fault] = []
    for value, line in zip(text.to_pylist(), lines, strict=True):
        whole = value is not None and re.search(_INT_FIELD, value) is not None
        # Python refuses to convert thousands of digits, so they are cut: still beyond 64 bits.
        number = int(value.lstrip("0")[:_DIGITS_SHOWN] or "0") if whole else None
        if number is not None and not INT64_MIN <= number <= INT64_MAX:
            shown = value if len(value) <= _DIGITS_SHOWN else value[:_DIGITS_SHOWN] + "..."
            faults.append(Fault(int(line), f'column "{column}": {shown} is beyond 64 bits'))
            number = None
        elif value is not None and number is None:
            said = f'column "{column}": "{value[:40]}" is not an integer'
            faults.append(Fault(int(line), f"{said}; {as_attribute(column)}"))
        values.append(number)
    return pa.array(values, pa.int64()), faults


def _all_match(text: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(text, pattern)).as_py() is not False


def _whole(text: pa.Array) -> pa.Array | None:
    """``text``, which matches an integer pattern, as int64; None when one is beyond it."""
    try:
        return text.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _converted(text: pa.Array, type_: str) -> pa.Array:
    if type_ == "bool":
        return pc.equal(pc.utf8_lower(text), "true")
    if type_ == "comma":
        return pc.replace_substring(text, ",", ".").cast(pa.float64())
    return text.cast({"int": pa.int64(), "float": pa.float64(), "text": STRING}[type_])
