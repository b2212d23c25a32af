"""Results of one statement as input events of another: columns, one row per result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.epochs import CLOCK_STATUS, MIXED, STAMPED_BY, UNKNOWN_EPOCH
from slackwater.engine.core.columns import (
    LEAST_PREFIX,
    MOST_PREFIX,
    VALID_PREFIX,
    VARIES_PREFIX,
    Columns,
    join,
    joined_type,
)
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.operator import Restorable, Result, ResultColumns
from slackwater.engine.core.released import LATEST, NO_EPOCH, Strings
from slackwater.engine.core.timeline import CHANCE, REF_END, UNKNOWN
from slackwater.engine.operators.constraint.alerts import Alerts
from slackwater.engine.operators.match.match_results import (
    CERTAINTIES,
    UNCERTAINTY,
    Matches,
    certainties_of,
)
from slackwater.engine.operators.match.repetition.matches import RepeatMatches
from slackwater.engine.operators.window.output.results import WindowResults, window_identities
from slackwater.engine.operators.window.output.table import COUNTS
from slackwater.engine.operators.window.state.accumulate import (
    FLOAT,
    HALF_WORD,
    INT,
    NULL,
    TEXT,
    reals,
)
from slackwater.engine.operators.window.state.content import LEAST, MOST, VALUE
from slackwater.engine.output.result_kinds import identities
from slackwater.engine.query.clock_sensitivity import CLOCKED
from slackwater.engine.query.fields import TimeValue, attributes_in, time_value
from slackwater.engine.query.plan import Expression, WindowKind
from slackwater.engine.query.results_as_events import (
    OF_ALERTS,
    moved_columns,
    ordered_columns,
    returned_values,
)

# Derived events as columns with the types of their attributes: joined, cut, sorted.


CODED: Final = ("source", "clock", "stream", "type", STAMPED_BY)
"""Columns that hold codes of texts, apart from text attributes."""


@dataclass(slots=True)
class DerivedRows(Restorable):
    """``n`` events; ``types``: the type of each user attribute that some event has."""

    state_fields = ("n", "columns", "types")

    n: int = 0
    columns: Columns = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    @property
    def time(self) -> np.ndarray:
        """The ends of the events, by which they are sorted."""
        return self.columns.get(REF_END, np.empty(0, np.int64))

    def take(self, which: np.ndarray) -> DerivedRows:
        """Return the events at ``which``: places, or a mask."""
        if not self.n:
            return self
        columns = {name: column[which] for name, column in self.columns.items()}
        n = int(which.sum()) if which.dtype == np.bool_ else len(which)
        return DerivedRows(n, columns, self.types) if n else DerivedRows()

    def cut(self, start: int, end: int) -> DerivedRows:
        """Return the events at places [``start``, ``end``) as views."""
        if end <= start:
            return DerivedRows()
        columns = {name: column[start:end] for name, column in self.columns.items()}
        return DerivedRows(end - start, columns, self.types)

    def having(self, **columns: np.ndarray) -> DerivedRows:
        """Return the same events with ``columns`` added or replaced."""
        return DerivedRows(self.n, {**self.columns, **columns}, self.types) if self.n else self

    def in_order(self) -> DerivedRows:
        """Return the events sorted by end, start and content, regardless of their arrival."""
        if self.n < 2:
            return self
        keys = [self.columns[name] for name in (*CONTENT[::-1], "ref", REF_END)]
        return self.take(np.lexsort(keys))

    def contents(self) -> np.ndarray:
        """Return the content of each event: int64 (n, 2) (``engine.output.result_kinds``)."""
        if not self.n:
            return np.empty((0, len(CONTENT)), np.int64)
        return np.column_stack([self.columns[name] for name in CONTENT])

    def codes(self) -> np.ndarray:
        """Return the codes of all texts in use."""
        if not self.n:
            return np.empty(0, np.int64)
        names = [*CODED, *(ATTR_PREFIX + name for name, of in self.types.items() if of == "str")]
        texts = [self.columns[name] for name in names if name in self.columns]
        return np.unique(np.concatenate(texts))


def joined(parts: Sequence[DerivedRows]) -> DerivedRows:
    """Concatenate ``parts``; an attribute that is int in one and float in another is float."""
    some = [part for part in parts if part.n]
    if len(some) < 2:
        return some[0] if some else DerivedRows()
    types: dict[str, str] = {}
    for part in some:
        for name, of in part.types.items():
            both = joined_type(types.get(name), of)
            assert both is not None, f"{name}: {types.get(name)} and {of}"
            types[name] = both
    lengths = [part.n for part in some]
    return DerivedRows(sum(lengths), join([part.columns for part in some], lengths), types)


# How results become events.
#
# The result of a window spans from the window's start to its last instant. Windows are half open,
# so that is 1 ns before the end, and a window of 10 s contains the ten windows of 1 s that it
# covers. A ROWS window ends with its last event. A match spans from the start of its first event
# to the end of its last one; its uncertainty is the largest of its events.
#
# The clock of a result is the clock of its events if they share one, else that of its stream. It
# is unknown if the clock of one event is unknown and other clocks had events by then.
#
# ``chance``: 1 if the result is certain, else its probability, NaN where that is not known: clocks
# decide whether a window has exactly its events, and conditions of other statements decide how
# much that matters.


PLUS: Final = "plus"
CONTENT: Final = ("content0", "content1")
MISSING: Final = "missing"
"""Number of events of the log that are known to be missing in the result's span."""
_ALMOST: Final = float(np.nextafter(1.0, 0.0))
_WHOLE_MAX: Final = 1 << 31
_EXACT: Final = 2.0**53
Found = tuple[Columns, dict[str, str]]
"""Columns, and the types of user attributes."""


