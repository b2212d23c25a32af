"""Allan deviation, Marzullo's intersection, Wilson's interval, by answers known otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.apps.validate.quality import agreement, allan_deviation, wander_ppb, wilson

SECOND = 10**9
offsets = st.lists(st.integers(-(10**6), 10**6), min_size=5, max_size=40)


def plain_allan(x: list[float], m: int, tau0: float) -> float:
    """The definition, term by term (NIST SP 1065, Eq 11)."""
    n = len(x)
    total = sum((x[i + 2 * m] - 2 * x[i + m] + x[i]) ** 2 for i in range(n - 2 * m))
    return float((total / (2 * (m * tau0) ** 2 * (n - 2 * m))) ** 0.5)


@given(offsets)
def test_allan_deviation_is_its_definition(x: list[int]) -> None:
    found = allan_deviation(np.array(x, np.float64), SECOND)
    assert [each.tau_ns for each in found] == [
        m * SECOND for m in (1, 2, 4, 8, 16) if 2 * m + 3 <= len(x)
    ]
    for each in found:
        m = each.tau_ns // SECOND
        assert each.ppb == pytest.approx(plain_allan([float(v) for v in x], m, 1.0), abs=1e-9)


@given(offsets, st.integers(-(10**9), 10**9), st.integers(-(10**5), 10**5))
def test_offset_and_skew_are_no_instability(x: list[int], offset: int, skew: int) -> None:
    bent = np.array([value + offset + skew * at for at, value in enumerate(x)], np.float64)
    plain = allan_deviation(np.array(x, np.float64), SECOND)
    assert [each.ppb for each in allan_deviation(bent, SECOND)] == pytest.approx(
        [each.ppb for each in plain], abs=1e-2
    )


def test_the_allan_deviation_of_nist_sp_1065() -> None:
    # NIST SP 1065, table 31: the NBS data set of nine frequencies, averaged over 1 and 2.
    frequencies = [892, 809, 823, 798, 671, 644, 883, 903, 677]
    phase = np.concatenate([[0], np.cumsum(frequencies)]).astype(np.float64)
    found = allan_deviation(phase, SECOND)
    assert found[0].ppb == pytest.approx(91.22945, abs=1e-5)
    assert found[1].ppb == pytest.approx(85.95287, abs=1e-5)


def test_missing_readings_are_left_out() -> None:
    x = np.arange(20.0) ** 2
    x[7] = np.nan
    whole, holed = allan_deviation(np.arange(20.0) ** 2, SECOND), allan_deviation(x, SECOND)
    assert holed[0].triples == whole[0].triples - 3
    assert holed[0].ppb == pytest.approx(whole[0].ppb)


def test_a_random_walk_of_the_frequency_is_seen() -> None:
    generator = np.random.default_rng(1)
    wander = 40.0
    rates = np.cumsum(generator.normal(0, wander, 4096))
    phase = np.concatenate([[0], np.cumsum(rates)])
    assert wander_ppb(allan_deviation(phase, SECOND), SECOND) == pytest.approx(wander, rel=0.6)
    noise = generator.normal(0, 1000, 4096)
    assert wander_ppb(allan_deviation(noise, SECOND), SECOND) < 1


intervals = st.lists(
    st.tuples(st.integers(-20, 20), st.integers(0, 15)).map(lambda each: (each[0], sum(each))),
    min_size=1, max_size=8,
)  # fmt: skip


@given(intervals)
def test_marzullo_finds_the_instant_that_most_intervals_have(each: list[tuple[int, int]]) -> None:
    found = agreement(each)
    counts = {at: sum(low <= at <= high for low, high in each) for at in range(-20, 36)}
    assert found.among == max(counts.values())
    best = [at for at in counts if counts[at] == found.among]
    assert found.low == best[0]
    assert all(counts[at] == found.among for at in range(found.low, found.high + 1))
    assert sum(found.holds(*one) for one in each) == found.among


def test_marzullo_knows_a_falseticker() -> None:
    found = agreement([(0, 10), (2, 12), (4, 8), (100, 101)])
    assert (found.low, found.high, found.among) == (4, 8, 3)
    assert not found.holds(100, 101)


def test_wilson() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(5, 5)[1] == pytest.approx(1.0)
    low, high = wilson(5, 100)
    assert low < 0.05 < high
