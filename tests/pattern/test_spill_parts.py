"""Spilling within WITHIN: every event waits, and a turn takes one part of the keys at a time."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from engine.pattern.compiled.tables import layout_of
from engine.pattern.seq import SeqMatcher
from engine.pattern.settings import PatternSettings
from engine.pattern.spill.bounds import spill_bounds
from engine.pattern.spill.matcher import SpillingMatcher
from engine.pattern.spill.partition import Keys, keys_of
from engine.pattern.spill.settings import SpillSettings
from engine.query import query
from engine.stream.released import Strings


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("SEQ(A a, B b) WHERE a.x = b.y", [{"A": "x", "B": "y"}]),
        ("SEQ(A a, B b) WHERE a.x = b.x AND a.y = b.y",
         [{"A": "x", "B": "x"}, {"A": "y", "B": "y"}]),
        ("SEQ(A a, !C c, B b) WHERE a.x = b.x", []),
        ("SEQ(A a, !C c, B b) WHERE a.x = b.x AND b.y = c.y", []),
        ("SEQ(A a, A b) WHERE a.x = b.x", [{"A": "x"}]),
        ("SEQ(A a, A b) WHERE a.x = b.y", []),
        ("SEQ(A a, OR(B b, C c)) WHERE a.x = b.x AND a.x = c.z", [{"A": "x", "B": "x", "C": "z"}]),
        ("SEQ(A a, OR(B b, C c)) WHERE a.x = b.x AND a.y = c.y", []),
        ("SEQ(A a, OR(B b, C c)) WHERE a.x = b.x", []),
        ("SEQ(A a)", []),
    ],
)  # fmt: skip
def test_keys_that_all_events_of_a_match_share(text: str, keys: list[dict[str, str]]) -> None:
    assert keys_of(layout_of(query(f"EVENT {text} WITHIN 8"))) == keys


def test_equal_keys_fall_into_one_part(tools: Any) -> None:
    layout = layout_of(query("EVENT SEQ(A a, B b) WHERE a.k = b.f WITHIN 8"))
    for values in ([(3, 3.0), (0, -0.0), (2**53, 2.0**53), (-7, -7.0)], [("x", "x"), ("", "")]):
        events = [
            event
            for one, other in values
            for event in (
                tools.Event("A", 1, attrs={"k": one}),
                tools.Event("B", 2, attrs={"f": other}),
            )
        ]
        for start in (0, 2):
            strings = Strings(["something else"] * start)
            released = tools.batch(events, strings, start, len(events))
            found = Keys(layout).of(released, np.arange(released.n))
            assert found[::2].tolist() == found[1::2].tolist()
            assert len(set(found.tolist())) == released.n // 2
    nothing = [tools.Event("A", 1), tools.Event("B", 2, attrs={"f": float("nan")})]
    released = tools.batch(nothing, Strings(), 0, 2)
    assert Keys(layout).of(released, np.arange(2)).tolist() == [0, 0]


def results_of(found: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    assert {result["op"] for result in found} <= {"+"}
    return {tuple(event["seq"] for event in result["events"]) for result in found}


def test_windows_larger_than_memory(tools: Any) -> None:
    """Every event waits, a part of WITHIN is loaded at a time, and memory holds little of it."""
    chance, made = (
        random.Random(3),
        query("EVENT SEQ(A a, !C c, B b) WHERE a.k = b.k AND c.k = a.k WITHIN 1000"),
    )
    events = [
        tools.Event(chance.choice("ABC"), now, attrs={"k": chance.randrange(400)})
        for now in range(4000)
    ]
    operators: list[SeqMatcher] = []

    def spilling(spill: SpillSettings | None) -> SeqMatcher:
        bounds = PatternSettings(keep_late_ns=0)
        operators.append(
            SeqMatcher(made, bounds) if spill is None else SpillingMatcher(made, spill, bounds)
        )
        return operators[-1]

    def most(spill: SpillSettings | None) -> tuple[Any, int]:
        operators.clear()
        found = tools.run(lambda: spilling(spill), events, range(0, 4000, 50))
        return results_of(found), max(operator.counters()["buffered_max"] for operator in operators)

    plain, all_of_them = most(None)
    assert all_of_them >= 1000
    assert len(plain) > 300
    for parts, at_most in ((1, 450), (None, 450)):
        found, held = most(SpillSettings(None, 50, parts=parts))
        assert found == plain
        assert held <= at_most
    whole, _ = most(SpillSettings(None, 50, pending=10**6, wait_ns=10**6))
    assert whole == plain


def test_settings_that_are_left_open() -> None:
    def of(text: str, spill: SpillSettings) -> tuple[int, ...]:
        b = spill_bounds(query(f"EVENT {text} WITHIN 80"), spill)
        return b.hot_ns, b.chunk_ns, b.pending, b.wait_ns, b.parts

    key = "SEQ(A a, B b) WHERE a.k = b.k"
    assert of(key, SpillSettings()) == (100, 20, 64, 10**10, 1)
    assert of(key, SpillSettings(None, 10)) == (10, 10, 65536, 10, 4)
    assert of(key, SpillSettings(None, 1)) == (1, 1, 65536, 1, 4)
    assert of("SEQ(A a, B b)", SpillSettings(None, 10)) == (10, 10, 65536, 10, 1)
    both = "SEQ(!C c, A a, !D d) WHERE a.k = c.k AND a.k = d.k"
    assert of(both, SpillSettings()) == (200, 20, 64, 10**10, 1)
    assert of(both, SpillSettings(None, 80)) == (80, 20, 65536, 80, 2)
    assert of(key, SpillSettings(None, 40)) == (40, 20, 65536, 40, 2)
    asked = SpillSettings(None, 10, 7, 5, 0, 3)
    assert of(key, asked) == (10, 7, 5, 0, 3)
