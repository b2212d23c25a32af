"""The scenario ``warehouse``: simulation, queries and scores of ``slackwater run warehouse``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from slackwater.scenario import NS_PER, Pass, Score, UserError
from slackwater.scenarios.options import duration_ns, in_seconds, read_options
from slackwater.scenarios.warehouse.devices import warehouse_scenario, with_readings
from slackwater.scenarios.warehouse.losses import simulate_both
from slackwater.scenarios.warehouse.scoring import CONTAINED, CROSSED, score_run
from slackwater.simulation import simulate_to

DEFAULTS: Final[dict[str, Any]] = {
    "seed": 1, "duration": "20 min", "zones": 4, "pallets": 100, "offset": "200 ms",
}  # fmt: skip
LONGEST_NS: Final = NS_PER["d"]
READINGS: Final = "readings.json"
LOSSES: Final = "losses.json"


class Warehouse:
    """See ``engine.scenario.RunnableScenario``."""

    name = "warehouse"
    title = "Warehouse: intervals made at the edge, and pallets that stood too warm"
    what = (
        "Each zone of a cold store has a sensor of temperature and humidity and an RFID reader. "
        "Their agents send intervals instead of readings: LOW, MEDIUM and HIGH, DRY, NORMAL and "
        "WET, and the STAY of each pallet (L10, Example 5.1). Clocks disagree, the network delays; "
        "once more it loses much, with and without requests for intervals that did not arrive."
    )

    def options(self) -> Mapping[str, Any]:
        return dict(DEFAULTS)

    def make(self, directory: Path, options: Mapping[str, Any], data: Path) -> dict[str, Any]:
        chosen = read_options(options, DEFAULTS)
        length_ns = duration_ns(chosen, "duration")
        if not 0 < length_ns <= LONGEST_NS:
            raise UserError(f"--set duration={chosen['duration']}: must be at most 1 d")
        if not 1 <= chosen["zones"] <= 26:
            raise UserError(f"--set zones={chosen['zones']}: must lie in 1..26")
        if not 0 <= chosen["pallets"] <= 10_000:
            raise UserError(f"--set pallets={chosen['pallets']}: must lie in 0..10000")
        duration_ns(chosen, "offset")
        scenario = warehouse_scenario(chosen)
        manifest = simulate_to(scenario, directory, data, set=chosen).manifest
        # The same devices without abstraction: only what they send is looked at.
        raw = directory / "readings"
        sent = simulate_to(with_readings(scenario), raw, data).manifest["sources"]
        shutil.rmtree(raw)
        byte_counts = {name: each["bytes"] for name, each in sent.items()}
        (directory / READINGS).write_text(json.dumps(byte_counts) + "\n", encoding="utf-8")
        simulate_both(scenario, directory / "losses", data, directory / LOSSES)
        return manifest

    def passes(self, options: Mapping[str, Any]) -> Sequence[Pass]:
        read_options(options, DEFAULTS)
        return (
            Pass("immediate", "none", barrier="immediate"),
            Pass("ordered", "kslack:10s", barrier="punctuation,ordered"),
        )

    def queries(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        within_ns = duration_ns(read_options(options, DEFAULTS), "duration")
        return {
            CONTAINED: (
                "EVENT ISEQ[h.ts < s.ts, s.te < h.te](HIGH h, STAY s) WHERE h.zone = s.zone "
                f"WITHIN {in_seconds(within_ns)}"
            ),
            CROSSED: (
                "EVENT ISEQ[h OVERLAPS d](HIGH h, DRY d) WHERE h.zone = d.zone "
                f"WITHIN {in_seconds(within_ns)}"
            ),
        }

    def score(self, directory: Path, options: Mapping[str, Any]) -> Score:
        within_ns = duration_ns(read_options(options, DEFAULTS), "duration")
        return score_run(
            directory, self.passes(options), within_ns, directory / READINGS, directory / LOSSES
        )
