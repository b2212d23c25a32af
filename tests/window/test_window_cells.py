"""The cell table against a plain dict, through growth and the freeing of windows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.window.drift import PART_BITS
from engine.window.held.cells import (
    HEADER,
    Cells,
    add_to_window,
    find,
    find_or_add,
    free_window,
    grown,
    new_cells,
)

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
@settings(max_examples=100, deadline=None)
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


def test_neighbouring_keys_windows_and_parts_seldom_collide() -> None:
    cells = new_cells(1024, 1)
    for window in range(10):
        header = find_or_add(cells, window, HEADER, np.zeros((1, 1), np.int64), 0)
        for key in range(30):
            for tag in (15, 14, 3):
                add_to_window(cells, header, tag, np.array([[key]]), 0)
    places = np.flatnonzero(cells.table >= 0)
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    assert max(len(run) for run in runs) <= 8  # at a ninth of the table full
