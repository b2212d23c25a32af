"""What a pattern asks across steps: of every pair of events what the twin of conditions says."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import Strings
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.query.plan import SeqPlan, Step
from tests.pattern.conftest import Event, batch
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
    sums,
    texts,
)
from tests.query.slow_expression import (
    COMPARE,
    TYPES,
    Arithmetic,
    Attribute,
    Comparison,
    Constant,
    Logic,
    Membership,
    Predicate,
    slow,
)

FIELDS = ["ts", "te", "seq", "type"]


def matched(
    predicate: Predicate, left: Sequence[Row], right: Sequence[Row], texts_known: Sequence[str] = ()
) -> set[tuple[int, int]]:
    """Which of the first events, all A, and of the later ones, all B, the engine matches."""
    steps = (Step("p", "A"), Step("q", "B"))
    operator = Alone(SeqMatcher(SeqPlan("q", "", steps, others=(as_plan(predicate),))))
    strings, found = Strings(list(texts_known)), list[Any]()
    kinds = "A" * len(left) + "B" * len(right)
    events = [Event(kind, ref) for ref, kind in enumerate(kinds)]
    borders = (0, len(left)), (len(left), len(kinds))
    for (start, stop), rows in zip(borders, (left, right), strict=True):
        released = batch(events, strings, start, stop)
        released.columns.update(columns_of(rows, strings))
        released.attr_types.update(TYPES)
        found += operator.process(released)
    found += operator.finish(10**9)
    return {(r["events"][0]["seq"], r["events"][1]["seq"] - len(left)) for r in found}


def by_twin(
    predicate: Predicate, left: Sequence[Row], right: Sequence[Row]
) -> set[tuple[int, int]]:
    def full(row: Row, n: int, kind: str) -> Row:
        return {**row, "ts": n, "te": n, "seq": n, "type": kind}

    return {
        (a, b)
        for a, one in enumerate(left)
        for b, other in enumerate(right)
        if slow(
            predicate, {"p": full(one, a, "A"), "q": full(other, b + len(left), "B")}
        )
    }  # fmt: skip


OPS = sorted(COMPARE)
ATTRIBUTES = st.builds(
    Attribute, st.sampled_from([*TYPES, *TYPES, *FIELDS, "absent"]), st.sampled_from("pq")
)
CONSTANTS = st.builds(
    Constant,
    INTS | REALS.filter(lambda x: x == x) | st.booleans() | st.sampled_from([*TEXTS, "new", "aa"]),
)
NUMBERS = st.builds(Constant, INTS | REALS.filter(lambda x: x == x) | st.booleans())
# No function takes a time that clocks may err in.
OF_NUMBERS = st.builds(
    Attribute, st.sampled_from([*"ijfgb", "seq", "absent"]), st.sampled_from("pq")
)
OF_TEXT = st.builds(Attribute, st.sampled_from([*TYPES, "type", "absent"]), st.sampled_from("pq"))
OF_ONE = OF_TEXT | texts(OF_TEXT)
EXPRESSIONS = (
    computed(OF_NUMBERS | NUMBERS, 5) | sums(ATTRIBUTES | CONSTANTS, 5) | OF_ONE | CONSTANTS
)
LEAVES = (
    st.builds(Comparison, st.sampled_from(OPS), ATTRIBUTES, ATTRIBUTES | CONSTANTS)
    | st.builds(Comparison, st.sampled_from(OPS), EXPRESSIONS, EXPRESSIONS)
    | st.builds(Membership, EXPRESSIONS, st.lists(CONSTANTS, min_size=1, max_size=3).map(tuple))
    | st.builds(Membership, ATTRIBUTES, st.lists(CONSTANTS, min_size=1, max_size=4).map(tuple))
)
PREDICATES = combined(LEAVES | asked(computed(OF_NUMBERS, 3) | OF_ONE, OF_ONE), 6)
ROWS = st.lists(ROW, min_size=1, max_size=4)


@example(Membership(Constant("x"), (Constant("x"), Constant("y"))), [{}], [{}], False)
@settings(max_examples=150, deadline=None)
@given(PREDICATES, ROWS, ROWS, st.booleans())
def test_random_predicates(
    predicate: Predicate, left: list[Row], right: list[Row], seen: bool
) -> None:
    """``seen``: some texts were there before; others appear between the two."""
    found = matched(predicate, left, right, ["b", "new"] if seen else [])
    assert found == by_twin(predicate, left, right)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("negated", [False, True])
def test_every_pair_of_extreme_values(op: str, negated: bool) -> None:
    ints = [0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63 - 2, -(2**63)]
    reals = [0.0, -0.0, 0.5, -0.5, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), inf, -inf, nan,
             float(np.nextafter(2.0**63, 0)), float(np.nextafter(-(2.0**63), -inf))]  # fmt: skip
    rows: list[Row] = [{"i": i, "s": "a"} for i in ints] + [{"f": f} for f in reals]
    for a in "ifs":
        for b in "ifs":
            leaf: Predicate = Comparison(op, Attribute(a, "p"), Attribute(b, "q"))
            predicate = Logic("not", (leaf,)) if negated else leaf
            assert matched(predicate, rows, rows) == by_twin(predicate, rows, rows), (a, b)


@pytest.mark.parametrize("op", ["+", "-", "*"])
def test_where_int64_ends(op: str) -> None:
    """A value that does not fit is null, which is equal to nothing."""
    edge = [0, 1, -1, 2, -2, 3, 2**31, 2**32, -(2**32), 3037000500, -3037000500, 2**62, -(2**62),
            2**63 - 1, -(2**63), -(2**63) + 1]  # fmt: skip
    total = Arithmetic(op, Attribute("i", "p"), Attribute("i", "q"))
    rows: list[Row] = [{"i": value} for value in edge]
    exact = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[op]
    fits = {
        (a, b)
        for a, one in enumerate(edge)
        for b, other in enumerate(edge)
        if -(2**63) <= exact(one, other) < 2**63
    }
    assert matched(Comparison("=", total, total), rows, rows) == fits
