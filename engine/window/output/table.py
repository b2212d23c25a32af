"""Results of windows as columns without a Python object per row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import ContractViolation
from engine.query.plan import Drift
from engine.results.json_lines import float_texts, json_object, json_pair
from engine.results.schema import BOUNDS, MORE, POSITION, TEXT, WINDOW_SCHEMA, one_of, same_for_all
from engine.window.held.content import HIGH_ONE, LEAST, LOW_ONE, MIDDLE_ONE, MOST, UNKNOWN, VALUE
from engine.window.held.number import FLOAT, HALF_WORD, INT, NULL

if TYPE_CHECKING:
    from engine.window.output.results import WindowResults


# Numbers of windows' results as columns of one type, or as JSON texts where they have several.


_INT_MAX: Final = 1 << 31
"""Of the upper word, so that the whole fits into 64 bits."""


def number_column(kinds: np.ndarray, words: np.ndarray) -> pa.Array | None:
    """The numbers as int64, float64 or (when there are none) nulls; None: in no single type.

    Args:
        kinds: int8 (n,), as in ``engine.window.held.number``.
        words: int64 (n, 2).

    Raises:
        ContractViolation: a NaN or an infinity, which JSON does not have.
    """
    absent = kinds == NULL
    some = bool(absent.any())
    if some and absent.all():
        return pa.nulls(len(kinds))
    is_float = bool((kinds == FLOAT).any())
    if is_float and bool((kinds == INT).any()):
        return None
    if is_float:
        return pa.array(_finite(words[:, 0].copy().view(np.float64)), mask=absent if some else None)
    if not _is_plain(words[:, 0]).all():
        return None
    return pa.array(_whole(words[:, 0], words[:, 1]), mask=absent if some else None)


def number_texts(kinds: np.ndarray, words: np.ndarray) -> pa.Array:
    """The JSON text of each number, of whatever types; arguments as of ``number_column``.

    Raises:
        ContractViolation: a NaN or an infinity.
    """
    high, low = words[:, 0], words[:, 1]
    is_int, is_float = kinds == INT, kinds == FLOAT
    plain = is_int & _is_plain(high)
    place = np.zeros(len(kinds), np.int64)
    texts = [pa.array(["null"])]
    for chosen, some in (
        (plain, pc.cast(pa.array(_whole(high[plain], low[plain])), pa.string())),
        (is_float, float_texts(_finite(high[is_float].copy().view(np.float64)))),
        (is_int & ~plain, _large(words[is_int & ~plain])),
    ):
        place[chosen] = np.arange(len(some)) + sum(map(len, texts))
        texts.append(some)
    return pa.concat_arrays(texts).take(pa.array(place))


def _is_plain(high: np.ndarray) -> np.ndarray:
    return (high >= -_INT_MAX) & (high < _INT_MAX)


def _whole(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    return np.asarray((high << HALF_WORD) | low)


def _finite(values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ContractViolation("a window's result holds a NaN or an infinity")
    return values


def _large(words: np.ndarray) -> pa.Array:
    """Beyond int64, which is rare."""
    return pa.array([str((high << HALF_WORD) + low) for high, low in words.tolist()], pa.string())


# Results of windows as columns without a Python object per row: see ``engine.results.schema``.


DRIFT_NAMES: Final = ("low", "middle", "high")
"""Which of R19's windows a result is of, by its stage."""
PLACES: Final = {"value": VALUE, "low": LOW_ONE, "middle": MIDDLE_ONE, "high": HIGH_ONE}
CERTAINTY: Final = ("confirmed", "uncertain", "unknown")
COUNTS: Final = ("certain", "ambiguous", "missing")


def columns_of_windows(results: WindowResults) -> pa.Table:
    """The results as a table; ``position`` counts from 0.

    Raises:
        ContractViolation: a value is a NaN or an infinity, which JSON does not have.
    """
    n, fields, plan = len(results), results.columns, results.plan
    start, end = results.extent()
    certainty, says = results.certainty()
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
        "certainty": one_of(CERTAINTY, certainty, ~says) if says.any() else pa.nulls(n, TEXT),
        "drift": pa.nulls(n, TEXT),
        "bounds": _bounds(results),
        MORE: pa.nulls(n, pa.string()),
    }
    if plan.drift is Drift.EACH:
        stage = pa.array(fields.stage.astype(np.int32))
        columns["drift"] = pa.DictionaryArray.from_arrays(stage, pa.array(DRIFT_NAMES))
    for name, place in PLACES.items():
        values = [(label, (place,)) for label in results.labels]
        shown = results.bounds_shown if name in ("low", "high") else results.shows
        columns[name] = _objects(results, values, shown(name))
    for j, name in enumerate(COUNTS):
        counts = fields.counts[:, j]
        columns[name] = pa.array(counts, mask=counts == UNKNOWN)
    return pa.table({name: columns[name] for name in WINDOW_SCHEMA.names})


def _are_alike(columns: Sequence[pa.Array | None]) -> bool:
    """Whether the numbers of one label are all of one single type."""
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
    """Per row an object of the numbers at the places of each label; null where it is not there.

    Two places are a pair. JSON texts where a number has no single type, or nothing is in it.
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
