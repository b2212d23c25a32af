"""Measures of orders: goldens counted by hand, and against slow counts over the same rows.

And the column on disk that they are read from.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import slackwater.engine.apps.compare.measure as module
from slackwater.engine.apps.compare.measure import (
    Durations,
    Measures,
    Reading,
    arrivals,
    measure,
    measure_many,
)
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import IN_ORDER, LATE_DROPPED
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order

FIG_2_6 = [1, 4, 3, 5, 6, 9, 7, 8, 10, 13]
MakeLog = Callable[..., Path]
ORDERS = [
    "none",
    "none:time=ts",
    "sequence:timeout=fixed:6",
    "sequence:timeout=fixed:3,late=pass",
    "sequence:timeout=fixed:3,residual=drop",
    "kslack:4",
    "kslack:2,late=drop",
    "mp-kslack:time=ts",
]


def of_one(times: Sequence[int]) -> list[dict[str, Any]]:
    return [{"source": "a", "ts": time, "arrival": row} for row, time in enumerate(times)]


def plain(measures: Measures) -> dict[str, Any]:
    """Without what depends on the machine."""
    return {k: v for k, v in dataclasses.asdict(measures).items() if k != "seconds"}


def test_r19_fig_2_6_counted_by_hand(make_log: MakeLog) -> None:
    log = make_log(of_one(FIG_2_6))
    found = measure(log, "kslack:2", guards=Guards(None))
    # Released 1 3 4 5 6 7 8 9 10 13 at 1 3 4 5 5 6 8 9 9 9, having arrived at 0 2 1 3 4 6 7 5 8 9.
    assert found.hold == Durations(mean_ns=1.4, p50_ns=1, p95_ns=4, p99_ns=4, max_ns=4)
    assert (found.disorder_before, found.disorder_after) == (3, 0)  # 3, 7 and 8
    assert (found.accuracy, found.completeness, found.late) == (1.0, 1.0, 0)
    mp = measure(log, "mp-kslack", guards=Guards(None))
    assert (mp.disorder_after, mp.late, mp.accuracy) == (1, 1, 1 - 1 / 3)  # 3 comes after 4
    assert (mp.in_place, mp.completeness, mp.released) == (9, 0.9, 10)
    none = measure(log, "none", guards=Guards(None))
    assert (none.accuracy, none.completeness, none.hold.max_ns) == (0.0, 0.7, 0)
    steps = (found.steps_back, mp.steps_back, none.steps_back)
    assert steps == (0, 1, 2), "of 7 and 8 after 9, the second comes just after one that is less"
    assert (none.missing, none.arrived, none.sites, none.sources) == (None, 10, 1, 1)


def test_spec_3_1_fixed_timeout_counted_by_hand(make_log: MakeLog) -> None:
    """Numbers 1,2,4,5,6,3,7: 4, 5 and 6 wait for 3; with a timeout of 1 they do not."""
    numbers = [1, 2, 4, 5, 6, 3, 7]
    log = make_log(
        [{"source": "a", "seq": n, "ts": 10 * n, "arrival": at} for at, n in enumerate(numbers)]
    )
    patient = measure(log, "sequence:timeout=fixed:10", guards=Guards(None))
    assert (patient.hold.mean_ns, patient.hold.max_ns) == ((3 + 2 + 1) / 7, 3)
    assert (patient.missing, patient.completeness) == (0, 1.0)
    hasty = measure(log, "sequence:timeout=fixed:1", guards=Guards(None))
    assert (hasty.dropped, hasty.late, hasty.released, hasty.missing) == (1, 0, 6, 0)
    assert (hasty.disorder_after, hasty.accuracy, hasty.completeness) == (0, 1.0, 6 / 7)
    passed = measure(log, "sequence:timeout=fixed:1,late=pass", guards=Guards(None))
    assert (passed.dropped, passed.late, passed.disorder_after, passed.accuracy) == (0, 1, 1, 0.0)


def test_missing_duplicates_and_quarantined_are_accounted_for(make_log: MakeLog) -> None:
    sent = [(1, 10), (2, 20), (2, 20), (5, 50), (6, 2_000_000_000), (7, 70)]
    log = make_log(
        [{"source": "a", "seq": n, "ts": ts, "arrival": 100 + n} for n, ts in sorted(sent)]
    )
    found = measure(log, "sequence:timeout=fixed:1")
    assert (found.missing, found.duplicates, found.quarantined) == (2, 1, 1)
    assert found.arrived == 6 == found.released + found.dropped + 2
    assert found.completeness == 4 / 5  # the second copy was not waited for


def test_truth_and_departure_are_read_from_attributes(make_log: MakeLog) -> None:
    """A clock that is 100 behind, uncorrected: by ref all is well; the truth is not."""
    log = make_log(
        [
            {
                "source": source, "seq": n, "ts": true - wrong, "arrival": true + 5,
                "attrs": {"true": true, "left": true + 2},
            }
            for n, true in enumerate(range(10, 60, 10))
            for source, wrong in (("a", 0), ("b", 100))
        ]
    )  # fmt: skip
    believed = measure(log, "kslack:200", guards=Guards(None))
    assert (believed.disorder_before, believed.disorder_after) == (5, 0)
    assert believed.latency == believed.hold
    reading = Reading(truth="true", departed="left")
    found = measure(log, "kslack:200", reading, Guards(None))
    assert (found.disorder_before, found.disorder_after, found.accuracy) == (0, 4, None)
    assert found.completeness == 1.0  # by what the order knew
    assert found.latency.p50_ns == found.hold.p50_ns + 3


@pytest.mark.parametrize(
    ("attrs", "says"),
    [
        ([{}, {}], "have no attribute 'true'"),
        ([{"true": 1}, {}], "1 of 2 events in a row have no attribute 'true'"),
        ([{"true": 1.5}, {"true": 2.5}], "'true' is of type float"),
    ],
)
def test_a_truth_that_events_lack_is_reported(
    make_log: MakeLog, attrs: list[dict[str, Any]], says: str
) -> None:
    records = [{"ts": row, "arrival": row, "attrs": each} for row, each in enumerate(attrs)]
    with pytest.raises(UserError, match=says):
        measure(make_log(records), "kslack:1", Reading(truth="true"))


def test_a_log_without_events_is_reported(make_log: MakeLog) -> None:
    with pytest.raises(UserError, match="holds no events"):
        measure(make_log([{"kind": "tick", "arrival": 5}]), "none")


def unruly(seed: int) -> list[dict[str, Any]]:
    """Two sites with two sources each: delayed, repeated and lost events, wrong clocks, syncs."""
    rng = random.Random(seed)
    records: list[dict[str, Any]] = []
    for site in ("n", "s"):
        for number, source in enumerate(("a", "b")):
            wrong = 7 * number
            sync = {"kind": "sync", "site": site, "source": source, "offset": wrong, "delay": 2}
            records.append({**sync, "ts": 0, "first_seq": 0, "arrival": 0})
            for seq in range(25):
                true = 3 * seq + number
                for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 1, 2))):
                    arrival = true + rng.choice((1, 1, 2, 9))
                    future = 10**6 if rng.random() < 0.03 else 0
                    attrs = {"true": true, "left": true + 1}
                    record = {"site": site, "source": source, "seq": seq, "attrs": attrs}
                    records.append({**record, "ts": true - wrong + future, "arrival": arrival})
    return sorted(records, key=lambda record: record["arrival"])


Row = dict[str, Any]


# ---- measures as their definitions read: every event is compared with every other ---------------
def rows_of(log: Path, order: str, guards: Guards) -> dict[str, list[Row]]:
    """What is measured: each site's ordered stream, a dict per event."""
    chosen = ChainSettings(parse_order(order), guards=guards, ordered="full")
    chains: dict[str, Chain] = {}
    found: dict[str, list[Row]] = {}
    for frame in LogReader(log):
        chain = chains.setdefault(frame.site, Chain(chosen, frame.site))
        found.setdefault(frame.site, []).extend(_rows(chain.process([frame]).ordered))
    for site, chain in chains.items():
        found[site] += _rows(chain.finish().ordered)
    return found


