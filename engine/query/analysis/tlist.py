"""Converts the TList of an ISEQ to relations of a plan.

Source: L10 5.3.1. A disjunction becomes one condition, and the relations that all of its
alternatives imply are added. So each combination of events matches once, even if it satisfies
several alternatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

import numpy as np

from slackwater.engine.core.errors import UserError
from slackwater.engine.query import interval_relations as o
from slackwater.engine.query.analysis.pattern import Term
from slackwater.engine.query.fields import attributes_in
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import QueryReader, Span, listed
from slackwater.engine.query.plan import (
    Attribute,
    Comparison,
    Logic,
    PointRelation,
    Predicate,
    Step,
    combined,
)

ALTERNATIVES_MAX: Final = 64
Literal = s.EndpointChain | s.AllenNode
_SIGNS: Final = {o.LESS: "<", o.UPTO: "<="}
_OPPOSITE: Final = {"<": ">=", "<=": ">", "=": "!="}
_ENDS: Final = ("ts", "te")


@dataclass(slots=True)
class _Alternative:
    """One way to satisfy some restrictions: its edges, and their closure ``reach``."""

    literals: tuple[Literal, ...]
    edges: list[o.Edge]
    reach: np.ndarray


class Restrictions(QueryReader):
    """The analysis of one TList.

    Args:
        node: the ISEQ.
        steps: its steps, by alias.
        spans: the place of each step in the text.
        text: the query.
    """

    def __init__(
        self, node: s.IseqNode, steps: dict[str, Step], spans: Sequence[Span], text: str
    ) -> None:
        self.node, self.steps, self.spans, self.text = node, list(steps.values()), spans, text
        self._number = {alias: number for number, alias in enumerate(steps)}
        self._written: list[tuple[Span, str]] = []
        """Restrictions of two end points in written order; an edge's ``place`` is an index of this
        list.
        """

    def read(self, *, bounded: bool) -> tuple[tuple[PointRelation, ...], list[Term]]:
        """Return relations of positive steps, and of negated steps with them, and further
        conditions, which are treated as part of WHERE. ``bounded``: the query has a WITHIN.

        Raises:
            UserError: an invalid name, a relation of a step to itself, a contradiction, or a
                negated step without a latest time.
        """
        by_negated: dict[int | None, list[s.TListNode]] = {None: []}
        for restriction in self._conjuncts(self.node.restrictions):
            by_negated.setdefault(self._negated_in(restriction), []).append(restriction)
        positive = self._alternatives(by_negated.pop(None), [])
        common = o.common_closure([each.reach for each in positive])
        relations = list(o.reduction(common))
        terms = self._conditions(positive, common)
        for number, step in enumerate(self.steps):
            if step.negated:
                found = self._alternatives(by_negated.get(number, []), self._known(common))
                shared = o.common_closure([each.reach for each in found])
                self._check_scope(number, shared, bounded=bounded)
                relations += [
                    each for each in o.reduction(shared)
                    if number in (each.left // 2, each.right // 2)
                ]  # fmt: skip
                terms += self._conditions(found, shared, number, common)
        points = tuple(
            PointRelation(self._attribute(each.left), each.op, self._attribute(each.right))
            for each in relations
            if each.left // 2 != each.right // 2
        )
        return points, terms

    def _conjuncts(self, nodes: Iterable[s.TListNode]) -> Iterator[s.TListNode]:
        """Yield single restrictions: a chain ``a < b < c`` becomes two of them."""
        for node in nodes:
            if isinstance(node, s.Operation) and node.op == "and":
                yield from self._conjuncts(node.parts)
            elif isinstance(node, s.EndpointChain):
                for one, op, two in zip(node.ends, node.ops, node.ends[1:], strict=False):
                    yield s.EndpointChain((one, two), (op,), (one.at[0], two.at[1]), node.depth)
            else:
                yield node

    def _literals(self, node: s.TListNode) -> Iterator[Literal]:
        return (each for each in s.inside(node) if not isinstance(each, s.Operation))

    def _negated_in(self, node: s.TListNode) -> int | None:
        """Return the number of the negated step that a restriction names; None: there is none."""
        named: dict[int, None] = {}
        for literal in self._literals(node):
            if isinstance(literal, s.AllenNode):
                names: Iterable[s.Name] = (literal.left, literal.right)
            else:
                names = (end.step for end in literal.ends)
            named.update(dict.fromkeys(map(self._step, names)))
        negated = [number for number in named if self.steps[number].negated]
        if len(negated) > 1:
            one, two = (self.steps[number].alias for number in negated[:2])
            message = f"this relates two negated steps, {one} and {two}"
            raise self.refuse(node.at, message, "relate each to a step that occurs")
        return negated[0] if negated else None

    def _step(self, name: s.Name) -> int:
        """Return the number of a step by its alias, or by its type if only one step has this
        type.
        """
        number = self._number.get(name.text)
        if number is not None:
            return number
        typed = [n for n, step in enumerate(self.steps) if step.type == name.text]
        if len(typed) == 1:
            return typed[0]
        if typed:
            aliases = [self.steps[n].alias for n in typed]
            message = f"which {name.text} is meant?"
            raise self.refuse(name.at, message, f"write {' or '.join(aliases)}")
        raise self.no_step(name.text, name.at, self._number)

    # ---- alternatives --------------------------------------------------------------------------

    def _alternatives(
        self, nodes: Sequence[s.TListNode], known: Sequence[o.Edge]
    ) -> list[_Alternative]:
        """Return the ways to satisfy ``nodes`` and ``known``, without those that imply another
        one.
        """
        count = prod(_count(node) for node in nodes)
        if count > ALTERNATIVES_MAX:
            message = f"the ORs make {count} combinations; at most {ALTERNATIVES_MAX} are answered"
            raise self.refuse(nodes[0].at, message, "split it into several queries")
        found = []
        edges = {
            id(literal): list(self._edges(literal))
            for node in nodes
            for literal in self._literals(node)
        }
        for parts in product(*map(_ways, nodes)):
            literals = tuple(literal for part in parts for literal in part)
            mine = [edge for literal in literals for edge in edges[id(literal)]]
            reach = o.closure(len(self.steps), [*known, *mine])
            found.append(_Alternative(literals, [*known, *mine], reach))
        possible = [each for each in found if not (np.diagonal(each.reach) == o.LESS).any()]
        fine = {id(literal) for each in possible for literal in each.literals}
        for each in found:
            if not possible or any(id(literal) not in fine for literal in each.literals):
                raise self._contradiction(each)
        kept: list[_Alternative] = []
        for each in possible:
            if not any((one.reach <= each.reach).all() for one in kept):
                kept = [one for one in kept if not (each.reach <= one.reach).all()]
                kept.append(each)
        return kept

    def _edges(self, literal: Literal) -> Iterator[o.Edge]:
        if isinstance(literal, s.AllenNode):
            left, right = self._step(literal.left), self._step(literal.right)
            if left == right:
                message = f"this relates {literal.left.text} to itself"
                raise self.refuse(literal.at, message, "a relation is between two steps")
            for mine, op, other in o.allen_relation(literal.word):
                self._written.append((literal.at, op))
                one, two = 2 * left + _ENDS.index(mine), 2 * right + _ENDS.index(other)
                yield from o.edges_of(one, op, two, len(self._written) - 1)
            return
        points = [2 * self._step(end.step) + _ENDS.index(end.end) for end in literal.ends]
        for number, op in enumerate(literal.ops):
            at = literal.ends[number].at[0], literal.ends[number + 1].at[1]
            sign = "=" if op == "==" else op
            if sign in {"!=", "<>"}:
                hint = "write (x < y OR x > y), or < <= = >= >"
                raise self.refuse(at, f"end points are not related by {op}", hint)
            if points[number] == points[number + 1]:
                raise self.refuse(at, "this relates an end point to itself", "name two of them")
            self._written.append((at, sign))
            place = len(self._written) - 1
            yield from o.edges_of(points[number], sign, points[number + 1], place)

    def _known(self, reach: np.ndarray) -> list[o.Edge]:
        """Return the closure ``reach`` of positive steps as edges; further edges may close a
        cycle.
        """
        return [
            o.Edge(below, above, int(reach[below, above]), o.DERIVED)
            for below, above in np.argwhere(reach > 0).tolist()
            if below != above
        ]

    def _contradiction(self, alternative: _Alternative) -> UserError:
        found = o.contradiction_cycle(len(self.steps), alternative.edges)
        words = [self._point(found[0].below)]
        for edge in found:
            sign = _SIGNS[edge.label]
            if edge.place >= 0 and self._written[edge.place][1] == "=":
                sign = "="
            words += [sign, self._point(edge.above)]
        places = sorted({edge.place for edge in found if edge.place >= 0})
        at = self._written[places[-1]][0]
        others = dict.fromkeys(self.text[slice(*self._written[p][0])] for p in places[:-1])
        hint = f"excluded by {listed(' '.join(each.split()) for each in others)}" if others else ""
        if any(edge.place == o.IMPLICIT for edge in found):
            hint += f"{'; ' if hint else ''}an interval starts no later than it ends"
        message = f"these end points go round in a circle: {' '.join(words)}"
        return self.refuse(at, message, hint)

    # ---- relations and conditions --------------------------------------------------------------

    def _conditions(
        self, alternatives: list[_Alternative], common: np.ndarray, negated: int | None = None,
        positive: np.ndarray | None = None,
    ) -> list[Term]:  # fmt: skip
        """Return conditions that relations of two steps cannot express: on the two ends of one
        interval, and disjunctions.

        ``negated``: the negated step that the alternatives restrict. Each condition names it, even
        if the rest implies the restriction, as it would otherwise restrict positive steps.
        ``positive``: the closure of the positive steps alone.
        """
        # With clock errors, a restriction of one interval's ends is stronger than its consequences
        # for two intervals.
        end_orders = [_end_order(one.edges) for one in alternatives]
        found = {each for each in o.reduction(common) if each.left // 2 == each.right // 2}
        found |= set[o.Restriction].intersection(*end_orders)
        conditions: list[Predicate] = []
        if negated is not None and positive is not None:
            conditions = self._of_positive_steps(negated, positive, {*o.reduction(common), *found})
        conditions += [
            self._comparison(each)
            for each in sorted(found)
            if negated is None or negated == each.left // 2
        ]
        if len(alternatives) > 1:
            more = [
                [
                    self._comparison(each)
                    for each in sorted(
                        {*o.not_implied(common, o.reduction(one.reach)), *end_order} - found
                    )
                ]
                for one, end_order in zip(alternatives, end_orders, strict=True)
            ]
            if negated is not None and self.steps[negated].alias not in _aliases(
                Logic("and", tuple(each for way in more for each in way))
            ):
                more[0].append(self._comparison(o.Restriction(2 * negated, "<=", 2 * negated + 1)))
            conditions.append(Logic("or", tuple(combined("and", each) for each in more)))
        at = self.node.at
        return [Term(each, frozenset(_aliases(each)), at) for each in conditions]

    def _of_positive_steps(
        self, negated: int, positive: np.ndarray, shared: set[o.Restriction]
    ) -> list[Predicate]:
        """Return what all alternatives of a negated step imply for other steps alone, as one
        condition that names the negated step and cannot be split.
        """
        of_others = {each for each in shared if negated not in (each.left // 2, each.right // 2)}
        more = sorted(o.not_implied(positive, list(of_others)))
        if not more:
            return []
        never = Comparison(">", self._attribute(2 * negated), self._attribute(2 * negated + 1))
        excluded = [Comparison(_OPPOSITE[each.op], self._attribute(each.left),
                               self._attribute(each.right)) for each in more]  # fmt: skip
        return [Logic("not", (Logic("or", (*excluded, never)),))]

    def _check_scope(self, number: int, reach: np.ndarray, *, bounded: bool) -> None:
        """Refuse a negated step without a latest time, as it could never be known to be absent."""
        alias = self.steps[number].alias
        ends = [2 * n + 1 for n, step in enumerate(self.steps) if not step.negated]
        starts = [point - 1 for point in ends]
        if not bounded and not (reach[2 * number + 1, [*starts, *ends]] > 0).any():
            message = f"nothing says up to when !{alias} counts"
            first = next(step.alias for step in self.steps if not step.negated)
            hint = f"add WITHIN, or say before what it ends, as in {alias}.te < {first}.ts"
            raise self.refuse(self.spans[number], message, hint)

    def _comparison(self, each: o.Restriction) -> Comparison:
        return Comparison(each.op, self._attribute(each.left), self._attribute(each.right))

    def _attribute(self, point: int) -> Attribute:
        return Attribute(_ENDS[point % 2], self.steps[point // 2].alias)

    def _point(self, point: int) -> str:
        return f"{self.steps[point // 2].alias}.{_ENDS[point % 2]}"


def _count(node: s.TListNode) -> int:
    if not isinstance(node, s.Operation):
        return 1
    counts = [_count(term) for term in node.parts]
    return sum(counts) if node.op == "or" else prod(counts)


def _ways(node: s.TListNode) -> list[tuple[Literal, ...]]:
    """Return the literals of each alternative of ``node``."""
    if not isinstance(node, s.Operation):
        return [(node,)]
    ways = [_ways(term) for term in node.parts]
    if node.op == "or":
        return [way for each in ways for way in each]
    return [tuple(literal for way in chosen for literal in way) for chosen in product(*ways)]


def _aliases(predicate: Predicate) -> Iterator[str]:
    return (str(attribute.alias) for attribute in attributes_in(predicate))


def _end_order(edges: Iterable[o.Edge]) -> set[o.Restriction]:
    """Return the restrictions of one interval's start and end, without ``start <= end``."""
    found = set()
    for below, above, label, place in edges:
        if place >= 0 and below // 2 == above // 2 and (label == o.LESS or below > above):
            start, end = sorted((below, above))
            found.add(o.Restriction(start, "<" if label == o.LESS else "=", end))
    return found
