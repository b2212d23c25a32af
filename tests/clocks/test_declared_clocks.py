"""Answers over a user's own file beside all times that ``--clock`` allows.

Each declared clock is off by some amount within its bound, the same for all that it stamped. The
oracle is SPEC alone: it answers by counting, once for each choice of amounts. Whatever is confirmed
must be among the answers of every choice, and whatever a choice answers must be there. Stamps are
whole half minutes, so many are equal or exactly a bound apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater
from slackwater.engine.cli.app import run

S = 10**9
STEP = 15 * S // 2
"""Bounds are multiples of it, so that amounts of so much meet all orders of events."""


class Event(NamedTuple):
    n: int
    type: str
    source: str
    ts: int


class World(NamedTuple):
    events: list[Event]
    clocks: dict[str, tuple[int, int]]
    """Offset and bound [ns] of each."""


Times = list[tuple[int, Event]]
"""Events with their times under one choice of amounts, sorted."""


@st.composite
def worlds(draw: st.DrawFn) -> World:
    events = [
        Event(n, draw(st.sampled_from("ABC")), draw(st.sampled_from("ab")),
              1000 * S + draw(st.integers(0, 20)) * 30 * S)
        for n in range(draw(st.integers(2, 7)))
    ]  # fmt: skip
    clocks = {
        name: (draw(st.sampled_from([-60, 0, 15, 90])) * S, draw(st.integers(0, 12)) * STEP)
        for name in {event.source for event in events}
    }
    return World(events, clocks)


def answers(world: World, text: str) -> list[dict[str, Any]]:
    columns = {
        "ts": [event.ts for event in world.events], "type": [e.type for e in world.events],
        "source": [e.source for e in world.events], "n": [e.n for e in world.events],
        "v": [2**e.n for e in world.events],
    }  # fmt: skip
    clock = [f"{name}={at / S}s±{bound / S}s" for name, (at, bound) in world.clocks.items()]
    known = {"n": "int", "v": "int"}
    with slackwater.query(columns, text, clock=clock, attributes=known, time_unit="ns") as found:
        return list(found)


def choices(world: World) -> Iterator[Times]:
    """Each clock errs by its bound, by half of it or less, or not at all."""
    amounts = {
        name: sorted({at + sign * (bound // STEP // part) * STEP
                      for sign in (-1, 1) for part in (1, 2, 3, 100)})
        for name, (at, bound) in world.clocks.items()
    }  # fmt: skip
    for chosen in itertools.product(*amounts.values()):
        by = dict(zip(amounts, chosen, strict=True))
        yield sorted((event.ts + by[event.source], event) for event in world.events)


def rows(times: Times, size: int, every: int) -> Iterator[int]:
    """The events of each window, as a sum of powers of two; equal times in any order."""
    tied = [
        [e for _, e in group] for _, group in itertools.groupby(times, key=lambda each: each[0])
    ]
    for order in itertools.product(*map(itertools.permutations, tied)):
        events = [event for group in order for event in group]
        for first in range(0, len(events) - size + 1, every):
            yield sum(2**event.n for event in events[first : first + size])


def sessions(times: Times, gap: int) -> Iterator[int]:
    held, last = 0, times[0][0]
    for at, event in times:
        if at - last >= gap:
            yield held
            held = 0
        held, last = held + 2**event.n, at
    yield held


def pairs(times: Times, within: int, *, negated: bool) -> Iterator[tuple[int, int]]:
    for (first, a), (last, b) in itertools.product(times, times):
        if (
            a.type + b.type == "AB"
            and 0 < last - first <= within
            and not (negated and any(c.type == "C" and first < at < last for at, c in times))
        ):
            yield a.n, b.n


GROUPS = {
    "ROWS 2": lambda times: rows(times, 2, 2),
    "ROWS 3 EVERY 1": lambda times: rows(times, 3, 1),
    "SESSION 60 s": lambda times: sessions(times, 60 * S),
}


@pytest.mark.parametrize("window", GROUPS)
@settings(max_examples=15, deadline=None)
@given(world=worlds())
def test_a_group_that_is_confirmed_is_one_whatever_the_clocks_err(
    window: str, world: World
) -> None:
    found = answers(world, f"SELECT sum(v) AS v WINDOW {window}")
    confirmed = {each["value"]["v"] for each in found if each["certainty"] == "confirmed"}
    for times in choices(world):
        assert confirmed <= set(GROUPS[window](times))


@pytest.mark.parametrize("negated", [False, True])
@settings(max_examples=15, deadline=None)
@given(world=worlds(), within=st.sampled_from([30, 60, 180]))
def test_matches(world: World, within: int, negated: bool) -> None:
    steps = "A a, !C c, B b" if negated else "A a, B b"
    kinds = {event.type for event in world.events}
    if not {"A", "B", *("C" * negated)} <= kinds:
        return  # an error says so
    found = answers(world, f"EVENT SEQ({steps}) WITHIN {within} s")
    of = {tuple(e["attrs"]["n"] for e in each["events"]): each["certainty"] for each in found}
    confirmed = {match for match, certainty in of.items() if certainty == "confirmed"}
    for times in choices(world):
        true = set(pairs(times, within * S, negated=negated))
        assert confirmed <= true <= set(of)


@pytest.mark.parametrize("every", [3, 1])
def test_rows_know_events_that_their_windows_may_lose_to_those_before(every: int) -> None:
    """The window before is past its horizon when the next one is full."""
    stamps = [("a", 75), ("b", 90), ("a", 135), ("a", 315), ("a", 555), ("b", 570)]
    events = [Event(n, "A", source, at * S) for n, (source, at) in enumerate(stamps)]
    world = World(events, {"a": (0, 0), "b": (0, 60 * S)})
    found = answers(world, f"SELECT sum(v) AS v WINDOW ROWS 3 EVERY {every}")
    got = [each["certainty"] for each in found]
    assert got == (["confirmed", "confirmed"] if every == 3 else
                   ["confirmed", "uncertain", "uncertain", "confirmed"])  # fmt: skip


def test_rows_wait_for_a_declared_clock_that_no_event_has_had_yet() -> None:
    stamps = [("a", 30), ("a", 60), ("a", 150), ("a", 200), ("b", 230)]
    events = [Event(n, "A", source, at * S) for n, (source, at) in enumerate(stamps)]
    world = World(events, {"a": (0, 0), "b": (0, 200 * S)})
    found = answers(world, "SELECT sum(v) AS v WINDOW ROWS 2")
    assert [each["certainty"] for each in found] == ["uncertain", "uncertain"]


def test_a_session_may_meet_one_beyond_another_of_its_clock() -> None:
    stamps = [("b", 870), ("b", 1050), ("c", 1215)]
    events = [Event(n, "A", source, at * S) for n, (source, at) in enumerate(stamps)]
    world = World(events, {"b": (0, 300 * S), "c": (0, 30 * S)})
    found = answers(world, "SELECT sum(v) AS v WINDOW SESSION 60 s")
    assert [each["certainty"] for each in found] == ["uncertain"] * 3


def test_a_clock_that_no_event_has_is_named() -> None:
    events: dict[str, list[Any]] = {
        "ts": [1, 2], "type": ["A", "B"], "source": ["door", "badge"], "clock": ["x", None]
    }  # fmt: skip
    text = "EVENT SEQ(A a, B b) WITHIN 3"
    clock = ["bagde=1ns", "x=2ns"]
    with (
        pytest.warns(slackwater.SlackwaterWarning) as found,
        slackwater.query(events, text, clock=clock),
    ):
        pass
    (said,) = [str(each.message) for each in found if "bagde" in str(each.message)]
    assert said == (
        "no event is of clock bagde, which clock names; there is badge, x; did you mean 'badge'?"
    )
    with (
        pytest.warns(slackwater.SlackwaterWarning) as found,
        slackwater.query({"ts": [1, 2], "type": ["A", "B"]}, text, clock=["s1=1ns"]),
    ):
        pass
    assert "there is s0" in str(found[0].message)
    with pytest.warns(slackwater.SlackwaterWarning, match="no event is of clock bagde"):
        slackwater.order(events, clock=clock).close()


@pytest.mark.parametrize("words", [["order"], ["query", "SELECT count(*) WINDOW TUMBLING 5"]])
def test_the_command_line_names_it_too(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.csv"
    file.write_text("ts,type,source\n1,A,door\n2,B,door\n")
    out = str(tmp_path / "out.jsonl")
    assert run([*words, "--input", str(file), "--clock", "dor=1ns", "--out", out, "--quiet"]) == 0
    assert "no event is of clock dor, which --clock names" in capfd.readouterr().err
