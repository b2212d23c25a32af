"""Negated steps: the papers' examples first, then every small stream and any cut by definition."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.pattern.seq import SeqMatcher
from engine.pattern.settings import PatternSettings
from engine.query import query
from engine.query.plan import Attribute, Comparison, SeqPlan, Step
from engine.stream.released import IN_ORDER, LATE, RESIDUAL

Given = tuple[str, tuple[int, ...]]


def plan(text: str, within: int | None = None, **more: Any) -> SeqPlan:
    """``a !c b``: steps named so, types in upper case."""
    steps = tuple(
        Step(word.strip("!"), word.strip("!").upper()[0], word[0] == "!") for word in text.split()
    )
    return SeqPlan("q", "", steps, within_ns=within, **more)


def stream(tools: Any, text: str) -> list[Any]:
    return [tools.Event(word[0].upper(), int(word[1:]), status=LATE) for word in text.split()]


def answers(tools: Any, made: SeqPlan, text: str) -> list[Given]:
    results = tools.run(lambda: SeqMatcher(made), stream(tools, text))
    return [(r["op"], tuple(e["ref"] for e in r["events"])) for r in results]


FIG = "a3 c5 b6 a7 d10 b11 c13 d15 f16"
"""The stream of L10 Fig 4.2 and L09 Fig 2."""


def test_l09_fig_2_negation_in_order(tools: Any) -> None:
    # c13 lies between b11 and d15.
    assert answers(tools, plan("a b !c d", 10), FIG) == [("+", (3, 6, 10))]


def test_l09_example_1_a_late_last_event_finds_its_partners(tools: Any) -> None:
    found = answers(tools, plan("a b !c d", 10), FIG.replace("f16", "d17 d8"))
    assert ("+", (3, 6, 8)) in found


def test_l09_example_2_negation_between_late_and_old_events(tools: Any) -> None:
    # c5 lies between b4 and d10, so no match comes of b4.
    assert answers(tools, plan("a b !c d", 10), FIG + " b4") == [("+", (3, 6, 10))]


def test_l10_example_4_1_four_sequences_of_which_two_lie_within_the_window(tools: Any) -> None:
    assert answers(tools, plan("a b d"), FIG) == [
        ("+", (3, 6, 10)), ("+", (3, 6, 15)), ("+", (3, 11, 15)), ("+", (7, 11, 15)),
    ]  # fmt: skip
    assert answers(tools, plan("a b d", 10), FIG) == [("+", (3, 6, 10)), ("+", (7, 11, 15))]


def test_l10_example_4_2_events_before_the_first_to_arrive(tools: Any) -> None:
    found = answers(tools, plan("a b !c d", 7), "b1 " + FIG + " a0 d2")
    assert found == [("+", (3, 6, 10)), ("+", (0, 1, 2))]


def test_l10_examples_4_3_and_4_7_a_late_middle_event(tools: Any) -> None:
    # W = 12 leaves room for d15.
    made = plan("a b d", 12)
    found = answers(tools, made, FIG + " b8 d2")
    assert found[:-4] == answers(tools, made, FIG)
    assert found[-4:] == [
        ("+", (3, 8, 10)), ("+", (3, 8, 15)), ("+", (7, 8, 10)), ("+", (7, 8, 15)),
    ]  # fmt: skip


def test_l10_example_4_4_a_late_negative_event_takes_the_match_back(tools: Any) -> None:
    # L09's aggressive level on the same stream (SPEC 4.5).
    found = answers(tools, plan("a b !c d", 10), FIG + " c9")
    assert found == [("+", (3, 6, 10)), ("-", (3, 6, 10))]


def test_l10_example_4_6_a_late_event_is_filtered_by_an_old_negative_one(tools: Any) -> None:
    assert answers(tools, plan("a b !c d", 10), FIG + " b4") == [("+", (3, 6, 10))]


def test_l09_examples_6_and_7_only_what_no_earlier_event_had_filtered_is_taken_back(
    tools: Any,
) -> None:
    # <a3 b11> was filtered by c5 already.
    found = answers(tools, plan("a !c b", 10), FIG.replace("f16", "d17 c9"))
    assert found == [("+", (7, 11)), ("-", (7, 11))]


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
    assert "".join(op for op, _ in answers(tools, plan(text, 10), events)) == want


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


def test_results_of_both_signs_have_equal_content(tools: Any) -> None:
    events = [
        tools.Event("A", 1, attrs={"v": 1}, arrival=4, release=5),
        tools.Event("B", 5, arrival=7, release=9), tools.Event("N", 3, arrival=8, release=11),
    ]  # fmt: skip
    plus, minus = tools.run(lambda: SeqMatcher(plan("a !n b", 10)), events, (2,))
    assert (plus["at"], minus["at"]) == (9, 11)
    assert minus == plus | {"op": "-", "at": 11}


# ---- SPEC 4.3: clocks that err --------------------------------------------------------------


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


# ---- by definition --------------------------------------------------------------------------


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


@pytest.mark.parametrize("unc", [0, 1])
@pytest.mark.parametrize("text", ["a !n b", "!n a b", "a b !n", "!n a !n2 b"])
def test_every_arrival_order_of_every_small_stream(tools: Any, text: str, unc: int) -> None:
    made = plan(text, 4)
    for late in itertools.product((0, 2, 6), (3, 5)):
        base = [tools.Event("A", 1, source="x"), tools.Event("B", 4, unc, "y")] + [
            tools.Event("N", ref, unc, f"n{i}") for i, ref in enumerate(late)
        ] + [tools.Event("A", 2, source="x")]  # fmt: skip
        for events in itertools.permutations(base):
            truth = tools.Truth(made, events, lambda _: True, lambda *_: True, keep=1000)
            results = tools.run(lambda: SeqMatcher(made), events)
            assert nets(results, len(events)) == expected(truth)


EVENT = {
    "type": st.sampled_from("AABNNM"), "ref": st.integers(0, 25),
    "unc": st.sampled_from([0, 0, 0, 1, 4, 15]), "source": st.sampled_from(["s1", "s0", "s2"]),
    "epoch": st.sampled_from([-1, 1]),
    "status": st.sampled_from([IN_ORDER] * 4 + [RESIDUAL, LATE]),
    "attrs": st.fixed_dictionaries({}, optional={"k": st.integers(0, 1), "v": st.integers(-3, 3)}),
}  # fmt: skip
SHAPES = ["a !n b", "!n a b", "a b !n", "!n a !m b", "a !n !m b !n2", "a !n", "!n a", "a !a2 b",
          "a !n b a3", "!b2 a b"]  # fmt: skip


def shaped(text: str, within: int, join: str) -> tuple[SeqPlan, Any, Any]:
    """The plan; what it asks of the positive events, and of a negative one beside them."""
    bare = plan(text, within)
    names = [step.alias for step in bare.steps]
    negated = [step.alias for step in bare.steps if step.negated]
    positive = [name for name in names if name not in negated]
    equalities: tuple[tuple[Attribute, ...], ...] = ()
    others: tuple[Comparison, ...] = ()
    if join == "all":
        equalities = (tuple(Attribute("k", name) for name in names),)
    elif join == "negated":
        equalities = ((*sorted((Attribute("k", positive[-1]), Attribute("k", negated[0])),
                               key=lambda a: names.index(str(a.alias))),),)  # fmt: skip
    elif join == "other":
        others = (Comparison("<", Attribute("v", negated[0]), Attribute("v", positive[0])),)

    def satisfies(chosen: Any) -> bool:
        keys = [event.attrs.get("k") for event in chosen]
        return join != "all" or len(chosen) < 2 or (None not in keys and len(set(keys)) == 1)

    def counts(chosen: Any, event: Any, step: int) -> bool:
        key = event.attrs.get("k")
        mine = names[step] == negated[0]
        if join == "all":
            return key is not None and key == chosen[0].attrs.get("k")
        if join == "negated" and mine:
            return key is not None and key == chosen[-1].attrs.get("k")
        if join == "other" and mine:
            low, high = event.attrs.get("v"), chosen[0].attrs.get("v")
            return low is not None and high is not None and low < high
        return True

    made = SeqPlan("q", "", bare.steps, equalities, others, within)
    return made, satisfies, counts


@given(
    data=st.data(), text=st.sampled_from(SHAPES), within=st.sampled_from([0, 3, 8, 100]),
    join=st.sampled_from(["none", "none", "all", "negated", "other"]),
    rule=st.sampled_from(["pairwise", "max-delay"]), keep=st.sampled_from([0, 3, 1000]),
    in_order=st.booleans(), t_a=st.sampled_from([0, 3, 10]),
)  # fmt: skip
@settings(max_examples=75, deadline=None)
def test_equals_the_definition_after_every_row_under_any_cut(
    tools: Any, data: st.DataObject, text: str, within: int, join: str, rule: str, keep: int,
    in_order: bool, t_a: int,
) -> None:  # fmt: skip
    made, satisfies, counts = shaped(text, within, join)
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=10))
    if in_order:
        events.sort(key=lambda event: event.ref)
    step = st.tuples(st.integers(0, len(events)), st.integers(0, 60), st.just(0))
    steps = sorted(data.draw(st.lists(step, max_size=2)))

    def make() -> SeqMatcher:
        return SeqMatcher(made, PatternSettings(rule, keep_late_ns=keep))

    truth = tools.Truth(made, events, satisfies, counts, rule, t_a, within + keep, steps)
    whole = tools.run(make, events, t_a=t_a, steps=steps)
    assert nets(whole, len(events)) == expected(truth)
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=5))
    assert tools.run(make, events, cuts, t_a=t_a, steps=steps) == whole
