"""Relations between end points, built in Python: Allen's 13, SEQ of intervals beside them, clocks
that err; against every combination of events.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UserError
from engine.pattern.compiled.tables import layout_of
from engine.pattern.seq import SeqMatcher
from engine.pattern.settings import PatternSettings
from engine.query.plan import Attribute, Group, PointRelation, SeqPlan, Step

Asked = tuple[str, str, str, int]
"""(end point, operator, end point, bound): ``("a.te", "<", "b.ts", 0)``."""
ALLEN: dict[str, list[tuple[str, str, str]]] = {
    "before": [("a.te", "<", "b.ts")],
    "after": [("b.te", "<", "a.ts")],
    "meets": [("a.te", "=", "b.ts")],
    "met by": [("b.te", "=", "a.ts")],
    "overlaps": [("a.ts", "<", "b.ts"), ("b.ts", "<", "a.te"), ("a.te", "<", "b.te")],
    "overlapped by": [("b.ts", "<", "a.ts"), ("a.ts", "<", "b.te"), ("b.te", "<", "a.te")],
    "starts": [("a.ts", "=", "b.ts"), ("a.te", "<", "b.te")],
    "started by": [("a.ts", "=", "b.ts"), ("a.te", ">", "b.te")],
    "during": [("a.ts", ">", "b.ts"), ("a.te", "<", "b.te")],
    "contains": [("a.ts", "<", "b.ts"), ("a.te", ">", "b.te")],
    "finishes": [("a.ts", ">", "b.ts"), ("a.te", "=", "b.te")],
    "finished by": [("a.ts", "<", "b.ts"), ("a.te", "=", "b.te")],
    "equals": [("a.ts", "=", "b.ts"), ("a.te", "=", "b.te")],
}
"""L10 Table 5.1."""


def allen(name: str) -> tuple[Asked, ...]:
    return tuple((*each, 0) for each in ALLEN[name])


def plan_of(
    asked: tuple[Asked, ...], steps: str = "ab", op: str = "AND", within: int | None = None
) -> SeqPlan:
    def point(text: str) -> Attribute:
        alias, name = text.split(".")
        return Attribute(name, alias)

    return SeqPlan(
        "q", "", tuple(Step(alias, alias.upper()) for alias in steps), within_ns=within,
        pattern=Group(op, tuple(range(len(steps)))),
        relations=tuple(PointRelation(point(x), o, point(y), bound) for x, o, y, bound in asked),
    )  # fmt: skip


def found_by(
    tools: Any, plan: SeqPlan, events: list[Any], rule: str = "pairwise", t_a: int = 0,
    cuts: tuple[int, ...] = (),
) -> dict[tuple[int, ...], tuple[str, float]]:  # fmt: skip
    results = tools.run(
        lambda: SeqMatcher(plan, PatternSettings(rule, keep_late_ns=10**6)), events, cuts, t_a=t_a
    )
    assert all(result["op"] == "+" for result in results)
    return {
        tuple(event["seq"] for event in result["events"]): (
            result["certainty"], result["probability"],
        )
        for result in results
    }  # fmt: skip


# ---- by definition ----------------------------------------------------------------------------


def certainty_of(apart: int, op: str, bound: int, error: int) -> int:
    """0 impossible, 1 possible, 2 certain, when ``apart`` errs by up to ``error``."""
    if op == "=":
        both = [certainty_of(apart, o, bound, error) for o in ("<=", ">=")]
        return min(both)
    if op in {">", ">="}:
        return certainty_of(-apart, op.replace(">", "<"), -bound, error)
    if error == 0:
        return 2 * (apart < bound if op == "<" else apart <= bound)
    if apart + error < bound or (op == "<=" and apart + error == bound):
        return 2
    return int(apart - error <= bound)


def by_definition(
    tools: Any, plan: SeqPlan, events: list[Any], rule: str, t_a: int, *, seq: bool
) -> dict[tuple[int, ...], str]:
    """Every combination, relation by relation."""
    steps = [step.alias for step in plan.steps]
    rows = [[r for r, e in enumerate(events) if e.type == alias.upper()] for alias in steps]
    asked: list[tuple[str, str, str, str, str, int]] = [
        (str(r.left.alias), r.left.name, r.op, str(r.right.alias), r.right.name, r.bound_ns)
        for r in plan.relations
    ]
    pairs = list(itertools.permutations(steps, 2))
    if seq:
        asked += [(x, "te", "<", y, "ts", 0) for x, y in pairs if x < y]
    if plan.within_ns is not None:
        near = [(x, y) for x, y in pairs if x == steps[0] or not seq]
        asked += [(y, "te", "<=", x, "ts", plan.within_ns) for x, y in near]
    found = {}
    for chosen in itertools.product(*rows):
        of = dict(zip(steps, (events[row] for row in chosen), strict=True))
        if plan.within_ns is not None and any(e.long > plan.within_ns for e in of.values()):
            continue
        verdicts = [2]
        for left, x, op, right, y, bound in asked:
            time = {"ts": lambda e: e.ref, "te": lambda e: e.ref + e.long}
            apart = time[x](of[left]) - time[y](of[right])
            error = tools.pair(of[left], of[right], rule, t_a)
            verdicts.append(certainty_of(apart, op, bound, error))
        if min(verdicts):
            found[chosen] = "confirmed" if min(verdicts) == 2 else "uncertain"
    return found


# ---- Allen's relations ------------------------------------------------------------------------


def test_each_pair_of_intervals_is_in_one_of_allens_relations(tools: Any) -> None:
    """All proper intervals of a small line, two by two: 13 relations, each seen, never two."""
    spans = [(start, end) for start in range(5) for end in range(start + 1, 6)]
    events = [tools.Event("A", x, long=y - x, source="x") for x, y in spans]
    events += [tools.Event("B", x, long=y - x, source="y") for x, y in spans]
    found = {name: set(found_by(tools, plan_of(allen(name)), events)) for name in ALLEN}
    assert all(found.values())
    every = [match for matches in found.values() for match in matches]
    assert len(every) == len(set(every)) == len(spans) ** 2
    assert {(y, x) for x, y in _spans(found["during"], events)} == set(
        _spans(found["contains"], events)
    )


def _spans(matches: set[tuple[int, ...]], events: list[Any]) -> list[tuple[Any, Any]]:
    span = lambda row: (events[row].ref, events[row].long)  # noqa: E731
    return [(span(a), span(b)) for a, b in matches]


def test_in_a_seq_an_interval_ends_before_the_next_begins(tools: Any) -> None:
    """SPEC 4.8; of points, whose end is their start, it is the order of SPEC 4.1."""
    tables = layout_of(SeqPlan("q", "", (Step("a", "A"), Step("b", "B")))).tables
    assert tables.relations[["left_end", "strict", "right_end"]].tolist() == [(1, 1, 0)] * 3
    seq = plan_of((), "ab", "SEQ")
    events = [tools.Event("A", 0, long=5), *(tools.Event("B", ref, long=9) for ref in (4, 5, 6))]
    assert found_by(tools, seq, events).keys() == {(0, 3)}


@st.composite
def streams(draw: st.DrawFn, steps: str) -> list[tuple[str, int, int, int, str, int]]:
    kinds = st.sampled_from(steps.upper())
    event = st.tuples(
        kinds, st.integers(0, 20), st.integers(0, 12), st.integers(0, 4), st.sampled_from("xyz"),
        st.sampled_from([-1, 1]),
    )  # fmt: skip
    return draw(st.lists(event, min_size=2, max_size=12))


RELATIONS = st.lists(
    st.tuples(
        st.sampled_from(["a.ts", "a.te"]), st.sampled_from(["<", "<=", "=", ">=", ">"]),
        st.sampled_from(["b.ts", "b.te", "c.ts", "c.te"]), st.integers(-6, 6),
    ),
    max_size=3,
)  # fmt: skip


@given(
    streams("abc"),
    st.one_of(st.sampled_from(sorted(ALLEN)).map(allen), RELATIONS.map(tuple)),
    st.booleans(),
    st.none() | st.integers(0, 15),
    st.sampled_from(["exact", "pairwise", "max-delay"]),
    st.integers(0, 8),
    st.booleans(),
    st.lists(st.integers(0, 12), max_size=2),
)
def test_relations_are_as_defined(
    tools: Any, drawn: list[tuple[str, int, int, int, str, int]], asked: tuple[Asked, ...],
    seq: bool, within: int | None, clocks: str, t_a: int, points: bool,
    cuts: list[int],
) -> None:  # fmt: skip
    """In any order of arrival, intervals and points, alone and below SEQ or AND and WITHIN."""
    events = [
        tools.Event(
            kind, ref, 0 if clocks == "exact" else unc, source, epoch, long=long * (not points)
        )
        for kind, ref, long, unc, source, epoch in drawn
    ]
    rule = "max-delay" if clocks == "max-delay" else "pairwise"
    plan = plan_of(asked, "abc", "SEQ" if seq else "AND", within)
    want = by_definition(tools, plan, events, rule, t_a, seq=seq)
    found = found_by(tools, plan, events, rule, t_a, tuple(cuts))
    assert {rows: certainty for rows, (certainty, _) in found.items()} == want
    for certainty, chance in found.values():
        assert chance == 1.0 if certainty == "confirmed" else 0.0 <= chance <= 1.0


# ---- how probable -----------------------------------------------------------------------------


def test_the_probability_of_an_interval_relation(tools: Any) -> None:
    """a overlaps b: a.ts < b.ts and a.te < b.te are open, b.ts < a.te is certain."""
    plan = plan_of(allen("overlaps"))
    a, b = tools.Event("A", 0, 5, "x", long=40), tools.Event("B", 0, 5, "y", long=40)
    ((certainty, chance),) = found_by(tools, plan, [a, b]).values()
    assert (certainty, chance) == ("uncertain", 0.5)
    # Both ends move together, so the tighter of the two orders decides: b.te is 5 after a.te.
    ((_, chance),) = found_by(tools, plan, [a, tools.replace(b, ref=5)]).values()
    assert chance == pytest.approx(1 - 5**2 / (2 * 10**2))
    # A third event that is certain: sampled, not by the closed form.
    three = plan_of((*allen("overlaps"), ("a.te", "<", "c.ts", 0)), "abc")
    ((_, chance),) = found_by(
        tools, three, [a, tools.replace(b, ref=5), tools.Event("C", 90)]
    ).values()
    assert chance == pytest.approx(1 - 5**2 / (2 * 10**2), abs=0.01)
    # One clock: exact.
    ((certainty, chance),) = found_by(
        tools, plan, [tools.replace(e, source="x", epoch=1) for e in (a, tools.replace(b, ref=1))]
    ).values()
    assert (certainty, chance) == ("confirmed", 1.0)


# ---- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("a.ref", "<", "b.ts", 0), "names a.ref"),
        (("a.ts", "<", "z.ts", 0), "names z.ts"),
        (("a.ts", "<", "a.te", 0), "between two steps"),
        (("a.ts", "!=", "b.ts", 0), "operator is"),
    ],
)
def test_what_is_no_relation_is_refused(asked: Asked, says: str) -> None:
    with pytest.raises(UserError, match=says):
        layout_of(plan_of((asked,)))
