"""The scenario ``soccer``: simulation, queries and scores of ``slackwater run soccer``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.scenario import NS_PER, Pass, Score, UserError
from slackwater.scenarios.options import duration_ns, in_seconds, read_options
from slackwater.scenarios.soccer.goal_scoring import INCIDENTS
from slackwater.scenarios.soccer.goal_truth import QUERY as GOALS
from slackwater.scenarios.soccer.heard import match_of
from slackwater.scenarios.soccer.incidents import MatchIncident
from slackwater.scenarios.soccer.network import soccer_scenario
from slackwater.scenarios.soccer.pitch import GOALS_QUERY, SHOE_PERIOD_NS, shoe_sid
from slackwater.scenarios.soccer.scoring import MAIN, UNORDERED, score_run
from slackwater.scenarios.soccer.window_truth import QUERIES
from slackwater.simulation import TRUTH, Span, simulate_to

DEFAULTS: Final[dict[str, Any]] = {
    "seed": 1,
    "duration": "60 s",
    "offset": "2 s",
    "skew_ppm": 30.0,
    "delay": "mixed",
    "connections": 3,
    "loss": 0.001,
    "duplicate": 0.001,
    "latency": "1 s",
}
DURATION_MAX_NS: Final = 2 * NS_PER["h"]
"""The truth of a run is held in memory: 15,000 events a second."""


class Soccer:
    """See ``engine.scenario.RunnableScenario``."""

    name = "soccer"
    title = "Soccer: shoes and a ball, eleven gateways, eleven wrong clocks"
    what = (
        "Two squads of sixteen wear a sensor in each shoe (200 Hz), the ball has one (2,000 Hz): "
        "about 15,000 DEBS 2013 events a second through eleven gateways, each with its own clock "
        "error and its own unreliable link. Every kick and goal is known from the seed."
    )

    def options(self) -> Mapping[str, Any]:
        return dict(DEFAULTS)

    def make(self, directory: Path, options: Mapping[str, Any], data: Path) -> dict[str, Any]:
        chosen = read_options(options, DEFAULTS)
        length_ns = duration_ns(chosen, "duration")
        if not SHOE_PERIOD_NS <= length_ns <= DURATION_MAX_NS:
            raise UserError(f"--set duration={chosen['duration']}: must lie in 5 ms..2 h")
        _check_network(chosen)
        duration_ns(chosen, "offset")
        scenario = soccer_scenario(chosen)
        manifest = simulate_to(scenario, directory, data, set=chosen).manifest
        match = match_of(scenario.seed, Span(scenario.start_ns + scenario.warm_up_ns, length_ns))
        pq.write_table(_incident_table(match.incidents), directory / TRUTH / INCIDENTS)
        return manifest

    def passes(self, options: Mapping[str, Any]) -> Sequence[Pass]:
        latency_ns = duration_ns(read_options(options, DEFAULTS), "latency")
        return (
            Pass(MAIN, f"sequence:latency={in_seconds(latency_ns)},late=pass"),
            Pass(UNORDERED, "none"),
        )

    def queries(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        read_options(options, DEFAULTS)
        return {query.name: query.text for query in QUERIES} | {GOALS: GOALS_QUERY}

    def score(self, directory: Path, options: Mapping[str, Any]) -> Score:
        read_options(options, DEFAULTS)
        return score_run(directory, self.passes(options)[0].order)


def _check_network(chosen: Mapping[str, Any]) -> None:
    for name, low, high in (("loss", 0, 1), ("duplicate", 0, 1), ("connections", 1, 64)):
        if not low <= chosen[name] <= high:
            raise UserError(f"--set {name}={chosen[name]}: must lie in {low}..{high}")


def _incident_table(incidents: Sequence[MatchIncident]) -> pa.Table:
    """The plan, to be read by people and tests: one row per incident."""
    return pa.table(
        {
            "kind": pa.array([each.kind.name for each in incidents], pa.string()),
            "kick_sid": pa.array([shoe_sid(each.player, 0) for each in incidents], pa.int64()),
            "kick_ns": pa.array([each.kick_ns for each in incidents], pa.int64()),
            "stop_ns": pa.array([each.stop_ns for each in incidents], pa.int64()),
            "scored": pa.array([each.kind.scored for each in incidents], pa.bool_()),
            "is_match": pa.array([each.is_match for each in incidents], pa.bool_()),
        }
    )
