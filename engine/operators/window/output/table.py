"""Tables of window results without a Python object per row, and ORDER BY ... LIMIT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.operator import Restorable
from slackwater.engine.kernels.records import joined, take_rows
from slackwater.engine.operators.window.emission import ResultRows
from slackwater.engine.operators.window.keys import GroupKeys
from slackwater.engine.operators.window.state.accumulate import (
    FLOAT,
    HALF_WORD,
    INT,
    NULL,
    TEXT,
    are_short,
    numbers,
)
from slackwater.engine.operators.window.state.content import (
    HIGH_ONE,
    LEAST,
    LOW_ONE,
    MIDDLE_ONE,
    MOST,
    NUMBERS,
    UNKNOWN,
    VALUE,
)
from slackwater.engine.output.json_lines import float_texts, json_object, json_pair
from slackwater.engine.output.schema import (
    BOUNDS,
    MORE,
    MORE_OF_CLOCKS,
    POSITION,
    WINDOW_SCHEMA,
    decoded,
    one_of,
    same_for_all,
)
from slackwater.engine.output.schema import TEXT as TEXT_TYPE
from slackwater.engine.query.plan import Drift, WindowPlan

if TYPE_CHECKING:
    from slackwater.engine.operators.window.output.results import WindowResults


# ORDER BY ... LIMIT k: the results of the first groups of each window.
#
# Results that are updated together are ranked after all updates, so batch borders do not matter: a
# correction of one group may remove or restore another one. Ranks refer to the net results; a
# result that only changes its rank is not emitted again.


class RankedGroups(Restorable):
    """Net results of each window that may be corrected, and which of them are emitted.

    Args:
        plan: the plan of the query, with all aggregates of ORDER BY.
        keys: decodes keys and texts.
        numbers: the places of the emitted numbers; a result that stays among the first with equal
            numbers is not emitted again. None: all of them.
    """

    state_fields = ("_results",)

    def __init__(self, plan: WindowPlan, keys: GroupKeys, numbers: np.ndarray | None) -> None:
        self._plan = plan
        self._keys = keys
        self._numbers = numbers
        self._results: dict[tuple[int, int], tuple[ResultRows, np.ndarray]] = {}

    def changes(self, rows: ResultRows) -> ResultRows:
        """Return the changes of the emitted first groups due to the changes ``rows``."""
        starts = np.flatnonzero(np.diff(rows.block, prepend=rows.block[0] - 1))
        return joined(*(
            self._of_block(take_rows(rows, slice(start, end)))
            for start, end in zip(starts, [*starts[1:], len(rows.at)], strict=True)
        ))  # fmt: skip

    def forget(self, last: int) -> None:
        """Drop the windows up to ``last``: they are final."""
        self._results = {at: of for at, of in self._results.items() if at[0] > last}

    def _of_block(self, changes: ResultRows) -> ResultRows:
        place = int(changes.window[0]), int(changes.stage[0])
        none = take_rows(changes, np.empty(0, np.int64))
        before, in_output = self._results.get(place, (none, np.empty(0, np.bool_)))
        fresh = take_rows(changes, changes.plus)
        kept = np.flatnonzero(~_among(before, changes))
        now = joined(take_rows(before, kept), fresh)
        first = self._first(now)
        shows = np.zeros(len(now.at), np.bool_)
        shows[first] = True
        stood = np.concatenate((in_output[kept], np.zeros(len(fresh.at), np.bool_)))
        leaves = in_output.copy()
        leaves[kept] &= ~shows[: len(kept)]
        gone, come = take_rows(before, leaves), take_rows(now, first[~stood[first]])
        if self._numbers is not None and len(gone.at) and len(come.at):
            stays, stayed = _alike(gone, come, self._numbers)
            gone, come = take_rows(gone, ~stays), take_rows(come, ~stayed)
        gone.plus[:], come.plus[:] = False, True
        found: ResultRows = joined(gone, come)
        found.at[:] = changes.at[0]
        if len(now.at):
            self._results[place] = now, shows
        else:
            self._results.pop(place, None)
        return found

    def _first(self, rows: ResultRows) -> np.ndarray:
        """Return the places of the first ``LIMIT`` rows, in order."""
        ranking = self._plan.ranking
        assert ranking is not None
        labels = [one.label for one in self._plan.aggregates]
        by: list[np.ndarray] = []
        for label, descending in zip(ranking.labels, ranking.descending, strict=True):
            j = labels.index(label) * NUMBERS + VALUE
            kinds, words = rows.kinds[:, j], rows.words[:, j]
            absent = kinds == NULL
            if (kinds == TEXT).any():
                texts = decoded(words[:, 1], absent, self._keys.text).fill_null("").to_pylist()
                rank = np.unique(texts, return_inverse=True)[1]
            else:
                values = np.where(absent, 0, numbers(kinds, words))
                rank = np.unique(values, return_inverse=True)[1]
            by += [absent, -rank if descending else rank]
        same = np.zeros(len(rows.at), np.int64)
        order = self._keys.in_order(rows.nulls, rows.keys, same)
        by.append(np.argsort(order))
        return np.asarray(np.lexsort(by[::-1])[: ranking.limit])

    # ---- state ------------------------------------------------------------------------------

    def restore(self, state: dict[str, Any]) -> None:
        self._results = {
            at: (ResultRows(*rows), in_output)
            for at, (rows, in_output) in state["_results"].items()
        }


def _alike(
    gone: ResultRows, come: ResultRows, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return which of ``gone`` and of ``come`` have an equal row in the other.

    Only the numbers at the places ``numbers`` are compared.
    """
    both = []
    for rows in (gone, come):
        n = len(rows.at)
        parts = (rows.nulls, rows.keys, rows.counts, rows.compares, rows.kinds[:, numbers],
                 rows.words[:, numbers])  # fmt: skip
        both.append(np.concatenate([part.reshape(n, -1) for part in parts], axis=1, dtype=np.int64))
    which = np.unique(np.concatenate(both), axis=0, return_inverse=True)[1].reshape(-1)
    old, new = which[: len(both[0])], which[len(both[0]) :]
    return np.isin(old, new), np.isin(new, old)


