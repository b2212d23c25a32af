"""EXPLAIN, whole texts: explanations.txt holds query [| barrier] => what it says of its plan.

The texts were read and approved by a person; change them only on purpose.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import UserError
from slackwater.engine.operators.match import seq
from slackwater.engine.operators.window.time_windows import WindowSettings
from slackwater.engine.query import explain, query
from slackwater.engine.query.analysis.analyse import read_query
from slackwater.engine.query.explain import WIDTH
from slackwater.engine.query.plan import SeqPlan, Step
from tests.pattern.random_patterns import plans

GOLDEN = Path(__file__).with_name("explanations.txt").read_text("utf-8")
CASES = [tuple(entry.split("\n=>\n")) for entry in GOLDEN.split("----\n")]


@pytest.mark.parametrize(("asked", "reported"), CASES, ids=[asked[:60] for asked, _ in CASES])
def test_what_it_says(asked: str, reported: str) -> None:
    text, _, barrier = asked.partition(" | ")
    plan, explained = read_query(f"EXPLAIN {text}")
    assert explained
    given_barrier = parse_barrier(barrier) if barrier else None
    assert explain(plan, given_barrier) == explain(query(text), given_barrier) == reported
    assert max(map(len, reported.splitlines())) <= WIDTH


def test_the_times_that_are_reported_are_those_in_force() -> None:
    purge = explain(query("EVENT SEQ(A a, B b) WITHIN 5 s")).split("purge")[1]
    assert "keep-late (WITHIN, but 1 min at least)" in " ".join(purge.split())
    assert seq._DEFAULT_KEEP_LATE_NS == 60 * 10**9
    assert "60 s or one window size, whichever is longer" in str(WindowSettings.__doc__)


def test_a_plan_from_python() -> None:
    plan = SeqPlan("mine", "", (Step("a", "A"), Step("b", "B")), within_ns=5)
    assert explain(plan) == explain(query("EVENT SEQ(A a, B b) WITHIN 5", name="mine"))


def test_explain_is_no_query_to_answer() -> None:
    with pytest.raises(UserError) as error:
        query("\n explain EVENT SEQ(A a)")
    assert str(error.value) == (
        "query line 2, column 2: EXPLAIN asks for the plan of a query, which has no answer\n"
        "   explain EVENT SEQ(A a)\n"
        "   ^^^^^^^\n"
        "  slackwater query prints the plan, and so does slackwater.engine.query.explain(plan)"
    )
    with pytest.raises(UserError, match="column 9: 'EXPLAIN' is not understood here"):
        query("EXPLAIN EXPLAIN EVENT SEQ(A a)")


def test_explain_may_name_a_step() -> None:
    plan = query("EVENT SEQ(EXPLAIN explain) WHERE explain.explain = 1")
    assert isinstance(plan, SeqPlan)
    assert plan.steps[0].alias == "explain"


@settings(max_examples=30, deadline=None)
@given(text=plans())
def test_every_query_can_be_explained(text: str) -> None:
    reported = explain(query(text))
    assert max(map(len, reported.splitlines())) <= WIDTH
    assert reported.startswith("q1\nquery       EVENT ")
