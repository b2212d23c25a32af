"""Every kind of join beside its definition, for streams out of order, cut and restored anywhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.released import IN_ORDER, LATE, Strings
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import JoinPlan
from tests.join.definition import Definition, Row, sliding, tumbling, within
from tests.join.sides import Sided, batch, net, row_of, run

KINDS = {"inner": "", "left": "LEFT", "right": "RIGHT OUTER", "full": "FULL", "anti": "ANTI"}
BARRIERS = ("immediate", "punctuation", "bounded:4", "hold:3", "adaptive", "immediate,ordered")


def answering(text: str, barrier: str | None = None, **pattern: Any) -> Callable[[], Alone]:
    plan = query(text)
    assert isinstance(plan, JoinPlan)
    in_force = None if barrier is None else parse_barrier(barrier)
    return lambda: Alone(SeqMatcher(plan, PatternSettings(**pattern)), in_force)


def known(one: Any, other: Any) -> bool:
    return one is not None and one == other


def same_id(x: Sided, y: Sided) -> bool:
    return known(x.attrs.get("id"), y.attrs.get("id"))


def less(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one < other


ON: dict[str, tuple[str, Callable[[Sided, Sided], bool]]] = {
    "a key": ("ON a.id = b.id", same_id),
    "a key named apart": (
        "ON b.k = a.id", lambda x, y: known(x.attrs.get("id"), y.attrs.get("k"))
    ),
    "a key and more": (
        "ON a.id = b.id AND a.v < b.v",
        lambda x, y: same_id(x, y) and less(x.attrs.get("v"), y.attrs.get("v")),
    ),
    "two keys": (
        "ON a.id = b.id AND a.v = b.k",
        lambda x, y: same_id(x, y) and known(x.attrs.get("v"), y.attrs.get("k")),
    ),
    "one side's own": (
        "ON a.id = b.id AND a.v > 0 AND b.v < 2",
        lambda x, y: same_id(x, y) and less(0, x.attrs.get("v")) and less(y.attrs.get("v"), 2),
    ),
    "times": (
        "ON a.id = b.id AND b.ts > a.ts", lambda x, y: same_id(x, y) and y.ref > x.ref
    ),
    "no key": ("ON a.v < b.v", lambda x, y: less(x.attrs.get("v"), y.attrs.get("v"))),
    "nothing": ("", lambda _x, _y: True),
}  # fmt: skip
NEAR: dict[str, Callable[[int, int], bool]] = {
    "WITHIN 3": within(3), "WITHIN 1": within(1), "WINDOW TUMBLING 4": tumbling(4),
    "WINDOW TUMBLING 1": tumbling(1), "WINDOW SLIDING 6 EVERY 2": sliding(6, 2),
    "WINDOW SLIDING 5 EVERY 3": sliding(5, 3), "WINDOW SLIDING 3 EVERY 1": sliding(3, 1),
}  # fmt: skip
EVENTS = st.lists(
    st.builds(
        Sided, st.sampled_from("TU"), ref=st.integers(-3, 12), stream=st.sampled_from("aabbc"),
        source=st.sampled_from(["s0", "s1"]), status=st.sampled_from([IN_ORDER, IN_ORDER, LATE]),
        attrs=st.fixed_dictionaries({}, optional={
            "id": st.integers(0, 1), "k": st.integers(0, 1), "v": st.integers(0, 2),
        }),
    ),
    max_size=12,
)  # fmt: skip


def in_order(events: Sequence[Sided]) -> bool:
    return all(x.ref <= y.ref for x, y in itertools.pairwise(events))


@settings(max_examples=80)
@given(
    events=EVENTS, kind=st.sampled_from([*KINDS]), on=st.sampled_from([*ON]),
    near=st.sampled_from([*NEAR]), barrier=st.sampled_from(BARRIERS),
    cuts=st.lists(st.integers(1, 11), max_size=4), sort=st.booleans(),
)  # fmt: skip
@example([Sided("T", 1, attrs={"id": 1})] * 2, "left", "a key", "WITHIN 3", "immediate", [1], False)
def test_rows_are_those_of_the_definition(
    events: list[Sided], kind: str, on: str, near: str, barrier: str, cuts: list[int], sort: bool
) -> None:
    if sort:
        events = sorted(events, key=lambda event: event.ref)
    text = f"SELECT a.ts FROM a {KINDS[kind]} JOIN b {ON[on][0]} {near}"
    make = answering(text, barrier)
    found = run(make, events)
    want = Definition(kind, NEAR[near], ON[on][1]).rows(events)

    def row(result: dict[str, Any]) -> Row:
        return row_of(result, "a", "b")

    assert set(net(found, row)) == want
    assert all(one["certainty"] == "confirmed" and one["probability"] == 1.0 for one in found)
    assert run(make, events, cuts) == found
    if barrier == "punctuation" and in_order(events):
        assert all(one["op"] == "+" for one in found)


@settings(max_examples=25)
@given(
    events=EVENTS,
    kind=st.sampled_from([*KINDS]),
    near=st.sampled_from([*NEAR]),
    asked=st.sampled_from(["", "WHERE b.v < 2", "WHERE a.v > 0"]),
)
def test_where_chooses_among_rows(events: list[Sided], kind: str, near: str, asked: str) -> None:
    side = asked[6:7]
    if (side and {"left": "b", "anti": "b", "right": "a"}.get(kind) == side) or kind == "full":
        asked = ""
    text = f"SELECT {'a' if kind == 'anti' else 'b'}.ts FROM a {KINDS[kind]} JOIN b ON a.id = b.id"
    found = run(answering(f"{text} {asked} {near}"), events)

    def fine(event: Sided) -> bool:
        v = event.attrs.get("v")
        return not asked or (less(v, 2) if side == "b" else less(0, v))

    def on(x: Sided, y: Sided) -> bool:
        return same_id(x, y) and (kind != "inner" or not asked or fine(x if side == "a" else y))

    want = Definition(kind, NEAR[near], on, fine).rows(events)
    assert set(net(found, lambda result: row_of(result, "a", "b"))) == want


@settings(max_examples=25)
@given(events=EVENTS, kind=st.sampled_from([*KINDS]), on=st.sampled_from(["a key", "nothing"]))
def test_a_stream_joined_with_itself(events: list[Sided], kind: str, on: str) -> None:
    """An event is not its own partner."""
    columns = "a.seq AS x" if kind == "anti" else "a.seq AS x, b.seq AS y"
    text = f"SELECT {columns} FROM a {KINDS[kind]} JOIN a AS b {ON[on][0]} WITHIN 2"
    found = run(answering(text), events)
    want = Definition(kind, within(2), ON[on][1], sides=("a", "a")).rows(events)
    assert set(net(found, lambda r: (r["value"]["x"], r["value"].get("y")))) == want


def test_columns_of_rows() -> None:
    events = [
        Sided("T", 1, stream="a", attrs={"id": 1, "v": 2.5}),
        Sided("T", 2, stream="b", attrs={"id": 1, "v": 4.0, "name": "x"}),
        Sided("T", 20, stream="b", attrs={"id": 1, "v": 4.0, "name": "y"}),
    ]
    text = (
        "SELECT a.id, a.v, b.v, b.v - a.v AS gain, b.name, b.ts, a.type FROM a FULL JOIN b "
        "ON a.id = b.id WITHIN 3"
    )
    found = run(answering(text), events)
    assert [one["value"] for one in found] == [
        {"id": 1, "a.v": 2.5, "b.v": 4.0, "gain": 1.5, "name": "x", "ts": 2, "type": "T"},
        {"id": None, "a.v": None, "b.v": 4.0, "gain": None, "name": "y", "ts": 20, "type": None},
    ]
    assert [len(one["events"]) for one in found] == [2, 1]
    everything = run(answering("SELECT * FROM a JOIN b ON a.id = b.id WITHIN 3"), events)
    assert [event["attrs"] for event in everything[0]["events"]] == [
        {"id": 1, "v": 2.5}, {"id": 1, "name": "x", "v": 4.0},
    ]  # fmt: skip
    assert "value" not in everything[0]


def test_a_late_partner_takes_back_the_row_without_one() -> None:
    a = Sided("T", 5, stream="a", attrs={"id": 1})
    b = Sided("T", 6, stream="b", attrs={"id": 1}, status=LATE)
    far = Sided("T", 30, stream="b", attrs={"id": 2})
    text = "SELECT a.ts, b.ts AS partner FROM a LEFT JOIN b ON a.id = b.id WITHIN 3"
    found = run(answering(text), [a, far, b])
    assert [(one["op"], one["at"], one["value"]["partner"]) for one in found] == [
        ("+", 1, None), ("-", 2, None), ("+", 2, 6),
    ]  # fmt: skip
    # Not before it could have been final.
    assert [one["value"]["partner"] for one in run(answering(text), [a, b, far])] == [6]
    at_once = run(answering(text, "immediate"), [a, b, far])
    assert [(one["op"], one["at"]) for one in at_once] == [("+", 0), ("-", 1), ("+", 1)]


@pytest.mark.parametrize("near", ["WITHIN 3", "WINDOW TUMBLING 4", "WINDOW SLIDING 6 EVERY 2"])
def test_state_does_not_grow(near: str) -> None:
    text = f"SELECT a.ts FROM a FULL JOIN b ON a.id = b.id {near}"
    operator = answering(text, keep_late_ns=5)()
    strings, most = Strings(), 0
    for turn in range(60):
        events = [
            Sided("T", 20 * turn + n, stream="ab"[n % 2], attrs={"id": n % 3}) for n in range(20)
        ]
        made = batch(events, strings, 0, 20)
        made.columns["release"] += 20 * turn
        operator.process(made)
        most = max(most, operator.matcher.counters()["buffered_max"])
    assert most < 100
