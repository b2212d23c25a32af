"""What a constraint makes certain: L10's Examples 3.1 to 3.9, and against all ways to go on."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from slackwater.engine.core.errors import UserError
from slackwater.engine.query import explain, query, to_text
from slackwater.engine.query.automata import START, Automata, automata_of
from slackwater.engine.query.monitor_plan import MonitorPlan, Occurrence, RegularGroup
from slackwater.scenarios.papers.l10.ch3.basic import basic_of, derived
from tests.constraint.slow_traces import FIRST, NOTHING, Seq, derivative, flow, read, verdict

NAMES = ("open", "satisfiable", "unsatisfiable")
EXP1 = "A+, K*, B+, K, C+"
"""L10 Example 3.1."""
EXP2 = "SEQ(A a, K k, K l, C c)"
"""L10 Example 3.2."""


def plan_of(pattern: str, constraint: str) -> MonitorPlan:
    found = query(f"EVENT {pattern} UNDER CONSTRAINT c FOR TRACE BY id AS {constraint}")
    assert isinstance(found, MonitorPlan)
    return found


def emitted(automata: Automata, trace: list[str]) -> list[str]:
    """The verdict beforehand and after each event; ``broken`` once the constraint is."""
    both, state = automata.encoded, START
    found = [NAMES[both.static]]
    for name in trace:
        state = both.table[state, automata.alphabet.names.index(name)]
        found.append("broken" if both.broken[state] else NAMES[both.verdict[state]])
    return found


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        ("AK", ["open", "open", "satisfiable"]),  # h3
        ("AB", ["open", "open", "unsatisfiable"]),  # h4
        ("AA", ["open", "open", "open"]),  # h5
        ("AKBBKC", ["open", "open"] + ["satisfiable"] * 5),  # h1
        ("ABBKC", ["open", "open"] + ["unsatisfiable"] * 4),  # h2
    ],
)
def test_examples_3_1_to_3_3_and_3_5(trace: str, expected: list[str]) -> None:
    assert emitted(automata_of(plan_of(EXP2, EXP1)), list(trace)) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("SEQ(A a, K k, C c)", "satisfiable"), ("SEQ(A a, K k, D d)", "unsatisfiable")],
)
def test_example_3_4_before_any_event(pattern: str, expected: str) -> None:
    assert emitted(automata_of(plan_of(pattern, EXP1)), []) == [expected]


def test_example_3_6_states_are_merged_within_a_state_of_the_constraint_alone() -> None:
    """Traces p1 and q1 a2 are satisfiable, q1 is not known yet."""
    automata = automata_of(
        plan_of("SEQ(OR(P p, Q q), A a, B b)", "(P, A, B) | (Q*, B) | (R*, A) | (Q, A, B)")
    )
    assert emitted(automata, ["P"])[-1] == "satisfiable"
    assert emitted(automata, ["Q"])[-1] == "open"
    assert emitted(automata, ["Q", "A"])[-1] == "satisfiable"
    both = automata.encoded
    for state, row in enumerate(both.table):
        if not both.broken[state]:
            for symbol, ahead in enumerate(row):
                c = automata.constraint.table[both.constraint_state[state], symbol]
                assert both.constraint_state[ahead] == c


def test_example_3_6_as_printed_allows_no_a_after_q() -> None:
    """Its text says that q1 is not known yet and q1 a2 satisfiable, as if QAB were allowed."""
    automata = automata_of(plan_of("SEQ(OR(P p, Q q), A a, B b)", "(P, A, B) | (Q*, B) | (R*, A)"))
    assert emitted(automata, ["P"])[-1] == "satisfiable"
    assert emitted(automata, ["Q"])[-1] == "unsatisfiable"
    assert emitted(automata, ["Q", "A"])[-1] == "broken"


def test_example_3_8_a_condition_of_one_event() -> None:
    automata = automata_of(plan_of("SEQ(A a, B b, C c) WHERE a.n = 3", "A+, B+, A+, C+"))
    assert automata.alphabet.names == ["A[not 1]", "A[1]", "B", "C"]
    assert emitted(automata, ["A[not 1]", "B"])[-1] == "unsatisfiable"  # h9
    assert emitted(automata, ["A[1]", "B"])[-1] == "satisfiable"  # h10


def test_conditions_that_exclude_each_other_make_no_symbol() -> None:
    automata = automata_of(
        plan_of("SEQ(A a, B b) WHERE a.v > 5", "(A[v > 5] | A[v < 3]), B[v = 1 AND v = 1]")
    )
    assert [name for name in automata.alphabet.names if name.startswith("A")] == [
        "A[not 1, not 2]", "A[not 1, 2]", "A[1, not 2]",
    ]  # fmt: skip


LETTERS = "ABC"


def regulars() -> st.SearchStrategy[str]:
    """Expressions as a constraint has them."""

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        parts = st.lists(inner, min_size=2, max_size=3)
        return (
            parts.map(lambda these: f"({', '.join(these)})")
            | parts.map(lambda these: f"({' | '.join(these)})")
            | st.tuples(inner, inner).map(lambda pair: f"({' & '.join(pair)})")
            | st.builds(
                "({}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])
            )
        )

    return st.recursive(st.sampled_from(LETTERS), grown, max_leaves=5)


@st.composite
def patterns(draw: st.DrawFn) -> Seq:
    parts = draw(
        st.lists(
            st.one_of(
                st.sampled_from(LETTERS + "D").map(lambda letter: (letter,)),
                st.lists(st.sampled_from(LETTERS), min_size=2, max_size=2).map(tuple),
            ),
            min_size=1,
            max_size=3,
        )
    )
    if len(parts) == 1 and len(parts[0]) == 1:
        parts.append(("A",))
    absent = draw(
        st.lists(
            st.sampled_from(["", "", "A", "B", "BC"]),
            min_size=len(parts) - 1,
            max_size=len(parts) - 1,
        )
    )
    return Seq(tuple(parts), tuple(absent))


@pytest.mark.deep
@pytest.mark.timeout(1500)
@settings(max_examples=10_000)
@given(regulars(), patterns(), st.text("ABC", max_size=6))
def test_ten_thousand_pairs_of_constraint_and_pattern(
    expression: str, seq: Seq, trace: str
) -> None:
    check(expression, seq, trace)


@settings(max_examples=40)
@given(regulars(), patterns(), st.text("ABC", max_size=6))
@example("C? & C?", Seq((("A",), ("A",)), ("",)), "CCC")
def test_alerts_are_never_early_and_never_late(expression: str, seq: Seq, trace: str) -> None:
    check(expression, seq, trace)


def check(expression: str, seq: Seq, trace: str) -> None:
    """Against every way to go on, by derivatives; both algorithms; and what is written is read."""
    plan = plan_of(seq.text().removeprefix("EVENT "), expression)
    again = query(to_text(plan))
    assert isinstance(again, MonitorPlan)
    automata = automata_of(plan)
    shown = emitted(automata, [])
    assert emitted(automata_of(again), []) == shown
    basic = basic_of(automata.constraint, automata.encoded)
    rest, begun = flow(expression), FIRST
    letters = "ABC"
    assert shown == [verdict(rest, begun, seq, letters)] == [NAMES[derived(basic, START, 0)]]
    state, both = START, automata.encoded
    for letter in trace:
        if letter not in automata.alphabet.names:
            continue  # neither names it
        symbol = automata.alphabet.names.index(letter)
        state = both.table[state, symbol]
        rest = derivative(rest, letter)
        begun = None if begun is None else read(seq, begun, letter)  # type: ignore[assignment]
        assert both.broken[state] == (rest == NOTHING)
        if rest == NOTHING:
            assert NAMES[both.verdict[state]] == ("satisfiable" if begun is None else "open")
            continue
        expected = verdict(rest, begun, seq, letters)
        assert NAMES[both.verdict[state]] == expected
        assert NAMES[derived(basic, state, both.constraint_state[state])] == expected


def test_the_slow_twin_agrees_with_all_traces_up_to_a_length() -> None:
    """``verdict`` itself, by writing out traces: no derivative, no set of matches."""
    expression = flow("A{1,2}, (B & C?)")
    allowed = {"".join(t) for n in range(6) for t in itertools.product("ABC", repeat=n)
               if "".join(t) in {"AB", "AAB", "ABC", "ACB", "AABC", "AACB"}}  # fmt: skip
    seq = Seq((("A",), ("C",)), ("B",))
    for start in ("", "A", "AA", "AB", "AC"):
        rest, begun = expression, FIRST
        for letter in start:
            rest, begun = derivative(rest, letter), begun and read(seq, begun, letter)
        ends = {"AC" in trace for trace in allowed if trace.startswith(start)}
        names = {frozenset({True}): "satisfiable", frozenset({False}): "unsatisfiable"}
        assert verdict(rest, begun, seq, "ABC") == names.get(frozenset(ends), "open")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY id AS A{3,2}", "is never"),
        ("EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY id AS A{1001}", "at most 1,000"),
        ("EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY id AS A[ts > 3]", "clocks may err"),
        ("EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY id AS A[a.v > 3]", "as they are"),
        ("EVENT SEQ(A a, !B b) WITHIN 5 s UNDER CONSTRAINT c FOR TRACE BY id AS A", "at an end"),
        ("EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY id AS A RETURN a.v", "RETURN"),
        ("EVENT ISEQ[a MEETS b](A a, B b) UNDER CONSTRAINT c FOR TRACE BY id AS A", "intervals"),
        ("EVENT SEQ(A a, B b) UNDER CONSTRAINT c FOR TRACE BY id AS A, ", "ends too early"),
    ],
)  # fmt: skip
def test_bad_input_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        query(text)
    assert "^" in str(refused.value)


def test_an_interleaving_that_is_too_large_is_refused() -> None:
    parts = " & ".join(f"(A{n}{{20}})" for n in range(8))
    with pytest.raises(UserError, match="multiply one another") as refused:
        automata_of(plan_of("SEQ(A0 a, A1 b)", parts))
    assert "query line 1, column 23" in str(refused.value)
    assert "^^^^" in str(refused.value)


def test_a_constraint_that_no_trace_keeps_is_refused() -> None:
    plan = plan_of("SEQ(A a, B b)", "A, B")
    none = RegularGroup(",", (Occurrence("A"), RegularGroup("|", ())))
    with pytest.raises(UserError, match="no trace can keep") as refused:
        automata_of(replace(plan, expression=none))
    assert "^^^^" in str(refused.value)


def test_explain_shows_what_is_known_beforehand_and_the_chart() -> None:
    shown = explain(plan_of(EXP2, EXP1))
    assert "beforehand  open" in shown
    assert "stateDiagram-v2" in shown
    assert ": alert" in shown
    without = explain(plan_of("SEQ(A a, K k, D d)", EXP1))
    assert "no trace that keeps to the constraint has a match" in without
    bounded = explain(plan_of("SEQ(A a, K k) WITHIN 5 s", EXP1))
    assert "No alert" in bounded
