"""Files of constraints, and events of a pattern that no trace of a constraint has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import slackwater
from slackwater.engine.cli.app import run
from slackwater.engine.core.errors import UserError
from slackwater.engine.query import explain, query
from slackwater.engine.query.automata import excluded
from slackwater.engine.query.language.statements import definitions, expanded
from slackwater.engine.query.monitor_plan import MonitorPlan

# ---- what no trace has is emitted beforehand, with carets


def emitted(pattern: str, expression: str) -> list[str]:
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
def test_each_is_reported_with_its_place(
    pattern: str, expression: str, place: str, said: str
) -> None:
    [found] = emitted(pattern, expression)
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
    assert emitted(pattern, expression) == []


def test_it_is_no_error_and_reported_by_command_python_and_explain(
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
    with pytest.warns(slackwater.SlackwaterWarning, match="allows no event of type 'D'"):
        slackwater.query({"ts": [1, 2, 3], "type": ["A", "D", "B"], "order": [1, 1, 1]}, text)
    assert "allows no event of type 'D'" in explain(query(text))


# ---- constraints in a file


FILE = """-- Two of them; a semicolon in a comment; is none.
CONSTRAINT flow FOR TRACE BY id AS A[note = 'a;b'], B;
CONSTRAINT "other one" FOR TRACE BY id TIMEOUT 5 s AS (A | B)*
"""


def test_a_query_that_names_a_constraint_is_one_that_has_it() -> None:
    known = definitions(FILE, "flow.txt")
    assert list(known) == ["flow", "other one"]
    whole = expanded('EVENT SEQ(A a, B b) UNDER CONSTRAINT "other one"', known)
    plan = query(whole)
    assert isinstance(plan, MonitorPlan)
    assert (plan.constraint, plan.timeout_ns) == ("other one", 5 * 10**9)
    for text in (
        "EVENT SEQ(A a, B b) UNDER CONSTRAINT flow FOR TRACE BY id AS A",
        "EVENT SEQ(A a, B b) WHERE a.note = 'UNDER CONSTRAINT flow'",
    ):
        assert expanded(text, known) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CONSTRAINT a FOR TRACE BY x AS\n  A, |;", "f:2: column 6: '|' is not understood"),
        ("CONSTRAINT a FOR TRACE BY x AS A;\nCONSTRAINT a FOR TRACE BY x AS B", "f:2: there are"),
        ("-- nothing", "f: there is no constraint"),
        ("CONSTRAINT a FOR TRACE BY x AS A WITHIN 5 s", "f:1: one constraint"),
    ],
)
def test_a_mistake_in_a_file_is_reported_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        definitions(text, "f")
    assert message in str(refused.value)


def test_an_unknown_name_is_reported_with_its_place() -> None:
    with pytest.raises(UserError, match="did you mean 'flow'") as refused:
        expanded("EVENT SEQ(A a, B b) UNDER CONSTRAINT flaw", definitions(FILE, "f"))
    assert "^^^^" in str(refused.value)
