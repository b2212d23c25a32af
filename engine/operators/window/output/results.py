"""Results of windows as columns, with the interface of a list of results (DESIGN)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.engine.core.clocks.epochs import IS_MIXED, IS_UNKNOWN, NO_CLOCK, STATUSES
from slackwater.engine.core.operator import Result, ResultColumns
from slackwater.engine.kernels.records import joined, take_rows
from slackwater.engine.operators.window.emission import EmittedResults, ResultRows
from slackwater.engine.operators.window.keys import GroupKeys
from slackwater.engine.operators.window.output.expressions import is_bounded, value_of
from slackwater.engine.operators.window.output.table import (
    CLOCKS,
    COUNTS,
    DRIFT_NAMES,
    PLACES,
    columns_of_windows,
    number_column,
    number_texts,
)
from slackwater.engine.operators.window.settings import extents
from slackwater.engine.operators.window.state.accumulate import HALF_WORD, NULL, TEXT, TEXTS, Sums
from slackwater.engine.operators.window.state.content import (
    LEAST,
    LOW_ONE,
    MOST,
    NUMBERS,
    STAGE_LAST,
    UNKNOWN,
    VALUE,
    WindowStore,
)
from slackwater.engine.output.json_lines import json_text, result_lines, woven
from slackwater.engine.output.result_kinds import numbers_of_codes, numbers_of_rows
from slackwater.engine.output.schema import (
    WINDOW_EXTRAS,
    WINDOW_SCHEMA,
    WINDOWS,
    decoded,
    same_for_all,
)
from slackwater.engine.query.plan import (
    RESULT,
    Attribute,
    Drift,
    Expression,
    WindowKind,
    WindowPlan,
)
from slackwater.engine.query.values import Value

# The identity of a window's result covers the content of its output line except the emission time
# (``engine.output.result_kinds``), without formatting the line. Texts count by their value, not
# their code; hidden numbers do not count.


def window_identities(results: WindowResults) -> np.ndarray:
    """Return 128-bit identities, int64 (results, 2): equal for results of equal content.

    Identities are comparable within one query and site.
    """
    fields = results.columns
    columns = [*results.extent(), fields.nulls, *fields.counts.T.astype(np.int64)]
    if results.plan.drift is Drift.EACH:
        columns.append(fields.stage)
    for place, kind in enumerate(results.keys.types):
        absent = fields.nulls >> place & 1 == 1
        if kind == "str":
            codes = np.where(absent, -1, fields.keys[:, place])
            columns += list(numbers_of_codes(codes, results.keys.text).T)
        else:
            # Two columns, as for texts: the type of a key that is null so far is unknown.
            columns += [np.where(absent, 0, fields.keys[:, place]), np.zeros(len(absent))]
    for aggregate, has_bounds in enumerate(results.bounded):
        for name, place in PLACES.items():
            columns += _of_numbers(results, aggregate, place, results.shows(name))
        for place in (LEAST, MOST) if has_bounds else ():
            columns += _of_numbers(results, aggregate, place, results.last)
    return numbers_of_rows([np.ascontiguousarray(column, np.int64) for column in columns])


def _of_numbers(
    results: WindowResults, aggregate: int, place: int, valid: np.ndarray
) -> list[np.ndarray]:
    """Return (kind, high, low) of a number of each result; 0 where it is not ``valid``."""
    kinds, words = results.numbers(aggregate, place)
    kinds = np.where(valid, kinds, -1)
    high, low = (np.where(valid, words[:, part], 0) for part in range(2))
    is_text = kinds == TEXT
    if is_text.any():
        of_texts = numbers_of_codes(np.where(is_text, low, -1), results.keys.text)
        high, low = (
            np.where(is_text, of_texts[:, part], mine) for part, mine in enumerate((high, low))
        )
    return [kinds, high, low]


# Codes of texts in the values of windows; the table of texts must keep these.


def text_codes(store: WindowStore, results: EmittedResults) -> np.ndarray:
    """Return the codes in ``store`` and in emitted results, including freed ones."""
    texts = np.flatnonzero(store.sums.of["typed"] == TEXTS)
    if not len(texts):
        return np.empty(0, np.int64)
    emitted = results.words["low"][results.kinds == TEXT]
    kept = store.kept.ints[:, texts][store.kept.valid[:, texts]]
    return np.concatenate([emitted, kept, picked_codes(store.sums, store.sums.of)])


def picked_codes(sums: Sums, of: np.ndarray) -> np.ndarray:
    """Return the codes among picked values; ``of``: see ``Sums``."""
    if not len(sums.picked):
        return np.empty(0, np.int64)
    texts = of["typed"][sums.picked["value"]] == TEXTS
    picks = sums.picks[texts]
    return np.asarray(picks["value"][picks["there"] != 0])


# Results of windows as columns, with the interface of a list of results (DESIGN).
#
# Iteration makes a dict per result; sinks read the columns.


_ROWS: Final = 1 << 14
"""Smallest number of results per table; larger tables are not cheaper per result."""
_OPTIONAL: Final = WINDOW_EXTRAS.keys() - {"bounds"}
"""Fields that the dict of a result has only if they are not null."""


def extent_of(
    plan: WindowPlan, window: np.ndarray, words: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return start and end of each result's window [ns]; arguments are ``ResultRows`` columns."""
    if plan.kind is WindowKind.TIME:
        return extents(plan, window)
    behind = len(plan.aggregates) * NUMBERS
    ends = (words[:, behind + place] for place in (VALUE, LOW_ONE))
    start, end = ((words[:, 0] << HALF_WORD) + words[:, 1] for words in ends)
    return start, end


