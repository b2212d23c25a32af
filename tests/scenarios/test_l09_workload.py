"""L09's workload: exact shares, delays within the longest, promises kept; by plain loops."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import records as r
from slackwater.scenarios.papers.disorder import arrivals
from slackwater.scenarios.papers.l09.passes import late
from slackwater.scenarios.papers.l09.workload import (
    EVENTS_PER_UNIT,
    MAX_DELAY,
    NEGATIVE,
    TYPES,
    UNIT_NS,
    PointArrivals,
    arriving,
    make_events,
)

EVENTS = make_events(4_000, seed=3)


def of(
    positive: float, negative: float, promised: float = 0.0, types: str = TYPES
) -> PointArrivals:
    shares = dict(zip(TYPES, late(positive, negative), strict=True))
    return arriving(EVENTS, shares, promised, 3, types)


def records(made: PointArrivals, rows: int = 1_000) -> list[dict[str, Any]]:
    return [record for frame in made.frames(rows) for record in frame.batch.to_pylist()]


def out_of_order(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The slow twin: an earlier one has a larger time (L09 II-A)."""
    newest, found = -1, []
    for event in events:
        if event[r.TS] < newest:
            found.append(event)
        newest = max(newest, event[r.TS])
    return found


@given(
    gaps=st.lists(st.integers(1, 50), min_size=1, max_size=30),
    delays=st.lists(st.integers(0, 200), min_size=30, max_size=30),
    transit=st.integers(0, 20),
    data=st.data(),
)
@settings(max_examples=50, deadline=None)
def test_the_delayed_ones_and_only_they_are_out_of_order(
    gaps: list[int], delays: list[int], transit: int, data: st.DataObject
) -> None:
    ts = np.cumsum(gaps)
    count = len(ts)
    delayed = np.array([*data.draw(st.lists(st.booleans(), min_size=count - 1, max_size=count - 1)),
                        False])  # fmt: skip
    arrival = arrivals(ts, transit, delayed, np.array(delays[:count]))
    for row in range(count):
        overtaken = any(arrival[later] < arrival[row] for later in range(row + 1, count))
        assert overtaken == delayed[row]
        assert arrival[row] >= ts[row] + transit + delayed[row] * delays[row]
    assert np.array_equal(arrival[~delayed], (ts + transit)[~delayed])


@pytest.mark.parametrize(("positive", "negative"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.5), (0.1, 0.4)])
def test_shares_out_of_order_are_exact(positive: float, negative: float) -> None:
    events = records(of(positive, negative))
    late_ones = Counter(event[r.TYPE] for event in out_of_order(events))
    for kind in TYPES:
        assert late_ones[kind] == round((negative if kind == NEGATIVE else positive) * 400)
    assert Counter(event[r.TYPE] for event in events) == dict.fromkeys(TYPES, 400)
    assert all(event[r.SOURCE] == event[r.TYPE] for event in events)
    delays = [event[r.ARRIVAL] - event[r.TS] for event in events]
    assert min(delays) == 0
    assert max(delays) <= MAX_DELAY * UNIT_NS
    seconds = (max(e[r.TS] for e in events) - min(e[r.TS] for e in events)) / UNIT_NS
    assert seconds == pytest.approx(len(events) / EVENTS_PER_UNIT, rel=0.01)


def test_a_larger_share_delays_the_same_events_by_the_same_time_and_more() -> None:
    by_share = []
    for share in (0.1, 0.2, 0.5):
        events = records(of(share, share))
        by_share.append({(e[r.TYPE], e[r.SEQ], e[r.TS]): e[r.ARRIVAL] for e in events})
        moved = {key for key, arrival in by_share[-1].items() if arrival != key[2]}
        assert len(moved) == 4_000 * share
    assert by_share[0].keys() == by_share[1].keys() == by_share[2].keys()
    for fewer, more in ((by_share[0], by_share[1]), (by_share[1], by_share[2])):
        late_ones = [key for key, arrival in fewer.items() if arrival != key[2]]
        same = sum(fewer[key] == more[key] for key in late_ones)
        assert same > 0.95 * len(late_ones), "but for those that must be overtaken"


def test_events_are_numbered_by_source_in_order_of_their_times() -> None:
    events = sorted(records(of(0.5, 0.5)), key=lambda event: event[r.TS])
    for kind in TYPES:
        numbers = [event[r.SEQ] for event in events if event[r.TYPE] == kind]
        assert numbers == list(range(400))


@pytest.mark.parametrize("promised", [0.1, 0.2, 0.4])
def test_promises_are_kept_and_as_far_as_one_may_promise(promised: float) -> None:
    log = records(of(0.3, 0.3, promised))
    promised_rows = [place for place, record in enumerate(log) if record[r.KIND] == r.Kind.POG]
    assert len(promised_rows) == round(promised * 4_000)
    counts = Counter(log[place][r.TYPE] for place in promised_rows)
    assert max(counts.values()) - min(counts.values()) <= 1
    for place in promised_rows:
        promise = log[place]
        later = [
            record[r.TS] for record in log[place + 1 :]
            if record[r.KIND] == r.Kind.EVENT and record[r.TYPE] == promise[r.TYPE]
        ]  # fmt: skip
        assert promise[r.TS] == min([promise[r.ARRIVAL], *later])
    assert [record[r.ARRIVAL] for record in log] == sorted(record[r.ARRIVAL] for record in log)


def test_promises_about_some_types_are_those_of_all_with_the_others_left_out() -> None:
    def promises_about(types: str) -> list[dict[str, Any]]:
        made = records(of(0.3, 0.3, 0.2, types))
        return [record for record in made if record[r.KIND] == r.Kind.POG]

    assert promises_about("CD") == [
        record for record in promises_about(TYPES) if record[r.TYPE] in "CD"
    ]
    assert not promises_about("")


def test_frames_are_the_records_cut_anywhere() -> None:
    made = of(0.2, 0.2, 0.2)
    assert records(made, 7) == records(made, 10**6)
    assert [frame.rows for frame in made.frames(4_000)] == [4_000, 800]


def test_the_same_seed_gives_the_same_events_and_another_others() -> None:
    again, other = make_events(4_000, seed=3), make_events(4_000, seed=4)
    assert np.array_equal(EVENTS.ts, again.ts)
    assert np.array_equal(EVENTS.place, again.place)
    assert not np.array_equal(EVENTS.type, other.type)
