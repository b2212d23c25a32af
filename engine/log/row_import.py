"""From the columns of a row-wise table (CSV, Parquet) to frames.

Which column is which record field comes from a mapping and from equal names; the rest become
attributes. All work is on whole columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edge_agent import records as r
from engine.errors import UserError, did_you_mean
from engine.frame import ATTR_PREFIX, Frame
from engine.log.bad_lines import BadLines, Fault
from engine.log.intake import Intake
from engine.log.lines import CHUNK_LINES
from engine.units import unit_ns

FIELDS: Final = tuple(name for name in r.RECORD_FIELDS if name != r.ATTRS)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """``fields``: record field -> column; ``attrs``: attribute -> column."""

    fields: dict[str, str]
    attrs: dict[str, str]


def plan_columns(
    name: str,
    columns: Sequence[str],
    mapping: Mapping[str, str],
    attrs: Sequence[str] | None = None,
) -> ColumnPlan:
    """Which column is what.

    Args:
        name: the input, for messages.
        columns: the names it has.
        mapping: record field, or ``attrs.NAME``, -> column.
        attrs: columns that become attributes when not mapped; None = all the rest.

    Raises:
        UserError: an unknown field or column, two columns of one name or for one attribute.
    """
    twice = sorted({each for each in columns if columns.count(each) > 1})
    if twice:
        raise UserError(f'{name}:1: column "{twice[0]}" is there twice; rename one')
    fields: dict[str, str] = {}
    named: dict[str, str] = {}
    for target, column in mapping.items():
        if column not in columns:
            hint = did_you_mean(column, columns)
            raise UserError(f'{name}:1: no column "{column}" (wanted for {target}){hint}')
        if target in FIELDS:
            fields[target] = column
        elif target.startswith(ATTR_PREFIX):
            named[target.removeprefix(ATTR_PREFIX)] = column
        else:
            raise UserError(
                f'cannot map "{column}" to "{target}": not a record field'
                f"{did_you_mean(target, FIELDS)} (or attrs.NAME)"
            )
    used = {*mapping.values()}
    for column in columns:
        if column in FIELDS and column not in fields and column not in used:
            fields[column] = column
            used.add(column)
    for column in columns if attrs is None else attrs:
        if column not in columns:
            raise UserError(f'{name}:1: no column "{column}"{did_you_mean(column, columns)}')
        if column in used:
            continue
        attribute = column.removeprefix(ATTR_PREFIX)
        if attribute in named:
            raise UserError(
                f'{name}:1: columns "{named[attribute]}" and "{column}" are both attribute '
                f'"{attribute}"; rename one'
            )
        named[attribute] = column
    if r.TS not in fields:
        raise UserError(
            f'{name}:1: no column is "ts", the event time; say which, as in --map ts=COLUMN '
            f"(columns: {', '.join(columns)})"
        )
    return ColumnPlan(fields, named)


@dataclass(slots=True)
class RowBatch:
    """Some rows of the table: typed columns of record fields and attributes.

    Attributes:
        lines: row numbers, ascending; a header is row 1.
        faults: rows that could not be typed (or read at all); what their columns hold is ignored.
        text_of: a row as text, for the dead-letter file.
    """

    lines: np.ndarray
    fields: dict[str, pa.Array]
    attrs: dict[str, pa.Array]
    faults: list[Fault]
    text_of: Callable[[int], str]


@dataclass
class RowRead(ABC):
    """A table being read: iterate it for its frames; counts grow meanwhile, as in ``TraceRead``."""

    path: str
    time_unit: str = "ns"
    on_bad: str = "stop"
    dead_letter: Path | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    attrs: Sequence[str] | None = None
    records: int = 0

    def __post_init__(self) -> None:
        self._unit_ns = unit_ns(self.time_unit)
        self._bad = BadLines(self.path, self.on_bad, self.dead_letter)
        self._intake = Intake(self._unit_ns)

    @property
    def bad_count(self) -> int:
        return self._bad.count

    @property
    def arrival_given(self) -> bool:
        return self._intake.arrival_given

    @property
    def frames(self) -> Iterator[Frame]:
        return iter(self)

    def __iter__(self) -> Iterator[Frame]:
        self.records = 0
        self._intake = Intake(self._unit_ns)
        with self._bad:
            for batch in self._batches():
                for frame in self._frames(batch):
                    for start in range(0, frame.rows, CHUNK_LINES):
                        yield frame.slice(start, min(CHUNK_LINES, frame.rows - start))
        if self.records == 0:
            what = f"none of its {self.bad_count} rows is a record" if self.bad_count else "no rows"
            raise UserError(f"{self.path}: {what}")

    @abstractmethod
    def _batches(self) -> Iterator[RowBatch]:
        """The table in parts of bounded size."""

    def _frames(self, batch: RowBatch) -> list[Frame]:
        faults = list({fault.line: fault for fault in reversed(batch.faults)}.values())
        batch.faults = []
        _drop(batch, faults)
        if len(batch.lines):
            found = self._intake.check(batch.fields, batch.lines)
            faults += found
            _drop(batch, found)
        self._bad.report(faults, batch.text_of)
        self.records += len(batch.lines)
        return self._intake.frames(batch.fields, batch.attrs, batch.lines)


def _drop(batch: RowBatch, faults: list[Fault]) -> None:
    keep = ~np.isin(batch.lines, [fault.line for fault in faults])
    if keep.all():
        return
    kept = pa.array(keep)
    batch.lines = batch.lines[keep]
    batch.fields = {name: column.filter(kept) for name, column in batch.fields.items()}
    batch.attrs = {name: column.filter(kept) for name, column in batch.attrs.items()}


def kind_codes(words: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Codes (int8) of kind names, and which rows name no kind."""
    names = pa.array(list(r.KIND_NAMES))
    place = pc.index_in(words, names, skip_nulls=True)
    codes = pa.array([int(kind) for kind in r.KIND_NAMES.values()], pa.int8()).take(place)
    unknown = pc.and_(words.is_valid(), place.is_null())
    return codes, unknown.to_numpy(zero_copy_only=False)


def column_faults(
    rows: np.ndarray, lines: np.ndarray, column: str, values: pa.Array, why: str
) -> list[Fault]:
    """One fault per marked row, naming the column and the value; ``why`` follows the value."""
    return [
        Fault(int(lines[row]), f'column "{column}": {_shown(values[int(row)].as_py())} {why}')
        for row in np.flatnonzero(rows)
    ]


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
