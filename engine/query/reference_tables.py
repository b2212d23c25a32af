"""Reference tables: static data, such as the room of each tag, which LOOKUP joins to events.

A table is small and does not change during a run. LOOKUP is a LEFT JOIN by a unique key: events get
the table's columns as attributes before they are ordered, so operators need no tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeGuard

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX, Frame, attribute_type
from slackwater.engine.query.analysis.value_kinds import attribute_of
from slackwater.engine.query.fields import ATTRS, FIELDS
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import QueryReader, closest, listed, or_meant

# A table, and its rows by a key.


ROWS_MAX: Final = 1_000_000
"""Limit of a table: it is in memory, and on Spark part of the plan."""
_WHOLE: Final = 2.0**63


class _Numbers(NamedTuple):
    """Keys in ascending order, and the row of each."""

    keys: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class ReferenceTable:
    """A table with the ``name`` that queries use; equal tables have the same name and content.

    ``columns``: int64, float64, bool or text. ``source``: its origin, for messages; ``lines``: line
    numbers of its rows, each called a ``unit``.
    """

    name: str
    source: str = field(repr=False, compare=False)
    columns: Mapping[str, pa.Array] = field(repr=False, compare=False)
    lines: np.ndarray = field(repr=False, compare=False)
    unit: str = field(default="line", repr=False, compare=False)
    digest: str = field(init=False)
    _by_key: dict[str, dict[str, int] | _Numbers] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        content = [(name, str(of.type), of.to_pylist()) for name, of in self.columns.items()]
        digest = sha256(msgspec.msgpack.encode(content)).hexdigest()
        object.__setattr__(self, "digest", digest)

    @property
    def types(self) -> dict[str, str]:
        """Type (``int float bool str``) of each column."""
        return {name: attribute_type(column.type) for name, column in self.columns.items()}

    def rows_of(self, key: str, values: pa.Array) -> np.ndarray:
        """Return the row for each of ``values`` in column ``key``; -1: none."""
        found = self.by_key(key)
        if isinstance(found, dict):
            return _rows_of_texts(found, values)
        return _rows_of_numbers(found, values)

    def by_key(self, key: str) -> dict[str, int] | _Numbers:
        """Return the rows by the column ``key``, which is text or a number.

        Raises:
            UserError: two rows have the same key; the message has their lines.
        """
        if key not in self._by_key:
            column = self.columns[key]
            rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            known = column.take(pa.array(rows))
            if self.types[key] == "str":
                self._by_key[key] = self._of_texts(key, known.to_pylist(), rows)
            else:
                self._by_key[key] = self._of_numbers(key, known.to_numpy(), rows)
        return self._by_key[key]

    def _of_texts(self, key: str, texts: list[str], rows: np.ndarray) -> dict[str, int]:
        found: dict[str, int] = {}
        for text, row in zip(texts, rows.tolist(), strict=True):
            if found.setdefault(text, row) != row:
                raise self._twice(key, repr(text), found[text], row)
        return found

    def _of_numbers(self, key: str, numbers: np.ndarray, rows: np.ndarray) -> _Numbers:
        places = np.argsort(numbers, kind="stable")
        ordered = numbers[places]
        same = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(same):
            first, second = rows[places[same[0]]], rows[places[same[0] + 1]]
            raise self._twice(key, repr(ordered[same[0]].item()), int(first), int(second))
        return _Numbers(ordered, rows[places])

    def _twice(self, key: str, value: str, first: int, second: int) -> UserError:
        lines = f"{self.unit}s {self.lines[first]} and {self.lines[second]}"
        return UserError(
            f"{self.source}: {lines} have the same {key} {value}, so LOOKUP {self.name} cannot "
            "choose; keep one of them"
        )


Tables = Mapping[str, ReferenceTable]
"""Reference tables by name."""
NO_TABLES: Final[Tables] = {}


def _rows_of_texts(by_text: dict[str, int], values: pa.Array) -> np.ndarray:
    if not pa.types.is_dictionary(values.type):
        if attribute_type(values.type) != "str":
            return np.full(len(values), -1)
        values = values.dictionary_encode()
    rows = [by_text.get(text, -1) for text in values.dictionary.to_pylist()]
    places = values.indices.fill_null(len(rows))
    found = np.array([*rows, -1], np.int64)
    return np.asarray(found[places.to_numpy(zero_copy_only=False)])


def _rows_of_numbers(by_number: _Numbers, values: pa.Array) -> np.ndarray:
    """Return rows by number; an integer equals a float of the same value only."""
    rows = np.full(len(values), -1)
    if attribute_type(values.type) not in ("int", "float") or not len(by_number.keys):
        return rows
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    sought, exact = numbers, values.is_valid().to_numpy(zero_copy_only=False)
    is_whole = [np.issubdtype(each.dtype, np.integer) for each in (by_number.keys, numbers)]
    if is_whole == [True, False]:
        exact = exact & (np.floor(numbers) == numbers) & (np.abs(numbers) < _WHOLE)
        sought = np.where(exact, numbers, 0).astype(np.int64)
    elif is_whole == [False, True]:
        sought = numbers.astype(np.float64)
        exact = exact & (sought < _WHOLE)
        exact &= np.where(exact, sought, 0).astype(np.int64) == numbers
    places = np.minimum(np.searchsorted(by_number.keys, sought), len(by_number.keys) - 1)
    found = exact & (by_number.keys[places] == sought)
    rows[found] = by_number.rows[places[found]]
    return rows


# The lookups of a plan, and events with the columns they add.


_KEYS: Final = (r.SOURCE, r.STREAM, r.TYPE, r.SITE)
"""Record fields that may be lookup keys."""


class TableLookup(Struct, frozen=True):
    """``LOOKUP table alias ON step.attribute = alias.key``: events get the ``columns`` of ``table``
    as attributes ``alias.column``, null if no row has their ``attribute``.

    ``step``: the step of the lookup; None: any step. ``at``: place of the attribute in the text.
    """

    alias: str
    table: ReferenceTable
    key: str
    attribute: str
    step: str | None
    columns: tuple[str, ...]
    at: tuple[int, int]

    @property
    def types(self) -> dict[str, str]:
        """Types of the added attributes, by name."""
        types = self.table.types
        return {f"{self.alias}.{column}": types[column] for column in self.columns}

    def event_keys(self, frame: Frame) -> pa.Array | None:
        """Return the values of ``attribute`` in the frame's records; None: there are none."""
        is_attr, names = self.attribute not in _KEYS, frame.batch.schema.names
        name = ATTR_PREFIX + self.attribute.removeprefix(ATTR_PREFIX) if is_attr else self.attribute
        fixed = {r.SITE: frame.site, r.STREAM: r.DEFAULT_STREAM}
        if name in names:
            values = frame.batch.column(name)
            if name == r.STREAM:
                values = values.cast(pa.string()).fill_null(r.DEFAULT_STREAM)
            return None if pa.types.is_null(values.type) else values
        return pa.repeat(fixed[name], frame.rows) if name in fixed else None


