"""HAVING: a condition on the aggregates that a query selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.query.analysis.conditions import condition
from engine.query.analysis.typed import Context
from engine.query.fields import FIELDS
from engine.query.functions import FUNCTIONS
from engine.query.language import syntax as s
from engine.query.plan import Aggregate, Attribute, Predicate


def having_of(
    clause: s.Having,
    aggregates: Sequence[Aggregate],
    context: Context,
    made: Callable[[s.Call], Aggregate],
) -> Predicate:
    """The predicate of ``clause``, which names ``aggregates`` by their labels.

    Args:
        clause: as it is written, aggregates as calls or by their names.
        aggregates: those that the query selects.
        context: of the query.
        made: the aggregate that a call writes.

    Raises:
        UserError: it names anything but aggregates that are selected.
    """

    def resolve(reference: s.Reference) -> Attribute:
        name = named_aggregate(reference, aggregates, context, made, "HAVING")
        if name in FIELDS:
            hint = "give it another name with AS"
            raise context.refuse(reference.at, f"{name!r} is a field of events, too", hint)
        return Attribute(name)

    def named(call: s.Call) -> s.Reference:
        label = named_aggregate(call, aggregates, context, made, "HAVING")
        return s.Reference((s.Name(label, call.at, quoted=True),), call.at)

    return condition(_with_names(clause.condition, named), replace(context, resolve=resolve))


def named_aggregate(
    node: s.Call | s.Reference,
    aggregates: Sequence[Aggregate],
    context: Context,
    made: Callable[[s.Call], Aggregate],
    clause: str,
) -> str:
    """The label of the selected aggregate that ``node`` names, in ``clause``.

    Raises:
        UserError: it is none.
    """
    if isinstance(node, s.Call):
        asked = made(node)
        for one in aggregates:
            if replace(one, label=asked.label) == asked:
                return one.label
        hint = f"{clause} takes aggregates that are in the SELECT list"
        raise context.refuse(node.at, f"{asked.label} is not selected", hint)
    name = node.parts[-1].text
    if len(node.parts) > 1 or name not in [one.label for one in aggregates]:
        hint = "conditions on events and groups stand in WHERE"
        if clause != "HAVING":
            hint = f"{clause} takes aggregates that are in the SELECT list"
        raise context.refuse(node.at, f"{name!r} is none of the aggregates", hint)
    return name


def _with_names(node: s.Node, named: Callable[[s.Call], s.Reference]) -> s.Node:
    """``node`` with the name of each aggregate in place of its call."""

    def inner(part: s.Node) -> s.Node:
        return _with_names(part, named)

    match node:
        case s.Call(function=function, arguments=arguments):
            if function.text.lower() in FUNCTIONS and not node.star:
                return replace(node, arguments=tuple(map(inner, arguments)))
            return named(node)
        case s.IsNull(item=item):
            return replace(node, item=inner(item))
        case s.CaseNode(operand=operand, whens=whens, otherwise=otherwise):
            return replace(
                node,
                operand=None if operand is None else inner(operand),
                whens=tuple((inner(when), inner(then)) for when, then in whens),
                otherwise=None if otherwise is None else inner(otherwise),
            )
        case s.Junction(terms=terms):
            return replace(node, terms=tuple(map(inner, terms)))
        case s.Binary(left=left, right=right):
            return replace(node, left=inner(left), right=inner(right))
        case s.Negative(term=term):
            return replace(node, term=inner(term))
        case s.Among(item=item, options=options):
            return replace(node, item=inner(item), options=tuple(map(inner, options)))
    return node
