"""Summaries for CI: a test case for each threshold or claim, with its value and why it fails."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from slackwater.engine.apps.report.verdict import write_summaries
from slackwater.engine.apps.sweep import cells as sweep_cells
from slackwater.engine.cli.app import run as command
from slackwater.engine.scenario import Claim
from tests.sweep.test_sweeps import TEXT

SCENARIO = f'title = "Pairs & more"{TEXT}'
ROWS = "ts,arrival,source\n" + "".join(f"{n},{n + 5},a\n" for n in range(0, 1000, 10))


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep_cells.os, "cpu_count", lambda: 1)
    Path("pairs.toml").write_text(SCENARIO)
    Path("in.csv").write_text(ROWS)


def read(name: str) -> dict[str, tuple[bool, str]]:
    """Whether each test case of a JUnit file holds, and what it says; counts are checked."""
    suites = ET.parse(name).getroot()
    (suite,) = suites
    found = {}
    for case in suite.iter("testcase"):
        failure = case.find("failure")
        said = case.find("system-out") if failure is None else failure
        assert said is not None
        found[case.attrib["name"]] = failure is None, said.text or ""
    for each in (suites, suite):
        assert int(each.attrib["tests"]) == len(found)
        assert int(each.attrib["failures"]) == sum(not holds for holds, _ in found.values())
    return found


def test_a_run_has_a_case_for_each_threshold() -> None:
    line = ["run", "pairs.toml", "--in-process", "--quiet", "--out", "ran"]
    assert command([*line, "--summary", "junit.xml", "--summary", "sum.md"]) == 1
    found = read("junit.xml")
    assert list(found) == ["pairs: detection_delay_max <= 100 ms", "pairs: recall >= 1"]
    assert found["pairs: detection_delay_max <= 100 ms"][0] is False
    assert found["pairs: detection_delay_max <= 100 ms"][1] == "it is 1 s"
    assert found["pairs: recall >= 1"] == (True, "it is 100 %")
    text = Path("sum.md").read_text()
    assert text.startswith("### FAIL (1 of 2): Pairs & more\n\n| | what must hold | measured |\n")
    assert "| ✗ fails | pairs: detection\\_delay\\_max \\<= 100 ms | it is 1 s |" in text


def test_a_sweep_is_judged_at_the_files_own_cell() -> None:
    line = ["run", "pairs.toml", "--sweep", "link.delay=20ms,200ms", "--quiet", "--out", "swept"]
    assert command([*line, "--summary", "junit.xml"]) == 1
    found = read("junit.xml")
    holds, said = found["pairs: detection_delay_max <= 100 ms"]
    assert not holds
    assert said.endswith("at link.delay = 200ms")
    headline = ET.parse("junit.xml").getroot().findtext("testsuite/system-out")
    assert headline is not None
    assert "link.delay = 20ms (from 200ms)" in headline


def test_compare_has_a_case_for_what_suits_and_what_is_excluded() -> None:
    line = ["compare", "--input", "in.csv", "--time-unit", "ms", "--order", "none", "--quiet"]
    assert command([*line, "--summary", "compared.xml"]) == 0
    found = read("compared.xml")
    assert found["No source is excluded"] == (True, "none is")
    holds, said = found["An order puts 99.9 % of the events in their place"]
    assert holds
    assert said.startswith("none: 100 % of the events in their place, none of them held. No other")


@pytest.mark.parametrize("name", ["junit", "sum.txt", "none/junit.xml"])
def test_a_name_that_cannot_be_written_is_refused_before_the_work(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["run", "pairs.toml", "--out", "ran", "--summary", name]) == 2
    assert f"--summary {name}" in capsys.readouterr().err
    assert not Path("ran").exists()


def test_texts_of_others_are_no_markup() -> None:
    checks = [Claim("<b>a|b</b>\x1b[31m", False, 'it is "]]>"\nand more')]
    write_summaries([Path("x.xml"), Path("x.md")], "a & b", "`head`", checks)
    ((name, (holds, said)),) = read("x.xml").items()
    assert name.startswith("<b>a|b</b>")
    assert "\x1b" not in name
    assert (holds, said) == (False, 'it is "]]>"\nand more')
    last = Path("x.md").read_text().splitlines()[-1]
    assert last.count("|") - last.count("\\|") == 4
    assert "<b>" not in last.replace("\\<", "")
