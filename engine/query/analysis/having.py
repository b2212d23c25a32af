"""HAVING: a condition on the aggregates that a query selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from engine.query.aggregates import TAKES_TEXT
from engine.query.analysis.conditions import condition
from engine.query.analysis.named_calls import with_names
from engine.query.analysis.typed import Context
from engine.query.fields import FIELDS, ValueKind
from engine.query.language import syntax as s
from engine.query.plan import Aggregate, Attribute, Predicate

_COUNTS: Final = frozenset({"count", "count_distinct"})
"""Of texts, too, but numbers themselves."""


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
        UserError: it names anything but aggregates that are selected, or compares a number that
            one gives with text.
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

    kinds = {
        one.label: ValueKind.NUMBER for one in aggregates
        if one.function in _COUNTS or one.function not in TAKES_TEXT
    }  # fmt: skip
    judged = replace(context, resolve=resolve, kinds=kinds)
    return condition(with_names(clause.condition, named), judged)


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
        hint = f"{clause} takes aggregates that are in the SELECT list: add {asked.label} to it"
        raise context.refuse(node.at, f"{asked.label} is not selected", hint)
    name = node.parts[-1].text
    if len(node.parts) > 1 or name not in [one.label for one in aggregates]:
        hint = "conditions on events and groups stand in WHERE"
        if clause != "HAVING":
            hint = f"{clause} takes aggregates that are in the SELECT list"
        raise context.refuse(node.at, f"{name!r} is none of the aggregates", hint)
    return name
