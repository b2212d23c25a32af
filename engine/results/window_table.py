"""Results of windows as rows of ``WINDOW_SCHEMA`` without a Python object per row."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.query.plan import Drift
from engine.results.json_texts import woven
from engine.results.number_texts import number_texts
from engine.results.schema import MORE, POSITION, WINDOW_SCHEMA, as_json
from engine.window.content import LEAST, MOST, NUMBERS, UNKNOWN
from engine.window.results import COUNTS, DRIFT_NAMES, PLACES, WindowResults


def columns_of_windows(results: WindowResults) -> pa.Table:
    """The results as a table; ``position`` counts from 0.

    Raises:
        ContractViolation: a value is a NaN or an infinity, which JSON does not have.
    """
    n, told, plan = len(results), results.columns, results.plan
    start = results.start()
    known, which = results.distinct_keys()
    # By number, then by row, so that a column is one slice.
    every = number_texts(told.kinds.T, told.words.transpose(1, 0, 2))
    texts = [every.slice(j * n, n) for j in range(told.kinds.shape[1])]
    names = pa.array(DRIFT_NAMES, pa.string())
    columns: dict[str, pa.Array] = {
        POSITION: pa.array(np.arange(n)),
        "op": pc.if_else(pa.array(told.plus), "+", "-"),
        "query": pa.repeat(pa.scalar(plan.name, pa.string()), n),
        "site": pa.repeat(pa.scalar(results.site, pa.string()), n),
        "at": pa.array(told.at),
        "window": pa.StructArray.from_arrays(
            [pa.array(start), pa.array(start + plan.size_ns)], names=["start", "end"]
        ),
        "key": pa.array([as_json(key) for key in known], pa.string()).take(pa.array(which)),
        "drift": pa.nulls(n, pa.string()),
        "bounds": _bounds(results, texts),
        MORE: pa.nulls(n, pa.string()),
    }
    if plan.drift is Drift.EACH:
        columns["drift"] = names.take(pa.array(told.stage))
    for name in PLACES:
        columns[name] = _labelled(results, texts, name)
    for j, name in enumerate(COUNTS):
        counts = told.counts[:, j]
        columns[name] = pa.array(counts, mask=counts == UNKNOWN)
    return pa.Table.from_arrays(
        [columns[name] for name in WINDOW_SCHEMA.names], schema=WINDOW_SCHEMA
    )


def _labelled(results: WindowResults, texts: list[pa.Array], name: str) -> pa.Array:
    """``value``, ``low``, ``middle`` or ``high`` as JSON; null where a result has none."""
    members = [
        (label, (texts[a * NUMBERS + PLACES[name]],)) for a, label in enumerate(results.labels)
    ]
    return _object(members, results.shows(name))


def _bounds(results: WindowResults, texts: list[pa.Array]) -> pa.Array:
    members = []
    for a, label in enumerate(results.labels):
        if results.bounded[a]:
            least, most = texts[a * NUMBERS + LEAST], texts[a * NUMBERS + MOST]
            members.append((label, ("[", least, ", ", most, "]")))
    return _object(members, results.last)


def _object(members: Sequence[tuple[str, Sequence[str | pa.Array]]], there: np.ndarray) -> pa.Array:
    """Per row the JSON object of (label, parts of the value's text); null where it is not there."""
    parts: list[str | pa.Array] = []
    for label, value in members:
        parts += [", " if parts else "", json.dumps(label, ensure_ascii=False), ": ", *value]
    text = woven("{", *parts, "}") if members else pa.scalar("{}")
    return pc.if_else(pa.array(there), text, pa.scalar(None, pa.string()))
