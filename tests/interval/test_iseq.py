"""ISEQ against every combination: random TLists, ties, points, disorder, clocks that err, cuts."""

from __future__ import annotations

from hypothesis import assume, example, given
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.query import query
from slackwater.engine.query.joins import INDEXES
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import SeqPlan
from slackwater.engine.query.render import render
from tests.interval.conftest import Event, IntervalQuery, matches, queries, streams, truth
from tests.pattern.conftest import run


def plan_of(asked: IntervalQuery) -> SeqPlan:
    try:
        plan = query(asked.text)
    except UserError:
        assume(False)
        raise
    assert isinstance(plan, SeqPlan)
    return plan


def own(*links: tuple[str, str, str]) -> IntervalQuery:
    """A chain that names both ends of one step."""
    left = links[0][0]
    text = left + "".join(f" {sign} {right}" for _, sign, right in links)
    steps = "abn" if "n" in text else "ab"
    return IntervalQuery(steps, steps[2:], ((links,),), (text,), None)


POINT_AND_LONG = [
    Event("A", 0, attrs={"k": 0}), Event("A", 0, attrs={"k": 0}, long=5),
    Event("B", 0, attrs={"k": 0}), Event("B", 5, attrs={"k": 0}),
]  # fmt: skip


FOLLOWS_OF_THE_REST = IntervalQuery(
    "abn", "n",
    (((("a.ts", ">", "b.te"),), (("a.ts", "=", "b.te"), ("b.te", ">=", "n.ts"))),
     ((("a.ts", "=", "n.te"),),)),
    ("(a AFTER b OR a.ts = b.te >= n.ts)", "a.ts = n.te"), None,
)  # fmt: skip


LONGER_THAN_WITHIN = IntervalQuery("abn", "n", (), (), 8)
"""A negated event counts WITHIN with the match; by itself it is longer (found by fuzzing)."""


SAYS_MORE_THAN_OF_N = IntervalQuery(
    "abn", "n",
    (((("a.ts", "<", "b.ts"), ("b.ts", "<", "n.ts")),
      (("a.ts", "<", "b.ts"), ("b.ts", "<", "n.te"))),),
    ("(a.ts < b.ts < n.ts OR a.ts < b.ts < n.te)",), 20,
)  # fmt: skip
"""What all alternatives of a negated step say of other steps is asked of it, not of the match."""
LONG_B = IntervalQuery(
    "abn", "n",
    (((("b.ts", "<", "a.ts"), ("a.te", "<", "b.te")),
      (("n.ts", "<", "b.ts"), ("b.ts", "<", "n.te"), ("n.te", "<", "b.te"))),),
    ("(b CONTAINS a OR b OVERLAPPED BY n)",), 1,
)  # fmt: skip


@example(SAYS_MORE_THAN_OF_N, [Event("A", 5, attrs={"k": 0}), Event("B", 3, attrs={"k": 0}),
                               Event("N", 7, attrs={"k": 0}, long=2)], "naive", [])  # fmt: skip
@example(LONG_B, POINT_AND_LONG[1:3], "naive", [])
@example(LONGER_THAN_WITHIN, [Event("A", 1, attrs={"k": 0}), Event("B", 1, attrs={"k": 0}),
                              Event("N", 0, attrs={"k": 0}, long=9)], "naive", [])  # fmt: skip
@example(FOLLOWS_OF_THE_REST, POINT_AND_LONG, "naive", [])
@example(own(("a.ts", "<", "a.te"), ("a.te", "=", "b.ts")), POINT_AND_LONG, "ibp", [])
@example(own(("a.ts", "=", "a.te"), ("a.te", "=", "b.ts")), POINT_AND_LONG, "ibp", [])
@example(own(("a.ts", "<", "a.te"), ("a.te", "<", "n.te"), ("n.te", "<=", "b.ts")),
         [*POINT_AND_LONG, Event("N", 1, attrs={"k": 0}, long=2)], "naive", [])  # fmt: skip
