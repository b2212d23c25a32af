"""Kinds of results: their fields, their tables, their JSON lines. Adding one is one line.

Sinks, exports and hosts know kinds by this registry alone; an operator's columns name theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from msgspec import Struct

from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.operator import Result
from slackwater.engine.output.json_lines import Dates, in_units, result_lines
from slackwater.engine.output.schema import (
    ALERT_SCHEMA,
    ALERTS,
    ITEM_SCHEMA,
    ITEMS,
    MATCH_SCHEMA,
    MATCHES,
    POSITION,
    SHARED_FIELDS,
    WINDOW_EXTRAS,
    WINDOW_SCHEMA,
    WINDOWS,
    rows_of,
)

_AT_ONCE: Final = 1 << 13
"""Rows: bounds the texts in memory."""


class ResultKind(Struct, frozen=True):
    """What is known of a kind.

    Attributes:
        name: of its folder, and of its columns (``engine.core.operator.ResultColumns.kind``).
        mark: the field that its results have and no other kind's.
        schema: of its tables; columns may have other types where the query decides.
        times: fields that are times [ns], shown in the unit asked for.
        optional: fields that a line has only where they are not null.
    """

    name: str
    mark: str
    schema: pa.Schema
    times: frozenset[str] = frozenset({"at", "ts"})
    optional: frozenset[str] = frozenset()

    def rows(self, positions: Sequence[int], results: Sequence[Result]) -> pa.Table:
        """Results as a table of ``schema``; ``positions``: their places in their batch."""
        return rows_of(self.schema, positions, results)

    def lines(
        self, table: pa.Table, unit: int, times: Collection[str] = (), dates: Dates | None = None
    ) -> Iterator[pa.Array]:
        """The JSON lines of a ``table`` with their ends, some at a time.

        ``times``: labels of values that are times, too. ``dates``: see ``JsonTexts``.
        """
        if times:
            queries = table.column("query").unique().to_pylist()
            table = in_units(table, unit, dict.fromkeys(queries, times))
        for start in range(0, table.num_rows, _AT_ONCE):
            some = table.slice(start, _AT_ONCE)
            yield result_lines(some, self.schema, self.times, self.optional, unit, dates)


def plain_kind(
    name: str, mark: str, fields: Mapping[str, pa.DataType], times: Collection[str] = ()
) -> ResultKind:
    """A kind with these ``fields`` after those that all results have (``op query site at``).

    Args:
        name: of its folder.
        mark: one of the fields, that no other kind has.
        fields: with Arrow's types; no structs.
        times: those that are times [ns].
    """
    schema = pa.schema({POSITION: pa.int64(), **SHARED_FIELDS, **fields})
    return ResultKind(name, mark, schema, frozenset({"at", *times}))


KINDS: Final[dict[str, ResultKind]] = {
    kind.name: kind
    for kind in (
        ResultKind(
            MATCHES, "events", MATCH_SCHEMA, frozenset({"at", "known_at", "ts", "te", "ref"}),
            frozenset({"value"}),
        ),
        ResultKind(
            WINDOWS, "window", WINDOW_SCHEMA, frozenset({"at", "start", "end"}),
            frozenset(WINDOW_EXTRAS),
        ),
        ResultKind(ALERTS, "alert", ALERT_SCHEMA),
        ResultKind(ITEMS, "item", ITEM_SCHEMA, optional=frozenset({"certainty"})),
    )
}  # fmt: skip


def kind_of(result: Result) -> ResultKind:
    """The kind of a result.

    Raises:
        ContractViolation: of none, or of more than one.
    """
    found = [kind for kind in KINDS.values() if kind.mark in result]
    if len(found) != 1:
        marks = ", ".join(kind.mark for kind in KINDS.values())
        raise ContractViolation(f"a result has one of {marks}, not {sorted(result)}")
    return found[0]
