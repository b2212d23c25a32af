"""The scenario ``mimic``: import, queries and scores of ``slackwater run mimic``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from slackwater.scenario import Pass, Score
from slackwater.scenarios.mimic.answers import QUERIES
from slackwater.scenarios.mimic.importing import charted_frames, source_counts, truth_table
from slackwater.scenarios.mimic.recording import read_charted
from slackwater.scenarios.mimic.scoring import CHARTED, GUARD, MAIN, STRAGGLER, UNORDERED, score_run
from slackwater.scenarios.options import duration_ns, read_options
from slackwater.scenarios.recorded_log import write_log, write_manifest
from slackwater.simulation import TRUTH

DEFAULTS: Final[dict[str, Any]] = {"slack": "8 h"}
"""A shift; most of its events are charted by its end."""


class Mimic:
    """See ``engine.scenario.RunnableScenario``."""

    name = "mimic"
    title = "Intensive care: what was charted hours after it happened"
    what = (
        "The MIMIC-IV demo: laboratory values, infusions, procedures, outputs and dates of 100 "
        "patients, each with its own time and the time of its filing. Every patient "
        "is a site; nobody numbers the events."
    )

    def options(self) -> Mapping[str, Any]:
        return dict(DEFAULTS)

    def make(self, directory: Path, options: Mapping[str, Any], data: Path) -> dict[str, Any]:
        chosen = read_options(options, DEFAULTS)
        charted = read_charted(data)
        logged = write_log(directory, charted_frames(charted))
        (directory / TRUTH).mkdir(parents=True, exist_ok=True)
        pq.write_table(truth_table(charted), directory / TRUTH / CHARTED)
        return write_manifest(
            directory, self.name, chosen, logged,
            rows={"event": len(charted)},
            left_out=charted.unfiled,
            events_by_source={
                name: {"logged": events} for name, events in source_counts(charted).items()
            },
        )  # fmt: skip

    def passes(self, options: Mapping[str, Any]) -> Sequence[Pass]:
        chosen = read_options(options, DEFAULTS)
        duration_ns(chosen, "slack")  # refuses what is none
        return (
            Pass(MAIN, f"kslack:{chosen['slack'].replace(' ', '')}", GUARD),
            Pass(STRAGGLER, "mp-kslack", GUARD),
            Pass(UNORDERED, "none", GUARD),
        )

    def queries(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        read_options(options, DEFAULTS)
        return {query.name: query.text for query in QUERIES}

    def score(self, directory: Path, options: Mapping[str, Any]) -> Score:
        return score_run(directory, self.passes(options)[0].order)
