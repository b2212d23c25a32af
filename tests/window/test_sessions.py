"""Sessions: by definition, by pandas, by every clock error, late, cut and restored."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.query import query
from engine.stream.released import IN_ORDER, LATE, Released, Strings
from engine.window.kinds import windows_of
from engine.window.session.windows import SessionWindows
from engine.window.settings import WindowSettings
from tests.window.conftest import Event, Stream, batch, run

FIVE = "count(*), sum(v), avg(v), min(v), max(v), median(v), stddev(v)"


def sessions(
    text: str, stream: Stream, cuts: tuple[int, ...] = (), horizon: int | None = None
) -> Any:
    plan = query(text)
    made = WindowSettings(correction_horizon_ns=horizon)
    return run(lambda: windows_of(plan, made), stream, cuts, 10**6)  # type: ignore[arg-type, return-value]


def brief(results: list[dict[str, Any]], *more: str) -> list[tuple[Any, ...]]:
    return [
        (r["op"], r["at"], r["window"]["start"], r["window"]["end"], *(r[m] for m in more))
        for r in results
    ]


def net(results: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What stands at the end; a retraction repeats what it takes back."""
    standing: list[dict[str, Any]] = []
    for result in results:
        content = {name: value for name, value in result.items() if name not in {"op", "at"}}
        if result["op"] == "+":
            standing.append(content)
        else:
            standing.remove(content)
    return sorted(
        (
            str(r["key"].get("g")), r["window"]["start"], r["window"]["end"],
            tuple(r["value"].values()), r["certainty"],
        )
        for r in standing
    )  # fmt: skip


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
    found = sessions("SELECT count(*) WINDOW SESSION 10", Stream(events))
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
    found = sessions("SELECT count(*) GROUP BY g WINDOW SESSION 10", stream)
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
        found = sessions(text, Stream((Event(first, unc=2), Event(second, unc=2))))
        assert {r["certainty"] for r in found} == {certainty}
        for r in found:
            n = r["value"]["count(*)"]
            sure = certainty == "confirmed"
            assert (r["certain"], r["ambiguous"]) == ((n, 0) if sure else (0, n))
            assert r["bounds"]["count(*)"] == ([n, n] if sure else [None, None])
    alike = tuple(Event(ref, unc=2, epoch=4) for ref in (1, 10, 21))
    assert {r["certainty"] for r in sessions(text, Stream(alike))} == {"confirmed"}


def test_missing_counts_what_may_lie_beside_and_is_corrected() -> None:
    late = Event(9, status=LATE, seq=7, release=70)
    stream = Stream(
        (Event(5), Event(40), late, Event(80, release=80)),
        gaps=((1, "s0", 7, 2, 5, 40), (1, "s0", 21, 1, 30, 36)),
    )
    found = sessions("SELECT count(*) WINDOW SESSION 10", stream)
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
            unc=draw(st.sampled_from([0, 0, 1, 2])),
            seq=place,
        )
        if draw(st.integers(0, 3)) == 0:
            late.append(Event(**{**vars_of(event), "status": LATE}))
        else:
            rows.append(event)
    for event in late:
        rows.insert(draw(st.integers(0, len(rows))), event)
    cuts = tuple(draw(st.lists(st.integers(0, n), max_size=3)))
    return Stream(tuple(rows)), cuts


def vars_of(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__dataclass_fields__}


@given(case=disordered(), gap=st.sampled_from([5, 6, 9]))
@settings(max_examples=75, deadline=None)
def test_any_disorder_any_cut_ends_as_defined(
    case: tuple[Stream, tuple[int, ...]], gap: int
) -> None:
    stream, cuts = case
    text = f"SELECT count(*), sum(v), min(v), max(v), median(v) GROUP BY g WINDOW SESSION {gap}"
    found = sessions(text, stream)
    assert sessions(text, stream, cuts) == found
    expected = []
    for key, group in by_definition(stream.events, gap).items():
        for members in group:
            v = [event.v for event in members]
            values = (len(v), sum(v), min(v), max(v), float(np.median(v)))
            end = members[-1].ref + gap
            expected.append((str(key), members[0].ref, end, values))
    assert [one[:4] for one in net(found)] == sorted(expected)


@given(case=disordered(), gap=st.sampled_from([5, 6]))
@settings(max_examples=30, deadline=None)
def test_certainty_and_bounds_are_those_of_all_clock_errors(
    case: tuple[Stream, tuple[int, ...]], gap: int
) -> None:
    stream = Stream(case[0].events[:6])
    aggregates = "count(*), sum(v), avg(v), min(v), max(v)"
    standing: dict[tuple[Any, int], Any] = {}
    for each in sessions(f"SELECT {aggregates} GROUP BY g WINDOW SESSION {gap}", stream):
        standing[each["key"]["g"], each["window"]["start"]] = each if each["op"] == "+" else None
    for key, group in by_definition(stream.events, gap).items():
        events = [event for session in group for event in session]
        for members in group:
            told = standing[key, members[0].ref]
            found = possible(members, group, gap)
            assert told["certainty"] == ("confirmed" if len(found) == 1 else "uncertain")
            for name, bounds in told["bounds"].items():
                if len(found) > 1:  # nothing is claimed, so nothing that is too narrow
                    assert bounds == [None, None]
                    continue
                (session,) = found
                exact = of_values(name, [events[place].v for place in session])
                assert bounds == pytest.approx([exact, exact])


def of_values(aggregate: str, values: list[Any]) -> float:
    functions = {"count": len, "sum": sum, "avg": np.mean, "min": min, "max": max}
    return float(functions[aggregate.partition("(")[0]](values))


def many(n: int, seed: int) -> Released:
    random = np.random.default_rng(seed)
    ref = np.sort(random.integers(0, 20 * n, n))
    columns = {
        "ref": ref, "unc": np.zeros(n, np.int64), "epoch": np.full(n, -1), "release": ref,
        "status": np.full(n, IN_ORDER, np.int8), "source": np.zeros(n, np.int32),
        "stream": np.zeros(n, np.int32), "seq": np.arange(n),
        "attrs.g": random.integers(0, 20, n), "attrs.v": random.normal(size=n),
    }  # fmt: skip
    return Released(n, columns, {"g": "int", "v": "float"}, Strings(["events"]), 0)


def test_in_order_it_is_what_pandas_and_duckdb_say() -> None:
    n, gap = 20_000, 500
    released = many(n, 3)
    operator = windows_of(query(f"SELECT {FIVE} GROUP BY g WINDOW SESSION {gap}"))
    assert isinstance(operator, SessionWindows)
    found = [*operator.process(released), *operator.finish(10**9)]
    frame = pd.DataFrame(
        {
            name: released.columns[c]
            for name, c in (("g", "attrs.g"), ("v", "attrs.v"), ("t", "ref"))
        }
    )
    frame["new"] = frame.groupby("g")["t"].diff().fillna(gap) >= gap
    frame["session"] = frame.groupby("g")["new"].cumsum()
    grouped = frame.groupby(["g", "session"])
    expected = grouped["v"].agg(
        ["count", "sum", "mean", "min", "max", "median", lambda v: v.std(ddof=0)]
    )
    start = grouped["t"].min()
    told = {(r["key"]["g"], r["window"]["start"]): tuple(r["value"].values()) for r in found}
    assert len(told) == len(found) == len(expected) > 500
    for (g, session), values in zip(expected.index, expected.to_numpy(), strict=True):
        assert told[g, start[g, session]] == pytest.approx(tuple(values), abs=1e-9)
    assert sum(r["value"]["count(*)"] for r in found) == n
