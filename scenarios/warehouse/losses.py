"""The same devices over a lossy network without resending, with and without requests for intervals
that began and did not arrive (Z10 5.3.2).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from slackwater.log import LogReader
from slackwater.scenario import NS_PER, Claim, Table
from slackwater.scenarios.intervals import Identity, Match
from slackwater.simulation import LOG, Bernoulli, Outage, Scenario, simulate_to

SECOND: Final = NS_PER["s"]
LOSS: Final = 0.1
OUTAGE_S: Final = 15
OUTAGES_EVERY_S: Final = 180
_OUTAGE: Final = Outage(100 * SECOND, OUTAGE_S * SECOND, OUTAGES_EVERY_S * SECOND)
ASK_NS: Final = 2 * SECOND
KEPT_BYTES: Final = 1 << 20
WITHOUT, WITH = "without", "with"
_REASONS: Final = {name: f"pull_back_{name}" for name in ("asked", "came", "unended", "gone")}


def lossy(scenario: Scenario, kept_bytes: int) -> Scenario:
    """``scenario`` over a lossy network; ``kept_bytes`` 0: lost events cannot be requested."""
    sources = tuple(
        replace(
            each, resend=False, pull_back_bytes=kept_bytes,
            up=replace(each.up, reliable=False, loss=Bernoulli(LOSS), outages=(_OUTAGE,)),
        )
        for each in scenario.sources
    )  # fmt: skip
    gateway = replace(scenario.gateway, pull_back_ns=ASK_NS)
    return replace(scenario, sources=sources, gateway=gateway)


def simulate_both(scenario: Scenario, directory: Path, data: Path, out: Path) -> None:
    """Writes the intervals that arrived, and the cost, to ``out``; removes ``directory``."""
    found = {}
    for name, kept_bytes in ((WITHOUT, 0), (WITH, KEPT_BYTES)):
        manifest = simulate_to(lossy(scenario, kept_bytes), directory, data).manifest
        counts: dict[str, int] = {}
        for _, reason, count in manifest["gateway"]:
            counts[reason] = counts.get(reason, 0) + count
        found[name] = {
            "arrived": sorted(logged(directory)[0]),
            "bytes": sum(each["bytes"] for each in manifest["sources"].values()),
            **{short: counts.get(reason, 0) for short, reason in _REASONS.items()},
        }
        shutil.rmtree(directory)
    out.write_text(json.dumps(found) + "\n", encoding="utf-8")


def logged(directory: Path) -> tuple[set[Identity], int]:
    """Intervals of the log, and how many begins (IBP) it has."""
    found: set[Identity] = set()
    begins = 0
    for frame in LogReader(directory / LOG):
        for row in frame.batch.to_pylist():
            kind = row.get("kind", 0)
            begins += kind == 2
            if kind == 0:
                te = row.get("te")
                end = row["ts"] if te is None else te
                found.add((row["source"], row["type"], row["ts"], end))
    return found, begins


@dataclass(frozen=True, slots=True)
class LossComparison:
    """One row per variant: matches all of whose intervals arrived, and the cost."""

    table: Table
    claim: Claim
    facts: dict[str, Any]


def compare_losses(losses: Path, expected: Mapping[str, set[Match]]) -> LossComparison:
    """``losses``: of ``simulate_both``; ``expected``: the true matches of each query."""
    found = json.loads(losses.read_text(encoding="utf-8"))
    complete: dict[str, list[int]] = {}
    for name, each in found.items():
        arrived = {tuple(identity) for identity in each["arrived"]}
        complete[name] = [
            sum(arrived.issuperset(match) for match in matches) for matches in expected.values()
        ]
    total = sum(map(len, expected.values()))
    without, with_it = sum(complete[WITHOUT]), sum(complete[WITH])
    rows = [
        (
            name, len(each["arrived"]), *complete[name], each["asked"], each["came"],
            each["unended"], each["gone"], each["bytes"],
        )
        for name, each in found.items()
    ]  # fmt: skip
    table = Table(
        "Requests for intervals that began and did not arrive (Z10 5.3.2)",
        ("requests", "intervals", *(f"{query}, complete" for query in expected), "requested",
         "arrived then", "had not ended", "gone", "sent [B]"),
        tuple(rows),
        f"The same devices, nothing resent, {LOSS:.0%} of the messages with events lost and no "
        f"network for {OUTAGE_S} s every {OUTAGES_EVERY_S} s. Begins "
        "always arrive, as reports of a session do. A match is complete when all of its "
        f"intervals have arrived; there are {total}.",
    )  # fmt: skip
    claim = Claim(
        f"Where {LOSS:.0%} is lost, requests make {with_it - without} more of {total} true matches "
        "complete.",
        with_it > without or without == total,
        f"{with_it} with them, {without} without",
    )
    facts = {"complete_with_requests": with_it, "complete_without_requests": without}
    return LossComparison(table, claim, facts)
