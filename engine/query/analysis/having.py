"""HAVING: a condition on aggregates of a window."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from engine.query.aggregates import TAKES_TEXT
from engine.query.analysis.conditions import condition
from engine.query.analysis.judging import JudgingAggregates
from engine.query.analysis.named_calls import with_names
from engine.query.fields import FIELDS, ValueKind
from engine.query.language import syntax as s
from engine.query.plan import Attribute, Predicate

_COUNTS: Final = frozenset({"count", "count_distinct"})
"""Of texts, too, but numbers themselves."""


def having_of(clause: s.Having, aggregates: JudgingAggregates) -> Predicate:
    """The predicate of ``clause``, which names ``aggregates`` by their labels.

    Raises:
        UserError: it names anything but aggregates, or compares a number that one gives with text.
    """
    context = aggregates.context

    def resolve(reference: s.Reference) -> Attribute:
        name = reference.parts[-1].text
        if name not in called or len(reference.parts) > 1:
            name = aggregates.label(reference, "HAVING")
        if name in FIELDS:
            hint = "give it another name with AS"
            raise context.refuse(reference.at, f"{name!r} is a field of events, too", hint)
        return Attribute(name)

    called: set[str] = set()

    def named(call: s.Call) -> s.Reference:
        label = aggregates.label(call, "HAVING")
        called.add(label)
        return s.Reference((s.Name(label, call.at, quoted=True),), call.at)

    of_calls = with_names(clause.condition, named)
    kinds = {
        one.label: ValueKind.NUMBER for one in (*aggregates.selected, *aggregates.hidden)
        if one.function in _COUNTS or one.function not in TAKES_TEXT
    }  # fmt: skip
    return condition(of_calls, replace(context, resolve=resolve, kinds=kinds))
