"""SEQ/PAL trees under every error that clocks allow, by definition (SPEC 4.3).

What a tree asks is written down as orders of two end points, which hold to a degree: 0 not, 2
surely, 1 maybe. "And" is then the least, "or" the largest, "not" what is left of 2. ``Jointly``
gives the degree under each of some errors of all clocks at once, 0 or 2; what is 2 under one of
them is possible, and certain what is under all. ``Singly`` gives each order its own degree, as the
engine is said to do: it knows of nothing that two orders can be together.

Of a half of an interval one point is known, and the other lies behind it or before it: an order
holds if it does wherever that is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from tests.pattern.trees.definition import (
    MIRRORS,
    Node,
    Record,
    Tree,
    Where,
    absent_in,
    choices,
    named,
    names_in,
)

Degree = np.ndarray
END: Final = 1
GRID_MAX: Final = 6_000
YES: Final = np.array([2])
NO: Final = np.array([0])


class Clocks(Protocol):
    """``apart``: the degree to which point ``x`` less point ``y`` is below ``bound`` (``strict``)
    or at most it; a point is a record's number and 0 or END.
    """

    def apart(self, x: tuple[int, int], y: tuple[int, int], bound: int, *, strict: bool) -> Degree:
        """See above."""


@dataclass(frozen=True)
class Singly:
    """``t_a``: R19's rule; None: pair by pair."""

    records: Sequence[Record]
    t_a: int | None = None

    def apart(self, x: tuple[int, int], y: tuple[int, int], bound: int, *, strict: bool) -> Degree:
        one, two = (self.records[row] for row, _ in (x, y))
        apart = between(one, x[1], two, y[1])
        if apart is None:
            return NO
        error = one.unc + two.unc if self.t_a is None else self.t_a
        if x[0] == y[0] or (self.t_a is None and clock_of(x[0], one) == clock_of(y[0], two)):
            error = 0
        if apart < bound - error or (apart == bound - error and not strict):
            return YES
        return np.array([int(error > 0 and apart <= bound + error)])


@dataclass(frozen=True)
class Jointly:
    """``errors``: by record, its error in each case."""

    records: Sequence[Record]
    errors: Sequence[np.ndarray]

    def apart(self, x: tuple[int, int], y: tuple[int, int], bound: int, *, strict: bool) -> Degree:
        apart = between(self.records[x[0]], x[1], self.records[y[0]], y[1])
        if apart is None:
            return NO
        # Errors alone, first: what is shared cancels out without being rounded.
        really = apart + (self.errors[x[0]] - self.errors[y[0]])
        return 2 * (really < bound if strict else really <= bound)


def between(one: Record, one_end: int, two: Record, two_end: int) -> int | None:
    """The most that a point of ``one`` lies behind one of ``two``; None: nothing bounds it."""
    if (one_end and one.half == "start") or (not two_end and two.half == "end"):
        return None
    most = one.end if one_end or one.half == "end" else one.start
    return most - (two.end if two_end and two.half != "start" else two.start)


def known(record: Record) -> list[int]:
    """Its points of which the time is known."""
    return {"whole": [0, END], "start": [0], "end": [END]}[record.half]


def clock_of(row: int, record: Record) -> object:
    """Events of one clock and epoch share one error."""
    return row if record.epoch < 0 else (record.source, record.epoch)


def errors_of(
    records: Sequence[Record], rows: Sequence[int], t_a: int | None, chance: np.random.Generator,
    *, real: bool,
) -> list[np.ndarray]:  # fmt: skip
    """By record, errors that the clocks of ``rows`` allow, the others' being 0.

    Whole numbers: all there are, if these are not too many, else some of them with all extremes.
    ``real``: drawn from anywhere between.
    """
    half = {row: records[row].unc if t_a is None else t_a / 2 for row in rows}
    clocks = {row: row if t_a is not None else clock_of(row, records[row]) for row in rows}
    most: dict[object, float] = {}
    for row in rows:
        most[clocks[row]] = max(most.get(clocks[row], 0), half[row])
    names = [name for name, widest in most.items() if widest]
    if not names:
        return [np.zeros(1, np.int64)] * len(records)
    shares = chance.uniform(-1, 1, (GRID_MAX, len(names)))
    if not real:
        steps = [np.linspace(-1, 1, int(2 * most[name]) + 1) for name in names]
        if np.prod([len(each) for each in steps]) <= GRID_MAX:
            shares = np.array(list(itertools.product(*steps)))
        else:
            drawn = [chance.choice(each, GRID_MAX) for each in steps]
            ends = list(itertools.islice(itertools.product((-1, 0, 1), repeat=len(names)), 3**7))
            shares = np.concatenate([np.column_stack(drawn), ends])
    found = []
    for row in range(len(records)):
        at = names.index(clocks[row]) if clocks.get(row) in names else None
        share = np.zeros(len(shares)) if at is None else shares[:, at]
        error = share * half.get(row, 0)
        found.append(error if real else np.rint(error).astype(np.int64))
    return found


