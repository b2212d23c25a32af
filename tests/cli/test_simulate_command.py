"""``slackwater simulate``: only a log, whole or not at all, that other commands read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

SHORT = ("--set", "duration=100ms", "--set", "seed=7")


def test_a_log_with_its_truth_and_hash(cli: Any) -> None:
    ran = cli("simulate", "soccer", *SHORT, "--out", "a.log")
    manifest = json.loads(Path("a.log/manifest.json").read_text())
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"a.log: hash {manifest['log_sha256']}\n"
    assert manifest["seed"] == 7
    truth = pq.read_table("a.log/truth/events.parquet")
    assert truth.num_rows == manifest["events"]["generated"]
    assert sorted(path.name for path in Path().iterdir()) == ["a.log"]


def test_the_same_seed_gives_the_same_bytes(cli: Any) -> None:
    hashes = []
    for out, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        ran = cli("simulate", "soccer", "--set", "duration=50ms", "--set", f"seed={seed}", "--out",
                  out)  # fmt: skip
        hashes.append(ran.out.removeprefix(f"{out}: "))
    assert hashes[0] == hashes[1] != hashes[2]
    names = [sorted(path.relative_to(out) for path in Path(out).rglob("*.*")) for out in "ab"]
    assert names[0] == names[1]
    for name in names[0]:
        if (Path("a") / name).is_file():
            assert (Path("a") / name).read_bytes() == (Path("b") / name).read_bytes()


def test_other_commands_read_it(cli: Any) -> None:
    assert cli("simulate", "soccer", *SHORT, "--quiet", "--out", "a.log").out == ""
    logged = json.loads(Path("a.log/manifest.json").read_text())["events"]["logged"]
    shown = json.loads(cli("log", "show", "a.log", "--json").out)
    assert shown["kinds"]["event"] == logged
    text = "SELECT count(*) FROM soccer WINDOW TUMBLING 1 h"
    ran = cli("query", text, "--input", "a.log", "--order", "none", "--in-process", "--quiet")
    assert sum(each["value"]["count(*)"] for each in ran.lines) == logged
    ran = cli("order", "--input", "a.log", "--in-process", "--quiet")
    assert len(ran.lines) == logged
    assert [each["release"] for each in ran.lines] == sorted(e["release"] for e in ran.lines)


def test_an_empty_folder_is_taken_and_a_full_one_left_alone(here: Path, cli: Any) -> None:
    (here / "empty").mkdir()
    assert cli("simulate", "soccer", *SHORT, "--quiet", "--out", "empty").code == 0
    ran = cli("simulate", "soccer", *SHORT, "--out", "empty")
    assert (ran.code, ran.left) == (2, {})
    assert ran.err == "slackwater: empty: exists already; choose a new folder\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("nosuch", "--out", "a"),
            "no scenario 'nosuch'; there are bookstore, elder-care, lorawan, mimic",
        ),
        (
            ("../soccer", "--out", "a"),
            "no scenario '../soccer'; there are bookstore, elder-care, lorawan, mimic",
        ),
        (
            ("papers", "--out", "a"),
            "no scenario 'papers'; there are bookstore, elder-care, lorawan, mimic",
        ),
        (("soccer",), "Missing option '--out'; see slackwater simulate --help"),
        (("soccer", "--out", "file"), "file: exists already; choose a new folder"),
        (("soccer", "--out", "file/x"), "is a file, not a folder; choose another --out"),
        (("soccer", "--out", "a", "--set", "seed"), "--set seed: write NAME=VALUE; names are seed"),
        (("soccer", "--out", "a", "--set", "seed=x"), "--set seed=x: seed is like 1"),
        (("soccer", "--out", "a", "--set", "seed=-1"), "seed: -1 is negative; give a whole number"),
        (("soccer", "--out", "a", "--set", "duration=3 h"), "must lie in 5 ms..2 h"),
        (("soccer", "--out", "a", "--set", "duration=-1s"), "'-1s' is not a duration"),
        (("soccer", "--out", "a", "--set", "loss=nan"), "must lie in 0..1"),
        (
            ("soccer", "--out", "a", "--set", "connections=0"),
            "--set connections=0: must lie in 1..64",
        ),
        (("phones", "--out", "a"), "nowhere/ooo_dataset_umts/d-1.csv.gz: the recording is not"),
        (("phones", "--out", "a", "--set", "sessions=d-9"), "'d-9' is none of d-1, d-2, d-3"),
    ],
)
def test_what_the_user_got_wrong_leaves_nothing(
    arguments: tuple[str, ...], said: str, here: Path, cli: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("SLACKWATER_DATA", "nowhere")
    (here / "file").write_text("x")
    ran = cli("simulate", *arguments)
    assert (ran.code, ran.out, ran.left) == (2, "", {})
    assert ran.err.startswith("slackwater: ")
    assert said in ran.err
