"""Evaluates a plan's predicates and expressions on whole columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from slackwater.engine.core.columns import LEAST_PREFIX, MOST_PREFIX, VARIES_PREFIX
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.released import Released, Strings
from slackwater.engine.query.fields import attributes_in
from slackwater.engine.query.plan import (
    MIRRORED,
    OPPOSITE,
    Arithmetic,
    Attribute,
    Case,
    Comparison,
    Constant,
    Expression,
    FunctionCall,
    Likeness,
    Logic,
    Membership,
    Predicate,
    Presence,
    SeqPlan,
)
from slackwater.engine.query.values import (
    NULL,
    Value,
    arithmetic,
    call_function,
    choose,
    compare,
    is_in,
    likeness,
    present,
)

# As in SQL, a comparison with null (absent, or NaN) is unknown, and so is its NOT; AND and OR are
# three-valued, and a condition holds where it is true.
#
# Integers stay int64: beyond 2**53 they are compared exactly, also with floats; a result beyond
# int64 is null, and so is a division by zero. Texts are compared by code for equality and by code
# points for order. A comparison of text with a number is unknown.


Bools = np.ndarray
ValidOf = Callable[[str], "np.ndarray | None"]


class View(Struct, frozen=True):
    """The columns of some events, as in ``engine.core.released.Released``.

    ``valid_of`` returns an attribute's bool mask, or None if every event has it. Arrays may have
    any shapes that broadcast together.
    """

    columns: Mapping[str, np.ndarray]
    valid_of: ValidOf
    attr_types: Mapping[str, str]
    strings: Strings
    absent: bool = False
    """Whether there are no such events: all values are null."""

    @classmethod
    def of(
        cls, columns: Mapping[str, np.ndarray], attr_types: Mapping[str, str], strings: Strings
    ) -> View:
        """Return a view whose masks are the columns ``valid.NAME``."""
        return cls(columns, lambda name: columns.get("valid." + name), attr_types, strings)


def mask(
    predicate: Predicate,
    columns: Mapping[str, np.ndarray],
    valid_of: ValidOf,
    attr_types: Mapping[str, str],
    strings: Strings,
) -> Bools:
    """Return where ``predicate`` is true; aliases are ignored.

    Args:
        predicate: of one step, or of a SELECT.
        columns: 1-d arrays of n events, at least one.
        valid_of: returns an attribute's bool mask, or None if every event has it.
        attr_types: ``int float bool str`` by attribute.
        strings: table of the codes in ``columns``.

    Returns:
        bool array of shape (n,).
    """
    rows = len(next(iter(columns.values())))
    return view_mask(predicate, View(columns, valid_of, attr_types, strings), rows)


def released_mask(predicate: Predicate, released: Released) -> Bools:
    """``mask`` on all columns of a batch; bool array of shape (released.n,)."""
    view = View.of(released.columns, released.attr_types, released.strings)
    return view_mask(predicate, view, released.n)


def view_mask(predicate: Predicate, view: View, rows: int) -> Bools:
    """``mask`` on a view of ``rows`` events; bool array of shape (rows,)."""
    with np.errstate(all="ignore"):
        found = _where(predicate, _Views(lambda _alias: view, view.strings))
    return found if found.shape == (rows,) else np.broadcast_to(found, (rows,)).copy()


def may_be(predicate: Predicate, view: View, rows: int, *, truth: bool = True) -> Bools:
    """Return where ``predicate`` is ``truth`` for some values that clock errors allow
    (``engine.core.columns.VARIES_PREFIX``); bool array of shape (rows,).
    """
    match predicate:
        case Logic(op="not", terms=(term,)):
            return may_be(term, view, rows, truth=not truth)
        case Logic(op=op, terms=terms):
            found = [may_be(term, view, rows, truth=truth) for term in terms]
            joined = np.logical_and if (op == "and") == truth else np.logical_or
            return np.asarray(joined.reduce(found))
    of = predicate if truth else Logic("not", (predicate,))
    perhaps = _perhaps(predicate, view.columns, rows, truth=truth)
    return np.asarray(view_mask(of, view, rows) | perhaps)


def _perhaps(
    predicate: Predicate, columns: Mapping[str, np.ndarray], rows: int, *, truth: bool
) -> Bools:
    """Return where clock errors may make ``predicate`` (without AND, OR, NOT) ``truth``."""
    read = [each.name.removeprefix(ATTR_PREFIX) for each in attributes_in(predicate)]
    varies = np.zeros(rows, np.bool_)
    for name in read:
        if VARIES_PREFIX + name in columns:
            varies = varies | columns[VARIES_PREFIX + name]
    match predicate:
        case Comparison(op=op, left=Attribute(), right=Constant(value=int() | float() as value)):
            pass
        case Comparison(op=op, left=Constant(value=int() | float() as value), right=Attribute()):
            op = MIRRORED[op]
        case _:
            return varies
    if not varies.any():
        return varies
    least, most = (columns[prefix + read[0]] for prefix in (LEAST_PREFIX, MOST_PREFIX))
    outcomes = {
        "<": least < value, "<=": least <= value, ">": most > value, ">=": most >= value,
        "=": (least <= value) & (most >= value), "!=": (least != value) | (most != value),
    }  # fmt: skip
    possible = outcomes[op if truth else OPPOSITE[op]]
    return np.asarray(varies & (possible | np.isnan(least) | np.isnan(most)))


def join_mask(predicate: Predicate, views: Mapping[str, View]) -> Bools:
    """Where ``predicate``, which names the aliases of ``views``, is true.

    Row i of each view belongs to combination i; views of shapes (n, 1) and (1, m) give the
    n x m combinations. All views share one string table.

    Returns:
        bool array of the shape to which the columns that ``predicate`` reads broadcast.
    """
    with np.errstate(all="ignore"):
        return _where(predicate, _by_alias(views))


def join_value(expression: Expression, views: Mapping[str, View]) -> Value:
    """Return the values of ``expression`` over the aliases of ``views``, as in ``join_mask``."""
    with np.errstate(all="ignore"):
        return _value(expression, _by_alias(views))


def view_value(expression: Expression, view: View) -> Value:
    """Return the values of ``expression``, without aliases, for the rows of ``view``."""
    with np.errstate(all="ignore"):
        return _value(expression, _Views(lambda _alias: view, view.strings))


class _Views(NamedTuple):
    """Views by alias (None: predicates without aliases), and their string table."""

    view_of: Callable[[str | None], View]
    strings: Strings


def _by_alias(views: Mapping[str, View]) -> _Views:
    def view_of(alias: str | None) -> View:
        if alias is None or alias not in views:
            raise ContractViolation(f"alias {alias!r} is named, which has no columns")
        return views[alias]

    return _Views(view_of, next((view.strings for view in views.values()), Strings()))


def _where(predicate: Predicate, env: _Views, *, truth: bool = True) -> Bools:
    """Return where ``predicate`` is ``truth``."""
    match predicate:
        case Logic(op="not", terms=(term,)):
            return _where(term, env, truth=not truth)
        case Logic(op=op, terms=terms):
            found = _where(terms[0], env, truth=truth)
            for term in terms[1:]:
                other = _where(term, env, truth=truth)
                found = found & other if (op == "and") == truth else found | other
            return found
        case Comparison(op=op, left=left, right=right):
            first, second = _value(left, env), _value(right, env)
            op = op if truth else OPPOSITE[op]
            return compare(op, first, second, env.strings)
        case Membership(item=item, options=options):
            constants = [option.value for option in options]
            return is_in(_value(item, env), constants, env.strings, truth=truth)
        case Presence(item=item):
            there = present(_value(item, env))
            return there if truth else np.asarray(~there)
        case Likeness(item=item, pattern=pattern, regular=regular):
            fits = likeness(_value(item, env), pattern, env.strings, regular=regular)
            return compare("=", fits, Value.constant(truth), env.strings)


def _value(expression: Expression, env: _Views) -> Value:
    match expression:
        case Constant(value=constant):
            return Value.constant(constant)
        case Attribute(name=name, alias=alias):
            return column(name, env.view_of(alias))
        case Arithmetic(op=op, left=left, right=right):
            return arithmetic(op, _value(left, env), _value(right, env))
        case FunctionCall(function=function, arguments=arguments):
            return call_function(function, [_value(each, env) for each in arguments], env.strings)
        case Case(whens=whens, otherwise=otherwise):
            cases = [(_where(when, env), _or_null(then, env)) for when, then in whens]
            return choose(cases, _or_null(otherwise, env), env.strings)


def _or_null(expression: Expression | None, env: _Views) -> Value:
    return NULL if expression is None else _value(expression, env)


def column(name: str, view: View) -> Value:
    """Return the values of the plan's attribute ``name``: a record field or an own attribute.

    ``ts`` and ``te`` are on the engine's clock (SPEC 4.1): ``ref``, and ``te + (ref - ts)``.
    An own attribute that ``view`` does not have is null for every event.
    """
    columns = view.columns
    if view.absent:
        return NULL
    match name:
        case "ts" | "ref":
            return Value("int", columns["ref"], None)
        case "te":
            return Value("int", columns["te"] + (columns["ref"] - columns["ts"]), None)
        case "raw_ts" | "raw_te":
            return Value("int", columns[name.removeprefix("raw_")], None)
        case "arrival" | "release":
            return Value("int", columns[name], None)
        case "seq":
            return Value("int", columns["seq"], columns["seq"] >= 0)
        case "source" | "stream" | "type" | "site":
            return Value("str", columns[name], columns[name] >= 0)
    attribute = name.removeprefix(ATTR_PREFIX)
    values = columns.get(ATTR_PREFIX + attribute)
    if values is None:
        return NULL
    valid = view.valid_of(attribute)
    if view.attr_types[attribute] == "str":
        present = values >= 0
        return Value("str", values, present if valid is None else present & valid)
    if values.dtype == np.bool_:
        return Value("int", values.astype(np.int64), valid)
    if values.dtype.kind in "iu":
        return Value("int", values.astype(np.int64, copy=False), valid)
    return Value("float", values.astype(np.float64, copy=False), valid)


# Values that RETURN computes from matches.


def computed_values(plan: SeqPlan, views: Mapping[str, View], n: int) -> dict[str, Value]:
    """Return the values of ``plan.computed`` for n matches.

    Args:
        plan: the plan, or a branch of an OR.
        views: for each step, by alias, the columns of its events in the matches; row i belongs to
            match i, arrays have the shape (n,). A negated step's view is ``absent``.
        n: the number of matches.

    Returns:
        One entry per label, in written order. ``data`` and ``valid`` (None: all are) have the shape
        (n,), except for kind null, where data is None and no match has a value. Kind str: codes of
        the views' string table. Truth values are ints, 0 and 1; times are in ns.

    Raises:
        ContractViolation: ``views`` lacks an alias.
    """
    found: dict[str, Value] = {}
    for one in plan.computed:
        value = join_value(one.expression, views)
        data, valid = value.data, value.valid
        if value.kind == "float" and not bool(np.isfinite(data).all()):
            # JSON cannot represent values beyond the range of floats.
            valid = np.isfinite(data) if valid is None else valid & np.isfinite(data)
        if value.kind != "null":
            data = np.broadcast_to(data, (n,))
            valid = None if valid is None else np.broadcast_to(valid, (n,))
        found[one.label] = Value(value.kind, data, valid)
    return found


def python_values(value: Value, n: int, strings: Strings) -> list[Any]:
    """Return ``value`` of n matches as int, float, str or None, as in a result."""
    if value.kind == "null":
        return [None] * n
    data = value.data.tolist()
    if value.kind == "str":
        data = [strings.text(code) for code in data]
    if value.valid is None:
        return list(data)
    return [x if known else None for x, known in zip(data, value.valid.tolist(), strict=True)]
