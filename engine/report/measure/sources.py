"""How far each source had got, and how it held the others back: from a pass's counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_KEPT: Final = (
    "silences", "blocked_ns", "gap_timeout", "idle_timeout", "offset", "uncertainty", "idle",
    "ended",
)  # fmt: skip


def measure_sources(counters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row per site, source and stream, who held others back longest first.

    ``silent_ns``: from its last arrival to the site's; ``behind_ns``: from its newest event time,
    on the engine's clock, to the site's last arrival. What an order does not know is None.
    """
    rows = []
    for site, of_site in counters["sites"].items():
        end = of_site.get("last_arrival")
        for lane in of_site["lanes"]:
            row = {"site": site, "source": lane["source"], "stream": lane["stream"]}
            row |= {name: lane.get(name) for name in _KEPT}
            for name, of_lane in (("silent_ns", "last_arrival"), ("behind_ns", "last_event")):
                known = end is not None and lane.get(of_lane) is not None
                row[name] = end - lane[of_lane] if known else None
            rows.append(row)
    return sorted(rows, key=lambda row: -(row["blocked_ns"] or 0))


def how_it_ended(row: Mapping[str, Any]) -> str | None:
    """Whether the source was still speaking when the input ended; None where nobody knows."""
    if row["ended"]:
        return "ended"
    if row["idle"] is None:
        return None
    return "idle" if row["idle"] else "speaking"
