"""From the parts of an EVENT query whose steps repeat to its plan.

Such a pattern is one SEQ of steps. What one condition asks of the events of several steps is asked
of a match; what it asks of one event alone decides which events are the step's at all.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from slackwater.engine.core.errors import UserError
from slackwater.engine.query.analysis.conditions import condition, fixed_length
from slackwater.engine.query.analysis.pattern import Pattern, Term, read_terms
from slackwater.engine.query.analysis.roles import (
    RepeatedNames,
    Returned,
    read_returns,
    selected,
    whole_pattern_of,
)
from slackwater.engine.query.analysis.typed import Context, only, times_of
from slackwater.engine.query.clocked import AS_STAMPED, is_clocked
from slackwater.engine.query.fields import attributes_in, inside, with_alias
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import QueryReader
from slackwater.engine.query.language.syntax import (
    ContiguityClause,
    From,
    LimitClause,
    OftenNode,
    PartitionBy,
    SkipClause,
)
from slackwater.engine.query.plan import (
    Case,
    FunctionCall,
    Likeness,
    Part,
    Predicate,
    combined,
)
from slackwater.engine.query.repeat_plan import (
    BEFORE,
    COLLECTED,
    EACH,
    Contiguity,
    Often,
    RepeatPlan,
    Skip,
    step_and_role,
)

STEPS_MAX: Final = 40
TIMES_MAX: Final = 10_000
LIMIT_MAX: Final = 1_000_000


def asks_for_repetition(parsed: s.EventQuery) -> bool:
    """Whether a step repeats or is optional, or the query limits its matches."""
    words = ContiguityClause | SkipClause | LimitClause
    steps = (each for each in s.inside(parsed.pattern) if isinstance(each, s.StepNode))
    return any(isinstance(each, words) for each in parsed.clauses) or any(
        step.often is not None for step in steps
    )


def repeat_plan(
    parsed: s.EventQuery, text: str, time_unit: str, name: str, realtime: int | None
) -> RepeatPlan:
    """The plan of a pattern whose steps repeat.

    Raises:
        UserError: a step, its number of times, a condition or a clause is at fault.
    """
    return _RepeatQuery(parsed, text, time_unit).plan(name, realtime)


class _RepeatPattern(Pattern):
    """One SEQ of steps, and how ``often`` each occurs, by alias; ``written``: where it says so."""

    kind, most = "a pattern with repetition", STEPS_MAX

    def __init__(self, parsed: s.PatternNode, text: str) -> None:
        self.often: dict[str, Often] = {}
        self.written: dict[str, OftenNode] = {}
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

    def _times(self, often: OftenNode) -> Often:
        least, most = times_of(often.words, TIMES_MAX, often.at, self.text)
        if most == 0:
            hint = "write !, as in SEQ(A a, !B b, C c), or leave the step out"
            raise self.refuse(often.at, "this step never occurs", hint)
        if most == 1 and often.array:
            hint = "leave [] out, or write + for one and more"
            raise self.refuse(often.at, "this step has one event at most, so it is no list", hint)
        return Often(least, most)


class _RepeatQuery(QueryReader):
    """The analysis of one query."""

    def __init__(self, parsed: s.EventQuery, text: str, time_unit: str) -> None:
        self.parsed, self.text, self.time_unit = parsed, text, time_unit
        self.pattern = pattern = _RepeatPattern(whole_pattern_of(parsed).pattern, text)
        self.steps, self.often = pattern.steps, pattern.often

    def plan(self, name: str, realtime: int | None) -> RepeatPlan:
        clauses = self.parsed.clauses
        names = RepeatedNames(self.text, self.steps, self.often)
        context = Context(self.text, self.time_unit, names.resolve, names.collected)
        self._read_until()
        within = only(clauses, s.Within, self.text)
        width = None if within is None else fixed_length(within, context, "a pattern that repeats")
        if width is None:
            self._check_ends()
        where, others = self._conditions(context)
        entries, everything = self._returned(names)
        returns, computed = selected(entries, {alias for one in entries for alias in one.aliases})
        partition_by = only(clauses, PartitionBy, self.text)
        partition = names.partition(partition_by)
        contiguity = only(clauses, ContiguityClause, self.text)
        skip = only(clauses, SkipClause, self.text)
        sources = only(clauses, From, self.text)
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
            own = RepeatedNames(self.text, {alias: self.steps[alias]}, {alias: Often()})
            context = Context(self.text, self.time_unit, own.resolve, own.collected)
            until = condition(often.until, context)
            if is_clocked(until):
                message = "UNTIL asks of an event alone, and clocks may err in its time"
                raise self.refuse(often.until.at, message, AS_STAMPED)
            self.often[alias] = replace(self.often[alias], until=until)

    def _check_ends(self) -> None:
        """Without WITHIN nothing bounds the scope of a negated step at either end."""
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
        """Conditions on each step's events alone, and on several events."""
        clause = only(self.parsed.clauses, s.Where, self.text)
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

    # ---- what is given -----------------------------------------------------------------------
    def _returned(self, names: RepeatedNames) -> tuple[list[Returned], bool]:
        clause = only(self.parsed.clauses, s.Returns, self.text)
        whole = Context(self.text, self.time_unit, names.returned, names.collected)
        known = {f"{alias}{role}": step for alias, step in self.steps.items()
                 for role in names.roles}  # fmt: skip
        entries = [names.checked(entry) for entry in read_returns(clause, known, whole)]
        return entries, clause is not None and clause.everything is not None

    def _limit(self) -> int | None:
        clause = only(self.parsed.clauses, LimitClause, self.text)
        if clause is None:
            return None
        if any(isinstance(each, SkipClause) for each in self.parsed.clauses):
            hint = "leave one of them out"
            raise self.refuse(clause.at, "LIMIT and SKIP both choose among matches", hint)
        limit = s.whole(clause.number.text)
        if not 0 < limit <= LIMIT_MAX:
            message = f"LIMIT is a whole number from 1 to {LIMIT_MAX:,}"
            hint = "so many matches are given of those with the same last event, the earliest"
            raise self.refuse(clause.number.at, message, hint)
        return limit


_SKIPS: Final = {"last": Skip.PAST_LAST, "next": Skip.TO_NEXT}


def _calculates_with_collected(node: Predicate) -> bool:
    """Whether a function, a CASE or a LIKE in ``node`` is of what is made of a step's events."""
    calls = (part for part in inside(node) if isinstance(part, FunctionCall | Case | Likeness))
    roles = {step_and_role(each.alias)[1] for call in calls for each in attributes_in(call)}
    return not roles.isdisjoint(COLLECTED)
