"""From the columns of a row-wise table (CSV, Parquet) to frames.

Which column is which record field comes from a mapping and from equal names; the rest become
attributes. All work is on whole columns.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from slackwater.edge_agent import records as r
from slackwater.edge_agent.errors import did_you_mean
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.log.input.input_read import InputRead, Rows
from slackwater.engine.log.record.record_rules import FIELDS_OF_KIND, Fault
from slackwater.engine.log.record.times import NOT_TIME

_TIMELY: Final = re.compile(r"(?i)time|date|datum|zeit|stamp|^_?t$|_at$|index_level_0")
_OF_OTHER_KINDS: Final = FIELDS_OF_KIND[Kind.SYNC] - FIELDS_OF_KIND[Kind.EVENT]
"""Columns that are no record field where every row is an event: somebody's own ``delay``."""
FIELDS: Final = tuple(name for name in r.RECORD_FIELDS if name != r.ATTRS)


class ColumnPlan(Struct, frozen=True):
    """``fields``: record field -> column; ``attrs``: attribute -> column."""

    fields: dict[str, str]
    attrs: dict[str, str]


def plan_columns(
    name: str,
    columns: Sequence[str],
    mapping: Mapping[str, str],
    attrs: Sequence[str] | None = None,
    foreign: Collection[str] = (),
) -> ColumnPlan:
    """Which column is what.

    Args:
        name: the input, for messages.
        columns: the names it has.
        mapping: record field, or ``attrs.NAME``, -> column.
        attrs: columns that become attributes when not mapped; None = all the rest.
        foreign: columns that have the name of a field by chance.

    Raises:
        UserError: an unknown field or column, two columns of one name or for one attribute.
    """
    columns = [each for each in columns if each]  # one without a name could not be asked for
    twice = sorted({each for each in columns if columns.count(each) > 1})
    if twice:
        raise UserError(f'{name}:1: column "{twice[0]}" is there twice; rename one')
    fields: dict[str, str] = {}
    named: dict[str, str] = {}
    for target, column in mapping.items():
        if column not in columns and not set(column.split("+")) <= set(columns):
            hint = did_you_mean(column, columns)
            raise UserError(f'{name}:1: no column "{column}" (wanted for {target}){hint}')
        check_target(target, column)
        if target in FIELDS:
            fields[target] = column
        else:
            named[target.removeprefix(ATTR_PREFIX)] = column
    used = {part for column in mapping.values()
            for part in ([column] if column in columns else column.split("+"))}  # fmt: skip
    all_events = r.KIND not in fields and (r.KIND not in columns or r.KIND in foreign)
    for column in columns:
        if column in foreign or (all_events and column in _OF_OTHER_KINDS):
            continue
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
            f'{name}:1: no column is "ts", the event time; say which, as in --map '
            f"ts={time_hint(columns) or 'COLUMN'} "
            f"(columns: {', '.join(columns)})"
        )
    return ColumnPlan(fields, named)


def check_target(target: str, column: str) -> None:
    """Refuses to map to what is neither a field nor an attribute.

    Raises:
        UserError: names the fields.
    """
    if target not in FIELDS and not target.removeprefix(ATTR_PREFIX) != target:
        raise UserError(
            f'cannot map "{column}" to "{target}": not a record field'
            f"{did_you_mean(target, FIELDS)} (or attrs.NAME)"
        )


def time_hint(columns: Sequence[str]) -> str | None:
    """The column that by its name is most likely the event time, if any is."""
    named = [each for each in columns if _TIMELY.search(each)]
    return min(named, key=len) if named else None


class RowBatch(Struct):
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


class RowRead(InputRead):
    """A table being read, one record a row."""

    def _read(self) -> Iterator[Rows]:
        for batch in self._batches():
            self._check(batch)
            yield batch.fields, batch.attrs, batch.lines

    def _nothing(self) -> Exception:
        what = f"none of its {self.bad_count} rows is a record" if self.bad_count else "no rows"
        return UserError(f"{self.path}: {what}")

    @abstractmethod
    def _batches(self) -> Iterator[RowBatch]:
        """The table in parts of bounded size."""

    def _check(self, batch: RowBatch) -> None:
        """Takes out the rows with faults, and reports these."""
        faults = list({fault.line: fault for fault in reversed(batch.faults)}.values())
        batch.faults = []
        _drop(batch, faults)
        if len(batch.lines):
            found = self._intake.check(batch.fields, batch.lines, ordered=self._sorter is None)
            faults += found
            _drop(batch, found)
        self._bad.report(faults, batch.text_of)


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


def time_faults(
    reasons: Mapping[int, str], lines: np.ndarray, column: str, values: pa.Array
) -> list[Fault]:
    """Faults of ``engine.log.record.times``, naming the column and the value."""
    faults = []
    for row, why in reasons.items():
        said = why
        if not why.startswith('"'):
            said = f'column "{column}": {_shown(values[row].as_py())} {why}'
            if column != r.TS and why == NOT_TIME:
                said += f"; {as_attribute(column)}"
        faults.append(Fault(int(lines[row]), said))
    return faults


def as_attribute(column: str) -> str:
    """The remedy for a column that has the name of a field by chance."""
    return f"--map attrs.{column}={column} makes it an attribute"


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
