"""``slackwater run --in-process``: what a run leaves, and what it never destroys."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.cli.app import run
from slackwater.engine.cli.scenario_commands import _print
from slackwater.engine.scenario import Claim, Score, Table
from slackwater.scenarios.soccer import Soccer

SHORT = ("--set", "duration=100ms", "--set", "seed=7")
PARTS = {
    "log", "truth", "runs", "manifest.json", "results.jsonl", "report.html", "report.json",
}  # fmt: skip


@pytest.fixture(scope="module", name="made")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run, from which the tests copy."""
    folder = tmp_path_factory.mktemp("made") / "run"
    code = run(["run", "soccer", "--in-process", "--quiet", *SHORT, "--out", str(folder)])
    assert code == 0
    return folder


@pytest.fixture(name="folder")
def _folder(made: Path, here: Path) -> Path:
    """A copy of the run in the working folder."""
    shutil.copytree(made, here / "r")
    return Path("r")


def passes(folder: Path) -> dict[str, int]:
    """Events of each pass by its counters."""
    return {
        path.parent.name: json.loads(path.read_text())["events"]
        for path in folder.glob("runs/*/counters.json")
    }


def test_a_run_leaves_its_parts(made: Path) -> None:
    assert {path.name for path in made.iterdir()} == PARTS
    rows = json.loads((made / "manifest.json").read_text())["rows"]
    assert passes(made) == {"sequence": sum(rows.values()), "none": sum(rows.values())}
    assert list(made.rglob("*.writing")) == []


def test_the_verdict_comes_first_and_the_report_s_place_last(cli: Any) -> None:
    ran = cli("run", "soccer", "--in-process", *SHORT, "--out", "r")
    lines = ran.out.splitlines()
    assert (ran.code, ran.err) == (0, "")
    assert lines[0].startswith(("holds ", "fails "))
    assert lines[-1] == "r/report.html"
    sha = json.loads(Path("r/manifest.json").read_text())["log_sha256"]
    assert f"hash {sha}" in ran.out.replace("\n", " ")


