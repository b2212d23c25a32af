"""Clock error against its declared bound: is ``ref`` within ``unc`` of the true time?

The error of an event is ``ref`` minus the engine clock's reading at the instant it truly happened:
positive = ``ref`` is too late. Its declared bound is the uncertainty ``unc`` that the engine gave
it (R19 Eq 3.14 and its growth). The share inside the bound is over all events whose truth is
known; pictures show the extremes of each slice of time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from engine.report.measure.quantiles import quantiles
from engine.report.measure.rows import RunRows, ordered_rows
from engine.report.measure.true_times import LANE, NUMBER, TrueTimes

SLICES: Final = 120
"""Of the time line of one source; each shows its two extreme events."""


def measure_clock_error(directory: Path, truth: Path) -> dict[str, Any]:
    """Per source what was declared and, where the truth is known, what the error was.

    Args:
        directory: of the main pass.
        truth: directory with ``events.parquet`` (``simulator.truth``); need not exist.

    Returns:
        ``known`` (whether there is any truth), ``events``, ``with_truth``, ``inside``, and per
        source: ``bound_ns`` (quantiles of unc), ``error_ns`` (quantiles of the error's size and
        ``median``, signed), ``series`` (``at_ns error_ns bound_ns``; at = true time).
    """
    known = (truth / "events.parquet").is_file()
    rows = ordered_rows(directory, (*LANE, *NUMBER, "ref", "unc") if known else (*LANE, "unc"))
    lanes = TrueTimes(truth) if known else None
    sources: dict[str, Any] = {}
    for (site, source), mine in rows.groups("site", "source"):
        name = f"{site}/{source}"
        bound = rows["unc"][mine]
        found: dict[str, Any] = {"events": int(mine.size), "bound_ns": quantiles(np.sort(bound))}
        if lanes is not None:
            own = {key: column[mine] for key, column in rows.numbers.items()}
            found |= _judge(RunRows(own, rows.texts), lanes)
        sources[name] = found
    return {
        "known": known,
        "events": len(rows),
        "with_truth": sum(each.get("with_truth", 0) for each in sources.values()),
        "inside": sum(each.get("inside", 0) for each in sources.values()),
        "sources": sources,
    }


def _judge(rows: RunRows, truth: TrueTimes) -> dict[str, Any]:
    """The errors of one source's events."""
    true_ns, matched = truth.of(rows)
    true_ns, bound = true_ns[matched], rows["unc"][matched]
    error = rows["ref"][matched] - truth.engine_reads(true_ns)
    size = np.sort(np.abs(error))
    return {
        "with_truth": int(error.size),
        "inside": int((np.abs(error) <= bound).sum()),
        "error_ns": {"median": quantiles(np.sort(error))["p50"], **quantiles(size)},
        "series": _extremes(true_ns, error, bound),
    }


def _extremes(at: np.ndarray, error: np.ndarray, bound: np.ndarray) -> dict[str, list[int]]:
    """The least and the greatest error of each slice of time, in order of time."""
    if not at.size:
        return {"at_ns": [], "error_ns": [], "bound_ns": []}
    low, length = int(at.min()), int(at.max()) - int(at.min()) + 1
    place = (at - low) // max(-(-length // SLICES), 1)
    order = np.lexsort((error, place))
    ends = np.flatnonzero(np.diff(place[order], append=SLICES + 1))
    starts = np.concatenate(([0], ends[:-1] + 1))
    chosen = np.unique(order[np.concatenate((starts, ends))])
    chosen = chosen[np.argsort(at[chosen], kind="stable")]
    return {
        "at_ns": at[chosen].tolist(),
        "error_ns": error[chosen].tolist(),
        "bound_ns": bound[chosen].tolist(),
    }
