"""Conditions on columns against a row-by-row evaluator, and the rules one by one."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import Released, Strings
from slackwater.engine.query import query
from slackwater.engine.query.expression import View, join_mask, mask, released_mask
from slackwater.engine.query.plan import Predicate as Planned
from slackwater.engine.query.plan import WindowPlan
from tests.query.random_conditions import (
    INTS,
    REALS,
    ROW,
    TEXTS,
    Row,
    as_plan,
    asked,
    columns_of,
    combined,
    computed,
    texts,
)
from tests.query.slow_expression import (
    COMPARE,
    TYPES,
    Attribute,
    Comparison,
    Constant,
    FunctionCall,
    Membership,
    Predicate,
    slow,
)


# ---- columns from rows ------------------------------------------------------------------------
def view_of(rows: list[Row], strings: Strings) -> View:
    return View.of(columns_of(rows, strings), TYPES, strings)


ROWS = st.lists(ROW, min_size=1, max_size=6)
ALIASES = ["p", "q"]
A_TEXT = Attribute("s", "p")
ATTRIBUTES = st.builds(Attribute, st.sampled_from([*TYPES, "absent"]), st.sampled_from(ALIASES))
CONSTANTS = st.builds(
    Constant,
    INTS | REALS.filter(lambda x: not isnan(x)) | st.booleans() | st.sampled_from([*TEXTS, "new"]),
)
OF_TEXT = ATTRIBUTES | texts(ATTRIBUTES)
EXPRESSIONS = computed(OF_TEXT | CONSTANTS, 4)
LEAVES = st.builds(Comparison, st.sampled_from(list(COMPARE)), EXPRESSIONS, EXPRESSIONS) | (
    st.builds(Membership, EXPRESSIONS, st.lists(CONSTANTS, min_size=1, max_size=3).map(tuple))
)
PREDICATES = combined(LEAVES | asked(EXPRESSIONS, OF_TEXT), 5)


@settings(max_examples=150, deadline=None)
@given(PREDICATES, ROWS, ROWS)
def test_random_conditions_against_the_slow_twin(
    predicate: Predicate, left: list[Row], right: list[Row]
) -> None:
    rows = min(len(left), len(right))
    left, right = left[:rows], right[:rows]
    strings = Strings(["b"])
    views = {"p": view_of(left, strings), "q": view_of(right, strings)}
    want = [slow(predicate, {"p": one, "q": other}) for one, other in zip(left, right, strict=True)]
    found = np.broadcast_to(join_mask(as_plan(predicate), views), (rows,))
    assert found.dtype == np.bool_
    assert found.tolist() == want


@settings(max_examples=50, deadline=None)
@given(PREDICATES, ROWS, ROWS)
@example(
    Comparison("<", A_TEXT, FunctionCall("coalesce", (A_TEXT, Attribute("i", "p")))),
    [dict.fromkeys(TYPES)],
    [dict.fromkeys(TYPES)],
)
def test_views_broadcast_to_all_combinations(
    predicate: Predicate, left: list[Row], right: list[Row]
) -> None:
    strings = Strings()
    one, other = view_of(left, strings), view_of(right, strings)
    tall = View.of({k: v[:, None] for k, v in one.columns.items()}, TYPES, strings)
    wide = View.of({k: v[None, :] for k, v in other.columns.items()}, TYPES, strings)
    found = join_mask(as_plan(predicate), {"p": tall, "q": wide})
    shape = (len(left), len(right))
    want = [[slow(predicate, {"p": a, "q": b}) for b in right] for a in left]
    assert np.broadcast_to(found, shape).tolist() == want


# ---- the rules, one by one --------------------------------------------------------------------
def where(condition: str, time_unit: str = "ns") -> Planned:
    plan = query(f"SELECT count(*) WHERE {condition} WINDOW TUMBLING 1 s", time_unit)
    assert isinstance(plan, WindowPlan)
    assert plan.where is not None
    return plan.where


def released() -> Released:
    """Two events; the second's clock is 100 ns slow."""
    strings = Strings(["ball", "shoe", "soccer", "KICK"])
    columns = {
        "source": np.array([0, 1], np.int32),
        "stream": np.array([2, 2], np.int32),
        "type": np.array([3, -1], np.int32),
        "seq": np.array([0, -1]),
        "ts": np.array([1000, 1000]),
        "te": np.array([1000, 1010]),
        "ref": np.array([1000, 1100]),
        "arrival": np.array([2000, 2001]),
        "release": np.array([2001, 2001]),
        "attrs.ts": np.array([7, 8]),
    }
    return Released(2, columns, {"ts": "int"}, strings, 0)


@pytest.mark.parametrize(
    ("condition", "want"),
    [
        ("ts = 1000", [True, False]),  # SPEC 4.1: event time is ref
        ("ref = 1100", [False, True]),
        ("raw_ts = 1000", [True, True]),
        ("te = 1110", [False, True]),
        ("raw_te = 1010", [False, True]),
        ("te - ts = 10", [False, True]),
        ("arrival < 2001", [True, False]),
        ("release = arrival", [False, True]),
        ("attrs.ts = 8", [False, True]),
        ("source = 'ball'", [True, False]),
        ("source > 'ball'", [False, True]),
        ("stream IN ('soccer')", [True, True]),
        ("type = 'KICK' OR type != 'KICK'", [True, False]),
        ("seq >= 0 OR seq < 0", [True, False]),
    ],
)
def test_record_fields(condition: str, want: list[bool]) -> None:
    assert released_mask(where(condition), released()).tolist() == want


def test_times_in_the_unit_of_the_trace() -> None:
    assert where("ts - te < 5", "ms") == where("ts - te < 5 ms")
    assert where("ts < 1.5", "us") == where("ts < 1500 ns")
    assert where("ts IN (1, 2)", "us") == where("ts IN (1000, 2000)")
    assert where("ts < 2 * 3", "us") == where("ts < 2000 * 3")
    assert where("ts - 5 > arrival + 1", "us") == where("ts - 5000 > arrival + 1000")
    assert where("v < 5 AND seq = 3", "ms") == where("v < 5 AND seq = 3")
    assert where("(te - ts) / (arrival - ts) < 2", "s") == where("(te - ts) / (arrival - ts) < 2")


def test_a_condition_without_attributes_covers_all_rows() -> None:
    always = as_plan(Comparison("=", Constant("x"), Constant("x")))
    assert released_mask(always, released()).tolist() == [True, True]
    empty = as_plan(Comparison("=", Attribute("absent"), Constant(1)))
    found = mask(empty, released().columns, lambda _name: None, {}, Strings())
    assert found.tolist() == [False, False]
    assert found.flags.writeable


def test_empty_batches() -> None:
    view = view_of([], Strings(["a"]))
    for condition in ("i > 0.5", "s < t", "s IN ('a')", "i * j > 3", "f != 1 AND b = true"):
        found = mask(where(condition), view.columns, view.valid_of, TYPES, view.strings)
        assert found.shape == (0,)
