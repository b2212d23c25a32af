"""What RETURN selects: attributes of the events, and values computed from a whole match."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from engine.query.analysis.conditions import value
from engine.query.analysis.typed import Context
from engine.query.fields import attributes_in
from engine.query.language import syntax as s
from engine.query.language.place import Span
from engine.query.plan import Attribute, Computed, Step
from engine.query.render_values import render_expression


class Returned(Struct, frozen=True):
    """One entry of RETURN: the steps that it names, and where it stands."""

    value: Attribute | Computed
    aliases: frozenset[str]
    at: Span


def read_returns(
    clause: s.Returns | None, steps: Mapping[str, Step], context: Context
) -> list[Returned]:
    """The entries of RETURN; one with AS, or that is no plain attribute, is computed.

    Raises:
        UserError: an entry names no event or a negated step, stands there twice, or two computed
            ones have the same label.
    """
    found: list[Returned] = []
    labels: set[str] = set()
    for item in clause.items if clause else ():
        expression = value(item.value, context)
        named = list(attributes_in(expression))
        if not named:
            hint = "leave it out, or name an attribute of a step"
            raise context.refuse(item.value.at, "this is the same for every match", hint)
        aliases = frozenset(str(attribute.alias) for attribute in named)
        for alias in sorted(aliases):
            if steps[alias].negated:
                raise context.refuse(item.value.at, f"{alias!r} is negated, so no match has it")
        if isinstance(expression, Attribute) and item.label is None:
            if any(expression == other.value for other in found):
                raise context.refuse(item.value.at, "this is returned twice")
            found.append(Returned(expression, aliases, item.value.at))
            continue
        label = item.label.text if item.label else render_expression(expression)
        if label in labels:
            at = item.label.at if item.label else item.value.at
            hint = "give one of them another name with AS"
            raise context.refuse(at, f"two results are named {label!r}", hint)
        labels.add(label)
        found.append(Returned(Computed(label, expression), aliases, item.value.at))
    return found


def selected(
    entries: list[Returned], aliases: set[str]
) -> tuple[tuple[Attribute, ...], tuple[Computed, ...]]:
    """``returns`` and ``computed`` of a plan with the steps ``aliases``."""
    mine = [entry.value for entry in entries if entry.aliases <= aliases]
    return (
        tuple(each for each in mine if isinstance(each, Attribute)),
        tuple(each for each in mine if isinstance(each, Computed)),
    )