class Attributes:
    """The user attributes of ``n`` events."""

    def __init__(self, n: int) -> None:
        self.n, self.columns, self.types = n, Columns(), dict[str, str]()

    def vary(
        self, name: str, where: np.ndarray, ends: tuple[np.ndarray, np.ndarray] | None = None
    ) -> None:
        """Mark the values of ``name`` that clock errors may change.

        Args:
            name: the attribute.
            where: (n,), the values that may differ.
            ends: the least and the largest value; None: unknown. Values marked twice lose them.
        """
        if not where.any():
            return
        known = self.columns.get(VARIES_PREFIX + name, np.zeros(self.n, np.bool_))
        nobody = np.full(self.n, np.nan)
        for prefix, end in zip((LEAST_PREFIX, MOST_PREFIX), ends or (nobody, nobody), strict=True):
            before = self.columns.get(prefix + name, nobody)
            self.columns[prefix + name] = np.where(where, np.where(known, np.nan, end), before)
        self.columns[VARIES_PREFIX + name] = known | where

    def put(self, name: str, kind: str, data: np.ndarray, valid: np.ndarray | None = None) -> None:
        """Add an attribute; ``valid``: (n,), which values are not null; None: all."""
        self.types[name] = kind
        self.columns[ATTR_PREFIX + name] = data
        if valid is not None and not valid.all():
            self.columns[VALID_PREFIX + name] = valid


def derived_events(piece: Sequence[Result], stream: str, strings: Strings, errs_from: int) -> Found:
    """Convert the results ``piece`` to events of the stream and type ``stream``.

    ``errs_from``: the instant from which the results may include events with a clock error.

    Raises:
        ContractViolation: the results are not columns.
    """
    if not isinstance(piece, ResultColumns) or type(piece) not in _READERS:
        raise ContractViolation(f"statement {stream!r}: nobody reads a {type(piece).__name__}")
    columns, types = _READERS[type(piece)](piece, strings, errs_from)
    n = len(piece)
    code = np.full(n, strings.code(stream), np.int32)
    columns |= {r.STREAM: code, r.TYPE: code}
    columns.setdefault(r.SOURCE, code)
    columns[r.CLOCK] = columns[r.SOURCE]
    columns[STAMPED_BY] = np.where(columns[STAMPED_BY] < 0, code, columns[STAMPED_BY])
    columns[r.TS], columns[r.TE] = columns["ref"], columns[REF_END]
    columns[r.SEQ] = np.full(n, -1)
    columns["epoch"] = np.where(columns[MIXED], UNKNOWN_EPOCH, NO_EPOCH)
    columns[MIXED] = np.where(columns[MIXED], LATEST, -LATEST)
    columns.setdefault(UNCERTAINTY, np.zeros(n, np.int64))
    columns.setdefault(MISSING, np.zeros(n, np.int64))
    found = identities_of(piece)
    columns |= {name: found[:, place] for place, name in enumerate(CONTENT)}
    return columns, types


def identities_of(piece: ResultColumns) -> np.ndarray:
    """Return the identity of each result, int64 (n, 2) (``engine.output.result_kinds``).

    Identities are comparable within one statement and site.
    """
    if isinstance(piece, WindowResults):
        return window_identities(piece)
    return identities(piece.kind, piece.tables([piece]))


def signs_of(piece: Sequence[Result]) -> np.ndarray:
    """Return 1 for each insertion and -1 for each retraction."""
    of: Any = piece
    is_alert, is_match = isinstance(piece, Alerts), isinstance(piece, Matches)
    return np.where((of if is_alert else of.released if is_match else of.columns).plus, 1, -1)