STATUS = {IN_ORDER: "in order", LATE_DROPPED: "dropped"}


def _rows(batches: Sequence[Any]) -> list[Row]:
    rows = [
        {name: column[row].item() for name, column in batch.columns.items()}
        for batch in batches
        for row in range(batch.n)
    ]
    return [row | {"status": STATUS.get(row["status"], "late")} for row in rows]


def out_of_order(times: Sequence[int]) -> list[bool]:
    """L10 4.3.1: some earlier one has a larger time."""
    return [any(before > time for before in times[:place]) for place, time in enumerate(times)]


def slow_measures(
    before: dict[str, list[Row]], after: dict[str, list[Row]], time: str, departed: str
) -> Row:
    """Of what came in and what came out, by site; ``time``, ``departed``: columns."""
    passed = {
        site: [row for row in rows if row["status"] != "dropped"] for site, rows in after.items()
    }
    rows = [row for of_site in passed.values() for row in of_site]
    behind = {site: out_of_order([row["ref"] for row in of]) for site, of in passed.items()}
    return {
        "released": len(rows),
        "dropped": sum(map(len, after.values())) - len(rows),
        "late": sum(row["status"] == "late" for row in rows),
        "in_place": sum(
            row["status"] == "in order" and not late
            for site, of in passed.items()
            for row, late in zip(of, behind[site], strict=True)
        ),
        "disorder_before": sum(
            sum(out_of_order([row[time] for row in of])) for of in before.values()
        ),
        "disorder_after": sum(
            sum(out_of_order([row[time] for row in of])) for of in passed.values()
        ),
        "hold": slow_spread([row["release"] - row["arrival"] for row in rows]),
        "latency": slow_spread([row["release"] - row[departed] for row in rows]),
    }


