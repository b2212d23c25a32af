"""Calls that a clause gives a meaning of its own, as names in the condition around them."""

from __future__ import annotations

from collections.abc import Callable

from engine.query.functions import FUNCTIONS
from engine.query.language import syntax as s


def with_names(node: s.Node, named: Callable[[s.Call], s.Node]) -> s.Node:
    """``node`` with what ``named`` gives in place of each call of anything but a function."""

    def inner(part: s.Node) -> s.Node:
        return with_names(part, named)

    match node:
        case s.Call(function=function, arguments=arguments):
            if function.text.lower() in FUNCTIONS and not node.star:
                return node._replace(arguments=tuple(map(inner, arguments)))
            return named(node)
        case s.IsNull(item=item) | s.Like(item=item):
            return node._replace(item=inner(item))
        case s.CaseNode(operand=operand, whens=whens, otherwise=otherwise):
            return node._replace(
                operand=None if operand is None else inner(operand),
                whens=tuple(s.When(inner(when), inner(then)) for when, then in whens),
                otherwise=None if otherwise is None else inner(otherwise),
            )
        case s.Junction(terms=terms):
            return node._replace(terms=tuple(map(inner, terms)))
        case s.Binary(left=left, right=right):
            return node._replace(left=inner(left), right=inner(right))
        case s.Negative(term=term):
            return node._replace(term=inner(term))
        case s.Among(item=item, options=options):
            return node._replace(item=inner(item), options=tuple(map(inner, options)))
    return node
