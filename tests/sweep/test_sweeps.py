"""Sweeps as they are typed: maps, numbers, going on, exit codes."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.apps.scenario_run import load_file
from slackwater.engine.apps.sweep import cells as running
from slackwater.engine.apps.sweep.cells import (
    Axis,
    CellAnswer,
    ThresholdAnswer,
    answered,
    cells,
    jobs_of,
    nearest,
    read_axes,
)
from slackwater.engine.apps.sweep.page import (
    Estimate,
    SweepFindings,
    assess,
    write_sweep,
)
from slackwater.engine.cli.app import run as command
from slackwater.engine.core.errors import UserError

TEXT = """
duration = "2 s"
thresholds = ["pairs: detection_delay_max <= 100 ms", "recall >= 1"]
[[sources]]
name = "a"
workload = { model = "periodic", period = "100 ms", type = "A" }
[[sources]]
name = "b"
workload = { model = "periodic", period = "100 ms", phase = "50 ms", type = "B" }
[link]
delay = "200 ms"
[queries]
pairs = "EVENT SEQ(A x, B y) WITHIN 60 ms"
[engine]
order = "none"
"""
SWEEP = ["run", "pairs.toml", "--sweep", "link.delay=20ms,200ms", "--quiet", "--out", "swept"]


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running.os, "cpu_count", lambda: 1)
    Path("pairs.toml").write_text(TEXT)


def test_a_sweep_finds_where_thresholds_hold_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command([*SWEEP, "--sweep", "sources.a.workload.period=100ms,200ms"]) == 1
    found = json.loads(Path("swept/sweep.json").read_text())
    assert found["verdict"]["own"] == ["200ms", "100ms"]
    assert "link.delay = 20ms (from 200ms)" in found["verdict"]["headline"]
    holds = {tuple(each["cell"]): each["all_hold"] for each in found["cells"]}
    assert holds == {
        (delay, period): delay != "200ms"
        for delay in ("20ms", "200ms")
        for period in ("100ms", "200ms")
    }
    page = Path("swept/sweep.html").read_text()
    assert '<div class="name">all thresholds hold</div>' in page
    assert "Again: <code>slackwater" in page
    assert "Done on 20" in page
    assert "The least change" in page
    assert page.count('id="plot-map-') == 3

    ran = []
    kept = sorted(Path("swept/cells").iterdir())
    kept[0].unlink()
    kept[1].write_text("{")
    once = running.answer_of
    monkeypatch.setattr(running, "answer_of", lambda *job: ran.append(job) or once(*job))
    assert command([*SWEEP, "--sweep", "sources.a.workload.period=100ms,200ms"]) == 1
    assert len(ran) == 2, "those that were kept are not made again"
    again = json.loads(Path("swept/sweep.json").read_text())
    assert again["cells"] == found["cells"]


def test_seeds_give_confidence_intervals() -> None:
    Path("pairs.toml").write_text(TEXT.replace('delay = "200 ms"', 'jitter = "5 ms"'))
    line = ["run", "pairs.toml", "--sweep", "link.jitter=5ms,10ms", "--seeds", "2", "--quiet"]
    assert command([*line, "--out", "seeded"]) == 0
    found = json.loads(Path("seeded/sweep.json").read_text())
    delay = found["cells"][0]["metrics"]["pairs"]["detection_delay_p50"]
    assert delay["half_95"] > 0
    assert found["seeds"] == 2


def of_seeds(jitter: str, held: tuple[bool, ...], values: tuple[float, ...]) -> list[CellAnswer]:
    return [
        CellAnswer((jitter,), seed, {"q: recall >= 0.9": ThresholdAnswer(
            holds, f"it is {100 * value} %", "q: recall", value, ">= 0.9"
        )}, {"q": {"recall": value}})
        for seed, (holds, value) in enumerate(zip(held, values, strict=True))
    ]  # fmt: skip


def test_the_headline_names_the_limit_and_cells_the_worst_seed() -> None:
    axes = read_axes(["link.jitter=1ms,10ms,100ms,1s"])
    answers = [
        *of_seeds("1ms", (True, True), (1.0, 1.0)),
        *of_seeds("10ms", (True, True), (1.0, 0.98)),
        *of_seeds("100ms", (True, True), (0.9, 0.94)),
        *of_seeds("1s", (True, False), (0.92, 0.5)),
    ]
    found = SweepFindings.of(axes, answers)
    assert found.details["q: recall >= 0.9"] == {
        ("1ms",): "mean 100 %, worst 100 %", ("10ms",): "mean 99 %, worst 98 %",
        ("100ms",): "mean 92 %, worst 90 %", ("1s",): "mean 71 %, worst 50 %",
    }  # fmt: skip
    assert assess(found, ("10ms",)) == (
        True,
        (
            "All thresholds hold at link.jitter = 10ms: up to 100ms of link.jitter "
            "(at 1s one threshold fails)."
        ),
    )
    holds, headline = assess(found, ("1s",))
    assert not holds
    assert headline == (
        "At link.jitter = 1s one threshold fails. The least change with which all thresholds "
        "hold: link.jitter = 100ms (from 1s); then up to 100ms of link.jitter (at 1s one "
        "threshold fails)."
    )
    write_sweep(found, "Ours", ("10ms",), "slackwater run", Path("written"), 2)
    page = Path("written/sweep.html").read_text()
    assert '"name": "holds"' in page
    assert '"name": "holds with some seeds"' in page
    assert '"name": "fails"' not in page
    assert "mean 71 %\\u003cbr\\u003eworst 50 %" in page.replace("<", "\\u003c").replace(
        ">", "\\u003e"
    )


def test_limits_are_of_each_axis() -> None:
    axes = read_axes(["seed=1..4", "engine.order=sequence,none"])
    good = {("2", "sequence"), ("3", "sequence"), ("3", "none"), ("4", "none")}
    answers = [
        CellAnswer(each, 1, {"a": ThresholdAnswer(each in good, "it is 1")}, {})
        for each in cells(axes)
    ]
    found = SweepFindings.of(axes, answers)
    assert assess(found, ("2", "sequence"))[1] == (
        "All thresholds hold at seed = 2, engine.order = sequence: from 2 to 3 of seed (at 1 one "
        "threshold fails, at 4 one threshold fails); with engine.order = sequence (at none one "
        "threshold fails)."
    )
    assert "seed from 3" not in assess(found, ("4", "none"))[1]
    assert "from 3 of seed on (at 2 one threshold fails)" in assess(found, ("4", "none"))[1]


@pytest.mark.parametrize(
    "wrong",
    [
        ["run", "soccer", "--sweep", "seed=1,2"],
        ["run", "pairs.toml", "--sweep", "link.delays=1,2"],
        ["run", "pairs.toml", "--sweep", "link.delay=1ms"],
        ["run", "pairs.toml", "--sweep", "link.delay"],
        ["run", "pairs.toml", "--sweep", "seed=1,2", "--seeds", "0"],
        ["run", "pairs.toml", "--sweep", "seed=1,2", "--seeds", "2"],
        ["run", "pairs.toml", "--seeds", "2"],
        ["run", "pairs.toml", "--sweep", "seed=1,2", "--order", "none"],
        ["run", "pairs.toml", "--sweep", "seed=1,2", "--overwrite"],
        ["run", "pairs.toml", "--sweep", "seed=1,2", "--against", "swept"],
    ],
)
def test_a_wrong_sweep_is_refused_before_the_work(wrong: list[str]) -> None:
    code = command([*wrong, "--quiet", "--out", "none"])
    assert code == (2 if "link.delay=1ms" not in wrong else 0)


@pytest.mark.slow
def test_processes_answer_as_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = read_axes(["link.delay=1ms,200ms", "seed=1,2"])
    jobs = jobs_of(axes, cells(axes), 1, 1, [])
    assert load_file(Path("pairs.toml")).name == "pairs"
    one = answered(Path("pairs.toml"), jobs, Path("one"), lambda _n: None, workers=1)
    two = answered(Path("pairs.toml"), jobs, Path("two"), lambda _n: None, workers=2)
    assert one == two


@pytest.mark.parametrize(
    ("axis", "said"),
    [
        ("link.los=1,2", '--sweep link.los=1: unknown setting; .* mean "loss"'),
        ("engine.order=none,bogus,kslack:1s", "--sweep engine.order=bogus: order 'bogus': unknown"),
        ("sources.c.count=1,2", "--sweep sources.c.count: none is named 'c'; known are a, b"),
        ("link.loss=1 %,3", "--sweep link.loss=3: expected a share from 0 to 1"),
    ],
)
def test_every_value_is_checked_and_blamed_on_its_axis(
    axis: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["run", "pairs.toml", "--sweep", axis, "--quiet", "--out", "none"]) == 2
    assert re.match(f"slackwater: {said}", capsys.readouterr().err)
    assert not Path("none").exists()


def test_what_could_not_be_run_is_reported_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    once = running.scored_run

    def short_of_memory(scenario: Any, options: Any, folder: Path) -> Any:
        if options["link.delay"] == "200ms":
            raise MemoryError
        return once(scenario, options, folder)

    monkeypatch.setattr(running, "scored_run", short_of_memory)
    sweep = [each for each in SWEEP if each != "--quiet"]
    assert command(sweep) == 1
    errors_text = capsys.readouterr().err
    assert errors_text == "could not be run: 200ms: there is not enough memory for its events\n"
    assert "Could not be run: 200ms: there is not" in Path("swept/sweep.html").read_text()
    assert len(list(Path("swept/cells").iterdir())) == 1
    monkeypatch.setattr(running, "scored_run", once)
    assert command(SWEEP) == 1
    assert len(list(Path("swept/cells").iterdir())) == 2


def test_another_recording_is_another_answer() -> None:
    Path("pairs.toml").write_text(
        'thresholds = ["events >= 3"]\n[[sources]]\n[sources.recording]\nfile = "r.csv"\n'
        '[queries]\npairs = "EVENT SEQ(A x, B y) WITHIN 60 ms"\n'
    )
    sweep = ["run", "pairs.toml", "--sweep", "link.delay=1ms,2ms", "--quiet", "--out", "swept"]
    Path("r.csv").write_text("ts,type\n1,A\n2,B\n")
    assert command(sweep) == 1
    Path("r.csv").write_text("ts,type\n1,A\n2,B\n3,A\n")
    assert command(sweep) == 0, "the answers to the former recording are none to this one"


def test_seed_0_is_a_seed() -> None:
    assert command([*SWEEP, "--set", "seed=0"]) == 1
    answers = [json.loads(each.read_text()) for each in Path("swept/cells").iterdir()]
    assert {each["seed"] for each in answers} == {0}


@pytest.mark.slow
def test_a_process_that_is_ended_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(running, "answer_of", _ended)
    assert command(SWEEP) == 1
    assert "the same command goes on with the cells that are missing" in capsys.readouterr().err


def _ended(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


AXES = (Axis("link.delay", ("1ms", "10ms", "100ms")), Axis("count", ("1", "2", "3", "4")))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1,2, 3", ("1", "2", "3")),
        ("a.b=none,kslack:1s", ("none", "kslack:1s")),
        ("a=0..1/3", ("0", "0.5", "1")),
        ("a=1..1000/4", ("1", "10", "100", "1000")),
        ("a=1ms..2ms/2", ("1ms", "2ms")),
        ("a=500us..1s/2", ("500us", "1s")),
        ("a=0 %..10 %/2", ("0", "0.1")),
        ("a=-1s..1s/3", ("-1", "0", "1")),
    ],
)
def test_axes_are_read(text: str, values: tuple[str, ...]) -> None:
    if text == "a=-1s..1s/3":
        with pytest.raises(UserError):
            read_axes([text, text])
        return
    assert read_axes([text])[0].values == values


@pytest.mark.parametrize(
    "text",
    ["a", "a=", "=1", "a=1..", "a=2..1", "a=1..2/1", "a=1ms..2", "a=1,1", "a=1,,2", "a=x..y",
     "a=1..2/5000", "a=1parsec..2parsec"],
)  # fmt: skip
def test_a_bad_axis_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(UserError, match=r"--sweep (a|=1)"):
        read_axes([text])


def test_too_many_cells_are_refused() -> None:
    with pytest.raises(UserError, match="at most 10,000"):
        read_axes(["a=1..2/200", "b=1..2/200"])


def test_the_nearest_value_is_of_the_same_size() -> None:
    assert nearest(AXES[0], "20 ms") == "10ms"
    assert nearest(AXES[0], 90_000_000) == "100ms"
    assert nearest(AXES[0], None) == "1ms"
    assert read_axes(["link.jitter=1s, 20ms, 300ms"])[0].values == ("20ms", "300ms", "1s")
    assert read_axes(["engine.order=sequence,none"])[0].values == ("sequence", "none")
    assert nearest(Axis("order", ("none", "kslack:1s")), "kslack:1s") == "kslack:1s"


def test_every_cell_has_a_job_for_each_seed() -> None:
    jobs = jobs_of(AXES, cells(AXES), 5, 3, ["duration=1s"])
    assert len(jobs) == 3 * 4 * 3
    assert len({(job.cell, job.seed) for job in jobs}) == len(jobs)
    assert jobs[-1].pairs == ("duration=1s", "seed=7", "link.delay=100ms", "count=4")


def all_hold(answer: CellAnswer) -> bool:
    return answer.error is None and all(each.holds for each in answer.claims.values())


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_the_least_change_is_the_nearest_cell_that_holds(seed: int, seeds: int) -> None:
    draw = random.Random(seed)
    answers = []
    for cell in cells(AXES):
        sure = draw.choice([0.0, 0.5, 1.0])
        for number in range(seeds):
            claims = {text: ThresholdAnswer(draw.random() < sure, "it is 1") for text in ("a", "b")}
            error = "too many" if draw.random() < 0.05 else None
            claims = {} if error else claims
            answers.append(
                CellAnswer(cell, number, claims, {} if error else {"q": {"m": 1.0}}, error)
            )
    found = SweepFindings.of(AXES, answers)
    good = [
        cell for cell in cells(AXES) if all(all_hold(each) for each in answers if each.cell == cell)
    ]
    assert [cell for cell in cells(AXES) if found.all_hold(cell)] == good
    own = draw.choice(cells(AXES))
    best = found.least_change(own)
    assert (best is None) == (not good)
    if own in good:
        assert best == own
    if best is not None:
        changed = sum(one != other for one, other in zip(best, own, strict=True))
        assert best in good
        assert changed == min(
            sum(one != other for one, other in zip(each, own, strict=True)) for each in good
        )


def test_a_spread_is_a_confidence_interval() -> None:
    spread = Estimate.of([1.0, 2.0, 3.0])
    assert spread.mean == 2.0
    assert spread.half == pytest.approx(4.30 / 3**0.5)
    assert Estimate.of([1.0]).half is None
