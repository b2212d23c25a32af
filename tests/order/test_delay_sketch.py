"""The sketch of delays: bins without gaps, quantiles to an eighth, and forgetting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.order.slack.delay_sketch import (
    DELAY_BINS,
    REMEMBERED,
    bin_end,
    bin_of,
    delay_quantile,
    learn_delay,
)


def test_bins_follow_one_another_without_gap_or_overlap() -> None:
    for index in range(DELAY_BINS - 1):
        end = bin_end(index)
        if end >= 2**53:  # a float64 rounds such a delay up to the next bin at most
            break
        assert bin_of(end) == index
        assert bin_of(end + 1) == index + 1
        assert bin_end(index + 1) + 1 <= (end + 1) * 1.125 or end < 8
    assert index > 350


@given(st.integers(0, 2**62))
def test_any_delay_has_a_bin_that_ends_at_most_an_eighth_beyond(delay: int) -> None:
    index = bin_of(delay)
    assert 0 <= index < DELAY_BINS
    if delay < 2**58:
        assert delay * (1 - 2**-50) <= bin_end(index) <= delay * 1.126 + 1


@pytest.mark.parametrize("tail_ppm", [0, 1_000, 50_000, 500_000])
def test_quantiles_are_those_of_numpy_to_an_eighth(tail_ppm: int) -> None:
    delays = np.random.default_rng(1).exponential(1e7, 3000).astype(np.int64)
    bins, total = np.zeros(DELAY_BINS, np.int64), 0
    assert delay_quantile(bins, total, tail_ppm) == 0
    for delay in delays:
        total = learn_delay(bins, total, delay)
    exact = np.quantile(delays, 1 - tail_ppm / 10**6, method="higher")
    assert exact <= delay_quantile(bins, total, tail_ppm) <= 1.126 * exact


def test_it_forgets() -> None:
    bins, total = np.zeros(DELAY_BINS, np.int64), 0
    for _ in range(REMEMBERED):
        total = learn_delay(bins, total, 10**9)
    assert total == REMEMBERED // 2
    count = 0
    while delay_quantile(bins, total, 10_000) >= 10**9:
        total = learn_delay(bins, total, 1000)
        count += 1
    assert REMEMBERED < count < 4 * REMEMBERED
    assert total < REMEMBERED
