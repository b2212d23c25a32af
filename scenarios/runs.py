"""Reads the files of a run's passes (``engine.scenario``, layout) for scoring."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.scenario import UserError, read_results

RUNS: Final = "runs"
IN_ORDER, RESIDUAL, LATE, LATE_DROPPED = range(4)
"""Values of ``status`` in the ordered stream."""
_TEXTS: Final = ("site", "stream", "source", "type")
QUANTILES: Final = (0.5, 0.95, 0.99, 1.0)
NS_PER_MS: Final = 1e6


def read_ordered(directory: Path, label: str, columns: list[str] | None = None) -> pa.Table:
    """The ordered stream of pass ``label``, each site's events in release order.

    Args:
        directory: of the run.
        label: of the pass.
        columns: columns to read, texts as dictionaries; None: all columns as they are, which
            takes much memory for many events.

    Raises:
        UserError: the pass wrote none.
    """
    # Attributes come in the order in which a part had them first.
    parts = _parts(directory / RUNS / label / "ordered", columns)
    return pa.concat_tables(parts, promote_options="default").unify_dictionaries()


def read_counters(directory: Path, label: str) -> dict[str, Any]:
    """``counters.json`` of pass ``label``.

    Raises:
        UserError: the pass wrote none.
    """
    path = directory / RUNS / label / "counters.json"
    if not path.is_file():
        raise UserError(f"{path}: no such file; did the run end?")
    counters: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return counters


def lane_sum(counters: dict[str, Any], name: str) -> int:
    """Sum of one counter over all lanes of all sites."""
    return sum(lane.get(name, 0) for each in counters["sites"].values() for lane in each["lanes"])


def missing_events(counters: dict[str, Any], site: str) -> int | None:
    """Missing numbers of ``site``; None when the order ignores numbers."""
    lanes = counters["sites"][site]["lanes"]
    if any("missing_total" not in lane for lane in lanes):
        return None
    return int(sum(lane["missing_total"] - lane["missing_filled"] for lane in lanes))


def standing(
    directory: Path, label: str, folder: str, identity: Callable[[dict[str, Any]], Hashable]
) -> list[dict[str, Any]]:
    """Results of pass ``label`` that were not retracted, by site and query, in order of emission.

    Args:
        directory: of the run.
        label: of the pass.
        folder: ``windows`` or ``matches``; absent when the pass has none.
        identity: key that a result and its retraction share.
    """
    found: dict[Hashable, dict[str, Any]] = {}
    for result in emitted(directory, label, folder):
        if result["op"] == "+":
            found[identity(result)] = result
        else:
            found.pop(identity(result), None)
    return list(found.values())


def emitted(directory: Path, label: str, folder: str) -> Iterator[dict[str, Any]]:
    """Results of pass ``label``, insertions and retractions, by site and query, in order."""
    made = directory / RUNS / label
    return read_results(made, folder) if made.is_dir() else iter(())


def match_identity(result: dict[str, Any]) -> tuple[Any, ...]:
    """Key that a match and its retraction share: the numbers of their events."""
    events = result["events"]
    return (result["query"], *((each["source"], each["stream"], each["seq"]) for each in events))


def _parts(folder: Path, columns: list[str] | None) -> Iterable[pa.Table]:
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise UserError(f"{folder}: no Parquet files; did the run end?")
    coded = [name for name in columns or () if name in _TEXTS]
    return [pq.ParquetFile(file, read_dictionary=coded).read(columns) for file in files]


def ints(table: pa.Table, name: str) -> np.ndarray:
    """An integer column without nulls as NumPy."""
    return np.asarray(table.column(name).to_numpy())


def out_of_order(times: np.ndarray) -> np.ndarray:
    """Which have a larger one before them (L10 4.3.1, R19 5.2.2).

    >>> out_of_order(np.array([1, 4, 3, 5, 4])).tolist()
    [False, False, True, False, True]
    """
    return np.asarray(times < np.maximum.accumulate(times)) if times.size else times < 0


def share(part: float, whole: float) -> float:
    """``part`` of ``whole`` in percent; 0 of nothing."""
    return 100.0 * part / whole if whole else 0.0


def quantiles_ms(spans_ns: np.ndarray) -> tuple[float, ...]:
    """``QUANTILES`` of spans [ns], in ms rounded to us; zeros if there is none."""
    if not spans_ns.size:
        return (0.0,) * len(QUANTILES)
    # "higher" gives spans that occurred, and the last one exactly.
    found = np.quantile(spans_ns, QUANTILES, method="higher")
    return tuple(round(float(each) / NS_PER_MS, 3) for each in found)
