"""How much out of order events are (SPEC 1): events, inversions, lateness; before and after.

An event is out of order when some event that arrived earlier has a larger event time (L10 4.3.1,
R19 5.2.2). Events of one instant of arrival did not arrive one before the other. Inversions are
pairs (earlier, later) with a larger event time in the earlier one. Lateness is the event clock
(largest event time seen) minus the event's own. All per site, summed over sites.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.kernels.jit import njit
from engine.report.measure.quantiles import axis_floor, distribution, quantiles
from engine.report.measure.rows import RunRows, ordered_rows
from engine.stream.released import IN_ORDER, LATE, LATE_DROPPED, RESIDUAL


@dataclass(frozen=True, slots=True)
class Disorder:
    """``lateness`` holds the sorted lateness [ns] of the events that are out of order."""

    events: int
    inversions: int
    lateness: np.ndarray

    def plain(self) -> dict[str, Any]:
        """As plain data; quantiles of lateness are over the events out of order."""
        return {
            "events": self.events,
            "out_of_order": int(self.lateness.size),
            "inversions": self.inversions,
            "lateness_ns": quantiles(self.lateness),
            "curve": self._curve(),
        }

    def _curve(self) -> dict[str, list[Any]]:
        """Share of all events with at least this lateness."""
        if not self.lateness.size:
            return {"lateness_ns": [], "share": []}
        places, _ = distribution(self.lateness, axis_floor(self.lateness))
        at_least = self.lateness.size - np.searchsorted(self.lateness, places, side="left")
        return {"lateness_ns": places.tolist(), "share": (at_least / self.events).tolist()}


@njit
def inversions(times: np.ndarray) -> int:
    """Pairs i < j with times[i] > times[j], by merge sort; ``times`` (int64) is left as it is.

    Fewer than 2**63 for any array below 4e9 elements.
    """
    n = len(times)
    count = 0
    here, there = times.copy(), np.empty_like(times)
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):
                if i < middle and (j >= high or here[i] <= here[j]):
                    there[k] = here[i]
                    i += 1
                else:
                    there[k] = here[j]
                    j += 1
                    count += middle - i
        here, there = there, here
        width *= 2
    return count


def disorder(site: np.ndarray, times: np.ndarray, arrival: np.ndarray | None) -> Disorder:
    """Disorder of ``times`` in order of ``arrival``, or of the rows when it is None.

    Args:
        site: code of each row's site.
        times: event times, int64 ns.
        arrival: int64 ns; within one instant events count as in order.
    """
    order = np.argsort(site, kind="stable") if arrival is None else np.lexsort((arrival, site))
    if arrival is not None and (np.diff(arrival[order]) == 0).any():
        order = np.lexsort((times, arrival, site))
    cuts = np.flatnonzero(np.diff(site[order])) + 1
    count, late = 0, [np.empty(0, np.int64)]
    for one in np.split(times[order], cuts):
        lateness = np.maximum.accumulate(one) - one
        late.append(lateness[lateness > 0])
        if late[-1].size:
            count += int(inversions(one))
    return Disorder(int(times.size), count, np.sort(np.concatenate(late)))


def measure_disorder(passes: Mapping[str, Path], unordered: str | None = None) -> dict[str, Any]:
    """Disorder on arrival and as each pass released its events.

    Args:
        passes: label -> directory of the pass; the first is the main one.
        unordered: label of a pass that released events just as they arrived. It knows the order
            of events of one instant; without it, the main pass's events are taken by arrival.

    Returns:
        ``arrived_ts`` (by the sources' own clocks), ``arrived_ref`` (clocks corrected) and
        ``released`` per label (by ref, without dropped events), see ``Disorder.plain``;
        released ones also say how many are marked ``late`` or ``residual``, and how many of the
        others are out of order among themselves (``in_time_out_of_order``).
    """
    place = passes[unordered if unordered is not None else next(iter(passes))]
    rows = ordered_rows(place, ("site", "ts", "ref", "arrival"))
    arrival = None if unordered is not None else rows["arrival"]
    found: dict[str, Any] = {
        f"arrived_{name}": disorder(rows["site"], rows[name], arrival).plain()
        for name in ("ts", "ref")
    }
    return found | {
        "released": {
            label: _released(ordered_rows(directory, ("site", "ref", "status")))
            for label, directory in passes.items()
        }
    }


def _released(rows: RunRows) -> dict[str, Any]:
    passed = rows["status"] != LATE_DROPPED
    measured = disorder(rows["site"][passed], rows["ref"][passed], None)
    in_time = rows["status"] == IN_ORDER
    left = disorder(rows["site"][in_time], rows["ref"][in_time], None)
    return measured.plain() | {
        "late": int((rows["status"] == LATE).sum()),
        "residual": int((rows["status"] == RESIDUAL).sum()),
        "in_time_out_of_order": int(left.lateness.size),
    }
