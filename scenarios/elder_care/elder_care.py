"""The scenario ``elder-care``: simulation, queries, scores of ``slackwater run elder-care``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from slackwater.scenario import NS_PER, Pass, Score, UserError
from slackwater.scenarios.elder_care.homes import homes_scenario
from slackwater.scenarios.elder_care.scoring import QUERY, WITHIN_NS, score_run
from slackwater.scenarios.options import duration_ns, in_seconds, read_options
from slackwater.simulation import simulate_to

DEFAULTS: Final[dict[str, Any]] = {
    "seed": 1, "persons": 8, "days": 5, "forgotten": 0.3, "radio": "2500 ms", "offset": "100 ms",
    "bound": "30 s",
}  # fmt: skip


class ElderCare:
    """See ``engine.scenario.RunnableScenario``."""

    name = "elder-care"
    title = "Elder care: the medicine that nobody took, and the one whose message was late"
    what = (
        "Sensors report when people dine, wash and sleep, and a pill box with a slow radio reports "
        "MEDICINE (Z10, Fig 3). A person who dines, washes and goes to sleep without medicine in "
        "between raises an alarm; a late message of the pill box must retract it. A day takes "
        "three minutes."
    )

    def options(self) -> Mapping[str, Any]:
        return dict(DEFAULTS)

    def make(self, directory: Path, options: Mapping[str, Any], data: Path) -> dict[str, Any]:
        chosen = read_options(options, DEFAULTS)
        for name, most in (("persons", 200), ("days", 100)):
            if not 1 <= chosen[name] <= most:
                raise UserError(f"--set {name}={chosen[name]}: must lie in 1..{most}")
        if not 0 <= chosen["forgotten"] <= 1:
            raise UserError(f"--set forgotten={chosen['forgotten']}: must lie in 0..1")
        radio_ns = duration_ns(chosen, "radio")
        if radio_ns <= 0:
            raise UserError(f"--set radio={chosen['radio']}: must be above 0")
        scenario = homes_scenario(
            chosen["seed"], chosen["persons"], chosen["days"], chosen["forgotten"], radio_ns,
            duration_ns(chosen, "offset"),
        )  # fmt: skip
        return simulate_to(scenario, directory, data, set=chosen).manifest

    def passes(self, options: Mapping[str, Any]) -> Sequence[Pass]:
        chosen = read_options(options, DEFAULTS)
        bound_ns = duration_ns(chosen, "bound")
        return (
            Pass("punctuation", "none", barrier="punctuation"),
            Pass("immediate", "none", barrier="immediate"),
            Pass("bounded", "none", barrier=f"bounded:{bound_ns // NS_PER['ms']}ms"),
        )

    def queries(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        read_options(options, DEFAULTS)
        return {
            QUERY: (
                "EVENT ISEQ[d.te < w.ts, w.te < s.ts, d.te < m.ts, m.te < s.ts]"
                "(DINNER d, WASH w, !MEDICINE m, SLEEP s) "
                "WHERE d.person = w.person AND d.person = s.person AND m.person = d.person "
                f"WITHIN {in_seconds(WITHIN_NS)}"
            )
        }

    def score(self, directory: Path, options: Mapping[str, Any]) -> Score:
        return score_run(directory, self.passes(options))
