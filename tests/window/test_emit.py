"""EMIT and barriers of every kind of window: what stands at every instant, cut and restored."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.released import IN_ORDER, LATE, Strings
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.hosts.chain.state_bytes import from_bytes, to_bytes
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.operators.window.uncertainty.bounds import NO_EPOCH
from slackwater.engine.query import query
from tests.window.by_instant import KINDS, standing_at_every_instant
from tests.window.conftest import Event, Stream, batch
from tests.window.window_results import standing

EMITS = {"": 0, "EMIT ON CLOSE": 0, "EMIT EARLY EVERY 2": 2, "EMIT EARLY EVERY 5": 5,
         "EMIT ON CHANGE": -1}  # fmt: skip
BARRIERS = ("immediate", "punctuation", "bounded:4", "bounded:0", "hold:0", "hold:15", "hold:47")
END = 10**6


@st.composite
def streams(draw: st.DrawFn) -> tuple[Stream, tuple[int, ...]]:
    """In order, late, and far too late; promises; each row and step at an instant of its own."""
    events: list[Event] = []
    steps: list[tuple[int, int, int]] = []
    clock, at = draw(st.integers(-20, 20)), 0
    for row in range(draw(st.integers(1, 14))):
        at += draw(st.integers(1, 20))
        for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
            clock += draw(st.integers(0, 9))
            steps.append((row, clock, at))
            at += draw(st.integers(1, 12))
        late = draw(st.sampled_from((False, False, True)))
        if not late:
            clock += draw(st.integers(0, 6))
        ref = clock - draw(st.integers(1, 14)) if late else clock
        events.append(
            Event(ref, v=draw(st.integers(-5, 5)), key=draw(st.integers(0, 1)), release=at,
                  status=LATE if late else IN_ORDER)
        )  # fmt: skip
    cuts = tuple(draw(st.lists(st.integers(0, len(events)), max_size=3)))
    return Stream(tuple(events), tuple(steps)), cuts


def emitted(
    text: str, stream: Stream, barrier: str | None = None, cuts: tuple[int, ...] = (),
    horizon: int = END, *, ends: bool = True,
) -> list[dict[str, Any]]:  # fmt: skip
    """All results; at every cut the arrival clock comes to the next row, and it is restored."""
    plan = query(text)
    made = WindowSettings(
        correction_horizon_ns=horizon, barrier=None if barrier is None else parse_barrier(barrier)
    )
    operator, strings, results = windows_of(plan, made), Strings(), []
    inner = {cut for cut in cuts if 0 < cut < len(stream.events)}
    for start, stop in itertools.pairwise([0, *sorted(inner), len(stream.events)]):
        results += operator.process(batch(stream, strings, start, stop))
        if stop < len(stream.events):
            before = [at for row, _, at in stream.steps if row == stop]
            results += operator.advance(min([stream.at(stop), *before]))
        state = from_bytes(to_bytes(operator.snapshot()))
        operator = windows_of(plan, made)
        operator.restore(state)
    return results + (list(operator.finish(END)) if ends else [])


def contents(results: list[dict[str, Any]], upto: float = math.inf) -> list[str]:
    """All that stands says."""
    return sorted(map(repr, standing(results, upto)))


def briefly(results: list[dict[str, Any]], upto: float, *fields: str) -> list[tuple[Any, ...]]:
    """Times, values and keys of what stands."""
    found = standing(results, upto)
    return sorted(
        (*r["window"].values(), *r["value"].values(), *(r["key"][name] for name in fields))
        for r in found
    )


def check(kind: str, case: tuple[Stream, tuple[int, ...]], emit: str, barrier: str) -> None:
    stream, cuts = case
    text = f"SELECT count(*), sum(v) GROUP BY g WINDOW {kind} {emit}"
    found = emitted(text, stream, barrier)
    assert emitted(text, stream, barrier, cuts) == found
    for now, expected in standing_at_every_instant(kind, stream, EMITS[emit], barrier):
        assert briefly(found, now) == expected, now
    assert contents(found) == contents(
        emitted(f"SELECT count(*), sum(v) GROUP BY g WINDOW {kind}", stream)
    )


ASKED = {"emit": st.sampled_from([*EMITS]), "barrier": st.sampled_from(BARRIERS)}


@pytest.mark.parametrize("kind", KINDS)
@given(case=streams(), **ASKED)
@settings(max_examples=15)
def test_at_every_instant_what_stands_is_what_is_defined_under_any_cut(
    kind: str, case: tuple[Stream, tuple[int, ...]], emit: str, barrier: str
) -> None:
    check(kind, case, emit, barrier)


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
@given(case=streams(), **ASKED)
@settings(max_examples=5000)
def test_at_every_instant_of_very_many_streams(
    kind: str, case: tuple[Stream, tuple[int, ...]], emit: str, barrier: str
) -> None:
    check(kind, case, emit, barrier)


@st.composite
def doubtful(draw: st.DrawFn) -> tuple[Stream, tuple[int, ...]]:
    """As ``streams``, with clocks that err, drift windows, and numbers that are missing."""
    stream, cuts = draw(streams())
    events = tuple(
        Event(e.ref, v=e.v, key=e.key, release=e.release, status=e.status, seq=row,
              unc=draw(st.sampled_from((0, 0, 1, 2))), source=draw(st.sampled_from(("s0", "s1"))),
              epoch=draw(st.sampled_from((-1, 3))))
        for row, e in enumerate(stream.events)
    )  # fmt: skip
    gaps = []
    for row in range(len(events)):
        if draw(st.integers(0, 5)) == 0:
            low = events[row].ref - draw(st.integers(0, 9))
            first = draw(st.integers(0, 12))
            gaps.append((row, "s0", first, draw(st.integers(1, 3)), low, events[row].ref))
    return Stream(events, stream.steps, tuple(gaps), draw(st.sampled_from((0, 1, 3)))), cuts


DRIFTS = dict.fromkeys(KINDS[:3], ("", "DRIFT EACH", "DRIFT TOGETHER"))


@pytest.mark.parametrize("kind", KINDS)
@given(case=doubtful(), data=st.data(), **ASKED)
@settings(max_examples=8)
def test_what_clocks_and_gaps_leave_open_is_emitted_early_too_and_ends_the_same(
    kind: str, case: tuple[Stream, tuple[int, ...]], emit: str, barrier: str, data: st.DataObject
) -> None:
    stream, cuts = case
    drift = data.draw(st.sampled_from(DRIFTS.get(kind, ("",))))
    text = f"SELECT count(*), sum(v), avg(v), max(v) GROUP BY g WINDOW {kind} {drift}"
    found = emitted(f"{text} {emit}", stream, barrier)
    assert emitted(f"{text} {emit}", stream, barrier, cuts) == found
    assert contents(found) == contents(emitted(text, stream))
    if emit != "EMIT ON CHANGE" or kind.startswith("ROWS"):
        return
    # Nothing is open after the end of the input, so what stands early is what would stand then.
    sure = Stream(stream.events, stream.steps, (), stream.t_a)
    whole = emitted(f"{text} {emit}", sure, barrier)
    for row in range(1, len(sure.events) + 1):
        part = Stream(sure.events[:row], tuple(s for s in sure.steps if s[0] < row), (), sure.t_a)
        assert contents(whole, sure.at(row - 1)) == contents(emitted(text, part))


@pytest.mark.parametrize("kind", KINDS[:3])
@given(case=streams(), emit=st.sampled_from([*EMITS]), limit=st.integers(1, 2))
@settings(max_examples=8)
def test_having_and_the_first_groups_are_chosen_among_what_stands(
    kind: str, case: tuple[Stream, tuple[int, ...]], emit: str, limit: int
) -> None:
    stream, cuts = case
    text = "SELECT count(*) AS n, sum(v) AS s GROUP BY g {} WINDOW " + f"{kind} {emit}"
    every = emitted(text.format(""), stream)
    some = emitted(text.format("HAVING s > 0"), stream)
    first = text.format(f"HAVING s > 0 ORDER BY s DESC, n LIMIT {limit}")
    ranked = emitted(first, stream)
    assert emitted(first, stream, cuts=cuts) == ranked
    for now in [stream.at(row) for row in range(len(stream.events))] + [END]:
        windows: dict[int, list[tuple[int, int, int]]] = {}
        for start, _, n, total, key in briefly(every, now, "g"):
            windows.setdefault(start, []).extend([(-total, n, key)] if total > 0 else [])
        expected = [(start, *group) for start, of in windows.items() for group in sorted(of)]
        assert sorted((w, -s, n, k) for w, _, n, s, k in briefly(some, now, "g")) == sorted(
            expected
        )
        best = [(w, *group) for w, of in windows.items() for group in sorted(of)[:limit]]
        shown = [(w, -s, n, k) for w, _, n, s, k in briefly(ranked, now, "g")]
        assert sorted(shown) == sorted(best)


@pytest.mark.parametrize("kind", ["TUMBLING 10", "SLIDING 10 EVERY 5", "SESSION 5", "ROWS 2"])
@pytest.mark.parametrize("barrier", [None, "bounded:3", "hold:5"])
@pytest.mark.parametrize("emit", [*EMITS][1:])
def test_a_late_event_changes_what_it_is_in_and_after_the_horizon_nothing(
    kind: str, barrier: str | None, emit: str
) -> None:
    groups = [(0, 1), (1, 4), (0, 6), (1, 7), (0, 33), (1, 34), (0, 36), (1, 37), (0, 66), (1, 67)]
    events = [Event(ref, v=1, key=key, release=10 * n) for n, (key, ref) in enumerate(groups)]
    late = Event(34, v=5, key=0, status=LATE, release=200)
    gone = Event(2, v=7, key=0, status=LATE, release=300)
    text = f"SELECT sum(v) GROUP BY g WINDOW {kind} {emit}"
    plan = query(text)
    made = WindowSettings(
        correction_horizon_ns=40, barrier=None if barrier is None else parse_barrier(barrier)
    )
    operator = windows_of(plan, made)
    strings, stream = Strings(), Stream((*events, late, gone))
    before = list(operator.process(batch(stream, strings, 0, len(events))))
    before += operator.advance(200)
    changed = list(operator.process(batch(stream, strings, len(events), len(events) + 1)))
    assert {r["at"] for r in changed} == {200}
    assert {r["key"]["g"] for r in changed} == {0}
    windows = {"TUMBLING 10": 1, "SLIDING 10 EVERY 5": 2, "SESSION 5": 1}
    if kind in windows:
        assert [r["op"] for r in changed] == ["-", "+"] * windows[kind]
        assert sum(r["value"]["sum(v)"] * (1 if r["op"] == "+" else -1) for r in changed) == (
            5 * windows[kind]
        )
    else:  # the window before has the events that it had
        assert min(r["window"]["start"] for r in changed) == 33
        assert max(r["value"]["sum(v)"] for r in changed if r["op"] == "+") == 6
    counted = operator.counters()["too_late"]
    assert list(operator.process(batch(stream, strings, len(events) + 1))) == []
    assert operator.counters()["too_late"] == counted + 1


@pytest.mark.parametrize("epoch", [NO_EPOCH, 0])
def test_a_session_that_begins_makes_the_one_before_unsure(epoch: int) -> None:
    """By the clock of its event the first may last until the second begins."""
    first = Event(0, v=1, unc=1, release=1, source="s0", epoch=epoch)
    second = Event(5, v=1, release=2, source="s1", epoch=epoch, seq=1)
    late = replace(second, status=LATE)
    text = "SELECT count(*) GROUP BY g WINDOW SESSION 5"
    wanted = contents(emitted(text, Stream((first, second))))
    assert [line.count("'uncertain'") for line in wanted] == [1, 1]
    assert contents(emitted(f"{text} EMIT ON CHANGE", Stream((first, second)))) == wanted
    assert contents(emitted(text, Stream((first, late), ((1, 100, 1),)))) == wanted
