"""Scores a run of a scenario file: every metric of every query, and the thresholds on them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.scenario import NO_TABLES, Claim, Score, Table, Tables, Tile, parse_queries
from slackwater.scenarios.from_file.durable import Durable
from slackwater.scenarios.from_file.lineage import Lineage
from slackwater.scenarios.from_file.metrics import METRICS, OF_STREAM, EmittedResult, query_metrics
from slackwater.scenarios.from_file.perfect_world import PerfectWorld, event_identity
from slackwater.scenarios.from_file.thresholds import Threshold, metric_text
from slackwater.scenarios.runs import (
    IN_ORDER,
    LATE_DROPPED,
    emitted,
    ints,
    out_of_order,
    read_ordered,
)
from slackwater.simulation import LOG, MANIFEST, FileScenario

STREAM: Final = "events"
_NAME: Final = ("source", "stream", "incarnation", "seq")
"""Of an event."""
_NO_NUMBER: Final = -1
_CLOSE: Final = 1e-9
_NOTHING: Final = "; no true result and no final one: check its types and attributes"


def score_run(
    directory: Path, label: str, scenario: FileScenario, thresholds: Sequence[Threshold],
    tables: Tables = NO_TABLES,
) -> Score:  # fmt: skip
    """Claims, tables and numbers of the run in ``directory``.

    Args:
        directory: of the run.
        label: of its pass.
        scenario: from the file.
        thresholds: from the file.
        tables: reference tables of its queries.

    Raises:
        UserError: the pass wrote no results.
    """
    queries, simulated = scenario.queries, scenario.simulated
    world = PerfectWorld.read(directory, simulated.sources)
    plans = parse_queries(queries, tables)
    true = world.answers(queries, scenario.attributes, tables)
    happened, made = len(world), world.made
    del world  # many events take much memory, and so do the next steps
    durable = Durable(
        directory / LOG, simulated.gateway.frame_every_ns, scenario.answering.answers_after_ns
    )
    emissions: dict[str, list[tuple[str, EmittedResult]]] = {plan.name: [] for plan in plans}
    results = chain.from_iterable(
        emitted(directory, label, folder) for folder in ("matches", "windows")
    )
    lineage = Lineage(plans, lambda event: event_identity(event, made))
    for result, identity, content in lineage.known(results):
        each = _emitted_result(result, identity, content, durable)
        emissions[result["query"]].append((result["op"], each))
    values: dict[str, dict[str, float]] = {STREAM: _of_stream(directory, label, happened)}
    for name, of_query in emissions.items():
        values[name] = query_metrics(of_query, true[name], _same)
    matching = {plan.name for plan in plans if plan.result_kind == "matches"}
    facts: dict[str, Any] = {
        "metrics": values,
        "true_matches": [
            {"query": name, "at_ref_ns": each.since_ns}
            for name, of_query in true.items()
            if name in matching
            for each in of_query.values()
        ],
        "true_results": {name: len(of_query) for name, of_query in true.items()},
    }
    judged = [pair for each in thresholds for pair in _judged(each, values, true)]
    claims, tiles = tuple(claim for claim, _ in judged), tuple(tile for _, tile in judged)
    return Score(claims, (_table(values, true),), facts, tiles=tiles, decisive=True)


def _emitted_result(
    result: Mapping[str, Any], identity: Any, content: Any, durable: Durable
) -> EmittedResult:
    at = result["at"]
    if "window" in result:
        certain = not result.get("ambiguous")
    else:
        certain = result["certainty"] == "confirmed"
    return EmittedResult(identity, content, certain, at, durable.since(result["site"], at))


def _same(left: Any, right: Any) -> bool:
    """Whether two contents are equal; sums of fractions in another order may differ a little."""
    if left is None or right is None:
        return left is right
    if left.keys() != right.keys():
        return False
    return all(_equal(left[name], right[name]) for name in left)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, int | float):
        return math.isclose(left, right, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return bool(left == right)


def _of_stream(directory: Path, label: str, happened: int) -> dict[str, float]:
    if not _arrived(directory):
        return {"events": float(happened), "missing": 1.0, "late": 0.0, "disorder": 0.0,
                "hold_p95": 0.0}  # fmt: skip
    table = read_ordered(directory, label, ["arrival", "ref", "release", "status"])
    status, arrival = ints(table, "status"), ints(table, "arrival")
    late = status != IN_ORDER
    in_place = status != LATE_DROPPED
    order = np.argsort(arrival, kind="stable")
    disorder = int(out_of_order(ints(table, "ref")[order]).sum())
    holds = ints(table, "release")[in_place] - arrival[in_place]
    arrived = table.num_rows
    del table, arrival, order
    reached = _different(read_ordered(directory, label, [*_NAME]).filter(pa.array(in_place)))
    return {
        "events": float(happened),
        "missing": 1 - reached / happened if happened else 0.0,
        "late": float(late.sum()) / arrived if arrived else 0.0,
        "disorder": disorder / arrived if arrived else 0.0,
        "hold_p95": float(np.quantile(holds, 0.95, method="higher")) if holds.size else 0.0,
    }


def _different(names: pa.Table) -> int:
    """Number of different rows; by sorting, as a hash table takes five times as much memory."""
    columns = [
        column.combine_chunks().indices if pa.types.is_dictionary(column.type) else column
        for column in names.columns
    ]
    numbers = [column.fill_null(_NO_NUMBER).to_numpy() for column in columns]
    order = np.lexsort(numbers)
    other = np.zeros(max(len(order) - 1, 0), np.bool_)
    for column in numbers:
        other |= np.diff(column[order]) != 0
    return int(other.sum()) + bool(len(order))


def _arrived(directory: Path) -> bool:
    """Whether any event reached the gateway."""
    manifest: dict[str, Any] = json.loads((directory / MANIFEST).read_text("utf-8"))
    return bool(manifest["rows"].get("event"))


def _judged(
    threshold: Threshold, values: Mapping[str, Mapping[str, float]],
    true: Mapping[str, Mapping[Any, Any]],
) -> list[tuple[Claim, Tile]]:  # fmt: skip
    """A claim and its tile for the stream, or for each query that the threshold is about."""
    metric = threshold.metric
    if metric in OF_STREAM:
        value = values[STREAM][metric]
        return [_claim(threshold, "", value, "")]
    queries = [threshold.query] if threshold.query else [name for name in values if name != STREAM]
    return [
        _claim(
            threshold,
            name,
            values[name].get(metric),
            "" if true[name] or values[name]["results"] else _NOTHING,
        )
        for name in queries
    ]


def _claim(
    threshold: Threshold, query: str, value: float | None, doubt: str
) -> tuple[Claim, Tile]:  # fmt: skip
    text = threshold.text if threshold.query or not query else f"{query}: {threshold.text}"
    name = f"{query}: {threshold.metric}" if query else threshold.metric
    if value is None:
        why = "there is none: no true result was emitted"
        return Claim(text, False, why), Tile(name, None, "none", threshold.bound_text, False)
    holds, value_text = threshold.holds(value), threshold.value_text(value)
    return (
        Claim(text, holds, f"it is {value_text}{doubt}"),
        Tile(name, value, value_text, threshold.bound_text, holds),
    )


def _table(
    values: Mapping[str, Mapping[str, float]], true: Mapping[str, Mapping[Any, Any]]
) -> Table:
    rows = []
    for name, metrics in values.items():
        for metric, value in metrics.items():
            rows.append((name, metric, metric_text(metric, value), METRICS[metric]))
        if name in true:
            rows.append(
                (name, "true_results", str(len(true[name])), "results of the perfect world")
            )
    return Table(
        "What was measured",
        ("of", "metric", "value", "meaning"),
        tuple(rows),
        "True results are those of the same query over the events that happened, at their true "
        "times, in order and complete.",
    )
