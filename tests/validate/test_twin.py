"""The measured twin: laws of delays, what a loss costs, the scenario file, and the proof live."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.real_sockets.real_run import lacks
from bench.twin import proof
from bench.twin.proof import TwinOutcome, prove, true_matches
from bench.twin.settings import DEVICES, EACH_ONCE, SETTINGS, TwinSetting, type_of
from slackwater.engine.apps.validate.quality import (
    RTO_LEAST_NS,
    DelayLaw,
    delay_law,
    recovery_ns,
)
from slackwater.engine.cli.app import run
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.scenarios.from_file.durable import Durable
from slackwater.scenarios.from_file.reading import ScenarioText
from slackwater.simulator.delays import Exponential, Lognormal, Uniform
from slackwater.simulator.links import LinkSettings
from slackwater.simulator.recorded import build_delay
from tests.validate.conftest import MS, answering

SEEDS = (TwinSetting.seed, 1, 2)
"""Of the next only if the one before is off: what else the machine does is in no prediction."""


def drawn(model: object, count: int = 400, seed: int = 5) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.asarray(model.bend(generator.standard_normal(count)))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "model",
    [
        Lognormal(median_ns=4 * MS, min_ns=2 * MS, sigma=0.5),
        Lognormal(median_ns=70 * MS, min_ns=55 * MS, sigma=0.35),
        Lognormal(median_ns=14 * MS, min_ns=5 * MS, sigma=0.9),
        Exponential(min_ns=10 * MS, mean_ns=15 * MS),
        Uniform(low_ns=10 * MS, high_ns=20 * MS),
    ],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_law_has_the_quantiles_of_what_it_was_drawn_from(model: object, seed: int) -> None:
    law = delay_law(drawn(model, 2_000, seed))
    again = drawn(Lognormal(law.median_ns, law.sigma, law.min_ns), 20_000, seed=9)
    truth = drawn(model, 20_000, seed=8)
    for share, room in ((0.05, 0.1), (0.5, 0.06), (0.95, 0.15)):
        assert np.quantile(again, share) == pytest.approx(np.quantile(truth, share), rel=room)
    assert law.mean_ns == pytest.approx(truth.mean(), rel=0.08)


@pytest.mark.parametrize("delays", [[3e6], [3e6, 9e6, 1e6], [5e6 + 10 * n for n in range(50)]])
def test_few_delays_or_none_that_vary_are_a_constant(delays: list[float]) -> None:
    law = delay_law(np.array(delays))
    assert law == DelayLaw(law.median_ns, round(float(np.median(delays))), 0.0)
    assert law.deviation_ns == 0


def test_what_lies_below_nothing_is_taken_for_nothing() -> None:
    law = delay_law(drawn(Lognormal(median_ns=MS, sigma=1.0)) - MS)
    assert 0 <= law.min_ns <= law.median_ns


@pytest.mark.parametrize("trip", [2e6, 40e6, 400e6])
@pytest.mark.parametrize("gap", [1e6, 20e6, 1e9])
def test_a_loss_costs_less_than_the_time_out_and_more_than_the_way_back(
    trip: float, gap: float
) -> None:
    timeout = trip + RTO_LEAST_NS
    found = recovery_ns(trip, 0, gap)
    generator = np.random.default_rng(1)
    waits = np.minimum(generator.exponential(gap, 50_000) + trip * 9 / 8, timeout)
    assert found == pytest.approx(float(waits.mean()), rel=0.02)
    assert recovery_ns(trip, 0, None) == timeout
    assert recovery_ns(trip, RTO_LEAST_NS, None) == trip + 4 * RTO_LEAST_NS


@pytest.mark.slow
def test_a_device_that_was_measured_is_a_scenario(
    agent_file: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "seen.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ts", "source", "type", "k"])
        writer.writerows((n * 10 * MS, "ab"[n % 2], "AB"[n % 2], n // 2) for n in range(200))
    more = '[sync]\nattempts = 3\nresync = "7 s"\n[delivery]\nconnections = 2\n'
    with answering(offset_ns=500 * MS, up_ns=6 * MS, down_ns=6 * MS, drop=9) as gateway:
        words = ["validate", "--config", str(agent_file(gateway, more)), "--duration", "1s"]
        asked = ["--query", "EVENT SEQ(A a, B b) WHERE a.k = b.k WITHIN 1 s", "--quiet"]
        twin = tmp_path / "sub" / "twin.toml"
        twin.parent.mkdir()
        recording = ["--scenario", str(twin), "--recording", str(tmp_path / "seen.csv")]
        assert run([*words, *asked, *recording]) in (0, 1)
    assert run(["check", str(twin)]) == 0
    assert "2 sources, 1 query" in capsys.readouterr().out
    simulated = ScenarioText(twin).scenario({}).simulated
    assert [each.name for each in simulated.sources] == ["a", "b"]
    for each in simulated.sources:
        assert (each.sync.attempts, each.sync.resync_ns) == (3, 7 * 10**9)
        assert (each.connections, each.poll_ns, each.heartbeat_ns) == (2, 0, 0)
        assert abs(each.clock.offset_ns) <= 520 * MS
        assert middle(each.up) == pytest.approx(6 * MS, abs=2 * MS)
        assert middle(each.down) == pytest.approx(6 * MS, abs=2 * MS)
        # An event each 20 ms, by two connections: 40 ms, and the way back.
        assert each.up.retransmit_timeout_ns == pytest.approx(50 * MS, abs=12 * MS)
        assert 0.02 < 1 - (1 - each.up.loss.probability) ** 2 < 0.25  # type: ignore[union-attr]
    assert run(["run", str(twin), "--out", str(tmp_path / "out"), "--quiet"]) in (0, 1)


@pytest.mark.slow
def test_where_the_log_is_what_an_answer_takes_is_measured(
    agent_file: Callable[..., Path], tmp_path: Path
) -> None:
    site = tmp_path / "site.toml"
    text = "EVENT SEQ(A a, B b) WHERE a.k = b.k WITHIN 1 s"
    site.write_text(f'[gateway]\nlog = "here.log"\n[[query]]\nname = "pairs"\ntext = "{text}"\n')
    twin = tmp_path / "twin.toml"
    with answering(up_ns=MS, down_ns=MS) as gateway:
        words = ["validate", "--config", str(agent_file(gateway)), "--duration", "1s", "--quiet"]
        words += ["--site", str(site), "--scenario", str(twin)]
        assert run(words) in (0, 1)
        assert "answers_after" not in twin.read_text()
        (tmp_path / "here.log").mkdir()
        before = sorted(tmp_path.iterdir())
        twin.unlink()
        assert run(words) in (0, 1)
    assert sorted(tmp_path.iterdir()) == before
    answering_ns = ScenarioText(twin).scenario({}).answering.answers_after_ns
    assert 100_000 < answering_ns < 5 * 10**9


def test_answers_come_that_much_after_their_frame(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    rows = [(0, 5), (50, 60), (260, 290), (300, 310)]
    trace.write_text("".join(f'{{"ts": {ts}, "arrival": {came}}}\n' for ts, came in rows))
    words = ["log", "import", str(trace), "--out", str(tmp_path / "log"), "--time-unit", "ms"]
    assert run(words) == 0
    (frame,) = LogReader(tmp_path / "log")
    with LogWriter(tmp_path / "cut") as writer:
        for start in (0, 2):
            writer.append(frame.slice(start, 2))
    at_once, later = (Durable(tmp_path / "cut", 200 * MS, after) for after in (0, 7 * MS))
    # The first frame is closed 200 ms after its first record, the second is the last.
    for at, reported in ((5, 205), (60, 205), (61, 490), (310, 490)):
        assert at_once.since("main", at * MS) == reported * MS
        assert later.since("main", at * MS) == (reported + 7) * MS
    assert later.since("main", 311 * MS) == 311 * MS


def middle(link: LinkSettings) -> float:
    delay = build_delay(link.delay, np.random.default_rng(1), 0.0, 0, Path())
    return float(np.median([delay.sample(n) for n in range(500)]))


def test_a_recording_goes_with_a_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "--log", "x", "--recording", "y"]) == 2
    assert "--recording FILE goes with --scenario FILE" in capsys.readouterr().err


def test_a_prediction_that_is_off_is_seen() -> None:
    live = dict.fromkeys(proof.METRICS, 10.0) | {"uncertain": 0.1}
    twin = live | {"uncertain": 0.11, "detection_delay_p50": 50.0, "detection_delay_p95": 7.5}
    found = TwinOutcome(SETTINGS[0], live, twin | {"answer_delay_p95": 15.0}, 100, {})
    off = {"detection_delay_p95": -0.25, "answer_delay_p95": 0.5}
    assert found.disagreements() == pytest.approx(off)
    assert "-25.0%" in proof.table([found])


def test_true_matches_are_those_of_all_pairs() -> None:
    setting = replace(SETTINGS[0], seconds=2)
    events = [
        (int(at), name, v, int(key))
        for name in DEVICES
        for v, (at, key) in enumerate(zip(*setting.events[name], strict=True))
    ]
    pairs = {
        ((a[1], a[2]), (b[1], b[2])): b[0]
        for a in events
        for b in events
        if type_of(a[1]) == "A" and type_of(b[1]) == "B" and a[3] == b[3]
        and a[0] < b[0] <= a[0] + setting.within_ms * MS
    }  # fmt: skip
    assert true_matches(setting) == pairs
    assert pairs


def test_there_are_twelve_settings_and_some_of_each_are_tried_here() -> None:
    assert len({setting.name for setting in SETTINGS}) == 12
    words = [setting.name.split("-") for setting in EACH_ONCE]
    assert {link for link, _ in words} == {"wired", "wifi", "far"}
    assert {clock for _, clock in words} == {"close", "apart", "seldom", "bad"}


@pytest.mark.slow
@pytest.mark.xdist_group("links")
@pytest.mark.parametrize(
    "setting",
    [EACH_ONCE[0], *(pytest.param(setting, marks=pytest.mark.deep) for setting in EACH_ONCE[1:])],
    ids=lambda setting: setting.name,
)
def test_the_twin_predicts_the_live_run(setting: TwinSetting, tmp_path: Path) -> None:
    reason = lacks()
    if reason is not None:
        pytest.skip(reason)
    tried = []
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        tried.append(prove(replace(setting, seed=seed), folder))
        if not tried[-1].disagreements():
            break
    assert tried[-1].disagreements() == {}, proof.table(tried)
    assert tried[-1].results > 1_000
