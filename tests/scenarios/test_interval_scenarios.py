"""``elder-care``, ``network-correlation`` and ``ward`` in this process: every claim holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import UserError
from engine.passes.scenario_run import load, scenario_names
from engine.scenario import RunnableScenario, Score
from scenarios.elder_care import ElderCare
from scenarios.network_correlation import NetworkCorrelation
from scenarios.ward import Ward
from slackwater.simulation import data_directory

DATA = data_directory({"SLACKWATER_DATA": "/work/shared/data"})
Run = Callable[..., Score]
SMALL = {"persons": "3", "days": "2", "forgotten": "0.2", "seed": "2"}


def holds(score: Score) -> None:
    assert [f"{claim.text} {claim.detail}" for claim in score.claims if not claim.holds] == []
    assert any(bar.strong for timeline in score.timelines for bar in timeline.bars)


def test_late_messages_of_the_pill_box_raise_alarms_that_are_taken_back(
    run: Run, tmp_path: Path
) -> None:
    score = run(ElderCare(), tmp_path, SMALL, tmp_path)
    holds(score)
    assert score.facts["alarms"] == 1
    assert score.facts["taken_back"]["immediate"] > 0 == score.facts["taken_back"]["punctuation"]


def test_failures_are_traced_to_attacks(run: Run, tmp_path: Path) -> None:
    score = run(NetworkCorrelation(), tmp_path, {"duration": "7 min", "servers": "4"}, tmp_path)
    holds(score)
    assert 0 < score.facts["by_attack"] < score.facts["failures"]


def test_treatments_are_found_in_whatever_order_they_are_filed(run: Run, tmp_path: Path) -> None:
    score = run(Ward(), tmp_path, {"patients": "60", "hours": "150"}, tmp_path)
    holds(score)
    expected = score.facts["expected"]
    assert 3 <= expected["treatment_tree"] < expected["treatment_flow"]


@pytest.mark.skipif(not (DATA / "mimic_iv_demo").is_dir(), reason="the recording is not here")
def test_antibiotics_before_cultures_in_intensive_care(run: Run, tmp_path: Path) -> None:
    score = run(Ward(), tmp_path, {"of": "mimic"}, DATA)
    holds(score)
    assert (score.facts["intervals"], score.facts["expected"]) == (
        1306, {"antibiotic_before_culture": 477}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("scenario", "option"),
    [
        (ElderCare(), "persons=0"), (ElderCare(), "forgotten=2"), (ElderCare(), "radio=0"),
        (NetworkCorrelation(), "servers=0"), (NetworkCorrelation(), "attacks=-1"),
        (NetworkCorrelation(), "duration=2d"), (Ward(), "of=nothing"), (Ward(), "patients=0"),
        (Ward(), "hours=0"),
    ],
)  # fmt: skip
def test_options_out_of_range_are_named(
    tmp_path: Path, scenario: RunnableScenario, option: str
) -> None:
    name, _, value = option.partition("=")
    with pytest.raises(UserError, match=f"--set {name}="):
        scenario.make(tmp_path, {name: value}, tmp_path)


def test_names_have_dashes() -> None:
    assert {"elder-care", "network-correlation", "ward", "warehouse"} <= set(scenario_names())
    assert load("elder-care").name == "elder-care"
    with pytest.raises(UserError, match="elder-care"):
        load("elder_care")
