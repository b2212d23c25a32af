"""Compares the matches with every combination of a patient's intervals, by true times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from slackwater.scenario import NS_PER, Claim, Pass, Score, Table, Timeline
from slackwater.scenarios.intervals import FoundMatches, Interval, Match, bars, found_table
from slackwater.scenarios.runs import quantiles_ms
from slackwater.scenarios.ward.charted import ANTIBIOTIC, CULTURE, VENTILATION, intervals_of
from slackwater.scenarios.ward.treatments import BLOOD, CONSULT, CT, DIAGNOSIS, ECG
from slackwater.simulation import TRUTH

FLOW_QUERY: Final = "treatment_flow"
TREE_QUERY: Final = "treatment_tree"
CULTURE_QUERY: Final = "antibiotic_before_culture"
CHARTED: Final = "charted.parquet"
FLOW: Final = (CONSULT, ECG, CT, BLOOD, DIAGNOSIS)
CHARTED_TYPES: Final = (VENTILATION, ANTIBIOTIC, CULTURE)
_PATIENTS_MAX: Final = 3


def _generated(directory: Path) -> tuple[list[Interval], dict[Any, int]]:
    """Intervals by true times, and the price of each."""
    rows = pq.read_table(directory / TRUTH / "events.parquet").to_pylist()
    found, prices = [], {}
    for row in rows:
        identity = (row["source"], row["type"], row["ts"], row["te"])
        found.append(
            Interval(row["type"], row["truth.patient"], row["true_ts"], row["true_te"], identity)
        )
        prices[identity] = row["truth.price"]
    return found, prices


def _combinations(
    intervals: Sequence[Interval], types: Sequence[str], within_ns: int
) -> Iterator[tuple[Interval, ...]]:
    """Of each patient one interval of each type, within ``within_ns``."""
    by: dict[Any, dict[str, list[Interval]]] = defaultdict(lambda: defaultdict(list))
    for each in intervals:
        by[each.thing][each.type].append(each)
    for of in by.values():
        for those in product(*(of[name] for name in types)):
            first, last = min(x.start_ns for x in those), max(x.end_ns for x in those)
            if last - first <= within_ns:
                yield those


def true_flows(
    intervals: Sequence[Interval], prices: Mapping[Any, int], within_ns: int
) -> set[Match]:
    """The conditions of Z10's Query Q1 about the five."""
    types = FLOW
    return {
        tuple(each.identity for each in (a, b, c, d, e))
        for a, b, c, d, e in _combinations(intervals, types, within_ns)
        if all(a.end_ns < exam.start_ns and exam.end_ns > e.start_ns for exam in (b, c, d))
        and prices[b.identity] < prices[c.identity]
    }


def true_trees(intervals: Sequence[Interval], flows: set[Match]) -> set[Match]:
    """Z10's Query Q1, word by word: those of ``flows`` whose exams as one overlap E."""
    times = {each.identity: (each.start_ns, each.end_ns) for each in intervals}

    def overlap(match: Match) -> bool:
        _, *exams, diagnosis = (times[identity] for identity in match)
        begin, end = min(ts for ts, _ in exams), max(te for _, te in exams)
        return begin < diagnosis[0] < end < diagnosis[1]

    return {match for match in flows if overlap(match)}


def true_cultures(intervals: Sequence[Interval], within_ns: int) -> set[Match]:
    """Antibiotic and culture during one ventilation, the antibiotic first."""
    types = CHARTED_TYPES
    return {
        (v.identity, a.identity, c.identity)
        for v, a, c in _combinations(intervals, types, within_ns)
        if v.start_ns < a.start_ns < c.start_ns and a.end_ns < v.end_ns and c.end_ns < v.end_ns
    }


def score_run(directory: Path, passes: Sequence[Pass], within_ns: int, *, charted: bool) -> Score:
    """Claims, tables and the picture of the run in ``directory``.

    Raises:
        UserError: a pass wrote no results.
    """
    if charted:
        intervals = intervals_of(pq.read_table(directory / TRUTH / CHARTED))
        expected = {CULTURE_QUERY: true_cultures(intervals, within_ns)}
    else:
        intervals, prices = _generated(directory)
        flows = true_flows(intervals, prices, within_ns)
        expected = {FLOW_QUERY: flows, TREE_QUERY: true_trees(intervals, flows)}
    found = {
        (query, each.label): FoundMatches.read(directory, each, query)
        for query in expected
        for each in passes
    }
    ends = {each.identity: each.end_ns for each in intervals}
    numbers = ", ".join(f"{query} {len(those)}" for query, those in expected.items())
    patient_key = next(iter(expected))
    eager = found[patient_key, passes[0].label]
    each_right = all(each.right(expected[query]) for (query, _), each in found.items())
    return Score(
        claims=(
            Claim(
                "Every combination that is true by the times of the intervals is found, whatever "
                f"the order in which they were filed: {numbers}.",
                each_right and all(expected.values()),
                ", ".join(
                    f"{query}, {name}: {len(each.at_ns)}" for (query, name), each in found.items()
                ),
            ),
        ),
        tables=(
            found_table(
                found, expected,
                "The truth tries every combination of one patient's intervals.",
            ),
            _delays(found, ends),
        ),
        facts={
            "intervals": len(intervals),
            "expected": {query: len(those) for query, those in expected.items()},
            "true_matches": [
                {"query": query, "at_ref_ns": max(ends[each] for each in match)}
                for query, those in expected.items()
                for match in sorted(those)
            ],
        },
        timelines=tuple(
            _picture(intervals, eager, patient_key, f"Patient {patient}", patient)
            for patient in _chosen(intervals, eager)
        ),
    )  # fmt: skip


def _delays(found: Mapping[tuple[str, str], FoundMatches], ends: Mapping[Any, int]) -> Table:
    rows = []
    for (query, name), each in found.items():
        waits = [at - max(ends[identity] for identity in m) for m, at in each.at_ns.items()]
        p50, p95, *_ = quantiles_ms(np.array(waits, np.int64))
        rows.append((query, name, len(waits), p50 * 1e6 / NS_PER["s"], p95 * 1e6 / NS_PER["s"]))
    return Table(
        "From the end of the last interval to the match",
        ("query", "pass", "matches", "delay p50 [s]", "p95 [s]"),
        tuple(rows),
        "Most of it is the time until the last interval was filed.",
    )


def _chosen(intervals: Sequence[Interval], found: FoundMatches) -> list[Any]:
    """Patients with the fewest intervals of those with a match: their pictures are small."""
    count: dict[Any, int] = defaultdict(int)
    patient = {each.identity: each.thing for each in intervals}
    for each in intervals:
        count[each.thing] += 1
    with_match = {patient[match[0]] for match in found.at_ns if match[0] in patient}
    return sorted(with_match, key=lambda each: (count[each], str(each)))[:_PATIENTS_MAX]


def _picture(
    intervals: Sequence[Interval], found: FoundMatches, query: str, title: str, patient: Any
) -> Timeline:
    mine = [each for each in intervals if each.thing == patient]
    known = {each.identity for each in mine}
    matches = [match for match in found.at_ns if set(match) <= known]
    return Timeline(
        title,
        "Times of the treatments, not of their filing. Bars drawn fully are part of a match.",
        bars(
            mine,
            lambda each: each.type.lower(),
            {query: matches},
            [name.lower() for name in (*FLOW, *CHARTED_TYPES)],
        ),
    )
