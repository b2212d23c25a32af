"""Repetition by definition: after every row of random streams, cut anywhere; under barriers and
purges; and runs that stand from batch to batch.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater
from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.released import IN_ORDER, LATE, Strings
from slackwater.engine.operators.match.repetition import matcher as matcher_module
from slackwater.engine.operators.match.repetition.matcher import RepeatMatcher
from slackwater.engine.operators.match.seq import Alone
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.repeat_plan import RepeatPlan
from tests.pattern.repetition.slow_repetition import Slow

PATTERNS = [
    "SEQ(A a, B+ b[], C c)", "SEQ(A+ a[], B b)", "A+ a[]", "SEQ(A a, B* b[], C c)",
    "SEQ(A? a, B+ b[])", "SEQ(A{2,3} a[], B? b, C c)", "SEQ(A a, A+ b[], B c)",
    "SEQ(OR(A, B) a, B{2} b[])", "SEQ(A+ a[] UNTIL a.v > 2, B b)", "SEQ(A a, B+ b[] UNTIL b.v > 2)",
    "SEQ(A+ a[], B+ b[])", "SEQ(A a, !N n, B+ b[], C c)", "SEQ(A+ a[], !N n, B b)",
    "SEQ(!N n, A+ a[], B b)", "SEQ(A a, B+ b[], !N n)", "SEQ(A? a, !N n, B b, C* c[])",
    "SEQ(A a, B b)", "SEQ(A{2,} a[], A? b)", "SEQ(A* a[], OR(A, B) b, B* c[])",
]  # fmt: skip
CONDITIONS = {
    "a[i]": ["a[i].v > a[i - 1].v", "sum(a.v) > 4", "count(a) != 2", "last(a.v) >= first(a.v)",
             "avg(a.v) < 3", "max(a.v) - min(a.v) < 3", "a[i].v > 1", "a[i].v >= first(a.v)"],
    "b[i]": ["b[i].v > b[i - 1].v", "b[i].v >= 1", "count(b) <= 2", "max(b.v) < 4",
             "last(b.v) > 1"],
    "c[i]": ["c[i].v <= c[i - 1].v + 1"],
    "ab[i]": ["b[i].v > a.v", "b[i].v + a.v < 7", "first(b.v) >= a.v"],
    "b[i]c": ["b[i].v < c.v + 3", "sum(b.v) > c.v", "last(b.v) + count(b) > c.v"],
    "a[i]b": ["a[i].v <= b.v + 2", "first(a.v) < b.v", "max(a.v) > b.v"],
    "a[i]b[i]": ["sum(a.v) >= b[i].v", "a[i].v <= first(b.v)", "b[i].v - b[i - 1].v < last(a.v)"],
    "an": ["n.v > a.v"], "b[i]n": ["n.v != last(b.v)", "n.v > sum(b.v)"], "nb": ["n.v != b.v"],
}  # fmt: skip


@st.composite
def queries(draw: st.DrawFn, *, chosen: bool = False) -> str:
    pattern = draw(st.sampled_from(PATTERNS))
    text = f"EVENT {pattern} WITHIN {draw(st.integers(3, 14))}"
    clauses = []
    if draw(st.booleans()):
        clauses.append("PARTITION BY k")
    clauses.append(f"CONTIGUITY {draw(st.sampled_from(['ANY', 'NEXT', 'STRICT']))}")
    if chosen:
        clauses.append(draw(st.sampled_from(["SKIP PAST LAST EVENT", "SKIP TO NEXT", "LIMIT 2"])))
    plain = plan_of(" ".join([text, *clauses]))
    known = {
        step.alias + ("[i]" if often.repeats else "")
        for step, often in zip(plain.steps, plain.often, strict=True)
    }
    fitting = [
        each
        for names, conditions in CONDITIONS.items()
        for each in conditions
        if _named(names) <= known
    ]
    asked = draw(st.lists(st.sampled_from(fitting), max_size=2, unique=True)) if fitting else []
    if asked:
        clauses.insert(0, f"WHERE {' AND '.join(asked)}")
    return " ".join([text, *clauses])


def plan_of(text: str) -> RepeatPlan:
    plan = query(text)
    assert isinstance(plan, RepeatPlan)
    return plan


def _named(names: str) -> set[str]:
    found, rest = set(), names
    while rest:
        cut = 4 if rest[1:4] == "[i]" else 1
        found.add(rest[:cut])
        rest = rest[cut:]
    return found


@st.composite
def streams(draw: st.DrawFn, tools: Any, *, apart: bool = False, unc: int = 0) -> list[Any]:
    n = draw(st.integers(1, 9))
    refs = draw(st.lists(st.integers(0, 16), min_size=n, max_size=n, unique=apart))
    if draw(st.booleans()):
        refs.sort()
    lengths = draw(st.sampled_from([[0], [0], [0, 1, 4]]))
    return [
        tools.Event(
            draw(st.sampled_from("AABBCN" if n < 7 else "AABBCCN")), ref,
            unc=draw(st.integers(0, unc)),
            source=draw(st.sampled_from(["s0", "s1"])), epoch=draw(st.integers(0, 1)),
            long=draw(st.sampled_from(lengths)),
            attrs={"v": draw(st.integers(0, 4)), "k": draw(st.sampled_from([1, 1, 1, 2]))},
        )
        for ref in refs
    ]  # fmt: skip


def standing(results: list[dict[str, Any]], rows: int) -> dict[tuple[int, ...], Counter[str]]:
    """What stands once so many rows have come: by events, how often with which certainty."""
    found: dict[tuple[int, ...], Counter[str]] = {}
    for result in results:
        if result["at"] < rows:
            seqs = tuple(event["seq"] for event in result["events"])
            of = found.setdefault(seqs, Counter())
            of[result["certainty"]] += 1 if result["op"] == "+" else -1
            assert min(of.values()) >= 0, "taken back without having been given"
    return {seqs: +of for seqs, of in found.items() if +of}


def by_definition(slow: Slow, rows: int) -> dict[tuple[int, ...], Counter[str]]:
    found: dict[tuple[int, ...], Counter[str]] = {}
    for match, certainty in slow.matches(range(rows)).items():
        found.setdefault(tuple(row for _, row in match), Counter())[certainty] += 1
    return found


def check(tools: Any, text: str, events: list[Any], cuts: list[int], **more: Any) -> None:
    plan, keep = plan_of(text), PatternSettings(more.pop("rule", "pairwise"), keep_late_ns=10**6)
    results = tools.run(lambda: RepeatMatcher(plan, keep), events, cuts, **more)
    slow = Slow(text, events, keep.certainty, more.get("t_a", 0))
    for rows in range(1, len(events) + 1):
        assert standing(results, rows) == by_definition(slow, rows), rows


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_exact_clocks(tools: Any, data: st.DataObject) -> None:
    text, events = data.draw(queries()), data.draw(streams(tools))
    check(tools, text, events, data.draw(st.lists(st.integers(1, 8), max_size=2)))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_chosen_matches(tools: Any, data: st.DataObject) -> None:
    text = data.draw(queries(chosen=True))
    events = data.draw(streams(tools, apart=data.draw(st.booleans())))
    check(tools, text, events, data.draw(st.lists(st.integers(1, 8), max_size=2)))


@pytest.mark.parametrize("rule", ["pairwise", "max-delay-r19"])
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_clocks_that_err(tools: Any, rule: str, data: st.DataObject) -> None:
    text, events = data.draw(queries()), data.draw(streams(tools, unc=2))
    cuts = data.draw(st.lists(st.integers(1, 8), max_size=2))
    check(tools, text, events[:7], cuts, rule=rule, t_a=2 if rule == "max-delay-r19" else 0)


def test_an_event_that_may_begin_before_an_interval_has_ended_may_not_follow_it(tools: Any) -> None:
    events = [
        tools.Event("A", 0, epoch=0), tools.Event("A", 2, epoch=0),
        tools.Event("A", 0, unc=1, epoch=1, long=1), tools.Event("B", 5, epoch=0),
    ]  # fmt: skip
    check(tools, "EVENT SEQ(A+ a[], B b) WITHIN 4 CONTIGUITY NEXT", events, [])


@pytest.mark.parametrize(
    ("condition", "matches"), [("sum(a.v) > 0", 0), ("sum(a.v) < 0", 0), ("avg(a.v) > 9e18", 1)]
)
def test_a_sum_beyond_int64_is_no_value(condition: str, matches: int) -> None:
    most = 2**63 - 1
    events = {"type": ["A", "A"], "ts": [1, 2], "seq": [0, 1], "v": [most, most], "w": [1e308] * 2}
    returned = "RETURN sum(a.v) AS s, avg(a.v) AS m, sum(a.w) AS w"
    found = slackwater.query(events, f"EVENT A{{2}} a[] WHERE {condition} WITHIN 5 {returned}")
    assert [row["value"] for row in found] == [{"s": None, "m": float(most), "w": None}] * matches


def test_a_probability_hangs_on_no_other_match_of_the_same_call(tools: Any) -> None:
    """With an interval in the same call instants were sampled, and else exact."""
    events = [
        tools.Event("A", 62, unc=4, source="s0"), tools.Event("B", 67, unc=4, source="s1", epoch=1),
        tools.Event("A", 88, unc=4, source="s0", long=2),
        tools.Event("B", 92, unc=4, source="s1", epoch=1),
    ]  # fmt: skip
    plan = query("EVENT SEQ(A a, B b) WITHIN 12 CONTIGUITY ANY")
    assert isinstance(plan, RepeatPlan)

    def chances(cuts: list[int]) -> list[float]:
        found = tools.run(lambda: RepeatMatcher(plan, PatternSettings()), events, cuts)
        return [result["probability"] for result in found]

    # The difference of two errors of 4 has a triangle as density, from -8 to 8: 1 - 3 ** 2 / 128
    # is above -5, less what is above 7; above -2 is 1 - 6 ** 2 / 128.
    assert chances([]) == chances([2]) == [1 - (9 + 1) / 128, 1 - 36 / 128]


# ---- barriers, purges, runs -------------------------------------------------------------------
END = 10**6
BARRIERS = ["punctuation", "bounded:3", "bounded:40", "hold:2", "adaptive", "bounded:40,ordered"]


@st.composite
def apart(draw: st.DrawFn, tools: Any) -> list[Any]:
    refs = draw(st.lists(st.integers(0, 20), min_size=1, max_size=9, unique=True))
    return [
        tools.Event(
            draw(st.sampled_from("AABBCN")), ref,
            attrs={"v": draw(st.integers(0, 4)), "k": draw(st.sampled_from([1, 1, 2]))},
        )
        for ref in refs
    ]  # fmt: skip


def answered(
    tools: Any, text: str, barrier: str, events: list[Any], cuts: list[int], keep: int
) -> list[dict[str, Any]]:
    plan, settings_ = plan_of(text), PatternSettings(keep_late_ns=keep)
    found: list[dict[str, Any]] = tools.run(
        lambda: Alone(RepeatMatcher(plan, settings_), parse_barrier(barrier)), events, cuts, end=END
    )
    return found


@settings(max_examples=30, deadline=None)
@given(data=st.data(), barrier=st.sampled_from(BARRIERS), chosen=st.booleans())
def test_every_barrier_ends_with_the_definition(
    tools: Any, data: st.DataObject, barrier: str, chosen: bool
) -> None:
    text, events = data.draw(queries(chosen=chosen)), data.draw(apart(tools))
    results = answered(tools, text, barrier, events, [], END)
    assert standing(results, END + 1) == by_definition(Slow(text, events), len(events))
    if barrier.startswith("bounded:40"):  # no event is later than that
        assert {r["op"] for r in results} <= {"+"}
    if "ordered" in barrier:
        lasts = [r["events"][-1]["ref"] for r in results]
        assert lasts == sorted(lasts)
    cuts = data.draw(st.lists(st.integers(1, 8), max_size=3))
    assert answered(tools, text, barrier, events, cuts, END) == results


@settings(max_examples=30, deadline=None)
@given(data=st.data(), barrier=st.sampled_from(["immediate", "bounded:4"]), keep=st.integers(0, 6))
def test_what_is_forgotten_is_forgotten_under_any_cut(
    tools: Any, data: st.DataObject, barrier: str, keep: int
) -> None:
    text, events = data.draw(queries()), data.draw(apart(tools))
    whole = answered(tools, text, barrier, events, [], keep)
    every = list(range(1, len(events)))
    assert answered(tools, text, barrier, events, every, keep) == whole


@pytest.mark.parametrize("choice", ["SKIP PAST LAST EVENT", "SKIP TO NEXT", "LIMIT 2"])
@pytest.mark.parametrize("contiguity", ["", "CONTIGUITY NEXT", "CONTIGUITY STRICT"])
def test_many_events_of_which_some_are_late_under_any_cut(
    tools: Any, contiguity: str, choice: str
) -> None:
    chance, ref = random.Random(1), 0
    events = []
    for _ in range(80):
        ref += chance.randint(1, 6)
        late = chance.randint(10, 60) if chance.random() < 0.2 else 0
        attrs = {"v": chance.randrange(10), "k": chance.randrange(3)}
        events.append(tools.Event(chance.choice("AABBCD"), ref, release=ref + late, attrs=attrs))
    events.sort(key=lambda event: event.release)
    text = f"EVENT SEQ(A a, B+ b[], C c) WITHIN 80 PARTITION BY k {contiguity} {choice}"
    whole = answered(tools, text, "immediate", events, [], END)
    assert len(whole) > 2
    every = list(range(1, len(events)))
    assert answered(tools, text, "immediate", events, every, END) == whole


def test_what_was_no_match_by_the_largest_error_of_then_is_not_taken_back(tools: Any) -> None:
    """Found by fuzzing: an error that came later made it one, and so it seemed to have stood."""
    events = [
        tools.Event("A", 3, long=1), tools.Event("B", 3),
        tools.Event("A", 4, unc=2), tools.Event("A", 4, unc=2, source="s1"),
    ]  # fmt: skip
    plan = plan_of("EVENT SEQ(A+ a[], B+ b[]) WITHIN 4 CONTIGUITY STRICT")
    settings = PatternSettings("max-delay", keep_late_ns=100)
    standing(tools.run(lambda: RepeatMatcher(plan, settings), events), 10)


def true_promises(chance: random.Random, events: list[Any]) -> list[Any]:
    """Of each type or all, by each source, never beyond what the source sends later."""
    found: list[Any] = [(0, kind, source, -99) for kind in "ABCN" for source in "xy"]
    for row in range(1, len(events) + 1):
        for _ in range(chance.choice([0, 1, 4])):
            kind, source = chance.choice([*"ABCN", None]), chance.choice("xy")
            later = [e.ref for e in events[row:] if e.source == source and kind in (None, e.type)]
            found.append((row, kind, source, min(later, default=events[-1].ref + 50)))
    return found


PROMISED = [
    "SEQ(A a, B+ b[], !N n, C c) WITHIN 8 PARTITION BY k CONTIGUITY NEXT",
    "SEQ(!N n, A a, B* b[], C c) WITHIN 8", "SEQ(A+ a[], B b, !N n) WITHIN 4",
    "SEQ(A+ a[], B+ b[]) WHERE b[i].v > b[i - 1].v WITHIN 16 CONTIGUITY STRICT",
    "SEQ(A a, B{2,} b[] UNTIL b.v > 2, C c) WITHIN 16 PARTITION BY k CONTIGUITY NEXT",
    "SEQ(A a, B+ b[], C c) WITHIN 16 PARTITION BY k CONTIGUITY NEXT SKIP PAST LAST EVENT",
    "SEQ(A a, B+ b[], C c) WITHIN 8 SKIP TO NEXT", "SEQ(A a, B+ b[], C c) WITHIN 8 LIMIT 2",
]  # fmt: skip


@pytest.mark.parametrize("text", PROMISED)
@pytest.mark.parametrize("rule", ["pairwise", "max-delay"])
def test_what_promises_let_go_changes_nothing_but_memory(tools: Any, text: str, rule: str) -> None:
    less = 0
    for seed in range(6):
        chance, now, events = random.Random(f"{text}{seed}"), 0, []
        for _ in range(25):
            now += chance.randint(0, 4)
            late = chance.choice([0, 0, chance.randint(1, 30)])
            events.append(tools.Event(
                chance.choice("AABBCN"), now - late, unc=chance.choice([0, 0, 1]),
                source=chance.choice("xy"), status=LATE if late else IN_ORDER,
                attrs={"v": chance.randint(0, 4), "k": chance.choice([1, 2])},
            ))  # fmt: skip
        pogs, cuts = true_promises(chance, events), [chance.randint(0, 25) for _ in range(3)]
        found, held = [], []
        for purge, at in (("late", []), ("promises", []), ("promises", cuts)):
            settings = PatternSettings(rule, keep_late_ns=100, purge=purge)
            made: list[RepeatMatcher] = []

            def matcher(settings: Any = settings, made: Any = made) -> RepeatMatcher:
                made.append(RepeatMatcher(plan_of(f"EVENT {text}"), settings))
                return made[-1]

            found.append(tools.run(matcher, events, at, pogs=pogs))
            held.append(made[-1].counters()["buffered"])
        assert found[0] == found[1] == found[2], seed
        less += held[1] < held[0]
    assert less


@pytest.mark.parametrize(
    ("purge", "least", "most"), [("late:100", 100, 110), ("promises:100", 1, 9)]
)
def test_an_orders_progress_is_a_promise_for_all_types(purge: str, least: int, most: int) -> None:
    events = {"type": ["A", "B"] * 200, "ts": list(range(400)), "seq": list(range(400))}
    text = "EVENT SEQ(A a, B+ b[]) WITHIN 5 CONTIGUITY NEXT SKIP PAST LAST EVENT"
    found = slackwater.query(events, text, purge=purge)
    counters = found.counters["sites"]["main"]["queries"]["q1"]
    assert least <= counters["buffered"] <= most


RUNS = [
    "SEQ(A a, B+ b[], C c) WITHIN 90 PARTITION BY k CONTIGUITY NEXT",
    "SEQ(A a, B+ b[], !D n, C c) WITHIN 90 PARTITION BY k CONTIGUITY NEXT SKIP TO NEXT",
    "SEQ(A+ a[], B+ b[]) WHERE b[i].v > b[i - 1].v WITHIN 90 CONTIGUITY STRICT SKIP PAST LAST",
    "SEQ(A a, B{2,} b[] UNTIL b.v > 7, C c) WITHIN 900 PARTITION BY k CONTIGUITY NEXT LIMIT 2",
]


def events_of(tools: Any, late: float, seed: int) -> list[Any]:
    chance, ref, events = random.Random(seed), 0, []
    for _ in range(300):
        ref += chance.randint(1, 6)
        release = ref + (chance.randint(10, 60) if chance.random() < late else 0)
        attrs = {"v": chance.randrange(10), "k": chance.randrange(9)}
        events.append(tools.Event(chance.choice("AABBBCD"), ref, release=release, attrs=attrs))
    return sorted(events, key=lambda event: event.release)


@pytest.mark.parametrize(("late", "room"), [(0.0, 8), (0.03, 8), (0.0, 0)])
@pytest.mark.parametrize("text", RUNS)
def test_runs_stand_from_batch_to_batch(
    tools: Any, monkeypatch: pytest.MonkeyPatch, text: str, late: float, room: int
) -> None:
    monkeypatch.setattr(matcher_module, "_LINKS", room)
    plan, events = query(f"EVENT {text}"), events_of(tools, late, len(text))
    assert isinstance(plan, RepeatPlan)
    settings = PatternSettings(keep_late_ns=100)
    whole = tools.run(lambda: Alone(RepeatMatcher(plan, settings)), events)
    assert len(whole) > 2
    matcher = RepeatMatcher(plan, settings)
    operator, strings, found = Alone(matcher), Strings(), list[Any]()
    for start in range(0, len(events), 7):
        stop = min(start + 7, len(events))
        found += operator.process(tools.batch(events, strings, start, stop))
    assert [*found, *operator.finish(10**9)] == whole
    walked = matcher.counters()["looked_at"]
    assert late or bool(walked) == (not room)
    assert matcher.table.n < 300 or "900" in text  # events were forgotten meanwhile


def in_line(tools: Any, text: str) -> list[Any]:
    """``A B5 C``: types with their v, 10 ns apart."""
    return [
        tools.Event(word[0], 10 * n + 1, attrs={"v": int(word[1:] or 0), "k": 1})
        for n, word in enumerate(text.split())
    ]


@pytest.mark.parametrize(
    "condition", ["min(b.v) > 3", "max(b.v) < 4", "min(b.v) = 2", "max(b.v) = 5"]
)
def test_the_least_and_the_largest_of_a_repetition(tools: Any, condition: str) -> None:
    text = f"EVENT SEQ(A a, B+ b[], C c) WHERE {condition} WITHIN 900"
    check(tools, text, in_line(tools, "A B5 B2 B3 C"), [2])


@pytest.mark.parametrize("contiguity", ["NEXT", "STRICT"])
def test_a_trailing_negation_under_contiguity(tools: Any, contiguity: str) -> None:
    text = f"EVENT SEQ(A a, B+ b[], !N n) WITHIN 35 CONTIGUITY {contiguity}"
    check(tools, text, in_line(tools, "A B B N A B N B A N B"), [2])


@pytest.mark.parametrize(
    "condition",
    ["x[i].v >= z.v", "first(x.v) >= z.v", "last(x.v) >= z.v", "sum(x.v) >= z.v",
     "max(x.v) >= z.v", "min(x.v) >= z.v", "avg(x.v) >= z.v", "count(x) * 2 >= z.v",
     "x[i].v - x[i - 1].v < z.v - 2"],
)  # fmt: skip
@pytest.mark.parametrize("steps", ["A{1,2} x[], B z", "A+ x[], B z", "A+ x[], B{1,2} y[], C z"])
def test_query_03_a_condition_on_a_repetition_and_a_later_step_tells_what_could_be_taken(
    tools: Any, steps: str, condition: str
) -> None:
    text = f"EVENT SEQ({steps}) WHERE {condition} WITHIN 90 CONTIGUITY NEXT"
    check(tools, text, in_line(tools, "A2 B3 B0 A1 C4 A3 B5 B1 C2 C0"), [3, 4])


def test_query_03(tools: Any) -> None:
    text = "EVENT SEQ(A{1,2} x[], B z) WHERE x[i].v >= z.v WITHIN 80 CONTIGUITY NEXT"
    plan, events = plan_of(text), in_line(tools, "A2 B3 B0")
    found = tools.run(lambda: RepeatMatcher(plan, PatternSettings()), events, [])
    assert [[e["seq"] for e in r["events"]] for r in found] == [[0, 2]]


@pytest.mark.parametrize("contiguity", ["ANY", "NEXT"])
@pytest.mark.parametrize("line", ["B0 B4 B2 B0", "B0 B2 B4 B0"])
def test_query_04_what_comes_at_the_time_of_a_member_ends_the_repetition(
    tools: Any, line: str, contiguity: str
) -> None:
    text = f"EVENT B+ x[] UNTIL x.v > 2 WITHIN 90 CONTIGUITY {contiguity}"
    first, *tied, last = in_line(tools, line)
    tied = [tools.replace(event, ref=15) for event in tied]
    for events in itertools.permutations([first, *tied, last]):
        check(tools, text, list(events), [])


UNTILS = [
    "A+ a[] UNTIL a.v > 2",
    "SEQ(A a, B{2,} b[] UNTIL b.v > 2)",
    "SEQ(A+ a[] UNTIL a.v > 2, B? b, A c)",
    "SEQ(A+ a[] UNTIL a.v > 1, A+ b[] UNTIL b.v > 2)",
]


@pytest.mark.parametrize("line", ["A1 A5 B", "A1 A5 A1 B", "A5 A1 B", "A1 B A5 B"])
def test_what_ends_a_repetition_could_not_have_been_taken_as_its_step(
    tools: Any, line: str
) -> None:
    text = "EVENT SEQ(A+ a[] UNTIL a.v > 2, B b) WITHIN 90 CONTIGUITY NEXT"
    check(tools, text, in_line(tools, line), [])


def test_query_08_of_the_events_at_one_instant_one_match_has_some() -> None:
    events = {"type": ["A"] * 9, "ts": [1, 1, 1, 2, 2, 3, 3, 3, 3], "seq": list(range(9))}
    pattern = "EVENT A{1,2} x[] WITHIN 10 CONTIGUITY STRICT SKIP PAST LAST EVENT"
    found = values_of(slackwater.query(events, pattern, order="none"))
    assert found == [("+", None, [0]), ("+", None, [3]), ("+", None, [5])]


@pytest.mark.parametrize("unc", [0, 2])
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_ends_of_repetitions_at_few_instants(tools: Any, unc: int, data: st.DataObject) -> None:
    text = f"EVENT {data.draw(st.sampled_from(UNTILS))} WITHIN 9"
    text += data.draw(st.sampled_from(["", " CONTIGUITY NEXT", " CONTIGUITY STRICT"]))
    events = [
        tools.Event(
            data.draw(st.sampled_from("AAAAB")), data.draw(st.sampled_from([0, 2, 4])),
            unc=data.draw(st.integers(0, unc)), attrs={"v": data.draw(st.sampled_from([0, 3]))},
        )
        for _ in range(data.draw(st.integers(4, 7)))
    ]  # fmt: skip
    check(tools, text, events, [])


@pytest.mark.parametrize("line", ["A B1 B2 N2 C", "A B1 B2 N4 C", "A B1 N2 B2 C"])
@pytest.mark.parametrize("contiguity", ["ANY", "NEXT"])
def test_a_negated_step_beside_what_is_made_of_a_repetition(
    tools: Any, line: str, contiguity: str
) -> None:
    text = "EVENT SEQ(A a, B+ b[], !N n, C c) WHERE n.v > sum(b.v) WITHIN 90"
    check(tools, f"{text} CONTIGUITY {contiguity}", in_line(tools, line), [2])


def test_query_06_two_readings_of_the_same_events_are_one_match(tools: Any) -> None:
    events = [tools.Event("B", ref) for ref in (0, 2, 12)]
    check(tools, "EVENT SEQ(B{2,} x[], B? y) WITHIN 20", events, [])
    check(tools, "EVENT SEQ(B{2,} x[], B? y) WITHIN 20 LIMIT 2", events, [])


def values_of(found: Any) -> list[tuple[str, Any, list[int]]]:
    return [(r["op"], r.get("value"), [e["seq"] for e in r["events"]]) for r in found]


def test_the_reading_whose_steps_come_first_gives_the_values() -> None:
    events = {"type": ["B"] * 3, "ts": [0, 2, 12], "seq": [0, 1, 2]}
    pattern = "EVENT SEQ(B{2,} x[], B? y) WITHIN 20 LIMIT 3 RETURN count(x) AS n"
    assert values_of(slackwater.query(events, pattern)) == [
        ("+", {"n": 2}, [0, 1]), ("+", {"n": 3}, [0, 1, 2]), ("+", {"n": 2}, [0, 2]),
        ("+", {"n": 2}, [1, 2]),
    ]  # fmt: skip


LATE_READINGS = {
    "type": ["B", "B", "B", "N", "N"], "ts": [1, 3, 5, 4, 2], "seq": [0, 1, 2, 3, 4],
}  # fmt: skip
READINGS = "EVENT SEQ(B{1,2} x[], !N n, B{1,2} y[]) WITHIN 20"


@pytest.mark.parametrize("choice", ["", " LIMIT 1", " PARTITION BY type"])
def test_a_match_stands_as_long_as_one_of_its_readings(choice: str) -> None:
    """The first N breaks the first reading, and the other makes way for it; the second N breaks
    that.
    """
    events = {**LATE_READINGS, "k": [1] * 5}
    pattern = READINGS + choice.replace("type", "k")
    found = values_of(slackwater.query(events, pattern, order="none").changes())
    ops = [op for op, _, seqs in found if seqs == [0, 1, 2]]
    assert ops == ["+", "-"]
    assert found[-1] == ("-", None, [0, 1, 2]) or found[-2] == ("-", None, [0, 1, 2])
    counted = f"{pattern} RETURN count(x) AS x"
    found = values_of(slackwater.query(events, counted, order="none").changes())
    assert [(op, value) for op, value, seqs in found if seqs == [0, 1, 2]] == [
        ("+", {"x": 2}), ("-", {"x": 2}), ("+", {"x": 1}), ("-", {"x": 1})
    ]  # fmt: skip


def test_a_surer_reading_goes_before_the_first(tools: Any) -> None:
    """Whether N lies between the second B and the third is open."""
    events = [
        tools.Event("B", 10), tools.Event("B", 30, unc=3), tools.Event("B", 50),
        tools.Event("N", 32, unc=3),
    ]  # fmt: skip
    for order in itertools.permutations(events):
        check(tools, READINGS.replace("20", "90"), list(order), [])
