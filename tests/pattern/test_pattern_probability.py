"""Probabilities of uncertain matches, against closed forms and plain enumeration."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.operators.match.certainty.probability import (
    POINTS,
    pair_probability,
    sampled_probability,
)
from slackwater.engine.operators.match.compiler.records import RELATION
from slackwater.engine.operators.match.compiler.relations import soon_after, starts_before
from slackwater.engine.operators.match.seq import SeqMatcher
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import SeqPlan, Step


def pair(diff: int, one: int, two: int, within: int | None = None) -> float:
    found = pair_probability(np.array([diff]), np.array([one]), np.array([two]), within)
    return float(found[0])


def by_grid(diff: int, one: int, two: int, within: int | None, cells: int = 60) -> Fraction:
    """Both errors on a grid of cell midpoints, twice as fine for one than for the other."""
    hits = 0
    first = [Fraction(2 * i + 1 - cells, cells) * one for i in range(cells)]
    second = [Fraction(2 * j + 1 - 2 * cells, 2 * cells) * two for j in range(2 * cells)]
    for e, f in itertools.product(first, second):
        true = diff + f - e
        hits += true > 0 and (within is None or true <= within)
    return Fraction(hits, len(first) * len(second))


def test_equal_uncertainties_give_the_triangle() -> None:
    # P(second - first > -diff) for two errors uniform in +-1: 1 - (2 - diff)^2 / 8.
    assert pair(0, 10, 10) == 0.5
    assert pair(10, 10, 10) == pytest.approx(1 - 1 / 8)
    assert pair(-10, 10, 10) == pytest.approx(1 / 8)
    assert (pair(20, 10, 10), pair(-20, 10, 10)) == (1.0, 0.0)


def test_one_exact_clock_gives_a_line() -> None:
    assert [pair(diff, 0, 10) for diff in (-10, -5, 0, 5, 10)] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert [pair(diff, 10, 0) for diff in (-10, -5, 0, 5, 10)] == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_within_cuts_the_other_side() -> None:
    assert pair(100, 10, 10, within=100) == 0.5
    assert pair(110, 10, 10, within=100) == pytest.approx(1 / 8)
    assert pair(5, 10, 10, within=5) == pytest.approx(pair(5, 10, 10) - 0.5)


@given(st.integers(-40, 40), st.integers(0, 20), st.integers(0, 20),
       st.none() | st.integers(0, 30))  # fmt: skip
def test_pair_equals_a_fine_grid(diff: int, one: int, two: int, within: int | None) -> None:
    if one == two == 0:
        return  # such a pair is never uncertain
    assert pair(diff, one, two, within) == pytest.approx(float(by_grid(diff, one, two, within)),
                                                         abs=0.03)  # fmt: skip


def test_far_apart_uncertainties_keep_their_precision() -> None:
    hour = 3600 * 10**9
    assert pair(0, 1, hour) == 0.5
    assert pair(hour // 2, 1, hour) == pytest.approx(0.75, abs=1e-12)


def in_a_row(steps: int, within: int | None) -> np.ndarray:
    """SEQ: each before each later one, and the last not long after the first."""
    found = [starts_before(x, y) for y in range(steps) for x in range(y)]
    if within is not None:
        found.append(soon_after(0, steps - 1, within, ends=True))
    return np.array(found, RELATION)


def sampled(refs: list[int], unc: list[int], clock: list[int], within: int | None = None) -> float:
    found = sampled_probability(
        np.array([refs]),
        np.array([unc], np.float64),
        np.array([clock]),
        in_a_row(len(refs), within),
        np.zeros((1, len(refs)), np.int64),
    )
    return float(found[0])


def test_three_equal_times_have_one_order_of_six() -> None:
    assert sampled([0, 0, 0], [9, 9, 9], [0, 1, 2]) == pytest.approx(1 / 6, abs=0.02)
    assert sampled([0, 0, 0, 0], [9] * 4, [0, 1, 2, 3]) == pytest.approx(1 / 24, abs=0.02)


def test_sampling_agrees_with_the_exact_pair() -> None:
    for diff, one, two in itertools.product((-6, 0, 4, 11), (2, 9), (5, 8)):
        # The third event follows for certain.
        found = sampled([0, diff, 1000], [one, two, 0], [0, 1, 2])
        assert found == pytest.approx(pair(diff, one, two), abs=0.01)


def test_shared_clock_moves_both_events_together() -> None:
    # x and z share their error; y (exact) lies between them half a width away on both sides:
    # true unless the shared error exceeds 5 of 10 either way.
    assert sampled([0, 5, 10], [10, 0, 10], [0, 1, 0]) == pytest.approx(0.5, abs=0.01)
    # With errors of their own: P(x < 5) * P(z > 5) = 0.75 * 0.75.
    assert sampled([0, 5, 10], [10, 0, 10], [0, 1, 2]) == pytest.approx(0.5625, abs=0.01)
    # WITHIN between events of one clock is exact.
    assert sampled([0, 5, 10], [10, 0, 10], [0, 1, 0], 10) == pytest.approx(0.5, abs=0.01)


def test_sampling_is_deterministic_with_its_stated_resolution() -> None:
    once = sampled([0, 1, 3], [4, 4, 4], [0, 1, 2], 5)
    assert once == sampled([0, 1, 3], [4, 4, 4], [0, 1, 2], 5)
    assert once * POINTS == int(once * POINTS)


def test_matches_carry_these_probabilities(tools: Any) -> None:
    two = SeqPlan("q", "", (Step("a", "A"), Step("b", "B")))
    three = SeqPlan("q", "", (Step("a", "A"), Step("b", "B"), Step("c", "C")))

    def one(plan: SeqPlan, events: list[Any], rule: str = "pairwise", t_a: int = 0) -> float:
        make = lambda: SeqMatcher(plan, PatternSettings(rule))  # noqa: E731
        (result,) = tools.run(make, events, t_a=t_a)
        return float(result["probability"])

    a, b = tools.Event("A", 0, 10, "x"), tools.Event("B", 10, 10, "y")
    assert one(two, [a, b]) == pytest.approx(7 / 8)
    assert one(two, [a, b], "max-delay-r19", 40) == pytest.approx(1 - 30**2 / (8 * 20**2))
    shared = [
        tools.Event("A", 0, 10, "x", epoch=1), tools.Event("B", 5, 0, "y"),
        tools.Event("C", 10, 10, "x", epoch=1),
    ]  # fmt: skip
    assert one(three, shared) == pytest.approx(0.5, abs=0.01)
    apart = [tools.replace(event, epoch=-1) for event in shared]
    assert one(three, apart) == pytest.approx(0.5625, abs=0.01)
