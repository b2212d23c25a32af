"""ISEQ by definition (SPEC 4.7): every combination of intervals, restriction by restriction."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.pattern.conftest import Event
from tests.pattern.slow_negation import pair

Restricted = tuple[str, str, str]
"""``("a.ts", "<", "b.te")``."""
Alternative = tuple[Restricted, ...]
OPS = ("<", "<=", "=", ">=", ">")
ALLEN: dict[str, tuple[Restricted, ...]] = {
    name: tuple((x, op, y) for x, op, y in (each.split() for each in says.split(", ")))
    for name, says in {
        "BEFORE": "te < ts", "AFTER": "ts > te", "MEETS": "te = ts", "MET BY": "ts = te",
        "OVERLAPS": "ts < ts, te > ts, te < te", "OVERLAPPED BY": "ts > ts, ts < te, te > te",
        "STARTS": "ts = ts, te < te", "STARTED BY": "ts = ts, te > te",
        "DURING": "ts > ts, te < te", "CONTAINS": "ts < ts, te > te",
        "FINISHES": "ts > ts, te = te", "FINISHED BY": "ts < ts, te = te",
        "EQUALS": "ts = ts, te = te",
    }.items()
}  # fmt: skip
"""Allen's relations: what holds of an end point of the left and one of the right interval."""


@dataclass(frozen=True)
class IntervalQuery:
    """A query: each entry of ``tlist`` is a disjunction of conjunctions; ``texts``: as written."""

    steps: str
    negated: str
    tlist: tuple[tuple[Alternative, ...], ...]
    texts: tuple[str, ...]
    within: int | None
    keyed: bool = False

    @property
    def text(self) -> str:
        steps = [f"{'!' if s in self.negated else ''}{s.upper()} {s}" for s in self.steps]
        within = "" if self.within is None else f" WITHIN {self.within}"
        first = next(s for s in self.steps if s not in self.negated)
        keys = [f"{first}.k = {s}.k" for s in self.steps if s != first]
        where = f" WHERE {' AND '.join(keys)}" if self.keyed and keys else ""
        return f"EVENT ISEQ[{', '.join(self.texts)}]({', '.join(steps)}){where}{within}"


@st.composite
def queries(draw: st.DrawFn, *, negated: bool = True) -> IntervalQuery:
    positive = draw(st.sampled_from(["ab", "abc", "abc"]))
    steps = positive + ("n" if negated and draw(st.booleans()) else "")
    points = [f"{s}.{end}" for s in steps for end in ("ts", "te")]

    def atom() -> tuple[Alternative, str]:
        if draw(st.booleans()):
            name = draw(st.sampled_from(sorted(ALLEN)))
            left, right = draw(st.permutations(list(steps)))[:2]
            emitted = tuple((f"{left}.{x}", op, f"{right}.{y}") for x, op, y in ALLEN[name])
            return emitted, f"{left} {name} {right}"
        chosen = draw(st.permutations(points))[: draw(st.integers(2, 3))]
        ops = [draw(st.sampled_from(OPS)) for _ in chosen[1:]]
        emitted = tuple(zip(chosen, ops, chosen[1:], strict=False))
        text = chosen[0] + "".join(f" {o} {p}" for o, p in zip(ops, chosen[1:], strict=True))
        return emitted, text

    tlist, texts = [], []
    for _ in range(draw(st.integers(0, 3))):
        atoms = [atom() for _ in range(draw(st.sampled_from([1, 1, 2, 3])))]
        tlist.append(tuple(emitted for emitted, _ in atoms))
        text = " OR ".join(text for _, text in atoms)
        texts.append(f"({text})" if len(atoms) > 1 else text)
    within = draw(st.none() | st.integers(1, 20))
    return IntervalQuery(
        steps, "n" if "n" in steps else "", tuple(tlist), tuple(texts), within, draw(st.booleans())
    )