def everything(degrees: Iterator[Degree] | Sequence[Degree]) -> Degree:
    """And."""
    found = YES
    for each in degrees:
        found = np.minimum(found, each)
    return found


def anything(degrees: Iterator[Degree] | Sequence[Degree]) -> Degree:
    """Or."""
    found = np.array([0])
    for each in degrees:
        found = np.maximum(found, each)
    return found


@dataclass(frozen=True)
class Combination:
    """One combination of events for one choice of alternatives."""

    clocks: Clocks
    within: int
    of: dict[str, int]

    def before(self, x: str, x_end: int, y: str, y_end: int, *, strict: bool = True) -> Degree:
        return self.clocks.apart((self.of[x], x_end), (self.of[y], y_end), 0, strict=strict)

    def _points(
        self, left: list[str], left_end: int, right: list[str], right_end: int, *, strict: bool
    ) -> Degree:
        """The first of the starts (the last of the ends) of the left before that of the right."""
        pair = lambda x, y: self.before(x, left_end, y, right_end, strict=strict)  # noqa: E731
        if left_end and not right_end:
            return everything([pair(x, y) for x in left for y in right])
        if left_end:
            return everything([anything([pair(x, y) for y in right]) for x in left])
        if not right_end:
            return everything([anything([pair(x, y) for x in left]) for y in right])
        return anything([pair(x, y) for x in left for y in right])

    def stands(self, word: str, x: list[str], y: list[str]) -> Degree:
        """L10 Table 5.1."""
        if word in MIRRORS:
            return self.stands(MIRRORS[word], y, x)

        def lt(a: list[str], a_end: int, b: list[str], b_end: int) -> Degree:
            return self._points(a, a_end, b, b_end, strict=True)

        def eq(a: list[str], a_end: int, b: list[str], b_end: int) -> Degree:
            one = self._points(a, a_end, b, b_end, strict=False)
            return np.minimum(one, self._points(b, b_end, a, a_end, strict=False))

        asked: dict[str, Callable[[], list[Degree]]] = {
            "BEFORE": lambda: [lt(x, END, y, 0)],
            "AFTER": lambda: [lt(y, END, x, 0)],
            "CONTAIN": lambda: [lt(x, 0, y, 0), lt(y, END, x, END)],
            "DURING": lambda: [lt(y, 0, x, 0), lt(x, END, y, END)],
            "OVERLAP": lambda: [lt(x, 0, y, 0), lt(y, 0, x, END), lt(x, END, y, END)],
            "MEET": lambda: [eq(x, END, y, 0)],
            "START": lambda: [eq(x, 0, y, 0), lt(x, END, y, END)],
            "FINISH": lambda: [lt(y, 0, x, 0), eq(x, END, y, END)],
            "EQUAL": lambda: [eq(x, 0, y, 0), eq(x, END, y, END)],
        }
        return everything(asked[word]())

    def holds(
        self, node: Node, absent: list[tuple[str, list[str], list[str]]]
    ) -> tuple[list[str], Degree]:
        """The steps of ``node``, and the degree; adds (negated step, after, before)."""
        if isinstance(node, str):
            return [node], YES
        op, parts, words = node
        groups: list[list[str]] = []
        related: list[str] = []
        waiting: list[tuple[str, int]] = []
        found, word = YES, ","
        for number, part in enumerate(parts):
            if number and words[number - 1] != ",":
                word = words[number - 1]
            if isinstance(part, str) and part[0] == "!":
                waiting.append((part[1:], len(groups)))
                continue
            mine, degree = self.holds(part, absent)
            found = np.minimum(found, degree)
            if groups:
                name = "BEFORE" if word == "," and op == "SEQ" else word
                if name != ",":
                    found = np.minimum(found, self.stands(name, groups[-1], mine))
                related.append(name)
            groups.append(mine)
            word = ","
        for name, place in waiting:
            first, last = place, place
            while first > 0 and (first == place or related[first - 1] not in {"BEFORE", "AFTER"}):
                first -= 1
            while last < len(groups) and (
                last == place or related[last - 1] not in {"BEFORE", "AFTER"}
            ):
                last += 1
            left = groups[first:place] if place < len(groups) else groups
            right = groups[place:last] if place else groups
            absent.append((name, [x for g in left for x in g], [x for g in right for x in g]))
        return [x for group in groups for x in group], found

    def lies(self, name: str, row: int, after: list[str], before: list[str]) -> Degree:
        """Whether the event at ``row`` begins where the negated step must not."""
        its = Combination(self.clocks, self.within, {**self.of, name: row})
        steps, w = [*self.of], self.within
        here, of = (row, 0), self.of
        if after and before:
            lower = anything([its.before(x, 0, name, 0) for x in after])
        elif after:
            lower = everything([its.before(x, 0, name, 0) for x in after])
        else:
            reach = [self.clocks.apart((of[x], 0), here, w, strict=False) for x in steps]
            lower = everything(reach)
        if not before:
            reach = [self.clocks.apart(here, (of[x], 0), w, strict=False) for x in steps]
            return np.minimum(lower, everything(reach))
        return np.minimum(lower, everything([its.before(name, 0, x, 0) for x in before]))

    def met(self, where: Where, records: Sequence[Record], of: dict[str, int]) -> Degree:
        """A condition."""
        if where[0] == "either":
            return anything([self.met(each, records, of) for each in where[1:]])
        x, y = (of[name] for name in where[1:3])
        if where[0] == "apart":
            return self.clocks.apart((y, END), (x, 0), where[3], strict=False)
        one, two = ((records[r].k if where[0] == "key" else records[r].v) for r in (x, y))
        if one is None or two is None:
            return np.array([0])
        return np.array([2 * (one == two if where[0] == "key" else one < two)])


