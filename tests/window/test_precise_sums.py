"""Sums, means and deviations of numbers that are large against what they differ by."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import IN_ORDER, LATE
from tests.window.conftest import Event, Stream
from tests.window.window_results import results_of, standing

CALLS = "sum(v), avg(v), var(v), stddev(v), min(v), max(v)"
KINDS = (
    "TUMBLING 40", "SLIDING 40 EVERY 10", "SLIDING 12 EVERY 5", "SESSION 3", "ROWS 4",
    "ROWS 5 EVERY 2",
)  # fmt: skip
EMITS = ("", " EMIT ON CHANGE", " EMIT EARLY EVERY 7")
ROUNDING = 1e-13
"""What it may take of a result: some hundred units in the last place."""


def exact(values: list[Any]) -> dict[str, float | None]:
    """From fractions, which lose nothing."""
    if not values:
        return dict.fromkeys(CALLS.split(", "))
    fractions = [Fraction(value) for value in values]
    mean = sum(fractions) / len(fractions)
    var = float(sum((x - mean) ** 2 for x in fractions) / len(fractions))
    return {
        "sum(v)": float(sum(fractions)), "avg(v)": float(mean), "var(v)": var,
        "stddev(v)": var**0.5, "min(v)": min(values), "max(v)": max(values),
    }  # fmt: skip


@pytest.mark.parametrize("base", [10**9, 1e9])
def test_the_variance_of_numbers_near_a_billion_loses_nothing(base: float) -> None:
    """At 1e9 the mean of a running sum is off by 1e-7, and so was the variance, by 1e-9."""
    values = [base + n * 7919 % 11 for n in range(300)]
    events = tuple(Event(n, v=v) for n, v in enumerate(values))
    for kind in ("SLIDING 100 EVERY 10", "SLIDING 7 EVERY 2", "TUMBLING 8", "ROWS 6", "SESSION 5"):
        for result in results_of(f"SELECT {CALLS} WINDOW {kind}", Stream(events)):
            window = result["window"]
            inside = values[max(0, window["start"]) : window["end"] + kind.startswith("ROWS")]
            assert alike(result["value"], exact(inside)), (kind, window)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Stream, tuple[int, ...]]:
    """Some of integers alone, some of floats, some of integers that become floats; some late."""
    kind = draw(st.sampled_from(["int", "float", "both"]))
    base = draw(st.sampled_from([0, 10**9, -(10**12), *([18 * 10**17, 2**62] * (kind == "int"))]))
    refs = sorted(draw(st.lists(st.integers(0, 80), min_size=1, max_size=25)))
    events = []
    for n, ref in enumerate(refs):
        v: int | float | None = base + draw(st.integers(-5, 5))
        if kind == "float" or (kind == "both" and n > len(refs) // 2):
            v = float(v or 0) + draw(st.sampled_from([0.0, 0.1, -0.5, 3.7]))
        v = None if draw(st.integers(0, 9)) == 0 else v
        late = draw(st.integers(0, 4)) == 0
        events.append(Event(ref, v=v, key=n % 2, status=LATE if late else IN_ORDER, seq=n))
    late = [event for event in events if event.status == LATE]
    rows = [event for event in events if event.status == IN_ORDER]
    for event in late:
        first = next((n for n, other in enumerate(rows) if other.ref > event.ref), len(rows))
        rows.insert(draw(st.integers(first, len(rows))), event)
    return Stream(tuple(rows)), tuple(draw(st.lists(st.integers(0, len(rows)), max_size=2)))


@given(streams(), st.sampled_from(KINDS), st.sampled_from(EMITS), st.booleans())
@settings(max_examples=40)
def test_all_are_what_fractions_give(
    case: tuple[Stream, tuple[int, ...]], kind: str, emit: str, by_key: bool
) -> None:
    stream, cuts = case
    group = " GROUP BY g" * by_key
    found = results_of(f"SELECT {CALLS}{group} WINDOW {kind}{emit}", stream, cuts)
    order = sorted(range(len(stream.events)), key=lambda row: (stream.events[row].ref, row))
    for result in standing(found):
        start, end = result["window"]["start"], result["window"]["end"]
        mine = [
            event for event in (stream.events[row] for row in order)
            if not by_key or event.key == result["key"]["g"]
        ]  # fmt: skip
        if kind.startswith("ROWS"):
            words = kind.split()
            size, every = int(words[1]), int(words[-1]) if len(words) > 2 else int(words[1])
            begins = range(0, len(mine), every)
            inside = [mine[n : n + size] for n in begins if mine[n].ref == start]
        else:
            inside = [[event for event in mine if start <= event.ref < end]]
        wanted = [exact([e.v for e in events if e.v is not None]) for events in inside]
        assert any(alike(result["value"], one) for one in wanted), (result["value"], wanted)


def alike(value: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """But for rounding; where all values are equal, exactly."""
    for name, number in wanted.items():
        if number is None or value[name] is None:
            if number is not value[name]:
                return False
        elif value[name] != pytest.approx(number, rel=ROUNDING, abs=0):
            return False
    return True
