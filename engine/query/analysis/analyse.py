"""Convert the syntax tree of a query to its plan: entry points, and EVENT queries."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import Period, longest_workdays, unit_ns
from slackwater.engine.query.analysis.checks import checked_plan, monitor_plan
from slackwater.engine.query.analysis.conditions import fixed_length, length_of
from slackwater.engine.query.analysis.consistency import check_pattern
from slackwater.engine.query.analysis.interval_tree import (
    TreePattern,
    bare_branches,
    is_tree,
    tree_plan,
)
from slackwater.engine.query.analysis.join import join_plan
from slackwater.engine.query.analysis.pattern import (
    Pattern,
    Returned,
    Term,
    placed,
    read_returns,
    read_terms,
    selected,
    split,
    terms_of_clauses,
    whole_pattern_of,
)
from slackwater.engine.query.analysis.repetition import asks_for_repetition, repeat_plan
from slackwater.engine.query.analysis.selection import select_plan
from slackwater.engine.query.analysis.tlist import Restrictions
from slackwater.engine.query.analysis.value_kinds import (
    Context,
    attribute_of,
    member_of,
    only_clause,
)
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import QueryReader, refuse
from slackwater.engine.query.language.other_dialects import in_our_words
from slackwater.engine.query.language.parse import parse
from slackwater.engine.query.language.statements import statements
from slackwater.engine.query.plan import (
    Attribute,
    Group,
    OrPlan,
    Part,
    Plan,
    PointRelation,
    SeqPlan,
    Step,
)
from slackwater.engine.query.reference_tables import (
    NO_TABLES,
    TableLookup,
    Tables,
    read_lookups,
)
from slackwater.engine.query.shape import shape_of

_ENDS: Final = (" WITHIN 10 s", " WINDOW TUMBLING 10 s")
"""Clauses that statements in other languages lack: a bound in time."""


def query(
    text: str, time_unit: str = "ns", name: str | None = None, tables: Tables = NO_TABLES
) -> Plan:
    """Return the plan of the query ``text``, named ``name`` (default ``q1``).

    Times without a unit are in ``time_unit``; ``tables``: for LOOKUP.

    >>> plan = query("EVENT SEQ(A a, B b) WHERE a.id = b.id WITHIN 5 s")
    >>> plan.equalities
    ((Attribute(name='id', alias='a'), Attribute(name='id', alias='b')),)

    Raises:
        UserError: the query is invalid; the message has its line, a caret and a remedy.
    """
    plan, explained = read_query(text, time_unit, name, tables)
    if explained:
        hint = "slackwater query prints the plan, and so does slackwater.engine.query.explain(plan)"
        at = (len(text) - len(text.lstrip()), len(text) - len(text.lstrip()) + len("EXPLAIN"))
        raise refuse(text, at, "EXPLAIN asks for the plan of a query, which has no answer", hint)
    return plan


def read_query(
    text: str, time_unit: str = "ns", name: str | None = None, tables: Tables = NO_TABLES
) -> tuple[Plan, bool]:
    """Return the plan as ``query``, and whether the text begins with EXPLAIN.

    Raises:
        UserError: the query is invalid.
    """
    try:
        parsed = parse(text)
        plan = analyse(parsed, text, time_unit, "q1" if name is None else name, tables)
    except UserError as error:
        instead = _statement_instead(text, time_unit, tables)
        if not instead:
            raise
        raise UserError(f"{error}\n  write {instead}") from error
    return plan, isinstance(parsed, s.ExplainQuery)


def _statement_instead(text: str, time_unit: str, tables: Tables) -> str:
    """Return the equivalent statement if ``text`` is in another query language; empty: it has no
    word of such a language, or there is no equivalent.
    """
    meant = in_our_words(text)
    for end in ("", *_ENDS) if meant != " ".join(text.split()) else ():
        try:
            for one in statements(meant + end):
                analyse(parse(one.text), one.text, time_unit, tables=tables)
        except UserError:
            continue  # another error, or a missing clause
        return meant + end
    return ""


def analyse(
    parsed: s.Query, text: str, time_unit: str = "ns", name: str = "q1", tables: Tables = NO_TABLES
) -> Plan:
    """Return the plan of a parsed query; for EXPLAIN the plan of its query.

    Raises:
        UserError: names, clauses or conditions are invalid.
    """
    unit_ns(time_unit)
    if isinstance(parsed, s.ExplainQuery):
        parsed = parsed.query
    lookups: tuple[TableLookup, ...] = ()
    if any(isinstance(clause, s.LookupClause) for clause in parsed.clauses):
        parsed, lookups = read_lookups(parsed, text, tables)
    plan = _unchecked(parsed, text, time_unit, name)
    plan = checked_plan(plan, parsed.clauses, text, time_unit)
    return replace(plan, lookups=lookups) if lookups else plan


def _unchecked(
    parsed: s.EventQuery | s.SelectQuery, text: str, time_unit: str, name: str
) -> Plan:  # fmt: skip
    if isinstance(parsed, s.SelectQuery) and any(isinstance(c, s.Join) for c in parsed.clauses):
        return join_plan(parsed, text, time_unit, name)
    if isinstance(parsed, s.SelectQuery):
        return select_plan(parsed, text, time_unit, name)
    pattern = _Event(parsed, text, time_unit).plan(name)
    under = only_clause(parsed.clauses, s.Under, text)
    if under is None:
        return pattern
    return monitor_plan(pattern, parsed, under, text, time_unit)


def _plain(group: Group) -> bool:
    """Whether ``group`` is one SEQ of steps, the default of a plan."""
    return group.op == "SEQ" and all(isinstance(part, int) for part in group.parts)


class _Event(QueryReader):
    """The analysis of one EVENT query."""

    def __init__(self, parsed: s.EventQuery, text: str, time_unit: str) -> None:
        self.parsed = parsed = whole_pattern_of(parsed)
        self.text = text
        self.context = Context(text, time_unit, self._resolve)
        self.steps: dict[str, Step] = {}

    def plan(self, name: str) -> SeqPlan | OrPlan:
        """Check names before conditions, as wrong aliases are more frequent."""
        clauses = self.parsed.clauses
        where = only_clause(clauses, s.Where, self.text)
        within = only_clause(clauses, s.Within, self.text)
        realtime = only_clause(clauses, s.Realtime, self.text)
        if asks_for_repetition(self.parsed):
            real = self._realtime(realtime)
            return repeat_plan(self.parsed, self.text, self.context.time_unit, name, real)
        returning = only_clause(clauses, s.Returns, self.text)
        if is_tree(self.parsed.pattern):
            pattern: Pattern = TreePattern(self.parsed.pattern, self.text)
        else:
            pattern = Pattern(self.parsed.pattern, self.text)
        self.steps = pattern.steps
        if isinstance(pattern, TreePattern):
            bare = bare_branches(name, pattern)
        else:
            bare = [self._bare(name, tree) for tree in pattern.alternatives()]
        relations: tuple[PointRelation, ...] = ()
        terms: list[Term] = []
        if pattern.iseq is not None:
            written = Restrictions(pattern.iseq, self.steps, pattern.spans, self.text)
            relations, terms = written.read(bounded=within is not None)
        elif within is None:
            for plan in bare:
                self._check_scopes(plan, pattern)
        terms += read_terms(
            where.condition if where else None, list(self.steps.values()), self.context
        )
        terms += terms_of_clauses(clauses, [plan.steps for plan in bare], self.text)
        width, calendar = self._width(within, pattern)
        entries = read_returns(returning, self.steps, self.context)
        whole = SeqPlan(
            name, self.text, (), within_ns=width, workdays=calendar,
            realtime=self._realtime(realtime),
            relations=relations,
            everything=returning is not None and returning.everything is not None,
        )  # fmt: skip
        if len(bare) == 1 and not isinstance(pattern, TreePattern):
            return self._branch(whole, bare[0], terms, entries, shared=False)
        self._check_alternatives(bare, terms, entries)
        shared = len(bare) > 1
        branches = tuple(self._branch(whole, plan, terms, entries, shared=shared) for plan in bare)
        if isinstance(pattern, TreePattern):
            returned = selected(entries, set(self.steps))
            return tree_plan(whole, branches, pattern, terms, returned)
        assert isinstance(pattern.tree, Group)
        known = {step.alias: step for branch in branches for step in branch.steps}
        return OrPlan(
            name,
            self.text,
            branches,
            whole.realtime,
            tuple(known[alias] for alias in self.steps),
            pattern.tree,
            tuple(term.predicate for term in terms),
            *selected(entries, set(self.steps)),
        )

    def _width(self, within: s.Within | None, pattern: Pattern) -> tuple[int | None, Period | None]:
        """Return the largest WITHIN [ns]; and its workdays, if it counts them."""
        if within is None:
            return None, None
        if isinstance(pattern, TreePattern):
            return fixed_length(within, self.context, "a tree of intervals"), None
        length = length_of(within.duration, within.zone, self.context, "WITHIN")
        if isinstance(length, Period):
            return longest_workdays(length), length
        return length, None

    def _bare(self, name: str, tree: Part) -> SeqPlan:
        """Return a plan with only the steps and groups of one alternative."""
        kept, part = placed(tree)
        steps = list(self.steps.values())
        group = part if isinstance(part, Group) and not _plain(part) else None
        return SeqPlan(name, self.text, tuple(steps[place] for place in kept), pattern=group)

    def _branch(
        self,
        whole: SeqPlan,
        bare: SeqPlan,
        terms: list[Term],
        entries: list[Returned],
        *,
        shared: bool,
    ) -> SeqPlan:
        """Return ``whole`` with the steps of ``bare``, and the conditions and values on these
        alone.
        """
        aliases = {step.alias for step in bare.steps}
        mine = [term for term in terms if term.aliases <= aliases]
        plan = replace(
            whole, steps=bare.steps, pattern=bare.pattern,
            relations=(*whole.relations, *bare.relations),
            scopes=bare.scopes, starts=bare.starts, ends=bare.ends,
        )  # fmt: skip
        check_pattern([(term.predicate, term.at) for term in mine], plan, self.context)
        parts = split(mine, bare.steps, shared=shared)
        returns, computed = selected(entries, aliases)
        return replace(
            plan,
            steps=tuple(replace(step, where=parts.where.get(step.alias)) for step in bare.steps),
            equalities=parts.equalities,
            others=(*bare.others, *parts.others),
            returns=returns,
            computed=computed,
        )

    def _check_scopes(self, bare: SeqPlan, pattern: Pattern) -> None:
        """Refuse a negated step at either end without WITHIN, as nothing bounds its scope."""
        for between in shape_of(bare).between:
            if between.leading or not between.right:
                alias = bare.steps[between.step].alias
                message = f"{alias!r} is negated and at an end: nothing says how far"
                hint = "add WITHIN: it must not occur that long before the last, or after the first"
                raise self.refuse(pattern.spans[list(self.steps).index(alias)], message, hint)

    def _check_alternatives(
        self, bare: list[SeqPlan], terms: list[Term], entries: list[Returned]
    ) -> None:
        """Refuse conditions or values on steps of several alternatives, and alternatives without
        values.

        A match for which RETURN selects nothing would be shown as a whole, with all attributes.
        """
        branches = [{step.alias for step in plan.steps} for plan in bare]
        spoken: list[Term | Returned] = [*terms, *entries]
        for each in spoken:
            if not any(each.aliases <= aliases for aliases in branches):
                message = "this names steps of which no match has all: they are alternatives"
                raise self.refuse(each.at, message, "write one for each alternative")
        for aliases in branches:
            if entries and not any(entry.aliases <= aliases for entry in entries):
                names = [alias for alias, step in self.steps.items() if not step.negated]
                left = next(alias for alias in names if alias in aliases)
                message = "a match of another alternative has nothing of what is returned"
                raise self.refuse(entries[0].at, message, f"return something of {left!r} too")

    def _resolve(self, reference: s.Reference) -> Attribute:
        alias = reference.parts[0]
        if alias.text not in self.steps:
            before, name = attribute_of(reference.parts)
            if before:
                raise self.no_step(alias.text, alias.at, self.steps)
            if len(self.steps) > 1:
                raise self.which("step", reference, self.steps)
            return Attribute(name, next(iter(self.steps)))
        return Attribute(member_of(reference, self.text, "a step"), alias.text)

    def _realtime(self, clause: s.Realtime | None) -> int | None:
        if clause is None:
            return None
        if clause.number.text not in {"0", "1"}:
            hint = "0 waits until results are correct, 1 gives them at once"
            raise self.refuse(clause.number.at, "REALTIME is 0 or 1", hint)
        return int(clause.number.text)
