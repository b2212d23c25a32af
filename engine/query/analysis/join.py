"""Analyse SELECT queries that join two streams.

The pairs are one branch: a pattern of two events at most WITHIN apart. An outer side adds a branch:
one event, and its partner as a negated step. Certainty, corrections and retention are therefore
the same as for patterns.
"""

from __future__ import annotations

import dataclasses
from typing import Final, TypeVar

from msgspec.structs import replace

from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.query.analysis.conditions import fixed_length, value
from slackwater.engine.query.analysis.consistency import check_pattern
from slackwater.engine.query.analysis.pattern import Term, read_terms
from slackwater.engine.query.analysis.selection import (
    Window,
    labelled,
    size_and_slide,
)
from slackwater.engine.query.analysis.value_kinds import (
    Context,
    attribute_of,
    member_of,
    only_clause,
)
from slackwater.engine.query.clock_sensitivity import is_clocked
from slackwater.engine.query.fields import attributes_in, with_attributes
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import QueryReader, or_meant
from slackwater.engine.query.language.other_dialects import JOINS_ELSEWHERE
from slackwater.engine.query.plan import (
    AGGREGATES,
    Attribute,
    Comparison,
    Computed,
    Constant,
    Expression,
    Group,
    InOneWindow,
    JoinKind,
    JoinPlan,
    Logic,
    Predicate,
    Presence,
    SeqPlan,
    Step,
    conjunction,
)
from slackwater.engine.query.render import render_expression, row_label
from slackwater.engine.query.shape import JOINED

_P = TypeVar("_P")
_NO_PARTNER: Final = "\0no partner"
"""Suffix of the alias of a missing partner; no query can contain such a name."""
_OF_ROWS: Final = "of its rows another statement makes windows: CREATE STREAM pairs AS ...; ..."
_KEPT: Final = {
    JoinKind.INNER: (False, False),
    JoinKind.LEFT: (True, False),
    JoinKind.RIGHT: (False, True),
    JoinKind.FULL: (True, True),
    JoinKind.ANTI: (True, False),
}
"""Whether events of the left and of the right side give a row without a partner."""


def join_plan(parsed: s.SelectQuery, text: str, time_unit: str, name: str) -> JoinPlan:
    """Build the plan of a SELECT query with JOIN.

    Raises:
        UserError: a name, a clause or a condition is invalid.
    """
    return _Join(parsed, text, time_unit).plan(name)


