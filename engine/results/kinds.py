"""Kinds of results: their fields, their tables, their JSON lines. Adding one is one line here.

Sinks, exports and hosts know kinds by this registry alone; an operator's columns name theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from engine.errors import ContractViolation
from engine.operator import Result
from engine.results.match_lines import match_pieces
from engine.results.schema import (
    MATCH_SCHEMA,
    MATCHES,
    WINDOW_SCHEMA,
    WINDOWS,
    match_rows,
    window_rows,
)
from engine.results.window_lines import window_pieces


@dataclass(frozen=True, slots=True)
class ResultKind:
    """What is known of a kind.

    Attributes:
        name: of its folder, and of its columns (``engine.operator.ResultColumns.kind``).
        mark: the field that its results have and no other kind's.
        schema: of its tables; columns may have other types where the query decides.
        rows: (positions, results as dicts) -> a table of ``schema``.
        lines: (table, unit [ns], labels of values that are times) -> its JSON lines with their
            ends, some at a time.
    """

    name: str
    mark: str
    schema: pa.Schema
    rows: Callable[[Sequence[int], Sequence[Result]], pa.Table]
    lines: Callable[[pa.Table, int, Collection[str]], Iterator[pa.Array]]


KINDS: Final[dict[str, ResultKind]] = {
    kind.name: kind
    for kind in (
        ResultKind(MATCHES, "events", MATCH_SCHEMA, match_rows, match_pieces),
        ResultKind(WINDOWS, "window", WINDOW_SCHEMA, window_rows, window_pieces),
    )
}


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
