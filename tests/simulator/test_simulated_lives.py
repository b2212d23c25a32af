"""Devices that are on for a part of a run: what nobody has, and what costs nothing."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.edge_agent.packing import Codes
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.simulator.clocks import Clock, ClockSettings, draw_rates
from slackwater.simulator.run import SimulationOutcome, simulate
from slackwater.simulator.scenario import CLOCK_ROWS_MAX, START_NS, Scenario, read_scenario
from slackwater.simulator.scenario_file.building import build
from slackwater.simulator.scenario_file.recording import RecordedStream
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.world import World

SECOND = 10**9
DAY = 86_400 * SECOND
HERE = Path("/no/recordings/here")
EVENT, POG, EOS = 0, 1, 5
Rows = list[dict[str, Any]]
Run = Callable[..., tuple[SimulationOutcome, Rows]]


def source(name: str, **given: Any) -> dict[str, Any]:
    workload = {"model": "periodic", "period": "100 ms"}
    return {"name": name, "workload": workload, "poll_phase": 0, **given}


class Nobody:
    """A sink that keeps nothing."""

    def append(self, frame: Frame) -> None:
        pass

    def flush(self) -> None:
        pass


def test_a_device_has_what_happens_while_it_is_on(world: Run) -> None:
    late = source("late", on="5050 ms", off="8050 ms", restarts=["1 s"])
    done, rows = world(late, source("always"), duration="10 s", warm_up="2 s")
    mine = [row for row in rows if row["source"] == "late"]
    true_ns = [row["ts"] - START_NS for row in mine if row["kind"] == EVENT]
    assert true_ns == [n * SECOND // 10 for n in range(51, 81)]
    assert min(row["arrival"] for row in mine) >= START_NS + 5_050_000_000
    last = max(mine, key=lambda row: row["arrival"])
    assert last["kind"] == EOS
    assert last["arrival"] < START_NS + 8_200_000_000
    account = done.manifest["events_by_source"]["late"]
    assert (account["forgotten"], account["accepted"]) == (31, 30)
    assert account["not_polled"] == account["generated"] - 61
    clocks = done.clocks.filter(pa.compute.equal(done.clocks["source"].cast("str"), "late"))
    assert clocks["true_ns"][0].as_py() == START_NS + 5_050_000_000
    assert clocks["true_ns"][-1].as_py() <= START_NS + 8_050_000_000
    assert done.manifest["events_by_source"]["always"]["logged"] == 100


def test_a_wandering_clock_is_the_same_with_the_rows_of_its_life_alone() -> None:
    settings = ClockSettings(offset_ns=7, skew_ppb=20_000, wander_ppb=500)
    rates = draw_rates(settings, 4000 * SECOND, Seeds(5).generator("clock"))
    cut = rates.within(1000 * SECOND, 1100 * SECOND)
    assert cut.starts_ns.size == 101
    whole, part = Clock(settings, START_NS, rates), Clock(settings, START_NS, cut)
    times = START_NS + np.arange(1000 * SECOND, 1100 * SECOND, 333_333_333)
    assert part.read_many(times).tolist() == whole.read_many(times).tolist()
    assert part.monotonic().read_many(times).tolist() == whole.monotonic().read_many(times).tolist()
    for at in times[:-10:10].tolist():  # the part ends there
        ahead = whole.read(at) + 3 * SECOND
        assert part.when_reads(ahead, at) == whole.when_reads(ahead, at)


# --- long spans


def recorded(sources: int, apart_ns: int, **recording: str) -> Scenario:
    """Each of some sources has five events within 40 s, its first ``apart_ns`` after the last's."""

    def stream(number: int) -> RecordedStream:
        since = number * apart_ns + np.arange(5, dtype=np.int64) * 10 * SECOND
        codes = Codes(["A"], np.zeros(5, np.int32).data)
        return RecordedStream("events", since, None, codes, {"n": (np.arange(5), "int")})

    streams = {f"s{number}": (stream(number),) for number in range(sources)}
    tables = {
        "clock": {"skew_ppm_spread": 20, "wander_ppb": 10},
        "sources": [{"recording": {"file": "x", **recording}}],
    }
    return build("long", tables, lambda _given, _place: streams, "scenario").simulated


