"""Results of operators in columns, with the values that rules read; and their history by query and
key, as far back as rules look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.operator import Restorable, Result, ResultColumns
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX, joined, take_rows
from slackwater.engine.output.result_kinds import identities, numbers_of_texts, partners
from slackwater.engine.output.schema import EMISSION
from slackwater.engine.query.plan import NEAR_COUNT, SINCE_LAST, Attribute, Expression, Lookup
from slackwater.engine.query.values import Value

# Results in columns.


_OF_EMISSION: Final = (*EMISSION, "known_at")
_NUMBERS: Final = {"int": np.int64, "float": np.float64, "str": np.int64}


@runtime_checkable
class ValuedResults(Protocol):
    """Results with values by name."""

    def attribute_values(self, attributes: Sequence[Attribute]) -> list[Value]:
        """The values of ``attributes``, each an array as long as the results."""

    def history_keys(self, key: Sequence[Expression]) -> pa.Array:
        """Per result a text; results with equal texts have one history."""


@dataclass(frozen=True, slots=True)
class NewResults:
    """Results of one query in order of emission.

    Attributes:
        tables: of their kind's schema, one after another.
        starts: the first result of each table, then the number of results.
        identity: int64, equal for ``+`` and the ``-`` that retracts it.
        key: int64, equal for results with one history.
        at: int64 [ns], the emission.
        plus: bool, insertion, else retraction.
        place: int64, the numbers among all results of the query.
        values: of the attributes that its rules read.
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
    pieces: Sequence[Sequence[Result]], kind: str, attributes: Sequence[Attribute],
    key: Sequence[Expression], first: int,
) -> NewResults:  # fmt: skip
    """Results of ``kind`` as columns; ``first``: the number of the first one.

    Raises:
        ContractViolation: a piece has no values by name.
    """
    tables: list[pa.Table] = []
    values: list[list[Value]] = [[] for _ in attributes]
    lengths: list[int] = []
    keys: list[pa.Array] = []
    for piece in pieces:
        if not isinstance(piece, ResultColumns) or not isinstance(piece, ValuedResults):
            raise ContractViolation(f"{type(piece).__name__} tells no values: no CHECK of these")
        tables += type(piece).tables([piece])
        keys.append(piece.history_keys(key))
        lengths.append(len(piece))
        for column, value in zip(values, piece.attribute_values(attributes), strict=True):
            column.append(value)
    n = sum(lengths)
    none = [np.zeros(0, np.int64)]
    at = [table.column("at").to_numpy() for table in tables]
    plus = [np.asarray(table.column("op").cast(pa.string()).to_numpy() == "+") for table in tables]
    return NewResults(
        tables,
        np.cumsum([0, *(table.num_rows for table in tables)]),
        _half(identities(kind, tables, _OF_EMISSION)),
        np.concatenate([*none, *map(keys_of, keys)]),
        np.concatenate([*none, *at]),
        np.concatenate([np.zeros(0, np.bool_), *plus]),
        np.arange(first, first + n),
        [_joined_values(column, lengths) for column in values],
    )


def keys_of(texts: pa.Array) -> np.ndarray:
    """A hash of each text, int64."""
    return _half(numbers_of_texts(texts))


def _half(numbers: np.ndarray) -> np.ndarray:
    """64 bits of each identity: a collision among 10 million has a probability of 1 in 400,000."""
    return numbers[:, 0]


def _joined_values(values: Sequence[Value], lengths: Sequence[int]) -> Value:
    """The concatenated values: null for pieces without the value; float if one piece is float."""
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
    """The values at ``rows``."""
    return [
        value
        if value.kind == "null"
        else Value(value.kind, value.data[rows], None if value.valid is None else value.valid[rows])
        for value in values
    ]


# The history of results: which result was known when.


class KnownResults(NamedTuple):
    """Emitted results of a query, in order of emission; columns of int64.

    ``key``, ``identity``: hashes. ``at``: the emission [ns]. ``place``: the number among the
    query's results. ``gone``, ``gone_place``: the same of its retraction; INT_MAX: there is none.
    """

    key: np.ndarray
    identity: np.ndarray
    at: np.ndarray
    place: np.ndarray
    gone: np.ndarray
    gone_place: np.ndarray


class HistoryLookups(NamedTuple):
    """The results whose history is looked up, equally long columns of int64.

    ``until``: the instant up to which the history counts [ns]; first ``at``.
    """

    key: np.ndarray
    at: np.ndarray
    place: np.ndarray
    until: np.ndarray


NOTHING: Final = KnownResults(*(np.zeros(0, np.int64) for _ in KnownResults._fields))


