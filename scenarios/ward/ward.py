"""The scenario ``ward``: events, queries and scores of ``slackwater run ward``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from slackwater.scenario import NS_PER, Pass, Score, UserError
from slackwater.scenarios.mimic.scoring import GUARD
from slackwater.scenarios.options import duration_ns, in_seconds, read_options
from slackwater.scenarios.ward.charted import make_log
from slackwater.scenarios.ward.scoring import (
    CHARTED,
    CULTURE_QUERY,
    FLOW_QUERY,
    TREE_QUERY,
    score_run,
)
from slackwater.scenarios.ward.treatments import WITHIN_NS, ward_scenario
from slackwater.simulation import TRUTH, simulate_to

GENERATED, MIMIC = "generated", "mimic"
DEFAULTS: Final[dict[str, Any]] = {
    "of": GENERATED, "seed": 1, "patients": 120, "hours": 400.0, "offset": "20 ms",
}  # fmt: skip
CHARTED_WITHIN_NS: Final = 30 * NS_PER["d"]


class Ward:
    """See ``engine.scenario.RunnableScenario``."""

    name = "ward"
    title = "Ward: treatments that overlap, filed after the fact"
    what = (
        "Z10's treatment flow: a patient is interviewed, examined by ECG, CT and blood beside one "
        "another, and diagnosed before the exams are over; each department files late. With "
        "--set of=mimic: ventilation, antibiotics and cultures of 100 intensive-care patients, "
        "in the order in which they were filed."
    )

    def options(self) -> Mapping[str, Any]:
        return dict(DEFAULTS)

    def make(self, directory: Path, options: Mapping[str, Any], data: Path) -> dict[str, Any]:
        chosen = _chosen(options)
        if chosen["of"] == MIMIC:
            return make_log(directory, chosen, data, directory / TRUTH / CHARTED)
        if not 1 <= chosen["patients"] <= 100_000:
            raise UserError(f"--set patients={chosen['patients']}: must lie in 1..100000")
        if not 0 < chosen["hours"] <= 100_000:
            raise UserError(f"--set hours={chosen['hours']}: must lie in 0..100000")
        scenario = ward_scenario(
            chosen["seed"], chosen["patients"], chosen["hours"], duration_ns(chosen, "offset")
        )
        return simulate_to(scenario, directory, data, set=chosen).manifest

    def passes(self, options: Mapping[str, Any]) -> Sequence[Pass]:
        if _chosen(options)["of"] == MIMIC:
            return (
                Pass("immediate", "none", GUARD, barrier="immediate"),
                Pass("slack", "kslack:3d", GUARD, barrier="immediate"),
            )
        return (
            Pass("immediate", "none", barrier="immediate"),
            Pass("slack", "kslack:10s", barrier="immediate"),
        )

    def queries(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        if _chosen(options)["of"] == MIMIC:
            return {
                CULTURE_QUERY: (
                    "EVENT ISEQ[v.ts < a.ts, a.te < v.te, v.ts < c.ts, c.te < v.te, a.ts < c.ts]"
                    "(VENTILATION v, ANTIBIOTIC a, CULTURE c) "
                    f"WITHIN {in_seconds(CHARTED_WITHIN_NS)}"
                )
            }
        exams = ("b", "c", "d")
        bounds = [f"a.te < {exam}.ts" for exam in exams] + [f"{exam}.te > e.ts" for exam in exams]
        same = " AND ".join(f"a.patient = {other}.patient" for other in (*exams, "e"))
        within = f"b.price < c.price WITHIN {in_seconds(WITHIN_NS)}"
        still = " AND ".join(f"{exam}.te > e.ts" for exam in exams)
        return {
            FLOW_QUERY: (
                f"EVENT ISEQ[{', '.join(bounds)}](CONSULT a, ECG b, CT c, BLOOD d, DIAGNOSIS e) "
                f"WHERE {same} AND {within}"
            ),
            TREE_QUERY: (
                "EVENT SEQ(CONSULT a BEFORE PAL(ECG b, CT c, BLOOD d) OVERLAP DIAGNOSIS e) "
                f"WHERE {same} AND {still} AND {within}"
            ),
        }

    def score(self, directory: Path, options: Mapping[str, Any]) -> Score:
        chosen = _chosen(options)
        mimic = chosen["of"] == MIMIC
        within_ns = CHARTED_WITHIN_NS if mimic else WITHIN_NS
        return score_run(directory, self.passes(options), within_ns, charted=mimic)


def _chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    chosen = read_options(options, DEFAULTS)
    if chosen["of"] not in (GENERATED, MIMIC):
        raise UserError(f"--set of={chosen['of']}: use {GENERATED} or {MIMIC}")
    return chosen
