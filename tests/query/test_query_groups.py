"""AND and OR: the plan that a text makes, and the order that a plan asks for."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.query import needed_attributes, query, shape, to_text
from slackwater.engine.query.fields import named_attributes
from slackwater.engine.query.plan import (
    Group,
    OrPlan,
    Part,
    SeqPlan,
    Step,
)
from slackwater.engine.query.schema import check_attributes
from slackwater.engine.query.shape import shape_of


def seq(text: str) -> SeqPlan:
    plan = query(text)
    assert isinstance(plan, SeqPlan)
    return plan


def either(text: str) -> OrPlan:
    plan = query(text)
    assert isinstance(plan, OrPlan)
    return plan


def names(plan: SeqPlan) -> str:
    return " ".join(f"{'!' if step.negated else ''}{step.alias}" for step in plan.steps)


GROUPS: dict[str, Group | None] = {
    "SEQ(A a, SEQ(B b, !N n), C c)": None,
    "AND(A a)": None,
    "SEQ(A a, OR(B b), AND(C c))": None,
    "AND(A a, B b)": Group("AND", (0, 1)),
    "AND(A a, AND(B b, C c))": Group("AND", (0, 1, 2)),
    "SEQ(A a, AND(B b, C c), !N n, D d)": Group("SEQ", (0, Group("AND", (1, 2)), 3, 4)),
    "SEQ(SEQ(A a, AND(B b, SEQ(C c, SEQ(D d)))), E e)": Group(
        "SEQ", (0, Group("AND", (1, Group("SEQ", (2, 3)))), 4)
    ),
    "AND(SEQ(A a, !N n, B b), C c)": Group("AND", (Group("SEQ", (0, 1, 2)), 3)),
    "SEQ(AND(A a, AND(SEQ(B b), C c)))": Group("AND", (0, 1, 2)),
}


@pytest.mark.parametrize("text", GROUPS)
def test_groups(text: str) -> None:
    plan = seq(f"EVENT {text} WITHIN 5 s")
    assert plan.pattern == GROUPS[text]
    assert [step.alias for step in plan.steps] == sorted(step.alias for step in plan.steps) or (
        "n" in text
    )


BRANCHES = {
    "OR(A a, B b)": ["a", "b"],
    "SEQ(A a, OR(B b, C c), D d)": ["a b d", "a c d"],
    "SEQ(OR(A a, B b), OR(C c, D d))": ["a c", "a d", "b c", "b d"],
    "OR(A a, OR(B b, SEQ(C c, D d)))": ["a", "b", "c d"],
    "SEQ(A a, OR(SEQ(B b, !N n), C c), D d)": ["a b !n d", "a c d"],
    "SEQ(A a, OR(B b, C c), !OR(M m, N n), D d)": ["a b !m !n d", "a c !m !n d"],
    "AND(A a, OR(AND(B b, C c), SEQ(D d, E e)))": ["a b c", "a d e"],
}


@pytest.mark.parametrize("text", BRANCHES)
def test_branches(text: str) -> None:
    plan = either(f"EVENT {text} WITHIN 5 s")
    assert [names(branch) for branch in plan.branches] == BRANCHES[text]
    for branch in plan.branches:
        assert (branch.name, branch.text, branch.within_ns) == ("q1", plan.text, 5 * 10**9)
    assert to_text(plan) == plan.text.replace("!OR(M m, N n)", "!M m, !N n").replace(
        "OR(A a, OR(B b, SEQ(C c, D d)))", "OR(A a, B b, SEQ(C c, D d))"
    )


def test_what_an_or_needs_of_the_events() -> None:
    assert needed_attributes(query("EVENT SEQ(A a, OR(B b, C c)) WHERE b.x = 1")) is None
    plan = either("EVENT SEQ(A a, OR(B b, C c)) WHERE b.x = 1 AND c.y = a.z RETURN a.ts, c.w - a.v")
    assert needed_attributes(plan) == named_attributes(plan) == {"x", "y", "z", "w", "v"}
    check_attributes(plan, dict.fromkeys("xyzwv", "int"))
    with pytest.raises(UserError, match="'w' is text, and"):
        check_attributes(plan, {**dict.fromkeys("xyzv", "int"), "w": "str"})
    with pytest.raises(UserError, match="no event has an attribute 'v'"):
        check_attributes(plan, dict.fromkeys("xyzw", "int"))


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (Group("SEQ", (0, 1)), "name each of its steps once"),
        (Group("SEQ", (0, 1, 2, 2)), "name each of its steps once"),
        (Group("AND", (0, 1, 2)), "which time !n covers"),
        (Group("AND", (0, Group("SEQ", (1, 2)))), "which time !n covers"),
        (Group("SEQ", (0, Group("SEQ", (1, 2)))), "SEQ is inside SEQ; make it one"),
        (Group("SEQ", (Group("OR", (0, 2)), 1)), "groups are SEQ or AND, not 'OR'"),
    ],
)
def test_a_pattern_from_python_that_says_too_little(group: Group, message: str) -> None:
    steps = (Step("a", "A"), Step("n", "N", negated=True), Step("b", "B"))
    with pytest.raises(UserError, match=message):
        shape_of(SeqPlan("q", "", steps, within_ns=5, pattern=group))


@st.composite
def trees(draw: st.DrawFn, places: list[int], op: str) -> Part:
    """A random pattern over ``places``, in their order."""
    if len(places) == 1:
        return places[0]
    cuts = draw(st.sets(st.integers(1, len(places) - 1), min_size=1))
    borders = [0, *sorted(cuts), len(places)]
    other = "AND" if op == "SEQ" else "SEQ"
    return Group(op, tuple(draw(trees(places[x:y], other)) for x, y in itertools.pairwise(borders)))


def agrees(part: Part, times: list[int]) -> bool:
    """Whether the order of ``times`` is one that ``part`` allows, by definition."""
    if isinstance(part, int):
        return True
    spans = [[times[place] for place in shape.leaves(inner)] for inner in part.parts]
    ordered = part.op == "AND" or all(max(x) < min(y) for x, y in itertools.pairwise(spans))
    return ordered and all(agrees(inner, times) for inner in part.parts)


@given(data=st.data(), size=st.integers(2, 5), op=st.sampled_from(["SEQ", "AND"]))
@settings(max_examples=25, deadline=None)
def test_before_firsts_lasts_and_within_say_what_the_groups_say(
    data: st.DataObject, size: int, op: str
) -> None:
    tree = data.draw(trees(list(range(size)), op))
    assert isinstance(tree, Group)
    steps = tuple(Step(f"e{place}", "E") for place in range(size))
    found = shape_of(SeqPlan("q", "", steps, within_ns=3, pattern=tree))
    for times in itertools.product(range(size + 1), repeat=size):
        good = agrees(tree, list(times))
        assert all(times[x] < times[y] for x, y in found.before) == good
        if good:
            assert min(times) == min(times[x] for x in found.firsts)
            assert max(times) == max(times[y] for y in found.lasts)
            near = all(times[y] - times[x] <= 3 for x, y in found.within)
            assert near == (max(times) - min(times) <= 3)
