"""A run in slices of time: what happened and what arrived, how late, and how far clocks are apart.

Slices lie between the first and the last event, so that none at the ends is empty. Where the truth
is known, an event belongs to the slice in which it truly happened, so that what happened is what
arrived and what is missing, slice by slice; else to that of its ref.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from slackwater.edge_agent.records import CLOCK
from slackwater.engine.apps.report.measure.events import RunRows, ordered_rows, quantiles
from slackwater.engine.apps.report.measure.truth import LANE, NUMBER, TrueTimes, rows_by_clock
from slackwater.engine.core.released import IN_ORDER, LATE_DROPPED

SLICES: Final = 60
SOURCES_SHOWN: Final = 40
_STEPS: Final = (1, 2, 5)
_COLUMNS: Final = (*LANE, *NUMBER, CLOCK, "ts", "ref", "unc", "arrival", "status")


def measure_over_time(directory: Path, truth: Path) -> dict[str, Any]:
    """``reconciled``, ``lateness`` and ``clocks`` of one pass; each None where it says nothing.

    Args:
        directory: of the pass.
        truth: directory with ``events.parquet``; need not exist.

    Returns:
        ``reconciled``: ``starts_ns width_ns`` and, per slice, ``in_place late dropped`` of what
        arrived, ``happened`` (None without truth). ``lateness``: ``at_ns before_ns after_ns``, the
        largest of each slice, on arrival and as released. ``clocks``: per clock (``sources``)
        ``at_ns apart_ns`` (it minus the engine's, as corrected) and ``bound_ns``; ``spread_ns``,
        the most that two of them (the engine's among them) are apart at one time; ``bound_ns``
        quantiles.
    """
    rows = ordered_rows(directory, _COLUMNS)
    if not len(rows):
        return {"reconciled": None, "lateness": None, "clocks": None}
    lanes = TrueTimes(truth) if (truth / "events.parquet").is_file() else None
    return {
        "reconciled": _reconciled(rows, lanes),
        "lateness": _lateness(rows),
        "clocks": _clocks(rows),
    }


def _reconciled(rows: RunRows, truth: TrueTimes | None) -> dict[str, Any]:
    at, status, happened = rows["ref"], rows["status"], None
    if truth is not None:
        true_ns, known = truth.of(rows)
        at, status = truth.engine_reads(true_ns[known]), status[known]
        happened = truth.engine_reads(truth.numbered)
    every = at if happened is None else np.concatenate((at, happened))
    if not every.size:
        return {"starts_ns": [], "width_ns": 1}
    first, width, count = _grid(int(every.min()), int(every.max()))
    kinds = {
        "in_place": status == IN_ORDER,
        "dropped": status == LATE_DROPPED,
        "late": (status != IN_ORDER) & (status != LATE_DROPPED),
    }
    counted = {
        name: np.bincount((at[of] - first) // width, minlength=count).tolist()
        for name, of in kinds.items()
    }
    all_of = None
    if happened is not None:
        all_of = np.bincount((happened - first) // width, minlength=count).tolist()
    starts = [first + place * width for place in range(count)]
    return {"starts_ns": starts, "width_ns": width, **counted, "happened": all_of}


def _grid(low: int, high: int) -> tuple[int, int, int]:
    """First start, width and number of slices: round widths, and none without events at the ends.

    Slices begin with the first event: a border elsewhere would cut a part off.
    """
    least = max((high - low) // SLICES, 1)
    digits = 10 ** (len(str(least)) - 1)
    width = next(digits * step for step in (*_STEPS, 10) if digits * step >= least)
    return low, width, (high - low) // width + 1


def _lateness(rows: RunRows) -> dict[str, Any]:
    """By ref: on arrival, and in the order of release."""
    at = rows["arrival"]
    first, width, count = _grid(int(at.min()), int(at.max()))
    before = np.zeros(count, np.int64)
    after = np.zeros(count, np.int64)
    for _, mine in rows.groups("site"):
        # Within one instant of arrival events count as in order, as in the disorder's measure.
        arrived = mine[np.lexsort((rows["ref"][mine], at[mine]))]
        released = mine[rows["status"][mine] != LATE_DROPPED]
        for into, order in ((before, arrived), (after, released)):
            times = rows["ref"][order]
            late = np.maximum.accumulate(times) - times if times.size else times
            np.maximum.at(into, (at[order] - first) // width, late)
    return {
        "at_ns": [first + place * width for place in range(count)],
        "before_ns": before.tolist(),
        "after_ns": after.tolist(),
    }


def _clocks(rows: RunRows) -> dict[str, Any] | None:
    """How far the clocks are apart; None if no time was corrected."""
    apart = rows["ts"] - rows["ref"]
    if not apart.any():
        return None
    at = rows["ref"]
    low, length = int(at.min()), int(at.max()) - int(at.min()) + 1
    place = (at - low) * SLICES // length if length < 2**56 else (at - low) // (length // SLICES)
    every = np.arange(int(place.max()) + 1)
    ahead, behind = np.zeros(len(every), np.int64), np.zeros(len(every), np.int64)
    sources = {}
    for name, of in rows_by_clock(rows).items():
        mine = of[np.argsort(place[of], kind="stable")]
        slices, starts = np.unique(place[mine], return_index=True)
        chosen = mine[starts]
        sources[name] = {
            "at_ns": at[chosen].tolist(),
            "apart_ns": apart[chosen].tolist(),
            "bound_ns": rows["unc"][chosen].tolist(),
        }
        latest = np.maximum(np.searchsorted(slices, every, "right") - 1, 0)
        ahead = np.maximum(ahead, apart[chosen][latest])
        behind = np.minimum(behind, apart[chosen][latest])
    order = np.argsort(place, kind="stable")
    slices, starts = np.unique(place[order], return_index=True)
    furthest = sorted(sources, key=lambda name: -max(map(abs, sources[name]["apart_ns"])))
    return {
        "spread_ns": int((ahead - behind).max()),
        "bound_ns": quantiles(np.sort(rows["unc"])),
        "sources": {name: sources[name] for name in sorted(furthest[:SOURCES_SHOWN])},
        "count": len(sources),
        "widest": {
            "place": slices.tolist(),
            "at_ns": np.minimum.reduceat(at[order], starts).tolist(),
            "bound_ns": np.maximum.reduceat(rows["unc"][order], starts).tolist(),
        },
    }
