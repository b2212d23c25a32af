"""What rows cause, in order: kernels against a sort by tuples."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.pattern.compiled.records import EVENT
from engine.pattern.verdict.arranging import ascends, pack, sort_caused

BRANCHES, EVENTS, STEPS = 2, 5, 3
matches = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.booleans(),
        st.integers(0, BRANCHES - 1),
        st.tuples(*[st.integers(-1, EVENTS - 1)] * STEPS),
    ),
    max_size=60,
)


@settings(max_examples=30, deadline=None)
@given(matches, st.permutations(range(EVENTS)), st.integers(0, STEPS))
def test_matches_are_sorted_within_what_causes_them(
    found: list[tuple[int, bool, int, tuple[int, ...]]], ranks: list[int], packed: int
) -> None:
    found.sort(key=lambda match: match[0])
    n = len(found)
    cause = np.array([match[0] for match in found], np.int64)
    old = np.array([match[1] for match in found], np.bool_)
    branch = np.array([match[2] for match in found], np.int64)
    rows = np.array([match[3] for match in found], np.int64).reshape(n, STEPS)
    rank = np.array([*ranks, -1])

    def by(place: int) -> tuple[object, ...]:
        of = found[place]
        return (of[0], not of[1], of[2], [int(rank[row]) for row in of[3]])

    key, places = np.empty(n, np.int64), np.arange(n)
    pack(old, branch, BRANCHES, rows, rank, 3, packed, key)
    sort_caused(cause, key, packed, rows, rank, places, np.empty_like(places))
    assert [by(place) for place in places.tolist()] == sorted(by(place) for place in range(n))
    events = np.zeros(EVENTS, EVENT)
    events["ref"] = ranks
    if ascends(cause, old, branch, rows[:, 0], events):
        assert places.tolist() == list(range(n))


def test_many_matches_of_one_row_are_merged() -> None:
    n, chance = 300, np.random.default_rng(1)
    rank = np.append(chance.permutation(50), -1)
    rows = chance.integers(0, 50, (n, 2))
    places = np.arange(n)
    sort_caused(
        np.zeros(n, np.int64), np.zeros(n, np.int64), 0, rows, rank, places, np.empty_like(places)
    )
    told = [tuple(rank[row]) for row in rows[places]]
    assert told == sorted(told)