@pytest.mark.slow
def test_a_recording_of_a_month_costs_what_its_sources_are_there() -> None:
    scenario = recorded(11, 3 * DAY, on_around="10 s")
    assert scenario.duration_ns > 30 * DAY
    began = time.process_time()
    done = simulate(scenario, Nobody(), HERE)
    assert time.process_time() - began < 60
    assert done.manifest["events"]["logged"] == 55
    assert {each["state"] for each in done.manifest["sources"].values()} == {"done"}
    # 11 x 65 s; a month of 4 frames a second would be 10 million.
    assert 2_000 < done.manifest["frames"] < 4_000
    tracemalloc.start()
    try:
        world = World(scenario, Nobody(), HERE)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The walk of one clock over a month is 2.6 million rows of 5 numbers.
    assert held < 5e6, len(world.devices)


def test_sources_of_a_recording_are_on_around_their_events() -> None:
    scenario = recorded(3, 1000 * SECOND, on_around="20 s")
    lives = [(each.on_ns // SECOND, (each.off_ns or 0) // SECOND) for each in scenario.sources]
    assert lives == [(0, 5 + 40 + 20), (980, 5 + 1040 + 20), (1980, 5 + 2040 + 20)]
    always = recorded(3, 1000 * SECOND, on_around="1 d")
    assert [each.on_ns for each in always.sources] == [0, 0, 0]
    assert {always.life(each).length_ns for each in always.sources} == {2045 * SECOND + 1}


def test_a_recording_cut_short_has_the_sources_that_were_there() -> None:
    streams = recorded(3, 1000 * SECOND).sources
    by_name = {each.name: each.workload.recorded for each in streams}  # type: ignore[attr-defined]

    def built(duration: str, only: list[str]) -> Scenario:
        tables = {"duration": duration, "sources": [{"recording": {"file": "x"}}]}
        some = {name: by_name[name] for name in only}
        return build("cut", tables, lambda _given, _place: some, "scenario").simulated

    assert [each.name for each in built("1001 s", ["s0", "s1", "s2"]).sources] == ["s0", "s1"]
    with pytest.raises(UserError, match="nothing was recorded of its sources by its end"):
        built("1 s", ["s2"])


def quiet(duration: str) -> Scenario:
    return read_scenario(
        {
            "name": "quiet",
            "seed": 3,
            "duration": duration,
            "sources": [
                {
                    "name": f"s{number}",
                    "workload": {"model": "poisson", "mean": "10 min"},
                    "clock": {"skew_ppb": 20_000, "offset": "1 s"},
                    "up": {"delay": {"model": "exponential", "min": "1 ms", "mean": "9 ms"}},
                }
                for number in range(2)
            ],
            "gateway": {"frame_every": "2 s", "tick_every": "1 s"},
        }
    )


class Watched(Nobody):
    """A sink that looks how much memory Python holds, every 150 frames."""

    def __init__(self) -> None:
        self.frames = 0
        self.held: list[int] = []

    def append(self, frame: Frame) -> None:
        self.frames += 1
        if self.frames % 150 == 0:
            gc.collect()
            self.held.append(tracemalloc.get_traced_memory()[0])


@pytest.mark.slow
def test_memory_does_not_grow_with_quiet_time() -> None:
    simulate(quiet("1 min"), Nobody(), HERE)  # caches are warm
    sink = Watched()
    tracemalloc.start()
    try:
        done = simulate(quiet("20 min"), sink, HERE)
    finally:
        tracemalloc.stop()
    assert done.manifest["rows"]["pog"] > 2_300
    assert len(sink.held) >= 3
    # Between two looks there are 750 heartbeats and as many acks, of 100 bytes and more each.
    assert max(sink.held) - sink.held[0] < 50_000


def test_clocks_of_a_long_run_are_sampled_so_seldom_that_the_table_stays_small() -> None:
    month = recorded(122, DAY // 4, on_around="40 d")
    rows = sum(month.life(each).length_ns // month.clock_sampled_ns for each in month.sources)
    assert CLOCK_ROWS_MAX // 2 < rows <= CLOCK_ROWS_MAX
    assert quiet("1 h").clock_sampled_ns == SECOND


def test_steps_of_the_engine_clock_are_in_the_table_as_they_are(world: Run) -> None:
    step = {"at": "3400 ms", "by": "2 s"}
    done, _ = world(source("s0"), duration="3 s", gateway={"clock": {"steps": [step]}})
    ahead = {
        row["true_ns"] - START_NS: row["engine_ns"] - row["true_ns"]
        for row in done.clocks.to_pylist()
    }
    assert (ahead[3_399_999_999], ahead[3_400_000_000]) == (0, -2 * SECOND)
