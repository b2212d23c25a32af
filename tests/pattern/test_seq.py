"""SEQ: the papers' examples first, then every small case by definition, then any cut."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UserError
from engine.pattern.alone import Alone
from engine.pattern.seq import SeqMatcher
from engine.pattern.settings import PatternSettings
from engine.query.plan import (
    Arithmetic,
    Attribute,
    Comparison,
    Constant,
    Membership,
    SeqPlan,
    Step,
)
from engine.stream.released import IN_ORDER, LATE, LATE_DROPPED, RESIDUAL, Strings

MS = 10**6


def plan(*types: str, within: int | None = None, **more: Any) -> SeqPlan:
    """Steps named after their types in lower case."""
    steps = tuple(Step(name.lower(), name) for name in types)
    return SeqPlan("q", "", steps, within_ns=within, **more)


def matcher(made: SeqPlan, certainty: str = "pairwise", keep: int | None = None) -> SeqMatcher:
    return SeqMatcher(made, PatternSettings(certainty, keep_late_ns=keep))


def refs(results: list[dict[str, Any]]) -> list[tuple[int, ...]]:
    return [tuple(event["ref"] for event in result["events"]) for result in results]


def rows(results: list[dict[str, Any]]) -> list[tuple[int, str, tuple[int, ...]]]:
    """As ``by_definition`` gives them: ``release`` and ``seq`` are rows in these streams."""
    return [
        (r["at"], r["certainty"], tuple(event["seq"] for event in r["events"])) for r in results
    ]


def stream(tools: Any, text: str) -> list[Any]:
    """``a3 c5``: type A at 3, type C at 5."""
    return [tools.Event(word[0].upper(), int(word[1:])) for word in text.split()]


def test_l09_l10_positive_part_of_the_running_example(tools: Any) -> None:
    events = stream(tools, "a3 c5 b6 a7 d10 b11 c13 d15")
    made = plan("A", "B", "D", within=10)
    results = tools.run(lambda: matcher(made), events)
    assert refs(results) == [(3, 6, 10), (7, 11, 15)]
    assert [r["at"] for r in results] == [4, 7]
    assert {r["certainty"] for r in results} == {"confirmed"}
    assert {r["probability"] for r in results} == {1.0}


def test_l10_same_example_out_of_order_gives_the_same_matches(tools: Any) -> None:
    events = stream(tools, "a3 c5 b6 a7 d10 b11 c13 d15")
    made = plan("A", "B", "D", within=10)
    for place in range(len(events)):
        moved = [*events[:place], *events[place + 1 :], tools.replace(events[place], status=LATE)]
        found = refs(tools.run(lambda: matcher(made), moved))
        assert sorted(found) == [(3, 6, 10), (7, 11, 15)]


@pytest.mark.parametrize(
    ("e1", "e2", "certainty"),
    [(100, 111, "confirmed"), (100, 110, "uncertain"), (110, 100, "uncertain"), (111, 100, None)],
)
@pytest.mark.parametrize("rule", ["max-delay", "pairwise"])
def test_r19_pseudocode_3_1(tools: Any, e1: int, e2: int, certainty: str | None, rule: str) -> None:
    # T_a = 10; pairwise has the same bound, 5 + 5.
    pair = [tools.Event("E1", e1, 5, "x"), tools.Event("E2", e2, 5, "y")]
    for events in (pair, pair[::-1]):
        results = tools.run(lambda: matcher(plan("E1", "E2"), rule), events, t_a=10)
        assert [r["certainty"] for r in results] == ([certainty] if certainty else [])


@pytest.mark.parametrize(
    ("delay_ns", "certainty"),
    [(MS // 8, "confirmed"), (MS, "confirmed"), (10 * MS, "confirmed"), (50 * MS, "uncertain")],
)
@pytest.mark.parametrize("rule", ["max-delay", "pairwise"])
def test_r19_table_5_13_goal_44_ms_apart(
    tools: Any, delay_ns: int, certainty: str, rule: str
) -> None:
    for sign in (1, 1 if certainty == "confirmed" else -1):
        foot = tools.Event("E1", 10**9, delay_ns // 2, "shoe")
        ball = tools.Event("E2", 10**9 + sign * 44 * MS, delay_ns // 2, "ball")
        (result,) = tools.run(lambda: matcher(plan("E1", "E2"), rule), [foot, ball], t_a=delay_ns)
        assert result["certainty"] == certainty
        assert (result["probability"] == 1.0) == (certainty == "confirmed")


def test_spec_4_3_one_source_between_syncs_shares_a_clock(tools: Any) -> None:
    def found(first: dict[str, Any], second: dict[str, Any], diff: int) -> list[str]:
        events = [tools.Event("A", 100, 5, **first), tools.Event("B", 100 + diff, 5, **second)]
        return [r["certainty"] for r in tools.run(lambda: matcher(plan("A", "B")), events)]

    same, later, other = {"epoch": 3}, {"epoch": 4}, {"source": "x", "epoch": 3}
    assert found(same, same, 1) == ["confirmed"]
    assert found(same, same, 0) == []
    assert found(same, same, -1) == []
    assert found(same, later, 1) == ["uncertain"]
    assert found(same, other, -10) == ["uncertain"]
    assert found({}, {}, 1) == ["uncertain"]  # never synchronised: nothing is shared


def test_spec_4_1_within_includes_its_end_and_order_is_strict(tools: Any) -> None:
    made = plan("A", "B", within=10)
    assert refs(tools.run(lambda: matcher(made), stream(tools, "a0 b0 b10 b11"))) == [(0, 10)]


@pytest.mark.parametrize(
    ("diff", "certainty"), [(90, "confirmed"), (91, "uncertain"), (110, "uncertain"), (111, None)]
)
def test_spec_4_3_within_is_certain_or_not_too(
    tools: Any, diff: int, certainty: str | None
) -> None:
    events = [tools.Event("A", 0, 4, "x"), tools.Event("B", diff, 6, "y")]
    results = tools.run(lambda: matcher(plan("A", "B", within=100)), events)
    assert [r["certainty"] for r in results] == ([certainty] if certainty else [])


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
    assert tools.run(lambda: matcher(plan("A", "B")), events) == [
        {"op": "+", "query": "q", "site": "main", "at": 11, "known_at": 7,
         "certainty": "confirmed", "probability": 1.0, "events": [first, second]}
    ]  # fmt: skip


def test_return_selects_attributes(tools: Any) -> None:
    events = [tools.Event("A", 1, attrs={"v": 1, "w": 2}), tools.Event("B", 2, attrs={"v": 3})]
    made = plan("A", "B", returns=(Attribute("w", "a"), Attribute("ts", "b")))
    (result,) = tools.run(lambda: matcher(made), events, (1,))
    assert [event["attrs"] for event in result["events"]] == [{"w": 2}, {}]


def test_results_share_nothing(tools: Any) -> None:
    events = [tools.Event("A", 1, attrs={"v": 1}), tools.Event("B", 2), tools.Event("B", 3)]
    one, two = tools.run(lambda: matcher(plan("A", "B")), events)
    one["events"][0]["attrs"]["v"] = one["events"][0]["ts"] = None
    assert (two["events"][0]["attrs"], two["events"][0]["ts"]) == ({"v": 1}, -999)


def test_equalities_partition_texts_numbers_and_nulls(tools: Any) -> None:
    group = ((Attribute("tag", "a"), Attribute("id", "b")),)
    made = plan("A", "B", equalities=group)

    def count(tag: Any, other: Any) -> int:
        events = [tools.Event("A", 1, attrs={"tag": tag}), tools.Event("B", 2, attrs={"id": other})]
        return len(tools.run(lambda: matcher(made), events, (1,)))

    assert count("x", "x") == count(3, 3) == count(3, 3.0) == count(0.5, 0.5) == 1
    assert count("x", "y") == count(3, 4) == count(3, 3.5) == count(None, None) == 0
    assert count("x", 0) == count(float("nan"), float("nan")) == 0


def test_each_step_sees_only_its_own_conditions(tools: Any) -> None:
    steps = (
        Step("a", "A", where=Comparison(">", Attribute("v", "a"), Constant(2))),
        Step("b", "A", where=Membership(Attribute("v", "b"), (Constant(1), Constant(5)))),
    )
    events = [tools.Event("A", ref, attrs={"v": v}) for ref, v in enumerate((3, 1, 5, 2, 5))]
    results = tools.run(lambda: matcher(SeqPlan("q", "", steps)), events)
    assert refs(results) == [(0, 1), (0, 2), (0, 4), (2, 4)]


def test_what_is_not_supported_is_said(tools: Any) -> None:
    steps = (Step("a", "A"), Step("n", "N", negated=True))
    with pytest.raises(UserError, match="'n' is negated at an end: add WITHIN"):
        SeqMatcher(SeqPlan("q", "", steps))
    with pytest.raises(UserError, match="every step is negated"):
        SeqMatcher(SeqPlan("q", "", steps[1:], within_ns=3))
    with pytest.raises(UserError, match="'often': use pairwise or max-delay"):
        matcher(plan("A", "B"), "often")


def test_buffer_stays_bounded_and_late_rows_are_counted(tools: Any) -> None:
    made, strings = Alone(matcher(plan("A", "B", within=10), keep=20)), Strings()
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
    made = Alone(SeqMatcher(plan("A", "B"), PatternSettings(buffer_warn=3)))
    made.process(tools.batch([tools.Event("A", i) for i in range(5)], Strings(), 0, 5))
    counted = made.counters()
    assert {name: counted[name] for name in ("too_late", "buffered", "beyond_limit")} == {
        "too_late": 0, "buffered": 5, "beyond_limit": 2,
    }  # fmt: skip


# ---- by definition --------------------------------------------------------------------------


@pytest.mark.parametrize("unc", [0, 1, 2])
@pytest.mark.parametrize("within", [None, 3])
def test_every_arrival_order_of_every_small_stream(
    tools: Any, unc: int, within: int | None
) -> None:
    made = plan("A", "B", "C", within=within)
    for times in itertools.product((0, 1, 3), (1, 2), (2, 4)):
        base = [
            tools.Event(name, ref, unc if name == "B" else 0, source=name)
            for name, ref in zip("ABC", times, strict=True)
        ] + [tools.Event("B", 3, unc, source="A"), tools.Event("A", 2)]
        for events in itertools.permutations(base):
            expected = tools.by_definition(made, events, lambda _: True)
            assert rows(tools.run(lambda: matcher(made), events)) == expected


EVENT = {
    "type": st.sampled_from("ABC"), "ref": st.integers(0, 40),
    "unc": st.sampled_from([0, 0, 1, 4, 15]), "source": st.sampled_from(["s1", "s0", "s2"]),
    "epoch": st.sampled_from([-1, 1]),
    "status": st.sampled_from([IN_ORDER] * 4 + [RESIDUAL, LATE, LATE_DROPPED]),
    "attrs": st.fixed_dictionaries({}, optional={
        "k": st.integers(0, 2) | st.sampled_from([0.0, 1.5]),
        "t": st.sampled_from(["x", "y"]), "v": st.integers(-3, 3),
    }),
}  # fmt: skip
SHAPES = {
    "pair": ("AB", (), ()),
    "self": ("AA", (), ()),
    "one group": ("ABC", (("k", "k", "k"),), ()),
    "partial groups": ("ABC", (("k", "k", None), (None, "t", "t")), ()),
    "skipping group": ("ABA", (("t", None, "t"),), ()),
    "others": ("ABC", (), ((0, "<", 1, 0), (0, "<=", 2, 1))),
    "all": ("ABC", (("k", None, "k"),), ((1, "!=", 2, 0),)),
}


def shaped(shape: str, within: int | None) -> tuple[SeqPlan, Any]:
    """The plan, and its cross-step conditions as a Python function of the chosen events."""
    types, groups, others = SHAPES[shape]
    names = "efg"
    steps = tuple(Step(names[place], kind) for place, kind in enumerate(types))
    equalities = tuple(
        tuple(Attribute(attr, names[place]) for place, attr in enumerate(group) if attr)
        for group in groups
    )
    predicates = tuple(
        Comparison(op, Attribute("v", names[left]),
                   Arithmetic("+", Attribute("v", names[right]), Constant(plus)))
        for left, op, right, plus in others
    )  # fmt: skip
    compare = {"<": int.__lt__, "<=": int.__le__, "!=": int.__ne__}

    def satisfies(chosen: Any) -> bool:
        for group in groups:
            values = [chosen[place].attrs.get(attr) for place, attr in enumerate(group) if attr]
            if None in values or len(set(values)) > 1:
                return False
        for left, op, right, plus in others:
            one, two = chosen[left].attrs.get("v"), chosen[right].attrs.get("v")
            if one is None or two is None or not compare[op](one, two + plus):
                return False
        return True

    made = SeqPlan("q", "", steps, equalities, predicates, within)
    return made, satisfies


@given(
    data=st.data(), shape=st.sampled_from(sorted(SHAPES)),
    within=st.sampled_from([None, 0, 5, 12, 100]), rule=st.sampled_from(["pairwise", "max-delay"]),
    keep=st.sampled_from([0, 3, 1000]), in_order=st.booleans(), t_a=st.sampled_from([0, 3, 10]),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_equals_all_combinations_by_definition_under_any_cut(
    tools: Any, data: st.DataObject, shape: str, within: int | None, rule: str, keep: int,
    in_order: bool, t_a: int,
) -> None:  # fmt: skip
    made, satisfies = shaped(shape, within)
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=11))
    if in_order:
        events.sort(key=lambda event: event.ref)
    step = st.tuples(st.integers(0, len(events)), st.integers(0, 60), st.just(0))
    steps = sorted(data.draw(st.lists(step, max_size=2)))
    expected = tools.by_definition(
        made, events, satisfies, rule=rule, t_a=t_a, steps=steps,
        horizon=None if within is None else within + keep,
    )  # fmt: skip
    whole = tools.run(lambda: matcher(made, rule, keep), events, t_a=t_a, steps=steps)
    assert rows(whole) == expected
    for result in whole:
        assert result["probability"] == 1.0 or result["certainty"] == "uncertain"
        assert 0.0 <= result["probability"] <= 1.0
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=5))
    again = tools.run(lambda: matcher(made, rule, keep), events, cuts, t_a=t_a, steps=steps)
    assert [r | {"events": None} for r in again] == [r | {"events": None} for r in whole]
    assert rows(again) == expected


@given(
    data=st.data(), n=st.integers(2, 4), within=st.sampled_from([None, 6]),
    rule=st.sampled_from(["pairwise", "max-delay"]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_spec_4_3_no_false_negatives(
    tools: Any, data: st.DataObject, n: int, within: int | None, rule: str
) -> None:
    """Whatever the true times are within the uncertainties, a true match is reported."""
    made = plan(*"ABCD"[:n], within=within)
    true = data.draw(st.lists(st.integers(0, 12), min_size=n, max_size=n))
    errors = data.draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    events = [
        tools.Event("ABCD"[i], t + e, 3, source=f"s{i}")
        for i, (t, e) in enumerate(zip(true, errors, strict=True))
    ]
    results = tools.run(lambda: matcher(made, rule), data.draw(st.permutations(events)), t_a=6)
    is_true = all(a < b for a, b in itertools.pairwise(true))
    is_true &= within is None or true[-1] - true[0] <= within
    if is_true:
        assert len(results) == 1
    elif results:
        assert results[0]["certainty"] == "uncertain"


def test_more_matches_than_there_is_room_for(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(5)
    events = [
        tools.Event("ABC"[int(kind)], int(ref), int(unc), f"s{i % 3}")
        for i, (kind, ref, unc) in enumerate(
            zip(generator.integers(0, 3, 120), np.sort(generator.integers(0, 200, 120)),
                generator.integers(0, 4, 120), strict=True)
        )
    ]  # fmt: skip
    made = plan("A", "B", "C", within=30)
    whole = tools.run(lambda: matcher(made), events)
    assert len(whole) > 500
    assert rows(whole) == tools.by_definition(made, events, lambda _: True)
    monkeypatch.setattr("engine.pattern.search.kernel._LEAST", 3)
    assert tools.run(lambda: matcher(made), events) == whole
