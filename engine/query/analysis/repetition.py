"""Analyse EVENT queries with repeated steps: build their plan from the parsed clauses.

Such a pattern is one SEQ of steps. A condition on one event alone filters the events of its step; a
condition on several events is evaluated on a match.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from slackwater.engine.core.errors import UserError
from slackwater.engine.query.analysis.conditions import condition, fixed_length
from slackwater.engine.query.analysis.pattern import (
    Pattern,
    Returned,
    Term,
    partition_name,
    read_returns,
    read_terms,
    selected,
    whole_pattern_of,
)
from slackwater.engine.query.analysis.value_kinds import (
    Context,
    Typed,
    member_of,
    only_clause,
    repetition_bounds,
    whole_number,
)
from slackwater.engine.query.clock_sensitivity import AS_STAMPED, is_clocked
from slackwater.engine.query.fields import (
    FIELDS,
    ValueKind,
    attribute_name,
    attributes_in,
    inside,
    with_alias,
)
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import QueryReader, listed, or_meant
from slackwater.engine.query.plan import (
    Attribute,
    Case,
    Computed,
    FunctionCall,
    Likeness,
    Part,
    Predicate,
    Step,
    combined,
)
from slackwater.engine.query.render import render_expression
from slackwater.engine.query.repeat_plan import (
    BEFORE,
    COLLECTED,
    COUNT,
    EACH,
    FIRST,
    LAST,
    ROLE,
    Contiguity,
    Often,
    RepeatPlan,
    Skip,
    step_and_role,
    with_role,
)

STEPS_MAX: Final = 40
TIMES_MAX: Final = 10_000
LIMIT_MAX: Final = 1_000_000


def asks_for_repetition(parsed: s.EventQuery) -> bool:
    """Return whether a step repeats or is optional, or a clause restricts the matches."""
    words = s.ContiguityClause | s.SkipClause | s.LimitClause | s.OftenNode
    return any(isinstance(node, words) for node in s.walk(parsed))


def repeat_plan(
    parsed: s.EventQuery, text: str, time_unit: str, name: str, realtime: int | None
) -> RepeatPlan:
    """Build the plan of a pattern with repeated steps.

    Raises:
        UserError: a step, its number of repetitions, a condition or a clause is invalid.
    """
    return _RepeatQuery(parsed, text, time_unit).plan(name, realtime)


# Names in a pattern with repeated steps: ``a[i].v``, ``first(a.v)``, ``count(a)``.


ROLES_OF_ALL: Final = {FIRST, LAST, *COLLECTED}
"""Functions over all events of a repeated step."""
_NUMBERS: Final = {"sum", "avg", "min", "max"}


class RepeatedNames(QueryReader):
    """Resolves names by alias; ``often``: how many times each of the ``steps`` occurs."""

    def __init__(self, text: str, steps: Mapping[str, Step], often: Mapping[str, Often]) -> None:
        self.text, self.steps, self.often = text, steps, often
        self.roles = ["", *(ROLE + role for role in (EACH, BEFORE, *sorted(ROLES_OF_ALL)))]

    def resolve(self, reference: s.Reference) -> Attribute:
        """Return the attribute that a condition names.

        Raises:
            UserError: the step is unknown, or the event of a repeated step is ambiguous.
        """
        alias, name = self._parts(reference)
        if not self.often[alias].repeats:
            return self._once(reference, alias, name)
        if reference.step_index is None:
            message = f"{alias!r} repeats: which of its events is meant?"
            raise self.refuse(reference.at, message, self._choices(alias, name))
        return Attribute(name, with_role(alias, self._index(reference, alias)))

    def returned(self, reference: s.Reference) -> Attribute:
        """Return the attribute in RETURN; without index it stands for all events of a repeated
        step.
        """
        alias, name = self._parts(reference)
        if reference.step_index is not None:
            message = "RETURN has values of whole matches"
            raise self.refuse(reference.at, message, self._choices(alias, name, of_match=True))
        return Attribute(name, alias)

    def one_value(self, reference: s.Reference) -> Attribute:
        """Return an attribute that has one value in a match.

        Raises:
            UserError: several events of a match have the attribute.
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
        """Return an entry of RETURN, computed if it reads several events.

        Raises:
            UserError: an attribute has several values in a match.
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
        """Return the aggregate over a repeated step that ``call`` is; None for another function.

        Raises:
            UserError: the step does not repeat, or the values are times or text.
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
            count_alias = with_role(self._repeating_step(argument), COUNT)
            return Typed(Attribute("seq", count_alias, argument.at), ValueKind.NUMBER)
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

    def partition(self, clause: s.PartitionBy | None) -> tuple[str, ...]:
        """Return the attributes of PARTITION BY.

        Raises:
            UserError: an attribute belongs to a step, is a time, or is named twice.
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
                return next(iter(self.steps)), attribute_name(alias.text, qualified=False)
            hint = or_meant(f"the steps are {listed(self.steps)}", alias.text, self.steps)
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

    def _repeating_step(self, argument: s.Reference) -> str:
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


class _RepeatPattern(Pattern):
    """One SEQ of steps; ``often``: repetitions by alias; ``written``: their places in the text."""

    kind, most = "a pattern with repetition", STEPS_MAX

    def __init__(self, parsed: s.PatternNode, text: str) -> None:
        self.often: dict[str, Often] = {}
        self.written: dict[str, s.OftenNode] = {}
        self.outermost = parsed
        super().__init__(parsed, text)
        if all(step.negated or not self.often[alias].least for alias, step in self.steps.items()):
            message = "every step of this pattern may be missing"
            raise self.refuse(parsed.at, message, "at least one must occur: write + for *")

    def _part(self, node: s.PatternNode, parent: str) -> Part:
        if isinstance(node, s.IseqNode) or (
            isinstance(node, s.GroupNode)
            and node.alias is None
            and (node.op != "SEQ" or node is not self.outermost)
        ):
            word = node.op if isinstance(node, s.GroupNode) else "ISEQ"
            message = f"{word}(...) cannot be in a pattern whose steps repeat"
            hint = "such a pattern is one SEQ of steps; of two types: OR(A, B) x"
            raise self.refuse(node.at, message, hint)
        return super()._part(node, parent)

    def _interval_steps(self) -> Part:
        return self._part(self.outermost, "")

    def _unrelated(self, relation: s.Relation) -> UserError:
        hint = "write ',': with repetition and CONTIGUITY, steps are points"
        return self.refuse(relation.at, f"{relation.word} relates intervals", hint)

    def _add(self, node: s.StepNode, *, negated: bool) -> int:
        if negated and node.often is not None:
            message = "a negated step must not occur at all, so it does not repeat"
            raise self.refuse(node.often.at, message, f"write !{node.type.text}")
        place = super()._add(node, negated=negated)
        alias = node.alias or node.type
        self.spans[place] = alias.at
        self.often[alias.text] = Often() if node.often is None else self._times(node.often)
        if node.often is not None:
            self.written[alias.text] = node.often
        return place

    def _times(self, often: s.OftenNode) -> Often:
        least, most = repetition_bounds(often.words, TIMES_MAX, often.at, self.text)
        if most == 0:
            hint = "write !, as in SEQ(A a, !B b, C c), or leave the step out"
            raise self.refuse(often.at, "this step never occurs", hint)
        if most == 1 and often.array:
            hint = "leave [] out, or write + for one and more"
            raise self.refuse(often.at, "this step has one event at most, so it is no list", hint)
        return Often(least, most)


class _RepeatQuery(QueryReader):
    """The analysis of one query with repeated steps."""

    def __init__(self, parsed: s.EventQuery, text: str, time_unit: str) -> None:
        self.parsed, self.text, self.time_unit = parsed, text, time_unit
        self.pattern = pattern = _RepeatPattern(whole_pattern_of(parsed).pattern, text)
        self.steps, self.often = pattern.steps, pattern.often

    def plan(self, name: str, realtime: int | None) -> RepeatPlan:
        clauses = self.parsed.clauses
        names = RepeatedNames(self.text, self.steps, self.often)
        context = Context(self.text, self.time_unit, names.resolve, names.collected)
        self._read_until()
        within = only_clause(clauses, s.Within, self.text)
        width = None if within is None else fixed_length(within, context, "a pattern that repeats")
        if width is None:
            self._check_ends()
        where, others = self._conditions(context)
        entries, everything = self._returned(names)
        returns, computed = selected(entries, {alias for one in entries for alias in one.aliases})
        partition_by = only_clause(clauses, s.PartitionBy, self.text)
        partition = names.partition(partition_by)
        contiguity = only_clause(clauses, s.ContiguityClause, self.text)
        skip = only_clause(clauses, s.SkipClause, self.text)
        sources = only_clause(clauses, s.From, self.text)
        return RepeatPlan(
            name,
            self.text,
            tuple(replace(step, where=where.get(alias)) for alias, step in self.steps.items()),
            others=others,
            within_ns=width,
            returns=returns,
            computed=computed,
            realtime=realtime,
            often=tuple(self.often.values()),
            partition=partition,
            contiguity=Contiguity(contiguity.word) if contiguity else Contiguity.ANY,
            skip=_SKIPS[skip.word] if skip else Skip.NONE,
            limit=self._limit(),
            sources=tuple(each.text for each in sources.streams) if sources else (),
            everything=everything,
        )

    # ---- steps -------------------------------------------------------------------------------
    def _read_until(self) -> None:
        for alias, often in self.pattern.written.items():
            if often.until is None:
                continue
            if not self.often[alias].repeats:
                message = f"{alias!r} does not repeat, so nothing ends it"
                raise self.refuse(often.until.at, message, "put the condition into WHERE")
            names = RepeatedNames(self.text, {alias: self.steps[alias]}, {alias: Often()})
            context = Context(self.text, self.time_unit, names.resolve, names.collected)
            until = condition(often.until, context)
            if is_clocked(until):
                message = "UNTIL asks of an event alone, and clocks may err in its time"
                raise self.refuse(often.until.at, message, AS_STAMPED)
            self.often[alias] = replace(self.often[alias], until=until)

    def _check_ends(self) -> None:
        """Refuse a negated step at either end without WITHIN: nothing bounds its scope."""
        aliases = list(self.steps)
        present = [n for n, alias in enumerate(aliases)
                   if not self.steps[alias].negated and self.often[alias].least]  # fmt: skip
        for place, alias in enumerate(aliases):
            if self.steps[alias].negated and not present[0] < place < present[-1]:
                message = f"{alias!r} is negated and may be at an end: nothing says how far"
                hint = "add WITHIN: it must not occur that long before the last, or after the first"
                raise self.refuse(self.pattern.spans[place], message, hint)

    # ---- conditions --------------------------------------------------------------------------
    def _conditions(self, context: Context) -> tuple[dict[str, Predicate], tuple[Predicate, ...]]:
        """Return conditions by step for single events, and conditions on several events."""
        clause = only_clause(self.parsed.clauses, s.Where, self.text)
        steps = list(self.steps.values())
        single: dict[str, list[Predicate]] = {}
        others: list[Predicate] = []
        for term in read_terms(clause.condition if clause else None, steps, context):
            named = {step_and_role(alias) for alias in term.aliases}
            self._check(term, named)
            if len(named) == 1 and next(iter(named))[1] in {"", EACH}:
                alias = next(iter(named))[0]
                single.setdefault(alias, []).append(with_alias(term.predicate, alias))  # no role
            else:
                others.append(term.predicate)
        where = {alias: combined("and", terms) for alias, terms in single.items()}
        return where, tuple(others)

    def _check(self, term: Term, named: set[tuple[str, str]]) -> None:
        each = sorted({alias for alias, role in named if role in {EACH, BEFORE}})
        negated = sorted(alias for alias, _ in named if self.steps[alias].negated)
        if len(each) > 1:
            message = f"this compares each event of {each[0]!r} with each of {each[1]!r}"
            hint = (
                f"name one of them by index, of the other first({each[1]}.v) or last({each[1]}.v)"
            )
            raise self.refuse(term.at, message, hint)
        if each and negated:
            message = f"{negated[0]!r} is negated: which event of {each[0]!r} is meant?"
            hint = f"compare with first({each[0]}.v) or last({each[0]}.v)"
            raise self.refuse(term.at, message, hint)
        if _calculates_with_collected(term.predicate):
            message = "functions take values of events, and this one takes what is made of several"
            hint = "compare sum, avg, min, max and count as they are, or with + - * /"
            raise self.refuse(term.at, message, hint)

    # ---- results -----------------------------------------------------------------------------
    def _returned(self, names: RepeatedNames) -> tuple[list[Returned], bool]:
        clause = only_clause(self.parsed.clauses, s.Returns, self.text)
        whole = Context(self.text, self.time_unit, names.returned, names.collected)
        known = {f"{alias}{role}": step for alias, step in self.steps.items()
                 for role in names.roles}  # fmt: skip
        entries = [names.checked(entry) for entry in read_returns(clause, known, whole)]
        return entries, clause is not None and clause.everything is not None

    def _limit(self) -> int | None:
        clause = only_clause(self.parsed.clauses, s.LimitClause, self.text)
        if clause is None:
            return None
        if any(isinstance(each, s.SkipClause) for each in self.parsed.clauses):
            hint = "leave one of them out"
            raise self.refuse(clause.at, "LIMIT and SKIP both choose among matches", hint)
        message = f"LIMIT is a whole number from 1 to {LIMIT_MAX:,}"
        hint = "so many matches are given of those with the same last event, the earliest"
        return whole_number(clause.number, LIMIT_MAX, self.text, message, hint)


_SKIPS: Final = {"last": Skip.PAST_LAST, "next": Skip.TO_NEXT}


def _calculates_with_collected(node: Predicate) -> bool:
    """Whether a function, a CASE or a LIKE in ``node`` takes an aggregate over a step's events."""
    calls = (part for part in inside(node) if isinstance(part, FunctionCall | Case | Likeness))
    roles = {step_and_role(each.alias)[1] for call in calls for each in attributes_in(call)}
    return not roles.isdisjoint(COLLECTED)
