"""Numbers as devices count them: counters that wrap around, restarts, reused numbers, none.

``test_devices_are_recognised`` makes devices with true numbers, lets them count as devices do, and
compares what the reader finds with the truth.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest

import slackwater as sw
from slackwater.engine.core.errors import UserError
from slackwater.engine.log.input.input_read import InputForm
from slackwater.engine.log.input.intake import RowIntake
from slackwater.engine.log.input.numbering import REMEMBERED, Numbering, read_seq_bits
from slackwater.engine.log.input.parquet_import import TableRead
from slackwater.engine.log.input.table_import import as_arrow

ORDERS = ("sequence", "kslack:5s", "mp-kslack", "none")
Events = list[dict[str, Any]]


def table(rows: Events) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def numbers(rows: Events, parts: int = 1, **form: Any) -> tuple[list[Any], tuple[Any, ...]]:
    """(incarnation, seq) of each event as read, and what was found."""
    found: list[Any] = []
    rows = [row | {"arrival": number} for number, row in enumerate(rows)]
    read = TableRead(as_arrow(table(rows)), InputForm("ns", **form))
    if parts > 1:
        intake = RowIntake(1, Numbering(read.form.seq_bits))
        step = -(-len(rows) // parts)
        for start in range(0, len(rows), step):
            part = TableRead(as_arrow(table(rows[start : start + step])), read.form)
            part._intake = intake
            found += _read(part)
        return found, intake.numbering.found()
    found += _read(read)
    return found, read.counted_lanes


def _read(read: TableRead) -> list[Any]:
    found = []
    for frame in read:
        columns = frame.batch.to_pydict()
        none = [0] * frame.batch.num_rows
        found += list(zip(columns.get("incarnation", none), columns["seq"], strict=True))
    return found


def said(rows: Events, **options: Any) -> tuple[list[dict[str, Any]], list[str], dict[str, int]]:
    """Events in order, warnings, and the sums of the counters."""
    reading = {name: options.pop(name) for name in ("time_unit", "seq_bits") if name in options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ordered = sw.order(sw.read(table(rows), **reading), **options)
        events = list(ordered)
    lanes = [each for site in ordered.counters["sites"].values() for each in site["lanes"]]
    names = {name for lane in lanes for name, value in lane.items() if isinstance(value, int)}
    sums = {name: sum(int(lane.get(name) or 0) for lane in lanes) for name in names}
    return events, [str(each.message) for each in caught], sums


@pytest.mark.parametrize("order", ORDERS)
def test_04_sparkplug_seq_wrap(order: str) -> None:
    rows: Events = [
        {"source": "E1", "seq": i % 256, "ts": 1000 * i, "arrival": 1000 * i + 40, "v": 20 + i % 7}
        for i in range(305)
        if i != 100
    ]
    rows[149]["arrival"] += 1000
    rows.sort(key=lambda row: row["arrival"])
    events, reported, sums = said(rows, order=order, time_unit="ms")
    assert sorted(event["seq"] for event in events) == [i for i in range(305) if i != 100]
    assert sums.get("duplicate", 0) == 0
    if order == "sequence":
        assert sums["missing_total"] - sums["missing_filled"] == 1
    assert [line for line in reported if "counter of 8 bits that wrapped around once" in line]
    declared, reported, _ = said(rows, order=order, time_unit="ms", seq_bits=8)
    assert [event["seq"] for event in declared] == [event["seq"] for event in events]
    assert not reported


@pytest.mark.parametrize("order", ORDERS)
def test_04_two_events_of_one_number_are_kept(order: str) -> None:
    rows: Events = [
        {"source": "abp", "seq": 5, "ts": 0, "temp": 1},
        {"source": "abp", "seq": 6, "ts": 60, "temp": 2},
        {"source": "abp", "seq": 6, "ts": 90, "temp": 3},
        {"source": "abp", "seq": 6, "ts": 60, "temp": 2},
        {"source": "abp", "seq": 7, "ts": 120, "temp": 4},
    ]
    events, reported, sums = said(rows, order=order)
    assert [event["temp"] for event in map(_attrs, events)] == [1, 2, 3, 4]
    assert (sums["duplicate"], sums["reused"]) == (1, 1)
    (line,) = reported
    assert "source abp: 1 events have a number" in line
    assert "seq_bits" in line
    assert "incarnation" in line


def _attrs(event: dict[str, Any]) -> dict[str, Any]:
    attrs: dict[str, Any] = event["attrs"]
    return attrs


@pytest.mark.parametrize("order", ORDERS)
def test_11_chirpstack_hole(order: str) -> None:
    rows: Events = [
        {"source": "a", "seq": seq, "ts": ts, "v": v}
        for seq, ts, v in ((0, 10, 0), (1, 20, 1), (None, 25, 99), (2, 30, 2), (3, 40, 3))
    ]
    events, _, sums = said(rows, order=order)
    assert sorted((event.get("seq"), _attrs(event)["v"]) for event in events if "seq" in event) == [
        (0, 0), (1, 1), (2, 2), (3, 3),
    ]  # fmt: skip
    assert (sums["arrived"], sums["duplicate"], sums["unnumbered"]) == (5, 0, 1)
    query = "SELECT sum(v) AS s, count(*) AS n WINDOW TUMBLING 100"
    (window,) = sw.query(table(rows), query, order=order)
    assert window["value"] == {"s": 105, "n": 5}


@pytest.mark.parametrize("order", ORDERS)
def test_11_chirpstack_number_zero_without_a_key(order: str) -> None:
    """Numbers 0 1 2 4, restart, 0 1 2, of which no 0 is written."""
    rows: Events = [
        {"source": "d", "seq": seq, "ts": 60 * i, "v": i}
        for i, seq in enumerate((None, 1, 2, 4, None, 1, 2))
    ]
    events, reported, sums = said(rows, order=order)
    assert [_attrs(event)["v"] for event in events] == list(range(7))
    assert sums["duplicate"] == 0
    if order == "sequence":
        assert sums["missing_total"] == 1
    assert [line for line in reported if "begin again once" in line and "incarnation" in line]


@pytest.mark.parametrize("order", ORDERS)
def test_11_chirpstack_abp(order: str) -> None:
    rows: Events = [
        {"source": "abp", "seq": seq, "ts": 60 * i, "temp": i + 1}
        for i, seq in enumerate((0, 0, 1))
    ]
    events, reported, sums = said(rows, order=order)
    assert [(event.get("incarnation", 0), event["seq"]) for event in events] == [
        (0, 0), (1, 0), (1, 1),
    ]  # fmt: skip
    assert sums["duplicate"] == 0
    assert len(reported) == 1


def test_first_event_without_a_number() -> None:
    rows: Events = [{"ts": 5, "v": 98}, {"seq": 0, "ts": 10, "v": 0}, {"seq": 1, "ts": 20, "v": 1}]
    events, _, sums = said(rows)
    assert [_attrs(event)["v"] for event in events] == [98, 0, 1]
    assert sums["duplicate"] == 0


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match='"seq" does not fit in 8 bits'):
        sw.read({"seq": [255, 256], "ts": [1, 2]}, seq_bits=8)
    with pytest.raises(UserError, match="8, 16 or 32 bits"):
        sw.read({"seq": [1], "ts": [1]}, seq_bits=12)
    assert read_seq_bits({"a": 8}) == {"a": 8}


def test_two_sources_count_one_stream_in_other_widths() -> None:
    rows = [
        {"source": source, "seq": n % (1 << bits), "ts": 1000 * n}
        for n in range(250, 270)
        for source, bits in (("a", 8), ("b", 16))
    ]
    found = numbers(rows, seq_bits={"events": 16, "a/events": 8})[0]
    assert sorted(seq for _, seq in found) == sorted([*range(250, 270)] * 2)
    sw.read({"source": ["a", "b"], "seq": [255, 256], "ts": [1, 2]}, seq_bits={"a/events": 8})
    with pytest.raises(UserError, match="does not fit in 8 bits"):
        sw.read({"source": ["a", "b"], "seq": [256, 256], "ts": [1, 2]}, seq_bits={"a/events": 8})


def test_a_stated_incarnation_is_believed() -> None:
    rows: Events = [
        {"seq": 0, "incarnation": 3, "ts": 10}, {"seq": 1, "incarnation": 3, "ts": 20},
        {"seq": 0, "incarnation": 3, "ts": 30},
    ]  # fmt: skip
    found, (lane,) = numbers(rows)
    assert found == [(3, 0), (3, 1), (3, None)]
    assert (lane.restarts, lane.reused) == (0, 1)


def test_what_is_remembered_is_bounded() -> None:
    many = REMEMBERED * 4
    rows = {"seq": list(range(many)), "ts": list(range(many)), "v": [0] * many}
    for place, (seq, ts) in enumerate([(many - 1, 1), (many - REMEMBERED, 1)]):
        rows["seq"].append(seq)
        rows["ts"].append(ts + place)
        rows["v"].append(1)
    rows["seq"].append(5)
    rows["ts"].append(5)
    rows["v"].append(1)
    read = TableRead(as_arrow(rows), InputForm("ns"))
    last = [seq for frame in read for seq in frame.batch.column("seq").to_pylist()][-3:]
    assert last == [None, None, 5], "what lies further back counts as not seen"


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("declared", [True, False])
def test_devices_are_recognised(seed: int, declared: bool) -> None:
    """Losses, copies, delays and restarts of counters of 8 and 16 bits, in any cut."""
    rng = random.Random(seed)
    bits = rng.choice((8, 16))
    rows: list[tuple[int, dict[str, Any], tuple[int, int]]] = []
    ts = incarnation = number = 0
    if bits == 16:
        number = 65_000
    first = number
    for _ in range(900):
        ts += rng.randint(50, 100)
        starts = number % 2**bits in range(30, 150) and rng.random() < 0.02
        if starts:
            incarnation, number = incarnation + 1, 0
        row = {"source": "d", "seq": number % 2**bits, "ts": ts, "v": rng.randint(0, 9)}
        true = (incarnation, number)
        number += 1
        if rng.random() < 0.05 and not starts:
            continue  # lost
        # What arrives between a restart and its number 0 cannot be told apart.
        rows.append((ts + rng.randint(0, 40 if starts else 200), row, true))
        if rng.random() < 0.1:
            rows.append((ts + rng.randint(100, 400), dict(row), true))
    rows.sort(key=lambda each: each[0])
    form = {"seq_bits": {"": bits}} if declared else {}
    given = [row for _, row, _ in rows]
    base = first - first % 2**bits
    for parts in (1, rng.randint(2, 40)):
        found, lanes = numbers(given, parts, **form)
        assert found == [(inc, seq - (0 if inc else base)) for _, _, (inc, seq) in rows]
        assert not sum(lane.reused for lane in lanes)


def test_content_of_later_parts_is_compared() -> None:
    """A column that only some parts have, and text as dictionary or not, make no difference."""
    rows: Events = [
        {"seq": 5, "ts": 1, "v": 1, "w": None}, {"seq": 6, "ts": 2, "v": 1.5, "w": "x"},
        {"seq": 5, "ts": 1, "v": 1.0}, {"seq": 6, "ts": 2, "v": 1.5, "w": "x"},
        {"seq": 6, "ts": 2, "v": 1.5, "w": "y"},
    ]  # fmt: skip
    for parts in (1, 2, 5):
        found, _ = numbers(rows, parts)
        assert [seq for _, seq in found] == [5, 6, 5, 6, None], parts


def imu() -> Events:
    """Case 06: 80 samples at 10 Hz, of which 19 (31 to 49) are stamped in 1980."""
    start, odd = 1_740_564_855_000_000_000, 315_965_245_100_000_000
    return [
        {
            "seq": n, "arrival": start + n * 10**8 + 2_000_000,
            "ts": odd + (n - 31) * 10**8 if 31 <= n < 50 else start + n * 10**8,
        }
        for n in range(80)
    ]  # fmt: skip


def test_06_imu_1980() -> None:
    _, reported, sums = said(imu())
    (line,) = reported
    assert "the clock was set back, not the network slow (source s0)" in line
    assert "sync record" in line
    assert "incarnation" in line
    assert "order=" not in line
    assert sums["arrived"] == 80
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        windows = sw.query(table(imu()), "SELECT count(*) AS n WINDOW TUMBLING 1 s")
    good = [each["value"]["n"] for each in windows if each["window"]["start"] > 10**18]
    assert good == [10, 10, 10, 1, 10, 10, 10]


@pytest.mark.parametrize("rows", [imu(), imu()[30:32], [{"ts": 1_740_564_858 * 10**9}, {"ts": 1}]])
def test_06_compare_lives_through_an_odd_stamp(rows: Events) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared = sw.compare(table(rows))
        swept = sw.compare(table(rows), sweep="measured")
    assert {"none", "sequence"} <= {each["order"] for each in compared}
    assert len(swept) >= 2


def test_15_xdf_clock_resets() -> None:
    rows: Events = [
        {"kind": "sync", "source": "d", "ts": 1000, "offset": 0, "delay": 2, "arrival": 1000},
        {"source": "d", "seq": 0, "ts": 2000, "arrival": 2001},
        {"source": "d", "seq": 1, "ts": 3000, "arrival": 3001},
        {"source": "d", "seq": 2, "ts": 0, "arrival": 4001},
        {"source": "d", "seq": 3, "ts": 1000, "arrival": 5001},
        {"kind": "sync", "source": "d", "ts": 1500, "offset": 4000, "delay": 2, "arrival": 5501},
        {"source": "d", "seq": 4, "ts": 2000, "arrival": 6001},
    ]
    _, reported, _ = said(rows, time_unit="ms")
    (line,) = [each for each in reported if "smaller number" in each]
    assert "if the clock was set back, give a sync record" in line
    assert "incarnation" in line
    assert 'order="kslack:3s"' in line
    more = rows[:2] + [
        {"source": "d", "seq": n, "ts": (n if n < 60 else n - 60) * 1000, "arrival": n * 1000 + 1}
        for n in range(3, 120)
    ]
    _, reported, _ = said(more, time_unit="ms")
    (line,) = [each for each in reported if "smaller number" in each]
    assert "the clock was set back, not the network slow (source d)" in line
    assert "order=" not in line


@pytest.mark.parametrize("back_ns", [1, 10**9, 2**59, 2**60, 2**60 + 1, 2**61])
def test_every_recommended_order_is_one(back_ns: int) -> None:
    times = [*range(2**61, 2**61 + 4), 2**61 - back_ns]
    rows: Events = [{"seq": n, "ts": ts} for n, ts in enumerate(times)]
    _, reported, _ = said(rows)
    (line,) = [each for each in reported if "smaller number" in each]
    for word in line.split():
        if word.startswith("order="):
            events, _, _ = said(rows, order=word.removeprefix("order=").strip('",'))
            assert len(events) == 5