class _Join(QueryReader):
    """The analysis of one join."""

    def __init__(self, parsed: s.SelectQuery, text: str, time_unit: str) -> None:
        self.parsed, self.text = parsed, text
        self.context = Context(text, time_unit, self._resolve)
        joins = [c for c in parsed.clauses if isinstance(c, s.Join)]
        sources = [c for c in parsed.clauses if isinstance(c, s.From | s.Join)]
        if len(sources) > 1:
            hint = "two streams are joined: FROM a JOIN b; join a third with a query of its own"
            raise self.refuse(sources[1].at, "FROM is given twice", hint)
        self.join = joins[0]
        self.kind = JoinKind(self.join.kind)
        self.aliases = self._aliases()

    def plan(self, name: str) -> JoinPlan:
        clauses = self.parsed.clauses
        for clause in clauses:
            if isinstance(clause, s.EmitClause):
                message = "EMIT is for windows; a join emits a row when its pair is known"
                hint = "leave EMIT out; --barrier says how long rows are held back"
                raise self.refuse(clause.at, message, hint)
            if isinstance(clause, s.GroupBy | s.Having | s.OrderBy):
                words = {s.GroupBy: "GROUP BY", s.Having: "HAVING", s.OrderBy: "ORDER BY ... LIMIT"}
                word = words[type(clause)]
                message = f"{word} is of windows; a join gives rows"
                raise self.refuse(clause.at, message, f"leave {word} out; {_OF_ROWS}")
        within_ns, window_ns, every_ns = self._extent()
        on = read_terms(self.join.condition, (), self.context)
        where_node = only_clause(clauses, s.Where, self.text)
        where = read_terms(None if where_node is None else where_node.condition, (), self.context)
        self._check_where(where)
        computed = self._selected()
        left, right = (
            Step(alias, ANY_TYPE, streams=(source.stream.text,))
            for alias, source in zip(self.aliases, (self.join.left, self.join.right), strict=True)
        )
        terms = [(term.predicate, term.at) for term in (*on, *where)]
        bare = SeqPlan(
            name, self.text, (left, right), within_ns=within_ns, pattern=Group(JOINED, (0, 1)),
            computed=computed,
        )  # fmt: skip
        check_pattern(terms, bare, self.context)
        same: list[Predicate] = []
        if window_ns is not None:
            one, two = (Attribute("ts", alias) for alias in self.aliases)
            same = [InOneWindow("=", one, two, window_ns, every_ns or window_ns)]
        pair = self._pair(bare, on, where, same)
        branches: tuple[SeqPlan, ...] = () if self.kind is JoinKind.ANTI else (pair,)
        for side in (0, 1):
            if _KEPT[self.kind][side]:
                branches += (self._without_partner(pair, side, on, same),)
        steps = {step.alias: step for branch in (pair, *branches) for step in branch.steps}
        if self.kind is JoinKind.ANTI:
            del steps[right.alias]
        return JoinPlan(
            name, self.text, branches, None if self.kind is JoinKind.INNER else 0,
            tuple(steps.values()), Group("OR", ()),
            tuple(term.predicate for term in where), (), computed,
            kind=self.kind, pair=pair, on=tuple(term.predicate for term in on),
            window_ns=window_ns, every_ns=every_ns,
        )  # fmt: skip

    # ---- names ----------------------------------------------------------------------------------

    def _aliases(self) -> tuple[str, str]:
        left, right = self.join.left, self.join.right
        word = left.alias
        if word is not None and not word.quoted and word.text.lower() in JOINS_ELSEWHERE:
            message = f"there is no {word.text.upper()} JOIN"
            raise self.refuse(word.at, message, JOINS_ELSEWHERE[word.text.lower()])
        if _named(left).text == _named(right).text:
            message = f"both sides are named {_named(left).text!r}"
            hint = "give each an alias of its own, as in FROM events a JOIN events b"
            raise self.refuse(_named(right).at, message, hint)
        return _named(left).text, _named(right).text

    def _resolve(self, reference: s.Reference) -> Attribute:
        first = reference.parts[0]
        if first.text not in self.aliases:
            known = " and ".join(self.aliases)
            if attribute_of(reference.parts)[0]:
                hint = or_meant(f"the sides are {known}", first.text, self.aliases)
                raise self.refuse(first.at, f"no side is named {first.text!r}", hint)
            raise self.which("side", reference, self.aliases)
        return Attribute(member_of(reference, self.text, "a side of the join"), first.text)

    # ---- clauses --------------------------------------------------------------------------------

    def _extent(self) -> tuple[int, int | None, int | None]:
        """Return the largest distance of two partners, and length and slide of the windows [ns].

        Length and slide are None for WITHIN; the slide is None for tumbling windows.
        """
        clauses = self.parsed.clauses
        within = only_clause(clauses, s.Within, self.text)
        windows = [c for c in clauses if isinstance(c, Window)]
        if len(windows) > 1:
            raise self.refuse(windows[1].at, "WINDOW is given twice", "keep one of them")
        if within is not None and windows:
            message = "a join goes by WITHIN or by WINDOW, not by both"
            raise self.refuse(max(within.at, windows[0].at), message, "keep one of them")
        if within is not None:
            return fixed_length(within, self.context, "a join"), None, None
        if not windows:
            message = "nothing says how far apart in time two partners may be"
            raise self.refuse(self.join.join_at, message, "add, for example, WITHIN 10 s")
        window = windows[0]
        if not isinstance(window, s.TimeWindow) or window.zone:
            hint = "use WINDOW TUMBLING or SLIDING, or WITHIN, which has no borders"
            raise self.refuse(window.at, "a join takes no such window", hint)
        if window.drift is not None:
            hint = "leave DRIFT out; the certainty of each row says what depends on the clocks"
            raise self.refuse(window.at, "DRIFT is of aggregates; a join gives rows", hint)
        size, every = size_and_slide(window, self.context)
        return size, size, every

    def _check_where(self, where: list[Term]) -> None:
        """Refuse a WHERE on a side that may be missing: it would drop all rows without a
        partner.
        """
        kept = {side for side in (0, 1) if _KEPT[self.kind][side]}
        missing = [self.aliases[side] for side in (0, 1) if 1 - side in kept]
        for term in where:
            alias = next((each for each in missing if each in term.aliases), None)
            if alias is not None:
                message = f"rows without a partner have no {alias!r}, so WHERE would drop them all"
                hint = "write it in ON, where it says who is a partner; for pairs alone, JOIN"
                of = term.predicate
                if isinstance(of, Logic) and isinstance(of.terms[0], Presence):  # IS NULL
                    message = f"events without a {alias!r} alone are those of an ANTI JOIN"
                    hint = "as in FROM a ANTI JOIN b ON a.x = b.x, which gives columns of a"
                raise self.refuse(term.at, message, hint)

    def _selected(self) -> tuple[Computed, ...]:
        """Return the columns of a row; empty for ``SELECT *``."""
        columns: list[tuple[s.Item, Expression]] = []
        if self.parsed.items and self.parsed.everything is not None:
            hint = "name the columns, or write SELECT * alone: all attributes of both sides"
            raise self.refuse(self.parsed.everything.at, "* is there beside columns", hint)
        for item in self.parsed.items:
            if _aggregates(item.value):
                message = "a join gives rows and aggregates nothing"
                example = ", ".join(f"{alias}.ts" for alias in self.aliases)
                hint = f"name attributes of the two sides, as in {example}; {_OF_ROWS}"
                raise self.refuse(item.value.at, message, hint)
            expression = value(item.value, self.context)
            named = {str(attribute.alias) for attribute in attributes_in(expression)}
            if not named:
                raise self.refuse(item.value.at, "this is the same for every row", "leave it out")
            if self.kind is JoinKind.ANTI and self.aliases[1] in named:
                message = f"ANTI JOIN gives events that have no {self.aliases[1]!r}"
                hint = f"name attributes of {self.aliases[0]!r} alone"
                raise self.refuse(item.value.at, message, hint)
            columns.append((item, expression))
        plain = [e.name for item, e in columns if isinstance(e, Attribute) and item.label is None]
        found: list[tuple[s.Item, Computed]] = []
        for item, one in columns:
            alone = isinstance(one, Attribute) and plain.count(one.name) < 2
            found.append((item, Computed(row_label(one) if alone else render_expression(one), one)))
        return labelled(found, self.context)

    # ---- branches -------------------------------------------------------------------------------

    def _pair(
        self, bare: SeqPlan, on: list[Term], where: list[Term], same: list[Predicate]
    ) -> SeqPlan:
        """Build the branch of the pairs; conditions of ON on an outer side do not filter its
        events.
        """
        side_conditions: tuple[list[Predicate], list[Predicate]] = ([], [])
        others: list[Predicate] = []
        equalities: list[tuple[Attribute, ...]] = []
        for term, filters in [*((t, False) for t in on), *((t, True) for t in where)]:
            if len(term.aliases) == 1:
                side = self.aliases.index(next(iter(term.aliases)))
                kept = _KEPT[self.kind][side] and not filters
                (others if kept else side_conditions[side]).append(term.predicate)
                continue
            key = self._key(term.predicate)
            if key is None:
                others.append(term.predicate)
            elif key not in equalities:
                equalities.append(key)
        steps = tuple(
            replace(step, where=conjunction(conditions))
            for step, conditions in zip(bare.steps, side_conditions, strict=True)
        )
        return replace(bare, steps=steps, equalities=tuple(equalities), others=(*others, *same))

    def _key(self, predicate: Predicate) -> tuple[Attribute, Attribute] | None:
        """Return the two attributes that must be equal, left side first, or None."""
        match predicate:
            case Comparison(op="=", left=Attribute() as one, right=Attribute() as two) if (
                not is_clocked(predicate)
            ):
                return (one, two) if one.alias == self.aliases[0] else (two, one)
        return None

    def _without_partner(
        self, pair: SeqPlan, side: int, on: list[Term], same: list[Predicate]
    ) -> SeqPlan:
        """Build the branch of the events of ``side`` that have no partner."""
        mine, other = pair.steps[side], pair.steps[1 - side]
        absent = replace(other, alias=other.alias + _NO_PARTNER, negated=True)
        if _KEPT[self.kind][1 - side]:
            # The partner must satisfy ON itself: an outer side is not filtered by it.
            conditions = [t.predicate for t in on if t.aliases == {other.alias}]
            absent = replace(
                absent, where=conjunction([_renamed(p, other, absent) for p in conditions])
            )
        elif other.where is not None:
            absent = replace(absent, where=_renamed(other.where, other, absent))
        others: list[Predicate] = []
        for predicate in (*(t.predicate for t in on), *same):
            named = {attribute.alias for attribute in attributes_in(predicate)}
            if named == {mine.alias}:
                # The condition decides whether any event is a partner, so it applies to the
                # partner.
                here = Comparison(
                    "=", Attribute("stream", absent.alias), Constant(other.streams[0])
                )
                others.append(Logic("and", (predicate, here)))
            elif len(named) == 2 and self._key(predicate) is None:
                others.append(_renamed(predicate, other, absent))
        return replace(
            pair, steps=(mine, absent), others=tuple(others),
            equalities=_renamed(pair.equalities, other, absent),
            computed=_renamed(pair.computed, other, absent),
        )  # fmt: skip


def _aggregates(node: s.Node) -> bool:
    return isinstance(node, s.Call) and node.function.text.lower() in AGGREGATES


def _named(source: s.JoinSide) -> s.Name:
    return source.alias or source.stream


def _renamed(node: _P, old: Step, new: Step) -> _P:
    """Return ``node`` with the alias of ``old`` replaced by that of ``new``."""
    return with_attributes(
        node,
        lambda one: dataclasses.replace(one, alias=new.alias) if one.alias == old.alias else one,
    )