def _among(rows: ResultRows, changes: ResultRows) -> np.ndarray:
    """Return which of ``rows`` have a key that occurs in ``changes``."""
    both = [np.column_stack((of.nulls, of.keys)) for of in (rows, changes)]
    which = np.unique(np.concatenate(both), axis=0, return_inverse=True)[1].reshape(-1)
    n = len(both[0])
    return np.isin(which[:n], which[n:])


# Numbers of window results as columns of one type, or as JSON texts if they have several types.


def number_column(kinds: np.ndarray, words: np.ndarray) -> pa.Array | None:
    """Return the numbers as int64, float64 or (if all are null) nulls; None: several types.

    Args:
        kinds: int8 (n,), as in ``engine.operators.window.state.accumulate``.
        words: int64 (n, 2).

    Raises:
        ContractViolation: a value is NaN or infinite, which JSON cannot represent.
    """
    absent = kinds == NULL
    some = bool(absent.any())
    if some and absent.all():
        return pa.nulls(len(kinds))
    is_float = bool((kinds == FLOAT).any())
    if is_float and bool((kinds == INT).any()):
        return None
    if not is_float and not are_short(words[:, 0]).all():
        return None
    return pa.array(_finite(numbers(kinds, words)), mask=absent if some else None)


def number_texts(kinds: np.ndarray, words: np.ndarray) -> pa.Array:
    """Return the JSON text of each number of any type; arguments as for ``number_column``.

    Raises:
        ContractViolation: a value is NaN or infinite.
    """
    high = words[:, 0]
    is_int, is_float = kinds == INT, kinds == FLOAT
    plain = is_int & are_short(high)
    place = np.zeros(len(kinds), np.int64)
    texts = [pa.array(["null"])]
    large = [str((high << HALF_WORD) + low) for high, low in words[is_int & ~plain].tolist()]
    for chosen, some in (
        (plain, pc.cast(pa.array(numbers(kinds[plain], words[plain])), pa.string())),
        (is_float, float_texts(_finite(high[is_float].copy().view(np.float64)))),
        (is_int & ~plain, pa.array(large, pa.string())),
    ):
        place[chosen] = np.arange(len(some)) + sum(map(len, texts))
        texts.append(some)
    return pa.concat_arrays(texts).take(pa.array(place))