@st.composite
def streams(draw: st.DrawFn, *, most: int = 10) -> list[Event]:
    """Intervals (points among them) by their ends, with ties."""
    one = st.tuples(
        st.sampled_from("ABCN"), st.integers(0, 15), st.sampled_from([0, 0, 1, 2, 5, 9]),
        st.integers(0, 3), st.sampled_from("xy"), st.integers(0, 1),
    )  # fmt: skip
    drawn = draw(st.lists(one, min_size=2, max_size=most))
    return [
        Event(kind, start, unc, source, attrs={"k": key}, long=long)
        for kind, start, long, unc, source, key in drawn
    ]


def certainty_of(apart: int, op: str, error: int) -> int:
    """0 impossible, 1 possible, 2 certain, when ``apart`` errs by up to ``error``."""
    if op == "=":
        return min(certainty_of(apart, each, error) for each in ("<=", ">="))
    if op in {">", ">="}:
        return certainty_of(-apart, op.replace(">", "<"), error)
    if error == 0:
        return 2 * (apart < 0 if op == "<" else apart <= 0)
    if apart + error < 0 or (op == "<=" and apart + error == 0):
        return 2
    return int(apart - error <= 0)


def holds(asked: IntervalQuery, of: dict[str, Event], rule: str, t_a: int, about: str = "") -> int:
    """How certain it is that the restrictions hold that name ``about``, or no negated step."""

    def time(point: str) -> int:
        alias, end = point.split(".")
        return of[alias].ref + (of[alias].long if end == "te" else 0)

    found = 2
    # A chain that stands alone is as many restrictions as it has links.
    alone = [((link,),) for ways in asked.tlist if len(ways) == 1 for link in ways[0]]
    for disjunction in [*alone, *(ways for ways in asked.tlist if len(ways) > 1)]:
        named = {point[0] for way in disjunction for x, _, y in way for point in (x, y)}
        if (named & set(asked.negated)) != set(about):
            continue
        ways = []
        for way in disjunction:
            emitted = [
                certainty_of(time(x) - time(y), op, pair(of[x[0]], of[y[0]], rule, t_a))
                if x[0] != y[0]
                else certainty_of(time(x) - time(y), op, 0)
                for x, op, y in way
            ]
            ways.append(min(emitted, default=2))
        found = min(found, max(ways))
    if asked.within is not None:
        for x, y in itertools.product(of.values(), repeat=2):
            error = 0 if x is y else pair(x, y, rule, t_a)
            apart = x.ref + x.long - y.ref - asked.within
            found = min(found, certainty_of(apart, "<=", error))
    if asked.keyed and len({event.attrs["k"] for event in of.values()}) > 1:
        return 0
    return found


def truth(
    asked: IntervalQuery, events: Sequence[Event], rule: str = "pairwise", t_a: int = 0
) -> dict[tuple[int, ...], str]:
    """Rows of each match's positive events, and its certainty."""
    positive = [s for s in asked.steps if s not in asked.negated]
    rows = [[r for r, e in enumerate(events) if e.type == s.upper()] for s in positive]
    found = {}
    for chosen in itertools.product(*rows):
        of = {s: events[r] for s, r in zip(positive, chosen, strict=True)}
        verdict = holds(asked, of, rule, t_a)
        for n in asked.negated:
            killers = [e for e in events if e.type == n.upper()]
            emitted = [holds(asked, {**of, n: e}, rule, t_a, n) for e in killers]
            verdict = min(verdict, 2 - max(emitted, default=0))
        if verdict:
            found[chosen] = "confirmed" if verdict == 2 else "uncertain"
    return found


def matches(results: Sequence[dict[str, Any]]) -> dict[tuple[int, ...], str]:
    """What is left of some results when what was taken back is gone."""
    left: dict[tuple[int, ...], str] = {}
    for result in results:
        rows = tuple(event["seq"] for event in result["events"])
        if result["op"] == "+":
            assert rows not in left, "a combination is emitted twice"
            left[rows] = result["certainty"]
        else:
            assert left.pop(rows) == result["certainty"]
    return left
