"""Measures as their definitions read, slowly: every event is compared with every other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.chain import Chain, ChainSettings
from engine.log.arrival_log import LogReader
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.stream.released import IN_ORDER, LATE_DROPPED

Row = dict[str, Any]


def rows_of(log: Path, order: str, guards: Guards) -> dict[str, list[Row]]:
    """Each site's ordered stream, a dict per event."""
    chosen = ChainSettings(parse_order(order), guards=guards, ordered="full")
    chains: dict[str, Chain] = {}
    found: dict[str, list[Row]] = {}
    for frame in LogReader(log):
        chain = chains.setdefault(frame.site, Chain(chosen, frame.site))
        found.setdefault(frame.site, []).extend(_rows(chain.process([frame]).ordered))
    for site, chain in chains.items():
        found[site] += _rows(chain.finish().ordered)
    return found


def _rows(batches: Sequence[Any]) -> list[Row]:
    return [
        {name: column[row].item() for name, column in batch.columns.items()}
        for batch in batches
        for row in range(batch.n)
    ]


def out_of_order(times: Sequence[int]) -> list[bool]:
    """L10 4.3.1: some earlier one has a larger time."""
    return [any(before > time for before in times[:place]) for place, time in enumerate(times)]


def slow_measures(log: Path, order: str, guards: Guards, time: str, departed: str) -> Row:
    """What ``Measures`` says of the rows that came out; ``time``, ``departed``: columns."""
    before = rows_of(log, "none:time=ts" if "time=ts" in order else "none", guards)
    after = rows_of(log, order, guards)
    passed = {
        site: [row for row in rows if row["status"] != LATE_DROPPED] for site, rows in after.items()
    }
    rows = [row for of_site in passed.values() for row in of_site]
    behind = {site: out_of_order([row["ref"] for row in of]) for site, of in passed.items()}
    return {
        "released": len(rows),
        "dropped": sum(map(len, after.values())) - len(rows),
        "late": sum(row["status"] != IN_ORDER for row in rows),
        "in_place": sum(
            row["status"] == IN_ORDER and not late
            for site, of in passed.items()
            for row, late in zip(of, behind[site], strict=True)
        ),
        "disorder_before": sum(
            sum(out_of_order([row[time] for row in of])) for of in before.values()
        ),
        "disorder_after": sum(
            sum(out_of_order([row[time] for row in of])) for of in passed.values()
        ),
        "hold": slow_spread([row["release"] - row["arrival"] for row in rows]),
        "latency": slow_spread([row["release"] - row[departed] for row in rows]),
    }


def slow_spread(values: Sequence[int]) -> tuple[float, int, int, int, int]:
    """Mean, and the smallest values that 50, 95, 99 and 100 % of all do not exceed."""
    if not values:
        return (0.0, 0, 0, 0, 0)
    ranks = (
        min(v for v in values if 100 * sum(w <= v for w in values) >= share * len(values))
        for share in (50, 95, 99, 100)
    )
    p50, p95, p99, most = ranks
    return (sum(values) / len(values), p50, p95, p99, most)
