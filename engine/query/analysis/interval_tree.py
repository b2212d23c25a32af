"""Patterns of intervals (Z10 4.1): trees of SEQ and PAL, and their constraints on end points.

A pattern with a PAL or a relation is one of intervals; in others, the steps are in the order of
``engine.query.analysis.pattern``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Final, NamedTuple, NoReturn

import numpy as np
from msgspec.structs import replace

from slackwater.engine.query.analysis.pattern import Pattern, Term, placed
from slackwater.engine.query.analysis.value_kinds import unsupported
from slackwater.engine.query.fields import attributes_in
from slackwater.engine.query.interval_relations import (
    DERIVED,
    LESS,
    SHORT,
    UPTO,
    Edge,
    add_to_closure,
    allen_relation,
    closure,
)
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import Span
from slackwater.engine.query.plan import (
    Attribute,
    Comparison,
    Computed,
    Group,
    IntervalLink,
    PointRelation,
    Predicate,
    Scope,
    SeqPlan,
    Step,
    Tree,
    TreePart,
    TreePlan,
    combined,
)

# The tree: its steps, its parts, and the links between them.


SEQUEL: Final = frozenset({",", "BEFORE"})
"""Links with the same meaning between two parts of a SEQ."""
COUNT_MAX: Final = 60
_SHORT: Final = {allens: word for word, allens in SHORT.items()}
"""Names of relations in Z10, by Allen's names."""


def is_tree(node: s.PatternNode) -> bool:
    """Whether the pattern has a PAL or a relation, so it is a pattern of intervals."""
    return not isinstance(node, s.IseqNode) and any(
        each.op == "PAL" or any(relation.word != "," for relation in each.relations)
        for each in s.inside(node)
        if isinstance(each, s.GroupNode)
    )


class TreePattern(Pattern):
    """``tree``: the pattern as written; ``links``: the place of each link in the text.

    Raises:
        UserError: a step's name, a negation, a relation or a group is invalid.
    """

    def __init__(self, parsed: s.PatternNode, text: str) -> None:
        self.links: dict[int, Span] = {}
        """The place of each ``IntervalLink`` in the text, by its id."""
        self.kept: list[IntervalLink] = []
        self.outermost = parsed
        super().__init__(parsed, text)
        # A tree is no Group; ``Pattern`` is for callers that need groups.
        self.root: Tree = self.tree  # type: ignore[assignment]

    def trees(self) -> list[Tree]:
        """Return ``root`` for each combination of the ORs' alternatives, without OR.

        Raises:
            UserError: there are too many, or one of them has no positive step.
        """
        found = self.combinations(lambda tree, parts: replace(tree, parts=tuple(parts)))
        return [each if isinstance(each, Tree) else Tree("SEQ", (each,), ()) for each in found]

    def _part(self, node: s.PatternNode, parent: str) -> TreePart:  # type: ignore[override]
        if isinstance(node, s.GroupNode):
            return self._tree(node)
        if isinstance(node, s.IseqNode):
            raise unsupported(self.text, node.at, "ISEQ beside PAL or a relation")
        place = super()._part(node, parent)
        assert isinstance(place, int)
        return place

    def _tree(self, node: s.GroupNode) -> Tree:
        if node.alias is not None:
            self._either(node, negated=False)
        parts: list[TreePart] = []
        links: list[IntervalLink] = []
        last = len(node.parts) - 1
        for number, part in enumerate(node.parts):
            if number:
                links.append(self._link(node, node.relations[number - 1]))
            if not isinstance(part, s.NegatedNode) or node.op != "SEQ":
                parts.append(self._part(part, node.op))
                continue
            if number in (0, last) and node is not self.outermost:
                message = "a negated step at an end belongs to the outermost SEQ"
                raise self.refuse(part.at, message, "put it between two others")
            absent = self._absent(part)
            parts += absent
            links += [self._kept(IntervalLink(","), part.at) for _ in absent[1:]]
        tree = Tree(node.op, tuple(parts), tuple(links))
        if node.op == "SEQ":
            self._check_around(tree)
        return tree

    def _either(self, node: s.GroupNode, *, negated: bool) -> NoReturn:  # noqa: ARG002
        """Refuse a step of several types, which a pattern of intervals cannot have."""
        assert node.alias is not None
        message = f"{node.alias.text!r} names a group in a pattern with PAL or a relation"
        hint = "give each step an alias of its own: OR(A a, B b)"
        raise self.refuse(node.alias.at, message, hint)

    def _link(self, node: s.GroupNode, relation: s.Relation) -> IntervalLink:
        if node.op == "OR" and relation.word != ",":
            message = "alternatives are not related to one another"
            raise self.refuse(relation.at, message, "write a comma")
        counts = []
        for number in relation.counts:
            if not 0 <= s.whole(number.text) <= COUNT_MAX:
                message = "how many events are so related is a whole number"
                raise self.refuse(number.at, message, "as in OVERLAP[0,0,0,2,0]")
            counts.append(s.whole(number.text))
        five = None
        if counts:
            five = (counts[0], counts[1], counts[2], counts[3], counts[4])
        word = " ".join(relation.word.replace("_", " ").split())
        return self._kept(IntervalLink(_SHORT.get(word, word), five), relation.at)

    def _kept(self, link: IntervalLink, at: Span) -> IntervalLink:
        self.kept.append(link)
        self.links[id(link)] = at
        return link

    def _check_around(self, tree: Tree) -> None:
        """Refuse two relations around negated steps, as one relates the steps on both sides."""
        steps = list(self.steps.values())
        words: list[IntervalLink] = []
        for number, part in enumerate(tree.parts[1:], 1):
            link = tree.links[number - 1]
            if link.word != ",":
                words.append(link)
            if isinstance(part, int) and steps[part].negated:
                continue
            if len({each.word for each in words}) > 1:
                message = "two relations are around a negated step"
                hint = "one of them relates the steps on both sides of it; write that one"
                raise self.refuse(self.links[id(words[-1])], message, hint)
            words = []


