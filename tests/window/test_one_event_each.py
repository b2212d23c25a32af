"""Aggregates that name events or values: first, last, min_by, max_by, count(DISTINCT), any kind."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import IN_ORDER, LATE, RESIDUAL, Strings
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.operators.window.time_windows import PaneWindows
from slackwater.engine.query import query
from tests.window.conftest import Event, Stream, batch
from tests.window.window_results import results_of, standing

CALLS = (
    "first(v)", "last(v)", "first(source)", "last(source)", "min_by(source, v)", "max_by(ts, v)",
    "min_by(v, ts)", "max_by(v, v * v)", "count(DISTINCT v)", "count(DISTINCT source)",
)  # fmt: skip


def by_definition(events: list[Event]) -> list[Any]:
    """Of events in order of time, of equal times in order of release."""
    some = [e for e in events if e.v is not None]
    if not some:
        return [
            None, None, events[0].source, events[-1].source, None, None, None, None, 0,
            len({e.source for e in events}),
        ]  # fmt: skip

    def at(least: Any) -> Event:
        return min(some, key=least)  # the first of equal ones

    return [
        some[0].v, some[-1].v, events[0].source, events[-1].source, at(lambda e: e.v).source,
        at(lambda e: -e.v).ref, some[0].v, at(lambda e: -e.v * e.v).v, len({e.v for e in some}),
        len({e.source for e in events}),
    ]  # fmt: skip


def windows(kind: str, events: list[Event]) -> list[tuple[int, int, list[Event]]]:
    """(start, end, members) of one group's windows by definition."""
    if not events:
        return []
    words = kind.split()
    size, step = int(words[1]), int(words[-1])
    if words[0] == "ROWS":
        groups = [events[k : k + size] for k in range(0, len(events) - size + 1, step)]
        return [(some[0].ref, some[-1].ref, some) for some in groups]
    if words[0] == "SESSION":
        cuts = [k for k in range(1, len(events)) if events[k].ref - events[k - 1].ref >= size]
        parts = [events[i:j] for i, j in itertools.pairwise([0, *cuts, len(events)])]
        return [(some[0].ref, some[-1].ref + size, some) for some in parts]
    first, last = (events[0].ref - size) // step + 1, events[-1].ref // step
    starts = [k * step for k in range(first, last + 1)]
    return [(s, s + size, [e for e in events if s <= e.ref < s + size]) for s in starts]


@st.composite
def streams(draw: st.DrawFn) -> tuple[Stream, tuple[int, ...]]:
    """Few times, so that many are equal; integers, then floats too, nulls, and -0.0."""
    n = draw(st.integers(1, 14))
    events = tuple(
        Event(
            draw(st.integers(0, 30)),
            v=draw(st.sampled_from([None, 3, -2, 0, 2, 7] + [0.0, -0.0, -1.5, 2.5] * (i > n // 2))),
            key=draw(st.sampled_from(["x", "y"])), source=draw(st.sampled_from(["s", "t", "u"])),
            status=draw(st.sampled_from([IN_ORDER, RESIDUAL, LATE])), seq=i,
        )
        for i in range(n)
    )  # fmt: skip
    return Stream(events), tuple(draw(st.lists(st.integers(0, n), max_size=3)))


@pytest.mark.parametrize(
    "kind", ["TUMBLING 8", "SLIDING 8 EVERY 2", "SLIDING 7 EVERY 3", "SESSION 3", "ROWS 3 EVERY 2"]
)
@given(case=streams())
@settings(max_examples=15)
def test_any_kind_any_disorder_any_cut_ends_as_defined(
    kind: str, case: tuple[Stream, tuple[int, ...]]
) -> None:
    stream, cuts = case
    # Windows of time share panes unless an aggregate needs all values: both ways.
    for calls in (CALLS, CALLS[:-2]):
        text = f"SELECT {', '.join(calls)} GROUP BY g WINDOW {kind}"
        found = results_of(text, stream)
        assert results_of(text, stream, cuts) == found
        expected = {
            (key, start, end): by_definition(members)[: len(calls)]
            for key in ("x", "y")
            for start, end, members in windows(
                kind, sorted((e for e in stream.events if e.key == key), key=lambda e: e.ref)
            )
            if members
        }
        emitted = {
            (r["key"]["g"], *r["window"].values()): [*r["value"].values()] for r in standing(found)
        }
        assert emitted == expected
    assert isinstance(windows_of(query(text)), PaneWindows) == kind.startswith("SLIDING")


def test_clocks_choose_among_the_windows_of_a_drift_variation() -> None:
    events = (Event(1, v=4, unc=3, source="p"), Event(9, v=5, unc=3, source="q"))
    text = "SELECT count(*), last(source) WINDOW TUMBLING 10 DRIFT TOGETHER"
    with pytest.raises(UserError, match="have no mean"):
        query(text)
    text = "SELECT last(v), count(DISTINCT source) WINDOW TUMBLING 10 DRIFT EACH"
    found = results_of(text, Stream(events, t_a=6))
    first = [r for r in found if r["window"]["start"] == 0]
    assert [(r["drift"], *r["value"].values()) for r in first] == [
        ("low", 4, 1), ("middle", 5, 2), ("high", 5, 1)
    ]  # fmt: skip


def test_text_is_refused_where_it_has_no_order_and_types_do_not_change() -> None:
    texts = Stream((Event(1, key="x"), Event(2, key="y")))
    with pytest.raises(UserError, match="'g' is text"):
        results_of("SELECT min_by(v, g) GROUP BY g WINDOW TUMBLING 10", texts)
    changed = Stream((Event(1, key="x"), Event(2, key=4)))
    operator, strings = windows_of(query("SELECT last(g) WINDOW TUMBLING 10")), Strings()
    operator.process(batch(texts, strings))
    with pytest.raises(UserError, match="was text before and is a number now"):
        operator.process(batch(replace(changed, events=changed.events[1:]), strings))


def test_a_text_is_known_as_long_as_a_window_tells_it() -> None:
    stream = Stream((Event(1, key="x"), Event(20, key="y")))
    operator, strings = windows_of(query("SELECT first(g) WINDOW TUMBLING 10")), Strings()
    operator.process(batch(stream, strings))
    codes = operator.codes()
    assert codes is not None
    assert {strings.code("x"), strings.code("y")} <= set(codes.tolist())
