"""One type per attribute through all that a trace has of a site: int, float, bool or text.

Whole numbers and fractions mix (the column becomes float); anything else is a fault that
names the line which set the type.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from engine.log.record.record_rules import Fault
from engine.log.record.trace_record import quoted
from engine.stream.frame import STRING

_WORDS: Final[dict[type, str]] = {
    int: "a number",
    float: "a number",
    str: "text",
    bool: "true or false",
}
_ARROW: Final[dict[type, pa.DataType]] = {
    int: pa.int64(),
    float: pa.float64(),
    str: STRING,
    bool: pa.bool_(),
}
_EXACT_MAX: Final = 2**53


class KnownType(NamedTuple):
    """A type, and the line that set it."""

    type: type
    line: int


class AttrTypes(Struct):
    """The types seen so far of values of one trace, by what they are called."""

    known: dict[Hashable, KnownType] = field(default_factory=dict)

    def column(
        self, names: Collection[Hashable], values: Sequence[Any], lines: np.ndarray, label: str
    ) -> tuple[pa.Array | None, list[Fault]]:
        """The Arrow column of ``values`` (None = not given), or the faults that prevent it.

        Args:
            names: under which the type is remembered; several have one type if they had one.
            values: int, float, bool, str or None each, checked by ``trace_record``.
            lines: their line numbers, ascending.
            label: how messages call the value.
        """
        known = next((self.known[name] for name in names if name in self.known), None)
        types = set(map(type, values)) - {type(None)}
        if known is not None:
            types.add(known.type)
        if not types:
            return None, []
        if len(types) == 1 or types == {int, float}:
            kind = float if float in types else types.pop()
            faults = self._inexact(values, lines, label, known) if kind is float else []
            if faults:
                return None, faults
            if known is None:
                first = next((row for row, value in enumerate(values) if value is not None), 0)
                known = KnownType(kind, int(lines[first]))
            for name in names:
                own = self.known.get(name, known)
                self.known[name] = KnownType(kind, own.line)
            if kind is float and int in types:  # Arrow takes none beyond 2**53, exact or not
                values = [None if value is None else float(value) for value in values]
            return pa.array(values, type=_ARROW[kind]), []
        return None, self._mixed(values, lines, label, known)

    def _mixed(
        self, values: Sequence[Any], lines: np.ndarray, label: str, known: KnownType | None
    ) -> list[Fault]:
        faults = []
        for value, line in zip(values, lines, strict=True):
            if value is None:
                continue
            if known is None:
                known = KnownType(type(value), int(line))
            elif _WORDS[type(value)] != _WORDS[known.type]:
                faults.append(Fault(int(line), (
                    f"{label} is {_WORDS[type(value)]} here ({quoted(value)}) but "
                    f"{_WORDS[known.type]} on line {known.line}; give it one type throughout"
                )))  # fmt: skip
        return faults

    def _inexact(
        self, values: Sequence[Any], lines: np.ndarray, label: str, known: KnownType | None
    ) -> list[Fault]:
        """Whole numbers that a float column cannot hold exactly."""
        column = np.array([0 if value is None else value for value in values], np.float64)
        faults = []
        for row in map(int, np.flatnonzero(np.abs(column) >= _EXACT_MAX)):
            value = values[row]
            if type(value) is int and int(float(value)) != value:
                since = "" if known is None or known.type is int else f" (since line {known.line})"
                faults.append(Fault(int(lines[row]), (
                    f"{label} {value} cannot be held exactly, as {label} also has fractions{since}"
                )))  # fmt: skip
        return faults
