"""A device behind a simulated agent stamps by a clock of its own; its agent follows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slackwater.edge_agent.records import Kind
from slackwater.engine.apps.validate.clock_reports import clock_reports
from slackwater.engine.cli.app import run
from slackwater.engine.log.arrival_log import LogReader

WARD = """
duration = "60 s"
warm_up = "2 s"
[[sources]]
name = "nurse"
workload = { model = "poisson", mean = "700 ms", type = "CALL" }
[[sources]]
name = "ward"
workload = { model = "poisson", mean = "300 ms", type = "SPO2" }
[sources.device_clock]
offset = "20 s"
skew_ppb = 40000
resolution = "1 ms"
read_out = "5 ms"
delay_min_max = "100 ms"
delay_max = "5 s"
window = "5 s"
steps = [{ at = "30 s", by = "STEP" }]
[queries]
pairs = "EVENT SEQ(CALL c, SPO2 s) WITHIN 1 s"
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["30 s", "-30 s"])
def test_accept_a_simulated_monitor_20_s_slow_that_is_set(tmp_path: Path, step: str) -> None:
    file = tmp_path / "ward.toml"
    file.write_text(WARD.replace("STEP", step))
    out = tmp_path / "out"
    assert run(["run", str(file), "--in-process", "--out", str(out), "--quiet"]) == 0
    made = json.loads((out / "report.json").read_text())
    (table,) = made["tables"][:1]
    measures = {(of, metric): value for of, metric, value, _ in table["rows"]}
    assert measures["pairs", "recall"] == "100 %"
    assert measures["pairs", "wrong"] == "0 %"
    clocks = {
        clock
        for frame in LogReader(out / "log")
        if "clock" in frame.batch.schema.names
        for clock in frame.batch.column("clock").to_pylist()
    }
    assert {"ward/device#1", "ward/device#2"} <= clocks
    drawn = made["over_time"]["clocks"]
    assert set(drawn["sources"]) == set(made["clock_error"]["sources"])
    # 20 s slow, then 10 s or 50 s off; an offset is known to 2.5 s before a window has passed.
    found = {of.name: of for of in clock_reports(out / "log", arrival_given=True)}
    assert [len(found[f"ward/device#{n}"].steps) for n in (1, 2)] == [0, 1]
    ((_, by),) = found["ward/device#2"].steps
    assert by == pytest.approx((30 if step[0] == "3" else -30) * 10**9, abs=3e9)
    assert drawn["spread_ns"] == pytest.approx((50 if step[0] == "3" else 20) * 10**9, abs=3e9)


@pytest.mark.parametrize("step", ["0 s", "30 s", "-30 s"])
def test_what_a_device_stamps_may_be_abstracted(tmp_path: Path, step: str) -> None:
    """Presence from a reader 20 s slow whose clock is set: no true interval before a call is
    missing, none is confirmed that is false.
    """
    file = tmp_path / "ward.toml"
    more = '[[sources.abstract]]\nstream = "events"\ninto = "seen"\nkind = "presence"\n'
    more += 'type = "SEEN"\ngap = "500 ms"\nbegins = true\n'
    text = WARD.replace("STEP", step).replace("[queries]", f"{more}[queries]")
    file.write_text(text.replace("CALL c, SPO2 s", "SEEN s, CALL c"))
    out = tmp_path / "out"
    assert run(["run", str(file), "--in-process", "--out", str(out), "--quiet"]) == 0
    made = json.loads((out / "report.json").read_text())
    (table,) = made["tables"][:1]
    measures = {(of, metric): value for of, metric, value, _ in table["rows"]}
    assert measures["pairs", "wrong"] == "0 %"
    if step == "0 s":
        assert measures["pairs", "recall"] == "100 %"
    kinds = {
        (kind, clock.partition("#")[0])
        for frame in LogReader(out / "log")
        if "clock" in frame.batch.schema.names
        for kind, clock in zip(
            frame.batch.column("kind").to_pylist(),
            frame.batch.column("clock").to_pylist(),
            strict=True,
        )
        if clock is not None
    }
    assert {(Kind.EVENT, "ward/device"), (Kind.IBP, "ward/device")} <= kinds