# Facts about the order of end points (``engine.query.interval_relations``). A point is
# ``2 * step`` (its start) or ``2 * step + 1`` (its end).


class Fact(NamedTuple):
    """Point ``low`` is not after ``high``; ``strict``: it is before ``high``."""

    low: int
    high: int
    strict: bool

    @property
    def edge(self) -> Edge:
        """The fact as an edge of a closure."""
        return Edge(self.low, self.high, LESS if self.strict else UPTO, DERIVED)

    @property
    def opposite(self) -> Fact:
        """The fact that contradicts this one."""
        return Fact(self.high, self.low, not self.strict)


def start(step: int) -> int:
    """Return the start point of ``step``."""
    return 2 * step


def end(step: int) -> int:
    """Return the end point of ``step``."""
    return 2 * step + 1


def implies(facts: np.ndarray, fact: Fact) -> bool:
    """Whether the closure ``facts`` implies ``fact``."""
    return bool(facts[fact.low, fact.high] >= fact.edge.label)


# From a tree to relations, conditions and scopes of its steps (SPEC 4.8).
#
# A part of several steps lasts from its earliest start to its latest end. So each relation of two
# parts compares minima or maxima of points. It is a conjunction of *clauses*, and a clause is a
# disjunction of facts. A clause with one fact becomes a relation, by which the kernel searches;
# others become conditions.


ASSIGNMENTS_MAX: Final = 720


class Side(NamedTuple):
    """The earliest (``latest``: the latest) of ``points``."""

    points: tuple[int, ...]
    latest: bool


class Clause(NamedTuple):
    """At least one of ``facts`` holds. ``link``: the relation of the tree that implies it."""

    facts: tuple[Fact, ...]
    link: IntervalLink


class ContradictionError(Exception):
    """The relation ``link`` contradicts the others, or can never hold."""

    def __init__(self, link: IntervalLink, message: str) -> None:
        super().__init__(message)
        self.link = link


def clauses_of(left: Side, right: Side, link: IntervalLink, *, strict: bool) -> Iterator[Clause]:
    """Yield the clauses for ``left`` before ``right`` (not ``strict``: not after it).

    If ``left`` is the latest of its points, every point must be before, else some point; for
    ``right`` it is the opposite.
    """
    lows = [(point,) for point in left.points] if left.latest else [left.points]
    highs = [right.points] if right.latest else [(point,) for point in right.points]
    for some, others in product(lows, highs):
        yield Clause(tuple(Fact(low, high, strict) for low in some for high in others), link)


def relation_clauses(
    word: str, left: tuple[int, ...], right: tuple[int, ...], link: IntervalLink
) -> list[Clause]:
    """Return the clauses of Allen's relation ``word`` of parts with these steps (L10 Table 5.1)."""
    found: list[Clause] = []
    for mine, op, other in allen_relation("BEFORE" if word == "," else word):
        one, two = _side(left, mine), _side(right, other)
        if op == ">":
            one, two = two, one
        found += clauses_of(one, two, link, strict=op != "=")
        if op == "=":
            found += clauses_of(two, one, link, strict=False)
    return found


