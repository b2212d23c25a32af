"""The pattern of an EVENT query: its steps, how they are grouped, and the alternatives of its ORs.

Whatever the grammar reads but this version has no operator for is refused here, with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any, Final

from engine.errors import UserError
from engine.query.analysis.clauses import unsupported
from engine.query.fields import OWN
from engine.query.language import syntax as s
from engine.query.language.place import Span, refuse
from engine.query.plan import Group, Part, Step, TreePart
from engine.query.shape import leaves, unscoped
from engine.stream.timeline import ANY_TYPE

STEPS_MAX: Final = 60
"""An operator keeps one bit per step in 64 bits."""
BRANCHES_MAX: Final = 64


class Pattern:
    """The steps of a pattern in written order, and ``tree``, their groups (OR included).

    Raises:
        UserError: a step's name, a negation or a group is at fault.
    """

    def __init__(self, parsed: s.PatternNode, text: str) -> None:
        self.text = text
        self.at = parsed.at
        self.steps: dict[str, Step] = {}
        self.spans: list[Span] = []
        """Where each step stands, the sign before a negated one left out."""
        self.iseq = parsed if isinstance(parsed, s.IseqNode) else None
        self.tree = self._part(parsed, "SEQ") if self.iseq is None else self._interval_steps()

    def alternatives(self) -> list[Part]:
        """``tree`` once for each combination of the ORs' alternatives, without OR.

        Raises:
            UserError: there are too many; or one of them has no positive step, or a negated one
                of which nothing says which time it covers.
        """
        count = count_of(self.tree)
        if count > BRANCHES_MAX:
            message = f"the ORs make {count} combinations; at most {BRANCHES_MAX} are answered"
            raise self.refuse(self.at, message, "split it into several queries")
        found: list[Part] = combinations(self.tree, lambda part, t: joined(part.op, list(t)))
        negated = frozenset(p for p, step in enumerate(self.steps.values()) if step.negated)
        aliases = list(self.steps)
        for tree in found:
            if all(place in negated for place in leaves(tree)):
                which = "every step" if count == 1 else "every step of one alternative"
                hint = "at least one step must occur for a match to exist"
                raise self.refuse(self.at, f"{which} is negated", hint)
            for place in unscoped(tree, negated) if self.iseq is None else ():
                message = f"nothing says which time !{aliases[place]} covers here"
                hint = "inside AND a negated step stands between two others: SEQ(A a, !N n, B b)"
                raise self.refuse(self.spans[place], message, hint)
        return found

    def refuse(self, at: Span, message: str, hint: str = "") -> UserError:
        return refuse(self.text, at, message, hint)

    def _part(self, node: s.PatternNode, parent: str) -> Part:
        match node:
            case s.StepNode():
                return self._add(node, negated=False)
            case s.NegatedNode():
                return self._negated(node, parent)
            case s.IseqNode():
                message = "ISEQ stands inside another pattern"
                hint = "one query has one ISEQ, of single steps: EVENT ISEQ[A.ts < B.te](A, B)"
                raise self.refuse(node.at, message, hint)
            case s.GroupNode(alias=s.Name()):
                return self._either(node, negated=False)
            case s.GroupNode(op="PAL"):
                raise unsupported(self.text, node.at, "PAL(...) in a pattern")
            case s.GroupNode(op=op):
                for relation in node.relations:
                    if relation.word != ",":
                        what = f"the relation {relation.word}"
                        raise unsupported(self.text, relation.at, what)
                parts = [self._part(part, op) for part in node.parts]
                if op == "OR":
                    self._check_alternatives(parts)
                return joined(op, parts)

    def _interval_steps(self) -> Group:
        """The steps of an ISEQ; which ones, and when a negated one counts, its TList says."""
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

    def _negated(self, node: s.NegatedNode, parent: str) -> Part:
        part = node.part
        if parent != "SEQ":
            message = f"a negated step cannot be a part of {parent} itself"
            hint = "it stands in a SEQ, whose other steps say which time it covers"
            raise self.refuse(node.at, message, hint)
        if isinstance(part, s.NegatedNode):
            raise self.refuse(part.at, "this step is negated twice", "write one !")
        if isinstance(part, s.StepNode):
            return self._add(part, negated=True)
        if isinstance(part, s.GroupNode) and part.alias is not None:
            return self._either(part, negated=True)
        if isinstance(part, s.GroupNode) and part.op == "OR":
            # Neither may occur: two negated steps side by side.
            inner = [s.NegatedNode(each, node.at, each.depth + 1) for each in part.parts]
            return joined("SEQ", [self._negated(each, "SEQ") for each in inner])
        word = part.op if isinstance(part, s.GroupNode) else "ISEQ"
        hint = "negate single steps, or an OR of them: !OR(C c, D d)"
        raise self.refuse(node.at, f"{word}(...) cannot be negated", hint)

    def _either(self, node: s.GroupNode, *, negated: bool) -> int:
        """``OR(A, B) x``: one step of several types."""
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
        if named.text == OWN:
            message = f"{OWN!r} cannot name a step: it stands for an event's own attributes"
            raise self.refuse(named.at, message, "give the step another alias")
        if named.text in self.steps:
            hint = f"give each an alias of its own, as in {node.type.text} first"
            raise self.refuse(named.at, f"two steps are named {named.text!r}", hint)
        if len(self.steps) == STEPS_MAX:
            raise self.refuse(named.at, f"a pattern has at most {STEPS_MAX} steps")
        self.steps[named.text] = Step(named.text, node.type.text, negated)
        self.spans.append(node.at)
        return len(self.steps) - 1


def either_types(node: s.GroupNode, text: str) -> tuple[str, ...]:
    """The types of a group that has an alias, which is one step.

    Raises:
        UserError: it is no OR of types.
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
    """The group of ``parts``: the same group inside it is one with it, and one part is itself."""
    flat: list[Part] = []
    for part in parts:
        same = isinstance(part, Group) and part.op == op
        flat += part.parts if same and isinstance(part, Group) else (part,)
    return flat[0] if len(flat) == 1 else Group(op, tuple(flat))


def placed(tree: Part) -> tuple[list[int], Part]:
    """The places that ``tree`` has, and ``tree`` with their ranks in their stead."""
    kept = sorted(leaves(tree))
    rank = {place: number for number, place in enumerate(kept)}

    def moved(part: Part) -> Part:
        if isinstance(part, int):
            return rank[part]
        return Group(part.op, tuple(moved(inner) for inner in part.parts))

    return kept, moved(tree)


def count_of(part: Part | TreePart) -> int:
    """How many combinations the alternatives of a tree's ORs have."""
    if isinstance(part, int):
        return 1
    counts = [count_of(inner) for inner in part.parts]
    return sum(counts) if part.op == "OR" else prod(counts)


def combinations(part: Any, joined: Callable[[Any, Sequence[Any]], Any]) -> list[Any]:
    """A tree once for each of them, without OR; ``joined``: a group with other parts."""
    if isinstance(part, int):
        return [part]
    found = [combinations(inner, joined) for inner in part.parts]
    if part.op == "OR":
        return [tree for trees in found for tree in trees]
    return [joined(part, trees) for trees in product(*found)]
