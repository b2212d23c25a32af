"""``adaptive`` and ``punctuation`` against a simulation that goes record by record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifetimes import PatternSpec, Record, lives
from slow_barrier import SlowBarrier
from slow_book import SlowBook

QUERIES = [
    PatternSpec(("A", "!C", "B"), 12),
    PatternSpec(("A", "B", "!C"), 9),
    PatternSpec(("!D", "A", "!C", "B"), 20),
    PatternSpec(("A", "!C", "B"), 25, equal=False),
]


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("twin")


def simulated(records: list[Record], asked: PatternSpec, *, adapts: bool) -> SlowBarrier:
    events = [record.event for record in records if record.event is not None]
    slow = SlowBarrier(lives(events, asked), SlowBook(frozenset(asked.types)), adapts)
    slow.run(records)
    return slow


@pytest.mark.parametrize("barrier", ["punctuation", "adaptive"])
@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    asked=st.sampled_from(QUERIES),
    late=st.sampled_from([0.1, 0.5, 0.9]),
    cuts=st.lists(st.integers(1, 150), max_size=4),
)
def test_against_the_simulation(
    barrier: str,
    seed: int,
    asked: PatternSpec,
    late: float,
    cuts: list[int],
    tools: Any,
    folder: Path,
) -> None:
    records = tools.random_trace(seed, 90, asked.types, 0.6, late, numbered=False)
    outcome = tools.answered(folder, records, asked, barrier, cuts)
    slow = simulated(records, asked, adapts=barrier == "adaptive")
    assert sorted(outcome.given) == sorted(slow.given), f"seed {seed}"


def test_the_traces_make_it_wait_and_stop_waiting(tools: Any, folder: Path) -> None:
    asked, calm, wild = QUERIES[3], 0, 0
    for seed in range(3):
        records = tools.random_trace(seed, 200, "AAABBBC", 0.6, 0.5, numbered=False)
        slow = simulated(records, asked, adapts=True)
        given_ = tools.answered(folder, records, asked, "adaptive").given
        assert sorted(given_) == sorted(slow.given), f"seed {seed}"
        wild += slow.switched > 0
        calm += slow.switched > 1
    assert wild == 3 > calm > 0
