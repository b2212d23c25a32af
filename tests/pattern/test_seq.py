"""SEQ and negated steps: the papers' examples, then any stream, cut anywhere, by definition."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import IN_ORDER, LATE, LATE_DROPPED, RESIDUAL, Strings
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import Arithmetic, Attribute, Comparison, Constant, SeqPlan
from tests.pattern.conftest import FIG, plan, stream

MS = 10**6


def matcher(made: SeqPlan, certainty: str = "pairwise", keep: int | None = None) -> SeqMatcher:
    return SeqMatcher(made, PatternSettings(certainty, keep_late_ns=keep))


def refs(results: list[dict[str, Any]]) -> list[tuple[int, ...]]:
    return [tuple(event["ref"] for event in result["events"]) for result in results]


def answers(tools: Any, made: SeqPlan, text: str) -> list[str]:
    """``+3,6,10``, in order."""
    results = tools.run(lambda: matcher(made), stream(text, LATE))
    return [r["op"] + ",".join(str(e["ref"]) for e in r["events"]) for r in results]


def test_l09_l10_positive_part_of_the_running_example(tools: Any) -> None:
    results = tools.run(lambda: matcher(plan("a b d", 10)), stream(FIG))
    assert refs(results) == [(3, 6, 10), (7, 11, 15)]
    assert [r["at"] for r in results] == [4, 7]
    assert {(r["certainty"], r["probability"]) for r in results} == {("confirmed", 1.0)}


NEGATED = plan("a b !c d", 10)


@pytest.mark.parametrize(
    ("made", "events", "emitted"),
    [
        # L09 Fig 2: c13 lies between b11 and d15.
        (NEGATED, FIG, "+3,6,10"),
        # L09 Example 1: a late last event finds its partners.
        (NEGATED, FIG.replace("f16", "d17 d8"), "+3,6,10 +3,6,8"),
        # L09 Example 2, L10 Example 4.6: c5 lies between b4 and d10, so no match comes of b4.
        (NEGATED, FIG + " b4", "+3,6,10"),
        # L10 Example 4.1: four sequences, of which two lie within the window.
        (plan("a b d"), FIG, "+3,6,10 +3,6,15 +3,11,15 +7,11,15"),
        (plan("a b d", 10), FIG, "+3,6,10 +7,11,15"),
        # L10 Example 4.2: events before the first to arrive.
        (plan("a b !c d", 7), "b1 " + FIG + " a0 d2", "+3,6,10 +0,1,2"),
        # L10 Examples 4.3 and 4.7: a late middle event; W = 12 leaves room for d15.
        (plan("a b d", 12), FIG + " b8 d2",
         "+3,6,10 +3,6,15 +3,11,15 +7,11,15 +3,8,10 +3,8,15 +7,8,10 +7,8,15"),
        # L10 Example 4.4, L09's aggressive level: a late negative event takes the match back.
        (NEGATED, FIG + " c9", "+3,6,10 -3,6,10"),
        # L09 Examples 6 and 7: <a3 b11> was filtered by c5 already.
        (plan("a !c b", 10), FIG.replace("f16", "d17 c9"), "+7,11 -7,11"),
    ],
)  # fmt: skip
def test_examples_of_l09_and_l10(tools: Any, made: SeqPlan, events: str, emitted: str) -> None:
    assert answers(tools, made, events) == emitted.split()


@pytest.mark.parametrize(
    ("e1", "e2", "certainty"),
    [(100, 111, "confirmed"), (100, 110, "uncertain"), (110, 100, "uncertain"), (111, 100, None)],
)
@pytest.mark.parametrize("rule", ["max-delay-r19", "pairwise"])
def test_r19_pseudocode_3_1(tools: Any, e1: int, e2: int, certainty: str | None, rule: str) -> None:
    # T_a = 10; pairwise has the same bound, 5 + 5.
    pair = [tools.Event("A", e1, 5, "x"), tools.Event("B", e2, 5, "y")]
    for events in (pair, pair[::-1]):
        results = tools.run(lambda: matcher(plan("a b"), rule), events, t_a=10)
        assert [r["certainty"] for r in results] == ([certainty] if certainty else [])


@pytest.mark.parametrize(
    ("delay_ns", "certainty"),
    [(MS // 8, "confirmed"), (MS, "confirmed"), (10 * MS, "confirmed"), (50 * MS, "uncertain")],
)
@pytest.mark.parametrize("rule", ["max-delay-r19", "pairwise"])
def test_r19_table_5_13_goal_44_ms_apart(
    tools: Any, delay_ns: int, certainty: str, rule: str
) -> None:
    for sign in (1, 1 if certainty == "confirmed" else -1):
        foot = tools.Event("A", 10**9, delay_ns // 2, "shoe")
        ball = tools.Event("B", 10**9 + sign * 44 * MS, delay_ns // 2, "ball")
        (result,) = tools.run(lambda: matcher(plan("a b"), rule), [foot, ball], t_a=delay_ns)
        assert result["certainty"] == certainty
        assert (result["probability"] == 1.0) == (certainty == "confirmed")


def test_spec_4_3_one_source_between_syncs_shares_a_clock(tools: Any) -> None:
    def found(first: dict[str, Any], second: dict[str, Any], diff: int) -> list[str]:
        events = [tools.Event("A", 100, 5, **first), tools.Event("B", 100 + diff, 5, **second)]
        return [r["certainty"] for r in tools.run(lambda: matcher(plan("a b")), events)]

    same, later, other = {"epoch": 3}, {"epoch": 4}, {"source": "x", "epoch": 3}
    assert found(same, same, 1) == ["confirmed"]
    assert found(same, same, 0) == []
    assert found(same, same, -1) == []
    assert found(same, later, 1) == ["uncertain"]
    assert found(same, other, -10) == ["uncertain"]
    assert found({}, {}, 1) == ["uncertain"]  # never synchronised: nothing is shared


def test_spec_4_1_within_includes_its_end_and_order_is_strict(tools: Any) -> None:
    made = plan("a b", 10)
    assert refs(tools.run(lambda: matcher(made), stream("a0 b0 b10 b11"))) == [(0, 10)]


@pytest.mark.parametrize(
    ("diff", "certainty"), [(90, "confirmed"), (91, "uncertain"), (110, "uncertain"), (111, None)]
)
def test_spec_4_3_within_is_certain_or_not_too(
    tools: Any, diff: int, certainty: str | None
) -> None:
    events = [tools.Event("A", 0, 4, "x"), tools.Event("B", diff, 6, "y")]
    results = tools.run(lambda: matcher(plan("a b", 100)), events)
    assert [r["certainty"] for r in results] == ([certainty] if certainty else [])


@pytest.mark.parametrize(
    ("text", "events", "want"),
    [
        # Strictly between: an event at either neighbour's instant is none.
        ("a !n b", "a1 b5 n1 n5", "+"), ("a !n b", "a1 b5 n2", "+-"), ("a !n b", "a1 n4 b5", ""),
        # At the front [last - W, first).
        ("!n a b", "n0 a8 b11", "+"), ("!n a b", "n1 a8 b11", ""), ("!n a b", "n8 a8 b11", "+"),
        ("!n a b", "a8 b11 n7", "+-"), ("!n a b", "a8 n0 b11", "+"),
        # At the end (last, first + W].
        ("a b !n", "a1 b5 n5", "+"), ("a b !n", "a1 b5 n6", "+-"), ("a b !n", "a1 b5 n11", "+-"),
        ("a b !n", "a1 b5 n12", "+"), ("a b !n", "n9 a1 b5", ""),
        # One positive step.
        ("a !n", "a1 n1 n11", "+-"), ("a !n", "a1 n12", "+"), ("!n a", "n0 a10", ""),
        ("!n a", "n0 a11", "+"),
        # Several, side by side and apart, of one type and of two.
        ("a !n !m b", "a1 b5 m3", "+-"), ("a !n !m b", "a1 n3 b5", ""),
        ("!n a !m b !k", "a3 b5 n6 m2 k4", "+"), ("!n a !m b !k", "a3 b5 k6", "+-"),
        ("a !n b !n2 c", "a1 b3 c5 n4", "+-"), ("a !n b !n2 c", "a1 b3 c5 n2 n4", "+-"),
        ("a !n !n2 b", "a1 b3 n2 n2", "+-"),
        # A negated step of a positive one's type.
        ("a !a2 b", "a1 a2 b3", "+"), ("a b !b2", "a1 b3 b5", "+-+"),
    ],
)  # fmt: skip
def test_spec_4_1_scopes(tools: Any, text: str, events: str, want: str) -> None:
    assert "".join(emitted[0] for emitted in answers(tools, plan(text, 10), events)) == want


def test_spec_4_3_a_doubtful_negative_event_makes_the_match_uncertain(tools: Any) -> None:
    # n is uniform in [2, 6] and a certain: it lies before b5 with 3/4.
    events = [tools.Event("A", 1), tools.Event("B", 5), tools.Event("N", 4, 2, "y")]
    plus, minus, doubt = tools.run(lambda: SeqMatcher(plan("a !n b", 10)), events)
    assert (plus["op"], plus["certainty"], plus["probability"]) == ("+", "confirmed", 1.0)
    assert minus == plus | {"op": "-", "at": 2}
    assert (doubt["op"], doubt["certainty"]) == ("+", "uncertain")
    assert doubt["probability"] == pytest.approx(0.25)
    sooner = tools.run(lambda: SeqMatcher(plan("a !n b", 10)), [events[2], *events[:2]])
    assert [(r["op"], r["certainty"]) for r in sooner] == [("+", "uncertain")]
    assert sooner[0]["probability"] == pytest.approx(0.25)


def test_spec_4_3_doubts_add_up_and_a_certain_event_ends_them(tools: Any) -> None:
    events = [
        tools.Event("A", 1), tools.Event("B", 5), tools.Event("N", 4, 2, "y"),
        tools.Event("N", 5, 1, "z"), tools.Event("N", 3),
    ]  # fmt: skip
    results = tools.run(lambda: SeqMatcher(plan("a !n b", 10)), events)
    assert [r["op"] for r in results] == ["+", "-", "+", "-", "+", "-"]
    assert results[4]["probability"] == pytest.approx(0.25 * 0.5)
    for plus, minus in zip(results[0::2], results[1::2], strict=True):
        assert minus == plus | {"op": "-", "at": minus["at"]}


def test_probability_against_many_random_worlds(tools: Any) -> None:
    """Uncertain positives of shared and own clocks, and a negative event of one of these."""
    made = plan("!n a b !n2", 8)
    events = [
        tools.Event("A", 10, 3, "x", 1), tools.Event("B", 12, 2, "y", 1),
        tools.Event("N", 9, 2, "y", 2), tools.Event("N", 19, 2, "z", 1),
    ]  # fmt: skip
    *_, last = tools.run(lambda: SeqMatcher(made), events)
    draw = np.random.default_rng(1)
    a, b, n, m = (
        e.ref + draw.uniform(-e.unc, e.unc, 400_000) for e in events
    )  # fmt: skip
    first = ~((n >= b - 8) & (n < a)) & ~((n > b) & (n <= a + 8))
    second = ~((m >= b - 8) & (m < a)) & ~((m > b) & (m <= a + 8))
    true = (a < b) & (b - a <= 8) & first & second
    assert last["op"] == "+"
    assert last["probability"] == pytest.approx(true.mean(), abs=0.01)


# ---- what results show, and what is held ------------------------------------------------------


def test_result_fields_of_design(tools: Any) -> None:
    events = [
        tools.Event("A", 1005, source="x", attrs={"v": 1, "s": "t"}, arrival=7, release=9, seq=4),
        tools.Event("B", 1008, source="y", attrs={"f": 0.5, "b": True}, arrival=3, release=11,
                    seq=-1),
    ]  # fmt: skip
    first, second = (
        {"site": "main", "stream": "events", "source": "x", "seq": 4, "type": "A", "ts": 5,
         "te": 5, "ref": 1005, "attrs": {"s": "t", "v": 1}},
        {"site": "main", "stream": "events", "source": "y", "seq": None, "type": "B", "ts": 8,
         "te": 8, "ref": 1008, "attrs": {"b": True, "f": 0.5}},
    )  # fmt: skip
    assert tools.run(lambda: matcher(plan("a b")), events) == [
        {"op": "+", "query": "q", "site": "main", "at": 11, "known_at": 7,
         "certainty": "confirmed", "probability": 1.0, "events": [first, second]}
    ]  # fmt: skip


def test_return_selects_attributes(tools: Any) -> None:
    events = [tools.Event("A", 1, attrs={"v": 1, "w": 2}), tools.Event("B", 2, attrs={"v": 3})]
    made = plan("a b", returns=(Attribute("w", "a"), Attribute("ts", "b")))
    (result,) = tools.run(lambda: matcher(made), events, (1,))
    assert [event["attrs"] for event in result["events"]] == [{"w": 2}, {}]


def test_results_share_nothing(tools: Any) -> None:
    events = [tools.Event("A", 1, attrs={"v": 1}), tools.Event("B", 2), tools.Event("B", 3)]
    one, two = tools.run(lambda: matcher(plan("a b")), events)
    one["events"][0]["attrs"]["v"] = one["events"][0]["ts"] = None
    assert (two["events"][0]["attrs"], two["events"][0]["ts"]) == ({"v": 1}, -999)


def test_equalities_partition_texts_numbers_and_nulls(tools: Any) -> None:
    group = ((Attribute("tag", "a"), Attribute("id", "b")),)
    made = plan("a b", equalities=group)

    def count(tag: Any, other: Any) -> int:
        events = [tools.Event("A", 1, attrs={"tag": tag}), tools.Event("B", 2, attrs={"id": other})]
        return len(tools.run(lambda: matcher(made), events, (1,)))

    assert count("x", "x") == count(3, 3) == count(3, 3.0) == count(0.5, 0.5) == 1
    assert count("x", "y") == count(3, 4) == count(3, 3.5) == count(None, None) == 0
    assert count("x", 0) == count(float("nan"), float("nan")) == 0


def test_predicates_decide_which_events_count(tools: Any) -> None:
    text = (
        "EVENT SEQ(A a, !N n, B b) WHERE a.id = b.id AND n.id = a.id AND n.v > 2 AND n.v < b.v "
        "WITHIN 10"
    )
    a, b = tools.Event("A", 1, attrs={"id": 1}), tools.Event("B", 5, attrs={"id": 1, "v": 9})

    def ops(**attrs: int) -> str:
        events = [a, b, tools.Event("N", 3, attrs=attrs)]
        parsed = query(text)
        assert isinstance(parsed, SeqPlan)
        return "".join(r["op"] for r in tools.run(lambda: SeqMatcher(parsed), events))

    assert ops(id=1, v=3) == "+-"
    assert ops(id=2, v=3) == ops(id=1, v=2) == ops(id=1, v=9) == ops(v=3) == ops(id=1) == "+"


def test_a_positive_event_without_the_attribute_of_a_negated_step_matches(tools: Any) -> None:
    made = plan("a !n", 10, equalities=((Attribute("id", "a"), Attribute("id", "n")),))
    events = [tools.Event("A", 1), tools.Event("N", 3, attrs={"id": 0})]
    assert [r["op"] for r in tools.run(lambda: SeqMatcher(made), events)] == ["+"]


def test_buffer_stays_bounded_and_late_rows_are_counted(tools: Any) -> None:
    made, strings = Alone(matcher(plan("a b", 10), keep=20)), Strings()
    most, results = 0, 0
    for start in range(0, 10_000, 50):
        events = [tools.Event("AB"[i % 2], start + i) for i in range(50)]
        results += len(made.process(tools.batch(events, strings, 0, 50)))
        most = max(most, made.counters()["buffered"])
    assert most <= 2 * (50 + 31)
    assert results == 5000 * 5 - 2 * (1 + 2 + 3 + 4) // 2
    late = [tools.Event("A", 9999 - 30, status=LATE), tools.Event("A", 9999 - 31, status=LATE)]
    made.process(tools.batch(late, strings, 0, 2))
    assert made.counters()["too_late"] == 1


def test_without_within_what_is_held_is_counted(tools: Any) -> None:
    made = Alone(SeqMatcher(plan("a b"), PatternSettings(buffer_warn=3)))
    made.process(tools.batch([tools.Event("A", i) for i in range(5)], Strings(), 0, 5))
    counted = made.counters()
    assert {name: counted[name] for name in ("too_late", "buffered", "beyond_limit")} == {
        "too_late": 0, "buffered": 5, "beyond_limit": 2,
    }  # fmt: skip


# ---- by definition ----------------------------------------------------------------------------


def nets(results: list[dict[str, Any]], rows: int) -> list[dict[tuple[int, ...], str]]:
    """After each row, what is given and not taken back; ``release`` and ``seq`` are rows."""
    held: dict[tuple[int, ...], dict[str, Any]] = {}
    after: list[dict[tuple[int, ...], str]] = []
    waiting = list(results)
    for row in range(rows):
        while waiting and waiting[0]["at"] <= row:
            result = waiting.pop(0)
            key = tuple(event["seq"] for event in result["events"])
            if result["op"] == "+":
                assert key not in held
                held[key] = result
            else:
                assert held.pop(key) == result | {"op": "+", "at": held_at(results, result)}
        after.append({key: result["certainty"] for key, result in held.items()})
    assert not waiting
    return after


def held_at(results: list[dict[str, Any]], taken: dict[str, Any]) -> int:
    """When what ``taken`` takes back was given: the latest before it."""
    place = next(i for i, r in enumerate(results) if r is taken)
    same = [r["at"] for r in results[:place] if r["op"] == "+" and r["events"] == taken["events"]]
    return int(same[-1])


def expected(truth: Any) -> list[dict[tuple[int, ...], str]]:
    found: list[dict[tuple[int, ...], str]] = [{} for _ in truth.events]
    for rows in truth.combinations():
        changes = [*truth.changes(rows), (len(truth.events), None)]
        for (start, standing), (stop, _) in itertools.pairwise(changes):
            for row in range(start, stop):
                if standing is not None:
                    found[row][rows] = standing
    return found


def by_rank(results: list[dict[str, Any]]) -> bool:
    """Whether what one row completes is emitted by the times of its events, in step order."""
    emitted = [
        (r["at"], [(e["ref"], e["source"], e["seq"]) for e in r["events"]]) for r in results
    ]  # fmt: skip
    return emitted == sorted(emitted)


@pytest.mark.parametrize(
    ("text", "unc", "refs"),
    [("a b c", 1, (0, 3)), ("a !n b", 1, (2, 3)), ("!n a !n2 b", 1, (0, 3))]
    + [
        pytest.param(text, unc, range(7), marks=pytest.mark.deep)
        for text in ("a b c", "a !n b", "!n a b", "a b !n", "!n a !n2 b")
        for unc in (0, 1, 2)
    ],
)
def test_every_arrival_order_of_every_small_stream(
    tools: Any, text: str, unc: int, refs: Sequence[int]
) -> None:
    made, other = plan(text, 4), "N" if "n" in text else "C"
    for one, two in itertools.combinations(refs, 2):
        base = [
            tools.Event("A", 1, source="x"), tools.Event("B", 4, unc, "y"),
            tools.Event(other, one, unc, "n0"), tools.Event(other, two, unc, "n1"),
        ]  # fmt: skip
        for events in itertools.permutations([*base, tools.Event("A", 2, source="x")]):
            truth = tools.Truth(text, 4, events, lambda _: True, lambda *_: True, keep=1000)
            results = tools.run(lambda: matcher(made), events)
            assert nets(results, len(events)) == expected(truth)


EVENT = {
    "type": st.sampled_from("AABBNNM"), "ref": st.integers(0, 25),
    "unc": st.sampled_from([0, 0, 0, 1, 4, 15]), "source": st.sampled_from(["s1", "s0", "s2"]),
    "epoch": st.sampled_from([-1, 1]),
    "status": st.sampled_from([IN_ORDER] * 4 + [RESIDUAL, LATE, LATE_DROPPED]),
    "attrs": st.fixed_dictionaries({}, optional={
        "k": st.integers(0, 1) | st.sampled_from([0.0, 1.5]), "t": st.sampled_from("xy"),
        "v": st.integers(-3, 3),
    }),
}  # fmt: skip
SHAPES = ["a b", "a a2", "a b a2", "a b", "a b a2",
          "a !n b", "!n a b", "a b !n", "!n a !m b", "a !n !m b !n2", "a !n", "!n a", "a !a2 b",
          "a !n b a3", "!b2 a b"]  # fmt: skip
JOINS = ["none", "none", "all", "negated", "other", "two keys"]


def shaped(text: str, within: int | None, join: str) -> tuple[SeqPlan, Any, Any]:
    """The plan; what it asks of the positive events, and of a negative one beside them."""
    names = text.replace("!", "").split()
    negated = [word[1:] for word in text.split() if word[0] == "!"]
    positive = [name for name in names if name not in negated]
    equalities: list[tuple[Attribute, ...]] = []
    others: tuple[Comparison, ...] = ()
    low = negated[0] if negated else positive[-1]
    if join == "all":
        equalities = [tuple(Attribute("k", name) for name in names)]
    elif join == "negated" and negated:
        both = sorted((positive[-1], negated[0]), key=names.index)
        equalities = [tuple(Attribute("k", name) for name in both)]
    elif join == "other":
        more = Arithmetic("+", Attribute("v", positive[0]), Constant(1))
        others = (Comparison("<", Attribute("v", low), more),) if low != positive[0] else ()
    elif join == "two keys" and len(positive) > 1:
        pairs = (("k", positive[:2]), ("t", [positive[0], positive[-1]]))
        equalities = [tuple(Attribute(key, name) for name in both) for key, both in pairs]

    def same(events: Any, name: str) -> bool:
        values = [event.attrs.get(name) for event in events]
        return None not in values and len(set(values)) == 1

    def less(one: Any, other: Any) -> bool:
        v, w = one.attrs.get("v"), other.attrs.get("v")
        return v is not None and w is not None and v < w + 1

    def satisfies(chosen: Any) -> bool:
        if join == "all":
            return len(chosen) < 2 or same(chosen, "k")
        if join == "two keys" and len(chosen) > 1:
            return same(chosen[:2], "k") and same([chosen[0], chosen[-1]], "t")
        return not (others and not negated) or less(chosen[-1], chosen[0])

    def counts(chosen: Any, event: Any, step: int) -> bool:
        mine = names[step] == negated[0]
        if join == "all":
            return same([chosen[0], event], "k")
        if join == "negated" and mine:
            return same([chosen[-1], event], "k")
        return not (others and mine) or less(event, chosen[0])

    return plan(text, within, equalities=tuple(equalities), others=others), satisfies, counts


@given(
    data=st.data(), text=st.sampled_from(SHAPES), within=st.sampled_from([None, 0, 3, 8, 100]),
    join=st.sampled_from(JOINS), rule=st.sampled_from(["pairwise", "max-delay-r19"]),
    keep=st.sampled_from([0, 3, 1000]), in_order=st.booleans(), t_a=st.sampled_from([0, 3, 10]),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_equals_the_definition_after_every_row_under_any_cut(
    tools: Any, data: st.DataObject, text: str, within: int | None, join: str, rule: str, keep: int,
    in_order: bool, t_a: int,
) -> None:  # fmt: skip
    if within is None and "!" in text.split(maxsplit=1)[0] + text.rsplit(maxsplit=1)[-1]:
        within = 8
    made, satisfies, counts = shaped(text, within, join)
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=10))
    if in_order:
        events.sort(key=lambda event: event.ref)
    step = st.tuples(st.integers(0, len(events)), st.integers(0, 60), st.just(0))
    steps = sorted(data.draw(st.lists(step, max_size=2)))
    kept = None if within is None else within + keep
    truth = tools.Truth(text, within, events, satisfies, counts, rule, t_a, kept, steps)
    whole = tools.run(lambda: matcher(made, rule, keep), events, t_a=t_a, steps=steps)
    assert nets(whole, len(events)) == expected(truth)
    assert "!" in text or by_rank(whole)
    for result in whole:
        assert result["probability"] == 1.0 or result["certainty"] == "uncertain"
        assert 0.0 <= result["probability"] <= 1.0
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=5))
    assert tools.run(lambda: matcher(made, rule, keep), events, cuts, t_a=t_a, steps=steps) == whole


def test_more_matches_than_there_is_room_for(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(5)
    events = [
        tools.Event("ABC"[int(kind)], int(ref), int(unc), f"s{i % 3}")
        for i, (kind, ref, unc) in enumerate(
            zip(generator.integers(0, 3, 120), np.sort(generator.integers(0, 200, 120)),
                generator.integers(0, 4, 120), strict=True)
        )
    ]  # fmt: skip
    made = plan("a b c", 30)
    whole = tools.run(lambda: matcher(made), events)
    assert len(whole) > 500
    assert by_rank(whole)
    emitted = {tuple(e["seq"] for e in r["events"]): r["certainty"] for r in whole}
    truth = tools.Truth("a b c", 30, events, lambda _: True, lambda *_: True)
    rows = truth.combinations()
    assert emitted == {of: tools.verdict([events[r] for r in of], 30, "pairwise", 0) for of in rows}
    monkeypatch.setattr("slackwater.engine.operators.match.search.host._LEAST", 3)
    assert tools.run(lambda: matcher(made), events) == whole