def _side(steps: tuple[int, ...], point: str) -> Side:
    """Return the start (``ts``) or the end (``te``) of a part with these ``steps``."""
    latest = point == "te"
    return Side(tuple(map(end if latest else start, steps)), latest)


def _counted_relations(x: int, y: int) -> tuple[tuple[Fact, ...], ...]:
    """Return the facts for each of the five counted relations of x, on the left, to y (Z10 Eq 1):
    contains, is finished by, meets, overlaps, starts with; and last, before. Zero-length intervals
    have none of these.
    """
    xs, xe, ys, ye = start(x), end(x), start(y), end(y)

    def same(one: int, two: int) -> tuple[Fact, ...]:
        return Fact(one, two, False), Fact(two, one, False)

    return (
        (Fact(xs, ys, True), Fact(ye, xe, True)),
        (Fact(xs, ys, True), *same(xe, ye)),
        same(xe, ys),
        (Fact(xs, ys, True), Fact(ys, xe, True), Fact(xe, ye, True)),
        (*same(xs, ys), Fact(xe, ye, True)),
        (Fact(xe, ys, True),),
    )


@dataclass(slots=True)
class Meaning:
    """The constraints of one tree without OR. ``relations`` and ``conditions`` are on positive
    steps, ``scopes`` on negated ones. ``starts``, ``ends``: aliases of steps whose start (end)
    alone suffices for the tree.
    """

    steps: Sequence[Step]
    relations: list[PointRelation] = field(default_factory=list)
    conditions: list[Predicate] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    @property
    def positive(self) -> tuple[int, ...]:
        return tuple(place for place, step in enumerate(self.steps) if not step.negated)


def meaning_of(tree: Tree, steps: Sequence[Step]) -> Meaning:
    """Return the constraints of ``tree``, whose places are the places of ``steps``.

    Raises:
        ContradictionError: no events can satisfy them.
    """
    found = Meaning(steps)
    clauses: list[Clause] = []
    count_links: list[tuple[tuple[int, ...], int, IntervalLink]] = []
    _collect(tree, found, clauses, count_links, outermost=True)
    facts = closure(len(steps), ())
    clauses = _propagate(clauses, facts)
    options = [_assignments(left, right, link, facts) for left, right, link in count_links]
    for each, (_, _, link) in zip(options, count_links, strict=True):
        if len(each) == 1:
            clauses += [Clause((fact,), link) for fact in each[0]]
    clauses = _propagate(clauses, facts)
    name = _namer(steps)
    single = [fact for (fact, *rest), _ in clauses if not rest]
    # If two facts are about one pair of points, the strict one is stronger.
    stated = {(fact.low, fact.high): fact for fact in sorted(single, key=lambda f: f.strict)}
    found.scopes = [_narrow_scope(scope, facts) for scope in found.scopes]
    needed = list(stated.values()) + [
        fact for of in clauses if len(of.facts) > 1 for fact in of.facts
    ]
    stated |= _implied(found.positive, stated, facts)
    found.relations = [
        PointRelation(name(fact.low), "<" if fact.strict else "<=", name(fact.high))
        for fact in stated.values()
    ]
    several = [of.facts for of in clauses if len(of.facts) > 1]
    found.conditions = [
        combined("or", [_compared(fact, name) for fact in facts]) for facts in several
    ]
    for each in options:
        if len(each) > 1:
            needed += [fact for facts in each for fact in facts]
            ways = [[_compared(fact, name) for fact in facts] for facts in each]
            found.conditions.append(combined("or", [combined("and", way) for way in ways]))
    found.starts, found.ends = _halves(found, needed)
    return found


