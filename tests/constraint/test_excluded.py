"""Events of a pattern that no trace of its constraint has are told of beforehand, with carets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import slackwater
from engine.cli.app import run
from engine.query import explain, query
from engine.query.automata.excluded import excluded
from engine.query.monitor_plan import MonitorPlan


def told(pattern: str, expression: str) -> list[str]:
    plan = query(f"EVENT {pattern} UNDER CONSTRAINT c FOR TRACE BY id AS {expression}")
    assert isinstance(plan, MonitorPlan)
    return excluded(plan)


def under(text: str) -> str:
    """What the carets of a message stand below."""
    lines = text.splitlines()
    place = next(number for number, line in enumerate(lines) if line.strip("^ ") == "")
    first = lines[place].index("^")
    return lines[place - 1][first : first + lines[place].count("^")]


@pytest.mark.parametrize(
    ("pattern", "expression", "place", "said"),
    [
        ("SEQ(A a, Bx b)", "A, Bxx", "Bx", "did you mean 'Bxx'?"),
        ("SEQ(A a, D d)", "A, D{0,0}", "D", "it has A"),  # named, but no trace has it
        ("SEQ(A a, D d) WHERE d.v > 5", "A, D[v < 3]", "D", "the condition on d is true"),
        ('SEQ(A a, "it\'s" x)', "A, B", "it's", 'of type "it\'s"'),
        ("OR(A a, D d)", "A, B", "D", "the alternative with it never is"),
        ("SEQ(B b, A a)", "A, B", "UNDER CONSTRAINT c", "no trace that keeps to constraint 'c'"),
    ],
)
def test_each_is_told_with_its_place(pattern: str, expression: str, place: str, said: str) -> None:
    [found] = told(pattern, expression)
    assert under(found).strip('"') == place
    assert said in found


@pytest.mark.parametrize(
    ("pattern", "expression"),
    [
        ("SEQ(A a, B b)", "A, B"),
        ("SEQ(A a, !D d, B b)", "A, B"),  # what may not occur may well be left out
        ("SEQ(A a, B b) WHERE b.v > 5", "A, B[v > 2]"),
        ("OR(A a, B b)", "A | B"),
    ],
)
def test_what_a_trace_may_have_is_not(pattern: str, expression: str) -> None:
    assert told(pattern, expression) == []


def test_it_is_no_error_and_told_by_command_python_and_explain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trace that breaks the constraint is watched for the match: here it comes."""
    text = "EVENT SEQ(A a, D d) UNDER CONSTRAINT c FOR TRACE BY order AS A, B"
    rows = [{"type": kind, "ts": n, "attrs": {"order": 1}} for n, kind in enumerate("AD", 1)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "out.jsonl"
    assert run(["query", text, "--input", str(tmp_path / "in.jsonl"), "--out", str(out)]) == 0
    said = capsys.readouterr().err
    assert "allows no event of type 'D'" in said
    assert "\n" + " " * 17 + "^" in said
    kinds = [json.loads(line)["alert"] for line in out.read_text().splitlines()]
    assert kinds == ["cleared", "violation", "alert"]
    with pytest.warns(slackwater.Doubt, match="allows no event of type 'D'"):
        slackwater.query({"ts": [1, 2, 3], "type": ["A", "D", "B"], "order": [1, 1, 1]}, text)
    assert "allows no event of type 'D'" in explain(query(text))
