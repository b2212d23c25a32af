"""Sliding windows: goldens, and windows made of panes beside each window by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.query import query
from engine.query.plan import Drift
from engine.stream.released import IN_ORDER, LATE, RESIDUAL, Strings
from engine.window.kinds import windows_of
from engine.window.panes.windows import PaneWindows
from engine.window.settings import WindowSettings
from engine.window.time_windows import TimeWindows

FIVE = "count(*), count(v), sum(v), avg(v), min(v), max(v), stddev(v), var(v)"


def brief(results: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["op"], r["window"]["start"], *r["value"].values()) for r in results]


def test_li_2008_windows_of_4_every_2_hold_an_event_twice(tools: Any) -> None:
    plan = query("SELECT count(*), sum(v) WINDOW SLIDING 4 EVERY 2")
    events = tuple(tools.Event(ref, v=ref) for ref in (1, 2, 3, 5, 8))
    late = tools.Event(4, v=10, status=LATE)
    results = tools.run(lambda: windows_of(plan), tools.Stream((*events, late)), (2,), 99)
    assert brief(results) == [
        ("+", -2, 1, 1), ("+", 0, 3, 6), ("+", 2, 3, 10), ("+", 4, 1, 5),
        ("-", 2, 3, 10), ("+", 2, 4, 20), ("-", 4, 1, 5), ("+", 4, 2, 15),
        ("+", 6, 1, 8), ("+", 8, 1, 8),
    ]  # fmt: skip


def test_a_window_between_two_events_of_which_one_is_missing_is_given_though_empty(
    tools: Any,
) -> None:
    plan = query("SELECT count(*) WINDOW SLIDING 4 EVERY 2")
    stream = tools.Stream((tools.Event(1), tools.Event(20)), gaps=((1, "s0", 7, 1, 9, 10),))
    results = tools.run(lambda: windows_of(plan), stream)
    assert [(r["window"]["start"], r["value"]["count(*)"], r["missing"]) for r in results] == [
        (-2, 1, 0), (0, 1, 0), (6, 0, 1), (8, 0, 1), (10, 0, 1),
    ]  # fmt: skip


def test_arithmetic_median_and_having_go_by_each_result(tools: Any) -> None:
    plan = query(
        "SELECT avg(v * 2 + 1) AS a, median(v), count(*) GROUP BY g "
        "HAVING a > 5 AND count(*) >= 2 WINDOW SLIDING 10 EVERY 5"
    )
    events = tuple(
        tools.Event(ref, v=v, key=key)
        for ref, v, key in ((11, 1, 0), (12, 9, 1), (13, 3, 1), (21, 1, 0))
    )
    late = tools.Event(14, v=7, key=0, status=LATE)
    results = tools.run(lambda: windows_of(plan), tools.Stream((*events, late)), (), 99)
    assert [(r["op"], r["key"]["g"], *r["value"].values()) for r in results] == [
        ("+", 1, 13.0, 6.0, 2), ("+", 1, 13.0, 6.0, 2),
        ("+", 0, 9.0, 4.0, 2), ("+", 0, 9.0, 4.0, 2),
    ]  # fmt: skip


def moved(tools: Any, seed: int, integers: bool) -> Any:
    """Rows of keys in disorder, of clocks that err by little and by much, some late."""
    random = np.random.default_rng(seed)
    n = 100
    ref = np.sort(random.integers(0, 300, n)) + random.integers(-30, 1, n)
    values = random.integers(-9, 9, n) if integers else random.normal(size=n)
    return tools.Stream(
        tuple(
            tools.Event(
                int(ref[i]), v=values[i].item(), key=int(random.integers(0, 3)),
                unc=int(random.choice([0, 1, 3, 40])),
                status=int(random.choice([IN_ORDER, IN_ORDER, IN_ORDER, RESIDUAL, LATE])),
            )
            for i in range(n)
        ),
        t_a=6,
    )  # fmt: skip


@pytest.mark.parametrize("drift", list(Drift))
@pytest.mark.parametrize(("size", "every"), [(40, 2), (50, 7), (8, 8)])
def test_panes_and_nodes_say_what_each_window_says_by_itself(
    tools: Any, drift: Drift, size: int, every: int
) -> None:
    ending = "" if drift is Drift.NONE else f" DRIFT {drift}"
    plan = query(f"SELECT {FIVE} GROUP BY g WINDOW SLIDING {size} EVERY {every}{ending}")
    settings = WindowSettings(correction_horizon_ns=100)
    stream = moved(tools, size, integers=False)
    made = tools.run(lambda: PaneWindows(plan, settings), stream, (20, 21, 70), 9999)
    whole = tools.run(lambda: TimeWindows(plan, settings), stream, (), 9999)
    assert len(made) == len(whole) > 30
    assert tools.run(lambda: PaneWindows(plan, settings), stream, (), 9999) == made
    for one, other in zip(made, whole, strict=True):
        for name in ("op", "at", "window", "key", "certain", "ambiguous", "missing"):
            assert one[name] == other[name]
        for name in ("value", "low", "middle", "high"):
            assert one[name] == (other[name] and pytest.approx(other[name], abs=1e-9))
        for label, pair in (one["bounds"] or {}).items():
            assert pair == pytest.approx(other["bounds"][label], abs=1e-9)


def test_panes_are_forgotten_when_no_window_needs_them(tools: Any) -> None:
    operator = windows_of(
        query("SELECT sum(v) GROUP BY g WINDOW SLIDING 64 EVERY 2"),
        WindowSettings(correction_horizon_ns=0),
    )
    assert isinstance(operator, PaneWindows)
    stream = tools.Stream(tuple(tools.Event(3 * i, key=i % 5) for i in range(4000)))
    strings = Strings()
    sizes = []
    for start in range(0, 4000, 1000):
        operator.process(tools.batch(stream, strings, start, start + 1000))
        sizes.append(len(operator.snapshot()["panes"]["cells"]["window"]))
    assert sizes[0] == sizes[-1] <= 512
