"""WHERE on times is as uncertain as the windows' own ends: by definition, over all clock errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import Strings
from slackwater.engine.operators.window.settings import SURE
from slackwater.engine.operators.window.time_windows import TimeWindows
from slackwater.engine.operators.window.uncertainty.bounds import select_rows
from slackwater.engine.query import query
from slackwater.engine.query.plan import WindowPlan
from tests.window.conftest import Event, Stream, batch, run

SIZE = 10
Holds = Callable[[int, int], bool]
WHERE: dict[str, Holds] = {
    "ref >= 20": lambda t, _: t >= 20,
    "ts < 17": lambda t, _: t < 17,
    "ref = 15": lambda t, _: t == 15,
    "ref != 15": lambda t, _: t != 15,
    "ref IN (8, 12, 25)": lambda t, _: t in (8, 12, 25),
    "NOT (ref > 13 AND ref <= 16)": lambda t, _: not 13 < t <= 16,
    "ref < 12 OR te > 21": lambda t, _: t < 12 or t > 21,
    "ref + v > 18": lambda t, v: t + v > 18,
    "v > 0 AND ref > 14": lambda t, v: v > 0 and t > 14,
    "ref * 2 - v <= 31": lambda t, v: t * 2 - v <= 31,
    "v * ref > 40": lambda t, v: v * t > 40,
    "ref - ts >= v": lambda _, v: v <= 0,
}  # fmt: skip
AGGREGATES = ("count(*)", "sum(v)", "avg(v)", "min(v)", "max(v)")


def plan(where: str) -> WindowPlan:
    made = query(f"SELECT {', '.join(AGGREGATES)} FROM events WHERE {where} WINDOW TUMBLING {SIZE}")
    assert isinstance(made, WindowPlan)
    return made


def by_definition(events: list[Any], holds: Holds) -> dict[int, dict[str, Any]]:
    """Per window what certainly and perhaps lies in it; each event has a clock of its own."""
    options: dict[int, list[tuple[int, bool, bool]]] = {}
    for event in events:
        errors = range(-event.unc, event.unc + 1)
        for k in {(event.ref + e) // SIZE for e in errors}:
            where = [(event.ref + e) // SIZE == k and holds(event.ref + e, event.v) for e in errors]
            if any(where):
                options.setdefault(k, []).append((event.v, all(where), where[event.unc]))
    return {k: summary(of) for k, of in options.items()}


def summary(events: list[tuple[int, bool, bool]]) -> dict[str, Any]:
    sure = [v for v, always, _ in events if always]
    perhaps = [v for v, always, _ in events if not always]
    found = [
        [*sure, *itertools.compress(perhaps, taken)]
        for taken in itertools.product((0, 1), repeat=len(perhaps))
    ]
    some = [values for values in found if values]
    bounds = {
        name: [min(map(of, some)), max(map(of, some))]
        for name, of in (("sum(v)", sum), ("avg(v)", mean), ("min(v)", min), ("max(v)", max))
    }
    bounds["count(*)"] = [len(sure), len(events)]
    measured = [v for v, _, nominal in events if nominal]
    return {
        "certain": len(sure), "ambiguous": len(perhaps), "bounds": bounds,
        "value": {
            "count(*)": len(measured), "sum(v)": sum(measured) if measured else None,
            "avg(v)": mean(measured) if measured else None,
            "min(v)": min(measured, default=None), "max(v)": max(measured, default=None),
        },
    }  # fmt: skip


EVENTS = st.lists(
    st.tuples(st.integers(0, 32), st.integers(-6, 6), st.integers(0, 7)), min_size=1, max_size=6
)


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("(ref - 7) * (ref - 9) < 0", lambda t: (t - 7) * (t - 9) < 0),
        ("100 / (ref - 8) > 40", lambda t: t != 8 and 100 / (t - 8) > 40),
        ("NOT ref * ref >= 70 AND v > 0", lambda t: t * t < 70),
    ],
)
@given(drawn=EVENTS)
@example(drawn=[(10, 1, 5)])  # true at 8 alone, neither as measured nor at an end of its range
def test_products_of_times_are_certain_under_all_errors_alone(
    where: str, holds: Callable[[int], bool], drawn: list[tuple[int, int, int]]
) -> None:
    events = [Event(ref, v=1 + abs(v), unc=unc) for ref, v, unc in sorted(drawn)]
    found = select_rows(plan(where).where, batch(Stream(tuple(events)), Strings()), 10**6)  # type: ignore[arg-type]
    for n, event in enumerate(events):
        true = [holds(event.ref + e) for e in range(-event.unc, event.unc + 1)]
        if found is not None and found.taken[n] and found.how[n] == SURE:
            assert all(true)
        elif found is not None and not found.taken[n]:
            assert not any(true)


def mean(values: list[int]) -> Fraction:
    return Fraction(sum(values), len(values))


@settings(max_examples=50)
@given(where=st.sampled_from(list(WHERE)), drawn=EVENTS, cut=st.integers(0, 6))
@example(where="ref >= 20", drawn=[(18, 5, 3)], cut=0)  # out as measured, in under some errors
@example(where="ref >= 20", drawn=[(19, 5, 3)], cut=0)  # and never in the window that ends at 20
@example(where="ref = 15", drawn=[(15, 5, 2), (25, 1, 0)], cut=1)
def test_equals_windows_over_all_errors(
    where: str, drawn: list[tuple[int, int, int]], cut: int
) -> None:
    events = [Event(ref, v=v, unc=unc) for ref, v, unc in sorted(drawn)]
    results = run(lambda: TimeWindows(plan(where)), Stream(tuple(events)), (cut,), 99)
    expected = by_definition(events, WHERE[where])
    emitted: dict[int, dict[str, Any]] = {}
    for each in results:
        k = each["window"]["start"] // SIZE
        if each["op"] == "-":  # an event that is only perhaps in it came after its end
            assert emitted.pop(k) | {"op": "-", "at": each["at"]} == each
        else:
            assert k not in emitted
            emitted[k] = each
    assert set(emitted) == set(expected)
    for k, want in expected.items():
        got = emitted[k]
        assert (got["certain"], got["ambiguous"]) == (want["certain"], want["ambiguous"])
        for name in AGGREGATES:
            assert got["value"][name] == pytest.approx(want["value"][name]), name
            assert got["bounds"][name] == [
                pytest.approx(float(end)) for end in want["bounds"][name]
            ], name


def test_large_times_are_split_to_the_nanosecond() -> None:
    day = 1_700_000_000_123_456_789
    events = (Event(day, v=1, unc=10**9), Event(day + 1, v=1, unc=10**9))
    released = batch(Stream(events), Strings())
    found = select_rows(plan(f"ref > {day + 5}").where, released, 2**40)  # type: ignore[arg-type]
    assert found is not None
    assert found.taken.all()
    assert np.array_equal(found.low, [day + 6, day + 6])
    assert np.array_equal(found.high, [day + 10**9, day + 1 + 10**9])


@settings(max_examples=30)
@given(where=st.sampled_from(list(WHERE)), drawn=EVENTS, unc=st.integers(1, 7))
def test_where_one_clock_is_shared_bounds_hold_under_each_of_its_errors(
    where: str, drawn: list[tuple[int, int, int]], unc: int
) -> None:
    events = [Event(ref, v=v, unc=unc, epoch=1) for ref, v, _ in sorted(drawn)]
    results = run(lambda: TimeWindows(plan(where)), Stream(tuple(events)), (), 99)
    emitted = {each["window"]["start"] // SIZE: each["bounds"] for each in results}
    for error in range(-unc, unc + 1):
        there: dict[int, list[int]] = {}
        for event in events:
            time = event.ref + error
            if WHERE[where](time, event.v):
                there.setdefault(time // SIZE, []).append(event.v)
        for k, values in there.items():
            for name, of in (("count(*)", len), ("sum(v)", sum), ("avg(v)", mean),
                             ("min(v)", min), ("max(v)", max)):  # fmt: skip
                least, most = emitted[k][name]
                assert least - 1e-9 <= of(values) <= most + 1e-9, (name, error)


@pytest.mark.parametrize("drift", ["each", "together"])
def test_the_three_windows_of_drift_go_by_the_measured_time(drift: str) -> None:
    text = f"SELECT count(*) FROM events WHERE ref >= 12 WINDOW TUMBLING 10 DRIFT {drift}"
    made = query(text)
    assert isinstance(made, WindowPlan)
    events = (Event(11, unc=2), Event(13, unc=2), Event(16, unc=1))
    stream = Stream(events, t_a=4)
    result = run(lambda: TimeWindows(made), stream, (1,), 99)[-1]
    assert result["window"]["start"] == 10
    assert (result["certain"], result["ambiguous"]) == (1, 2)
    assert result["bounds"] == {"count(*)": [1, 3]}
    if drift == "together":  # 11 is out as measured, whatever the shift
        three = [result[name]["count(*)"] for name in ("low", "middle", "high")]
        assert three == [2, 2, 2]
