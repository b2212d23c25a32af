"""Results as an operator gives them, with what rules ask of them, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.operator import Result, ResultColumns
from slackwater.engine.output.kinds import identities, numbers_of_texts
from slackwater.engine.output.schema import EMISSION
from slackwater.engine.query.plan import Attribute, Expression
from slackwater.engine.query.values import Value

_TOLD: Final = (*EMISSION, "known_at")
_NUMBERS: Final = {"int": np.int64, "float": np.float64, "str": np.int64}


@runtime_checkable
class ValuedResults(Protocol):
    """Results with values by name, not only as lines."""

    def attribute_values(self, asked: Sequence[Attribute]) -> list[Value]:
        """Their values of these attributes, each an array as long as the results."""

    def history_keys(self, key: Sequence[Expression]) -> pa.Array:
        """Per result a text that is the same where one history is."""


@dataclass(frozen=True, slots=True)
class NewResults:
    """Results of one query in order of emission.

    Attributes:
        tables: of their kind's schema, one after another.
        starts: the first result of each table, and behind the last one their number.
        identity: int64, equal where ``-`` takes ``+`` back.
        key: int64, equal where one history is.
        at: int64 [ns], when they were emitted.
        plus: bool.
        place: int64, their numbers among all results of the query.
        values: of what its rules ask for.
    """

    tables: list[pa.Table]
    starts: np.ndarray
    identity: np.ndarray
    key: np.ndarray
    at: np.ndarray
    plus: np.ndarray
    place: np.ndarray
    values: list[Value]


def read_results(
    pieces: Sequence[Sequence[Result]], kind: str, asked: Sequence[Attribute],
    key: Sequence[Expression], first: int,
) -> NewResults:  # fmt: skip
    """Results of ``kind`` as columns; ``first``: the number of the first one.

    Raises:
        ContractViolation: a piece has no values by name.
    """
    tables: list[pa.Table] = []
    values: list[list[Value]] = [[] for _ in asked]
    lengths: list[int] = []
    keys: list[pa.Array] = []
    for piece in pieces:
        if not isinstance(piece, ResultColumns) or not isinstance(piece, ValuedResults):
            raise ContractViolation(f"{type(piece).__name__} tells no values: no CHECK of these")
        tables += type(piece).tables([piece])
        keys.append(piece.history_keys(key))
        lengths.append(len(piece))
        for column, value in zip(values, piece.attribute_values(asked), strict=True):
            column.append(value)
    n = sum(lengths)
    none = [np.zeros(0, np.int64)]
    at = [table.column("at").to_numpy() for table in tables]
    plus = [np.asarray(table.column("op").cast(pa.string()).to_numpy() == "+") for table in tables]
    return NewResults(
        tables,
        np.cumsum([0, *(table.num_rows for table in tables)]),
        _half(identities(kind, tables, _TOLD)),
        np.concatenate([*none, *map(keys_of, keys)]),
        np.concatenate([*none, *at]),
        np.concatenate([np.zeros(0, np.bool_), *plus]),
        np.arange(first, first + n),
        [_joined(column, lengths) for column in values],
    )


def keys_of(texts: pa.Array) -> np.ndarray:
    """Of texts, int64 that are equal where they are."""
    return _half(numbers_of_texts(texts))


def _half(numbers: np.ndarray) -> np.ndarray:
    """64 of their bits: of 10 million, two share theirs once in 400,000."""
    return numbers[:, 0]


def _joined(values: Sequence[Value], lengths: Sequence[int]) -> Value:
    """One after another: null where a piece has none, and floats where one has them."""
    kinds = {value.kind for value in values} - {"null"}
    if not kinds:
        return Value("null", None, None)
    kind = "float" if kinds == {"int", "float"} else kinds.pop()
    data, valid = [], []
    for value, n in zip(values, lengths, strict=True):
        fits = value.kind == kind or (kind == "float" and value.kind == "int")
        data.append(
            np.broadcast_to(np.asarray(value.data, _NUMBERS[kind]), (n,))
            if fits
            else np.zeros(n, _NUMBERS[kind])
        )
        known = np.full(n, fits)
        valid.append(known if value.valid is None or not fits else known & value.valid)
    return Value(kind, np.concatenate(data), np.concatenate(valid))


def taken_values(values: Sequence[Value], rows: np.ndarray) -> list[Value]:
    """Those at ``rows``."""
    return [
        value
        if value.kind == "null"
        else Value(value.kind, value.data[rows], None if value.valid is None else value.valid[rows])
        for value in values
    ]
