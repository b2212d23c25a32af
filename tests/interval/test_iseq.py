"""ISEQ against every combination: random TLists, ties, points, disorder, clocks that err, cuts."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.errors import UserError
from engine.pattern.alone import Alone
from engine.pattern.seq import PatternSettings, SeqMatcher
from engine.query import query
from engine.query.endpoints.path import INDEXES
from engine.query.plan import SeqPlan
from engine.query.render import render
from tests.interval.conftest import Asked, Event, matches, queries, streams, truth
from tests.pattern.conftest import run


def plan_of(asked: Asked) -> SeqPlan:
    try:
        plan = query(asked.text)
    except UserError:
        assume(False)
        raise
    assert isinstance(plan, SeqPlan)
    return plan


@given(
    queries(),
    streams(),
    st.sampled_from(INDEXES),
    st.lists(st.integers(0, 10), max_size=2),
)
def test_iseq_is_as_defined(asked: Asked, events: list[Event], index: str, cuts: list[int]) -> None:
    """Exact clocks, any order of arrival, restarts: the matches are those of the definition."""
    plan = plan_of(asked)
    exact = [Event(e.type, e.ref, 0, e.source, attrs=e.attrs, long=e.long) for e in events]
    settings = PatternSettings(keep_late_ns=10**6, intervals=index)
    found = matches(run(lambda: SeqMatcher(plan, settings), exact, cuts))
    assert found == truth(asked, exact)


@given(queries(), streams(most=7), st.sampled_from(INDEXES), st.sampled_from([None, 0, 2, 5]))
def test_no_match_is_missed_where_clocks_err(
    asked: Asked, events: list[Event], index: str, t_a: int | None
) -> None:
    """What is possible pair by pair bounds what is told; what holds under sampled errors is told,
    and what is confirmed holds under all of them.
    """
    plan = plan_of(asked)
    rule = "pairwise" if t_a is None else "max-delay"
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
        assert {rows for rows, told in found.items() if told == "confirmed"} <= true.keys()


def error(seed: int, row: int, event: Event, t_a: int | None) -> int:
    """An error of the event's clock that its uncertainty allows (of T_a each half)."""
    most = event.unc if t_a is None else t_a // 2
    return (0, most, -most, most * (-1) ** row)[seed]


@given(queries())
def test_a_plan_is_written_and_read_back(asked: Asked) -> None:
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
    told, looked = [], []
    for index in INDEXES:
        operator = Alone(SeqMatcher(query(text), PatternSettings(intervals=index)))
        told.append(run(lambda operator=operator: operator, events))
        looked.append(operator.counters()["looked_at"])
    assert told[0] == told[1] == told[2]
    assert told[0]
    assert looked[0] > looked[1] > looked[2]


def test_an_unknown_index_is_refused() -> None:
    with pytest.raises(UserError, match="naive, indexed, ibp"):
        SeqMatcher(query("EVENT ISEQ[](A)"), PatternSettings(intervals="none"))
