"""Conditions that exclude each other, beside every assignment of values from a dense domain."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.query import explain, query
from slackwater.engine.query.analysis import consistency as contradiction
from slackwater.engine.query.analysis.consistency import Conflict
from tests.query.random_conditions import as_plan
from tests.query.slow_expression import (
    Attribute,
    Comparison,
    Constant,
    Logic,
    Membership,
    Predicate,
    slow,
)

NAMES = "xyz"
# Constants are 0, 1, 2; three values fit strictly between any two of them, below and above.
# None: the event has no such attribute.
DOMAIN = [None, *(quarter / 4 for quarter in range(-3, 12))]
OPS = st.sampled_from(["=", "<", "<=", ">", ">="])
ATTRIBUTES = st.sampled_from([Attribute(name, "a") for name in NAMES])
CONSTANTS = st.builds(Constant, st.integers(0, 2))
WITH_CONSTANTS = (
    st.builds(Comparison, OPS | st.just("!="), ATTRIBUTES, CONSTANTS)
    | st.builds(Comparison, OPS, CONSTANTS, ATTRIBUTES)
    | st.builds(Membership, ATTRIBUTES, st.lists(CONSTANTS, min_size=1, max_size=2).map(tuple))
)
BETWEEN = st.builds(Comparison, OPS, ATTRIBUTES, ATTRIBUTES)


def negated(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    return inner.map(lambda term: Logic("not", (term,)))


EASY = st.lists(WITH_CONSTANTS | negated(WITH_CONSTANTS), min_size=1, max_size=6)
HARD = st.lists(
    BETWEEN
    | WITH_CONSTANTS
    | negated(BETWEEN)
    | st.builds(Comparison, st.just("!="), ATTRIBUTES, ATTRIBUTES)
    | st.lists(BETWEEN | WITH_CONSTANTS, min_size=2, max_size=2).map(
        lambda terms: Logic("or", tuple(terms))
    ),
    min_size=1,
    max_size=6,
)


def find_conflict(true: list[Predicate], untrue: list[Predicate] | None = None) -> Conflict | None:
    return contradiction.find_conflict([*map(as_plan, true)], [*map(as_plan, untrue or [])])


def possible(conditions: list[Predicate]) -> bool:
    for values in itertools.product(DOMAIN, repeat=len(NAMES)):
        row = dict(zip(NAMES, values, strict=True))
        if all(slow(condition, {"a": row}) for condition in conditions):
            return True
    return False


@settings(max_examples=40, deadline=None)
@given(EASY)
def test_finds_every_contradiction_of_comparisons_with_constants(
    conditions: list[Predicate],
) -> None:
    assert (find_conflict(conditions) is None) == possible(conditions)


@settings(max_examples=40, deadline=None)
@given(HARD)
def test_what_is_found_is_certain_and_names_what_is_needed(conditions: list[Predicate]) -> None:
    found = find_conflict(conditions)
    if found is None:
        return
    core = [conditions[place] for place in (*found.others, found.place)]
    assert not possible(core)
    assert find_conflict(conditions[: found.place]) is None
    for left_out in range(len(core)):
        assert find_conflict(core[:left_out] + core[left_out + 1 :]) is None


@settings(max_examples=20, deadline=None)
@given(EASY, EASY)
def test_what_shall_be_untrue_may_be_unknown(
    true: list[Predicate], untrue: list[Predicate]
) -> None:
    if find_conflict(true, untrue) is None:
        return
    rows = [dict(zip(NAMES, v, strict=True)) for v in itertools.product(DOMAIN, repeat=len(NAMES))]
    for row in rows:
        every = all(slow(each, {"a": row}) for each in true)
        assert not every or any(slow(each, {"a": row}) for each in untrue)


def test_neither_a_condition_nor_not_of_it_is_true_of_null() -> None:
    one = Comparison("=", Attribute("x", "a"), Constant(1))
    assert find_conflict([Logic("not", (one,)), one]) is not None
    assert find_conflict([], [one, Logic("not", (one,))]) is None  # where a has no x
    with pytest.raises(UserError, match="can never be true"):
        query("EVENT SEQ(A a) WHERE NOT a.x = 1 AND NOT a.x != 1")


@pytest.mark.parametrize("condition", ["NOT (a.x NOT BETWEEN 2 AND 0)", "NOT (a.x < 2 OR a.x > 0)"])
def test_a_condition_that_excludes_itself_is_refused_by_a_word(condition: str) -> None:
    with pytest.raises(UserError, match="no value can do this"):
        query(f"EVENT SEQ(A a) WHERE {condition}")


def test_the_core_of_many() -> None:
    x = Attribute("x")
    conditions: list[Predicate] = [Comparison("!=", x, Constant(each)) for each in range(200)]
    conditions += [Comparison(">=", x, Constant(7)), Comparison("<=", Attribute("y"), Constant(1))]
    assert find_conflict(conditions) is None
    assert find_conflict([*conditions, Comparison("<=", x, Constant(7))]) == Conflict(
        202, (7, 200), None
    )


def test_times_of_two_steps_are_compared_by_their_distance() -> None:
    for text in (
        "EVENT SEQ(A a, B b) WHERE b.ts < a.ts",
        "EVENT SEQ(A a, B b) WHERE a.ref >= b.ts",
        "EVENT SEQ(A a, B b) WHERE a.ts - b.ts > -3 AND b.ref - a.ts > 4",
        "EVENT AND(A a, B b) WHERE a.ts > b.ts AND b.ts - a.ts >= 0",
        "EVENT AND(A a, B b) WHERE b.ts - a.ts > 6 WITHIN 5",
    ):
        with pytest.raises(UserError, match="can never be true"):
            query(text)


def test_a_query_may_still_say_what_only_looks_odd() -> None:
    for text in (
        "EVENT SEQ(A a, B b) WHERE a.x > 5 AND a.x < 6",
        "EVENT SEQ(A a, B b) WHERE a.x <= b.x AND b.x <= a.x",
        "EVENT AND(A a, B b) WHERE a.ts > b.ts",
        "EVENT SEQ(A a, B b) WHERE b.ts - a.ts <= 5 AND b.ts - a.ts >= 5 WITHIN 5",
        "EVENT SEQ(A a, !N n, !M m, B b) WHERE n.x > 3 AND m.x < 3 AND n.x = a.x AND m.x = b.x",
        "EVENT SEQ(A a, !N n, B b) WHERE n.x = a.x AND n.x = b.x AND a.x < b.y",
        "EVENT SEQ(A a, OR(B b, C c)) WHERE a.x = b.x AND b.x = 1 AND a.x = c.x AND c.x = 2",
        "EVENT SEQ(A a) WHERE NOT a.x < 3 OR NOT a.x > 1",
    ):
        query(text)


@pytest.mark.parametrize(
    "asked",
    ["n.id = 1 AND n.id = 2", "n.ts > b.ts"],
)
def test_a_negated_step_that_no_event_can_be_is_no_error(asked: str) -> None:
    """It stands against no match; EXPLAIN says so."""
    plan = query(f"EVENT SEQ(A a, !N n, B b) WHERE {asked}")
    assert "!n: no such N" in explain(plan)
    assert "none ever counts: what is asked of it excludes itself" in explain(plan)
    assert "none ever counts" not in explain(query("EVENT SEQ(A a, !N n, B b) WHERE n.id = 1"))
    with pytest.raises(UserError, match="compared with text here and with a number elsewhere"):
        query("EVENT SEQ(A a, !N n, B b) WHERE n.id = 1 AND n.id = 'x'")
    with pytest.raises(UserError, match="can never be true"):
        query(f"EVENT SEQ(A a, !N n, B b) WHERE {asked} AND a.x = 1 AND a.x = 2")
