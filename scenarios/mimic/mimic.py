"""The scenario ``mimic``: what ``slackwater run mimic`` imports, asks and scores."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from engine.log.arrival_log import LogWriter
from engine.scenario import Pass, Score
from scenarios.mimic.answers import QUERIES
from scenarios.mimic.importing import charted_frames, source_counts, truth_table
from scenarios.mimic.recording import read_charted
from scenarios.mimic.scoring import CHARTED, GUARD, MAIN, STRAGGLER, UNORDERED, score_run
from scenarios.options import duration_ns, read_options
from simulator.digest import FrameDigest
from simulator.run import LOG, MANIFEST, TRUTH

DEFAULTS: Final[dict[str, Any]] = {"slack": "8 h"}
"""A shift: what was done in one is mostly charted by its end."""
VERSIONED: Final = ("slackwater", "numpy", "pyarrow")


class Mimic:
    """See ``engine.scenario.RunnableScenario``."""

    name = "mimic"
    title = "Intensive care: what was charted hours after it happened"
    what = (
        "The MIMIC-IV demo: laboratory values, infusions, procedures, outputs and dates of 100 "
        "patients, each with the time when it was and the time when it was filed. Every patient "
        "is a site; nobody numbers the events."
    )

    def options(self) -> Mapping[str, Any]:
        return dict(DEFAULTS)

    def make(self, directory: Path, options: Mapping[str, Any], data: Path) -> dict[str, Any]:
        chosen = read_options(options, DEFAULTS)
        charted = read_charted(data)
        digest = FrameDigest()
        frames = 0
        with LogWriter(directory / LOG) as log:
            for frame in charted_frames(charted):
                log.append(frame)
                digest.add(frame)
                frames += 1
        (directory / TRUTH).mkdir(parents=True, exist_ok=True)
        pq.write_table(truth_table(charted), directory / TRUTH / CHARTED)
        manifest = {
            "scenario": self.name,
            "seed": None,
            "options": chosen,
            "versions": {
                "python": platform.python_version(),
                **{name: version(name) for name in VERSIONED},
            },
            "log_sha256": digest.hexdigest(),
            "frames": frames,
            "rows": {"event": len(charted)},
            "left_out": charted.unfiled,
            "events_by_source": {
                name: {"logged": events} for name, events in source_counts(charted).items()
            },
        }
        text = json.dumps(manifest, indent=2) + "\n"
        (directory / MANIFEST).write_text(text, encoding="utf-8")
        return manifest

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
