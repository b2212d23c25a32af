"""Nothing gets lost between an order and windows that tumble: each event that is let go is in one
of them, and each number that is known to be lost in one at least.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chain import Chain, ChainSettings
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query import query
from engine.window.settings import parse_window
from tests.order.conftest import frame

SIZE = 10
ORDERS = (
    "none", "kslack:6", "sequence:timeout=fixed:4,late=pass", "sequence:timeout=fixed:40",
)  # fmt: skip


@st.composite
def records(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Of two sources, by number; some never come, and the others come late by some places."""
    found = []
    for source in ("a", "b"):
        ts = 0
        for seq in range(draw(st.integers(1, 14))):
            ts += draw(st.integers(0, 9))
            if seq and not draw(st.integers(0, 3)):
                continue
            late = draw(st.sampled_from((0, 0, 0, 3, 8, 30))) if seq else 0
            event = {"source": source, "seq": seq, "ts": ts, "attrs": {"v": 1}}
            found.append(((ts + late, seq, source), event))
    found.sort(key=lambda one: one[0])
    return [{**event, "arrival": 100 + 2 * at} for at, (_, event) in enumerate(found)]


def passed(asked: str, order: str, given: list[dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
    """What stands at the end, and the chain's counters."""
    chosen = ChainSettings(
        parse_order(order), (query(asked),), guards=Guards(None),
        window=parse_window("horizon=600s"),
    )  # fmt: skip
    chain = Chain(chosen, "main")
    found = list(chain.process([frame(given)]).results[0]) if given else []
    found += list(chain.finish().results[0])
    net: Counter[tuple[Any, ...]] = Counter()
    for each in found:
        content = (
            each["window"]["start"], str(each["key"]), each["value"]["n"], each["missing"],
        )  # fmt: skip
        net[content] += 1 if each["op"] == "+" else -1
    standing = list(net.elements())
    assert len({content[:2] for content in standing}) == len(standing)
    return standing, chain.counters()


@pytest.mark.parametrize("order", ORDERS)
@given(given_=records())
@settings(max_examples=12, deadline=None)
def test_counts_sum_to_what_was_let_go(order: str, given_: list[dict[str, Any]]) -> None:
    for group in ("", "GROUP BY source"):
        text = f"SELECT count(*) AS n {group} WINDOW TUMBLING {SIZE}"
        standing, counters = passed(text, order, given_)
        assert not any(lane["duplicate"] for lane in counters["lanes"])
        # What an order drops for coming late corrects windows nonetheless (SPEC 3.1, 4.4).
        assert sum(n for _, _, n, _ in standing) == len(given_)


@given(given_=records())
@settings(max_examples=20, deadline=None)
def test_missing_sums_to_the_numbers_that_are_lost(given_: list[dict[str, Any]]) -> None:
    """A number lies between its neighbours, so it counts once in each window that reaches there."""
    text = f"SELECT count(*) AS n WINDOW TUMBLING {SIZE}"
    standing, counters = passed(text, "sequence:timeout=fixed:40,late=pass", given_)
    expected, lost = 0, 0
    for source in ("a", "b"):
        times = {each["seq"]: each["ts"] for each in given_ if each["source"] == source}
        for first, following in pairwise(sorted(times)):
            between = following - first - 1
            low, high = times[first], times[following]
            reached = {at // SIZE for at in range(low, high + 1)}  # times may be equal
            lost += between
            expected += between * len(reached)
    assert sum(missing for *_, missing in standing) == expected
    known = sum(lane["missing_total"] - lane["missing_filled"] for lane in counters["lanes"])
    assert known == lost
