"""Arithmetic over aggregates and HAVING, applied on output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.released import Strings
from slackwater.engine.kernels.records import take_rows
from slackwater.engine.operators.window.emission import ResultRows
from slackwater.engine.operators.window.state.accumulate import (
    FLOAT,
    HALF_WORD,
    INT,
    LOW_WORD,
    NULL,
    TEXT,
    are_short,
    numbers,
)
from slackwater.engine.operators.window.state.aggregate import BOUNDED
from slackwater.engine.operators.window.state.content import (
    COUNTS,
    HIGH_ONE,
    LEAST,
    LOW_ONE,
    MIDDLE_ONE,
    MOST,
    NUMBERS,
    VALUE,
)
from slackwater.engine.query.clock_sensitivity import coefficients
from slackwater.engine.query.expression import View, view_mask, view_value
from slackwater.engine.query.fields import attributes_in, own_attribute
from slackwater.engine.query.plan import (
    COMPUTED,
    Aggregate,
    Arithmetic,
    Attribute,
    Constant,
    Drift,
    Expression,
    WindowPlan,
)
from slackwater.engine.query.render import default_label
from slackwater.engine.query.values import Value, arithmetic, both_valid, present

_AMBIGUOUS: Final = (COUNTS.names or ()).index("ambiguous")

# Drops pairs of retraction and insertion with equal content.


def unchanged(outbox: ResultRows, numbers: np.ndarray | None, passes: np.ndarray) -> np.ndarray:
    """Return which results of ``outbox`` belong to a pair of retraction and equal insertion.

    The two of a pair are adjacent and of one instant, as ``window.emission`` emits changes. So
    ``outbox`` must hold all changes, including those dropped for other reasons.

    Args:
        outbox: the results.
        numbers: the places of the numbers to compare; None: all.
        passes: (n,), which results are otherwise emitted; equal for both of a pair.

    Returns:
        Shape (n,).
    """
    same = ~outbox.plus[:-1] & outbox.plus[1:] & passes[:-1] & passes[1:]
    for name, column in outbox._asdict().items():
        if name in {"plus", "rows"}:
            continue
        by_number = numbers is not None and name in {"kinds", "words"}
        some = column[:, numbers] if by_number else column
        equal = some[:-1] == some[1:]
        same &= equal.all(axis=tuple(range(1, equal.ndim)))
    found = np.zeros(len(passes), np.bool_)
    found[:-1] |= same
    found[1:] |= same
    return found


# HAVING: which results are emitted.
#
# The condition depends on a result's content alone, and a retraction repeats the content that it
# retracts. So both are emitted or neither.


def holds(plan: WindowPlan, outbox: ResultRows, strings: Strings) -> np.ndarray:
    """Return which results of ``outbox`` satisfy ``plan.having``: shape (n,).

    ``plan`` has all aggregates in the condition; ``strings``: the texts of codes.
    """
    passes = np.ones(len(outbox.at), np.bool_)
    if plan.having is not None:
        labels = [one.label for one in plan.aggregates]
        values = np.arange(len(labels)) * NUMBERS + VALUE
        kinds, words = outbox.kinds[:, values], outbox.words[:, values]
        for rows in of_same_kinds(kinds, words):
            view = _view(labels, kinds[rows], words[rows], strings)
            passes[rows] = view_mask(plan.having, view, len(kinds[rows]))
    return passes


def _view(labels: Sequence[str], kinds: np.ndarray, words: np.ndarray, strings: Strings) -> View:
    """Return a view with one number per aggregate: kinds (n, m) and words (n, m, 2)."""
    found = {label: value_of(kinds[:, a], words[:, a]) for a, label in enumerate(labels)}
    return View(
        {ATTR_PREFIX + label: value.data for label, value in found.items()},
        lambda label: found[label].valid,
        {label: value.kind for label, value in found.items()},
        strings,
    )


def value_of(kinds: np.ndarray, words: np.ndarray) -> Value:
    """Return a column of numbers or texts: kinds (n,) and words (n, 2)."""
    known = kinds != NULL
    if (kinds == TEXT).any():
        return Value("str", np.where(known, words[:, 1], -1), known)
    data = numbers(kinds, words)
    return Value("int" if data.dtype.kind == "i" else "float", data, known)


def of_same_kinds(kinds: np.ndarray, words: np.ndarray) -> list[slice | np.ndarray]:
    """Return all rows in groups whose columns are each all integers or all floats.

    A column with both would become float, and a row would depend on the other rows in the batch.
    """
    whole = (kinds == INT) & are_short(words[..., 0])
    rest = (kinds == FLOAT) | ((kinds == INT) & ~whole)
    mixed = whole.any(axis=0) & rest.any(axis=0)
    if not mixed.any():
        return [slice(None)]
    which = np.unique(rest[:, mixed], axis=0, return_inverse=True)[1].reshape(-1)
    return [np.flatnonzero(which == one) for one in range(int(which.max()) + 1)]


# Aggregates in HAVING and ORDER BY that are not in the SELECT list.
#
# Results carry their numbers until HAVING and ORDER BY are evaluated. A retraction and an insertion
# that differ in hidden numbers only are dropped: they look equal to the reader.


def judged_plan(plan: WindowPlan) -> WindowPlan:
    """Return ``plan`` with the hidden aggregates of HAVING and ORDER BY appended to its own."""
    names = {one.name for one in attributes_in(plan.having)}
    if plan.ranking is not None:
        names |= set(plan.ranking.labels)
    names -= {one.label for one in plan.aggregates}
    if not names:
        return plan
    judging = tuple(one for one in plan.hidden if one.label in names)
    rest = tuple(one for one in plan.hidden if one.label not in names)
    return replace(plan, aggregates=plan.aggregates + judging, hidden=rest)


def output_numbers(plan: WindowPlan, judged: WindowPlan, behind: int) -> np.ndarray | None:
    """Return the places of the numbers of ``plan`` among the numbers of ``judged``.

    Args:
        plan: the plan of the query.
        judged: the result of ``judged_plan``.
        behind: number of columns after those of the aggregates.

    Returns:
        Shape (numbers,); None: all places.
    """
    if judged is plan:
        return None
    of_plan, whole = len(plan.aggregates), len(judged.aggregates)
    return np.concatenate(
        [np.arange(of_plan * NUMBERS), np.arange(whole * NUMBERS, (whole + behind) * NUMBERS)]
    )


# Arithmetic over aggregates, computed on output. It depends on a result's content alone, so a
# retraction repeats the values that it retracts; a pair of retraction and insertion of equal values
# is dropped.


Range = tuple[Value, Value]
"""The least and the largest possible value."""


def is_bounded(plan: WindowPlan, one: Aggregate) -> bool:
    """Return whether results have bounds of the aggregate ``one``.

    Arithmetic has bounds if all its operands have. A value that clock errors change has none, as
    bounds assume fixed values of events.
    """

    def has_bounds(one: Aggregate) -> bool:
        read = {own_attribute(each.name) for each in attributes_in(one.argument)}
        is_moved = bool(read & {*plan.moved})
        is_moved |= one.argument is not None and coefficients(one.argument) != {}
        return one.function in BOUNDED and (one.function == "count" or not is_moved)

    if one.function != COMPUTED:
        return has_bounds(one)
    of = {default_label(each): has_bounds(each) for each in plan.worked_out.aggregates}

    def known(node: Expression) -> bool:
        match node:
            case Attribute(name=name):
                return of[name]
            case Arithmetic(op="+" | "-" | "*" | "/", left=left, right=right):
                return known(left) and known(right)
        return isinstance(node, Constant)

    assert one.argument is not None
    return known(one.argument)


def bounded_by_values(plan: WindowPlan, outbox: ResultRows) -> ResultRows:
    """Return ``outbox`` without the bounds that assume fixed values of ambiguous events.

    This affects results with ambiguous events: the aggregates over ``plan.varying``, and all
    aggregates if ``plan.lacks``.
    """
    ends = [
        a * NUMBERS + end
        for a, one in enumerate(plan.aggregates)
        if plan.lacks
        or any(own_attribute(each.name) in plan.varying for each in attributes_in(one.argument))
        for end in (LEAST, MOST)
    ]
    rows = np.flatnonzero(outbox.counts[:, _AMBIGUOUS])
    if not (ends and len(rows)):
        return outbox
    outbox.kinds[rows[:, None], ends] = NULL
    outbox.words[rows[:, None], ends] = 0
    return take_rows(outbox, ~unchanged(outbox, None, np.ones(len(outbox.at), np.bool_)))


def computed(plan: WindowPlan, outbox: ResultRows, strings: Strings) -> ResultRows:
    """Convert ``outbox`` from the aggregates of ``plan.worked_out`` to those of ``plan``.

    ``strings``: the texts of codes.
    """
    single = plan.worked_out
    if single is plan:
        return outbox
    n, kinds, words = len(outbox.at), outbox.kinds, outbox.words
    wide = kinds.shape[1] + (len(plan.aggregates) - len(single.aggregates)) * NUMBERS
    made = np.zeros((n, wide), kinds.dtype), np.zeros((n, wide, 2), words.dtype)
    for rows in of_same_kinds(kinds, words):
        made[0][rows], made[1][rows] = _worked_out(plan, kinds[rows], words[rows], strings)
    whole = outbox._replace(kinds=made[0], words=made[1])
    return take_rows(whole, ~unchanged(whole, None, np.ones(n, np.bool_)))


def _worked_out(
    plan: WindowPlan, kinds: np.ndarray, words: np.ndarray, strings: Strings
) -> tuple[np.ndarray, np.ndarray]:
    """Convert the numbers of ``plan.worked_out`` to those of ``plan``; columns after them stay.

    ``kinds``: (n, m). ``words``: (n, m, 2).
    """
    single, n = plan.worked_out, len(kinds)
    labels = [default_label(one) for one in single.aggregates]
    places = {label: a for a, label in enumerate(labels)}

    def number(name: str, place: int) -> Value:
        at = places[name] * NUMBERS + place
        return value_of(kinds[:, at], words[:, at])

    behind = slice(len(labels) * NUMBERS, None)
    views = [
        _view(labels, kinds[:, place : behind.start : NUMBERS],
              words[:, place : behind.start : NUMBERS], strings)
        for place in range(HIGH_ONE + 1)
    ]  # fmt: skip
    made: list[tuple[np.ndarray, np.ndarray]] = []
    for one in plan.aggregates:
        if one.function != COMPUTED:
            first = places[default_label(one)] * NUMBERS
            at = slice(first, first + NUMBERS)
            made.append((kinds[:, at], words[:, at]))
            continue
        assert one.argument is not None
        values = [view_value(one.argument, view) for view in views]
        if plan.drift is Drift.TOGETHER:
            values[VALUE] = _mean([values[place] for place in (LOW_ONE, MIDDLE_ONE, HIGH_ONE)], n)
        if is_bounded(plan, one):
            values += _bounds(one.argument, number)
        found = np.zeros((n, NUMBERS), kinds.dtype), np.zeros((n, NUMBERS, 2), words.dtype)
        for place, value in enumerate(values):
            _put(found[0][:, place], found[1][:, place], value)
        made.append(found)
    made.append((kinds[:, behind], words[:, behind]))
    of_kinds, of_words = zip(*made, strict=True)
    return np.concatenate(of_kinds, axis=1), np.concatenate(of_words, axis=1)


def _bounds(expression: Expression, number: Callable[[str, int], Value]) -> Range:
    """Return the bounds of ``expression`` by interval arithmetic.

    ``number``: returns a bound of an aggregate, by its label and ``LEAST`` or ``MOST``.
    """
    match expression:
        case Attribute(name=name):
            return number(name, LEAST), number(name, MOST)
        case Arithmetic(op=op, left=left, right=right):
            a, b = _bounds(left, number), _bounds(right, number)
            if op == "+":
                return arithmetic(op, a[0], b[0]), arithmetic(op, a[1], b[1])
            if op == "-":
                return arithmetic(op, a[0], b[1]), arithmetic(op, a[1], b[0])
            return _of_corners(op, a, b)
    assert isinstance(expression, Constant)
    value = Value.constant(expression.value)
    return value, value


def _of_corners(op: str, left: Range, right: Range) -> Range:
    corners = [arithmetic(op, a, b) for a in left for b in right]
    valid = corners[0].valid
    for corner in corners[1:]:
        valid = both_valid(valid, corner.valid)
    if op == "/":
        whole = (right[0].data > 0) | (right[1].data < 0)  # else the divisor may be zero
        valid = both_valid(valid, np.asarray(whole))
    data = [corner.data for corner in corners]
    least = np.minimum.reduce(np.broadcast_arrays(*data))
    most = np.maximum.reduce(np.broadcast_arrays(*data))
    return Value(corners[0].kind, least, valid), Value(corners[0].kind, most, valid)


def _mean(three: list[Value], n: int) -> Value:
    """Return the mean of the known values; unknown if none is known."""
    there = [np.broadcast_to(present(value), n) for value in three]
    total = np.zeros(n)
    for value, known in zip(three, there, strict=True):
        if value.kind != "null":
            total += np.where(known, np.broadcast_to(value.data, n), 0)
    many = np.sum(there, axis=0)
    return Value("float", total / np.maximum(many, 1), many > 0)


def _put(kinds: np.ndarray, words: np.ndarray, value: Value) -> None:
    """Write ``value`` to a column of numbers; floats that are not finite become null."""
    kinds[:] = NULL
    if value.kind == "null":
        return
    known = np.broadcast_to(present(value), len(kinds))
    data = np.broadcast_to(np.asarray(value.data), len(kinds))
    if value.kind == "float":
        known = known & np.isfinite(data)
        high, low = np.ascontiguousarray(data, np.float64).view(np.int64), np.zeros_like(data)
    elif value.kind == "int":
        high, low = data >> HALF_WORD, data & LOW_WORD
    else:
        high, low = np.zeros_like(data), data
    kinds[known] = {"float": FLOAT, "int": INT, "str": TEXT}[value.kind]
    words[:, 0], words[:, 1] = np.where(known, high, 0), np.where(known, low, 0)
