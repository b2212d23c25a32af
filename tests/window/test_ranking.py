"""ORDER BY ... LIMIT k: of each window its first groups, whatever comes late, cut and restored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UserError
from engine.query import query
from engine.stream.released import IN_ORDER, LATE
from engine.window.kinds import windows_of
from engine.window.settings import WindowSettings
from tests.window.conftest import Event, Stream, run
from tests.window.test_one_event_each import streams


def told(
    text: str, stream: Stream, cuts: tuple[int, ...] = (), horizon: int = 10**5
) -> list[dict[str, Any]]:
    plan, made = query(text), WindowSettings(correction_horizon_ns=horizon)
    return run(lambda: windows_of(plan, made), stream, cuts, 10**6)  # type: ignore[arg-type, return-value]


def brief(results: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["op"], r["at"], r["key"]["g"], *r["value"].values()) for r in results]


def test_the_largest_groups_come_first_and_equal_ones_by_key() -> None:
    events = tuple(
        Event(at, v=v, key=key)
        for at, (key, v) in enumerate([("b", 5), ("a", 5), ("c", 7), ("d", None), ("e", 1)])
    )
    text = "SELECT sum(v) GROUP BY g ORDER BY sum(v) DESC LIMIT 2 WINDOW TUMBLING 100"
    assert brief(told(text, Stream(events))) == [("+", 10**6, "c", 7), ("+", 10**6, "a", 5)]
    text = (
        "SELECT sum(v) AS s, count(*) GROUP BY g ORDER BY count(*), s LIMIT 9 WINDOW TUMBLING 100"
    )
    assert [r["key"]["g"] for r in told(text, Stream(events))] == ["e", "a", "b", "c", "d"]
    text = "SELECT first(source) AS f GROUP BY g ORDER BY f DESC LIMIT 1 WINDOW TUMBLING 100"
    by_text = tuple(Event(at, key=at, source=name) for at, name in enumerate(["x", "z", "y"]))
    assert brief(told(text, Stream(by_text))) == [("+", 10**6, 1, "z")]


def test_a_correction_moves_another_group_out_and_in_again() -> None:
    events = (
        Event(1, v=5, key="a"), Event(2, v=3, key="b"), Event(12, v=0, key="a"),
        Event(3, v=4, key="b", status=LATE), Event(4, v=-9, key="b", status=LATE),
        Event(5, v=1, key="c", status=LATE),
    )  # fmt: skip
    text = "SELECT sum(v) GROUP BY g ORDER BY sum(v) DESC LIMIT 1 WINDOW TUMBLING 10"
    assert brief(told(text, Stream(events))) == [
        ("+", 2, "a", 5), ("-", 3, "a", 5), ("+", 3, "b", 7), ("-", 4, "b", 7), ("+", 4, "a", 5),
        ("+", 10**6, "a", 0),
    ]  # fmt: skip


def test_having_comes_first() -> None:
    events = tuple(Event(at, v=at, key=at) for at in range(6))
    text = (
        "SELECT max(v) AS most GROUP BY g HAVING most < 4 ORDER BY most DESC LIMIT 2 "
        "WINDOW TUMBLING 100"
    )
    assert [r["key"]["g"] for r in told(text, Stream(events))] == [3, 2]


def test_what_is_corrected_no_more_is_forgotten() -> None:
    text = "SELECT count(*) GROUP BY g ORDER BY count(*) LIMIT 1 WINDOW TUMBLING 10"
    operator = windows_of(query(text), WindowSettings(correction_horizon_ns=20))
    stream = Stream(tuple(Event(at, key=at % 3) for at in range(0, 1000, 4)))
    run(lambda: operator, stream)  # type: ignore[arg-type, return-value]
    assert 0 < len(operator.snapshot()["ranked"]) <= 4


@given(case=streams(), limit=st.integers(1, 3), horizon=st.sampled_from([0, 6, 10**5]))
@settings(max_examples=60, deadline=None)
def test_at_every_end_the_first_groups_of_what_stands_are_told(
    case: tuple[Stream, tuple[int, ...]], limit: int, horizon: int
) -> None:
    stream, cuts = case
    for window in ("TUMBLING 8", "SLIDING 8 EVERY 3"):
        text = f"SELECT sum(v) AS s, count(*) AS n GROUP BY source {{}} WINDOW {window}"
        every = told(text.format(""), stream, (), horizon)
        ranked = text.format(f"ORDER BY s DESC, n LIMIT {limit}")
        found = told(ranked, stream, (), horizon)
        assert told(ranked, stream, cuts, horizon) == found
        standing: dict[int, dict[str, Any]] = {}
        for r in every:
            mine = standing.setdefault(r["window"]["start"], {})
            if r["op"] == "+":
                mine[str(r["key"]["source"])] = r["value"]
            else:
                del mine[str(r["key"]["source"])]
        expected = {
            (start, key)
            for start, groups in standing.items()
            for key in sorted(
                groups,
                key=lambda k: (groups[k]["s"] is None, -(groups[k]["s"] or 0), groups[k]["n"], k),
            )[:limit]
        }
        shown: set[tuple[int, str]] = set()
        for r in found:
            place = r["window"]["start"], str(r["key"]["source"])
            if r["op"] == "+":
                assert place not in shown
                shown.add(place)
                assert len([one for one in shown if one[0] == place[0]]) <= limit
            else:
                shown.remove(place)
        assert shown == expected


def test_in_order_nothing_is_taken_back() -> None:
    stream = Stream(tuple(Event(at, v=at * 7 % 11, key=at % 5) for at in range(300)))
    text = "SELECT avg(v) GROUP BY g ORDER BY avg(v) LIMIT 2 WINDOW TUMBLING 20"
    found = told(text, stream, (50, 123))
    assert len(found) == 30
    assert {r["op"] for r in found} == {"+"}
    assert {event.status for event in stream.events} == {IN_ORDER}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT avg(v) GROUP BY g ORDER BY avg(v) LIMIT 2 WINDOW ROWS 3", "one of ROWS has one"),
        ("SELECT avg(v) ORDER BY avg(v) LIMIT 2 WINDOW TUMBLING 3", "there is one group"),
        (
            "SELECT avg(v) GROUP BY g ORDER BY nosuch(v) LIMIT 2 WINDOW TUMBLING 3",
            "unknown aggregate",
        ),
        ("SELECT avg(v) GROUP BY g ORDER BY avg(v) LIMIT 0 WINDOW TUMBLING 3", "LIMIT is a whole"),
        ("SELECT avg(v) GROUP BY g ORDER BY avg(v) WINDOW TUMBLING 3", "LIMIT"),
    ],
)
def test_what_cannot_be_ranked_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        query(text)
