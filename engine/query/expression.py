"""Evaluates a plan's predicates and expressions on whole columns.

A comparison with null (absent, or a NaN) is false, and NOT of it is therefore true: every predicate
is true or false, unlike in SQL.

Integers stay int64: beyond 2**53 they are compared exactly, with floats too; a result outside
int64 is null, and so is a division by zero. Text is compared by code for equality and by its
characters' code points for order. A comparison of text with a number is false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from engine.errors import ContractViolation
from engine.query.plan import (
    Attribute,
    Comparison,
    Constant,
    Expression,
    Logic,
    Membership,
    Predicate,
)
from engine.query.values import NULL, Value, arithmetic, compare, is_in
from engine.stream.frame import ATTR_PREFIX
from engine.stream.released import Released, Strings

Bools = np.ndarray
ValidOf = Callable[[str], "np.ndarray | None"]


@dataclass(frozen=True, slots=True)
class View:
    """The columns of some events, as in ``engine.stream.released.Released``.

    ``valid_of`` gives an own attribute's bool mask, or None when every event has it. Arrays may
    have any shapes that broadcast against one another.
    """

    columns: Mapping[str, np.ndarray]
    valid_of: ValidOf
    attr_types: Mapping[str, str]
    strings: Strings
    absent: bool = False
    """There are no such events: whatever is asked of them is null."""

    @classmethod
    def of(
        cls, columns: Mapping[str, np.ndarray], attr_types: Mapping[str, str], strings: Strings
    ) -> View:
        """A view whose masks are the columns ``valid.NAME``."""
        return cls(columns, lambda name: columns.get("valid." + name), attr_types, strings)


def mask(
    predicate: Predicate,
    columns: Mapping[str, np.ndarray],
    valid_of: ValidOf,
    attr_types: Mapping[str, str],
    strings: Strings,
) -> Bools:
    """Where ``predicate`` is true; aliases are not looked at.

    Args:
        predicate: of one step, or of a SELECT.
        columns: 1-d arrays of n events, at least one.
        valid_of: an own attribute's bool mask, or None when every event has it.
        attr_types: ``int float bool str`` by own attribute.
        strings: what the codes in ``columns`` mean.

    Returns:
        bool array of shape (n,).
    """
    rows = len(next(iter(columns.values())))
    return _one_view(predicate, View(columns, valid_of, attr_types, strings), rows)


def released_mask(predicate: Predicate, released: Released) -> Bools:
    """``mask`` on all columns of a batch; bool array of shape (released.n,)."""
    view = View.of(released.columns, released.attr_types, released.strings)
    return _one_view(predicate, view, released.n)


def _one_view(predicate: Predicate, view: View, rows: int) -> Bools:
    with np.errstate(all="ignore"):
        found = _where(predicate, lambda _alias: view)
    return found if found.shape == (rows,) else np.broadcast_to(found, (rows,)).copy()


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
    """The values of ``expression``, which names the aliases of ``views``, as in ``join_mask``."""
    with np.errstate(all="ignore"):
        return _value(expression, _by_alias(views))


def view_value(expression: Expression, view: View) -> Value:
    """The values of ``expression``, which names no aliases, of the rows of ``view``."""
    with np.errstate(all="ignore"):
        return _value(expression, lambda _alias: view)


def _by_alias(views: Mapping[str, View]) -> Callable[[str | None], View]:
    def view_of(alias: str | None) -> View:
        if alias is None or alias not in views:
            raise ContractViolation(f"alias {alias!r} is named, which has no columns")
        return views[alias]

    return view_of


def _where(predicate: Predicate, view_of: Callable[[str | None], View]) -> Bools:
    """Where ``predicate`` is true."""
    match predicate:
        case Logic(op="not", terms=(term,)):
            return np.asarray(~_where(term, view_of))
        case Logic(op=op, terms=terms):
            found = _where(terms[0], view_of)
            for term in terms[1:]:
                other = _where(term, view_of)
                found = found & other if op == "and" else found | other
            return found
        case Comparison(op=op, left=left, right=right):
            first, second = _value(left, view_of), _value(right, view_of)
            return compare(op, first, second, _strings(predicate, view_of))
        case Membership(item=item, options=options):
            table = _strings(predicate, view_of)
            constants = [option.value for option in options]
            return is_in(_value(item, view_of), constants, table)


def _strings(
    predicate: Comparison | Membership, view_of: Callable[[str | None], View]
) -> Strings | None:
    """The string table of the views that ``predicate`` reads; None when it reads no attribute."""
    stack: list[Expression] = (
        [predicate.item] if isinstance(predicate, Membership) else [predicate.left, predicate.right]
    )
    while stack:
        node = stack.pop()
        if isinstance(node, Attribute):
            return view_of(node.alias).strings
        if not isinstance(node, Constant):
            stack += [node.left, node.right]
    return None


def _value(expression: Expression, view_of: Callable[[str | None], View]) -> Value:
    match expression:
        case Constant(value=constant):
            return Value.constant(constant)
        case Attribute(name=name, alias=alias):
            return column(name, view_of(alias))
        case _:
            left = _value(expression.left, view_of)
            return arithmetic(expression.op, left, _value(expression.right, view_of))


def column(name: str, view: View) -> Value:
    """The values of the plan's attribute ``name``: a record field or an own attribute.

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
    own = name.removeprefix(ATTR_PREFIX)
    values = columns.get(ATTR_PREFIX + own)
    if values is None:
        return NULL
    valid = view.valid_of(own)
    if view.attr_types[own] == "str":
        present = values >= 0
        return Value("str", values, present if valid is None else present & valid)
    if values.dtype == np.bool_:
        return Value("int", values.astype(np.int64), valid)
    if values.dtype.kind in "iu":
        return Value("int", values.astype(np.int64, copy=False), valid)
    return Value("float", values.astype(np.float64, copy=False), valid)
