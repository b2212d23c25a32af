"""What is missing, against a twin that tries every instant at which each lost number can lie."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.operators.window.settings import WindowSettings
from tests.clocks.test_clock_cases import answers

Record = dict[str, Any]
NEVER, BEHIND_RESTART = -1, 600
"""Delays; the latter is of an event that comes when its source has begun again."""
KINDS = {
    "TUMBLING 10": (10, 10), "SLIDING 12 EVERY 5": (12, 5),
    "SESSION 6": None, "ROWS 3": None,
}  # fmt: skip
"""Of windows of time, how long they are and how far apart."""


class World(NamedTuple):
    """``lost``: (earliest, latest) instant of each number that never came, of those between the
    smallest and the largest of their start that came.
    """

    records: list[Record]
    lost: list[tuple[int, int]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    records, lost = list[Record](), list[tuple[int, int]]()
    for source in ("p", "q"):
        error, ts = draw(st.sampled_from([0, 0, 2, 9])), draw(st.integers(100, 120))
        records.append({"kind": "sync", "source": source, "ts": 0, "offset": 0,
                        "delay": 2 * error, "skew_error_ppb": 0, "arrival": 1})  # fmt: skip
        for incarnation in range(starts := draw(st.integers(1, 2))):
            came = dict[int, tuple[int, int]]()
            for seq in range(draw(st.integers(1, 7))):
                ts += draw(st.integers(0, 9))
                delay = draw(st.sampled_from([0, 0, 3, 60, 150, NEVER, BEHIND_RESTART]))
                if delay == NEVER:
                    continue
                event = {"source": source, "type": "A", "ts": ts, "seq": seq,
                         "incarnation": incarnation, "arrival": ts + delay}  # fmt: skip
                came[seq] = (ts + delay, ts)
                records.append(event)
                if draw(st.integers(0, 4)) == 0:
                    records.append(event | {"arrival": ts + delay + draw(st.integers(1, 99))})
            lost += lost_of(came, error, restarts=incarnation + 1 < starts)
            ts += 400
    records.sort(key=lambda record: record["arrival"])
    return World(records, lost)


def lost_of(
    came: dict[int, tuple[int, int]], error: int, *, restarts: bool
) -> list[tuple[int, int]]:
    """``came``: by number, when it arrived and when it happened."""
    in_time = [
        seq for seq, (arrival, ts) in came.items()
        if not restarts or arrival < ts + BEHIND_RESTART
    ]  # fmt: skip
    found = []
    for seq in range(min(in_time, default=0), max(in_time, default=0)):
        if seq not in came:
            before = max(other for other in came if other < seq)
            behind = min(other for other in came if other > seq)
            found.append((came[before][1] - error, came[behind][1] + error))
    return found


def may_lie(lost: list[tuple[int, int]], inside: range) -> int:
    """How many of ``lost`` may lie at an instant of ``inside``."""
    return sum(any(low <= at <= high for at in inside) for low, high in lost)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(
    world=worlds(), late=st.sampled_from(["drop", "pass"]),
    emit=st.sampled_from(["", " EMIT ON CHANGE"]),
)  # fmt: skip
def test_missing_is_what_may_lie_in_a_window_and_no_more(
    kind: str, world: World, late: str, emit: str
) -> None:
    found = answers(
        f"SELECT count(*) AS n WINDOW {kind}{emit}", world.records,
        order=f"sequence:timeout=fixed:30ns,late={late}",
        window=WindowSettings(correction_horizon_ns=10**6),
    )  # fmt: skip
    emitted = {}
    for each in found:
        start, end = each["window"]["start"], each["window"]["end"]
        emitted[start] = each["missing"]
        inside = range(start, end)
        if kind.startswith("SESSION"):  # what comes within the gap of its events joins it
            inside = range(start - 5, end)
        elif kind.startswith("ROWS"):
            inside = range(start + 1, end)
        can = may_lie(world.lost, inside)
        most = can
        if kind.startswith("ROWS"):  # at an instant of the first or last row, on either side of it
            most = may_lie(world.lost, range(start, end + 1))
        assert can <= each["missing"] <= most, each
    extent = KINDS[kind]
    if extent is not None:
        size, step = extent
        for low, high in world.lost:
            for at in range(low, high + 1):
                for window in range((at - size) // step + 1, at // step + 1):
                    assert emitted.get(window * step, 0) > 0, "no row of a window that may"


def test_a_session_that_another_took_in_gives_no_row_when_a_gap_changes() -> None:
    """A late event joins both sessions, another number of its gap is still missing."""
    came = [("p", 100, 0), ("p", 106, 3), ("p", 112, 4), ("p", 101, 2)]
    records = [{"kind": "sync", "source": "p", "ts": 0, "offset": 0, "delay": 0,
                "skew_error_ppb": 0, "arrival": 1}]  # fmt: skip
    for source, ts, seq in came:
        arrival = 161 if seq == 2 else ts
        records.append({"source": source, "type": "A", "ts": ts, "seq": seq, "arrival": arrival})
    found = answers(
        "SELECT count(*) AS n WINDOW SESSION 6", records,
        order="sequence:timeout=fixed:30ns,late=pass",
        window=WindowSettings(correction_horizon_ns=10**6),
    )  # fmt: skip
    assert [(row["window"]["start"], row["value"]["n"], row["missing"]) for row in found] == [
        (100, 3, 1), (112, 1, 0),
    ]  # fmt: skip
