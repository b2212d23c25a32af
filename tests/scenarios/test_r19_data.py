"""R19's data sets: exact counts by a plain loop, delays as described, logs as sorted by hand."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import records as r
from slackwater.engine.core.frame import Frame
from slackwater.engine.log.arrival_log import LogReader
from slackwater.scenarios.papers.r19 import published
from slackwater.scenarios.papers.r19.clock_sync import exchange, synchronised
from slackwater.scenarios.papers.r19.data_sets import PROFILES, TRANSIT_NS, DataSet, data_set
from slackwater.scenarios.papers.r19.football import BALLS, START_NS
from slackwater.scenarios.papers.r19.log_writing import (
    SHIFT_NS,
    PublishedSource,
    frames,
    sources,
    write_log,
)
from slackwater.scenarios.papers.r19.pattern_data import APART_NS, goal, goal_frames
from slackwater.scenarios.papers.r19.released_stream import BATCH, observe

MS = 10**6


@cache
def whole(number: int) -> DataSet:
    return data_set(number, seed=1)


def out_of_order(times: list[int]) -> list[bool]:
    """The slow twin: whether an earlier one is larger."""
    newest, found = -1, []
    for time in times:
        found.append(time < newest)
        newest = max(newest, time)
    return found


@pytest.mark.parametrize("number", PROFILES)
def test_sizes_and_counts_are_the_published_ones(number: int) -> None:
    data = whole(number)
    order = np.argsort(data.arrival, kind="stable")
    late = out_of_order(data.events.ts[order].tolist())
    assert (len(data), sum(late)) == published.EVENTS[number]
    assert np.array_equal(data.delayed[order], late), "the delayed ones, and only they, are late"


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("number", PROFILES)
def test_counts_do_not_depend_on_the_seed(number: int, seed: int) -> None:
    data = data_set(number, seed)
    times = data.events.ts[np.argsort(data.arrival, kind="stable")]
    late = int((times < np.maximum.accumulate(times)).sum())
    assert (len(data), late) == published.EVENTS[number]


def test_the_same_seed_gives_the_same_events_and_another_others() -> None:
    first, again, other = data_set(3, 7, 0.01), data_set(3, 7, 0.01), data_set(3, 8, 0.01)
    assert np.array_equal(first.arrival, again.arrival)
    assert np.array_equal(first.events.ts, again.events.ts)
    assert all(
        np.array_equal(values, again.events.attributes[name])
        for name, values in first.events.attributes.items()
    )
    assert not np.array_equal(first.delayed, other.delayed)


def test_a_smaller_scale_keeps_the_share_out_of_order() -> None:
    data = data_set(1, 1, 0.02)
    assert len(data) == round(499_982 * 0.02)
    assert int(data.delayed.sum()) == round(62_473 * len(data) / 499_982)


def test_football_events_look_like_debs() -> None:
    data = whole(3)
    ts, columns = data.events.ts, data.events.attributes
    assert int(np.diff(ts).min()) > 0
    assert ts[0] >= START_NS
    assert START_NS % (10 * 10**9) == 0
    rate = len(ts) / ((ts[-1] - ts[0]) / 1e9)
    assert 15_000 < rate < 15_400
    assert set(columns) == {"sid", "x", "y", "z", "v_abs", "a_abs"}
    assert all(values.dtype == np.int64 for values in columns.values())
    sids, counts = np.unique(columns["sid"], return_counts=True)
    assert len(sids) == 40
    ball = np.isin(sids, BALLS)
    assert counts[ball].min() > 9 * counts[~ball].max(), "balls are heard ten times as often"
    speed = np.bincount((ts - START_NS) // 10**10, columns["v_abs"])
    average = speed / np.bincount((ts - START_NS) // 10**10)
    assert np.all(np.abs(np.diff(average)) > 100), "windows' averages differ"


def test_delays_are_those_that_the_paper_describes() -> None:
    one, two, three = (whole(number) for number in PROFILES)
    delays = np.sort(one.delay_ns)
    assert np.median(delays) < 0.3 * MS
    assert delays[-6] < 25 * MS
    assert np.all(delays[-5:] > 740 * MS)
    assert delays[-1] <= 1000 * MS
    stalled = one.events.ts[one.delayed][one.delay_ns > 700 * MS]
    assert np.all(np.diff(stalled)[[0, 1, 3]] < 10**9), "one peak of three, one of two"
    assert np.diff(stalled)[2] > 5 * 10**9
    assert two.delay_ns.mean() < MS
    assert 1500 * MS < two.delay_ns.max() < 2000 * MS
    assert MS < three.delay_ns.mean() < 7 * MS
    assert 29_000 * MS < three.delay_ns.max() <= 30_000 * MS
    for data in (one, two, three):
        punctual = ~data.delayed
        assert np.all(data.arrival[punctual] == data.events.ts[punctual] + TRANSIT_NS)


def columns_of(log: list[Frame], *names: str) -> list[list[Any]]:
    return [
        [value for frame in log for value in frame.batch.column(name).to_pylist()] for name in names
    ]


def test_a_log_of_many_sources_is_every_source_merged_by_arrival() -> None:
    data = data_set(3, 1, 0.05)
    log = list(frames(data, sources(3), ("v_abs",)))
    assert len(log) > 1
    names = (r.SOURCE, r.SEQ, r.TS, r.ARRIVAL, "attrs.departed", "attrs.v_abs")
    rows = list(zip(*columns_of(log, *names), strict=True))
    wanted = sorted(
        (int(data.arrival[seq]) + shift, number, seq)
        for number in range(3)
        for shift in (number * SHIFT_NS,)
        for seq in range(len(data))
    )
    assert [(row[3], int(row[0]), row[1]) for row in rows] == wanted
    for source, seq, ts, _, departed, speed in rows[:: len(rows) // 50]:
        true_ns = int(data.events.ts[seq]) + int(source) * SHIFT_NS
        assert (ts, departed, speed) == (true_ns, true_ns, data.events.attributes["v_abs"][seq])
    assert sum(out_of_order([row[2] for row in rows])) == 3 * int(data.delayed.sum()), (
        "as R19 counts injected ones"
    )


def test_a_clock_that_is_ahead_is_in_ts_alone_and_a_sync_comes_first() -> None:
    data = data_set(1, 1, 0.002)
    measured = exchange(10**9, 60_000, 40_000)
    publishers = (PublishedSource("0"), PublishedSource("1", SHIFT_NS, 10**9, measured))
    sync, *log = frames(data, publishers, ())
    assert sync.batch.to_pylist() == [
        {"kind": 3, "source": "1", "seq": None, "ts": sync.first_arrival + 10**9,
         "arrival": START_NS - 10**9, "offset": -(10**9) + 10_000, "delay": 100_000,
         "skew_error_ppb": 0}
    ]  # fmt: skip
    source, ts, true_ts = columns_of(log, r.SOURCE, r.TS, "attrs.true_ts")
    ahead = {a - b for name, a, b in zip(source, ts, true_ts, strict=True) if name == "1"}
    assert ahead == {10**9}


def test_a_written_log_holds_the_frames(tmp_path: Path) -> None:
    data = data_set(2, 1, 0.01)
    advances: list[int] = []
    write_log(tmp_path / "log", data, sources(2), ("sid",), advances.append)
    read = [frame.batch.to_pylist() for frame in LogReader(tmp_path / "log")]
    assert read == [frame.batch.to_pylist() for frame in frames(data, sources(2), ("sid",))]
    assert sum(advances) == 2 * len(data)


def test_spec_2_golden_of_an_exchange() -> None:
    # t1=100, t2=205, t3=206, t4=111 ms: offset 100, delay 10; legs of 5 ms each.
    assert exchange(-100 * MS, 5 * MS, 5 * MS) == exchange(0, 5 * MS, 5 * MS).__class__(
        100 * MS, 10 * MS
    )
    assert exchange(-3600 * 10**9, 5 * MS, 5 * MS).offset_ns == 3600 * 10**9
    assert exchange(0, 9 * MS, MS).error_ns(0) == 4 * MS


@given(ahead=st.integers(-(10**13), 10**13), leg=st.integers(0, 10**9), seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_a_sync_is_wrong_by_half_its_delay_at_most(ahead: int, leg: int, seed: int) -> None:
    measured = synchronised(ahead, leg, np.random.default_rng(seed))
    assert 2 * abs(measured.error_ns(ahead)) <= measured.delay_ns + 1
    assert measured.delay_ns >= 2 * leg


def test_the_goal_is_two_events_that_no_other_resembles() -> None:
    made = goal(1)
    kicked, crossed = made.kicking.events, made.crossing.events

    def of(columns: dict[str, np.ndarray], low_x: int, high_x: int) -> np.ndarray:
        return np.isin(columns["sid"], BALLS) & (columns["x"] > low_x) & (columns["x"] <= high_x)

    a, b = kicked.attributes, crossed.attributes
    first = np.isin(a["sid"], BALLS) & ((a["x"] > 29_880) | (a["x"] < 22_560))
    first &= (a["y"] > -33_968) & (a["y"] < 33_965)
    second = of(b, 22_579, 29_898) & (b["y"] <= -33_968) & (b["z"] < 2_440)
    second &= b["a_abs"] >= 55_000
    assert np.flatnonzero(first).tolist() == [made.kick]
    assert np.flatnonzero(second).tolist() == [made.cross]
    apart = int(crossed.ts[made.cross] - kicked.ts[made.kick])
    assert APART_NS <= apart < APART_NS + 200_000
    assert made.kicking.arrival[made.kick] > made.crossing.arrival[made.cross]
    rows = sum(
        frame.rows for frame in goal_frames(made, (PublishedSource("0"), PublishedSource("1")))
    )
    assert rows == len(made.kicking) + len(made.crossing)


def test_counts_of_a_stream_against_a_plain_loop() -> None:
    data = data_set(3, 5, 0.03)
    publishers = (PublishedSource("0"), PublishedSource("1", SHIFT_NS, 2 * MS))
    log = list(frames(data, publishers, ()))
    found = observe(log, "none", "true_ts", within_ns=MS)
    true_ns, source = columns_of(log, "attrs.true_ts", r.SOURCE)
    pairs = list(pairwise(true_ns))
    newest = np.maximum.accumulate(true_ns)
    assert found.released == len(true_ns) == 2 * len(data)
    assert found.after_previous == sum(now < before for before, now in pairs)
    assert found.after_previous_ms == sum(now // MS < before // MS for before, now in pairs)
    assert found.after_any == sum(out_of_order(true_ns))
    assert found.beyond == sum(int(late) > MS for late in (newest - np.array(true_ns)).tolist())
    changes = sum(a != b for a, b in pairwise(source))
    assert found.turns == 1 + changes
    assert found.held_max_ns == [0] * (len(true_ns) // BATCH)
