"""What is shown of a constraint: its automaton, and events of a pattern that no trace of it has."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater
from engine.cli.app import run
from engine.cli.constraint_commands import draw_constraint
from engine.errors import UserError
from engine.passes.automata_drawn import drawings_of
from engine.query import explain, query
from engine.query.automata.picture import layers_of, picture
from engine.query.automata.verdicts import automata_of, excluded
from engine.query.monitor_plan import MonitorPlan

FLOW = (
    "EVENT SEQ(A a, C c) UNDER CONSTRAINT f FOR TRACE BY id AS (A, B?, C | B, D[v > 1 AND w < 2])+"
)
SVG = "{http://www.w3.org/2000/svg}"


def plan_of(text: str) -> MonitorPlan:
    found = query(text)
    assert isinstance(found, MonitorPlan)
    return found


def test_every_state_and_every_way_is_drawn() -> None:
    automata = automata_of(plan_of(FLOW))
    drawn = picture(automata)
    assert drawn is not None
    root = ET.fromstring(drawn)
    both = automata.encoded
    fine = [state for state in range(len(both.table)) if not both.broken[state]]
    texts = [each.text for each in root.iter(f"{SVG}text")]
    words = ("open", "alert", "cleared")
    assert {f"{state} {words[both.verdict[state]]}" for state in fine} <= set(texts)
    wanted = sorted(
        ", ".join(
            name for name, at in zip(automata.alphabet.names, both.table[state], strict=True)
            if at == to
        )
        for state in fine
        for to in set(both.table[state].tolist()) & set(fine) - {state}
    )  # fmt: skip
    assert sorted(each.text or "" for each in root.iter(f"{SVG}title")) == wanted
    boxes = [
        (float(each.attrib["x"]), float(each.attrib["y"]))
        for each in root.iter(f"{SVG}rect")
        if each.attrib["rx"] == "8"
    ]
    assert len(boxes) == len(fine)
    assert all(
        abs(x - x2) >= 86 or abs(y - y2) >= 30
        for at, (x, y) in enumerate(boxes)
        for x2, y2 in boxes[:at]
    )


ways_strategy = st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=24)


@given(ways_strategy)
def test_ways_lead_down_layer_by_layer_or_back(ways: set[tuple[int, int]]) -> None:
    found = layers_of(0, sorted(ways))
    layer = {node: at for at, row in enumerate(found.rows) for node in row}
    assert len(layer) == sum(map(len, found.rows))
    reached = {0}
    while more := {b for a, b in ways if a in reached} - reached:
        reached |= more
    assert {node for node in layer if node >= 0} == reached
    there = {(a, b) for a, b in ways if a in reached and a != b}
    assert set(found.routes) | set(found.back) == there
    assert not set(found.routes) & set(found.back)
    for (one, other), route in found.routes.items():
        assert (route[0], route[-1]) == (one, other)
        assert all(layer[b] == layer[a] + 1 for a, b in pairwise(route))
    assert all(layer[b] <= layer[a] for a, b in found.back)


def test_a_large_one_is_not_drawn() -> None:
    large = plan_of("EVENT SEQ(A a, B b) UNDER CONSTRAINT f FOR TRACE BY id AS A{70}, B")
    assert not list(drawings_of([large]))


def test_the_command_writes_it_and_refuses_other_queries(tmp_path: Path) -> None:
    draw_constraint(FLOW, None, tmp_path / "f.svg", "ns")
    assert (tmp_path / "f.svg").read_text("utf-8").startswith("<svg")
    with pytest.raises(UserError, match="no automaton"):
        draw_constraint("EVENT SEQ(A a, B b) WITHIN 1 s", None, None, "ns")


# ---- what no trace has is told beforehand, with carets


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
