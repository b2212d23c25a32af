"""Splits a pattern's WHERE: predicates of one step, equality groups across steps, the rest.

Equalities are closed transitively (``a.id = b.id AND b.id = c.id`` is one group) over positive
steps only: a predicate on a negated step decides which of its instances count (SPEC 4.1), so it
must not make two positive steps equal. Nor over times, whose equality is as uncertain as clocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from engine.query.analysis.conditions import terms_of
from engine.query.analysis.typed import Context
from engine.query.clocked import is_clocked
from engine.query.fields import attributes_in
from engine.query.language import syntax as s
from engine.query.language.place import Span
from engine.query.plan import Attribute, Comparison, Logic, Predicate, Step

Node = tuple[str, str]
"""Alias and name of an attribute."""


class Split(Struct):
    """``where`` by alias; groups and others as in ``engine.query.plan.SeqPlan``."""

    where: dict[str, Predicate]
    equalities: tuple[tuple[Attribute, ...], ...]
    others: tuple[Predicate, ...]


class Term(Struct):
    """One conjunct of a WHERE: the steps that it names, and where it stands."""

    predicate: Predicate
    aliases: frozenset[str]
    at: Span


class _Parts(Struct):
    """Conjuncts by what they join; numbers are their places in the WHERE."""

    single: dict[str, list[Predicate]] = field(default_factory=dict)
    equal: list[tuple[int, Attribute, Attribute]] = field(default_factory=list)
    others: list[tuple[int, Predicate]] = field(default_factory=list)


def read_terms(node: s.Node | None, steps: Sequence[Step], context: Context) -> list[Term]:
    """The conjuncts of the WHERE ``node`` of a pattern with ``steps``, in written order.

    Raises:
        UserError: a condition is malformed, names no step, or joins two negated steps.
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
    """Splits the conjuncts ``terms`` of a pattern with ``steps``.

    ``shared``: the steps are those of other patterns too, so ``where`` has nothing but what was
    written of one step alone.
    """
    parts = _Parts()
    negated = {step.alias for step in steps if step.negated}
    for place, term in enumerate(terms):
        _sort_in(term, place, parts)
    groups = _groups(parts, [step.alias for step in steps], negated, shared=shared)
    where = {alias: _all(single) for alias, single in parts.single.items()}
    others = tuple(predicate for _, predicate in sorted(parts.others, key=lambda entry: entry[0]))
    return Split(where, groups, others)


def _all(terms: list[Predicate]) -> Predicate:
    return terms[0] if len(terms) == 1 else Logic("and", tuple(terms))


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
    """Equality groups; what does not fit in a group goes to ``parts.single`` or ``others``."""
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
    """Keeps each step's first attribute; its others must equal that one within the step.

    Where the step is ``shared``, they must equal another step's instead, to the same effect.
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
    """Members by their steps' order, groups by their members; lone leftovers drop out."""
    ranked = sorted(
        sorted((order.index(alias), name) for alias, name in group)
        for group in groups
        if len(group) > 1
    )
    return tuple(tuple(Attribute(name, order[rank]) for rank, name in group) for group in ranked)
