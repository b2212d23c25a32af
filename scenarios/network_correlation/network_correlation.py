"""The scenario ``network-correlation``: simulation of ``slackwater run network-correlation``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from slackwater.scenario import NS_PER, Pass, Score, UserError
from slackwater.scenarios.network_correlation.agents import machine_room
from slackwater.scenarios.network_correlation.scoring import (
    FAN_QUERY,
    INCIDENTS,
    ROOT_QUERY,
    score_run,
)
from slackwater.scenarios.network_correlation.seen import incidents_of
from slackwater.scenarios.options import duration_ns, in_seconds, read_options
from slackwater.simulation import TRUTH, simulate_to

DEFAULTS: Final[dict[str, Any]] = {
    "seed": 1, "duration": "20 min", "servers": 8, "attacks": 0.4, "offset": "500 ms",
}  # fmt: skip
WITHIN_NS: Final = 180 * NS_PER["s"]


class NetworkCorrelation:
    """See ``engine.scenario.RunnableScenario``."""

    name = "network-correlation"
    title = "Network correlation: which failures go back to an attack"
    what = (
        "Agents on servers measure fan and load each second, an intrusion detector sees odd "
        "packets, and servers fail (L10 5.2.2). Agents send intervals, not readings: FAN_FAILURE, "
        "SERVER_OVERLOAD, NETWORK_ATTACK; a failure whose fan failed after an overload, and that "
        "after an attack, goes back to the attack."
    )

    def options(self) -> Mapping[str, Any]:
        return dict(DEFAULTS)

    def make(self, directory: Path, options: Mapping[str, Any], data: Path) -> dict[str, Any]:
        chosen = read_options(options, DEFAULTS)
        length_ns = duration_ns(chosen, "duration")
        if not 0 < length_ns <= NS_PER["d"]:
            raise UserError(f"--set duration={chosen['duration']}: must be at most 1 d")
        if not 1 <= chosen["servers"] <= 500:
            raise UserError(f"--set servers={chosen['servers']}: must lie in 1..500")
        if not 0 <= chosen["attacks"] <= 1:
            raise UserError(f"--set attacks={chosen['attacks']}: must lie in 0..1")
        duration_ns(chosen, "offset")
        scenario = machine_room(chosen)
        manifest = simulate_to(scenario, directory, data, set=chosen).manifest
        incidents = incidents_of(scenario.seed, length_ns, chosen["servers"], chosen["attacks"])
        incident_counts = {
            "by_attack": sum(each.by_attack for each in incidents),
            "failures": sum(each.failure is not None for each in incidents),
        }
        (directory / TRUTH / INCIDENTS).write_text(
            json.dumps(incident_counts) + "\n", encoding="utf-8"
        )
        return manifest

    def passes(self, options: Mapping[str, Any]) -> Sequence[Pass]:
        read_options(options, DEFAULTS)
        return (
            Pass("immediate", "none", barrier="immediate"),
            Pass("ordered", "none", barrier="punctuation,ordered"),
        )

    def queries(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        read_options(options, DEFAULTS)
        same = "a.server = f.server AND f.server = x.server"
        return {
            ROOT_QUERY: (
                "EVENT ISEQ[a BEFORE o, o.ts < f.ts, f.ts < x.ts, x.ts < f.te]"
                "(NETWORK_ATTACK a, SERVER_OVERLOAD o, FAN_FAILURE f, SERVER_FAILURE x) "
                f"WHERE {same} AND o.server = f.server WITHIN {in_seconds(WITHIN_NS)}"
            ),
            FAN_QUERY: (
                "EVENT ISEQ[x DURING f](FAN_FAILURE f, SERVER_FAILURE x) "
                f"WHERE f.server = x.server WITHIN {in_seconds(WITHIN_NS)}"
            ),
        }

    def score(self, directory: Path, options: Mapping[str, Any]) -> Score:
        read_options(options, DEFAULTS)
        return score_run(directory, self.passes(options), WITHIN_NS)
