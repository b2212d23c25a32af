"""Interval abstraction alone: the golden of SPEC 4.10, and all rules against their definition."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent.abstraction.machine import (
    ABSTRACTIONS_MAX,
    Abstraction,
    EndedInterval,
    IntervalBegin,
)
from slackwater.edge_agent.abstraction.settings import AbstractSettings
from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.messages import StreamSchema
from tests.abstraction.by_definition import Piece, Sample, intervals

SECOND = 10**9
BANDS = AbstractSettings(
    stream="climate", into="bands", kind="bands", value="celsius",
    bands=("LOW", 50, "MEDIUM", 100, "HIGH"),
)  # fmt: skip
STAY = AbstractSettings(
    stream="reads", into="stays", kind="presence", by=("tag",), type="STAY", gap_ns=5
)
DOOR = AbstractSettings(stream="doors", into="states", kind="states", value="state", type="DOOR_")
SPEC_READINGS = [55, 70, 95, 80, 110, 120, 90, 60, 30]


def summaries(made: Sequence[IntervalBegin | EndedInterval]) -> list[tuple[str, Any]]:
    return [
        ("begin", (each.type, each.ts)) if isinstance(each, IntervalBegin)
        else (each.type, (each.ts, each.te, each.cut))
        for each in made
    ]  # fmt: skip


def test_golden_of_spec_4_10_with_the_begin_at_each_start() -> None:
    machine = Abstraction(BANDS)
    made: list[IntervalBegin | EndedInterval] = []
    at = []
    for index, value in enumerate(SPEC_READINGS):
        machine.take([((), 2 * index, value)], 0)
        new = machine.outputs()
        at += [2 * index] * len(new)
        made += new
    assert list(zip(at, summaries(made), strict=True)) == [
        (0, ("begin", ("MEDIUM", 0))),
        (8, ("MEDIUM", (0, 8, None))),
        (8, ("begin", ("HIGH", 8))),
        (12, ("HIGH", (8, 12, None))),
        (12, ("begin", ("MEDIUM", 12))),
        (16, ("MEDIUM", (12, 16, None))),
        (16, ("begin", ("LOW", 16))),
    ]
    machine.finish()
    assert summaries(machine.outputs()) == [("LOW", (16, 16, "eos"))]


def test_an_interval_has_the_id_of_its_begin_and_no_other_has_it() -> None:
    machines = [Abstraction(BANDS, place, 7) for place in (0, 1)]
    ids: list[int] = []
    for machine in machines:
        machine.take([((), i, v) for i, v in enumerate(SPEC_READINGS)], 0)
        machine.finish()
        made = machine.outputs()
        begun = {each.id: each.ts for each in made if isinstance(each, IntervalBegin)}
        assert begun == {each.id: each.ts for each in made if isinstance(each, EndedInterval)}
        ids += begun
    assert len(set(ids)) == len(ids) == 8
    assert min(ids) == 7 * ABSTRACTIONS_MAX


def test_presence_ends_by_time_when_nothing_is_read() -> None:
    machine = Abstraction(replace(STAY, lag_ns=2))
    machine.take([(("a",), 100, None), (("b",), 101, None)], 1000)
    machine.take([(("a",), 104, None)], 1004)
    assert machine.next_wake() == 1008
    machine.wake(1007)
    assert [each for each in machine.outputs() if isinstance(each, EndedInterval)] == []
    machine.wake(1008)
    assert [(each.key, each.ts, each.te, each.cut) for each in ended(machine)] == [
        (("b",), 101, 101, None)
    ]
    assert machine.next_wake() == 1012
    machine.wake(5000)
    assert [(each.key, each.ts, each.te, each.cut) for each in ended(machine)] == [
        (("a",), 100, 104, None)
    ]
    assert machine.next_wake() is None


def ended(machine: Abstraction) -> list[EndedInterval]:
    return [each for each in machine.outputs() if isinstance(each, EndedInterval)]


def test_what_has_no_value_is_left_out_and_counted() -> None:
    machine = Abstraction(BANDS)
    hostile = [None, math.nan, "hot", 10, None, math.nan, "cold", math.inf, -math.inf, 10**400]
    machine.take([((), i, value) for i, value in enumerate(hostile)], 0)
    machine.finish()
    assert [each[:2] for each in summaries(machine.outputs()) if each[0] != "begin"] == [
        ("LOW", (3, 7, None)), ("HIGH", (7, 8, None)), ("LOW", (8, 9, None)),
        ("HIGH", (9, 9, "eos")),
    ]  # fmt: skip
    assert machine.counts["no_value"] == 6


def test_a_state_is_named_by_its_value_if_that_can_be_a_name() -> None:
    machine = Abstraction(DOOR)
    machine.take([((), i, v) for i, v in enumerate([True, False, "", "x" * 10**5, 3])], 0)
    assert [each.type for each in machine.outputs() if isinstance(each, IntervalBegin)] == [
        "DOOR_true", "DOOR_false", "DOOR_3",
    ]  # fmt: skip


def test_more_things_than_there_is_room_for_end_the_oldest() -> None:
    machine = Abstraction(replace(STAY, keys_max=2))
    machine.take([((name,), 0, None) for name in "abc"], 0)
    assert [(each.key, each.cut) for each in ended(machine)] == [(("a",), "full")]


KINDS = st.sampled_from([BANDS, replace(BANDS, hysteresis=8), STAY, DOOR])
STEPS = st.one_of(st.integers(0, 4), st.integers(-8, 30))
VALUES = st.one_of(
    st.sampled_from([40, 45, 49, 50, 51, 55, 59, 95, 100, 101, 110]),
    st.sampled_from([None, math.nan]),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[AbstractSettings, dict[str, list[Sample]], list[str]]:
    kind = draw(KINDS)
    gap = draw(st.integers(1, 12)) if kind.kind == "presence" else draw(st.integers(0, 12))
    chosen = replace(
        kind, by=("tag",), gap_ns=gap, min_ns=draw(st.integers(0, 5)),
        max_ns=draw(st.sampled_from([0, 5, 9])) if gap else 0,
        clock_step_ns=draw(st.integers(0, 6)),
    )  # fmt: skip
    values = st.sampled_from(["on", "off", None]) if kind is DOOR else VALUES
    samples: dict[str, list[Sample]] = defaultdict(list)
    order = draw(st.lists(st.sampled_from("ab"), max_size=30))
    clock = dict.fromkeys("ab", 100)
    for tag in order:
        clock[tag] += draw(STEPS)
        samples[tag].append((clock[tag], draw(values)))
    return chosen, samples, order


def rows(samples: dict[str, list[Sample]], order: Sequence[str]) -> list[tuple[Any, int, Any]]:
    left = {tag: iter(those) for tag, those in samples.items()}
    return [((tag,), *next(left[tag])) for tag in order]


def pieces(made: Sequence[IntervalBegin | EndedInterval], tag: str) -> list[Piece]:
    begun = {each.id for each in made if isinstance(each, IntervalBegin)}
    return [
        Piece(each.ts, each.te, each.type, each.cut, each.readings, each.id in begun)
        for each in made
        if isinstance(each, EndedInterval) and each.key == (tag,)
    ]


@settings(max_examples=75)
@given(case=cases(), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_intervals_are_those_of_the_definition_however_readings_are_cut(
    case: tuple[AbstractSettings, dict[str, list[Sample]], list[str]], cuts: list[int]
) -> None:
    chosen, samples, order = case
    readings = rows(samples, order)
    machine = Abstraction(chosen)
    low = 0
    while low < len(readings):
        high = low + cuts[low % len(cuts)]
        machine.take(readings[low:high], 0)
        low = high
    machine.finish()
    made = machine.outputs()
    for tag in "ab":
        assert pieces(made, tag) == intervals(chosen, samples[tag])
    begun = [each.id for each in made if isinstance(each, IntervalBegin)]
    assert len(begun) == len(set(begun)) == machine.counts["begins"]


@settings(max_examples=50)
@given(
    times=st.lists(st.integers(0, 14), max_size=20), late=st.lists(st.integers(0, 3), min_size=20),
    early=st.lists(st.integers(0, 400), max_size=20),
)  # fmt: skip
def test_readings_that_come_within_the_lag_give_what_all_of_them_together_give(
    times: list[int], late: list[int], early: list[int]
) -> None:
    """Wherever alarms fire, also when none does."""
    chosen = replace(STAY, lag_ns=3)
    samples: list[Sample] = []
    clock = 0
    for step in times:
        clock += step
        samples.append((clock, None))
    machine = Abstraction(chosen)
    at = 0
    alarms = sorted(early)
    for (ts, _), delay in zip(samples, late, strict=False):
        at = max(at, ts + delay)
        for alarm in [each for each in alarms if each <= at]:
            machine.wake(alarm)
        machine.take([(("a",), ts, None)], at)
    machine.finish()
    expected = intervals(chosen, samples)
    if expected:  # what is open at the end, or was ended by the last alarm
        machine_last = pieces(out := machine.outputs(), "a")
        assert [replace_cut(each) for each in machine_last] == [replace_cut(x) for x in expected]
        assert len({each.id for each in out}) == len(expected)


def replace_cut(piece: Piece) -> Piece:
    return replace(piece, cut=None)


@settings(max_examples=30)
@given(case=cases())
def test_a_restart_after_any_reading_changes_nothing(
    case: tuple[AbstractSettings, dict[str, list[Sample]], list[str]],
) -> None:
    chosen, samples, order = case
    readings = rows(samples, order)
    through = Abstraction(chosen)
    through.take(readings, 0)
    through.finish()
    expected = through.outputs()
    machine, made = Abstraction(chosen), []
    for reading in readings:
        machine.take([reading], 0)
        made += machine.outputs()
        again = Abstraction(chosen, 0, machine.next)
        for key in machine.things():
            state = machine.state_of(key)
            assert state is not None
            again.restore(key, state, 0)
        machine = again
    machine.finish()
    assert made + machine.outputs() == expected


SCHEMA = StreamSchema("climate", {"celsius": "float", "name": "str", "tag": "str"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "presence", "type": "STAY"}, "gap: presence needs one"),
        ({"kind": "trends"}, "kind: 'trends' is none of bands, presence, states"),
        ({"bands": ("LOW", 50)}, "bands: write names and the edges between"),
        ({"bands": ("LOW", 50, "HIGH", 50, "TOP")}, "bands: edges must rise"),
        ({"bands": ("LOW", math.nan, "HIGH")}, "bands: nan is no edge"),
        ({"bands": ("LOW", True, "HIGH")}, "bands: True is no edge"),
        ({"bands": ("LOW", [], "HIGH")}, "bands: [] is no edge"),
        ({"bands": ("LOW", 1, "LOW")}, "bands: two have one name"),
        ({"bands": (5, 1, "LOW")}, "bands: 5 stands where a name should"),
        ({"hysteresis": -1.0}, "hysteresis: must be a number, not negative"),
        ({"hysteresis": math.nan}, "hysteresis: must be a number, not negative"),
        ({"into": "climate"}, "into: intervals have a stream of their own"),
        ({"max_ns": 5}, "max: needs a gap"),
        ({"max_ns": 5, "gap_ns": 9, "min_ns": 6}, "max: must not be below min"),
        ({"min_ns": -1}, "min: must not be negative"),
        ({"lag_ns": 1}, "lag: is of no use without a gap"),
        ({"by": ("tag", "tag")}, "by: names must differ"),
        ({"by": ("cut",)}, "by: names must differ"),
        ({"value": ""}, "value: bands need one"),
        ({"keys_max": 0}, "keys_max: must be at least 1"),
    ],
)
def test_wrong_settings_are_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as error:
        replace(BANDS, **change)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"value": "kelvin"}, "value: stream climate has no attribute kelvin; it has: celsius"),
        ({"value": "name"}, "value: name is no number; bands are of int or float"),
        ({"by": ("shelf",)}, "by: stream climate has no attribute shelf"),
        ({"by": ("celsius",)}, "by: celsius is a float, which names nothing for sure"),
    ],
)
def test_settings_that_do_not_fit_the_stream_are_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as error:
        replace(BANDS, **change).schema(SCHEMA)
    assert str(error.value).startswith(said)
