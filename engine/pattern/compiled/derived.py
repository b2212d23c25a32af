"""What join predicates read of one event: attributes, and values that functions make of them.

A function, a CASE or a LIKE of one event's attributes is evaluated once per event, on columns, and
kept in a register of its own, as attributes are.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.query.fields import attributes_in, bare, parts_of
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
    Predicate,
    Presence,
)

Read = str | FunctionCall | Case
"""An attribute's name, or a value of attributes without alias."""


def reads(node: Expression | Predicate | None) -> Iterator[Read]:
    """All that ``node`` reads, repeats included."""
    if isinstance(node, Attribute):
        yield node.name
    elif isinstance(node, Likeness):
        yield from reads(flag(node))
    elif isinstance(node, FunctionCall | Case) and len(aliases_of(node)) == 1:
        yield bare(node)
    else:
        written = chosen(node) if isinstance(node, FunctionCall) else None
        for part in parts_of(written or node):
            yield from reads(part)


def aliases_of(node: Expression) -> set[str | None]:
    """The events that ``node`` reads."""
    return {attribute.alias for attribute in attributes_in(node)}


def flag(node: Likeness) -> Case:
    """1 where ``node`` is true, 0 where it is false, else null."""
    false = Logic("not", (node,))
    return Case(((node, Constant(True)), (false, Constant(False))), None)


def chosen(node: FunctionCall) -> Case | None:
    """The CASE that a function of numbers is; None: it is none."""
    first, *_ = node.arguments
    *inner, last = node.arguments
    match node.function:
        case "abs":
            opposite = Comparison("<", first, Constant(0))
            return Case(((opposite, Arithmetic("-", Constant(0), first)),), first)
        case "coalesce":
            return Case(tuple((Presence(each), each) for each in inner), last)
        case "least" | "greatest":
            op = "<=" if node.function == "least" else ">="
            return Case(tuple((_best(each, node.arguments, op), each) for each in inner), last)
    return None


def _best(one: Expression, among: tuple[Expression, ...], op: str) -> Logic:
    """That ``one`` is there, and ``op`` all of the others that are."""
    beside = [
        Logic("or", (Logic("not", (Presence(other),)), Comparison(op, one, other)))
        for other in among
        if other is not one
    ]
    return Logic("and", (Presence(one), *beside))
