"""Analyse the pattern of an EVENT query: steps, groups, alternatives of OR, the split of WHERE,
RETURN, FROM and PARTITION BY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.query.analysis.conditions import terms_of, value
from slackwater.engine.query.analysis.value_kinds import (
    Context,
    attribute_of,
    check_label,
    only_clause,
    unsupported,
)
from slackwater.engine.query.clock_sensitivity import is_clocked
from slackwater.engine.query.fields import ATTRS, FIELDS, ValueKind, attributes_in
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import QueryReader, Span, refuse
from slackwater.engine.query.plan import (
    Attribute,
    Comparison,
    Computed,
    Constant,
    Group,
    Membership,
    Part,
    Predicate,
    Step,
    TreePart,
    combined,
)
from slackwater.engine.query.render import render_expression
from slackwater.engine.query.shape import leaves, unscoped

# Syntax that the grammar accepts but this version does not support is refused here, with its place.

STEPS_MAX: Final = 60
"""The matcher keeps one bit per step in a 64-bit integer."""
BRANCHES_MAX: Final = 64
_T = TypeVar("_T", bound=Part | TreePart)


class Pattern(QueryReader):
    """The steps of a pattern in written order, and ``tree``, their groups including OR.

    Raises:
        UserError: a step's name, a negation or a group is invalid.
    """

    kind, most = "a pattern", STEPS_MAX

    def __init__(self, parsed: s.PatternNode, text: str) -> None:
        self.text = text
        self.at = parsed.at
        self.steps: dict[str, Step] = {}
        self.spans: list[Span] = []
        """Where each step is in the text, without the ``!`` of a negated step."""
        self.iseq = parsed if isinstance(parsed, s.IseqNode) else None
        self.tree = self._part(parsed, "SEQ") if self.iseq is None else self._interval_steps()

    def alternatives(self) -> list[Part]:
        """Return one tree without OR for each combination of the alternatives in ``tree``.

        Raises:
            UserError: there are too many; or an alternative has no positive step, or a negated step
                whose scope in time is not bounded.
        """
        negated = frozenset(p for p, step in enumerate(self.steps.values()) if step.negated)
        aliases = list(self.steps)
        found = self.combinations(lambda part, parts: joined(part.op, list(parts)))
        for tree in found:
            for place in unscoped(tree, negated) if self.iseq is None else ():
                message = f"nothing says which time !{aliases[place]} covers here"
                hint = "inside AND a negated step goes between two others: SEQ(A a, !N n, B b)"
                raise self.refuse(self.spans[place], message, hint)
        return found

    def combinations(self, joined: Callable[[Any, Sequence[Any]], Any]) -> list[Any]:
        """Return the ``combinations`` of ``tree``; each must contain a positive step."""
        count = count_of(self.tree)
        if count > BRANCHES_MAX:
            message = f"the ORs make {count} combinations; at most {BRANCHES_MAX} are answered"
            raise self.refuse(self.at, message, "split it into several queries")
        found = combinations(self.tree, joined)
        steps = list(self.steps.values())
        for tree in found:
            if all(steps[place].negated for place in leaves(tree)):
                which = "every step" if count == 1 else "every step of one alternative"
                hint = "at least one step must occur for a match to exist"
                raise self.refuse(self.at, f"{which} is negated", hint)
        return found

    def _part(self, node: s.PatternNode, parent: str) -> Part:
        match node:
            case s.StepNode():
                return self._add(node, negated=False)
            case s.NegatedNode():
                if parent != "SEQ":
                    message = f"a negated step cannot be a part of {parent} itself"
                    hint = "put it in a SEQ, whose other steps say which time it covers"
                    raise self.refuse(node.at, message, hint)
                return joined("SEQ", [*self._absent(node)])
            case s.IseqNode():
                message = "ISEQ is inside another pattern"
                hint = "one query has one ISEQ, of single steps: EVENT ISEQ[A.ts < B.te](A, B)"
                raise self.refuse(node.at, message, hint)
            case s.GroupNode(alias=s.Name()):
                return self._either(node, negated=False)
            case s.GroupNode(op="PAL"):
                raise unsupported(self.text, node.at, "PAL(...) in a pattern")
            case s.GroupNode(op=op):
                for relation in node.relations:
                    if relation.word != ",":
                        raise self._unrelated(relation)
                parts = [self._part(part, op) for part in node.parts]
                if op == "OR":
                    self._check_alternatives(parts)
                return joined(op, parts)

    def _unrelated(self, relation: s.Relation) -> UserError:
        return unsupported(self.text, relation.at, f"the relation {relation.word}")

    def _interval_steps(self) -> Part:
        """Add the steps of an ISEQ; its TList defines their order and when a negated step
        counts.
        """
        assert self.iseq is not None
        for node in self.iseq.parts:
            negated = isinstance(node, s.NegatedNode)
            step = node.part if isinstance(node, s.NegatedNode) else node
            if not isinstance(step, s.StepNode):
                message = "an ISEQ has single steps alone"
                hint = "write (a OVERLAPS b OR a MEETS b) between its brackets for alternatives"
                raise self.refuse(step.at, message, hint)
            self._add(step, negated=negated)
        return Group("ISEQ", tuple(range(len(self.steps))))

    def _absent(self, node: s.NegatedNode) -> list[int]:
        """Add a negated step, or each step of a negated OR, and return their places."""
        part = node.part
        match part:
            case s.NegatedNode():
                raise self.refuse(part.at, "this step is negated twice", "write one !")
            case s.StepNode():
                return [self._add(part, negated=True)]
            case s.GroupNode(alias=s.Name()):
                return [self._either(part, negated=True)]
            case s.GroupNode(op="OR", parts=parts):
                inner = [s.NegatedNode(each, node.at, each.depth + 1) for each in parts]
                return [place for each in inner for place in self._absent(each)]
        word = part.op if isinstance(part, s.GroupNode) else "ISEQ"
        hint = "negate single steps, or an OR of them: !OR(C c, D d)"
        raise self.refuse(node.at, f"{word}(...) cannot be negated", hint)

    def _either(self, node: s.GroupNode, *, negated: bool) -> int:
        """Add ``OR(A, B) x``, a step of several types, and return its place."""
        types = either_types(node, self.text)
        assert node.alias is not None
        place = self._add(s.StepNode(node.alias, None, node.at), negated=negated)
        self.steps[node.alias.text] = Step(node.alias.text, ANY_TYPE, negated, types=types)
        return place

    def _check_alternatives(self, parts: list[Part]) -> None:
        steps = list(self.steps.values())
        for part in parts:
            if isinstance(part, int) and steps[part].negated:
                hint = "at least one step must occur in each alternative of an OR"
                raise self.refuse(self.spans[part], "an alternative is only negated", hint)

    def _add(self, node: s.StepNode, *, negated: bool) -> int:
        named = node.alias or node.type
        if named.text == ATTRS:
            message = f"{ATTRS!r} cannot name a step: it stands for an event's own attributes"
            raise self.refuse(named.at, message, "give the step another alias")
        if named.text in self.steps:
            hint = f"give each an alias of its own, as in {node.type.text} first"
            raise self.refuse(named.at, f"two steps are named {named.text!r}", hint)
        if len(self.steps) == self.most:
            raise self.refuse(named.at, f"{self.kind} has at most {self.most} steps")
        self.steps[named.text] = Step(named.text, node.type.text, negated)
        self.spans.append(node.at)
        return len(self.steps) - 1


def either_types(node: s.GroupNode, text: str) -> tuple[str, ...]:
    """Return the types of an OR group with an alias, which is one step.

    Raises:
        UserError: the group is not an OR of types.
    """
    assert node.alias is not None
    alike = node.op == "OR" and all(
        isinstance(part, s.StepNode) and part.alias is None and part.often is None
        for part in node.parts
    )
    if not alike:
        message = f"{node.alias.text!r} names a group, and a name is of one event"
        hint = f"a step of several types is named: OR(A, B) {node.alias.text}"
        raise refuse(text, node.alias.at, message, hint)
    kinds = [part.type.text for part in node.parts if isinstance(part, s.StepNode)]
    return tuple(dict.fromkeys(kinds))


def joined(op: str, parts: list[Part]) -> Part:
    """Return the group of ``parts``; nested groups of the same kind are merged, a single part stays
    a part.
    """
    flat: list[Part] = []
    for part in parts:
        same = isinstance(part, Group) and part.op == op
        flat += part.parts if same and isinstance(part, Group) else (part,)
    return flat[0] if len(flat) == 1 else Group(op, tuple(flat))


def placed(tree: _T) -> tuple[list[int], _T]:
    """Return the sorted places in ``tree``, and ``tree`` with each place replaced by its rank."""
    kept = sorted(leaves(tree))
    rank = {place: number for number, place in enumerate(kept)}

    def moved(part: Any) -> Any:
        if isinstance(part, int):
            return rank[part]
        return replace(part, parts=tuple(map(moved, part.parts)))

    return kept, moved(tree)


def count_of(part: Part | TreePart) -> int:
    """Return the number of combinations of the alternatives in a tree."""
    if isinstance(part, int):
        return 1
    counts = [count_of(inner) for inner in part.parts]
    return sum(counts) if part.op == "OR" else prod(counts)


def combinations(part: Any, joined: Callable[[Any, Sequence[Any]], Any]) -> list[Any]:
    """Return one tree without OR for each combination; ``joined`` builds a group with new parts."""
    if isinstance(part, int):
        return [part]
    found = [combinations(inner, joined) for inner in part.parts]
    if part.op == "OR":
        return [tree for trees in found for tree in trees]
    return [joined(part, trees) for trees in product(*found)]


# Splits the WHERE of a pattern: predicates of one step, equality groups across steps, the rest.
#
# Equality is transitive (``a.id = b.id AND b.id = c.id`` is one group), but only over positive
# steps: a predicate on a negated step decides which of its events count (SPEC 4.1), so it must not
# make two positive steps equal. Times are never in a group: their equality is uncertain.


Node = tuple[str, str]
"""Alias and name of an attribute."""


class Split(Struct):
    """``where`` by alias; ``equalities`` and ``others`` as in ``engine.query.plan.SeqPlan``."""

    where: dict[str, Predicate]
    equalities: tuple[tuple[Attribute, ...], ...]
    others: tuple[Predicate, ...]


class Term(Struct):
    """One conjunct of a WHERE, the steps that it names, and its place in the text."""

    predicate: Predicate
    aliases: frozenset[str]
    at: Span


class _Parts(Struct):
    """Conjuncts by the steps that they name; integers are positions in the WHERE."""

    single: dict[str, list[Predicate]] = field(default_factory=dict)
    equal: list[tuple[int, Attribute, Attribute]] = field(default_factory=list)
    others: list[tuple[int, Predicate]] = field(default_factory=list)


def read_terms(node: s.Node | None, steps: Sequence[Step], context: Context) -> list[Term]:
    """Return the conjuncts of the WHERE ``node`` of a pattern with ``steps``, in written order.

    Raises:
        UserError: a condition is invalid, names no step, or names two negated steps.
    """
    negated = {step.alias for step in steps if step.negated}
    found: list[Term] = []
    for predicate, at in terms_of(node, context):
        aliases = frozenset(str(attribute.alias) for attribute in attributes_in(predicate))
        if not aliases:
            raise context.refuse(at, "this condition names no event", "leave it out")
        clash = sorted(aliases & negated)
        if len(clash) > 1:
            message = f"this joins two negated steps, {clash[0]} and {clash[1]}"
            raise context.refuse(at, message, "compare each with a positive step")
        found.append(Term(predicate, aliases, at))
    return found


def split(terms: Sequence[Term], steps: Sequence[Step], *, shared: bool = False) -> Split:
    """Split the conjuncts ``terms`` of a pattern with ``steps``.

    ``shared``: other patterns use the steps too, so ``where`` has only conditions that the query
    states for one step.
    """
    parts = _Parts()
    negated = {step.alias for step in steps if step.negated}
    for place, term in enumerate(terms):
        _sort_in(term, place, parts)
    groups = _groups(parts, [step.alias for step in steps], negated, shared=shared)
    where = {alias: combined("and", single) for alias, single in parts.single.items()}
    others = tuple(predicate for _, predicate in sorted(parts.others, key=lambda entry: entry[0]))
    return Split(where, groups, others)


def _sort_in(term: Term, place: int, parts: _Parts) -> None:
    if len(term.aliases) == 1:
        parts.single.setdefault(next(iter(term.aliases)), []).append(term.predicate)
        return
    match term.predicate:
        case Comparison(op="=", left=Attribute() as left, right=Attribute() as right) if (
            not is_clocked(term.predicate)
        ):
            parts.equal.append((place, left, right))
        case _:
            parts.others.append((place, term.predicate))


def _node(attribute: Attribute) -> Node:
    assert attribute.alias is not None
    return attribute.alias, attribute.name


def _groups(
    parts: _Parts, order: list[str], negated: set[str], *, shared: bool
) -> tuple[tuple[Attribute, ...], ...]:
    """Return equality groups; add what fits into no group to ``parts.single`` or ``others``."""
    groups: list[list[Node]] = []

    def group_of(node: Node) -> list[Node]:
        for group in groups:
            if node in group:
                return group
        groups.append([node])
        return groups[-1]

    positive = [entry for entry in parts.equal if not {entry[1].alias, entry[2].alias} & negated]
    for _, left, right in positive:
        first, second = group_of(_node(left)), group_of(_node(right))
        if first is not second:
            first.extend(second)
            groups.remove(second)
    for place, left, right in parts.equal:
        if not {left.alias, right.alias} & negated:
            continue
        inner, outer = (left, right) if left.alias in negated else (right, left)
        group = group_of(_node(outer))
        taken = any(alias == inner.alias for alias, _ in group)
        elsewhere = any(_node(inner) in other for other in groups if other is not group)
        if not taken and not elsewhere:
            group.append(_node(inner))
        elif _node(inner) not in group:
            parts.others.append((place, Comparison("=", left, right)))
    return _ordered([_one_each(group, parts, shared=shared) for group in groups], order)


def _one_each(group: list[Node], parts: _Parts, *, shared: bool) -> list[Node]:
    """Keep the first attribute of each step; further ones must equal it within the step.

    If the steps are ``shared``, further attributes must equal another step's, which is equivalent.
    """
    kept: dict[str, Node] = {}
    more: list[Node] = []
    for alias, name in group:
        first = kept.setdefault(alias, (alias, name))
        if first[1] != name:
            more.append((alias, name))
    for alias, name in more:
        anchor = kept[alias]
        if shared:
            anchor = next(node for node in kept.values() if node[0] != alias)
        same = Comparison("=", Attribute(anchor[1], anchor[0]), Attribute(name, alias))
        if shared:
            parts.others.append((len(parts.equal), same))
        else:
            parts.single.setdefault(alias, []).append(same)
    return list(kept.values())


def _ordered(groups: list[list[Node]], order: list[str]) -> tuple[tuple[Attribute, ...], ...]:
    """Sort members by step and groups by members; drop groups of one member."""
    ranked = sorted(
        sorted((order.index(alias), name) for alias, name in group)
        for group in groups
        if len(group) > 1
    )
    return tuple(tuple(Attribute(name, order[rank]) for rank, name in group) for group in ranked)


# What RETURN selects: attributes of the events, and values computed from a whole match.


class Returned(Struct, frozen=True):
    """One entry of RETURN, the steps that it names, and its place in the text."""

    value: Attribute | Computed
    aliases: frozenset[str]
    at: Span


def read_returns(
    clause: s.Returns | None, steps: Mapping[str, Step], context: Context
) -> list[Returned]:
    """Return the entries of RETURN; an entry with AS or with an expression is computed.

    Raises:
        UserError: an entry names no event or a negated step, is a duplicate, or two computed
            entries have the same label.
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
        check_label(item, label, labels, context.text, "results")
        labels.add(label)
        found.append(Returned(Computed(label, expression), aliases, item.value.at))
    return found


