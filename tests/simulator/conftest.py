"""Small worlds for the simulator's tests, and what their logs say as plain rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater.simulator.run import FrameList, SimulationOutcome, simulate
from slackwater.simulator.scenario import read_scenario

Rows = list[dict[str, Any]]
World = Callable[..., tuple[SimulationOutcome, Rows]]


@pytest.fixture(scope="session")
def world() -> World:
    """Runs a world of some sources (dicts) and settings; gives what came of it and all rows."""

    def run(*sources: dict[str, Any], **given: Any) -> tuple[SimulationOutcome, Rows]:
        settings = {"name": "test", "seed": 1, "duration": "1 s", "sources": sources, **given}
        sink = FrameList()
        done = simulate(read_scenario(settings), sink, Path("/no/recordings/here"))
        rows = [row for frame in sink.frames for row in frame.batch.to_pylist()]
        for row in rows:
            row["kind"] = row.get("kind", 0)
        return done, rows

    return run
