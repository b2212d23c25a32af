"""``slackwater bench``: each measure's answers are those of the program beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from engine.cli.bench_command import bench
from engine.errors import SlackwaterError
from engine.speed import measures
from engine.speed.measures import MEASURES, NAMES, measured


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from engine.cli import main; main()", "bench", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_answers_are_those_of_the_program_beside() -> None:
    found = list(measured(30_000, rounds=1))
    assert tuple(each.name for each in found) == NAMES
    for each in found:
        assert each.answers == each.beside_answers, each
        assert each.answers > 0, each
        assert each.seconds > 0, each
        assert each.per_second == pytest.approx(30_000 / each.seconds)


@pytest.mark.slow
def test_lines_have_what_the_table_has() -> None:
    done = command(
        "--rounds", "1", "--events", "5000", "--only", "windows", "--only", "none", "--json"
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["name"] for line in lines] == ["none", "windows"]
    for line in lines:
        assert line["events"] == 5000
        assert line["ratio"] > 0
    table = command("--rounds", "1", "--events", "5000", "--only", "none")
    assert table.returncode == 0, table.stderr
    assert "order none" in table.stdout
    assert "5,000" in table.stdout


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--only", "nonsense"), "--only nonsense: there are none, kslack"),
        (("--events", "10"), "'--events': Input should be greater than or equal to 1000"),
    ],
)
def test_wrong_options_are_told(wrong: tuple[str, ...], said: str) -> None:
    done = command(*wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_other_answers_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tuple(replace(each, baseline=lambda _: 0) for each in MEASURES)
    monkeypatch.setattr(measures, "MEASURES", wrong)
    with pytest.raises(SlackwaterError, match="none: 2,000 answers of ours, 0 of NumPy's sort"):
        bench(events=2000, rounds=1, only=["none"], as_lines=False, quiet=True)