def _collect(
    tree: Tree, found: Meaning, clauses: list[Clause],
    count_links: list[tuple[tuple[int, ...], int, IntervalLink]], *, outermost: bool = False,
) -> tuple[int, ...]:  # fmt: skip
    """Return the positive steps below ``tree``; add its clauses, counted relations and scopes."""
    spans: list[tuple[int, ...]] = []
    words: list[IntervalLink] = []
    waiting: list[tuple[int, int]] = []
    link = IntervalLink(",")
    for number, part in enumerate(tree.parts):
        if number and (tree.links[number - 1].word != "," or link.word == ","):
            link = tree.links[number - 1]
        if isinstance(part, int) and found.steps[part].negated:
            waiting.append((part, len(spans)))
            continue
        mine = (part,) if isinstance(part, int) else _collect(part, found, clauses, count_links)
        if spans:
            words.append(link)
            if link.word != "," or tree.op == "SEQ":
                clauses += relation_clauses(link.word, spans[-1], mine, link)
            if link.counts is not None:
                if len(mine) > 1:
                    message = "the five counts are of one event at their right, not of several"
                    raise ContradictionError(link, message)
                count_links.append((tuple(x for span in spans for x in span), mine[0], link))
        link = IntervalLink(",")
        spans.append(mine)
    for step, number in waiting:
        found.scopes.append(_scope(step, number, spans, words, outermost=outermost))
    return tuple(place for span in spans for place in span)


def _scope(
    step: int,
    number: int,
    spans: list[tuple[int, ...]],
    words: list[IntervalLink],
    *,
    outermost: bool,
) -> Scope:
    """Return the scope of a negated step before ``spans[number]``.

    Parts that are joined by a relation other than BEFORE and AFTER belong together. At an end of
    the pattern the scope is bounded by the whole match (SPEC 4.1).
    """
    everything = tuple(sorted(place for span in spans for place in span))
    if not number or number == len(spans):
        assert outermost
        return Scope(step, (), everything) if not number else Scope(step, everything, ())
    first, stop = number - 1, number + 1
    while first and words[first - 1].word not in {*SEQUEL, "AFTER"}:
        first -= 1
    while stop < len(spans) and words[stop - 1].word not in {*SEQUEL, "AFTER"}:
        stop += 1
    left, right = spans[first:number], spans[number:stop]
    return Scope(
        step, tuple(place for span in left for place in span),
        tuple(place for span in right for place in span),
    )  # fmt: skip


def _narrow_scope(scope: Scope, facts: np.ndarray) -> Scope:
    """Return ``scope`` without the steps that never begin first, as these do not bound it.

    At the end of the pattern, where all of ``after`` bound it, the steps that never begin last are
    left out.
    """

    def firsts(places: tuple[int, ...], *, latest: bool = False) -> tuple[int, ...]:
        kept = list[int]()
        for place in places:
            others = [x for x in places if x in kept or x > place]
            known = (
                Fact(start(place), start(x), False) if latest
                else Fact(start(x), start(place), False)
                for x in others
            )  # fmt: skip
            if not any(implies(facts, fact) for fact in known):
                kept.append(place)
        return tuple(kept)

    after = firsts(scope.after, latest=not scope.before)
    return Scope(scope.step, after, firsts(scope.before))


def _propagate(clauses: list[Clause], facts: np.ndarray) -> list[Clause]:
    """Propagate clauses with one fact into ``facts``; return the remaining clauses."""
    pending, changed = clauses, True
    while changed:
        changed = False
        kept = list[Clause]()
        for clause in pending:
            single = len(clause.facts) == 1
            if any(implies(facts, fact) for fact in clause.facts) and not single:
                continue
            possible = tuple(fact for fact in clause.facts if not implies(facts, fact.opposite))
            if not possible:
                raise ContradictionError(clause.link, "this can never be, beside the rest")
            if len(possible) == 1 and not implies(facts, possible[0]):
                add_to_closure(facts, possible[0].edge)
                changed = True
            kept.append(Clause(possible, clause.link))
        pending = kept
    return pending


def _assignments(
    left: tuple[int, ...], right: int, link: IntervalLink, facts: np.ndarray
) -> list[tuple[Fact, ...]]:
    """Return the combinations of facts for which the five counts of ``link`` hold (Z10 5.1)."""
    assert link.counts is not None
    if sum(link.counts) > len(left):
        message = f"{sum(link.counts)} events are counted, and {len(left)} are at the left"
        raise ContradictionError(link, message)
    kinds = [kind for kind, count in enumerate(link.counts) for _ in range(count)]
    kinds += [5] * (len(left) - len(kinds))
    found = list[tuple[Fact, ...]]()
    for tried, kind in enumerate(dict.fromkeys(permutations(kinds))):
        if tried == ASSIGNMENTS_MAX:
            raise ContradictionError(link, "too many events at the left: write them in groups")
        combination = tuple(
            fact
            for x, k in zip(left, kind, strict=True)
            for fact in _counted_relations(x, right)[k]
        )
        if _possible(combination, facts):
            found.append(combination)
    if not found:
        raise ContradictionError(link, "no events are so related, beside the rest")
    return found


