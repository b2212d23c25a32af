"""Which barrier has which of L09's five properties, on random traces: docs/reference/barrier.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import correctness as c
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lifetimes import Event, Life, PatternSpec, Record, lives

from tests.pattern.chain_lines import answered, event, pog, sync

WITHIN = 12
QUERIES = [
    PatternSpec(("A", "!C", "B"), WITHIN),
    PatternSpec(("!C", "A", "B"), WITHIN),
    PatternSpec(("A", "B", "!C"), WITHIN),
    PatternSpec(("A", "!C", "B", "!D"), WITHIN),
    PatternSpec(("A", "B"), WITHIN),
    PatternSpec(("!D", "A", "!C", "B"), WITHIN, equal=False),
]
ORDERED, IN_TIME, FOR_GOOD, VALID, COMPLETE, COMPLETE_AT_ONCE = (
    "ordered", "in time", "permanently valid", "eventually valid", "complete", "complete at once"
)  # fmt: skip
LATE = 8
"""As the traces' DELAY: K, and H with the WITHIN (a trailing scope ends that much later)."""
LEVELS = {
    "immediate": {IN_TIME, VALID, COMPLETE, COMPLETE_AT_ONCE},
    "immediate,ordered": {ORDERED, VALID, COMPLETE},
    "punctuation": {FOR_GOOD, VALID, COMPLETE},
    "punctuation,ordered": {ORDERED, FOR_GOOD, VALID, COMPLETE},
    f"bounded:{LATE}": {FOR_GOOD, VALID, COMPLETE},
    f"bounded:{LATE},ordered": {ORDERED, FOR_GOOD, VALID, COMPLETE},
    f"hold:{LATE + WITHIN}": {FOR_GOOD, VALID, COMPLETE},
    f"hold:{LATE + WITHIN},ordered": {ORDERED, FOR_GOOD, VALID, COMPLETE},
    "hold:3": {VALID, COMPLETE},
    "hold:3,ordered": {ORDERED, VALID, COMPLETE},
    "adaptive": {VALID, COMPLETE},
    "adaptive,ordered": {ORDERED, VALID, COMPLETE},
}
"""What each barrier must have while promises are kept, nothing is later than K, or than H."""


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("levels")


def size_of(asked: PatternSpec, *, dense: bool) -> tuple[int, str, float, float]:
    """Events, their types, shares that are followed by a promise and that are late.

    ``dense``: so many matches are spoilt that ``adaptive`` begins to wait.
    """
    return (70, asked.types, 0.9, 0.8) if dense else (30, asked.types, 0.3, 0.4)


def events_of(records: list[Record]) -> list[Event]:
    return [record.event for record in records if record.event is not None]


def against(level: str, outcome: Any, made: list[Life], arrivals: list[int]) -> list[Any]:
    """What speaks against a property."""
    given_ = outcome.given
    return {
        ORDERED: lambda: c.out_of_order(given_, made),
        IN_TIME: lambda: c.not_in_time(given_, made, arrivals),
        FOR_GOOD: lambda: c.not_for_good(given_, made),
        VALID: lambda: c.not_valid_yet(given_, made, arrivals),
        COMPLETE: lambda: c.incomplete(given_, made, arrivals, at_once=False),
        COMPLETE_AT_ONCE: lambda: c.incomplete(given_, made, arrivals, at_once=True),
    }[level]()


FIRST_PROMISES = {"dense": True, "asked": QUERIES[0], "cuts": []}
"""Here one source's first promise came before the others had shown themselves (generator)."""


@pytest.mark.parametrize("barrier", LEVELS)
@example(seed=385, **FIRST_PROMISES)
@example(seed=612410, **FIRST_PROMISES)
@settings(max_examples=8)
@given(
    seed=st.integers(0, 10**6), dense=st.booleans(), asked=st.sampled_from(QUERIES),
    cuts=st.lists(st.integers(1, 60), max_size=3),
)  # fmt: skip
def test_every_barrier_has_its_properties(
    barrier: str,
    seed: int,
    dense: bool,
    asked: PatternSpec,
    cuts: list[int],
    tools: Any,
    folder: Path,
) -> None:
    records = tools.random_trace(seed, *size_of(asked, dense=dense))
    events = events_of(records)
    made, arrivals = lives(events, asked), [event.arrival for event in events]
    outcome = tools.answered(folder, records, asked, barrier, cuts)
    assert outcome.counters.get("promises_broken", 0) == 0
    for level in sorted(LEVELS[barrier]):
        assert against(level, outcome, made, arrivals) == [], f"{level}, seed {seed}"


