"""The search for gaps against a look at each of them."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.stream.released import Gaps
from engine.window.doubt.gap_table import (
    COLUMNS,
    GapTable,
    become_known,
    missing_between,
    searchable,
    take_off,
)
from engine.window.doubt.missing import Missing
from engine.window.drift import Geometry

SMALL = st.integers(0, 6)
GAP = st.tuples(st.integers(0, 1), st.integers(0, 1), SMALL, st.integers(1, 4), SMALL, SMALL)
"""source, stream, first number, events, first, last (which may be before it)."""
QUESTION = st.one_of(
    st.tuples(st.just("fill"), st.integers(0, 1), st.integers(0, 1), st.integers(0, 10)),
    st.tuples(st.just("between"), SMALL, SMALL),
    st.tuples(st.just("know")),
)


def table(gaps: list[tuple[int, ...]], known: int) -> GapTable:
    rows = [(s, t, seq, n, last, first, last, n) for s, t, seq, n, first, last in gaps]
    columns = np.array(rows, np.int64).reshape(-1, len(COLUMNS)).T
    return searchable([column.copy() for column in columns], known)


def filled(gaps: GapTable, known: int, event: tuple[int, int, int]) -> int:
    source, stream, seq = event
    for j in range(known - 1, -1, -1):
        mine = gaps.source[j] == source and gaps.stream[j] == stream
        if mine and 0 <= seq - gaps.first_seq[j] < gaps.events[j] and gaps.left[j] > 0:
            return j
    return -1


def between(gaps: GapTable, known: int, start: int, end: int) -> int:
    there = (gaps.first[:known] < end) & (gaps.last[:known] > start)
    return int(gaps.left[:known][there].sum())


@given(st.lists(GAP, max_size=12), st.integers(0, 12), st.lists(QUESTION, max_size=30))
@example([(0, 0, 0, 4, 1, 5), (0, 0, 1, 1, 3, 3), (0, 0, 2, 1, 5, 2)], 3,
         [("between", 3, 3), ("fill", 0, 0, 1), ("fill", 0, 0, 2), ("fill", 0, 0, 2),
          ("between", 2, 4), ("between", 3, 3)])  # fmt: skip
@settings(max_examples=75, deadline=None)
def test_a_search_finds_what_a_look_at_every_gap_does(
    made: list[tuple[int, ...]], known: int, questions: list[tuple[object, ...]]
) -> None:
    known = min(known, len(made))
    gaps = table(made, known)
    for what, *of in questions:
        numbers = [int(str(each)) for each in of]
        if what == "know" and known < len(made):
            become_known(gaps, known)
            known += 1
        elif what == "fill":
            source, stream, seq = numbers
            wanted, left = filled(gaps, known, (source, stream, seq)), gaps.left.copy()
            assert take_off(gaps, known, (source, stream, seq)) == wanted
            if wanted >= 0:
                left[wanted] -= 1
            assert (gaps.left == left).all()
        elif what == "between":
            start, end = sorted(numbers)
            assert missing_between(gaps, known, start, end) == between(gaps, known, start, end)


def test_many_losses_are_found_and_added_up() -> None:
    """Of three sources with many gaps each, that become known in several batches."""
    rng = np.random.default_rng(1)
    missing, n = Missing(), 400
    times = Geometry(1, 0, 0, 0, 1)
    for batch in range(3):
        low = np.sort(rng.integers(0, 10_000, n)) + 10_000 * batch
        known = len(missing.table.left)
        gaps = Gaps(
            np.zeros(n, int), rng.integers(0, 3, n), np.zeros(n, int),
            10 * (np.arange(n) + n * batch), rng.integers(1, 10, n), low,
            low + rng.integers(0, 50, n), np.zeros(n, int),
        )  # fmt: skip
        missing.take(gaps, times)
        for j in range(known, known + n):
            become_known(missing.table, j)
        known += n
        for _ in range(200):
            event = (int(rng.integers(0, 3)), 0, int(rng.integers(0, 10 * known)))
            wanted = filled(missing.table, known, event)
            assert take_off(missing.table, known, event) == wanted
            start, end = np.sort(rng.integers(0, 10_000 * (batch + 1), 2)).tolist()
            told = missing_between(missing.table, known, start, end)
            assert told == between(missing.table, known, start, end)
        missing.forget(10_000 * batch)
        missing.merge(10_000 * batch + 5_000, 50)
        restored = Missing()
        restored.restore(missing.snapshot())
        assert all((a == b).all() for a, b in zip(restored.table, missing.table, strict=True))