class History(Restorable):
    """The histories of queries, by number."""

    state_fields = ("_known",)

    def __init__(self, look_back: dict[int, int]) -> None:
        """``look_back``: how far back rules look into each query's history [ns]."""
        self._look_back = look_back
        self._known = dict.fromkeys(look_back, NOTHING)

    def add(
        self, query: int, key: np.ndarray, identity: np.ndarray, at: np.ndarray,
        place: np.ndarray, plus: np.ndarray,
    ) -> None:  # fmt: skip
        """Add results of ``query``, in order of emission; ``-`` ends the retracted result."""
        if query not in self._known or not len(at):
            return
        none = np.full(len(at), INT_MAX)
        new = KnownResults(key, identity, at, place, none, none)
        old = self._known[query]
        every = joined(old, new)
        gone, gone_place = every.gone, every.gone_place
        is_plus = np.concatenate((np.ones(len(old.at), np.bool_), plus))
        if not plus.all():
            open_ = np.flatnonzero((gone == INT_MAX) & np.isin(every.identity, identity[~plus]))
            taken = partners(every.identity[open_], is_plus[open_])
            minus = open_[taken >= 0]
            back = open_[taken[taken >= 0]]
            gone[back], gone_place[back] = every.at[minus], every.place[minus]
        self._known[query] = take_rows(every, is_plus)

    def forget(self, now: int, wait_ns: int) -> None:
        """Drop what no result from ``now - wait_ns`` on [ns] can look up."""
        for query, known in self._known.items():
            since = now - wait_ns - self._look_back[query]
            if len(known.at) and known.at[0] < since:
                self._known[query] = take_rows(known, known.at >= since)

    def look_up(
        self, lookup: Lookup, query: int, lookups: HistoryLookups, *, own_query: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """(int64 per lookup, whether it has a value; None: all have one).

        ``query``: the number of the history; ``own_query``: it is that of the looked-up results.
        """
        n = len(lookups.at)
        count, last = np.zeros(n, np.int64), np.zeros(n, np.int64)
        known = self._known[query]
        known = take_rows(known, np.isin(known.key, lookups.key))
        known = take_rows(known, np.lexsort((known.place, known.at, known.key)))
        gone = take_rows(known, known.gone < INT_MAX)
        near = lookup.function == NEAR_COUNT
        _look_up(known, gone, lookups, lookup.within_ns, own_query, near, count, last)
        if lookup.function == SINCE_LAST:
            return lookups.at - last, count > 0
        return count, None


@inline
def _first(known: KnownResults, key: int, at: int, place: int) -> int:
    """The place of the first of ``known`` at or after (key, at, place), in this order."""
    low, high = 0, len(known.key)
    while low < high:
        middle = (low + high) >> 1
        if known.key[middle] != key:
            before = known.key[middle] < key
        elif known.at[middle] != at:
            before = known.at[middle] < at
        else:
            before = known.place[middle] < place
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def _is_gone(
    known: KnownResults, row: int, lookups: HistoryLookups, number: int, own_query: bool
) -> bool:  # fmt: skip
    """Whether the result at ``row`` was retracted before lookup ``number``."""
    if own_query and lookups.until[number] == lookups.at[number]:
        return bool(known.gone_place[row] < lookups.place[number])
    return bool(known.gone[row] < lookups.until[number])


@kernel
def _look_up(
    known: KnownResults, gone: KnownResults, lookups: HistoryLookups, within: int,
    own_query: bool, near: bool,
    count: np.ndarray, last: np.ndarray,
) -> None:  # fmt: skip
    """Per lookup, the number of results known in time, and the instant of the last one."""
    for number in range(len(lookups.at)):
        key, at, place = lookups.key[number], lookups.at[number], lookups.place[number]
        since = at - within
        until = at
        if near and lookups.until[number] > at:
            until = lookups.until[number]
        upper = place if own_query and until == at else -1
        start, end = _first(known, key, since, -1), _first(known, key, until, upper)
        found = end - start
        for row in range(_first(gone, key, since, -1), _first(gone, key, until, upper)):
            if _is_gone(gone, row, lookups, number, own_query):
                found -= 1
        if own_query and near and until > at:
            itself = _first(known, key, at, place)
            there = itself < end and known.place[itself] == place and known.key[itself] == key
            if there and not _is_gone(known, itself, lookups, number, own_query):
                found -= 1
        count[number] = found
        for row in range(end - 1, start - 1, -1):
            if not _is_gone(known, row, lookups, number, own_query):
                last[number] = known.at[row]
                break