def test_units_of_headings_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich takes what stands in brackets for its own markup."""
    table = Table("Holds [ms]", ("order", "p50 [ms]"), (("kslack[1]", 3),), "all of [main]")
    _print(Score((Claim("[1] holds", holds=True),), (table,)), Path("r"), {"log_sha256": "ab"})
    shown = capsys.readouterr().out
    for text in ("Holds [ms]", "p50 [ms]", "kslack[1]", "all of [main]", "[1] holds"):
        assert text in shown


def test_run_twice_gives_the_same_log_results_and_hash(made: Path, folder: Path, cli: Any) -> None:
    before = (folder / "manifest.json").read_bytes()
    ran = cli("run", "soccer", "--in-process", "--quiet", *SHORT, "--out", "r",
              "--overwrite")  # fmt: skip
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (folder / "manifest.json").read_bytes() == before
    for pattern in ("results.jsonl", "log/*.parquet", "runs/*/*/*.parquet"):
        names = sorted(path.relative_to(made) for path in made.glob(pattern))
        assert names == sorted(path.relative_to(folder) for path in folder.glob(pattern))
        assert names
        for name in names:
            assert (folder / name).read_bytes() == (made / name).read_bytes()


def test_another_seed_is_another_run(made: Path, cli: Any) -> None:
    other = ("--set", "duration=100ms", "--set", "seed=8")
    assert cli("run", "soccer", "--in-process", "--quiet", *other, "--out", "r").code == 0
    sha = [
        json.loads((each / "manifest.json").read_text())["log_sha256"] for each in (made, Path("r"))
    ]
    assert sha[0] != sha[1]


def test_resume_keeps_the_log_and_gives_the_same_results(
    made: Path, folder: Path, cli: Any
) -> None:
    shutil.rmtree(folder / "runs" / "none")
    (folder / "results.jsonl").unlink()
    log = {path.name: path.stat().st_mtime_ns for path in (folder / "log").iterdir()}
    ran = cli("run", "soccer", "--in-process", "--quiet", "--resume", *SHORT, "--out", "r")
    assert (ran.code, ran.err) == (0, "")
    assert (folder / "results.jsonl").read_bytes() == (made / "results.jsonl").read_bytes()
    assert passes(folder) == passes(made)
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "log").iterdir()} == log


@pytest.mark.parametrize("order", ["none", "sequence:timeout=r19,latency=20ms"])
def test_another_main_order_than_the_scenario_s(folder: Path, order: str, cli: Any) -> None:
    ran = cli("run", "soccer", "--in-process", "--quiet", "--resume", *SHORT, "--out", "r",
              "--order", order)  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    # The report says what was run.
    assert order in (folder / "report.json").read_text()


def test_passes_that_name_a_barrier_answer_the_queries_too(
    made: Path, folder: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, other = Soccer().passes({})
    passes_ = (main, other, replace(main, label="again", barrier="immediate"))
    monkeypatch.setattr(Soccer, "passes", lambda _self, _options: passes_)
    ran = cli("run", "soccer", "--in-process", "--quiet", "--resume", *SHORT, "--out", "r")
    assert (ran.code, ran.err) == (0, "")
    answered = {path.parent.parent.name for path in folder.glob("runs/*/*/*.parquet")
                if path.parent.name in ("windows", "matches")}  # fmt: skip
    assert answered == {"sequence", "again"}
    for path in (folder / "runs" / "sequence").rglob("*.parquet"):
        same = folder / "runs" / "again" / path.relative_to(folder / "runs" / "sequence")
        assert same.read_bytes() == path.read_bytes()
    assert (folder / "results.jsonl").read_bytes() == (made / "results.jsonl").read_bytes()
    barriers = [each["barrier"] for each in json.loads((folder / "report.json").read_text())["run"]
                ["passes"]]  # fmt: skip
    assert barriers == [None, None, "immediate"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--order", "nosuch"), "order 'nosuch': unknown operator; use one of"),
        (("--set", "duration=soon"), "--set duration=soon: 'soon' is not a duration"),
        (("--set", "delay=nosuch"), "--set delay=nosuch: unknown model; use one of"),
        (("--set", "loss=1.5"), "must lie in 0..1"),
        (("--set", "nosuch=1"), "--set nosuch=1: write NAME=VALUE; names are seed, duration,"),
        (("--resume", "--set", "seed=9"), "r: was made with --set seed=7; resume it with the same"),
        (("--resume", "--set", "duration=1s"), "r: was made with --set duration=100ms; resume"),
    ],
)
def test_what_is_wrong_is_reported_before_an_earlier_run_is_touched(
    folder: Path, arguments: tuple[str, ...], said: str, cli: Any
) -> None:
    again = () if "--resume" in arguments else ("--overwrite",)
    ran = cli("run", "soccer", "--in-process", *SHORT, *arguments, *again, "--out", str(folder))
    assert (ran.code, ran.out, ran.left) == (2, "", {})
    assert ran.err.startswith("slackwater: ")
    assert said in ran.err


def test_an_earlier_run_is_replaced_only_on_demand(folder: Path, cli: Any) -> None:
    del folder
    ran = cli("run", "soccer", "--in-process", *SHORT, "--out", "r")
    assert (ran.code, ran.out, ran.left) == (2, "", {})
    assert "r: holds a run already; --overwrite replaces it, --resume goes on with it" in ran.err


def test_run_overwrites_nothing_that_simulate_made(cli: Any) -> None:
    assert cli("simulate", "soccer", "--quiet", *SHORT, "--out", "s").code == 0
    for more in ((), ("--overwrite",)):
        ran = cli("run", "soccer", "--in-process", *SHORT, "--out", "s", *more)
        assert (ran.code, ran.left) == (2, {})
        assert "s: holds other files; choose another --out" in ran.err


@pytest.mark.parametrize(
    "command", [("order",), ("query", "EVENT SEQ(A a) WITHIN 1 s"), ("compare",)]
)
def test_a_run_s_folder_as_input_names_its_log(
    folder: Path, command: tuple[str, ...], cli: Any
) -> None:
    del folder
    ran = cli(*command, "--input", "r")
    assert (ran.code, ran.err) == (2, "slackwater: r: is the folder of a run; its log is r/log\n")


def test_what_is_wrong_leaves_no_folder(cli: Any) -> None:
    ran = cli("run", "soccer", "--in-process", "--set", "loss=2", "--out", "a/b")
    assert (ran.code, ran.left) == (2, {"a": None})
    ran = cli("run", "soccer", "--in-process", "--order", "nosuch", "--out", "b")
    assert (ran.code, ran.left) == (2, {})


def test_an_absent_recording_says_where_to_get_it(cli: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("SLACKWATER_DATA", "nowhere")
    ran = cli("run", "phones", "--in-process", "--out", "r")
    assert (ran.code, ran.left) == (2, {})
    assert ran.err.startswith("slackwater: nowhere/ooo_dataset_umts/d-1.csv.gz: the recording")
    assert "set SLACKWATER_DATA to that folder" in ran.err


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (None, "r: nothing to resume: no manifest.json; run without --resume"),
        ("{", "r/manifest.json: damaged (Expecting property name"),
        ("\x00", "r/manifest.json: damaged ("),
        ("[]", "r/manifest.json: not the manifest of a run; run without --resume"),
        ("{}", "r/manifest.json: not the manifest of a run; run without --resume"),
        ('{"log_sha256": "x"}', "r/log: no such folder; an arrival log is a folder"),
    ],
)
def test_what_cannot_be_resumed(here: Path, manifest: str | None, said: str, cli: Any) -> None:
    (here / "r").mkdir()
    if manifest is not None:
        (here / "r" / "manifest.json").write_text(manifest)
    ran = cli("run", "soccer", "--in-process", "--resume", "--out", "r")
    assert (ran.code, ran.out, ran.left) == (2, "", {})
    assert ran.err.startswith(f"slackwater: {said}")


def test_a_making_that_was_cut_off_is_begun_anew(here: Path, cli: Any) -> None:
    (here / "r" / ".making" / "log").mkdir(parents=True)
    ran = cli("run", "soccer", "--in-process", "--quiet", *SHORT, "--out", "r")
    assert (ran.code, ran.err) == (0, "")
    assert {path.name for path in (here / "r").iterdir()} == PARTS


def test_a_folder_of_other_files_is_left_alone(here: Path, cli: Any) -> None:
    (here / "r").mkdir()
    (here / "r" / "mine.txt").write_text("precious")
    (here / "file").write_text("precious")
    for out, said in (
        ("r", "r: holds other files; choose another --out"),
        ("file", "file: is a file; choose another --out"),
        ("file/x", f"file/x: {here}/file is a file, not a folder; choose another --out"),
    ):
        ran = cli("run", "soccer", "--in-process", *SHORT, "--out", out)
        assert (ran.code, ran.err, ran.left) == (2, f"slackwater: {said}\n", {})


def test_a_place_that_cannot_be_written_is_not_a_threshold_that_fails(cli: Any) -> None:
    assert cli("new", "shop.toml").code == 0
    for more in ((), ("--sweep", "link.loss=0,0.5")):
        ran = cli("run", "shop.toml", "--in-process", "--out", "/proc/out", *more)
        assert (ran.code, ran.out, ran.left) == (2, "", {})
        assert ran.err == "slackwater: /proc/out: No such file or directory\n"
