"""The tables of windows: gaps against a look at each of them, cells against a plain dict."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import Gaps
from slackwater.engine.operators.window.settings import PART_BITS, Geometry
from slackwater.engine.operators.window.state.cells import (
    HEADER,
    Cells,
    add_to_window,
    find,
    find_or_add,
    free_window,
    grown,
    new_cells,
)
from slackwater.engine.operators.window.uncertainty.missing import (
    LateRows,
    Missing,
    become_known,
    filled_by,
    missing_between,
    split_gap,
)

SMALL = st.integers(0, 6)
TWO = st.tuples(SMALL, SMALL).map(sorted)
GAP = st.tuples(st.integers(0, 1), st.integers(0, 1), SMALL, st.integers(1, 4), TWO)
"""source, stream, first number, events, first and last."""
QUESTION = st.one_of(
    st.tuples(st.just("fill"), st.integers(0, 1), st.integers(0, 1), st.integers(0, 10), TWO),
    st.tuples(st.just("between"), TWO),
    st.tuples(st.just("know")),
)
TIMES = Geometry(1, 0, 0, 0, 1)


class Slow:
    """Gaps, each looked at by itself: [source, stream, first, end, first time, last time, left]."""

    def __init__(self) -> None:
        self.gaps: list[list[int]] = []

    def know(self, source: int, stream: int, first: int, events: int, low: int, high: int) -> None:
        self.gaps.append([source, stream, first, first + events, low, high, events])

    def fill(self, source: int, stream: int, seq: int, low: int, high: int) -> bool:
        for place in reversed(range(len(self.gaps))):
            *of, first, end, start, until, left = self.gaps[place]
            if of != [source, stream] or not first <= seq < end or not left:
                continue
            rest = left - 1
            if start <= low and high <= until:
                before, behind = min(seq - first, rest), min(end - seq - 1, rest)
                self.gaps[place : place + 1] = [
                    [*of, first, seq, start, high, before], [*of, seq + 1, end, low, until, behind]
                ]  # fmt: skip
            else:
                self.gaps[place][-1] = rest
            return True
        return False

    def between(self, start: int, end: int) -> int:
        return sum(gap[-1] for gap in self.gaps if gap[4] < end and gap[5] > start)


def as_gaps(made: list[tuple[int, ...]]) -> Gaps:
    of = np.array(made, np.int64).reshape(-1, 6).T
    none = np.zeros(of.shape[1], np.int64)
    return Gaps(none, of[0], of[1], none, of[2], of[3], of[4], of[5], none)


def as_late(made: list[tuple[int, ...]]) -> LateRows:
    of = np.array(made, np.int64).reshape(-1, 6).T
    return LateRows(of[0], of[1], of[2], np.zeros(of.shape[1], np.int64), *of[3:])


def filled(missing: Missing, known: int, row: int) -> bool:
    gaps = missing.table
    j, part = filled_by(gaps, known, row)
    if j >= 0:
        split_gap(gaps, j, part)
    return bool(j >= 0)


@given(st.lists(GAP, max_size=12), st.integers(0, 12), st.lists(QUESTION, max_size=30))
@example([(0, 0, 0, 4, [1, 5]), (0, 0, 1, 1, [3, 3]), (0, 0, 2, 1, [2, 5])], 3,
         [("between", [3, 3]), ("fill", 0, 0, 1, [3, 3]), ("fill", 0, 0, 2, [2, 2]),
          ("fill", 0, 0, 2, [4, 5]), ("between", [2, 4]), ("between", [3, 3])])  # fmt: skip
@settings(max_examples=40)
def test_a_search_finds_what_a_look_at_every_gap_does(
    made: list[tuple[Any, ...]], at_first: int, questions: list[tuple[Any, ...]]
) -> None:
    flat = [(*one[:-1], *one[-1]) for one in made]
    late = [(row, *of[:-1], *of[-1]) for row, (what, *of) in enumerate(questions) if what == "fill"]
    missing, slow, known = Missing(), Slow(), 0
    missing.take(as_gaps(flat), TIMES, as_late(late))
    asked = [("know",)] * at_first + questions
    for row, (what, *of) in enumerate(asked, -at_first):
        if what == "know" and known < len(flat):
            become_known(missing.table, known)
            slow.know(*flat[known])
            known += 1
        elif what == "fill":
            assert filled(missing, known, row) == slow.fill(*of[:-1], *of[-1])
        elif what == "between":
            start, end = of[0]
            assert missing_between(missing.table, known, start, end) == slow.between(start, end)


def test_many_losses_are_found_and_added_up() -> None:
    """Of three sources with many gaps each, that become known in several batches."""
    rng = np.random.default_rng(1)
    missing, slow, n = Missing(), Slow(), 400
    for batch in range(3):
        low = np.sort(rng.integers(0, 10_000, n)) + 10_000 * batch
        known = len(missing.table.left)
        first = 10 * (np.arange(n) + n * batch)
        columns = (
            rng.integers(0, 3, n), np.zeros(n, int), first, rng.integers(1, 10, n), low,
            low + rng.integers(0, 50, n),
        )  # fmt: skip
        made = list(zip(*(column.tolist() for column in columns), strict=True))
        late = []
        for row in range(200):
            time = int(rng.integers(0, 10_000 * (batch + 1)))
            seq, wide = int(rng.integers(0, 10 * n * (batch + 1))), int(rng.integers(0, 9))
            if row % 2:  # in time, and within a gap that is known
                one = made[int(rng.integers(0, n))]
                seq, time = one[2] + int(rng.integers(0, one[3])), one[4]
            late.append((row, int(rng.integers(0, 3)), 0, seq, time, time + wide))
        missing.take(as_gaps(made), TIMES, as_late(late))
        for j in range(known, known + n):
            become_known(missing.table, j)
            slow.know(*made[j - known])
        known += n
        for row, *event in late:
            assert filled(missing, known, row) == slow.fill(*event)
            start, end = np.sort(rng.integers(0, 10_000 * (batch + 1), 2)).tolist()
            assert missing_between(missing.table, known, start, end) == slow.between(start, end)
        missing.forget(10_000 * batch)
        slow.gaps = [gap for gap in slow.gaps if gap[5] >= 10_000 * batch and gap[-1]]
        assert sorted(missing.table.left) == sorted(gap[-1] for gap in slow.gaps)
    restored = Missing()
    restored.restore(missing.snapshot())
    assert all((a == b).all() for a, b in zip(restored.table, missing.table, strict=True))
    total = int(missing.table.left.sum())
    missing.merge(25_000, 50)
    assert len(missing.table.left) < n * 2
    assert int(missing.table.left.sum()) == total


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
