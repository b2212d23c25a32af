"""Results that may not have happened, at every step: by brute force over the worlds that leave some
of them out.

A match is certain if it is one in every world, emitted if it is one in some, and its probability
is that of those worlds together.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import ClockBound, Progress, Strings
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.chain.operators import build_operator
from slackwater.engine.operators.cascade.derived_events import DerivedRows
from slackwater.engine.operators.cascade.result_reader import AskedOperator
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query

Row = tuple[int, str, int, float]
"""Time, type, value, chance."""
PATTERNS = {
    "between": "EVENT SEQ(A a, !N n, C c) WITHIN 20",
    "front": "EVENT SEQ(!N n, A a, C c) WITHIN 8",
    "end": "EVENT SEQ(A a, C c, !N n) WITHIN 8",
    "keys": "EVENT SEQ(A a, !N n, C c) WHERE a.v = n.v AND c.v = a.v WITHIN 20",
    "conditions": "EVENT SEQ(A a, !N n, C c) WHERE n.v > a.v WITHIN 20",
    "two": "EVENT SEQ(A a, !N n, !B b, C c) WHERE n.v > 0 WITHIN 20",
    "either": "EVENT SEQ(A a, !OR(N n, B b), C c) WITHIN 20",
    "iseq": "EVENT ISEQ[a.ts < n.ts, n.ts < c.ts, a.ts < c.ts](A a, !N n, C c) WITHIN 20",
    "tree": "EVENT SEQ(A a, !N n, PAL(B b, C c)) WITHIN 20",
    "anti": "SELECT a.v AS x FROM A a ANTI JOIN N n ON a.v = n.v WITHIN 5",
    "full": "SELECT a.v AS x, n.v AS y FROM A a FULL JOIN N n ON a.v = n.v WITHIN 5",
    "repeated": "EVENT SEQ(A+ a[], !N n, C c) WITHIN 12",
    "next": "EVENT SEQ(A{1,2} a[], C c) WITHIN 12 CONTIGUITY NEXT",
    "strict": "EVENT SEQ(A a, B? b, C c) WITHIN 12 CONTIGUITY STRICT",
    "until": "EVENT SEQ(A+ a[] UNTIL a.v > 1, C c) WITHIN 12",
}  # fmt: skip


def answers(text: str, rows: list[Row]) -> list[dict[str, Any]]:
    """The net results over events that are results of others."""
    strings = Strings()
    plan = query(text)
    settings_ = ChainSettings(parse_order("none"), (plan,))
    asked = AskedOperator(lambda: build_operator(plan, settings_, "main"), 0)
    n = len(rows)
    times = np.array([time for time, *_ in rows], np.int64)
    codes = np.array([strings.code(kind) for _, kind, *_ in rows], np.int32)
    columns = dict.fromkeys(("ref", "ref_end", "ts", "te"), times) | dict.fromkeys(
        ("source", "stream", "type"), codes
    )
    columns |= {"seq": np.full(n, -1), "epoch": np.full(n, -1), "unc": np.zeros(n, np.int64)}
    columns |= {"missing": np.zeros(n, np.int64), "arrival": np.arange(n), "release": np.arange(n)}
    columns |= {"chance": np.array([each[3] for each in rows])}
    columns |= {"attrs.v": np.array([each[2] for each in rows], np.int64)}
    found = list(
        asked.feed(DerivedRows(n, columns, {"v": "int"}), Progress(), strings, ClockBound())
    )
    found += asked.operator.finish(10**6)
    net: dict[str, dict[str, Any]] = {}
    for result in found:
        key = repr([(e["type"], e["ref"]) for e in result["events"]])
        if result["op"] == "+":
            assert key not in net
            net[key] = result
        else:
            emitted = net.pop(key)
            same = ("certainty", "probability")
            assert [emitted[name] for name in same] == [result[name] for name in same]
    return [{"key": key, **result} for key, result in net.items()]


@st.composite
def crowds(draw: st.DrawFn) -> list[Row]:
    times = sorted(draw(st.lists(st.integers(0, 14), min_size=2, max_size=8, unique=True)))
    chance = st.sampled_from([1.0, 1.0, 0.25, 0.5, math.nan])
    kind = st.sampled_from("AACCNB")
    return [(time, draw(kind), draw(st.integers(0, 2)), draw(chance)) for time in times]


def check(name: str, rows: list[Row]) -> None:
    """That the answers over ``rows`` are those of all worlds."""
    emitted = {result["key"]: result for result in answers(PATTERNS[name], rows)}
    unsure = [place for place, row in enumerate(rows) if row[3] != 1]
    in_worlds: dict[str, list[bool]] = {}
    chances: dict[str, float] = {}
    worlds = list(itertools.product((True, False), repeat=len(unsure)))
    for number, there in enumerate(worlds):
        gone = {place for place, is_there in zip(unsure, there, strict=True) if not is_there}
        rest = [(*row[:3], 1.0) for place, row in enumerate(rows) if place not in gone]
        weight = math.prod(
            rows[place][3] if is_there else 1 - rows[place][3]
            for place, is_there in zip(unsure, there, strict=True)
        )
        for result in answers(PATTERNS[name], rest):
            in_worlds.setdefault(result["key"], [False] * len(worlds))[number] = True
            chances[result["key"]] = chances.get(result["key"], 0.0) + weight
    assert emitted.keys() == in_worlds.keys()
    known = not any(math.isnan(row[3]) for row in rows)
    for key, result in emitted.items():
        sure = all(in_worlds[key])
        assert result["certainty"] == ("confirmed" if sure else "uncertain"), key
        if sure:
            assert result["probability"] == 1
        elif known:
            assert result["probability"] == pytest.approx(chances[key])


@pytest.mark.parametrize("name", PATTERNS)
@given(rows=crowds())
@example([(0, "A", 0, 1.0), (1, "A", 0, 0.25), (2, "C", 0, 1.0)])
@settings(max_examples=4)
def test_matches_are_those_of_all_worlds(name: str, rows: list[Row]) -> None:
    check(name, rows)


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PATTERNS)
@given(rows=crowds())
@settings(max_examples=200, deadline=None)
def test_matches_are_those_of_very_many_worlds(name: str, rows: list[Row]) -> None:
    check(name, rows)
