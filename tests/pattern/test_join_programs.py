"""Join predicates as programs: the same answers as on columns, one combination at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ContractViolation
from engine.kernels.jit import kernel
from engine.pattern.compiled.derived import Read, reads
from engine.pattern.compiled.program import compile_programs, uses_text_order
from engine.pattern.compiled.program_texts import awaits_text, text_constants, text_ranks
from engine.pattern.compiled.records import EVENT
from engine.pattern.search.clocked_machine import Errors
from engine.pattern.search.program_machine import ABSENT, FLOAT, INT, TEXT, Programs, holds
from engine.query import query
from engine.query.expression import View, join_mask, view_value
from engine.query.plan import SeqPlan
from engine.query.values import present
from engine.stream.released import Strings
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
    TYPES,
    Arithmetic,
    Attribute,
    Comparison,
    Constant,
    Logic,
    Membership,
    Predicate,
)

FIELDS = ["ts", "te", "seq", "type"]
KINDS = {"int": INT, "bool": INT, "float": FLOAT, "str": TEXT}
PLACE = {"p": 2, "q": 0}
"""Steps of the aliases; step 1 is one that no predicate names."""


# ---- both sides of the comparison -------------------------------------------------------------
def view_of(rows: Sequence[Row], strings: Strings) -> View:
    columns = columns_of(rows, strings)
    number = np.arange(len(rows), dtype=np.int64)
    columns |= {"ts": number, "te": number + 3, "ref": 7 * number + 2, "seq": number % 3 - 1}
    columns["type"] = np.array([strings.code(f"T{row % 2}") for row in number], np.int32)
    return View.of(columns, TYPES, strings)


def registers(view: View) -> tuple[dict[str, int], np.ndarray, np.ndarray, np.ndarray]:
    """(register, kind, raw, ok) as a matcher keeps them; the events of both sides in one store."""
    columns, masks = view.columns, []
    fields = {
        "ts": columns["ref"],
        "te": columns["te"] + columns["ref"] - columns["ts"],
        "seq": columns["seq"],
        "type": columns["type"].astype(np.int64),
    }
    raw, kinds = [fields[name] for name in FIELDS], [INT, INT, INT, TEXT]
    masks = [np.ones(len(fields["ts"]), bool) for _ in FIELDS]
    masks[2] = fields["seq"] >= 0
    for name, kind in TYPES.items():
        values = columns["attrs." + name]
        raw.append(values.view(np.int64) if kind == "float" else values.astype(np.int64))
        kinds.append(KINDS[kind])
        valid = columns.get("valid." + name, np.ones(len(values), bool))
        masks.append(values >= 0 if kind == "str" else valid)
    raw.append(np.full_like(raw[0], 5))
    masks.append(np.ones(len(raw[0]), bool))
    names = [*FIELDS, *TYPES, "absent"]
    kind_of = np.array([*kinds, ABSENT], np.int8)
    return (
        {name: place for place, name in enumerate(names)},
        kind_of,
        np.array(raw),
        np.array(masks),
    )


def with_functions(
    predicates: Sequence[Predicate], view: View, names: dict[str, int], kind: np.ndarray,
    raw: np.ndarray, ok: np.ndarray,
) -> tuple[dict[Read, int], np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """And a register for each value that functions make of one event."""
    register: dict[Read, int] = dict(names)
    kinds, raws, masks = [kind], [raw], [ok]
    for read in dict.fromkeys(each for p in predicates for each in reads(p)):
        if isinstance(read, str):
            continue
        register[read] = len(register)
        value, n = view_value(read, view), raw.shape[1]
        there = np.broadcast_to(present(value), (n,))
        data = np.zeros((), np.int64) if value.kind == "null" else np.asarray(value.data)
        data = data.view(np.int64) if value.kind == "float" else data.astype(np.int64)
        raws.append(np.broadcast_to(data, (1, n)))
        masks.append(there[None, :])
        of = {"int": INT, "float": FLOAT, "str": TEXT, "null": ABSENT}[value.kind]
        kinds.append(np.array([of], np.int8))
    return register, np.concatenate(kinds), np.concatenate(raws), np.concatenate(masks)


@kernel
def _each(
    programs: Programs, ranks: np.ndarray, which: int, rows: np.ndarray, raw: np.ndarray,
    ok: np.ndarray, errors: Errors, found: np.ndarray,
) -> None:  # fmt: skip
    for combination in range(len(rows)):
        mine = rows[combination]
        found[combination] = holds(programs, ranks, 2 * which, mine, raw, ok, errors)
        # Where no clock errs, what is possible is certain.
        sure = holds(programs, ranks, 2 * which + 1, mine, raw, ok, errors)
        if sure != found[combination]:
            raise ValueError


def no_errors(events: int) -> Errors:
    return Errors(np.zeros(events, EVENT), -1, np.empty(0, np.float64))


def by_program(
    predicates: Sequence[Predicate], left: Sequence[Row], right: Sequence[Row], strings: Strings
) -> list[list[bool]]:
    """By predicate: what its program says of combination i, events ``left[i]`` and ``right[i]``."""
    view = view_of([*left, *right], strings)
    predicates = as_plan(tuple(predicates))
    register, kind, raw, ok = with_functions(predicates, view, *registers(view))
    programs = compile_programs(predicates, PLACE, register, kind, strings)
    ranks = np.empty(0, np.int64)
    if uses_text_order(programs):
        ranks = text_ranks(strings, text_constants(predicates))
    rows = np.full((len(left), 3), -(2**40), np.int64)
    rows[:, PLACE["p"]] = np.arange(len(left))
    rows[:, PLACE["q"]] = np.arange(len(left)) + len(left)
    answers = []
    for which in range(len(predicates)):
        found = np.zeros(len(left), bool)
        _each(programs, ranks, which, rows, raw, ok, no_errors(raw.shape[1]), found)
        answers.append(found.tolist())
    return answers


def by_columns(
    predicate: Predicate, left: Sequence[Row], right: Sequence[Row], strings: Strings
) -> list[bool]:
    both = view_of([*left, *right], strings)
    count = len(left)
    sides = [
        {name: column[part] for name, column in both.columns.items()}
        for part in (slice(count), slice(count, None))
    ]
    views = {alias: View.of(side, TYPES, strings) for alias, side in zip("pq", sides, strict=True)}
    return np.broadcast_to(join_mask(as_plan(predicate), views), (count,)).tolist()


# ---- random predicates ------------------------------------------------------------------------
OPS = ["=", "!=", "<", "<=", ">", ">="]
PAIRS = st.lists(st.tuples(ROW, ROW), min_size=1, max_size=8)
ATTRIBUTES = st.builds(
    Attribute, st.sampled_from([*TYPES, *TYPES, *FIELDS, "absent"]), st.sampled_from("pq")
)
CONSTANTS = st.builds(
    Constant, INTS | REALS | st.booleans() | st.sampled_from([*TEXTS, "new", "aa"])
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
SIMPLE = st.builds(Comparison, st.sampled_from(OPS), ATTRIBUTES, ATTRIBUTES | CONSTANTS)
LEAVES = (
    SIMPLE
    | st.builds(Comparison, st.sampled_from(OPS), EXPRESSIONS, EXPRESSIONS)
    | st.builds(Membership, EXPRESSIONS, st.lists(CONSTANTS, max_size=3).map(tuple))
    | st.builds(
        Membership,
        ATTRIBUTES,
        st.lists(st.builds(Constant, INTS | st.booleans()), max_size=4).map(tuple)
        | st.lists(st.builds(Constant, st.sampled_from([*TEXTS, "new"])), max_size=4).map(tuple),
    )
)
PREDICATES = combined(LEAVES | asked(computed(OF_NUMBERS, 3) | OF_ONE, OF_ONE), 6)


@settings(max_examples=300, deadline=None)
@given(st.lists(PREDICATES, min_size=1, max_size=3), PAIRS, st.booleans())
def test_random_predicates_as_on_columns(
    predicates: list[Predicate], pairs: list[tuple[Row, Row]], seen: bool
) -> None:
    left, right = [one for one, _ in pairs], [other for _, other in pairs]
    strings = Strings(["b", "new"] if seen else [])
    want = [by_columns(predicate, left, right, strings) for predicate in predicates]
    assert by_program(predicates, left, right, strings) == want


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("negated", [False, True])
def test_every_pair_of_extreme_values(op: str, negated: bool) -> None:
    ints = [0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63 - 2, -(2**63)]
    reals = [0.0, -0.0, 0.5, -0.5, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), inf, -inf, nan,
             float(np.nextafter(2.0**63, 0)), float(np.nextafter(-(2.0**63), -inf))]  # fmt: skip
    values: list[Row] = [{"i": i, "f": f, "s": t} for i in ints for f in reals for t in ("a", None)]
    left = [one for one in values for _ in range(9)]
    right = [values[(7 * place + step) % len(values)] for place in range(len(values))
             for step in range(9)]  # fmt: skip
    leaves: list[Predicate] = [
        Comparison(op, Attribute(a, "p"), Attribute(b, "q")) for a in "ifs" for b in "ifs"
    ]
    predicates = [Logic("not", (leaf,)) if negated else leaf for leaf in leaves]
    found = by_program(predicates, left, right, Strings())
    assert found == [by_columns(one, left, right, Strings()) for one in predicates]


@pytest.mark.parametrize("op", ["+", "-", "*"])
def test_where_int64_ends(op: str) -> None:
    edge = [0, 1, -1, 2, -2, 3, 2**31, 2**32, -(2**32), 3037000500, -3037000500, 2**62, -(2**62),
            2**63 - 1, -(2**63), -(2**63) + 1]  # fmt: skip
    pairs = [(a, b) for a in edge for b in edge]
    total = Arithmetic(op, Attribute("i", "p"), Attribute("i", "q"))
    known = Comparison("=", total, total)
    equal = Comparison("=", total, Attribute("j", "p"))
    exact = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[op]
    fits = [-(2**63) <= exact(a, b) < 2**63 for a, b in pairs]
    left: list[Row] = [
        {"i": a, "j": exact(a, b) if fit else 0} for (a, b), fit in zip(pairs, fits, strict=True)
    ]
    right: list[Row] = [{"i": b} for _, b in pairs]
    assert by_program([known, equal], left, right, Strings()) == [fits, fits]


# ---- the rules, one by one --------------------------------------------------------------------
def of(condition: str) -> Predicate:
    plan = query(f"EVENT SEQ(A p, B q) WHERE {condition} WITHIN 1 s")
    assert isinstance(plan, SeqPlan)
    equal = [Comparison("=", *group) for group in plan.equalities]
    parts = (*equal, *plan.others, *(step.where for step in plan.steps if step.where))
    return parts[0] if len(parts) == 1 else Logic("and", parts)


def pairs_where(
    condition: str, *pairs: tuple[Row, Row], strings: Strings | None = None
) -> list[bool]:
    left, right = [one for one, _ in pairs], [other for _, other in pairs]
    return by_program([of(condition)], left, right, strings or Strings())[0]


def test_a_comparison_with_null_is_unknown_and_so_is_not_of_it() -> None:
    pairs: list[tuple[Row, Row]] = [({"i": 1}, {"i": 2}), ({"i": 2}, {"i": 1}), ({}, {"i": 1})]
    assert pairs_where("p.i < q.i", *pairs) == [True, False, False]
    assert pairs_where("NOT p.i < q.i", *pairs) == [False, True, False]
    assert pairs_where("p.i < q.i OR p.i >= q.i", *pairs) == [True, True, False]
    assert pairs_where("NOT (p.i < q.i AND q.j = p.j)", *pairs) == [False, True, False]


def test_nan_is_null() -> None:
    pairs: list[tuple[Row, Row]] = [({"f": nan}, {"f": 1.0}), ({"f": 2.0}, {"f": 1.0})]
    assert pairs_where("p.f != q.f", *pairs) == [False, True]
    assert pairs_where("NOT p.f <= q.f", *pairs) == [False, True]
    assert pairs_where("NOT p.f + q.f IN (7)", *pairs) == [False, True]


def test_integers_beyond_2_to_the_53_are_exact() -> None:
    pair: tuple[Row, Row] = ({"i": 2**53 + 1, "f": 2.0**63}, {"i": 2**63 - 1, "f": 2.0**53})
    assert pairs_where("p.i > q.f", pair) == [True]
    assert pairs_where("p.f > q.i", pair) == [True]
    assert pairs_where("p.i - 1 = q.f", pair) == [True]


def test_division_by_zero_and_overflow_are_null() -> None:
    pairs: list[tuple[Row, Row]] = [({"i": 6}, {"i": 0}), ({"i": 6}, {"i": 4})]
    assert pairs_where("p.i / q.i = 1.5", *pairs) == [False, True]
    assert pairs_where("NOT p.i / q.i = 2", *pairs) == [False, True]
    huge: tuple[Row, Row] = ({"i": -(2**63)}, {"i": -1})
    assert pairs_where("p.i * q.i < 0 OR p.i * q.i >= 0", huge, ({"i": 2}, {"i": 3})) == [
        False, True,
    ]  # fmt: skip


def test_text_is_equal_by_code_and_ordered_by_code_points() -> None:
    pairs: list[tuple[Row, Row]] = [
        ({"s": "10"}, {"s": "9"}), ({"s": "a"}, {"s": "B"}), ({"s": "b"}, {"s": "b"}), ({}, {}),
        ({"s": "\uffff"}, {"s": "\U0001f600"}),
    ]  # fmt: skip
    assert pairs_where("p.s < q.s", *pairs) == [True, False, False, False, True]
    assert pairs_where("p.s = q.s", *pairs) == [False, False, True, False, False]
    assert pairs_where("p.s != q.s", *pairs) == [True, True, False, False, True]
    assert pairs_where("p.s < 'aa' AND q.s >= 'B'", *pairs) == [False, True, False, False, False]


def test_a_comparison_of_text_with_a_number_is_unknown() -> None:
    pair: tuple[Row, Row] = ({"s": "1", "i": 1}, {"s": "1", "i": 1})
    assert pairs_where("p.s = q.i OR p.s != q.i", pair) == [False]
    assert pairs_where("NOT p.s = q.i OR NOT p.s + 1 = q.i", pair) == [False]


def test_truth_values_are_integers() -> None:
    pair: tuple[Row, Row] = ({"b": True}, {"b": False, "f": 1.0})
    assert pairs_where("p.b > q.b", pair) == [True]
    assert pairs_where("p.b + p.b = 2 * q.f", pair) == [True]


def test_an_attribute_that_no_event_has_is_null() -> None:
    pair: tuple[Row, Row] = ({"i": 5}, {"i": 5})
    assert pairs_where("p.absent = q.i OR p.absent != q.i", pair) == [False]
    assert pairs_where("NOT p.absent = q.i", pair) == [False]


def test_a_text_that_appears_later() -> None:
    predicate = as_plan(Comparison("!=", Attribute("s", "p"), Constant("late")))
    strings = Strings(["early"])
    assert awaits_text([predicate], strings)
    assert by_program([predicate], [{"s": "early"}], [{}], strings) == [[True]]
    assert by_program([predicate], [{"s": "late"}], [{}], strings) == [[False]]
    assert not awaits_text([predicate], strings)


def test_ranks_alone_are_made_again_when_texts_appear() -> None:
    predicate = as_plan(Comparison("<", Attribute("s", "p"), Constant("m")))
    strings = Strings(["z"])
    kind = np.array([TEXT], np.int8)
    programs = compile_programs([predicate], {"p": 0}, {"s": 0}, kind, strings)
    codes = np.array([[strings.code(text) for text in "zamn"]], np.int64)
    found = np.zeros(4, bool)
    ranks = text_ranks(strings, text_constants([predicate]))
    rows = np.arange(4, dtype=np.int64)[:, None]
    _each(programs, ranks, 0, rows, codes, np.ones((1, 4), bool), no_errors(4), found)
    assert uses_text_order(programs)
    assert found.tolist() == [False, True, False, False]


def test_equality_needs_no_ranks() -> None:
    same = Logic("not", (Comparison("=", Attribute("s", "p"), Attribute("s", "q")),))
    numbers = Comparison("<", Attribute("i", "p"), Attribute("i", "q"))
    kind = np.array([TEXT, INT], np.int8)
    programs = compile_programs(as_plan((same, numbers)), PLACE, {"s": 0, "i": 1}, kind, Strings())
    assert not uses_text_order(programs)


@pytest.mark.parametrize(
    ("attribute", "named"),
    [(Attribute("i", "r"), "'r'"), (Attribute("i"), "None"), (Attribute("k", "p"), "'k'")],
)
def test_what_a_predicate_names_must_exist(attribute: Attribute, named: str) -> None:
    predicate = as_plan(Comparison("=", attribute, Constant(1)))
    register: Mapping[str, int] = {"i": 0}
    with pytest.raises(ContractViolation, match=named):
        compile_programs([predicate], PLACE, register, np.zeros(1, np.int8), Strings())
