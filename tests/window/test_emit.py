"""EMIT and barriers of every kind of window: what stands at every instant, cut and restored."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.barrier.registry import parse_barrier
from engine.query import query
from engine.stream.released import IN_ORDER, LATE, Strings
from engine.window.kinds import windows_of
from engine.window.settings import WindowSettings
from tests.window.by_instant import KINDS, standing
from tests.window.conftest import Event, Stream, batch

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


def told(
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
        state = pickle.loads(pickle.dumps(operator.snapshot()))
        operator = windows_of(plan, made)
        operator.restore(state)
    return results + (list(operator.finish(END)) if ends else [])


def net(results: list[dict[str, Any]], upto: float = float("inf")) -> list[Any]:
    """What stands; a retraction repeats what it takes back."""
    stands: list[Any] = []
    for r in results:
        content = repr({name: value for name, value in r.items() if name not in {"op", "at"}})
        if r["at"] <= upto and r["op"] == "+":
            stands.append(content)
        elif r["at"] <= upto:
            stands.remove(content)
    return sorted(stands)


def brief(results: list[dict[str, Any]], upto: float) -> list[Any]:
    """As ``standing``."""
    stands: list[Any] = []
    for r in results:
        of = (*r["window"].values(), *r["value"].values())
        if r["at"] <= upto and r["op"] == "+":
            stands.append(of)
        elif r["at"] <= upto:
            stands.remove(of)
    return sorted(stands)


@pytest.mark.parametrize("kind", KINDS)
@given(case=streams(), emit=st.sampled_from([*EMITS]), barrier=st.sampled_from(BARRIERS))
@settings(max_examples=120, deadline=None)
def test_at_every_instant_what_stands_is_what_is_defined_under_any_cut(
    kind: str, case: tuple[Stream, tuple[int, ...]], emit: str, barrier: str
) -> None:
    stream, cuts = case
    text = f"SELECT count(*), sum(v) GROUP BY g WINDOW {kind} {emit}"
    found = told(text, stream, barrier)
    assert told(text, stream, barrier, cuts) == found
    for now, expected in standing(kind, stream, EMITS[emit], barrier):
        assert brief(found, now) == expected, now
    assert net(found) == net(told(f"SELECT count(*), sum(v) GROUP BY g WINDOW {kind}", stream))