def _of_windows(piece: WindowResults, _strings: Strings, errs_from: int) -> Found:
    fields, plan, n = piece.columns, piece.plan, len(piece)
    start, end = piece.extent()
    counts = {name: fields.counts[:, place] for place, name in enumerate(COUNTS)}
    attributes = Attributes(n)
    for name, column in counts.items():
        attributes.put(name, "int", column.astype(np.int64))
    columns: Columns = {}
    for place, (key, kind) in enumerate(zip(plan.group_by, piece.keys.types, strict=True)):
        if kind is None:
            continue
        absent = (fields.nulls >> place & 1).astype(np.bool_)
        values = _key(np.ascontiguousarray(fields.keys[:, place]), kind)
        if key.name == r.SOURCE:
            columns[r.SOURCE] = np.where(absent, -1, values).astype(np.int32)
        else:
            attributes.put(key.name.removeprefix(ATTR_PREFIX), kind, values, ~absent)
    for place, label in enumerate(piece.labels):
        _put_numbers(attributes, label, *piece.numbers(place, VALUE))
        attributes.vary(label, counts["ambiguous"] > 0, _range(piece, place))
    err, ordered = fields.at >= errs_from, ordered_columns(plan)
    for label in moved_columns(plan) | plan.moved:
        attributes.vary(label, err & (piece.clock < 0) if label in ordered else err)
    last = end if plan.kind is WindowKind.ROWS else np.maximum(end - 1, start)
    return columns | attributes.columns | {
        PLUS: fields.plus, r.ARRIVAL: fields.at, "ref": start, REF_END: last,
        MISSING: counts[MISSING].astype(np.int64), STAMPED_BY: piece.clock, MIXED: piece.mixed,
        CHANCE: np.where(
            piece.unknown, UNKNOWN, np.where(counts["ambiguous"] > 0, np.nan, 1.0)
        ),
        CLOCK_STATUS: piece.statuses(),
    }, attributes.types  # fmt: skip