def degree_of(
    tree: Tree, node: Node, records: Sequence[Record], chosen: Sequence[int], clocks: Clocks
) -> Degree:
    """Of the match of ``chosen`` for one choice of alternatives."""
    of = dict(zip(names_in(node), chosen, strict=True))
    judged = Combination(clocks, tree.within, of)
    absent: list[tuple[str, list[str], list[str]]] = []
    found = judged.holds(node, absent)[1]
    points = [(row, end) for row in chosen for end in known(records[row])]
    for x, y in itertools.product(points, repeat=2):
        found = np.minimum(found, clocks.apart(x, y, tree.within, strict=False))
    reaching = any(not after or not before for _, after, before in absent)
    if reaching and any(records[row].half == "end" for row in chosen):
        return NO  # how far WITHIN reaches is not known
    barred, asked = set(absent_in(node)), tree.asked(node)
    for each in asked:
        if not named(each) & barred:
            found = np.minimum(found, judged.met(each, records, of))
    for name, after, before in absent:
        for row, record in enumerate(records):
            if record.type != name[0].upper() or row in chosen or not found.any():
                continue
            lies = judged.lies(name, row, after, before)
            for each in asked:
                if name in named(each):
                    lies = np.minimum(lies, judged.met(each, records, {**of, name: row}))
            found = np.minimum(found, 2 - lies)
    return found


@dataclass(frozen=True)
class CombinationFacts:
    """What is known of a combination: whether some errors make it a match, and all; what is said
    order by order (0, 1, 2); the chance, by drawing errors.
    """

    possible: bool
    certain: bool
    singly: int
    chance: float


def judged(
    tree: Tree, records: Sequence[Record], t_a: int | None = None
) -> dict[tuple[int, ...], CombinationFacts]:
    """Every combination that is a match order by order."""
    chance, found = np.random.default_rng(1), {}
    for node in choices(tree.node):
        names = names_in(node)
        negated = {name[0].upper() for name in absent_in(node)}
        of_type = [[n for n, r in enumerate(records) if r.type == x[0].upper()] for x in names]
        for chosen in itertools.product(*of_type):
            if len(set(chosen)) < len(chosen):
                continue
            singly = int(degree_of(tree, node, records, chosen, Singly(records, t_a))[0])
            rows = [r for r, each in enumerate(records) if r in chosen or each.type in negated]
            whole, real = (
                degree_of(
                    tree, node, records, chosen,
                    Jointly(records, errors_of(records, rows, t_a, chance, real=each)),
                ) for each in (False, True)
            )  # fmt: skip
            assert singly or not whole.any()
            if singly:
                found[chosen] = CombinationFacts(
                    bool(whole.any()), bool(whole.all()), singly, float((real == 2).mean())
                )
    return found
