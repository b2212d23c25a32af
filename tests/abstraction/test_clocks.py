"""Intervals of readings that devices have stamped: an interval is by one clock."""

from __future__ import annotations

from slackwater.edge_agent.abstraction.machine import (
    Abstraction,
    EndedInterval,
    EventReader,
    IntervalBegin,
)
from slackwater.edge_agent.abstraction.settings import AbstractSettings
from slackwater.edge_agent.abstraction.stored_state import interval_rows
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import Row

READS = StreamSchema("r", {"tag": "str"})
INTO = StreamSchema("i", {"tag": "str", "cut": "str", "readings": "int"})
PRESENCE = AbstractSettings(
    stream="r", into="i", kind="presence", type="HERE", by=("tag",), gap_ns=10
)


def read(machine: Abstraction, *reads: tuple[int, str | None]) -> None:
    rows = [Row(ts, ts, None, None, ("x",), clock) for ts, clock in reads]
    EventReader(machine, READS).take(rows, 0)


def test_an_interval_ends_where_the_clock_of_its_readings_was_set() -> None:
    machine = Abstraction(PRESENCE)
    read(machine, (1, "a#1"), (2, "a#1"), (5, "a#2"), (6, "a#2"))
    machine.finish()
    made = machine.outputs()
    ended = [each for each in made if isinstance(each, EndedInterval)]
    assert [(each.ts, each.te, each.cut, each.clock) for each in ended] == [
        (1, 2, "clock", "a#1"), (5, 6, "eos", "a#2"),
    ]  # fmt: skip
    assert [each.clock for each in made if isinstance(each, IntervalBegin)] == ["a#1", "a#2"]
    rows = interval_rows(INTO, ended)
    assert [(row.attrs, row.clock) for row in rows] == [
        (("x", "clock", 2), "a#1"), (("x", "eos", 2), "a#2"),
    ]  # fmt: skip


def test_readings_of_two_devices_are_two_things() -> None:
    machine = Abstraction(PRESENCE)
    read(machine, (1, "a#1"), (2, "b#1"), (3, "a#1"), (4, "b#1"), (5, None))
    machine.finish()
    ended = [each for each in machine.outputs() if isinstance(each, EndedInterval)]
    assert {(each.ts, each.te, each.clock) for each in ended} == {
        (1, 3, "a#1"), (2, 4, "b#1"), (5, 5, None),
    }  # fmt: skip


def test_the_clock_outlives_the_process() -> None:
    machine = Abstraction(PRESENCE)
    read(machine, (1, "a#1"))
    (key,) = machine.things()
    state = machine.state_of(key)
    assert state is not None
    again = Abstraction(PRESENCE)
    again.restore(key, state, 0)
    read(again, (3, "a#1"))
    again.finish()
    (ended,) = [each for each in again.outputs() if isinstance(each, EndedInterval)]
    assert (ended.ts, ended.te, ended.clock) == (1, 3, "a#1")
