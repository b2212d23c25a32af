"""What is promised per type: the compiled book against one that keeps dictionaries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_book import SlowBook

from slackwater.engine.core.clocks.stream_clocks import PromiseBook
from slackwater.engine.core.released import Promises, Released, Strings
from slackwater.engine.core.timeline import BEFORE, LONG_AGO, Steps
from slackwater.engine.hosts.chain.state_bytes import from_bytes, to_bytes
from slackwater.engine.kernels.records import INT_MAX

TYPES = frozenset({"A", "B", "C"})
Event = tuple[str | None, str]
"""(type, source)"""
Pog = tuple[int, str | None, str | None, int]
"""(row before which it comes, type, source, ref)"""


RELEASED = 10**6


# ---- batches ----------------------------------------------------------------------------------
def batch(
    events: list[Event], pogs: list[Pog], strings: Strings, at: int = 0, rows: int = 0
) -> tuple[Released, Promises]:
    """After ``at`` promises and ``rows`` events: so many instants, those of events far above."""

    def codes(texts: list[str | None]) -> np.ndarray:
        return np.array([-1 if t is None else strings.code(t) for t in texts], np.int32)

    columns = {
        "type": codes([kind for kind, _ in events]),
        "source": codes([source for _, source in events]),
        "release": RELEASED + rows + np.arange(len(events), dtype=np.int64),
    }
    promises = Promises(
        np.array([row for row, *_ in pogs], np.int64),
        codes([kind for _, kind, _, _ in pogs]),
        codes([source for _, _, source, _ in pogs]),
        np.array([ref for *_, ref in pogs], np.int64),
        at + np.arange(len(pogs), dtype=np.int64),
    )
    return Released(len(events), columns, {}, strings, 0), promises


def moves_of(steps: Steps) -> list[tuple[int, int, int]]:
    """What a clock did in the batch."""
    found = list(zip(list(steps.value), list(steps.at), list(steps.moment), strict=True))
    assert found[0][1:] == (LONG_AGO, BEFORE)
    return [(int(value), int(at), int(moment)) for value, at, moment in found[1:]]


SOURCES = [f"s{number}" for number in range(6)]
EVENTS = st.tuples(st.sampled_from(["A", "B", "C", "X", None]), st.sampled_from(SOURCES))
REFS = st.integers(-5, 20) | st.sampled_from([INT_MAX, INT_MAX - 1, -(2**62)])
POGS = st.tuples(
    st.sampled_from(["A", "B", "C", "X", None]), st.sampled_from([*SOURCES, None]), REFS
).filter(lambda pog: pog[:2] != (None, None))
HAPPENS = st.lists(st.tuples(st.booleans(), EVENTS, POGS, st.booleans()), max_size=60)


@settings(max_examples=60)
@given(HAPPENS)
def test_against_the_slow_twin_cut_anywhere(
    happens: list[tuple[bool, Event, tuple[str | None, str | None, int], bool]],
) -> None:
    slow, book, strings = SlowBook(TYPES), PromiseBook(TYPES), Strings(["unused"])
    events: list[Event] = []
    pogs: list[Pog] = []
    found: dict[str, list[tuple[int, int, int]]] = {kind: [] for kind in TYPES}
    rows = at = said = 0
    for number, (is_event, event, pog, cut) in enumerate(happens):
        if is_event:
            row = rows + len(events)
            slow.event(*event, at=RELEASED + row, moment=2 * row + 1)
            events.append(event)
        else:
            slow.promise(*pog, at=said, moment=2 * (rows + len(events)))
            pogs.append((len(events), *pog))
            said += 1
        if cut or number == len(happens) - 1:
            steps = book.steps(*batch(events, pogs, strings, at, rows), rows)
            for kind in TYPES:
                found[kind] += moves_of(steps[kind])
            rows, at = rows + len(events), at + len(pogs)
            events, pogs = [], []
            kept, book = from_bytes(to_bytes(book.snapshot())), PromiseBook(TYPES)
            book.restore(kept)
    assert found == slow.moves


def covered(events: list[Event], pogs: list[Pog]) -> dict[str, int]:
    steps = PromiseBook(TYPES).steps(*batch(events, pogs, Strings()), 0)
    return {kind: moves.value[-1] for kind, moves in steps.items()}


A1, A2, B3 = ("A", "s1"), ("A", "s2"), ("B", "s3")
ENDS = [(2, "A", "s1", 3), (2, None, "s1", INT_MAX), (2, "A", "s2", 7), (3, "A", "s2", 9)]


@pytest.mark.parametrize(
    ("events", "pogs", "of_a"),
    [
        ([A1, A2, B3], [(3, "A", "s1", 7)], LONG_AGO),  # a type waits for each of its sources
        ([A1, A2, B3], [(3, "A", "s1", 7), (3, None, "s2", 5)], 5),
        ([A1], [(1, "A", None, 9)], 9),  # one without a source speaks for all
        ([A1, A2], [(1, "A", "s1", 7)], 7),  # a promise comes before the event of its row
        ([A1, A2], [(2, "A", "s1", 7)], LONG_AGO),
        ([A1, A2], [(2, None, "s1", INT_MAX), (2, "A", "s2", 7)], 7),  # what has ended waits not
        ([A1, A2], [(2, None, "s1", INT_MAX), (2, None, "s2", INT_MAX)], INT_MAX),
        ([A1, A2, A1], ENDS, 7),  # and counts again when it comes back
        ([A1, A2, A1], [*ENDS, (3, "A", "s1", 8)], 8),
    ],
)
def test_what_is_promised_of_a_type(events: list[Event], pogs: list[Pog], of_a: int) -> None:
    found = covered(events, pogs)
    assert found["A"] == of_a
    assert found["C"] in (LONG_AGO, INT_MAX)


def test_who_covers_a_type_is_looked_at_when_an_event_comes_too() -> None:
    """Until one sends a B, who is silent holds B back; the first B says whom to wait for."""
    events: list[Event] = [("A", "silent"), ("A", "s1"), ("B", "s1"), ("B", "late")]
    said: list[Pog] = [(2, None, "s1", 10)]
    steps = PromiseBook(TYPES).steps(*batch(events, said, Strings()), 0)
    assert moves_of(steps["B"]) == [(10, RELEASED + 2, 2 * 2 + 1)]
    assert moves_of(steps["A"]) == moves_of(steps["C"]) == []


@pytest.mark.parametrize("sources", [1, 40])
def test_many_sources_and_promises(sources: int) -> None:
    slow, book, strings = SlowBook(TYPES), PromiseBook(TYPES), Strings()
    chance = np.random.default_rng(5)
    events: list[Event] = [("AB"[n % 2], f"s{int(chance.integers(sources))}") for n in range(4000)]
    pogs: list[Pog] = [
        (4 * n, [None, "A", "B"][n % 3], f"s{int(chance.integers(sources))}", n // 8)
        for n in range(1000)
    ]
    happens = sorted([(row, 0, n) for n, (row, *_) in enumerate(pogs)] +
                     [(row, 1, row) for row in range(len(events))])  # fmt: skip
    for row, is_event, number in happens:
        if is_event:
            slow.event(*events[number], at=RELEASED + number, moment=2 * number + 1)
        else:
            slow.promise(*pogs[number][1:], at=number, moment=2 * row)
    steps = book.steps(*batch(events, pogs, strings), 0)
    assert {kind: moves_of(steps[kind]) for kind in TYPES} == slow.moves
    assert slow.moves["A"]
