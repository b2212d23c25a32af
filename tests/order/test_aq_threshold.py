"""The error model of ``aq-kslack``: its formulas at known points, and what sampling really does."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from engine.kernels.jit import kernel
from engine.order.slack.aq_threshold import (
    AVG,
    COUNT,
    MOMENTS,
    PPB,
    SUM,
    coverage_threshold,
    normal_quantile_ppm,
    spread,
)

Z95 = normal_quantile_ppm(950_000, COUNT)
Z95_BOTH = normal_quantile_ppm(950_000, AVG)


def of_values(aggregate: int, error: float, z_ppm: int, values: np.ndarray) -> float:
    total, squares = float(values.sum()), float((values * values).sum())
    return (
        coverage_threshold(aggregate, round(error * 10**6), z_ppm, 1.0, len(values), total, squares)
        / PPB
    )


def test_quantiles_of_the_normal_distribution() -> None:
    assert (Z95, Z95_BOTH) == (1_644_854, 1_959_964)
    assert normal_quantile_ppm(500_000, COUNT) == 0
    assert normal_quantile_ppm(950_000, SUM) == Z95_BOTH


@pytest.mark.parametrize("error_ppm", [1, 10_000, 50_000, 200_000, 999_999])
def test_a_count_needs_one_less_the_error_without_chance_and_in_the_limit(error_ppm: int) -> None:
    exact = PPB - error_ppm * 1000
    assert coverage_threshold(COUNT, error_ppm, 0, 1.0, 7, 0.0, 0.0) == pytest.approx(exact, abs=1)
    for n in (1, 100, 10**6):
        assert coverage_threshold(COUNT, error_ppm, Z95, 1.0, n, 0.0, 0.0) > exact - 2
    huge = coverage_threshold(COUNT, error_ppm, Z95, 1.0, 10**15, 0.0, 0.0)
    assert huge == pytest.approx(exact, abs=2_000)


def test_the_loss_of_a_sum_solves_its_equation() -> None:
    for error, n, cv, dispersion in itertools.product((0.01, 0.2), (5, 500), (0, 1.5), (1, 9)):
        values = (float(n), n * (1.0 + cv * cv))  # of mean 1
        share = coverage_threshold(SUM, round(error * 1e6), Z95, dispersion, n, *values) / PPB
        a = Z95 / 1e6 * math.sqrt(dispersion * (1 + cv * cv) / n)
        loss = 1 - share
        assert loss + a * math.sqrt(loss * share) == pytest.approx(error, abs=1e-6)


def test_the_coverage_of_a_mean_solves_its_equation() -> None:
    for error, n, cv in itertools.product((0.01, 0.1), (50, 5000), (0.5, 2.0)):
        share = (
            coverage_threshold(
                AVG, round(error * 1e6), Z95_BOTH, 1.0, n, float(n), n * (1.0 + cv * cv)
            )
            / PPB
        )
        if share > 30 / n + 1e-8:
            z = Z95_BOTH / 1e6
            assert z * cv * math.sqrt((1 - share) / (share * n)) == pytest.approx(error, rel=1e-5)


def test_a_mean_of_few_values_needs_them_all_and_of_equal_ones_thirty() -> None:
    assert of_values(AVG, 0.1, Z95_BOTH, np.full(30, 7.0)) == 1
    assert of_values(AVG, 0.1, Z95_BOTH, np.full(300, 7.0)) == pytest.approx(0.1, abs=1e-9)


@pytest.mark.parametrize("aggregate", [SUM, AVG])
@pytest.mark.parametrize("values", [[1.0, -1.0] * 50, [0.0] * 100, [1e200] * 100])
def test_where_no_relative_error_can_be_told_nothing_may_be_missing(
    aggregate: int, values: list[float]
) -> None:
    with np.errstate(over="ignore"):
        assert of_values(aggregate, 0.1, Z95_BOTH, np.array(values)) == 1


@pytest.mark.parametrize("n", [60, 1000])
@pytest.mark.parametrize("error", [0.05, 0.2])
@pytest.mark.parametrize("aggregate", [COUNT, SUM, AVG])
def test_samples_at_the_threshold_err_as_seldom_as_asked(
    aggregate: int, error: float, n: int
) -> None:
    """And samples with half as much again missing (for a mean: half the coverage) do not."""
    rng = np.random.default_rng(n)
    values = np.ones(n) if aggregate == COUNT else rng.gamma(2.0, 10.0, n)
    z = Z95 if aggregate == COUNT else Z95_BOTH
    share = of_values(aggregate, error, z, values)

    def kept(share: float) -> float:
        there = rng.random((4000, n)) < share
        if aggregate == AVG:
            results = (there * values).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
            exact = values.mean()
        else:
            results, exact = (there * values).sum(axis=1), values.sum()
        return float((abs(results / exact - 1) <= error + 1e-12).mean())

    assert kept(share) >= 0.93
    assert kept(share / 2 if aggregate == AVG else 1 - 1.5 * (1 - share)) < 0.93


def test_spread_is_one_for_independent_losses_and_tells_of_those_in_bursts() -> None:
    rng = np.random.default_rng(5)
    moments = np.zeros(1, MOMENTS)
    independent = [_spread(moments, 500, int(rng.binomial(500, 0.05))) for _ in range(600)]
    assert independent[0] >= 1
    assert 1 <= np.mean(independent[200:]) < 1.4
    bursts = [_spread(moments, 500, 10 * int(rng.binomial(50, 0.05))) for _ in range(600)]
    assert 7 < np.mean(bursts[200:]) < 14
    none = [_spread(moments, 500, 0) for _ in range(3000)]
    assert none[-1] >= 1
    assert _spread(np.zeros(1, MOMENTS), 10, 0) == 1


@kernel
def _spread(moments: np.ndarray, n: int, missing: int) -> float:
    return spread(moments[0], n, missing)