def slow_spread(values: Sequence[int]) -> tuple[float, int, int, int, int]:
    """Mean, and the smallest values that 50, 95, 99 and 100 % of all do not exceed."""
    if not values:
        return (0.0, 0, 0, 0, 0)
    ranks = (
        min(v for v in values if 100 * sum(w <= v for w in values) >= share * len(values))
        for share in (50, 95, 99, 100)
    )
    p50, p95, p99, most = ranks
    return (sum(values) / len(values), p50, p95, p99, most)


@pytest.mark.parametrize("order", ORDERS)
@settings(
    max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10**6), rows=st.sampled_from([9, 1000]))
def test_measures_are_what_slow_counting_finds(
    make_log: MakeLog, order: str, seed: int, rows: int
) -> None:
    log, guards = make_log(unruly(seed), rows), Guards(1000)
    before = rows_of(log, "none:time=ts" if "time=ts" in order else "none", guards)
    after = rows_of(log, order, guards)
    for reading, time, departed in (
        (Reading(), "ref", "arrival"),
        (Reading("true", "left"), "attrs.true", "attrs.left"),
    ):
        found = measure(log, order, reading, guards)
        slow = slow_measures(before, after, time, departed)
        for name in ("hold", "latency"):
            spread = getattr(found, name)
            assert spread.mean_ns == pytest.approx(slow[name][0])
            assert dataclasses.astuple(spread)[1:] == slow[name][1:]
        assert {k: getattr(found, k) for k in slow if k not in ("hold", "latency")} == {
            k: v for k, v in slow.items() if k not in ("hold", "latency")
        }
        lost = found.dropped + found.quarantined + found.duplicates
        assert found.arrived == found.released + lost
        assert (found.sites, found.sources) == (2, 4)


def test_batches_change_nothing(make_log: MakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    records = unruly(5)
    log = make_log(records)
    whole = [plain(measure(log, order)) for order in ORDERS]
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 7)
    small = make_log(records, 11)
    for order, before in zip(ORDERS, whole, strict=True):
        after = plain(measure(small, order))
        assert after == before


def test_many_orders_are_measured_as_one_by_one(make_log: MakeLog) -> None:
    log = make_log(unruly(6))
    seen: list[int] = []
    before, found = measure_many(log, ORDERS, advanced=seen.append)
    assert [plain(each) for each in found] == [plain(measure(log, order)) for order in ORDERS]
    assert sum(seen) == (len(ORDERS) + 2) * len(unruly(6))  # arrivals by ref and by ts
    assert before.disorder == found[0].disorder_before != found[1].disorder_before
    assert all(each.seconds > 0 and each.events_per_second > 0 for each in found)


def test_a_slack_for_a_share_leaves_no_more_than_the_rest_late(make_log: MakeLog) -> None:
    log = make_log(unruly(7))
    before = arrivals(log)
    assert len(before.lateness) == before.disorder > 20
    late = before.lateness
    for share in (0.0, 0.5, 0.9, 1.0):
        k = before.slack_for(share)
        assert (late <= k).sum() >= share * before.disorder
        found = measure(log, f"kslack:{k}")
        assert found.disorder_after <= (1 - share) * before.disorder
    assert before.slack_for(1.0) == late[-1] == before.lateness[-1]