def _range(piece: WindowResults, place: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the bounds of the aggregate at ``place``; None if it has none."""
    if not piece.bounded[place]:
        return None
    least, most = (_real(*piece.numbers(place, each)) for each in (LEAST, MOST))
    return least, most


def _real(kinds: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return numbers as float64; NaN for null and where float64 is not exact."""
    found = reals(kinds, words)
    return np.where((kinds == FLOAT) | ((kinds == INT) & (abs(found) < _EXACT)), found, np.nan)


def _key(codes: np.ndarray, kind: str) -> np.ndarray:
    if kind == "float":
        return codes.view(np.float64)
    return codes.astype({"str": np.int32, "bool": np.bool_}.get(kind, np.int64))


def _put_numbers(attributes: Attributes, label: str, kinds: np.ndarray, words: np.ndarray) -> None:
    """Add an aggregate as an attribute unless all its values are null."""
    valid = kinds != NULL
    high, low = words[:, 0], words[:, 1]
    if (kinds == TEXT).any():
        attributes.put(label, "str", np.where(valid, low, -1).astype(np.int32), valid)
    elif (kinds == FLOAT).any() or (abs(high[kinds == INT]) >= _WHOLE_MAX).any():
        attributes.put(label, "float", np.where(valid, reals(kinds, words), 0.0), valid)
    elif valid.any():
        attributes.put(label, "int", np.where(valid, (high << HALF_WORD) + low, 0), valid)


def _of_matches(piece: Matches, _strings: Strings, _errs_from: int) -> Found:
    matches, n, columns = piece.released, len(piece), piece.columns
    there = piece.which >= 0
    ref = columns["ref"][piece.which]
    end = columns["te"][piece.which] + ref - columns["ts"][piece.which]
    latest = np.iinfo(np.int64).max
    attributes = Attributes(n)
    chance = np.where(matches.confirmed, 1.0, np.minimum(matches.chance, _ALMOST))
    attributes.put("probability", "float", matches.chance, matches.chance >= 0)
    codes = np.array([_strings.code(text) for text in CERTAINTIES], np.int32)
    attributes.put("certainty", "str", codes[certainties_of(matches)])
    branches = [
        replace(branch, computed=returned_values(branch)) for branch in piece.layout.branches
    ]
    for mine, values in piece.value_columns(branches):
        for label, value in values.items():
            _put_values(attributes, label, mine, value)
    unc = np.where(there, columns[UNCERTAINTY][piece.which], 0)
    for branch in branches:
        for one in branch.computed:
            for each in attributes_in(one.expression):
                name = VARIES_PREFIX + each.name.removeprefix(ATTR_PREFIX)
                if each.name in CLOCKED:
                    attributes.vary(one.label, _moves(one.expression, piece, unc))
                elif name in columns:
                    attributes.vary(one.label, (there & columns[name][piece.which]).any(axis=1))
    return attributes.columns | {
        PLUS: matches.plus, r.ARRIVAL: matches.at,
        "ref": np.where(there, ref, latest).min(axis=1),
        REF_END: np.where(there, end, -latest).max(axis=1),
        UNCERTAINTY: np.where(there, columns[UNCERTAINTY][piece.which], 0).max(axis=1),
        CHANCE: chance, CLOCK_STATUS: piece.statuses(), **_clocks(piece),
    }, attributes.types  # fmt: skip


def _moves(expression: Expression, piece: Matches, unc: np.ndarray) -> np.ndarray:
    """Return per match whether a clock error changes the value.

    It does not change a duration between events of one clock epoch with equal uncertainty.
    ``unc``: (matches, events), the uncertainty of its events [ns].
    """
    moves = unc.max(axis=1) > 0
    if time_value(expression) is not TimeValue.SPAN:
        return np.asarray(moves)
    there, its = piece.which >= 0, piece.columns["epoch"][piece.which]
    first = its[np.arange(len(its)), there.argmax(axis=1)][:, None]
    one = (~there | ((its == first) & (first != NO_EPOCH))).all(axis=1)
    alike = (~there | (unc == unc.max(axis=1)[:, None])).all(axis=1)
    return np.asarray(moves & ~(one & alike))


def _clocks(piece: Matches) -> Columns:
    """Return the clock of each match, and whether it mixes clocks and one of them is unknown."""
    n, columns = len(piece), piece.columns
    if MIXED not in columns:
        return {STAMPED_BY: np.full(n, -1, np.int32), MIXED: np.zeros(n, np.bool_)}
    there, clock = piece.which >= 0, columns.get(STAMPED_BY, columns[r.CLOCK])[piece.which]
    most = np.where(there, clock, -1).max(axis=1)
    one = np.where(there, clock, most[:, None]).min(axis=1) == most
    mixed, unknown = (
        (there & each[piece.which]).any(axis=1)
        for each in (columns[MIXED] > -LATEST, columns["epoch"] == UNKNOWN_EPOCH)
    )
    return {STAMPED_BY: np.where(one, most, -1).astype(np.int32), MIXED: mixed & unknown}


def _put_values(attributes: Attributes, label: str, mine: np.ndarray, value: Any) -> None:
    """Add a value to the matches ``mine``; matches of other branches may have it already."""
    if value.kind == "null":
        return
    kind, name = value.kind, ATTR_PREFIX + label
    before = attributes.columns.get(name)
    data = np.zeros(attributes.n, np.result_type(value.data)) if before is None else before
    if before is not None and value.data.dtype.kind == "f" != before.dtype.kind:
        data = before.astype(np.float64)
    known = np.zeros(attributes.n, np.bool_)
    if before is not None:
        known = attributes.columns.get(VALID_PREFIX + label, np.ones(attributes.n, np.bool_)).copy()
        kind = "float" if "float" in (attributes.types[label], kind) else kind
    data = data.copy()
    data[mine] = value.data
    known[mine] = True if value.valid is None else value.valid
    attributes.columns.pop(VALID_PREFIX + label, None)
    attributes.put(label, kind, data, known)


def _of_alerts(piece: Alerts, strings: Strings, _errs_from: int) -> Found:
    fields, n = piece.columns, len(piece)
    attributes = Attributes(n)
    texts = {**fields._asdict(), "event_type": fields.type}
    for name in OF_ALERTS:
        codes, valid = _codes(texts[name], strings)
        attributes.put(name, "str", codes, valid)
    source, _ = _codes(fields.source, strings)
    certainty = np.asarray(fields.certainty.cast(pa.string()))
    uncertain = np.where(certainty == "uncertain", np.nan, 1.0)
    at = np.asarray(fields.ts)
    return attributes.columns | {
        PLUS: piece.plus, r.ARRIVAL: np.asarray(fields.at), "ref": at, REF_END: at,
        r.SOURCE: source, CHANCE: np.where(certainty == "unknown", UNKNOWN, uncertain),
        STAMPED_BY: np.full(n, -1, np.int32), MIXED: certainty == "unknown",
    }, attributes.types  # fmt: skip


def _codes(texts: pa.Array, strings: Strings) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of ``texts``, -1 for null, and which are not null."""
    plain = texts.cast(pa.string()).dictionary_encode()
    table = np.array([*(strings.code(text) for text in plain.dictionary.to_pylist()), -1], np.int32)
    places = np.asarray(plain.indices.fill_null(len(table) - 1))
    return table[places], places < len(table) - 1


_READERS: Final[dict[type, Callable[[Any, Strings, int], Found]]] = {
    WindowResults: _of_windows, Matches: _of_matches, RepeatMatches: _of_matches,
    Alerts: _of_alerts,
}  # fmt: skip


def columns_in(pieces: Sequence[Sequence[Result]]) -> Iterator[ResultColumns]:
    """Yield the pieces that are not empty."""
    for piece in pieces:
        if len(piece):
            assert isinstance(piece, ResultColumns)
            yield piece
