"""Conditions on times and WITHIN where clocks err: by hand, and beside every assignment drawn.

The oracle knows nothing of uncertainty: it draws what each clock errs by, moves the events, and
asks ``brute_matches``, which takes all times as exact.
"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.operators.match.seq import SeqMatcher
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import OrPlan, SeqPlan
from tests.pattern.conftest import Event
from tests.pattern.slow_patterns import brute_matches

RULES = ["pairwise", "max-delay-r19"]


def answers(
    tools: Any, text: str, events: list[Any], rule: str = "pairwise", t_a: int = 0,
    cuts: tuple[int, ...] = (),
) -> dict[tuple[int, ...], tuple[str, float]]:  # fmt: skip
    """By the rows of each match that stands in the end: certainty and probability."""
    plan = query("EVENT " + text)
    assert isinstance(plan, SeqPlan | OrPlan)
    settings_of = PatternSettings(rule, keep_late_ns=10**6)
    net: dict[tuple[int, ...], tuple[str, float]] = {}
    for result in tools.run(lambda: SeqMatcher(plan, settings_of), events, cuts, t_a=t_a):
        rows = tuple(event["seq"] for event in result["events"])
        said = (result["certainty"], result["probability"])
        if result["op"] == "+":
            assert rows not in net
            net[rows] = said
        else:
            assert net.pop(rows) == said
    return net


def certainties(tools: Any, text: str, events: list[Any], **more: Any) -> list[str]:
    return [certainty for certainty, _ in answers(tools, text, events, **more).values()]


# ---- by hand ----------------------------------------------------------------------------------
_WRITTEN = re.compile(r"([A-Z])(-?\d+)(?:\|(\d+))?(?:~(\d+))?(?:@(\w)(\d)?)?(?:=(\d+))?$")


def written(events: str) -> list[Event]:
    """``A100|107~5@x1=6``: from 100 to 107, wrong by up to 5, of source x in epoch 1, v is 6."""
    found = []
    for word in events.split():
        read = _WRITTEN.match(word)
        assert read is not None, word
        kind, ref, end, unc, source, epoch, v = read.groups()
        found.append(
            Event(
                kind, int(ref), int(unc or 0), source or "s0", int(epoch or -1),
                attrs={} if v is None else {"v": int(v)}, long=int(end or ref) - int(ref),
            )
        )  # fmt: skip
    return found


APART = "SEQ(A a, B b) WHERE b.ts - a.ts <= 2"
NEAR = "AND(A a, B b) WHERE b.ref - a.ref <= 3"
SPEED = "SEQ(A a, B b) WHERE b.v / (b.ts - a.ts) >= 2"
NONE, SURE, OPEN = (), ("confirmed",), ("uncertain",)
BOTH_RULES = [
    # A duration is uncertain as the pattern's own order is.
    (APART, "A100~5@x B113~5@y", NONE), (APART, "A100~5@x B112~5@y", OPEN),
    (APART, "A100~5@x B108~5@y", OPEN), (NEAR, "A100~5@x B78~5@y", SURE),
    # One step's own time beside a constant.
    ("SEQ(A a) WHERE a.ref > 100", "A106~5", SURE), ("SEQ(A a) WHERE a.ref > 100", "A105~5", OPEN),
    ("SEQ(A a) WHERE a.ref > 100", "A96~5", OPEN), ("SEQ(A a) WHERE a.ref > 100", "A95~5", NONE),
    # An event's own duration is exact.
    ("SEQ(A a) WHERE a.te - a.ts <= 7", "A100|107~50", SURE),
    ("SEQ(A a) WHERE a.te - a.ts < 7", "A100|107~50", NONE),
]  # fmt: skip
PAIRWISE = [
    # Events of one clock have exact durations.
    ("SEQ(A a, B b) WHERE b.ts - a.ts <= 3", "A100~5@x1 B103~5@x1", SURE),
    ("SEQ(A a, B b) WHERE b.ts - a.ts < 3", "A100~5@x1 B103~5@x1", NONE),
    (SPEED, "A100~5@x1 B103~5@x1=6", SURE), (SPEED, "A100~5@x B103~5@x=6", OPEN),
    # Equal times are no key where clocks err.
    ("AND(A a, B b) WHERE a.ts = b.ts", "A100~5@x B104~5@y", OPEN),
    ("AND(A a, B b) WHERE a.ts = b.ts", "A100@x B100@y", SURE),
    # A condition on a negated step's time leaves a doubt.
    *((f"SEQ(A a, !N n, B b) WHERE {where}", "A70@x B150@x N103~5@y", want) for where, want in (
        ("n.ts > 100", OPEN), ("n.ts > 90", NONE), ("n.ts > 120", SURE),
        ("n.ts - a.ts <= 30", OPEN), ("n.ts - a.ts < 60", NONE),
    )),
    # WITHIN counts from the first start to the last end: it is 11.
    *((f"SEQ(A a, B b) WITHIN {within}", "A1|5 B6|12", want)
      for within, want in ((5, NONE), (10, NONE), (11, SURE))),
    # Overlapping intervals: no SEQ (SPEC 4.8), but AND.
    ("SEQ(A a, B b) WITHIN 50", "A1|5 B3|9", NONE), ("AND(A a, B b) WITHIN 8", "B3|9 A1|5", SURE),
    # One that is too long itself is none; nor may the first one outlast the span.
    ("SEQ(A a) WITHIN 3", "A1|5", NONE), ("SEQ(A a) WITHIN 4", "A1|5", SURE),
    ("AND(A a, B b) WITHIN 11", "A1|13 B3", NONE), ("AND(A a, B b) WITHIN 12", "A1|13 B3", SURE),
    # Clocks may err by 4 together: the span is 7 to 15, and A may end after B begins.
    *((f"SEQ(A a, B b) WITHIN {within}", "A1|5~2@x B6|12~2@y", want)
      for within, want in ((6, NONE), (7, OPEN), (11, OPEN), (16, OPEN))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "events", "want"), [*BOTH_RULES, *PAIRWISE])
def test_certainty_by_hand(tools: Any, text: str, events: str, want: tuple[str, ...]) -> None:
    assert certainties(tools, text, written(events)) == [*want]
    if (text, events, want) in BOTH_RULES:
        assert certainties(tools, text, written(events), rule="max-delay-r19", t_a=10) == [*want]


def test_under_r19s_rule_events_of_one_clock_have_no_exact_durations(tools: Any) -> None:
    for sign in ("<=", "<"):
        text, events = f"SEQ(A a, B b) WHERE b.ts - a.ts {sign} 3", written("A100~5@x1 B103~5@x1")
        assert certainties(tools, text, events, rule="max-delay-r19", t_a=10) == ["uncertain"]


@pytest.mark.parametrize("name", ["ts", "ref", "te"])
def test_the_probability_of_a_duration(tools: Any, name: str) -> None:
    events = written("A100~5@x B103~5@y")
    text = f"AND(A a, B b) WHERE b.{name} - a.{name} <= 3"
    ((certainty, chance),) = answers(tools, text, events).values()
    assert certainty == "uncertain"
    assert chance == pytest.approx(0.5, abs=0.01)
    # As WITHIN says it, whose probability is exact.
    ((_, within),) = answers(tools, "SEQ(A a, B b) WITHIN 3", events).values()
    ((_, where),) = answers(tools, "SEQ(A a, B b) WHERE b.ts - a.ts <= 3", events).values()
    assert where == pytest.approx(within, abs=0.01)
    # Of n's errors from -5 to 5 those up to -3 leave the match: 2 of 10.
    text = "SEQ(A a, !N n, B b) WHERE n.ts > 100"
    ((_, chance),) = answers(tools, text, written("A70@x B150@x N103~5@y")).values()
    assert chance == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("cuts", [(), (4,), (1, 2, 3, 4, 5)])
def test_what_is_taken_back_repeats_the_probability(tools: Any, cuts: tuple[int, ...]) -> None:
    events = [
        tools.Event("A", 70, 0, "x"), tools.Event("A", 71, 0, "x"), tools.Event("N", 103, 5, "y"),
        tools.Event("N", 102, 5, "z"), tools.Event("B", 150, 0, "x"), tools.Event("N", 120, 0, "x"),
    ]  # fmt: skip
    text = "SEQ(A a, !N n, B b) WHERE n.ts > 100 AND n.ts - a.ts < 60"
    before = answers(tools, text, events[:-1], cuts=cuts)
    assert [certainty for certainty, _ in before.values()] == ["uncertain"] * 2
    assert all(0.05 < chance < 0.1 for _, chance in before.values())  # 0.2 * 0.3
    assert answers(tools, text, events, cuts=cuts) == {}


# ---- beside every assignment drawn ------------------------------------------------------------
PATTERNS = [
    ("SEQ(A a)", "a", ""), ("SEQ(A a, B b)", "ab", ""), ("AND(A a, B b)", "ab", ""),
    ("SEQ(A a, B b, C c)", "abc", ""), ("SEQ(A a, AND(B b, C c))", "abc", ""),
    ("SEQ(A a, OR(B b, C c))", "ab", ""), ("SEQ(A a, !N n, B b)", "ab", "n"),
    ("SEQ(!N n, A a, B b)", "ab", "n"), ("SEQ(A a, !N n)", "a", "n"),
    ("SEQ(A a, !N n, AND(B b, C c))", "abc", "n"),
]  # fmt: skip
TEMPLATES = [
    "{x}.ts - {y}.ts {op} {c}", "{x}.ref {op} {y}.ref + {c}", "NOT {x}.ts - {y}.te {op} {c}",
    "{x}.ts {op} {c}", "NOT {x}.te < {c}", "{x}.te - {x}.ts {op} {c}", "{x}.ts = {y}.ts",
    "{x}.ts - {y}.ts {op} {y}.v", "2 * {x}.ts - {y}.ts {op} {c} + 4", "{x}.ts IN ({c}, 7)",
    "({x}.ts - {y}.ts {op} {c} OR {x}.v > 1)", "NOT ({x}.ts {op} {c} AND {x}.ts - {y}.ts < 3)",
    "{x}.v / ({x}.ts - {y}.ts) {op} 0.5", "({x}.ts - {y}.ts) * {y}.v {op} {c}",
]  # fmt: skip
CLOCKS = st.tuples(st.sampled_from([0, 0, 1, 2, 3]), st.sampled_from([-1, 1]))
EVENT = st.tuples(
    st.sampled_from("ABCNAB"), st.integers(0, 14), st.integers(0, 2), st.sampled_from([0, 0, 0, 3]),
    st.sampled_from([None, 0, 2]),
)  # fmt: skip


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """A pattern with conditions on times."""
    pattern, positive, negated = draw(st.sampled_from(PATTERNS))
    terms = []
    for _ in range(draw(st.integers(1, 2))):
        x, y = draw(st.permutations([*positive, *negated, positive[0]]))[:2]
        op, c = draw(st.sampled_from(["<", "<=", ">", ">=", "=", "!="])), draw(st.integers(-2, 12))
        term = draw(st.sampled_from(TEMPLATES)).format(x=x, y=y, op=op, c=c)
        terms.append(term)
    within = draw(st.sampled_from([4, 9])) if negated or draw(st.booleans()) else None
    text = f"{pattern} WHERE {' AND '.join(terms)}" + (f" WITHIN {within}" if within else "")
    try:
        query("EVENT " + text)
    except UserError as error:
        assume(not any(word in str(error) for word in ("never be true", "never occur", "no match")))
        assume("alternatives" not in str(error))
        raise
    return text


def assignments(events: list[Any], rule: str, t_a: int, count: int) -> Any:
    """What each clock may err by: all at their ends, none, and at random."""
    dice = random.Random(len(events))
    for number in range(count):
        clocks: dict[Any, float] = {}
        moved = []
        for row, event in enumerate(events):
            shares = rule == "pairwise" and event.epoch >= 0
            clock = (event.source, event.epoch) if shares else row
            if clock not in clocks:
                clocks[clock] = dice.randint(-64, 64) / 64  # so that sums are exact
                if number < count // 3:
                    clocks[clock] = dice.choice([-1, -0.5, 0, 0.5, 1])
            half = event.unc if rule == "pairwise" else t_a / 2
            moved.append((event, event.ref + clocks[clock] * half))
        yield moved


@settings(max_examples=30, deadline=None)
@given(
    text=conditions(), rule=st.sampled_from(RULES), clocks=st.tuples(CLOCKS, CLOCKS, CLOCKS),
    drawn=st.lists(EVENT, min_size=1, max_size=8), cuts=st.lists(st.integers(0, 8), max_size=3),
)  # fmt: skip
def test_no_assignment_finds_a_match_that_is_not_emitted_and_none_denies_a_confirmed_one(
    tools: Any, text: str, rule: str, clocks: Any, drawn: Any, cuts: list[int]
) -> None:
    events = [
        tools.Event(
            kind, ref, clocks[source][0], f"s{source}", clocks[source][1], long=long,
            attrs={} if v is None else {"v": v},
        )
        for kind, ref, source, long, v in drawn
    ]  # fmt: skip
    t_a = 2 * max(unc for unc, _ in clocks)
    found = answers(tools, text, events, rule, t_a)
    assert answers(tools, text, events, rule, t_a, tuple(cuts)) == found
    count, times = 120, dict.fromkeys(found, 0)
    for moved in assignments(events, rule, t_a, count):
        exact = [tools.replace(event, ref=ref) for event, ref in moved]
        true = {tuple(row for _, row in match) for match in brute_matches(text, exact)}
        assert true <= found.keys()
        assert true >= {rows for rows, (certainty, _) in found.items() if certainty == "confirmed"}
        for rows in true:
            times[rows] += 1
    for rows, (certainty, chance) in found.items():
        assert 0 <= chance <= 1
        assert chance == 1 or certainty == "uncertain"
        if times[rows] == 0:
            assert chance < 0.1
        if times[rows] == count:
            assert chance > 0.9
