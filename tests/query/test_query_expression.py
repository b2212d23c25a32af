"""Conditions on columns against a row-by-row evaluator, and the rules one by one."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.errors import ContractViolation
from engine.query import query
from engine.query.expression import View, join_mask, join_value, mask, released_mask
from engine.query.plan import Predicate as Planned
from engine.query.plan import SeqPlan, WindowPlan
from engine.stream.released import Released, Strings
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
    Arithmetic,
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


@settings(max_examples=300, deadline=None)
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


def rows_where(condition: str, rows: list[Row]) -> list[bool]:
    view = view_of(rows, Strings())
    return mask(
        where(condition), view.columns, view.valid_of, view.attr_types, view.strings
    ).tolist()


def test_a_comparison_with_null_is_unknown_and_so_is_not_of_it() -> None:
    rows: list[Row] = [{"i": 1}, {"i": None}, {"i": 3}]
    assert rows_where("i > 2", rows) == [False, False, True]
    assert rows_where("NOT i > 2", rows) == [True, False, False]
    assert rows_where("i <= 2", rows) == [True, False, False]
    assert rows_where("i > 2 OR j = 1", rows) == [False, False, True]
    assert rows_where("NOT (i > 2 AND j = 1)", rows) == [True, False, False]
    assert rows_where("absent = 1 OR NOT absent = 1", rows) == [False, False, False]
    assert rows_where("NOT s IN ('a')", [{"s": "a"}, {}, {"s": "b"}]) == [False, False, True]
    assert rows_where("s != 'a'", [{"s": "a"}, {"s": "b"}, {}]) == [False, True, False]


def test_nan_is_null() -> None:
    rows: list[Row] = [{"f": nan}, {"f": 1.0}]
    assert rows_where("f != 2", rows) == [False, True]
    assert rows_where("NOT f = 2", rows) == [False, True]
    assert rows_where("NOT f IN (2, 3)", rows) == [False, True]


def test_integers_beyond_2_to_the_53_are_exact() -> None:
    rows: list[Row] = [{"i": 2**53, "j": 2**53 + 1, "f": 2.0**53}]
    assert rows_where("i = j", rows) == [False]
    assert rows_where("j > 9007199254740992", rows) == [True]
    assert rows_where("j > f AND i = f", rows) == [True]
    assert rows_where("i + 1 = j", rows) == [True]


def test_division_by_zero_and_overflow_are_null() -> None:
    rows: list[Row] = [{"i": 6, "j": 0}, {"i": 6, "j": 4}, {"i": 2**62, "j": 2}]
    assert rows_where("i / j = 1.5", rows) == [False, True, False]
    assert rows_where("NOT i / j = 1.5", rows) == [False, False, True]
    assert rows_where("i * j > 0 OR i * j <= 0", rows) == [True, True, False]


def test_text_by_code_and_by_order() -> None:
    rows: list[Row] = [{"s": "10"}, {"s": "9"}, {"s": "a", "t": "b"}]
    assert rows_where("s < '9'", rows) == [True, False, False]
    assert rows_where("s < t", rows) == [False, False, True]
    assert rows_where("s IN ('a', 'nowhere', '10')", rows) == [True, False, True]
    assert rows_where("s = 'nowhere'", rows) == [False, False, False]
    assert rows_where("s >= 'nowhere'", rows) == [False, False, False]
    assert rows_where("s != i", [{"s": "a", "i": 1}]) == [False]


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


def test_values_of_an_expression() -> None:
    batch = released()
    view = View.of(batch.columns, batch.attr_types, batch.strings)
    difference = Arithmetic("-", Attribute("arrival", "a"), Attribute("ts", "a"))
    value = join_value(as_plan(difference), {"a": view})
    assert value.kind == "int"
    assert value.data.tolist() == [1000, 901]


def test_join_mask_names_its_views() -> None:
    plan = query("EVENT SEQ(A a, B b) WHERE b.ts - a.ts < 50 WITHIN 1 s")
    assert isinstance(plan, SeqPlan)
    batch = released()
    view = View.of(batch.columns, batch.attr_types, batch.strings)
    swapped = {name: column[::-1] for name, column in batch.columns.items()}
    other = View.of(swapped, batch.attr_types, batch.strings)
    assert join_mask(plan.others[0], {"a": view, "b": other}).tolist() == [False, True]
    with pytest.raises(ContractViolation, match="alias 'b'"):
        join_mask(plan.others[0], {"a": view})


def test_empty_batches() -> None:
    view = view_of([], Strings(["a"]))
    for condition in ("i > 0.5", "s < t", "s IN ('a')", "i * j > 3", "f != 1 AND b = true"):
        found = mask(where(condition), view.columns, view.valid_of, TYPES, view.strings)
        assert found.shape == (0,)
