"""What is said of a run beforehand, against what it then was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slackwater.edge_agent.packing import Codes
from slackwater.simulator.cost import BASE_BYTES, cost_of
from slackwater.simulator.run import FrameList, simulate
from slackwater.simulator.scenario import Scenario, read_scenario
from slackwater.simulator.scenario_file.building import build
from slackwater.simulator.scenario_file.long_runs import run_time_hints
from slackwater.simulator.scenario_file.recording import RecordedStream

SECOND = 10**9
DAY = 86_400 * SECOND


def scenario(workload: dict[str, Any], duration: str, count: int = 3, **given: Any) -> Scenario:
    gateway = given.pop("gateway", {})
    sources = [{"name": f"s{n}", "workload": workload, **given} for n in range(count)]
    settings = {"name": "x", "seed": 2, "duration": duration, "sources": sources}
    return read_scenario({**settings, "gateway": gateway})


def recorded(duration_ns: int, **recording: str) -> Scenario:
    since = np.linspace(0, duration_ns, 400).astype(np.int64)
    codes = Codes([], np.full(400, -1, np.int32).data)
    streams = {"a": (RecordedStream("events", since, None, codes, {}),)}
    tables = {"sources": [{"recording": {"file": "x", **recording}}]}
    return build("x", tables, lambda _given, _place: streams, "scenario").simulated


SELDOM = {"model": "poisson", "mean": "30 s"}
OFTEN = {"model": "periodic", "period": "30 ms"}
RUNS = {
    "idle": scenario(SELDOM, "3 min"),
    "busy": scenario(OFTEN, "20 s"),
    "apart": scenario(SELDOM, "3 min", heartbeat="10 s", gateway={"tick_every": 0}),
    "on for a part": scenario(SELDOM, "3 min", on="1 min", off="2 min"),
    "recorded": recorded(100 * SECOND),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_about_what_was_said_of_it(name: str) -> None:
    cost = cost_of(RUNS[name])
    manifest = simulate(RUNS[name], FrameList(), Path("/no/recordings/here")).manifest
    each = manifest["sources"].values()
    was = {
        "events": manifest["events"]["generated"],
        "frames": manifest["frames"],
        "heartbeats": 2 * sum(one["session"].get("heartbeats", 0) for one in each),
        "exchanges": 2 * sum(one["sync"]["asked"] for one in each),
    }
    hint = {key: getattr(cost, key) for key in was}
    near = {key: 0.7 * number - 40 <= hint[key] <= 1.4 * number + 40 for key, number in was.items()}
    assert all(near.values()), (hint, was)


def test_of_a_long_run_is_said_what_would_shorten_it() -> None:
    idle, *_ = run_time_hints(scenario(SELDOM, "29 d", count=122, heartbeat="2 s"))
    assert " h of processor time" in idle
    assert "heartbeats and their acks" in idle
    assert "a longer heartbeat (now 2 s)" in idle
    assert "recording" not in idle
    calm = scenario(SELDOM, "29 d", heartbeat="1 h", gateway={"tick_every": "1 h"})
    (calm_hint,) = run_time_hints(calm)
    assert "heartbeat (" not in calm_hint
    assert "sync.resync (now 1 min)" in calm_hint
    (played,) = run_time_hints(recorded(20 * DAY))
    assert "recording.only, recording.speed" in played
    assert "gateway.tick_every (now 100 ms)" in played


def test_a_frame_that_lasts_longer_than_agents_wait_for_acks_is_named() -> None:
    (hint,) = run_time_hints(scenario(SELDOM, "3 min", gateway={"frame_every": "1 min"}))
    assert "gateway.frame_every is 1 min, and agents wait 30 s" in hint


def test_looks_at_a_clock_that_is_set_count() -> None:
    clock = {"steps": [{"at": "1 h", "by": "1 s"}]}
    calm = {"heartbeat": 0, "gateway": {"tick_every": "1 h"}, "sync": {"resync": "1 h"}}
    (hint,) = run_time_hints(scenario(SELDOM, "29 d", clock=clock, **calm))
    assert "sync.watch (now 1 s)" in hint
    steady, set_once = (
        cost_of(scenario(SELDOM, "1 d", clock=each)) for each in ({"offset": "1 s"}, clock)
    )
    assert (steady.looks, set_once.looks) == (0, 3 * (86_400 + 2))


def test_of_much_memory_is_said_what_takes_it() -> None:
    wandering = scenario(SELDOM, "29 d", count=122, clock={"wander_ppb": 5.0})
    _, memory = run_time_hints(wandering)
    assert "clock.wander_period (now 1 s)" in memory
    assert cost_of(wandering).bytes > 122 * 29 * 86_400 * 40 + BASE_BYTES
    _, memory = run_time_hints(scenario({"model": "periodic", "period": "1 ms"}, "1 d"))
    assert "wander_period" not in memory
    assert "a shorter duration (now 1 d)" in memory