def merge_lookups(lookups: Mapping[str, Sequence[TableLookup]]) -> tuple[TableLookup, ...]:
    """Return the combined lookups of all queries (by name) of a pass.

    Raises:
        UserError: an alias has two meanings.
    """
    found: dict[str, tuple[str, TableLookup]] = {}
    for query, each in ((query, each) for query, all_ in lookups.items() for each in all_):
        of, known = found.setdefault(each.alias, (query, each))
        if (known.table, known.key, known.attribute) != (each.table, each.key, each.attribute):
            raise UserError(
                f"queries {of!r} and {query!r} look up different things as {each.alias!r}; give "
                f"one another name: LOOKUP {each.table.name} AS {each.alias}2 ON "
                f"... = {each.alias}2.{each.key}"
            )
        columns = tuple(dict.fromkeys((*known.columns, *each.columns)))
        found[each.alias] = of, replace(known, columns=columns)
    return tuple(lookup for _, lookup in found.values())


def with_lookups(
    frame: Frame,
    lookups: Sequence[TableLookup],
    columns_read: set[str] | None,
    missed: Counter[str],
) -> Frame:
    """Return the frame with columns of tables.

    Args:
        frame: a frame of a log.
        lookups: lookups of the pass.
        columns_read: columns that the pass reads; None: all.
        missed: counts events without a row for their key, by alias.
    """
    batch = frame.batch
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for lookup in lookups:
        values = lookup.event_keys(frame)
        if values is None:
            continue
        rows = lookup.table.rows_of(lookup.key, values)
        lost = (rows < 0) & values.is_valid().to_numpy(zero_copy_only=False)
        if r.KIND in columns:
            kinds = columns[r.KIND].fill_null(int(r.Kind.EVENT)).to_numpy(zero_copy_only=False)
            lost &= kinds == int(r.Kind.EVENT)
        missed[lookup.alias] += int(lost.sum())
        places = pa.array(rows, mask=rows < 0)
        for column in lookup.columns:
            name = f"{ATTR_PREFIX}{lookup.alias}.{column}"
            if columns_read is None or name in columns_read:
                columns[name] = lookup.table.columns[column].take(places)
    return Frame(frame.site, pa.RecordBatch.from_pydict(columns))


