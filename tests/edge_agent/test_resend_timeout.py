"""The wait for acks: RFC 6298 in integers, against the formulas in floating point."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.resend_timeout import ResendTimeout

MS = 10**6
S = 10**9


@given(st.lists(st.integers(0, 100 * S), min_size=1, max_size=60))
def test_samples_give_what_the_formulas_give(samples: list[int]) -> None:
    timeout = ResendTimeout(1, 1000 * S)
    assert timeout.ns == 1000 * S
    mean, deviation = float(samples[0]), samples[0] / 2
    for place, sample in enumerate(samples):
        timeout.sample(sample)
        if place:
            deviation = 0.75 * deviation + 0.25 * abs(mean - sample)
            mean = 0.875 * mean + 0.125 * sample
        # Each division drops less than 1 ns, and the gains let an error fade.
        assert abs(timeout.ns - max(mean + 4 * deviation, 1)) <= 8 + 4 * (4 + 8) + 1


def test_the_wait_stays_within_its_bounds() -> None:
    timeout = ResendTimeout(S, 30 * S)
    timeout.sample(MS)
    assert timeout.ns == S
    timeout.sample(100 * S)
    assert timeout.ns == 30 * S


def test_each_timeout_doubles_the_wait_until_a_sample() -> None:
    timeout = ResendTimeout(S, 30 * S)
    timeout.sample(400 * MS)
    waits = []
    for _ in range(6):
        waits.append(timeout.ns)
        timeout.timed_out()
    assert waits == [1200 * MS * 2**n for n in range(5)] + [30 * S]
    timeout.sample(400 * MS)
    assert timeout.ns == 1000 * MS


def test_a_fixed_one_stays() -> None:
    timeout = ResendTimeout(30 * S, 30 * S)
    timeout.timed_out()
    assert not timeout.adaptive
    assert timeout.ns == 30 * S
