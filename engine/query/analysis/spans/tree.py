"""The tree of a pattern of intervals: its steps, its parts, and the links between them (Z10 4.1).

A pattern is read so if it has a PAL or a relation anywhere; else its steps are in the order of
``engine.query.analysis.pattern``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.query.analysis.pattern import BRANCHES_MAX, Pattern, combinations, count_of
from engine.query.analysis.typed import unsupported
from engine.query.language import syntax as s
from engine.query.language.mistakes import Span
from engine.query.plan import IntervalLink, Tree, TreePart

SEQUEL: Final = frozenset({",", "BEFORE"})
"""Between two parts of a SEQ these say the same."""
COUNT_MAX: Final = 60
_SHORT: Final = {
    "CONTAINS": "CONTAIN", "OVERLAPS": "OVERLAP", "MEETS": "MEET", "STARTS": "START",
    "FINISHES": "FINISH", "EQUALS": "EQUAL",
}  # fmt: skip
"""Words for relations besides Z10's own."""


def is_tree(node: s.PatternNode) -> bool:
    """Whether the pattern is one of intervals: it has a PAL or a relation."""
    return not isinstance(node, s.IseqNode) and any(
        each.op == "PAL" or any(relation.word != "," for relation in each.relations)
        for each in s.inside(node)
        if isinstance(each, s.GroupNode)
    )


class TreePattern(Pattern):
    """``tree`` is what is written; ``links``: the place of each link in the text.

    Raises:
        UserError: a step's name, a negation, a relation or a group is at fault.
    """

    def __init__(self, parsed: s.PatternNode, text: str) -> None:
        self.links: dict[int, Span] = {}
        """By the id of a ``IntervalLink``, its place in the text."""
        self.kept: list[IntervalLink] = []
        self.outermost = parsed
        super().__init__(parsed, text)
        # A tree is no Group; those who want groups have ``Pattern``.
        self.root: Tree = self.tree  # type: ignore[assignment]

    def trees(self) -> list[Tree]:
        """``root`` once for each combination of the ORs' alternatives, without OR.

        Raises:
            UserError: there are too many, or one of them has no positive step.
        """
        count = count_of(self.root)
        if count > BRANCHES_MAX:
            message = f"the ORs make {count} combinations; at most {BRANCHES_MAX} are answered"
            raise self.refuse(self.at, message, "split it into several queries")
        steps = list(self.steps.values())
        found = [_group(each) for each in combinations(self.root, _with_parts)]
        for tree in found:
            if all(steps[place].negated for place in leaves(tree)):
                hint = "at least one step must occur for a match to exist"
                raise self.refuse(self.at, "every step is negated", hint)
        return found

    def _part(self, node: s.PatternNode, parent: str) -> TreePart:  # type: ignore[override]
        match node:
            case s.StepNode():
                return self._add(node, negated=False)
            case s.GroupNode():
                return self._tree(node)
            case s.IseqNode():
                raise unsupported(self.text, node.at, "ISEQ beside PAL or a relation")
            case s.NegatedNode():
                message = f"a negated step cannot be a part of {parent} itself"
                hint = "put it in a SEQ, whose other steps say which time it covers"
                raise self.refuse(node.at, message, hint)

    def _tree(self, node: s.GroupNode) -> Tree:
        self._check_unnamed(node)
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

    def _check_unnamed(self, node: s.GroupNode) -> None:
        if node.alias is not None:
            message = f"{node.alias.text!r} names a group in a pattern with PAL or a relation"
            hint = "give each step an alias of its own: OR(A a, B b)"
            raise self.refuse(node.alias.at, message, hint)

    def _absent(self, node: s.NegatedNode) -> list[int]:
        """The places of a negated step, or of those in a negated OR: none may occur."""
        part = node.part
        if isinstance(part, s.StepNode):
            return [self._add(part, negated=True)]
        if isinstance(part, s.NegatedNode):
            raise self.refuse(part.at, "this step is negated twice", "write one !")
        if isinstance(part, s.GroupNode) and part.op == "OR":
            self._check_unnamed(part)
            inner = [s.NegatedNode(each, node.at, each.depth + 1) for each in part.parts]
            return [place for each in inner for place in self._absent(each)]
        word = part.op if isinstance(part, s.GroupNode) else "ISEQ"
        hint = "negate single steps, or an OR of them: !OR(C c, D d)"
        raise self.refuse(node.at, f"{word}(...) cannot be negated", hint)

    def _link(self, node: s.GroupNode, relation: s.Relation) -> IntervalLink:
        if node.op == "OR" and relation.word != ",":
            message = "alternatives are not related to one another"
            raise self.refuse(relation.at, message, "write a comma")
        counts = []
        for number in relation.counts:
            if not number.text.isdecimal() or int(number.text) > COUNT_MAX:
                message = "how many events are so related is a whole number"
                raise self.refuse(number.at, message, "as in OVERLAP[0,0,0,2,0]")
            counts.append(int(number.text))
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
        """Refuses two relations around negated steps: one relates the neighbours of these."""
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


def leaves(part: TreePart) -> list[int]:
    """The places below ``part``, in written order."""
    if isinstance(part, int):
        return [part]
    return [place for inner in part.parts for place in leaves(inner)]


def renumbered(tree: Tree, rank: dict[int, int]) -> Tree:
    """``tree`` with the ranks of its places in their stead; its links are the same ones."""

    def moved(part: TreePart) -> TreePart:
        return rank[part] if isinstance(part, int) else renumbered(part, rank)

    return Tree(tree.op, tuple(map(moved, tree.parts)), tree.links)


def _group(part: TreePart) -> Tree:
    return part if isinstance(part, Tree) else Tree("SEQ", (part,), ())


def _with_parts(tree: Tree, parts: Sequence[TreePart]) -> Tree:
    return Tree(tree.op, tuple(parts), tree.links)
