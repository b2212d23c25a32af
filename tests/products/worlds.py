"""A stream as it happened, and the records of it as they arrive: late, twice, never, by clocks that
err.

``World.events`` are plain dicts of what the receiver knows of each event that came: times on its
own clock, which ``World.moved`` sets to where they may have been in truth.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

Event = dict[str, Any]
"""``ts`` and ``te`` on the reference clock; ``n``: its place among what arrived; ``error``: so much
it may be off; ``clock``: events of one are off by as much; ``type``, ``stream``, ``source``,
``seq``, and its attributes ``v w g h``.
"""
Record = dict[str, Any]
ATTRIBUTES = ("v", "w", "g", "h")
SOURCES = ("p", "q", "r")
TYPES = ("A", "B", "C", "N")
FIRST_ARRIVAL = 100
LENGTHS = (0, 0, 2, 7)


@dataclass(frozen=True)
class World:
    """``late``: how far an event came at most behind the largest time before it. ``unruly``: what
    else is among the records, so that no plain Python says what the answer is.
    """

    records: list[Record]
    events: list[Event] = field(repr=False)
    errors: dict[str, int]
    late: int = 0
    lost: int = 0
    instants: bool = True
    tied: bool = False
    numbered_by_time: bool = True
    unruly: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return not any(self.errors.values())

    @property
    def alike(self) -> bool:
        """Whether all clocks err by as much."""
        return len(set(self.errors.values())) == 1

    @property
    def error(self) -> int:
        return max(self.errors.values())

    def moved(self, chance: random.Random, *, apart: bool) -> list[Event]:
        """The events where they may have happened. ``apart``: each errs by itself, by up to the
        largest error of any clock, as R19 takes it; else those of a source err together.
        """
        by = {source: chance.randint(-most, most) for source, most in self.errors.items()}
        found = []
        for event in self.events:
            off = chance.randint(-self.error, self.error) if apart else by[event["source"]]
            found.append(event | {"ts": event["ts"] + off, "te": event["te"] + off})
        return found


@dataclass
class _Drawn:
    """An event as Hypothesis gives it; ``delay``: on its way; -1: it never comes."""

    gap: int
    source: int
    type: str
    stream: str
    delay: int
    long: int
    again: bool
    attrs: dict[str, Any] = field(default_factory=dict)


_EVENTS = st.builds(
    _Drawn,
    gap=st.sampled_from([0, 1, 1, 2, 3, 5]),
    source=st.integers(0, 2),
    type=st.sampled_from("AABBCCN"),
    stream=st.sampled_from("ab"),
    delay=st.sampled_from([0, 0, 0, 2, 6, 15, 40, -1]),
    long=st.sampled_from(LENGTHS),
    again=st.sampled_from([False, False, False, True]),
    attrs=st.fixed_dictionaries({
        "v": st.integers(-3, 3) | st.none(),
        "w": st.sampled_from([-1.5, -0.25, 0.5, 2.0, 3.75, None]),
        "g": st.integers(0, 2),
        "h": st.sampled_from(["a", "b", None]),
    }),
)  # fmt: skip


UNRULY: dict[str, Record] = {
    "new offset": {"kind": "sync", "offset": 3, "delay": 2, "skew_error_ppb": 0},
    "clock set": {"kind": "sync", "offset": 60, "delay": 0, "skew_error_ppb": 0, "ts": 80},
    "line of offsets": {"kind": "sync", "offset": 4, "delay": 2, "precision": 1, "ts": 95},
    "new start": {"kind": "sync", "incarnation": 1},
    "begins at": {"kind": "sync", "first_seq": 2, "stream": "a"},
    "broken promise": {"kind": "pog", "ts": 110},
    "promise of a type": {"kind": "pog", "ts": 75, "type": "N"},
    "promise for all": {"kind": "pog", "ts": 90, "type": "A", "source": None},
    "promise with a number": {"kind": "pog", "ts": 100, "seq": 3, "stream": "a"},
    "the end": {"kind": "eos"},
    "end of a stream": {"kind": "eos", "stream": "a", "seq": 6},
    "begin": {"kind": "ibp", "type": "A", "id": 7, "ts": 66, "attrs": {"g": 1}},
    "its end": {"kind": "ibe", "type": "A", "id": 7, "ts": 90},
    "whole": {"type": "A", "id": 7, "ts": 66, "te": 90, "seq": 40, "stream": "b",
              "attrs": {"g": 1, "v": 2}},
    "jump": {"type": "B", "ts": 85, "te": 85, "seq": 10**6, "stream": "a", "attrs": {"g": 0}},
    "far ahead": {"type": "C", "ts": 10**6, "te": 10**6, "seq": 41, "stream": "b"},
    "without type": {"ts": 70, "te": 70, "seq": 42, "stream": "a", "attrs": {"v": 1, "g": 2}},
    "an earlier start": {"type": "A", "ts": 77, "te": 77, "seq": 0, "incarnation": 1,
                         "stream": "a", "attrs": {"v": 3}},
}  # fmt: skip
"""What may come between, with its source."""


@st.composite
def unruly_worlds(draw: st.DrawFn, most: int = 20) -> World:
    """With anything else in between that a trace may say, true or not."""
    world = draw(worlds(most))
    records = list(world.records)
    said = draw(st.lists(st.tuples(
        st.sampled_from(sorted(UNRULY)), st.sampled_from([*SOURCES, "never heard of"]),
        st.integers(0, most + 6),
    ), min_size=1, max_size=6))  # fmt: skip
    for name, source, place in said:
        now = records[min(place, len(records)) - 1]["arrival"] if place else 1
        more = {"source": source} | UNRULY[name] | {"arrival": now}
        records.insert(place, {key: value for key, value in more.items() if value is not None})
    return replace(world, records=records, unruly=tuple(name for name, *_ in said))


@st.composite
def worlds(draw: st.DrawFn, most: int = 20) -> World:
    n = draw(st.integers(1, most))  # lists by themselves are mostly short
    drawn = draw(st.lists(_EVENTS, min_size=n, max_size=n))
    errors = draw(st.sampled_from([(0, 0, 0), (0, 0, 0), (2, 2, 2), (0, 1, 3), (4, 0, 0)]))
    return world_of(
        drawn, errors, draw(st.sampled_from([(0, 0, 0), (0, 7, -30)])),
        instants=draw(st.sampled_from([True, True, False])),
        tied=draw(st.sampled_from([False, False, True])), by_time=draw(st.booleans()),
        promises=draw(st.sampled_from(["", "pog", "pog", "eos"])),
        step=draw(st.sampled_from([1, 3])), ticks=draw(st.booleans()),
    )  # fmt: skip


def world_of(
    drawn: Sequence[_Drawn], errors: Sequence[int], offsets: Sequence[int], *, instants: bool,
    tied: bool, by_time: bool, promises: str, step: int, ticks: bool,
) -> World:  # fmt: skip
    """``offsets``: reference minus source. ``by_time``: numbers go by time, else by arrival.
    ``step``: between two arrivals.
    """
    at, happened = 60, []
    for row, one in enumerate(drawn):
        at += one.gap if tied or not row else max(1, one.gap)
        happened.append((at, row, one))
    came = sorted(
        (each for each in happened if each[2].delay >= 0),
        key=lambda each: (each[0] + each[2].delay, each[1]),
    )
    numbers: dict[int, int] = {}
    counts: dict[tuple[int, str], int] = {}
    for _, row, one in happened if by_time else came:
        numbers[row] = counts.get((one.source, one.stream), 0)
        counts[one.source, one.stream] = numbers[row] + 1
    records: list[Record] = [
        {"kind": "sync", "source": source, "offset": offset, "delay": 2 * error, "arrival": 1,
         "skew_error_ppb": 0, "ts": 0}
        for source, error, offset in zip(SOURCES, errors, offsets, strict=True)
    ]  # fmt: skip
    events, newest, late, again = [], 0, 0, list[Record]()
    for place, (ref, row, one) in enumerate(came):
        now = FIRST_ARRIVAL + place * step
        if promises:
            records += _promised(came[place:], place, now, promises, offsets)
        if ticks and place % 4 == 3:
            records.append({"kind": "tick", "arrival": now})
        end = ref + (0 if instants else one.long)
        name, its = SOURCES[one.source], offsets[one.source]
        attrs = {key: value for key, value in one.attrs.items() if value is not None}
        record = {"source": name, "stream": one.stream, "seq": numbers[row], "type": one.type,
                  "ts": ref - its, "te": end - its, "arrival": now, "attrs": attrs}  # fmt: skip
        records.append(record)
        again += [record] if one.again else []
        if len(again) > 2:
            records.append(again.pop(0) | {"arrival": now})
        events.append({
            "n": place, "ts": ref, "te": end, "type": one.type, "stream": one.stream,
            "source": name, "seq": numbers[row], "error": errors[one.source], "clock": name,
            **one.attrs,
        })  # fmt: skip
        late, newest = max(late, newest - end), max(newest, end)
    return World(
        records, events, dict(zip(SOURCES, errors, strict=True)), late,
        len(happened) - len(came), instants, tied, by_time,
    )  # fmt: skip


def _promised(
    left: Sequence[tuple[int, int, _Drawn]], place: int, now: int, kind: str,
    offsets: Sequence[int],
) -> list[Record]:  # fmt: skip
    """What one source may say before the records ``left``, all of it true."""
    source = place % len(SOURCES)
    later = [ref for ref, _, one in left if one.source == source]
    if kind == "eos":
        # Of a source that comes to its end, once.
        ended = not later and place % 5 == 4
        return [{"kind": "eos", "source": SOURCES[source], "arrival": now}] if ended else []
    said = min(later, default=left[-1][0] + 50) - offsets[source]
    return [{"kind": "pog", "source": SOURCES[source], "ts": said, "arrival": now}]


def at_source(world: World) -> World:
    """The same for an order that leaves offsets out: times are those of the sources' clocks."""
    offsets = {
        r["source"]: r["offset"] for r in world.records if r["arrival"] == 1 and r.get("ts") == 0
    }
    events = [
        event | {"ts": event["ts"] - offsets[event["source"]],
                 "te": event["te"] - offsets[event["source"]]}
        for event in world.events
    ]  # fmt: skip
    return replace(world, events=events)