def _possible(combination: tuple[Fact, ...], facts: np.ndarray) -> bool:
    tried = facts.copy()
    for fact in combination:
        if implies(tried, fact.opposite):
            return False
        add_to_closure(tried, fact.edge)
    return True


def _implied(
    places: tuple[int, ...], stated: dict[tuple[int, int], Fact], facts: np.ndarray
) -> dict[tuple[int, int], Fact]:
    """Return implied facts for steps without a stated relation; they narrow the search."""
    pairs = {frozenset((low >> 1, high >> 1)) for low, high in stated}
    found = {}
    for x, y in permutations(places, 2):
        if frozenset((x, y)) in pairs:
            continue
        for low in (end(x), start(x)):
            fact = Fact(low, start(y), True)
            if implies(facts, fact):
                found[low, start(y)] = fact
                break
    return found


def _halves(found: Meaning, needed: list[Fact]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the steps whose start alone may suffice, and those whose end alone may suffice.

    An end that must be before a point, or a start that must be after one, is necessary.
    """
    lows = {fact.low for fact in needed}
    highs = {fact.high for fact in needed}
    # The start of a negated step is compared with the starts after it, or with all of them.
    for scope in found.scopes:
        at_an_end = not scope.before or not scope.after
        highs |= set(map(start, found.positive if at_an_end else scope.before))
    starts = [found.steps[x].alias for x in found.positive if end(x) not in lows]
    ends = [found.steps[x].alias for x in found.positive if start(x) not in highs]
    return tuple(starts), tuple(ends)


def _namer(steps: Sequence[Step]) -> Callable[[int], Attribute]:
    return lambda point: Attribute("te" if point & 1 else "ts", steps[point >> 1].alias)


def _compared(fact: Fact, name: Callable[[int], Attribute]) -> Predicate:
    return Comparison("<" if fact.strict else "<=", name(fact.low), name(fact.high))


# The plan of a pattern of intervals, with a branch for each alternative of its ORs.


_OF_END = frozenset({"te", "raw_te"})
_OF_START = frozenset({"ts", "raw_ts", "ref"})


def bare_branches(name: str, pattern: TreePattern) -> list[SeqPlan]:
    """Return for each alternative of ``pattern`` its steps and the constraints of the tree.

    Raises:
        UserError: an alternative has no positive step, or its relations exclude one another.
    """
    known, found = list(pattern.steps.values()), []
    for tree in pattern.trees():
        kept, moved = placed(tree)
        steps = tuple(known[place] for place in kept)
        try:
            meaning = meaning_of(moved, steps)
        except ContradictionError as error:
            raise pattern.refuse(pattern.links[id(error.link)], str(error)) from None
        found.append(
            SeqPlan(
                name, pattern.text, steps, others=tuple(meaning.conditions),
                pattern=Group("AND", meaning.positive), relations=tuple(meaning.relations),
                scopes=tuple(meaning.scopes), starts=meaning.starts, ends=meaning.ends,
            )
        )  # fmt: skip
    return found


def tree_plan(
    whole: SeqPlan, branches: tuple[SeqPlan, ...], pattern: TreePattern, terms: Sequence[Term],
    returned: tuple[tuple[Attribute, ...], tuple[Computed, ...]],
) -> TreePlan:  # fmt: skip
    """Return the plan of ``branches``.

    A step needs its whole interval if the query reads the end point that may be missing.
    """
    named = [attribute for term in terms for attribute in attributes_in(term.predicate)]
    named += returned[0]
    named += [each for one in returned[1] for each in attributes_in(one.expression)]
    needs_end = {attribute.alias for attribute in named if attribute.name in _OF_END}
    needs_start = {attribute.alias for attribute in named if attribute.name in _OF_START}
    branches = tuple(
        replace(
            branch,
            # Only the start of a negated step counts.
            starts=tuple(
                alias
                for alias in (*branch.starts, *(one.alias for one in branch.steps if one.negated))
                if alias not in needs_end
            ),
            ends=tuple(alias for alias in branch.ends if alias not in needs_start),
        )
        for branch in branches
    )
    known = {step.alias: step for branch in branches for step in branch.steps}
    places = tuple(place for place, alias in enumerate(pattern.steps) if alias in known)
    return TreePlan(
        whole.name, whole.text, branches, whole.realtime,
        tuple(known[alias] for alias in pattern.steps), Group("AND", places),
        tuple(term.predicate for term in terms), *returned, tree=pattern.root,
    )  # fmt: skip
