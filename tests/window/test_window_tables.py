"""The tables of windows: gaps against a look at each of them, cells against a plain dict."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.stream.released import Gaps
from engine.window.settings import PART_BITS, Geometry
from engine.window.state.cells import (
    HEADER,
    Cells,
    add_to_window,
    find,
    find_or_add,
    free_window,
    grown,
    new_cells,
)
from engine.window.uncertainty.missing import (
    COLUMNS,
    GapTable,
    Missing,
    become_known,
    missing_between,
    searchable,
    take_off,
)

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
@settings(max_examples=40)
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


# ---- cells
NO_KEY = np.zeros((1, 2), np.int64)


def add(cells: Cells, window: int, tag: int, key: tuple[int, int]) -> int:
    header = find_or_add(cells, window, HEADER, NO_KEY, 0)
    return add_to_window(cells, header, tag, np.array([key]), 0)


def in_key(cells: Cells, leader: int) -> list[int]:
    """The cells that ``leader`` leads, by following its chain."""
    found = []
    cell = leader
    while cell != -1:
        assert cells.lead[cell] == leader
        found.append(int(cell))
        cell = cells.down[cell]
    return found


KEY = st.tuples(st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1]), st.integers(0, 3))
ACTION = st.one_of(
    st.tuples(st.just("add"), st.integers(-3, 3), st.integers(0, 2) | st.integers(32, 34), KEY),
    st.tuples(st.just("free"), st.integers(-3, 3)),
)


@given(st.lists(ACTION, max_size=80))
@settings(max_examples=30)
def test_equals_a_dict(actions: list[tuple]) -> None:
    cells = new_cells(4, 2)
    known: dict[int, dict[tuple, int]] = {}
    for name, window, *rest in actions:
        if name == "add":
            while cells.tally["live"][0] > len(cells.window) - 2:
                cells = grown(cells)
            cell = add(cells, window, *rest)
            assert known.setdefault(window, {}).setdefault(tuple(rest), cell) == cell
        elif window in known:
            free_window(cells, find(cells, window, HEADER, NO_KEY, 0))
            del known[window]
        live = [cell for of in known.values() for cell in of.values()]
        assert len(set(live)) == len(live) == cells.tally["live"][0] - len(known)
        assert cells.tally["headers"][0] == len(known)
        for one, of in known.items():
            header = find(cells, one, HEADER, NO_KEY, 0)
            by_key: dict[tuple, set[int]] = {}
            for (tag, key), cell in of.items():
                by_key.setdefault((tag >> PART_BITS, key), set()).add(cell)
            found = [in_key(cells, leader) for leader in linked(cells.link, header)]
            assert sorted(map(sorted, found)) == sorted(map(sorted, by_key.values()))
            for (tag, key), cell in of.items():
                assert find(cells, one, tag, np.array([key]), 0) == cell
                assert (cells.window[cell], cells.tag[cell]) == (one, tag)


def linked(link: np.ndarray, header: int) -> list[int]:
    """The cells behind ``header``."""
    found = [int(link[header])]
    while found[-1] != -1:
        found.append(int(link[found[-1]]))
    return found[:-1]


def test_a_full_table_refuses_and_a_freed_window_makes_room() -> None:
    cells = new_cells(4, 2)
    assert sorted(add(cells, 1, tag, (0, 0)) for tag in range(3)) == [1, 2, 3]
    assert add(cells, 1, 3, (0, 0)) == -1
    assert find_or_add(cells, 2, HEADER, NO_KEY, 0) == -1
    free_window(cells, find(cells, 1, HEADER, NO_KEY, 0))
    assert (cells.tally["live"][0], cells.tally["headers"][0]) == (0, 0)
    assert cells.tally["free"][0] >= 0
    assert (cells.table == -1).all()
    assert add(cells, 2, 0, (5, 5)) >= 0