LACKS = [
    (barrier, level) for barrier, has in LEVELS.items()
    for level in (ORDERED, IN_TIME, FOR_GOOD, COMPLETE_AT_ONCE) if level not in has
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("barrier", "level"), LACKS)
def test_what_a_barrier_does_not_promise_it_does_not_always_have(
    barrier: str, level: str, tools: Any, folder: Path
) -> None:
    """Otherwise the table says too little, or the checker sees nothing."""
    for seed in range(120):
        asked = QUERIES[seed // 2 % len(QUERIES)]
        records = tools.random_trace(seed, *size_of(asked, dense=seed % 2 == 0))
        events = events_of(records)
        outcome = tools.answered(folder, records, asked, barrier)
        if against(level, outcome, lives(events, asked), [event.arrival for event in events]):
            return
    pytest.fail("it always does")


# ---- the checkers themselves ------------------------------------------------------------------
A1, B5 = Life((0, 1), 1, None, 5, ()), Life((0, 2), 2, None, 7, ())
SPOILT = Life((0, 3), 3, 4, 9, ())
ARRIVALS = [10, 11, 12, 13, 14]
MADE = [A1, B5, SPOILT]
RIGHT = [("+", (0, 1), 11), ("+", (0, 2), 12), ("+", (0, 3), 13), ("-", (0, 3), 14)]


def test_the_checkers_find_nothing_in_what_is_right() -> None:
    assert c.out_of_order(RIGHT, MADE) == c.not_in_time(RIGHT, MADE, ARRIVALS) == []
    assert c.not_valid_yet(RIGHT, MADE, ARRIVALS) == []
    assert c.incomplete(RIGHT, MADE, ARRIVALS, at_once=True) == []
    assert c.not_for_good(RIGHT[:2], MADE) == []


def test_the_checkers_find_what_is_wrong() -> None:
    assert c.out_of_order([RIGHT[1], RIGHT[0]], MADE) == [(0, 1)]
    assert c.not_in_time([("+", (0, 1), 12), *RIGHT[1:]], MADE, ARRIVALS) == [("+", (0, 1), 11)]
    assert c.not_for_good(RIGHT, MADE) == RIGHT[2:]
    assert c.not_valid_yet(RIGHT[:3], MADE, ARRIVALS) == [(14, (0, 3))]
    assert c.not_valid_yet([("+", (0, 1), 10)], MADE, ARRIVALS) == [(10, (0, 1))]
    assert c.incomplete(RIGHT[1:], MADE, ARRIVALS, at_once=False) == [(14, (0, 1))]
    late = [("+", (0, 1), 12), *RIGHT[1:]]
    assert c.incomplete(late, MADE, ARRIVALS, at_once=True) == [(11, (0, 1))]
    assert c.incomplete(late, MADE, ARRIVALS, at_once=False) == []


def test_a_match_is_held_through_all_records_of_its_last_instant(folder: Path, tools: Any) -> None:
    """Whether they come in one batch or in two."""
    made = [("A", 1, 1, 0), ("B", 5, 5, 0), ("A", 6, 8, 1), ("C", 3, 8, 0)]
    records = [
        Record("event", arrival, "x", number, Event("x", kind, ts, arrival, id_))
        for number, (kind, ts, arrival, id_) in enumerate(made)
    ]
    for cuts in [[], [3]]:
        outcome = tools.answered(folder, records, PatternSpec(("A", "!C", "B"), 10), "hold:3", cuts)
        assert outcome.given == []
        assert outcome.counters["matches_dropped"] == 1


@pytest.mark.parametrize("barrier", ["bounded:0", "punctuation"])
@pytest.mark.parametrize("unc", [1, 2, 50])
@pytest.mark.parametrize("beyond", [0, 1])
def test_a_match_leaves_when_no_clock_error_can_bring_a_negated_event_into_it(
    folder: Path, barrier: str, unc: int, beyond: int
) -> None:
    """N two errors behind B may lie before it: ranges that touch leave the order open."""
    ts = 100 + 2 * unc + beyond
    lines = [
        sync("s1", unc, skew_error_ppb=0), sync("s2", unc, skew_error_ppb=0), pog("N", 0, "s2", 0),
        event("A", 1, "s1"), event("B", 100, "s1"),
        pog("N", ts, "s2", 200), event("F", ts, "s1", 200), event("N", ts, "s2", 300),
        pog("N", 999, "s2", 400), event("F", 999, "s1", 400),
    ]  # fmt: skip
    found, _ = answered(folder, "EVENT SEQ(A a, !N n, B b) WITHIN 500", lines, barrier)
    assert found == [f"+1,100 {'confirmed @200' if beyond else 'uncertain @400'}"]
