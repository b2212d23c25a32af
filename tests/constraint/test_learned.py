"""Constraints learned from recordings, how often they are broken, and files of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.app import run
from engine.constraint.learned import Traces, conformance, learn, learned
from engine.errors import UserError
from engine.query import query
from engine.query.automata.automaton import determined
from engine.query.automata.languages import Alphabet, of_constraint
from engine.query.language.definitions import definitions, expanded
from engine.query.monitor_plan import MonitorPlan
from engine.query.render import render_regular
from tests.constraint.slow_traces import NOTHING, Regular, derivative, flow, nullable


def allows(expression: Regular, trace: tuple[str, ...]) -> bool:
    rest = expression
    for event in trace:
        rest = derivative(rest, event)
    return nullable(rest)


@settings(max_examples=50)
@given(st.lists(st.text("ABCDE", min_size=1, max_size=8), min_size=1, max_size=8))
def test_what_is_learned_allows_all_that_it_was_learned_from(drawn: list[str]) -> None:
    traces: Traces = Counter(tuple(each) for each in drawn)
    found = flow(render_regular(learned(traces)))
    assert all(allows(found, trace) for trace in traces)


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        (["ABC", "AC"], "A, B?, C"),
        (["AB", "AC"], "A, (B | C)"),
        (["ABCD", "ACBD"], "A, (B & C), D"),
        (["A", "ABA", "ABABA"], "A, (B, A)*"),
        (["ABCD", "ACBD", "AEFD"], "A, (B & C | E, F), D"),
        (["AAA", "A"], "A+"),
    ],
)
def test_blocks_are_found_again(drawn: list[str], expected: str) -> None:
    assert render_regular(learned(Counter(map(tuple, drawn)))) == expected


def test_the_rarest_kinds_and_traces_that_have_not_ended_are_left_out() -> None:
    traces: Traces = Counter({("A", "B"): 97, ("A", "C", "B"): 2, ("B",): 1, ("A",): 50})
    found = learn(traces, frozenset("B"), 0.03)
    assert (render_regular(found.expression), found.of, found.variants) == ("A, B", 97, 1)
    assert learn(traces, frozenset("B"), 0.0).variants == 3
    with pytest.raises(UserError, match="no trace ends with X"):
        learn(traces, frozenset("X"), 0.0)


@settings(max_examples=40)
@given(
    st.lists(st.text("ABC", min_size=1, max_size=6), min_size=1, max_size=6),
    st.sampled_from(["A, B?, C", "(A | B)+, C?", "A & B & C", "(A, B)*"]),
)
def test_traces_are_counted_as_by_derivatives(drawn: list[str], text: str) -> None:
    plan = query(f"EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY id AS {text}")
    assert isinstance(plan, MonitorPlan)
    alphabet = Alphabet([(letter, None) for letter in "ABC"])
    dfa = determined(of_constraint(plan.expression, alphabet), alphabet.size)
    trace = np.repeat(np.arange(len(drawn)), [len(each) for each in drawn])
    symbol = np.array(["ABC".index(event) for each in drawn for event in each], np.int32)
    found = conformance(dfa, list("ABC"), trace, symbol)
    counts: Counter[str] = Counter()
    for each in drawn:
        rest = flow(text)
        how = "open"
        for event in each:
            if how == "complete" and all(derivative(rest, x) == NOTHING for x in "ABC"):
                counts[how] += 1  # it is over, and another begins
                rest = flow(text)
            rest = derivative(rest, event)
            if rest == NOTHING:
                how = "broken"
                break
            how = "complete" if nullable(rest) else "open"
        counts[how] += 1
    assert (found.complete, found.open, found.broken) == tuple(
        counts[how] for how in ("complete", "open", "broken")
    )
    assert found.traces == sum(counts.values())
    assert sum(found.breaks.values()) == found.broken


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
def test_a_mistake_in_a_file_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        definitions(text, "f")
    assert message in str(refused.value)


def test_an_unknown_name_is_told_with_its_place() -> None:
    with pytest.raises(UserError, match="did you mean 'flow'") as refused:
        expanded("EVENT SEQ(A a, B b) UNDER CONSTRAINT flaw", definitions(FILE, "f"))
    assert "^^^^" in str(refused.value)


def test_the_commands_learn_and_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kinds = ["ABD"] * 3 + ["ACD"] * 2 + ["AD"]
    lines = [
        {"type": event, "ts": 10 * row + trace, "attrs": {"id": f"t{trace}"}}
        for trace, kind in enumerate(kinds)
        for row, event in enumerate(kind)
    ]
    lines.append({"type": "A", "ts": 99})
    Path("log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    learn_it = ["constraint", "learn", "log.jsonl", "--trace"]
    assert run([*learn_it, "id", "--rare", "0.2", "--name", "flow", "--out", "flow.txt"]) == 0
    said = capsys.readouterr().err
    assert "A, (B | C), D;" in Path("flow.txt").read_text()
    assert "5 of 6 traces (2 kinds), 1 break it (16.67%)" in said
    assert "1 events have no id" in said
    assert run(["constraint", "check", "log.jsonl", "flow.txt", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "flow": {
            "traces": 6, "complete": 5, "open": 0, "broken": 1, "untraced": 1,
            "broken_share": 1 / 6, "breaks": [{"came": "D", "allowed": "B, C", "traces": 1}],
        }
    }  # fmt: skip
    assert run([*learn_it, "nobody"]) == 2
    assert "no event of these types has an attribute 'nobody'" in capsys.readouterr().err


def test_a_break_names_what_came_and_what_was_allowed() -> None:
    plan = query("EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY id AS A, B, C")
    alphabet = Alphabet([(letter, None) for letter in "ABC"])
    dfa = determined(of_constraint(plan.expression, alphabet), alphabet.size)
    found = conformance(dfa, list("ABC"), np.array([0, 0, 0]), np.array([2, 0, 1], np.int32))
    assert found.breaks == Counter({("C", "A"): 1})
