"""Sessions: examples, and what all errors of clocks make possible."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import LATE, Strings
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.query import query
from tests.window.conftest import Event, Stream, aggregate, batch
from tests.window.window_results import brief, results_of, standing


def by_definition(events: tuple[Event, ...], gap: int) -> dict[Any, list[list[Event]]]:
    """Per key its sessions."""
    found: dict[Any, list[list[Event]]] = {}
    for event in sorted(events, key=lambda event: event.ref):
        mine = found.setdefault(event.key, [])
        if mine and event.ref - mine[-1][-1].ref < gap:
            mine[-1].append(event)
        else:
            mine.append([event])
    return found


def possible(members: list[Event], group: list[list[Event]], gap: int) -> set[frozenset[int]]:
    """By places in the group, each session that has one of ``members`` under some errors of the
    clocks of the group's events, which err each by itself.
    """
    events = [event for session in group for event in session]
    mine = {place for place, event in enumerate(events) if any(event is one for one in members)}
    found: set[frozenset[int]] = set()
    for errors in itertools.product(*(range(-e.unc, e.unc + 1) for e in events)):
        times = sorted(
            (e.ref + d, place) for place, (e, d) in enumerate(zip(events, errors, strict=True))
        )
        parts: list[set[int]] = []
        for (time, place), (before, _) in zip(times, [(-(10**9), -1), *times], strict=False):
            if time - before >= gap:
                parts.append(set())
            parts[-1].add(place)
        found |= {frozenset(part) for part in parts if part & mine}
    return found


def test_a_session_lasts_until_the_gap_is_silent() -> None:
    events = tuple(Event(ref) for ref in (1, 5, 14, 24, 30, 60))
    found = results_of("SELECT count(*) WINDOW SESSION 10", Stream(events))
    assert brief(found, "value", "certainty") == [
        ("+", 3, 1, 24, {"count(*)": 3}, "confirmed"),
        ("+", 5, 24, 40, {"count(*)": 2}, "confirmed"),
        ("+", 10**6, 60, 70, {"count(*)": 1}, "confirmed"),
    ]


def test_a_late_event_between_two_makes_them_one_and_progress_closes_an_idle_group() -> None:
    events = (
        Event(1),
        Event(13),
        Event(2, key=7),
        Event(40, key=7),
        Event(7, status=LATE, release=50),
    )
    stream = Stream(events, steps=((5, 100, 51),))
    found = results_of("SELECT count(*) GROUP BY g WINDOW SESSION 10", stream)
    assert brief(found, "key", "certain") == [
        ("+", 1, 1, 11, {"g": 0}, 1),
        ("+", 2, 2, 12, {"g": 7}, 1),
        ("+", 3, 13, 23, {"g": 0}, 1),
        ("-", 50, 13, 23, {"g": 0}, 1),
        ("-", 50, 1, 11, {"g": 0}, 1),
        ("+", 50, 1, 23, {"g": 0}, 3),
        ("+", 51, 40, 50, {"g": 7}, 1),
    ]


def test_a_session_that_hangs_on_clocks_says_so() -> None:
    text = "SELECT count(*), sum(v) WINDOW SESSION 10"
    for first, second, certainty in (
        (1, 6, "confirmed"),
        (1, 7, "uncertain"),
        (1, 14, "uncertain"),
        (1, 15, "confirmed"),
    ):
        found = results_of(text, Stream((Event(first, unc=2), Event(second, unc=2))))
        assert {r["certainty"] for r in found} == {certainty}
        for r in found:
            n = r["value"]["count(*)"]
            sure = certainty == "confirmed"
            assert (r["certain"], r["ambiguous"]) == ((n, 0) if sure else (0, n))
            assert r["bounds"]["count(*)"] == ([n, n] if sure else [None, None])
    alike = tuple(Event(ref, unc=2, epoch=4) for ref in (1, 10, 21))
    assert {r["certainty"] for r in results_of(text, Stream(alike))} == {"confirmed"}


def test_query_02_the_error_of_one_event_leaves_every_session_open_that_it_may_reach() -> None:
    def certainties(*events: Event) -> list[str]:
        found = standing(results_of("SELECT sum(v) WINDOW SESSION 6", Stream(events)))
        return [r["certainty"] for r in sorted(found, key=lambda r: r["window"]["start"])]

    u, c = "uncertain", "confirmed"
    assert certainties(Event(26), Event(34, unc=3)) == [u, u]
    assert certainties(Event(25), Event(34, unc=3)) == [c, c]
    far = (Event(10), Event(18), Event(26), Event(34))
    assert certainties(*far, Event(42, unc=15)) == [c, c, u, u, u]
    late = Event(50, unc=31, status=LATE, release=70)
    assert certainties(*far, Event(42), Event(60), Event(70), late) == [c, *[u] * 7]
    assert certainties(Event(2, unc=15), *far) == [u, u, u, c, c]


@pytest.mark.parametrize("emit", ["", " EMIT ON CHANGE", " EMIT EARLY EVERY 5"])
def test_a_session_that_was_emitted_is_corrected_however_far_off_the_event_is(emit: str) -> None:
    before = tuple(Event(10 * n, release=10 * n) for n in range(30))
    late = Event(300, unc=200, release=300)
    behind = tuple(Event(310 + 10 * n, release=310 + 10 * n) for n in range(3))
    for cuts in ((), (30, 31)):
        text = f"SELECT sum(v) WINDOW SESSION 6{emit}"
        found = results_of(text, Stream((*before, late, *behind)), cuts)
        sure = [r["window"]["start"] for r in standing(found) if r["certainty"] == "confirmed"]
        assert sure == [10 * n for n in range(10)]


def test_missing_counts_what_may_lie_beside_and_is_corrected() -> None:
    late = Event(9, status=LATE, seq=7, release=70)
    stream = Stream(
        (Event(5), Event(40), late, Event(80, release=80)),
        gaps=((1, "s0", 7, 2, 5, 40), (1, "s0", 21, 1, 30, 36)),
    )
    found = results_of("SELECT count(*) WINDOW SESSION 10", stream)
    assert brief(found, "value", "missing") == [
        ("+", 1, 5, 15, {"count(*)": 1}, 2),
        ("-", 70, 5, 15, {"count(*)": 1}, 2),
        ("+", 70, 5, 19, {"count(*)": 2}, 1),
        ("+", 80, 40, 50, {"count(*)": 1}, 2),
        ("+", 10**6, 80, 90, {"count(*)": 1}, 0),
    ]


def test_the_horizon_ends_corrections_and_what_is_later_is_counted() -> None:
    events = (
        Event(0),
        Event(100),
        Event(5, status=LATE),
        Event(60, status=LATE),
        Event(92, status=LATE),
    )
    plan = query("SELECT count(*) WINDOW SESSION 10")
    operator = windows_of(plan, WindowSettings(correction_horizon_ns=15))
    stream, strings = Stream(events), Strings()
    found = [*operator.process(batch(stream, strings)), *operator.finish(200)]
    assert operator.counters()["too_late"] == 2
    assert [r["value"]["count(*)"] for r in found] == [1, 2]


WIDE = [0, 1, 3, 8]
"""Errors of some clocks; 8 may take an event past a session, to another one."""


@st.composite
def disordered(draw: st.DrawFn) -> tuple[Stream, tuple[int, ...]]:
    n = draw(st.integers(1, 14))
    refs = sorted(draw(st.lists(st.integers(0, 40), min_size=n, max_size=n)))
    rows: list[Event] = []
    late: list[Event] = []
    for place, ref in enumerate(refs):
        event = Event(
            ref,
            v=draw(st.integers(-5, 5)),
            key=draw(st.integers(0, 1)),
            unc=draw(st.sampled_from(WIDE if place % 3 == 0 else [0, 0, 1, 2])),
            seq=place,
        )
        if draw(st.integers(0, 3)) == 0:
            late.append(replace(event, status=LATE))
        else:
            rows.append(event)
    for event in late:
        rows.insert(draw(st.integers(0, len(rows))), event)
    cuts = tuple(draw(st.lists(st.integers(0, n), max_size=3)))
    return Stream(tuple(rows)), cuts


@given(case=disordered(), gap=st.sampled_from([5, 6]))
@settings(max_examples=30)
def test_certainty_and_bounds_are_those_of_all_clock_errors(
    case: tuple[Stream, tuple[int, ...]], gap: int
) -> None:
    stream = Stream(case[0].events[:5])
    aggregates = "count(*), sum(v), avg(v), min(v), max(v)"
    standing: dict[tuple[Any, int], Any] = {}
    text = f"SELECT {aggregates} GROUP BY g WINDOW SESSION {gap}"
    emitted = results_of(text, stream)
    assert results_of(text, stream, case[1]) == emitted
    for each in emitted:
        standing[each["key"]["g"], each["window"]["start"]] = each if each["op"] == "+" else None
    for key, group in by_definition(stream.events, gap).items():
        events = [event for session in group for event in session]
        for members in group:
            result = standing[key, members[0].ref]
            found = possible(members, group, gap)
            assert result["certainty"] == ("confirmed" if len(found) == 1 else "uncertain")
            for name, bounds in result["bounds"].items():
                if len(found) > 1:  # nothing is claimed, so nothing that is too narrow
                    assert bounds == [None, None]
                    continue
                (session,) = found
                exact = aggregate(name.partition("(")[0], [events[place].v for place in session])
                assert bounds == pytest.approx([exact, exact])


@pytest.mark.parametrize("window", ["SESSION 4", "ROWS 2"])
def test_what_is_missing_is_corrected_though_another_group_leaves_memory_first(window: str) -> None:
    late = [Event(ref, key=key, status=LATE) for ref, key in ((-500, 2), (-400, 2))]
    events = (Event(0, key=0), Event(1, key=0), Event(10, key=1), Event(11, key=1), *late)
    steps = ((4, 20, 4), (5, 30, 5), (6, 35, 6))
    stream = Stream(events, steps, gaps=((5, "s0", 7, 3, -1, 13),))
    text = f"SELECT count(*) GROUP BY g WINDOW {window}"
    operator = windows_of(query(text), WindowSettings(correction_horizon_ns=24))
    found = [*operator.process(batch(stream, Strings())), *operator.finish(99)]
    last = {result["key"]["g"]: result["missing"] for result in found}
    assert last == {0: 3, 1: 3}
