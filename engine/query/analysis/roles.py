"""What names mean in a pattern's clauses: RETURN, repeated steps, FROM and PARTITION BY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from slackwater.engine.query.analysis.conditions import value
from slackwater.engine.query.analysis.pattern import Term
from slackwater.engine.query.analysis.typed import Context, Typed, attribute_of, member_of, only
from slackwater.engine.query.fields import FIELDS, ValueKind, attribute_name, attributes_in
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import QueryReader, Span, closest, listed, refuse
from slackwater.engine.query.language.syntax import From, PartitionBy
from slackwater.engine.query.plan import Attribute, Comparison, Computed, Constant, Membership, Step
from slackwater.engine.query.render import render_expression
from slackwater.engine.query.repeat_plan import (
    BEFORE,
    COLLECTED,
    COUNT,
    EACH,
    FIRST,
    LAST,
    ROLE,
    Often,
    step_and_role,
    with_role,
)

# What RETURN selects: attributes of the events, and values computed from a whole match.


class Returned(Struct, frozen=True):
    """One entry of RETURN: the steps that it names, and its place in the text."""

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


# What names mean in a pattern whose steps repeat: ``a[i].v``, ``first(a.v)``, ``count(a)``.


ROLES_OF_ALL: Final = {FIRST, LAST, *COLLECTED}
"""Functions of all events of a step that repeats."""
_NUMBERS: Final = {"sum", "avg", "min", "max"}


class RepeatedNames(QueryReader):
    """Names of a pattern with these ``steps``, by alias, and how ``often`` each occurs."""

    def __init__(self, text: str, steps: Mapping[str, Step], often: Mapping[str, Often]) -> None:
        self.text, self.steps, self.often = text, steps, often
        self.roles = ["", *(ROLE + role for role in (EACH, BEFORE, *sorted(ROLES_OF_ALL)))]

    def resolve(self, reference: s.Reference) -> Attribute:
        """What a condition names.

        Raises:
            UserError: no such step, or not which of a repeated step's events.
        """
        alias, name = self._parts(reference)
        if not self.often[alias].repeats:
            return self._once(reference, alias, name)
        if reference.step_index is None:
            message = f"{alias!r} repeats: which of its events is meant?"
            raise self.refuse(reference.at, message, self._choices(alias, name))
        return Attribute(name, with_role(alias, self._index(reference, alias)))

    def returned(self, reference: s.Reference) -> Attribute:
        """What RETURN names: without an index, of a step that repeats, of all its events."""
        alias, name = self._parts(reference)
        if reference.step_index is not None:
            message = "RETURN has values of whole matches"
            raise self.refuse(reference.at, message, self._choices(alias, name, of_match=True))
        return Attribute(name, alias)

    def one_value(self, reference: s.Reference) -> Attribute:
        """What names one value of a whole match.

        Raises:
            UserError: several events of a match have it.
        """
        if reference.step_index is not None:
            alias, name = self._parts(reference)
            message = "a CHECK has values of whole matches"
            raise self.refuse(reference.at, message, self._choices(alias, name, of_match=True))
        found = self.returned(reference)
        alias = str(found.alias)
        if self.often[alias].repeats:
            message = f"{alias!r} repeats, so this has several values"
            hint = self._choices(alias, found.name, of_match=True)
            raise self.refuse(reference.at, message, hint)
        return found

    def checked(self, entry: Returned) -> Returned:
        """An entry of RETURN, which is computed if it is made of several events.

        Raises:
            UserError: it is made of an attribute that several events of a match have.
        """
        if isinstance(entry.value, Attribute):
            if ROLE not in str(entry.value.alias):
                return entry
            return replace(entry, value=Computed(render_expression(entry.value), entry.value))
        for each in sorted(entry.aliases):
            alias, role = step_and_role(each)
            if not role and self.often[alias].repeats:
                message = f"{alias!r} repeats, so this has several values"
                raise self.refuse(entry.at, message, self._choices(alias, "v", of_match=True))
        return entry

    def collected(self, call: s.Call) -> Typed | None:
        """The aggregate that a call is, if it is one.

        Raises:
            UserError: of no step that repeats, or of times, whose clocks may err.
        """
        function = call.function.text.lower()
        if function not in ROLES_OF_ALL:
            return None
        argument = call.arguments[0] if len(call.arguments) == 1 else None
        if (
            not isinstance(argument, s.Reference)
            or argument.step_index is not None
            or call.distinct
        ):
            hint = "as in count(a)" if function == COUNT else f"as in {function}(a.v)"
            hint += "; a[i - 1].v is of the event before a[i]" if len(call.arguments) > 1 else ""
            raise self.refuse(call.at, f"{function} takes a step that repeats", hint)
        if function == COUNT:
            counted = with_role(self._counted(argument), COUNT)
            return Typed(Attribute("seq", counted, argument.at), ValueKind.NUMBER)
        alias, name = self._parts(argument)
        if not self.often[alias].repeats:
            message = f"{alias!r} does not repeat"
            raise self.refuse(argument.at, message, f"write {alias}.{name}")
        kind = FIELDS.get(name, ValueKind.ANY)
        if function in _NUMBERS and kind in {ValueKind.TIME, ValueKind.TEXT}:
            message = f"{name!r} is {kind}, and {function} takes numbers"
            hint = f"first({alias}.{name}) and last({alias}.{name}) are its least and largest"
            raise self.refuse(argument.at, message, hint if kind == ValueKind.TIME else "")
        kind = ValueKind.NUMBER if function in _NUMBERS else kind
        at = argument.parts[-1].at
        return Typed(Attribute(name, with_role(alias, function), at), kind)

    def partition(self, clause: PartitionBy | None) -> tuple[str, ...]:
        """The attributes of PARTITION BY.

        Raises:
            UserError: one is a step's, a time, or stands there twice.
        """
        found: list[str] = []
        for reference in clause.references if clause else ():
            name = partition_name(reference, self.text, self.steps)
            if name in found:
                raise self.refuse(reference.at, "this is there twice", "leave one out")
            found.append(name)
        return tuple(found)

    # ---- parts -------------------------------------------------------------------------------
    def _parts(self, reference: s.Reference) -> tuple[str, str]:
        alias = reference.parts[0]
        if alias.text not in self.steps:
            if len(reference.parts) == 1 and len(self.steps) == 1:
                return next(iter(self.steps)), attribute_name(alias.text, own=False)
            near = closest(alias.text, self.steps)
            hint = f"the steps are {listed(self.steps)}" + (f"; {near}" if near else "")
            raise self.refuse(alias.at, f"there is no step named {alias.text!r}", hint)
        return alias.text, member_of(reference, self.text, "a step")

    def _once(self, reference: s.Reference, alias: str, name: str) -> Attribute:
        if reference.step_index is not None:
            hint = f"write {alias}.{name}, or {alias} with + behind its type"
            raise self.refuse(reference.step_index.at, f"{alias!r} does not repeat", hint)
        return Attribute(name, alias)

    def _index(self, reference: s.Reference, alias: str) -> str:
        index = reference.step_index
        assert index is not None
        if index.variable is None or index.variable.text.lower() != "i":
            hint = f"{alias}[i] is each event, {alias}[i - 1] the one before; first(), last()"
            raise self.refuse(index.at, "an index is i or i - 1", hint)
        if index.less > 1:
            hint = f"compare {alias}[i] with {alias}[i - 1]"
            raise self.refuse(index.at, "neighbours are compared, not events further apart", hint)
        return BEFORE if index.less else EACH

    def _counted(self, argument: s.Reference) -> str:
        alias = argument.parts[0]
        if len(argument.parts) > 1 or alias.text not in self.steps:
            hint = f"the steps are {listed(self.steps)}, as in count({next(iter(self.steps))})"
            raise self.refuse(argument.at, "count takes a step", hint)
        if self.often[alias.text] == Often():
            raise self.refuse(argument.at, f"{alias.text!r} occurs once", "leave this out")
        return alias.text

    def _choices(self, alias: str, name: str, *, of_match: bool = False) -> str:
        aggregates = f"first({alias}.{name}), last({alias}.{name}), or sum, avg, min, max of all"
        if of_match:
            return f"write {aggregates}"
        each, before = f"{alias}[i].{name} for each", f"{alias}[i - 1].{name} for the one before"
        return f"write {each}, {before}, {aggregates}"


def partition_name(reference: s.Reference, text: str, steps: Mapping[str, Step]) -> str:
    """The attribute that an entry of PARTITION BY names.

    Raises:
        UserError: it is a step's, or a time.
    """
    before, name = attribute_of(reference.parts)
    if before or reference.step_index is not None:
        step = before[0].text if before and before[0].text in steps else "a step"
        message = f"PARTITION BY names an attribute of all events, not of {step}"
        raise refuse(text, reference.at, message, f"write {reference.parts[-1].text}")
    if FIELDS.get(name) == ValueKind.TIME:
        hint = "partition by an attribute, or by source, stream or type"
        raise refuse(text, reference.at, f"{name!r} is a time", hint)
    return name


# FROM and PARTITION BY of a pattern: conditions on all of its steps.


def whole_pattern_of(parsed: s.EventQuery) -> s.EventQuery:
    """``EVENT A a`` as the SEQ that it is."""
    step = parsed.pattern
    if not isinstance(step, s.StepNode):
        return parsed
    return parsed._replace(pattern=s.GroupNode("SEQ", (step,), (), step.at, step.depth + 1))


def terms_of_clauses(
    clauses: tuple[s.Clause, ...], branches: Sequence[Sequence[Step]], text: str
) -> list[Term]:
    """What FROM and PARTITION BY ask of a pattern with these steps, by alternative.

    Raises:
        UserError: one is given twice, or PARTITION BY names what is no attribute of all events.
    """
    sources, partition = only(clauses, From, text), only(clauses, PartitionBy, text)
    known = {step.alias: step for steps in branches for step in steps}
    found: list[Term] = []
    if sources is not None:
        names = tuple(Constant(each.text) for each in sources.streams)
        for alias in known:
            inside = Membership(Attribute("stream", alias), names)
            found.append(Term(inside, frozenset({alias}), sources.at))
    for reference in partition.references if partition is not None else ():
        assert partition is not None
        name = partition_name(reference, text, known)
        pairs: dict[tuple[str, str], None] = {}
        for steps in branches:
            anchor = next(step.alias for step in steps if not step.negated)
            pairs |= {(anchor, step.alias): None for step in steps if step.alias != anchor}
        for one, two in pairs:
            same = Comparison("=", Attribute(name, one), Attribute(name, two))
            found.append(Term(same, frozenset({one, two}), reference.at))
    return found