def _finite(values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ContractViolation("a window's result holds a NaN or an infinity")
    return values


# Results of windows as columns without a Python object per row: see ``engine.output.schema``.


DRIFT_NAMES: Final = ("low", "middle", "high")
"""The window of R19 that an early result belongs to, by its stage."""
PLACES: Final = {"value": VALUE, "low": LOW_ONE, "middle": MIDDLE_ONE, "high": HIGH_ONE}
CERTAINTY: Final = ("confirmed", "uncertain", "unknown")
COUNTS: Final = ("certain", "ambiguous", "missing")
CLOCKS: Final = len(COUNTS)
"""Column of the worst clock status, after a result's counts."""


def columns_of_windows(results: WindowResults) -> pa.Table:
    """Return the results as a table; ``position`` counts from 0.

    Raises:
        ContractViolation: a value is NaN or infinite, which JSON cannot represent.
    """
    n, fields, plan = len(results), results.columns, results.plan
    start, end = results.extent()
    (certainty, says), statuses = results.certainty(), results.statuses()
    columns: dict[str, pa.Array] = {
        POSITION: pa.array(np.arange(n)),
        "op": one_of(("-", "+"), fields.plus),
        "query": same_for_all(plan.name, n),
        "site": same_for_all(results.site, n),
        "at": pa.array(fields.at),
        "window": pa.StructArray.from_arrays(
            [pa.array(start), pa.array(end)], names=["start", "end"]
        ),
        "key": _keys(results),
        "certainty": one_of(CERTAINTY, certainty, ~says) if says.any() else pa.nulls(n, TEXT_TYPE),
        "drift": pa.nulls(n, TEXT_TYPE),
        "bounds": _bounds(results),
        MORE: one_of(MORE_OF_CLOCKS, statuses, statuses == 0).cast(pa.string()),
    }
    if plan.drift is Drift.EACH:
        stage = pa.array(fields.stage.astype(np.int32))
        columns["drift"] = pa.DictionaryArray.from_arrays(stage, pa.array(DRIFT_NAMES))
    for name, place in PLACES.items():
        values = [(label, (place,)) for label in results.labels]
        is_valid = results.bounds_shown if name in ("low", "high") else results.shows
        columns[name] = _objects(results, values, is_valid(name))
    for j, name in enumerate(COUNTS):
        counts = fields.counts[:, j]
        columns[name] = pa.array(counts, mask=counts == UNKNOWN)
    return pa.table({name: columns[name] for name in WINDOW_SCHEMA.names})


def _are_alike(columns: Sequence[pa.Array | None]) -> bool:
    """Return whether the numbers of one label all have the same type."""
    first = columns[0]
    return first is not None and all(
        column is not None and column.type == first.type for column in columns
    )


def _keys(results: WindowResults) -> pa.Array:
    columns = results.keys.columns(results.columns.nulls, results.columns.keys)
    if not columns:
        return same_for_all("{}", len(results))
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _bounds(results: WindowResults) -> pa.Array:
    pairs = [
        (label, (LEAST, MOST))
        for label, bounded in zip(results.labels, results.bounded, strict=True)
        if bounded
    ]
    return _objects(results, pairs, results.bounds_shown("bounds"))


def _objects(
    results: WindowResults, members: Sequence[tuple[str, Sequence[int]]], there: np.ndarray
) -> pa.Array:
    """Return per row an object of the numbers at the places of each label; null if not ``there``.

    Two places make a pair. The objects are JSON texts if a number has several types or there is
    no member.
    """
    of = {label: number for number, label in enumerate(results.labels)}

    def made(say: Callable[[int, int], pa.Array | None]) -> list[list[Any]]:
        return [[say(of[label], place) for place in places] for label, places in members]

    typed = made(results.column)
    absent = pa.array(~there)
    names = [label for label, _ in members]
    if members and all(map(_are_alike, typed)):
        fields = [
            columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, names=BOUNDS)
            for columns in typed
        ]
        return pa.StructArray.from_arrays(fields, names=names, mask=absent)
    texts = [each[0] if len(each) == 1 else json_pair(*each) for each in made(results.json_texts)]
    text = json_object(dict(zip(names, texts, strict=True))) if members else pa.scalar("{}")
    return pc.if_else(absent, pa.scalar(None, pa.string()), text)
