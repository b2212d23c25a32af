"""Figures of sources against a plain loop over records, and points of clocks in bounded memory."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.edge_agent.timesync import ClockStatus
from slackwater.engine.core.frame import Frame
from slackwater.engine.server.source_figures import (
    EACH_LEAST,
    EACH_MAX,
    MEMORY_NS,
    SPAN_NS,
    ClockHistory,
    SourceFigures,
)

S = 10**9


class Nowhere:
    fails = False

    def append(self, _frame: Frame) -> None:
        if self.fails:
            raise OSError("disk full")

    def flush(self) -> None:
        pass


def a_frame(rows: list[dict[str, Any]], site: str) -> Frame:
    columns = {
        r.KIND: pa.array([row["kind"] for row in rows], pa.int8()),
        r.SOURCE: pa.array([row["source"] for row in rows], pa.string()).dictionary_encode(),
        r.SEQ: pa.array([None] * len(rows), pa.int64()),
        r.TS: pa.array([row["ts"] for row in rows], pa.int64()),
        r.ARRIVAL: pa.array([row["arrival"] for row in rows], pa.int64()),
    }
    if all(row["kind"] == Kind.EVENT for row in rows):
        del columns[r.KIND]
    if any(row.get("clock") for row in rows):
        names = [row.get("clock") and f"{row['source']}/{row['clock']}" for row in rows]
        columns[r.CLOCK] = pa.array(names, pa.string())
    if any(row["offset"] is not None for row in rows):
        for name in (r.OFFSET, r.DELAY, r.PRECISION, r.SKEW_ERROR_PPB):
            columns[name] = pa.array([row["offset"] for row in rows], pa.int64())
    return Frame(site, pa.RecordBatch.from_pydict(columns))


class Twin:
    """One record after another, with the offsets that hold at the end of their frame."""

    def __init__(self) -> None:
        self.sources: dict[tuple[str, str], dict[str, float]] = {}
        self.newest: dict[str, int] = {}

    def take(self, rows: list[dict[str, Any]], site: str) -> None:
        empty = dict.fromkeys(("offset", "events", "disordered", "weight", "lag", "share"), 0)
        for row in rows:
            if row["source"] is not None:
                of = self.sources.setdefault((site, row["source"]), dict(empty))
                if row["clock"] and row["kind"] == Kind.SYNC and row["offset"] is not None:
                    of[row["clock"]] = row["offset"]
                elif row["kind"] == Kind.SYNC and row["offset"] is not None:
                    of["offset"] = row["offset"]
        events = [row for row in rows if row["kind"] == Kind.EVENT]
        for source in {row["source"] for row in events}:
            of = self.sources[site, source]
            fade = math.exp(-(events[-1]["arrival"] - of.get("last", 0)) / MEMORY_NS)
            for name in ("weight", "lag", "share"):
                of[name] *= fade
            of.setdefault("first", events[0]["arrival"])
            of["last"] = events[-1]["arrival"]
        for row in events:
            of = self.sources[site, row["source"]]
            ref = row["ts"] + (of.get(row["clock"], 0) if row["clock"] else of["offset"])
            seen = min(ref, row["arrival"])
            late = seen < self.newest.get(site, seen)
            self.newest[site] = max(self.newest.get(site, seen), seen)
            of["events"] += 1
            of["disordered"] += late
            of["weight"] += 1
            of["lag"] += row["arrival"] - ref
            of["share"] += late


ROW = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([Kind.EVENT, Kind.EVENT, Kind.EVENT, Kind.SYNC, Kind.TICK]),
        "source": st.sampled_from(["a", "b", "c"]),
        "ts": st.integers(-5 * S, 65 * S),
        "offset": st.none() | st.integers(0, 2 * S),
        "step": st.integers(0, 3 * S),
        "clock": st.sampled_from([None, None, "m", "n"]),
    }
)

ROWS = st.lists(ROW, min_size=1, max_size=8)


@given(st.lists(st.tuples(st.sampled_from(["x", "y"]), ROWS), max_size=8))
def test_as_a_plain_loop_counts(frames: list[tuple[str, list[dict[str, Any]]]]) -> None:
    figures, twin, now = SourceFigures(Nowhere(), 100), Twin(), 0
    for site, rows in frames:
        for row in rows:
            now += row["step"]
            row["arrival"] = now
            if row["kind"] == Kind.TICK:
                row["source"] = row["clock"] = None
        figures.append(a_frame(rows, site))
        twin.take(rows, site)
    means = figures.means(now)
    assert figures.events == sum(of["events"] for of in twin.sources.values())
    assert set(figures.keys) == set(twin.sources)
    for number, key in enumerate(figures.keys):
        of = twin.sources[key]
        assert figures.columns["events"][number] == of["events"]
        assert figures.columns["disordered"][number] == of["disordered"]
        if not of["events"]:
            assert means.rate[number] == 0
            assert np.isnan(means.lag[number])
            continue
        fade = math.exp(-(now - of["last"]) / MEMORY_NS)
        age = max(now - of["first"], S) / MEMORY_NS
        per_second = of["weight"] * fade / (MEMORY_NS / S * (1 - math.exp(-age)))
        assert means.rate[number] == pytest.approx(per_second)
        assert means.lag[number] == pytest.approx(of["lag"] / of["weight"] / S)
        assert means.disorder[number] == pytest.approx(of["share"] / of["weight"])


def events_at(figures: SourceFigures, seconds: range, per_second: int) -> None:
    for second in seconds:
        rows = [
            {
                "kind": Kind.EVENT, "source": "a", "offset": None,
                "ts": second * S + n * (S // per_second),
                "arrival": second * S + n * (S // per_second) + 40_000_000,
            }
            for n in range(per_second)
        ]  # fmt: skip
        figures.append(a_frame(rows, "x"))


def test_a_steady_source_shows_its_rate_and_lag_and_fades() -> None:
    figures = SourceFigures(Nowhere(), 10)
    events_at(figures, range(60), 20)
    means = figures.means(60 * S)
    assert means.rate[0] == pytest.approx(20, rel=0.06)
    assert means.lag[0] == pytest.approx(0.04)
    assert means.disorder[0] == 0
    assert figures.means(90 * S).rate[0] == pytest.approx(20 * math.exp(-3), rel=0.1)
    silent = figures.means(3600 * S)
    assert silent.rate[0] == 0
    assert np.isnan(silent.lag[0])


def test_one_event_of_the_future_makes_no_other_late() -> None:
    figures = SourceFigures(Nowhere(), 10)
    far = {"kind": Kind.EVENT, "source": "a", "ts": 10**15, "arrival": S, "offset": None}
    figures.append(a_frame([far, {**far, "ts": 2 * S, "arrival": 2 * S}], "x"))
    assert figures.columns["disordered"][0] == 0


def test_what_the_log_refused_is_not_counted() -> None:
    log = Nowhere()
    figures = SourceFigures(log, 10)
    log.fails = True
    with pytest.raises(OSError, match="disk full"):
        events_at(figures, range(1), 5)
    assert figures.events == 0
    assert figures.keys == []


def test_sources_beyond_the_limit_are_counted_without_figures() -> None:
    figures = SourceFigures(Nowhere(), 70)
    row = {"kind": Kind.EVENT, "ts": S, "arrival": S, "offset": 5}
    figures.append(a_frame([{**row, "source": f"s{n}"} for n in range(100)], "x"))
    assert len(figures.keys) == 70
    assert figures.events == 100
    assert figures.columns["events"][:70].tolist() == [1] * 70


def test_the_bound_grows_with_the_age_of_the_sync() -> None:
    figures = SourceFigures(Nowhere(), 10)
    sync = {"kind": Kind.SYNC, "source": "a", "ts": S, "arrival": S, "offset": 1001}
    figures.append(a_frame([sync], "x"))
    # Delay, precision and skew error are 1001 as well.
    assert figures.bound_ns(0, S) == 501 + 1001
    assert figures.bound_ns(0, 11 * S) == 501 + 1001 + 10 * 1001
    assert [tuple(point) for point in figures.history.points(0)] == [(S, 1001, 1502)]


@pytest.mark.parametrize(
    ("precision", "status"), [(1, ClockStatus.UNKNOWN), (None, ClockStatus.SYNCHRONIZED)]
)
def test_a_clock_that_a_new_start_cannot_compare_is_unknown(
    precision: int | None, status: ClockStatus
) -> None:
    def sync(arrival: int, offset: int | None, precision: int | None) -> dict[str, Any]:
        return {
            r.KIND: Kind.SYNC.value, r.SOURCE: "a", r.TS: arrival, r.ARRIVAL: arrival,
            r.OFFSET: offset, r.DELAY: offset and 0, r.PRECISION: precision, r.SKEW_ERROR_PPB: None,
        }  # fmt: skip

    def take(*records: dict[str, Any]) -> None:
        batch = pa.RecordBatch.from_pylist(list(records))
        kind = batch.schema.get_field_index(r.KIND)
        batch = batch.set_column(kind, r.KIND, batch[kind].cast(pa.int8()))
        source = batch.schema.get_field_index(r.SOURCE)
        figures.append(
            Frame("x", batch.set_column(source, r.SOURCE, batch[source].dictionary_encode()))
        )

    figures = SourceFigures(Nowhere(), 10)
    take(sync(S, 3 * S, 1))
    assert figures.status(0, S) is ClockStatus.SYNCHRONIZED
    take(sync(2 * S, 3 * S, 1), sync(2 * S, None, precision))
    assert figures.status(0, 2 * S) is status
    events_at(figures, range(3, 4), 1)
    assert figures.means(4 * S).lag[0] == pytest.approx(0.04 - 3)  # by the offset of before
    take(sync(4 * S, 2 * S, 1))
    assert figures.status(0, 4 * S) is ClockStatus.SYNCHRONIZED


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), max_size=400),
    st.integers(1, 300),
)
def test_memory_is_bounded_and_the_newest_stays(
    adds: list[tuple[int, int]], points_max: int
) -> None:
    history, now, given_ = ClockHistory(points_max), 0, dict[int, list[int]]()
    for source, step in adds:
        now += step * S
        history.add(source, now, source, 1)
        given_.setdefault(source, []).append(now)
        total = sum(len(history.points(each)) for each in given_)
        assert total <= max(points_max, EACH_LEAST * len(given_))
        kept = [point.at for point in history.points(source)]
        assert kept[-1] == now
        assert kept == sorted(kept)
        assert set(kept) <= set(given_[source])


def test_an_hour_is_kept_evenly() -> None:
    history = ClockHistory()
    for second in range(10_000):
        history.add(0, second * S, 0, 0)
    points = [point.at for point in history.points(0)]
    assert len(points) <= EACH_MAX
    assert points[-1] == 9999 * S
    assert SPAN_NS <= points[-1] - points[0] <= 1.2 * SPAN_NS
    steps = [b - a for a, b in itertools.pairwise(points)]
    assert max(steps) <= 1.2 * SPAN_NS / EACH_MAX