# From LOOKUP in a query's text to the lookups of its plan.


_TABLE_HINT: Final = (
    "say where it is: --table {0}={0}.csv; [[table]] of a server, [tables] of a scenario file"
)


def read_lookups(
    parsed: s.EventQuery | s.SelectQuery, text: str, tables: Tables
) -> tuple[s.EventQuery | s.SelectQuery, tuple[TableLookup, ...]]:
    """Return the query without LOOKUP, with columns as attributes of steps; and the lookups.

    Raises:
        UserError: a table, column, step or condition is invalid; the message has the place.
    """
    return _Lookups(parsed, text, tables).read()


class _Lookups(QueryReader):
    """The LOOKUP clauses of one query."""

    def __init__(self, parsed: s.EventQuery | s.SelectQuery, text: str, tables: Tables) -> None:
        self.parsed, self.text, self.tables = parsed, text, tables
        self.owners = list(_owners(parsed))
        self.found: dict[str, TableLookup] = {}
        self.keys_named: set[str] = set()

    def read(self) -> tuple[s.EventQuery | s.SelectQuery, tuple[TableLookup, ...]]:
        rest = []
        for clause in self.parsed.clauses:
            if isinstance(clause, s.LookupClause):
                lookup = self._lookup(clause)
                self.found[lookup.alias] = lookup
            else:
                rest.append(clause)
        parsed = self._named(self.parsed._replace(clauses=tuple(rest)))
        return parsed, tuple(
            each if alias in self.keys_named
            else replace(each, columns=tuple(c for c in each.columns if c != each.key))
            for alias, each in self.found.items()
        )  # fmt: skip

    def _lookup(self, clause: s.LookupClause) -> TableLookup:
        name, alias = clause.table.text, clause.alias or clause.table
        if name not in self.tables:
            near = closest(name, self.tables)
            there = f"there is {listed(sorted(self.tables))}; {near}" if self.tables else ""
            hint = there if near else _TABLE_HINT.format(name)
            raise self.refuse(clause.table.at, f"there is no table {name!r}", hint)
        if alias.text in (*self.owners, *self.found, ATTRS):
            hint = f"give it another name: LOOKUP {name} AS {name}2 ON ... = {name}2.key"
            raise self.refuse(alias.at, f"{alias.text!r} is the name of something else", hint)
        table = self.tables[name]
        event, key = self._sides(clause, alias.text)
        column = self._column(key.parts[1:], table)
        if table.types[column] == "bool":
            hint = "a key is text or a number"
            raise self.refuse(key.at, f"{column!r} is a truth value", hint)
        before, attribute = attribute_of(event.parts)
        self._check_owner(event, before)
        if attribute in FIELDS and attribute not in _KEYS:
            what = FIELDS[attribute]
            hint = f"look up an attribute, or {listed(_KEYS)}; of an attribute of this name, attrs."
            raise self.refuse(event.at, f"{attribute!r} is {what} of every event, no key", hint)
        table.by_key(column)
        by_step = before and not any(isinstance(c, s.From) for c in self.parsed.clauses)
        step = before[0].text if by_step else None
        columns = tuple(table.columns)
        return TableLookup(alias.text, table, column, attribute, step, columns, event.at)

    def _sides(self, clause: s.LookupClause, alias: str) -> tuple[s.Reference, s.Reference]:
        """Return the event's side of ON, and the table's."""
        node = clause.on
        if isinstance(node, s.Operation) and node.op == "=":
            first, second = node.parts
            for event, key in ((first, second), (second, first)):
                if (
                    _is_of(key, alias)
                    and isinstance(event, s.Reference)
                    and not _is_of(event, alias)
                ):
                    return event, key
        owner = f"{self.owners[0]}." if len(self.owners) > 1 else ""
        hint = f"as in ON {owner}tag = {alias}.{next(iter(self.tables[clause.table.text].columns))}"
        message = "ON says which attribute equals which column of the table, and no more"
        raise self.refuse(node.at, message, hint)

    def _check_owner(self, event: s.Reference, before: Sequence[s.Name]) -> None:
        if len(before) > 1:
            raise self.refuse(event.at, "too many dots", 'as in a.v, a.attrs.v or a."x.y"')
        if before and before[0].text not in self.owners:
            near = closest(before[0].text, self.owners)
            known = f"there is {listed(self.owners)}" if self.owners else "leave it out"
            message = f"there is no step or stream named {before[0].text!r}"
            raise self.refuse(before[0].at, message, near or known)
        if before and any(
            isinstance(c, s.From) and len(c.streams) > 1 for c in self.parsed.clauses
        ):
            message = "streams named in one FROM are read as one"
            raise self.refuse(before[0].at, message, f"leave out {before[0].text}.")

    def _column(self, names: Sequence[s.Name], table: ReferenceTable) -> str:
        """Return the column's name; columns of nested objects have dots in their names."""
        name, at = ".".join(each.text for each in names), (names[0].at[0], names[-1].at[1])
        if name not in table.columns:
            hint = or_meant(f"{table.source} has {listed(table.columns)}", name, table.columns)
            raise self.refuse(at, f"table {table.name!r} has no column {name!r}", hint)
        return name

    def _named(self, node: Any) -> Any:
        """Return ``node`` of a syntax tree with columns replaced by attributes of steps."""
        if isinstance(node, s.Reference):
            return self._reference(node)
        if not isinstance(node, tuple):
            return node
        parts = map(self._named, node)
        return type(node)(*parts) if hasattr(node, "_fields") else tuple(parts)

    def _reference(self, reference: s.Reference) -> s.Reference:
        *before, last = reference.parts
        alias, dot, column = last.text.partition(".")
        if dot and alias in self.found:  # the form in plans
            last = s.Name(column, last.at)
            before.append(s.Name(alias, last.at))
        parts = (*before, last)
        owner, rest = (parts[:1], parts[1:]) if parts[0].text not in self.found else ((), parts)
        if len(rest) < 2 or rest[0].text not in self.found:
            return reference
        lookup = self.found[rest[0].text]
        column = self._column(rest[1:], lookup.table)
        if column == lookup.key:
            self.keys_named.add(lookup.alias)
        if owner and lookup.step is not None and owner[0].text != lookup.step:
            hint = (
                f"of {owner[0].text!r}: LOOKUP {lookup.table.name} AS {lookup.alias}2 ON "
                f"{owner[0].text}.{lookup.attribute} = {lookup.alias}2.{lookup.key}"
            )
            message = f"{lookup.alias!r} is looked up for {lookup.step!r}"
            raise self.refuse(reference.at, message, hint)
        if not owner and lookup.step is not None:
            owner = (s.Name(lookup.step, rest[0].at, quoted=True),)
        at = rest[0].at[0], rest[-1].at[1]
        merged = s.Name(f"{lookup.alias}.{column}", at, quoted=True)
        return reference._replace(parts=(*owner, merged))


def _is_of(node: s.Node, alias: str) -> TypeGuard[s.Reference]:
    return isinstance(node, s.Reference) and len(node.parts) > 1 and node.parts[0].text == alias


def _owners(parsed: s.EventQuery | s.SelectQuery) -> Iterator[str]:
    """Yield the qualifiers that may precede an attribute."""
    for node in s.walk(parsed.pattern if isinstance(parsed, s.EventQuery) else parsed):
        match node:
            case s.StepNode(type=name, alias=alias) | s.JoinSide(stream=name, alias=alias):
                yield (alias or name).text
            case s.GroupNode(alias=s.Name(text=text)):
                yield text
            case s.From(streams=streams, aliases=aliases):
                yield from (
                    (alias or name).text for name, alias in zip(streams, aliases, strict=True)
                )
