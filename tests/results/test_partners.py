"""Which ``+`` each ``-`` takes back, where several alike may stand."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from engine.results.identity import partners

ROWS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40)


def by_hand(rows: list[tuple[int, bool]]) -> list[int]:
    standing = dict[int, list[int]]()
    found = [-1] * len(rows)
    for place, (content, plus) in enumerate(rows):
        if plus:
            standing.setdefault(content, []).append(place)
        elif standing.get(content):
            found[place] = standing[content].pop(0)
    return found


@given(ROWS)
@example([(0, False), (0, True), (0, False)])
@example([(0, True), (0, True), (0, False), (0, False), (0, False), (0, True), (0, False)])
def test_each_takes_the_first_that_stands(rows: list[tuple[int, bool]]) -> None:
    content = np.array([content for content, _ in rows], np.int64)
    plus = np.array([plus for _, plus in rows], np.bool_)
    assert partners(content, plus).tolist() == by_hand(rows)
    two = np.column_stack([content // 2, content % 2])
    assert partners(two, plus).tolist() == by_hand(rows)