class WindowResults(ResultColumns):
    """Results of one query and site, of the kind ``windows``.

    Args:
        outbox: the results.
        plan: the plan of the query.
        keys: decodes the keys and texts of ``outbox``.
        site: name of the site.
    """

    kind = WINDOWS

    def __init__(self, outbox: ResultRows, plan: WindowPlan, keys: GroupKeys, site: str) -> None:
        self.columns, self.plan, self.keys, self.site = outbox, plan, keys, site
        self.clock = np.full(len(outbox.at), NO_CLOCK, np.int32)
        """Code of each result's only clock, else NO_CLOCK; read by statements over results."""

    @classmethod
    def tables(cls, pieces: Sequence[WindowResults]) -> Iterator[pa.Table]:
        waiting: list[WindowResults] = []
        rows = 0
        for piece in pieces:
            waiting.append(piece)
            rows += len(piece)
            if rows >= _ROWS:
                yield columns_of_windows(cls._joined(waiting))
                waiting, rows = [], 0
        if waiting:
            yield columns_of_windows(cls._joined(waiting))

    @classmethod
    def _joined(cls, pieces: Sequence[WindowResults]) -> WindowResults:
        first = pieces[0]
        columns = joined(*(piece.columns for piece in pieces))
        return cls(columns, first.plan, first.keys, first.site)

    def taken(self, rows: np.ndarray, plus: np.ndarray, at: np.ndarray) -> WindowResults:
        """Return the results ``rows``, inserted (``plus``) or retracted at instants ``at``."""
        outbox = take_rows(self.columns, rows)._replace(plus=plus, at=at)
        taken = WindowResults(outbox, self.plan, self.keys, self.site)
        taken.clock = self.clock[rows]
        return taken

    def kept(self, rows: np.ndarray) -> WindowResults:
        """Return a copy of the results ``rows``."""
        return self.taken(rows, self.columns.plus[rows], self.columns.at[rows])

    def _texts(self) -> np.ndarray:
        """Return the codes of texts in values."""
        return np.asarray(self.columns.words[..., 1][self.columns.kinds == TEXT])

    def codes(self) -> np.ndarray:
        """Return the codes of all texts in use."""
        return np.concatenate([self.keys.used(self.columns.keys), self._texts(), self.clock])

    def packed(self) -> dict[str, Any]:
        """Results as plain data."""
        return {
            "columns": self.columns._asdict(),
            "clock": self.clock,
            "keys": self.keys.snapshot(self.columns.keys, self._texts()),
        }

    @classmethod
    def unpacked(cls, state: dict[str, Any], plan: WindowPlan, site: str) -> WindowResults:
        """Return the results of ``packed``, of the query ``plan``."""
        keys = GroupKeys(plan.group_by, plan.name)
        keys.restore(state["keys"])
        found = cls(ResultRows(**state["columns"]), plan, keys, site)
        found.clock = state["clock"]
        return found

    def __len__(self) -> int:
        return len(self.columns.at)

    @property
    def unknown(self) -> np.ndarray:
        """Which results compare events of several clocks, one of them unknown: without bounds."""
        return np.asarray(self.columns.compares & IS_UNKNOWN != 0)

    @property
    def mixed(self) -> np.ndarray:
        """Which results come after an unknown clock among several clocks."""
        return np.asarray(self.columns.compares & IS_MIXED != 0)

    @property
    def labels(self) -> list[str]:
        """The labels of the aggregates."""
        return [aggregate.label for aggregate in self.plan.aggregates]

    @property
    def bounded(self) -> list[bool]:
        """Which aggregates have bounds."""
        return [is_bounded(self.plan, aggregate) for aggregate in self.plan.aggregates]

    @property
    def last(self) -> np.ndarray:
        """Which results are complete, with all values of LOW, MIDDLE and HIGH."""
        return np.asarray(self.columns.stage == STAGE_LAST)

    def shows(self, name: str) -> np.ndarray:
        """Return which results have the value ``name``.

        An early result has only the value of its own stage.
        """
        if name == "value":
            return np.ones(len(self), np.bool_)
        stage = DRIFT_NAMES.index(name)
        return np.asarray(self.last | (self.columns.stage == stage))

    def extent(self) -> tuple[np.ndarray, np.ndarray]:
        """Return start and end of each result's window [ns]."""
        return extent_of(self.plan, self.columns.window, self.columns.words)

    def bounds_shown(self, name: str) -> np.ndarray:
        """Return which results have the field ``name``: ``bounds``, ``low`` or ``high``."""
        return np.asarray((self.last if name == "bounds" else self.shows(name)) & ~self.unknown)

    def certainty(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each result's place in ``CERTAINTY``, and which results have a certainty.

        Windows on the clock only have one if it is ``unknown``.
        """
        unsure = self.columns.counts[:, COUNTS.index("ambiguous")] > 0
        by_events = self.plan.kind is not WindowKind.TIME
        return np.where(self.unknown, 2, unsure), self.unknown | by_events

    def statuses(self) -> np.ndarray:
        """Return the worst clock status of each result's events at release: place in ``STATUSES``.

        An unknown clock only counts where it is compared with another clock.
        """
        return np.where(self.unknown, STATUSES.index("unknown"), self.columns.counts[:, CLOCKS])

    def numbers(self, aggregate: int, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (kinds, words) of a number of one aggregate; ``place``: ``VALUE`` ... ``MOST``."""
        j = aggregate * NUMBERS + place
        return self.columns.kinds[:, j], self.columns.words[:, j]

    def column(self, aggregate: int, place: int) -> pa.Array | None:
        """Return a number of one aggregate as a column; None: it has several types."""
        kinds, words = self.numbers(aggregate, place)
        if (kinds == TEXT).any():
            return decoded(words[:, 1], kinds == NULL, self.keys.text)
        return number_column(kinds, words)

    def json_texts(self, aggregate: int, place: int) -> pa.Array:
        """Return a number of one aggregate as JSON texts."""
        kinds, words = self.numbers(aggregate, place)
        if (kinds == TEXT).any():
            return json_text(decoded(words[:, 1], kinds == NULL, self.keys.text))
        return number_texts(kinds, words)

    def attribute_values(self, attributes: Sequence[Attribute]) -> list[Value]:
        """Return the values of ``attributes``: labels of aggregates, or counts of alias RESULT."""
        found = []
        for attribute in attributes:
            if attribute.alias == RESULT:
                counts = self.columns.counts[:, COUNTS.index(attribute.name)]
                found.append(Value("int", counts, counts != UNKNOWN))
                continue
            found.append(value_of(*self.numbers(self.labels.index(attribute.name), VALUE)))
        return found

    def history_keys(self, key: Sequence[Expression]) -> pa.Array:
        """Return the group's values of ``key`` per result as a JSON list; empty: all keys."""
        columns = self.keys.columns(self.columns.nulls, self.columns.keys)
        parts: list[str | pa.Array] = ["["]
        names = [one.name for one in key if isinstance(one, Attribute)] or columns.keys()
        for column in map(columns.__getitem__, names):
            parts += [", " if len(parts) > 1 else "", json_text(column)]
        if not columns:
            return same_for_all("[]", len(self)).cast(pa.string())
        return woven(*parts, "]")

    def __iter__(self) -> Iterator[Result]:
        lines = result_lines(columns_of_windows(self), WINDOW_SCHEMA, (), _OPTIONAL, 1)
        yield from map(json.loads, lines.to_pylist())
