"""When an agent promises of its own accord, and how long it waits for acks."""

from __future__ import annotations

import struct
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.messages import NAMES_MAX, Texts
from slackwater.edge_agent.settings import PromiseRule, PromiseSettings
from slackwater.edge_agent.unacked import ResendTimeout

NAMES = ["A", "B", "C"]


def texts(codes: list[int]) -> Texts:
    return Texts(NAMES, struct.pack(f"<{len(codes)}i", *codes))


def test_nothing_is_promised_by_default() -> None:
    assert not any(PromiseRule(PromiseSettings()).due(100, None) for _ in range(100))


@pytest.mark.parametrize("share", [0.1, 0.2, 0.25, 0.3, 0.4, 1.0])
def test_events_one_by_one_get_their_share_of_promises(share: float) -> None:
    rule = PromiseRule(PromiseSettings(share=share, phase=0.5))
    promises = sum(len(rule.due(1, None)) for _ in range(1000))
    assert abs(promises - 1000 * share) <= 1


def test_a_message_is_followed_by_one_promise_at_most() -> None:
    rule = PromiseRule(PromiseSettings(share=0.5))
    assert [rule.due(rows, None) for rows in (9, 1, 1)] == [[None], [None], []]


def test_the_phase_moves_the_first_promise() -> None:
    early, late = (PromiseRule(PromiseSettings(share=0.25, phase=phase)) for phase in (0.75, 0))
    assert [bool(early.due(1, None)) for _ in range(5)] == [True, False, False, False, True]
    assert [bool(late.due(1, None)) for _ in range(5)] == [False, False, False, True, False]


@settings(max_examples=25, deadline=None)
@given(
    messages=st.lists(st.lists(st.integers(-1, 2), min_size=1, max_size=9), max_size=30),
    every=st.sampled_from([1, 2, 4, 8]),
)
def test_each_type_is_promised_by_its_own_count(messages: list[list[int]], every: int) -> None:
    rule = PromiseRule(PromiseSettings(share=1 / every, by_type=True))
    seen: Counter[int] = Counter()
    for codes in messages:
        before = seen.copy()
        seen.update(codes)
        due = {code for code in set(codes) if seen[code] // every > before[code] // every}
        # Without a type one can only promise for all, and that covers the others.
        expected = [None] if -1 in due else [NAMES[code] for code in sorted(due)]
        assert rule.due(len(codes), texts(codes)) == expected


def test_one_type_for_a_whole_message() -> None:
    rule = PromiseRule(PromiseSettings(share=0.5, by_type=True))
    assert rule.due(2, Texts(["EXIT"], None)) == ["EXIT"]
    assert rule.due(2, None) == [None]


def test_types_without_end_take_no_memory_without_end() -> None:
    rule = PromiseRule(PromiseSettings(share=1.0, by_type=True))
    said = [rule.due(1, Texts([f"T{n}"], None)) for n in range(NAMES_MAX + 5)]
    assert said[NAMES_MAX - 1 :] == [[f"T{NAMES_MAX - 1}"], *[[None]] * 5]


@pytest.mark.parametrize("wrong", [{"share": -0.1}, {"share": 1.1}, {"phase": 1.0}])
def test_settings_out_of_range(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=min(wrong)):
        PromiseSettings(**wrong)  # type: ignore[arg-type]


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
