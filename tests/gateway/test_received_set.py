"""Received numbers against their twin, a plain set."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from engine.gateway.received import ReceivedSet


class Twin:
    def __init__(self, first: int) -> None:
        self.have = set(range(first))

    @property
    def next(self) -> int:
        return next(n for n in itertools.count() if n not in self.have)

    @property
    def islands(self) -> int:
        beyond = {n for n in self.have if n > self.next}
        return sum(n - 1 not in beyond for n in beyond)

    @property
    def missing(self) -> int:
        return len(set(range(max(self.have, default=0))) - self.have)

    def new(self, first: int, end: int) -> list[int]:
        return [n for n in range(first, end) if n not in self.have]


def compare(first: int, runs: list[tuple[int, int]]) -> None:
    real, twin = ReceivedSet(first), Twin(first)
    for start, end in runs:
        parts = real.new_parts(start, end)
        assert [n for a, b in parts for n in range(a, b)] == twin.new(start, end)
        assert all(a < b for a, b in parts)
        before = real.islands
        grows = real.makes_island(start, end)
        real.add(start, end)
        twin.have |= set(range(start, end))
        assert (real.next, real.islands) == (twin.next, twin.islands)
        assert real.missing == twin.missing
        assert grows == (real.islands > before)


def test_every_order_of_five_messages() -> None:
    runs = [(0, 2), (2, 3), (3, 6), (6, 7), (7, 9)]
    for order in itertools.permutations(runs):
        compare(0, list(order))


RUNS = st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda t: (t[0], t[0] + t[1]))


@given(st.integers(0, 5), st.lists(RUNS, max_size=25))
def test_any_runs(first: int, runs: list[tuple[int, int]]) -> None:
    compare(first, runs)


def test_giving_up_the_first_gap() -> None:
    numbers = ReceivedSet(2)
    numbers.add(5, 7)
    numbers.add(9, 10)
    assert numbers.give_up_first_gap() == 3
    assert (numbers.next, numbers.islands) == (7, 1)
    assert numbers.new_parts(0, 12) == [(7, 9), (10, 12)]
