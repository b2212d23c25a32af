"""Random SEQ/PAL trees with intervals of which some match them.

Relations and orders drawn one by one exclude one another nearly always. So the intervals of one
match are drawn first, and the tree says of them mostly what is so: ``test_trees`` holds that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from tests.pattern.trees.definition import (
    MIRRORS,
    RELATIONS,
    Node,
    Record,
    Span,
    Tree,
    Where,
    absent_in,
    choices,
    names_in,
    stands,
    text_of,
)

WORDS = [*RELATIONS, *MIRRORS]
LONG = [0, 1, 2, 2, 3, 5, 7]
Drawn = tuple[Tree, list[Record]]


@dataclass
class _Drawing:
    """A tree that is being drawn. ``planted``: by step, its interval in the match that is meant."""

    draw: st.DrawFn
    steps: int
    planted: dict[str, Span] = field(default_factory=dict)
    names: int = 0

    def name(self, letters: str) -> str:
        self.names += 1
        return f"{self.draw(st.sampled_from(letters))}{self.names}"

    def leaf(self, at: int, letters: str = "abc") -> tuple[Node, Span]:
        name = self.name(letters)
        start = at + self.draw(st.integers(0, 2))
        self.planted[name] = Span(start, start + self.draw(st.sampled_from(LONG)))
        self.steps -= 1
        return name, self.planted[name]

    def one_of(self, at: int) -> tuple[Node, Span]:
        """An OR, of which one alternative is meant."""
        meant, span = self.leaf(at, "d")
        if self.steps > 1 and self.draw(st.booleans()):
            inner, last = self.leaf(span.end + 1)
            meant, span = ("SEQ", [meant, inner], [","]), Span(span.start, last.end)
        other: Node = self.name("e")
        if self.draw(st.booleans()):
            other = ("PAL", [other, self.name("abc")], [","])
        both = [meant, other] if self.draw(st.booleans()) else [other, meant]
        return ("OR", both, [","]), span

    def part(self, at: int, depth: int) -> tuple[Node, Span]:
        what = self.draw(st.integers(0, 5)) if self.steps > 1 else 5
        if what == 0:
            return self.one_of(at)
        return self.group(at, depth - 1) if what < 3 and depth else self.leaf(at)

    def absent(self, parts: list[Node], words: list[str]) -> None:
        """Negated steps after what is there already."""
        for _ in range(self.draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
            if parts:
                words.append(",")
            parts.append("!" + self.name("nnnabc"))

    def group(self, at: int, depth: int, *, outermost: bool = False) -> tuple[Node, Span]:
        op = self.draw(st.sampled_from(["SEQ", "SEQ", "PAL", "AND"]))
        parts: list[Node] = []
        words: list[str] = []
        spans: list[Span] = []
        if op == "SEQ" and outermost:
            self.absent(parts, words)
        for number in range(self.draw(st.sampled_from([2, 2, 3]))):
            if number and not self.steps:
                break
            if number:
                if op == "SEQ":
                    self.absent(parts, words)
                last = spans[-1]
                at = self.draw(
                    st.sampled_from([last.end + 1, last.end, last.start, last.start + 1])
                )
            part, span = self.part(at, depth)
            if parts:
                words.append(self.word(op, spans[-1], span) if spans else ",")
            parts.append(part)
            spans.append(span)
        if op == "SEQ" and outermost:
            self.absent(parts, words)
        return (op, parts, words), Span(min(s.start for s in spans), max(s.end for s in spans))

    def word(self, op: str, x: Span, y: Span) -> str:
        fits = [word for word in WORDS if stands(word, x, y)]
        if op != "SEQ" or "BEFORE" in fits:
            fits += [","]
        if self.draw(st.integers(0, 9)) == 0:
            fits = [*WORDS, ","]
        return self.draw(st.sampled_from(fits or [","]))

    def conditions(self, node: Node) -> tuple[Where, ...]:
        """On the steps of one choice of alternatives, negated ones with others among them."""
        chosen = self.draw(st.sampled_from(choices(node)))
        positive, negated = names_in(chosen), absent_in(chosen)
        found: list[Where] = []
        for _ in range(self.draw(st.sampled_from([0, 0, 1, 1, 2]))):
            if len(positive) < 2:
                break
            x, y = self.draw(st.permutations(positive))[:2]
            if negated and self.draw(st.booleans()):
                y = self.draw(st.sampled_from(negated))
            found.append(self.condition(x, y))
        return tuple(found)

    def condition(self, x: str, y: str) -> Where:
        apart = ("apart", x, y, self.draw(st.integers(0, 12)))
        less = ("less", x, y)
        return self.draw(st.sampled_from([("key", x, y), less, apart, ("either", less, apart)]))


@st.composite
def trees(
    draw: st.DrawFn, *, steps: int = 4, noise: int = 8, where: bool = False, clocks: bool = False
) -> Drawn:
    """A tree that has a PAL or a relation, and whole intervals in any order of arrival.

    Args:
        steps: positive ones at most, alternatives apart.
        noise: intervals besides those of the match that is meant, at most.
        where: with conditions across steps.
        clocks: they err, some of several events together.
    """
    drawing = _Drawing(draw, steps)
    node, span = drawing.group(draw(st.integers(0, 4)), 2, outermost=True)
    if not any(word in text_of(node) for word in ["PAL", *WORDS]):
        # Else it is a pattern of points.
        op, parts, words = node
        first = next(n for n, part in enumerate(parts) if not str(part).startswith("!"))
        node = (op, [*parts[:first], ("PAL", [parts[first]], []), *parts[first + 1 :]], words)
    within = draw(st.sampled_from([span.end - span.start, 12, 20, 30]))
    asked = drawing.conditions(node) if where else ()
    errs = {source: draw(st.sampled_from([0, 1, 1, 2])) for source in "xyz"} if clocks else {}
    records = [_record(draw, name[0].upper(), s, errs) for name, s in drawing.planted.items()]
    letters = sorted({name[0].upper() for name in [*drawing.planted, *absent_in(node), "a"]})
    for _ in range(draw(st.integers(0, noise))):
        start = draw(st.integers(0, 18))
        span = Span(start, start + draw(st.sampled_from(LONG)))
        records.append(_record(draw, draw(st.sampled_from(letters)), span, errs))
    return Tree(node, max(1, within), asked), _numbered(draw(st.permutations(records)))


def _record(draw: st.DrawFn, kind: str, span: Span, errs: dict[str, int]) -> Record:
    """``errs``: by source, how far its clock is off; without any no clock errs."""
    v, k = (draw(st.sampled_from([None, 0, 0, 1, 1, 2])) for _ in "vk")
    if not errs:
        return Record(kind, 0, span.start, span.end, v=v, k=k)
    source, epoch = draw(st.sampled_from("xyz")), draw(st.sampled_from([0, -1]))
    unc = errs[source] if epoch == 0 else draw(st.sampled_from([0, 0, 1, 1, 2]))
    return Record(
        kind, 0, span.start, span.end, unc=unc, source=source, v=v, k=k, epoch=epoch
    )  # fmt: skip


def _numbered(records: Sequence[Record]) -> list[Record]:
    return [Record(r.type, n, r.start, r.end, r.half, r.unc, r.source, r.v, r.k, r.epoch)
            for n, r in enumerate(records)]  # fmt: skip


FORMS = [
    ["whole"], ["whole"], ["start", "whole"], ["start", "end"], ["start"], ["end"],
    ["start", "start"], ["start", "start", "end"], ["start", "start", "whole"],
    ["end", "end", "start"],
]  # fmt: skip


@st.composite
def torn(draw: st.DrawFn, *, steps: int = 4, noise: int = 4, clocks: bool = False) -> Drawn:
    """A tree, and records of intervals of which some come as halves, in any order, or as one half
    alone; a half may come twice, as a begin does after a gateway's restart. Two sources, and two
    types, may have intervals of one id. ``clocks``: they err, by the same for both halves.
    """
    tree, records = draw(trees(steps=steps, noise=noise, clocks=clocks))
    found, known = list[Record](), set[tuple[str, str, int]]()
    for number, of in enumerate(records):
        source = of.source if clocks else draw(st.sampled_from("xy"))
        key = source, of.type, number // 2
        if key not in known:
            known.add(key)
            found += [replace(of, id=key[2], half=half, source=source, v=None, k=None)
                      for half in draw(st.sampled_from(FORMS))]  # fmt: skip
    return tree, draw(st.permutations(found))