def selected(
    entries: list[Returned], aliases: set[str]
) -> tuple[tuple[Attribute, ...], tuple[Computed, ...]]:
    """Return ``returns`` and ``computed`` of a plan with the steps ``aliases``."""
    mine = [entry.value for entry in entries if entry.aliases <= aliases]
    return (
        tuple(each for each in mine if isinstance(each, Attribute)),
        tuple(each for each in mine if isinstance(each, Computed)),
    )


def partition_name(reference: s.Reference, text: str, steps: Mapping[str, Step]) -> str:
    """Return the attribute that an entry of PARTITION BY names.

    Raises:
        UserError: the entry names a step or a time.
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
    """Return the query with a single step ``EVENT A a`` wrapped in a SEQ."""
    step = parsed.pattern
    if not isinstance(step, s.StepNode):
        return parsed
    return parsed._replace(pattern=s.GroupNode("SEQ", (step,), (), step.at, step.depth + 1))


def terms_of_clauses(
    clauses: tuple[s.Clause, ...], branches: Sequence[Sequence[Step]], text: str
) -> list[Term]:
    """Return the conditions that FROM and PARTITION BY put on the steps of each alternative.

    Raises:
        UserError: a clause is given twice, or PARTITION BY names no attribute of all events.
    """
    sources, partition = (
        only_clause(clauses, s.From, text),
        only_clause(clauses, s.PartitionBy, text),
    )
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
