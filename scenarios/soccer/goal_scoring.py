"""The goal query's results against the true goals: claims and the table of incidents."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.scenario import Claim, Score, Table
from slackwater.scenarios.runs import NS_PER_MS, match_identity, standing
from slackwater.scenarios.soccer.event_truth import EventTruth
from slackwater.scenarios.soccer.goal_truth import QUERY, Goals, Pair, score_goals
from slackwater.simulation import TRUTH

INCIDENTS: Final = "incidents.parquet"


def goal_score(directory: Path, label: str, truth: EventTruth, logged: np.ndarray) -> Score:
    """Scores the query ``goals`` of pass ``label``."""
    results = [
        result
        for result in standing(directory, label, "matches", match_identity)
        if result["query"] == QUERY
    ]
    goals = score_goals(truth, logged, results)
    table = _table(pq.read_table(directory / TRUTH / INCIDENTS), goals, truth, logged)
    right = goals.confirmed(goals.pairs)
    wrong = goals.confirmed(goals.invented)
    found = len(goals.reached) - len(goals.overlooked)
    uncertain = len(goals.results) - len(right) - len(wrong)
    claims = (
        Claim(
            f"No goal is overlooked: {found} of {len(goals.reached)} goals whose two events reached"
            " the engine are reported.",
            not goals.overlooked,
            f"{len(goals.pairs)} goals in all, {len(goals.pairs) - len(goals.reached)} with an "
            "event that the network lost",
        ),
        Claim(
            f"No confirmed goal is false: {len(right)} of {len(right) + len(wrong)} confirmed ones "
            "are true.",
            not wrong,
            f"The {len(goals.results)} matches are {len(right) + len(wrong)} confirmed and "
            f"{uncertain} uncertain ones, for which the clocks' errors leave more than one answer; "
            f"by true time {found} are goals, {len(right)} of the confirmed and "
            f"{found - len(right)} of the uncertain ones",
        ),
    )
    facts = {
        "goals": len(goals.pairs),
        "goals_reached": len(goals.reached),
        "goals_overlooked": len(goals.overlooked),
        "goals_confirmed": len(right),
        "goals_confirmed_false": len(wrong),
        "goals_uncertain": uncertain,
        "goals_uncertain_false": len(goals.invented) - len(wrong),
        "true_matches": [
            {"query": QUERY, "at_ref_ns": int(truth.true_ns[stop])} for _, stop in goals.pairs
        ],
    }
    return Score(claims, (table,), facts)


def _table(plan: pa.Table, goals: Goals, truth: EventTruth, logged: np.ndarray) -> Table:
    """One row per planned incident; its events are looked up in the truth."""
    # Kicks and stops are so far apart that an instant and a sensor name one event.
    kicks = {
        (int(truth.true_ns[row]), int(truth.sid[row])): row
        for row in np.flatnonzero(truth.kick).tolist()
    }
    stops = {int(truth.true_ns[row]): row for row in np.flatnonzero(truth.goal).tolist()}
    rows = [
        _row(number, each, _pair(each, kicks, stops), goals, logged)
        for number, each in enumerate(plan.to_pylist(), 1)
    ]
    return Table(
        "Incidents",
        ("number", "kind", "shoe", "kick to goal, true [ms]", "a goal by true time", "reported",
         "probability", "known after [ms]"),
        tuple(rows),
        "Known after: from the later of the two events to the instant of the answer. A kick may "
        "follow a header; within the clocks' uncertainty the engine cannot tell, and says so.",
    )  # fmt: skip


def _pair(
    incident: dict[str, Any], kicks: dict[tuple[int, int], int], stops: dict[int, int]
) -> Pair | None:
    kick = kicks.get((incident["kick_ns"], incident["kick_sid"]))
    stop = stops.get(incident["stop_ns"])
    return None if kick is None or stop is None else (kick, stop)


def _row(
    number: int,
    incident: dict[str, Any],
    pair: Pair | None,
    goals: Goals,
    logged: np.ndarray,
) -> tuple[str | int | float | None, ...]:
    gap_ns = incident["stop_ns"] - incident["kick_ns"]
    who = (number, incident["kind"], incident["kick_sid"])
    if pair is None:  # wide, or an event that no agent took
        return (*who, None, "no", "", None, None)
    head = (*who, round(gap_ns / NS_PER_MS, 3), "yes" if pair in goals.pairs else "no")
    result = goals.results.get(pair)
    if result is None:
        lost = not (logged[pair[0]] and logged[pair[1]])
        return (*head, "lost by the network" if lost else "", None, None)
    chance = result["probability"]
    after_ns = result["at"] - max(incident["stop_ns"], incident["kick_ns"])
    return (
        *head,
        result["certainty"],
        None if chance is None else round(chance, 3),
        round(after_ns / NS_PER_MS, 1),
    )
