"""Compares the root causes in the results with the true ones, by true times."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from slackwater.scenario import NS_PER, Claim, Pass, Score, Timeline, number
from slackwater.scenarios.intervals import (
    FoundMatches,
    Interval,
    Match,
    TrueReadings,
    bands_of,
    bars,
    found_in,
    found_table,
    of_sources,
    stays_of,
)
from slackwater.scenarios.network_correlation.incidents import FAILURE, server_name
from slackwater.simulation import MANIFEST, TRUTH

# The intervals that the scenario's file configures the agents for.
ATTACK, FAN, OVERLOAD = "NETWORK_ATTACK", "FAN_FAILURE", "SERVER_OVERLOAD"
ATTACK_GAP_NS: Final = 4 * NS_PER["s"]
MIN_NS: Final = 5 * NS_PER["s"]
"""A server may be busy, or its fan odd, for less than this."""
FAN_BANDS: Final = (FAN, 800, "FAN_TURNS")
LOAD_BANDS: Final = ("LOAD_NORMAL", 85, OVERLOAD)
ROOT_QUERY: Final = "failure_by_attack"
FAN_QUERY: Final = "failure_with_fan"
INCIDENTS: Final = "incidents.json"
_LANES: Final = {ATTACK: "attack", OVERLOAD: "load", FAN: "fan", FAILURE: "failure"}


def true_intervals(directory: Path) -> list[Interval]:
    """Intervals of all measurements, by true times; failures have no length."""
    found: list[Interval] = []
    for source, rows in of_sources(directory):
        true_ns, device_ns = rows["true_ts"].to_numpy(), rows["ts"].to_numpy()
        if source in ("watch", "failures"):
            codes = rows["truth.server"].to_numpy()
            for code in np.unique(codes).tolist():
                of = codes == code
                readings = TrueReadings(
                    source, server_name(code), true_ns[of], device_ns[of], codes[of]
                )
                if source == "watch":
                    found += stays_of(readings, ATTACK, ATTACK_GAP_NS)
                else:
                    found += stays_of(readings, FAILURE, 0)
            continue
        for name, bands in (("rpm", FAN_BANDS), ("load", LOAD_BANDS)):
            values = rows[f"truth.{name}"].to_numpy()
            readings = TrueReadings(source, source, true_ns, device_ns, values)
            made = bands_of(readings, [str(bands[0]), str(bands[2])], [float(bands[1])])
            found += [each for each in made if each.identity[3] - each.identity[2] >= MIN_NS]
    return found


def true_matches(intervals: Sequence[Interval], within_ns: int) -> dict[str, set[Match]]:
    """Every combination of one server's intervals is tried."""
    by: dict[tuple[str, str], list[Interval]] = defaultdict(list)
    for each in intervals:
        by[each.thing, each.type].append(each)
    root, fan = set[Match](), set[Match]()
    for server in {each.thing for each in intervals}:
        for x in by[server, FAILURE]:
            for f in by[server, FAN]:
                if not f.start_ns < x.start_ns < f.end_ns:
                    continue
                if f.end_ns - f.start_ns <= within_ns:
                    fan.add((f.identity, x.identity))
                root |= {
                    (a.identity, o.identity, f.identity, x.identity)
                    for o in by[server, OVERLOAD]
                    for a in by[server, ATTACK]
                    if a.end_ns < o.start_ns < f.start_ns
                    and max(o.end_ns, f.end_ns) - a.start_ns <= within_ns
                }
    return {ROOT_QUERY: root, FAN_QUERY: fan}


def score_run(directory: Path, passes: Sequence[Pass], within_ns: int) -> Score:
    """Claims, tables and the picture of the run in ``directory``.

    Raises:
        UserError: a pass wrote no results.
    """
    intervals = true_intervals(directory)
    expected = true_matches(intervals, within_ns)
    found = found_in(directory, passes, expected)
    incidents = json.loads((directory / TRUTH / INCIDENTS).read_text(encoding="utf-8"))
    manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    measured, logged = manifest["events"]["generated"], manifest["events"]["logged"]
    roots = {match[-1] for match in found[ROOT_QUERY, str(passes[0].barrier)].at_ns}
    ends = {each.identity: each.end_ns for each in intervals}
    return Score(
        claims=(
            Claim(
                f"Every failure that an attack has caused is traced to it, and no other: "
                f"{incidents['by_attack']} of {incidents['failures']} failures.",
                len(roots) == incidents["by_attack"],
                f"{len(roots)} were traced",
            ),
            Claim(
                "Both rules find the matches that the true times of the intervals give: "
                + ", ".join(f"{len(those)} {query}" for query, those in expected.items()),
                all(each.right(expected[query]) for (query, _), each in found.items()),
            ),
            Claim(
                f"The engine sees {number(round(measured / max(logged, 1), 1))} times fewer events "
                "than were measured.",
                logged < measured,
                f"{logged:,} of {measured:,}",
            ),
        ),
        tables=(
            found_table(
                found, expected, "The truth tries every combination of one server's intervals."
            ),
        ),
        facts={
            **incidents, "measured": measured, "logged": logged,
            "true_matches": [
                {"query": query, "at_ref_ns": max(ends[identity] for identity in match)}
                for query, those in expected.items()
                for match in sorted(those)
            ],
        },
        timelines=tuple(
            _picture(intervals, found[ROOT_QUERY, str(passes[0].barrier)], server)
            for server in sorted({each.thing for each in intervals})[:3]
        ),
    )  # fmt: skip


def _picture(intervals: Sequence[Interval], found: FoundMatches, server: str) -> Timeline:
    mine = [each for each in intervals if each.thing == server and each.type in _LANES]
    known = {each.identity for each in mine}
    return Timeline(
        f"Server {server}: what goes back to an attack",
        "True times. Bars drawn fully are part of a match; the others had other reasons.",
        bars(
            mine, lambda each: _LANES[each.type],
            {ROOT_QUERY: [match for match in found.at_ns if set(match) <= known]},
            tuple(_LANES.values()),
        ),
    )  # fmt: skip