@given(
    queries(),
    streams(),
    st.sampled_from(INDEXES),
    st.lists(st.integers(0, 10), max_size=2),
)
def test_iseq_is_as_defined(
    asked: IntervalQuery, events: list[Event], index: str, cuts: list[int]
) -> None:
    """Exact clocks, any order of arrival, restarts: the matches are those of the definition."""
    plan = plan_of(asked)
    exact = [Event(e.type, e.ref, 0, e.source, attrs=e.attrs, long=e.long) for e in events]
    settings = PatternSettings(keep_late_ns=10**6, intervals=index)
    found = matches(run(lambda: SeqMatcher(plan, settings), exact, cuts))
    assert found == truth(asked, exact)


BEGUN_TOGETHER = IntervalQuery(
    "ab", "", (((("a.ts", "=", "b.ts"),),), ((("a.ts", "<", "a.te"),),)),
    ("a.ts = b.ts", "a.ts < a.te"), None,
)  # fmt: skip


HELD_BY_ANOTHER = IntervalQuery(
    "abc", "", (((("b.ts", "<", "a.ts"), ("b.te", ">", "a.te")),),), ("b CONTAINS a",), 5
)  # fmt: skip
"""That a and c lie WITHIN follows of b where clocks are right, and not where they err."""


@example(BEGUN_TOGETHER, POINT_AND_LONG, "naive", 2)
@example(
    HELD_BY_ANOTHER,
    [Event("A", 6, attrs={"k": 0}), Event("B", 0, 1, attrs={"k": 0}, long=5),
     Event("C", 0, attrs={"k": 0})],
    "naive", None,
)  # fmt: skip
@given(queries(), streams(most=7), st.sampled_from(INDEXES), st.sampled_from([None, 0, 2, 5]))
def test_no_match_is_missed_where_clocks_err(
    asked: IntervalQuery, events: list[Event], index: str, t_a: int | None
) -> None:
    """What is possible pair by pair bounds what comes; what holds under sampled errors is emitted,
    and what is confirmed holds under all of them.
    """
    plan = plan_of(asked)
    rule = "pairwise" if t_a is None else "max-delay-r19"
    settings = PatternSettings(rule, keep_late_ns=10**6, intervals=index)
    found = matches(run(lambda: SeqMatcher(plan, settings), events, t_a=t_a or 0))
    assert found.keys() <= truth(asked, events, rule, t_a or 0).keys()
    for seed in range(4):
        shifted = [
            Event(e.type, e.ref + error(seed, row, e, t_a), 0, e.source, attrs=e.attrs, long=e.long)
            for row, e in enumerate(events)
        ]
        true = truth(asked, shifted)
        assert true.keys() <= found.keys()
        assert {rows for rows, emitted in found.items() if emitted == "confirmed"} <= true.keys()


def error(seed: int, row: int, event: Event, t_a: int | None) -> int:
    """An error of the event's clock that its uncertainty allows (of T_a each half)."""
    most = event.unc if t_a is None else t_a // 2
    return (0, most, -most, most * (-1) ** row)[seed]


@example(own(("a.ts", ">=", "n.ts"), ("n.ts", "=", "n.te")))
@given(queries())
def test_a_plan_is_written_and_read_back(asked: IntervalQuery) -> None:
    plan = plan_of(asked)
    text = render(plan)
    assert render(query(text)) == text


def test_options_do_not_change_results_but_cost() -> None:
    """The same matches in the same order; an index looks at fewer candidates."""
    text = "EVENT ISEQ[a.ts < b.ts < c.te < d.te](A a, B b, C c, D d) WITHIN 40"
    events = [
        Event("ABCD"[n * 7 % 4], 3 * n - n * 5 % 11, long=n * 5 % 11, source="x")
        for n in range(120)
    ]
    emitted, looked = [], []
    for index in INDEXES:
        operator = Alone(SeqMatcher(query(text), PatternSettings(intervals=index)))
        emitted.append(run(lambda operator=operator: operator, events))
        looked.append(operator.counters()["looked_at"])
    assert emitted[0] == emitted[1] == emitted[2]
    assert emitted[0]
    assert looked[0] > looked[1] > looked[2]
