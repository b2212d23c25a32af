"""The tree of a pattern of intervals: its steps, its parts, and the links between them (Z10 4.1).

A pattern is read so if it has a PAL or a relation anywhere; else its steps are in the order of
``engine.query.analysis.pattern``.
"""

from __future__ import annotations

from typing import Final, NoReturn

from msgspec.structs import replace

from slackwater.engine.query.analysis.pattern import Pattern
from slackwater.engine.query.analysis.typed import unsupported
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import Span
from slackwater.engine.query.plan import IntervalLink, Tree, TreePart

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
        """A step of several types has no place among intervals."""
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
