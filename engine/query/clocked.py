"""What a condition says of clocks: which events' clock errors move its values, and by how much.

``ts``, ``te`` and ``ref`` are on the engine's clock (``engine.query.fields``), known only up to the
error of their event's clock; what the source's clock itself said (``raw_ts``), arrivals and
attributes are known as they are. A value that is a sum of times moves with each event's error by a
known factor, its *coefficient*; the two ends of one event move together, so its duration is exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.query.fields import attributes_in
from engine.query.plan import (
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
)

CLOCKED: Final = frozenset({"ts", "te", "ref"})
"""Names of times that are uncertain where the event's clock is."""
Coefficients = dict[str | None, float]
"""By alias: how far a value moves with one unit of its event's clock error; never 0."""


def is_clocked(predicate: Predicate) -> bool:
    """Whether clock errors can change ``predicate``.

    >>> from engine.query import query
    >>> [is_clocked(p) for p in query("EVENT SEQ(A a, B b) WHERE b.ts - a.ts < 3").others]
    [True]
    >>> is_clocked(query("EVENT SEQ(A a) WHERE a.te - a.ts < 3").steps[0].where)
    False
    """
    match predicate:
        case Logic(terms=terms):
            return any(is_clocked(term) for term in terms)
        case Membership(item=item) | Likeness(item=item):
            return coefficients(item) != {}
        case Presence():
            return False
        case Comparison(left=left, right=right):
            return difference(left, right) != {}


def coefficients(value: Expression) -> Coefficients | None:
    """By alias; empty: no clock error moves ``value``. None: they move it by no fixed factor."""
    match value:
        case Constant():
            return {}
        case Attribute(name=name, alias=alias):
            return {alias: 1.0} if name in CLOCKED else {}
        case Arithmetic(op="+" | "-" as op, left=left, right=right):
            return difference(left, right) if op == "-" else _sum(left, right, 1.0)
        case Arithmetic(op="//", left=left):
            return None if coefficients(left) else {}
        case Arithmetic(op=op, left=left, right=right):
            first, second = coefficients(left), coefficients(right)
            if first == {} and second == {}:
                return {}
            if op == "*" and isinstance(left, Constant) and second is not None:
                return _times(second, left)
            if isinstance(right, Constant) and first is not None and op != "%":
                return _times(first, right, inverse=op == "/")
            return None
        case FunctionCall() | Case():
            return None if clocked_aliases([value]) else {}


def difference(left: Expression, right: Expression) -> Coefficients | None:
    """``coefficients`` of ``left - right``."""
    return _sum(left, right, -1.0)


def clocked_aliases(values: Iterable[Expression]) -> list[str | None]:
    """The events whose clocks the ``values`` read, each once."""
    found = {
        each.alias for value in values for each in attributes_in(value) if each.name in CLOCKED
    }
    return sorted(found, key=str)


def one_window(predicate: Comparison) -> tuple[int, tuple[str | None, str | None]] | None:
    """The length of the windows [ns] of which two events must be in one, and the aliases of these;
    None: it asks something else.
    """
    match predicate:
        case Comparison(
            op="=",
            left=Arithmetic(op="//", left=Attribute(alias=one), right=Constant(value=int(size))),
            right=Arithmetic(op="//", left=Attribute(alias=two)),
        ):
            return size, (one, two)
    return None


def _sum(left: Expression, right: Expression, sign: float) -> Coefficients | None:
    first, second = coefficients(left), coefficients(right)
    if first is None or second is None:
        return None
    both = {
        alias: first.get(alias, 0.0) + sign * second.get(alias, 0.0)
        for alias in dict.fromkeys([*first, *second])
    }
    return {alias: factor for alias, factor in both.items() if factor}


def _times(found: Coefficients, by: Constant, *, inverse: bool = False) -> Coefficients | None:
    if isinstance(by.value, str):
        return {}
    factor = float(by.value)
    if inverse:
        factor = 1.0 / factor if factor else 0.0
    return {alias: own * factor for alias, own in found.items() if own * factor}
