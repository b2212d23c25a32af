"""Compares the alarms with the evenings that had no medicine, by true times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from slackwater.scenario import NS_PER, Claim, Pass, Score, Table, Timeline
from slackwater.scenarios.elder_care.evenings import DINNER, MEDICINE, ROOMS, SLEEP, WASH
from slackwater.scenarios.elder_care.homes import GAP_NS
from slackwater.scenarios.intervals import (
    FoundMatches,
    Interval,
    Match,
    TrueReadings,
    bars,
    found_table,
    of_sources,
    stays_of,
)
from slackwater.scenarios.runs import quantiles_ms

QUERY: Final = "no_medicine"
WITHIN_NS: Final = 120 * NS_PER["s"]
_LANES: Final = {DINNER: "dinner", WASH: "wash", MEDICINE: "medicine", SLEEP: "sleep"}


def true_intervals(directory: Path) -> list[Interval]:
    """Intervals of all readings of the sensors, by their true times."""
    found: list[Interval] = []
    for source, rows in of_sources(directory):
        person, _, room = source.partition("-")
        true_ns, device_ns = rows["true_ts"].to_numpy(), rows["ts"].to_numpy()
        readings = TrueReadings(source, person, true_ns, device_ns, true_ns)
        found += stays_of(readings, ROOMS[room], GAP_NS)
    return found


def true_alarms(intervals: Sequence[Interval]) -> set[Match]:
    """Matches by brute force over every dinner, washing, sleep and medicine of a person."""
    by: dict[tuple[str, str], list[Interval]] = defaultdict(list)
    for each in intervals:
        by[each.thing, each.type].append(each)
    return {
        (d.identity, w.identity, s.identity)
        for person in {each.thing for each in intervals}
        for d in by[person, DINNER]
        for w in by[person, WASH]
        for s in by[person, SLEEP]
        if d.end_ns < w.start_ns
        and w.end_ns < s.start_ns
        and s.end_ns - d.start_ns <= WITHIN_NS
        and not any(d.end_ns < m.start_ns and m.end_ns < s.start_ns for m in by[person, MEDICINE])
    }


def score_run(directory: Path, passes: Sequence[Pass]) -> Score:
    """Claims, tables and the picture of the run in ``directory``.

    Raises:
        UserError: a pass wrote no results.
    """
    intervals = true_intervals(directory)
    expected = true_alarms(intervals)
    found = {str(each.barrier): FoundMatches.read(directory, each, QUERY) for each in passes}
    ends = {each.identity: each.end_ns for each in intervals}
    conservative, eager = found["punctuation"], found["immediate"]
    return Score(
        claims=(
            Claim(
                f"Every barrier ends with the true alarms and no others: {len(expected)} "
                "evenings without medicine.",
                all(each.right(expected) for each in found.values())
                and len({frozenset(each.at_ns) for each in found.values()}) == 1,
                ", ".join(f"{name}: {len(each.at_ns)}" for name, each in found.items()),
            ),
            Claim(
                "The conservative barrier retracts no alarm; the aggressive one retracts "
                f"{eager.retracted}.",
                not conservative.retracted,
            ),
        ),
        tables=(
            found_table(
                {(QUERY, name): each for name, each in found.items()}, {QUERY: expected},
                "Retracted: alarms that a late message of the pill box refuted.",
            ),
            _delays(found, ends),
        ),
        facts={
            "alarms": len(expected),
            "retracted": {name: each.retracted for name, each in found.items()},
            "true_matches": [
                {"query": QUERY, "at_ref_ns": ends[match[-1]]} for match in sorted(expected)
            ],
        },
        timelines=tuple(
            _picture(intervals, conservative, person)
            for person in sorted({each.thing for each in intervals})[:3]
        ),
    )  # fmt: skip


def _delays(
    found: Mapping[str, FoundMatches], ends: Mapping[tuple[str, str, int, int], int]
) -> Table:
    rows = []
    for name, each in found.items():
        waits = [at - ends[match[-1]] for match, at in each.at_ns.items() if match[-1] in ends]
        p50, p95, *_ = quantiles_ms(np.array(waits, np.int64))
        rows.append((name, len(waits), p50, p95))
    return Table(
        "From going to sleep to the alarm",
        ("barrier", "alarms", "delay p50 [ms]", "p95 [ms]"),
        tuple(rows),
        "A sensor knows that somebody has left when the gap is over "
        f"({GAP_NS // NS_PER['ms']} ms), so no alarm can come sooner.",
    )


def _picture(intervals: Sequence[Interval], found: FoundMatches, person: str) -> Timeline:
    mine = [each for each in intervals if each.thing == person]
    known = {each.identity for each in mine}
    return Timeline(
        f"Person {person}: evenings, and those without medicine",
        "True times; a day takes three minutes. Bars drawn fully are part of an alarm.",
        bars(
            mine, lambda each: _LANES[each.type],
            {QUERY: [match for match in found.at_ns if set(match) <= known]},
            tuple(_LANES.values()),
        ),
    )  # fmt: skip
