"""The automaton as SVG: every state and every way is in it, and nothing lies on another."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.constraint_commands import draw_constraint
from engine.errors import UserError
from engine.passes.automata_drawn import drawings_of
from engine.query import query
from engine.query.automata.compiled import automata_of
from engine.query.automata.layers import layers_of
from engine.query.automata.picture import picture
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
