"""A user's own files, answered in two commands: ``look``, and the one it prints.

The second command is pasted; where a case asks something else, its question replaces the proposed
one and the options stay. All values are compared with plain Python over the file. Files: as people
have them, and from public reports (named ``case-NN``), cut to a few rows.
"""

from __future__ import annotations

import csv
import gzip
import json
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.edge_agent.units import NS_PER

FILES = Path(__file__).parent / "own_files"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Event(NamedTuple):
    """One row: who, when, and the value that is averaged."""

    source: str
    at: datetime
    value: float | None


class Second(NamedTuple):
    """What the second command gave."""

    rows: list[dict[str, Any]]
    out: str
    err: str
    command: list[str]

    def at(self, time: str | int) -> datetime:
        """A time of the results: a date, or a number of the unit of the input."""
        if isinstance(time, str):
            return instant(time)
        words = self.command
        unit = words[words.index("--time-unit") + 1] if "--time-unit" in words else "ns"
        return EPOCH + timedelta(microseconds=time * NS_PER[unit] // 1000)


@pytest.fixture(name="second")
def _second(here: Path, cli: Callable[..., Any]) -> Callable[..., Second]:
    """Looks at files, and runs what ``look`` prints: behind a line with ``after`` in it, with
    ``question`` for the proposed one.
    """

    def run(*names: str, question: str | None = None, after: str = "to go on") -> Second:
        for name in names:
            if not (here / name).exists():
                shutil.copy(FILES / name, here / name)
        shown = cli("look", *names)
        lines = shown.out.splitlines()
        place = next((n for n, line in enumerate(lines) if line.startswith(after)), None)
        assert place is not None, shown.out + shown.err
        words = shlex.split(lines[place + 1])
        assert words[:2] == ["slackwater", "query"]
        if question is not None:
            words[2] = question
        ran = cli(*words[1:])
        assert ran.code == 0, ran.err
        return Second([row for row in ran.lines if row["op"] == "+"], ran.out, ran.err, words)

    return run


def instant(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def table(name: str, delimiter: str = ",") -> list[dict[str, str]]:
    with (FILES / name).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def objects(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FILES / name).read_text().splitlines()]


def windows(events: Iterable[Event], length: timedelta) -> dict[tuple[str, datetime], list[Event]]:
    found: dict[tuple[str, datetime], list[Event]] = {}
    for event in events:
        start = event.at - (event.at - EPOCH) % length
        found.setdefault((event.source, start), []).append(event)
    return found


def compare(ran: Second, events: Iterable[Event], average: str) -> None:
    """All windows of the answer: their keys, averages and counts."""
    (length,) = {ran.at(row["window"]["end"]) - ran.at(row["window"]["start"]) for row in ran.rows}
    answered = {
        (row["key"]["source"], ran.at(row["window"]["start"])): (
            row["value"][average], row["value"]["count(*)"]
        )
        for row in ran.rows
    }  # fmt: skip
    right = {}
    for key, inside in windows(events, length).items():
        values = [event.value for event in inside if event.value is not None]
        mean = pytest.approx(sum(values) / len(values), abs=1e-9) if values else None
        right[key] = mean, len(inside)
    assert len(ran.rows) == len(answered)
    assert answered == right


def excel() -> Iterator[Event]:
    for row in table("01_excel_eu.csv", ";"):
        day, month, rest = row["Zeitstempel"].split(".")
        at = instant(f"{rest[:4]}-{month}-{day}{rest[4:].replace(',', '.')}")
        yield Event(row["Sensor"], at, float(row["Temperatur"].replace(",", ".")))


def with_zones() -> Iterator[Event]:
    for row in table("02_iso_zones.csv"):
        yield Event(row["sensor_id"], instant(row["timestamp"]), float(row["value"]))


def nested() -> Iterator[Event]:
    for each in objects("03_nested.jsonl"):
        at = EPOCH + timedelta(milliseconds=each["timestamp"])
        yield Event(each["device"]["id"], at, each["data"]["temp"])


def of_pandas() -> Iterator[Event]:
    for row in table("05.csv"):
        yield Event(row["sensor"], instant(row["time"]), float(row["value"]))


def points() -> Iterator[Event]:
    for line in (FILES / "06.lp").read_text().splitlines():
        tags, fields, ns = line.split(" ")
        sensor = dict(tag.split("=") for tag in tags.split(",")[1:])["sensor"]
        value = dict(each.split("=") for each in fields.split(","))["temperature"]
        yield Event(sensor, EPOCH + timedelta(microseconds=int(ns) // 1000), float(value))


def gateway() -> Iterator[Event]:
    for row in table("09_gateway.csv"):
        yield Event(row["device_id"], instant(row["device_time"]), float(row["temp"]))


def resent() -> Iterator[Event]:
    """Without what came again."""
    for source, ms, _, value in sorted(
        {
            (each["sensor"], each["ts"], each["msg_no"], each["v"])
            for each in objects("10_dups.jsonl")
        }
    ):
        yield Event(source, EPOCH + timedelta(milliseconds=ms), value)


def messy() -> Iterator[Event]:
    for row in table("11_messy.csv"):
        value = row["value"]
        yield Event(row["sensor"], instant(row["ts"]), float(value) if value.isdigit() else None)


def without_header() -> Iterator[Event]:
    for line in (FILES / "12_nohdr.tsv").read_text().splitlines():
        seconds, pump, value = line.split("\t")
        yield Event(
            pump, EPOCH + timedelta(milliseconds=round(float(seconds) * 1000)), float(value)
        )


AVERAGES: dict[str, tuple[str, Callable[[], Iterator[Event]]]] = {
    "01_excel_eu.csv": ("avg(Temperatur)", excel),
    "02_iso_zones.csv": ("avg(value)", with_zones),
    "03_nested.jsonl": ("avg(data_temp)", nested),
    "04_pandas.parquet": ("avg(value)", of_pandas),
    "05.csv.gz": ("avg(value)", of_pandas),
    "05.csv.zst": ("avg(value)", of_pandas),
    "06.lp": ("avg(temperature)", points),
    "09_gateway.csv": ("avg(temp)", gateway),
    "10_dups.jsonl": ("avg(v)", resent),
    "11_messy.csv": ("avg(value)", messy),
    "12_nohdr.tsv": ("avg(c3)", without_header),
}


def packed(folder: Path, name: str) -> None:
    """Makes the file from what is kept of it as text."""
    content = (FILES / "05.csv").read_bytes()
    if name.endswith(".gz"):
        (folder / name).write_bytes(gzip.compress(content))
    elif name.endswith(".zst"):
        with pa.CompressedOutputStream(str(folder / name), "zstd") as out:
            out.write(content)
    elif name.endswith(".parquet"):
        rows = table("05.csv")
        when = pa.array([instant(row["time"]) for row in rows], pa.timestamp("ns", "Europe/Berlin"))
        values = [float(row["value"]) for row in rows]
        pq.write_table(
            pa.table({"sensor": [row["sensor"] for row in rows], "value": values, "time": when}),
            folder / name,
        )


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_per_source(name: str, here: Path, second: Callable[..., Second]) -> None:
    average, events = AVERAGES[name]
    packed(here, name)
    compare(second(name), events(), average)


def test_what_came_twice_and_what_is_missing(second: Callable[..., Second]) -> None:
    sent = Counter((each["sensor"], each["msg_no"]) for each in objects("10_dups.jsonl"))
    again = sum(sent.values()) - len(sent)
    numbers = {sensor: [no for of, no in sent if of == sensor] for sensor, _ in sent}
    missing = sum(max(each) + 1 - len(each) for each in numbers.values())
    assert (again, missing) == (14, 10)
    err = second("10_dups.jsonl").err
    assert "14 duplicates" in err
    lost = {sensor: max(each) + 1 - len(each) for sensor, each in numbers.items()}
    assert lost == {"a": 5, "b": 5}
    assert "10 missing (a: 5, b: 5)" in err


# Alarms of doors: open, and no badge in the room within 5 s.

ALARMS = "EVENT SEQ(door_open d, !badge b) WHERE b.room = d.room WITHIN 5 s"


def alarms(doors: list[dict[str, str]], badges: list[dict[str, str]], fast: float) -> set[datetime]:
    """When doors opened without a badge, of badges whose clock is ``fast`` [s]."""
    seen = [(row["room"], instant(row["time"]) - timedelta(seconds=fast)) for row in badges]
    opened = [(row["room"], instant(row["time"])) for row in doors]
    return {
        at for room, at in opened
        if not any(
            where == room and at < when <= at + timedelta(seconds=5) for where, when in seen
        )
    }  # fmt: skip


def found_alarms(ran: Second) -> dict[datetime, str]:
    found = {ran.at(row["events"][0]["ts"]): row["certainty"] for row in ran.rows}
    assert len(found) == len(ran.rows)
    return found


def test_doors_of_one_clock(second: Callable[..., Second]) -> None:
    rows = {
        type_: [row for row in table("07_doors.csv") if row["event"] == type_]
        for type_ in ("door_open", "badge")
    }
    right = alarms(rows["door_open"], rows["badge"], 0)
    assert len(right) == 15
    exact = second("07_doors.csv", question=ALARMS, after="if one clock stamped all")
    assert found_alarms(exact) == dict.fromkeys(right, "confirmed")
    nothing_said = second("07_doors.csv", question=ALARMS)
    assert found_alarms(nothing_said) == dict.fromkeys(right, "unknown"), "nobody measured it"


def test_doors_and_badges_whose_server_is_fast(
    second: Callable[..., Second], cli: Callable[..., Any]
) -> None:
    files = "08_door.csv", "08_badge.csv"
    right = alarms(table(files[0]), table(files[1]), 3.2)
    assert len(right) == 15
    ran = second(*files, question=ALARMS, after="if the clock of 08_badge is off")
    assert found_alarms(ran) == dict.fromkeys(right, "confirmed")
    shown = cli(
        "clocks", *files, "--map", "ts=time", "--map", "type=event", "--source-from", "name"
    )
    assert "say what you know: --clock exact if one clock stamped all" in shown.out


# Whose clock is off, and whose events are missing.


def test_whose_events_are_missing(second: Callable[..., Second]) -> None:
    numbers: dict[str, set[int]] = {}
    for row in table("09_gateway.csv"):
        numbers.setdefault(row["device_id"], set()).add(int(row["counter"]))
    lost = {device: max(each) + 1 - len(each) for device, each in numbers.items()}
    assert lost == {"d1": 3, "d2": 0, "d3": 0}
    assert "3 missing (d1)\n" in second("09_gateway.csv").err


@pytest.mark.parametrize(("shift", "said"), [(0, "2.5 s slow"), (5, "2.5 s fast")])
def test_whose_clock_is_off(shift: int, said: str, here: Path, cli: Callable[..., Any]) -> None:
    """09c is 09 with 5 s on the times of d2, which are 2.5 s back in 09."""
    lines = (FILES / "09_gateway.csv").read_text().splitlines()
    rows = list(csv.DictReader(lines))
    delays: dict[str, list[timedelta]] = {}
    for row in rows:
        if row["device_id"] == "d2":
            later = instant(row["device_time"]) + timedelta(seconds=shift)
            row["device_time"] = later.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        delay = instant(row["received_at"]) - instant(row["device_time"])
        delays.setdefault(row["device_id"], []).append(delay)
    with (here / "09.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(rows)
    shown = cli("look", "09.csv").out.splitlines()
    (place,) = (n for n, line in enumerate(shown) if line.startswith("if some clock may be wrong"))
    words = shlex.split(shown[place + 1])
    assert words[:2] == ["slackwater", "clocks"]
    ran = cli(*words[1:])
    assert ran.out.splitlines()[0] == f"d2 is about {said}."
    found = {each["name"]: each for each in json.loads(cli(*words[1:], "--json").out)["clocks"]}
    least = {device: min(each).total_seconds() for device, each in delays.items()}
    assert least["d2"] - least["d1"] == pytest.approx(2.5 - shift, abs=0.03)
    assert {device: each["events"] for device, each in found.items()} == {
        device: len(each) for device, each in delays.items()
    }


def test_numbers_that_are_none_are_counted(here: Path, second: Callable[..., Second]) -> None:
    nulls = sum(event.value is None for event in messy())
    assert nulls == 14
    assert (
        f"value: null in {nulls} rows (empty, or a word such as N/A)\n"
        in second("11_messy.csv").err
    )
    rest = "SELECT count(*) WINDOW TUMBLING 10 s"
    assert "null in" not in second("11_messy.csv", question=rest).err, "it does not ask for it"
    ran = second("case-13-temp.csv", question="SELECT avg(state) AS t WINDOW TUMBLING 1 h")
    assert "state: null in 2 rows" in ran.err
    for name in ("a", "b"):
        (here / f"{name}.csv").write_text("ts,v,room\n1,NA,r\n2,,\n3,7,r\n")
    ran = second("a.csv", "b.csv", question="SELECT v, room WHERE v > 0")
    assert "v: null in 4 rows" in ran.err
    assert "room" not in ran.err, "a text may be none"


def test_a_column_for_each_sensor(second: Callable[..., Second]) -> None:
    ran = second("13_wide.csv")
    found = {ran.at(row["window"]["start"]): row["value"] for row in ran.rows}
    inside: dict[datetime, list[dict[str, str]]] = {}
    (length,) = {ran.at(row["window"]["end"]) - ran.at(row["window"]["start"]) for row in ran.rows}
    for row in table("13_wide.csv"):
        at = instant(row["time"])
        inside.setdefault(at - (at - EPOCH) % length, []).append(row)
    assert found == {
        start: {
            f"avg({name})": pytest.approx(sum(float(row[name]) for row in rows) / len(rows))
            for name in ("temp_a", "temp_b", "temp_c")
        } | {"count(*)": len(rows)}
        for start, rows in inside.items()
    }  # fmt: skip


# Public reports.


@pytest.mark.parametrize("seconds", [1, 2, 3])
def test_case_02_a_join_has_no_row_with_null_beside_a_pair(
    seconds: int, second: Callable[..., Second]
) -> None:
    ran = second(
        "case-02-orders.csv", "case-02-items.csv",
        question='SELECT o.order_id, i.product FROM "case-02-orders" o LEFT JOIN "case-02-items" i '
        f"ON o.order_id = i.order_id WITHIN {seconds} s",
    )  # fmt: skip
    pairs = [("1", "Foo"), ("1", "Bar"), ("1", "Baz"), ("2", "Foo")]
    right = pairs if seconds >= 2 else [("1", None), ("2", None)]
    found = Counter((str(row["value"]["order_id"]), row["value"]["product"]) for row in ran.rows)
    assert found == Counter(right)


def test_case_06_few_stamps_of_1980_make_no_windows_of_days(second: Callable[..., Second]) -> None:
    ran = second("case-06-imu.csv")
    right: dict[int, list[float]] = {}
    for row in table("case-06-imu.csv"):
        if int(row["stamp"]) > 1_700_000_000 * 10**9:
            right.setdefault(int(row["stamp"]) // 10**9, []).append(float(row["ax"]))
    assert sum(map(len, right.values())) == 61
    assert {row["window"]["start"] // 10**9: row["value"] for row in ran.rows} == {
        at: {"avg(ax)": pytest.approx(sum(each) / len(each)), "count(*)": len(each)}
        for at, each in right.items()
    }
    assert "too late: 19 events" in ran.err


def test_case_09_the_first_read_on_either_mat(second: Callable[..., Second]) -> None:
    question = "SELECT min(ts) AS finish, first(mat) AS mat GROUP BY chip WINDOW SESSION 1 d"
    ran = second("case-09-reads.csv", question=question)
    first: dict[int, tuple[datetime, str]] = {}
    for row in table("case-09-reads.csv"):
        read = instant(row["time"]), row["mat"]
        first[int(row["chip"])] = min(first.get(int(row["chip"]), read), read)
    assert {
        row["key"]["chip"]: (ran.at(row["value"]["finish"]), row["value"]["mat"])
        for row in ran.rows
    } == first


def test_case_10_an_export_of_influxdb(second: Callable[..., Second]) -> None:
    size = "GROUP BY source WINDOW TUMBLING 1 min"
    minutes = {
        ("host1", 10): (65, 2), ("host1", 11): (70, 1), ("host2", 10): (30, 1),
        ("host2", 11): (34, 1),
    }  # fmt: skip
    for name, column in (("case-10-export.csv", "used"), ("case-10-one-table.csv", "_value")):
        assert f"avg({column})" in second(name).command[2]
        ran = second(name, question=f"SELECT avg({column}) AS mean, count({column}) AS n {size}")
        found = {
            (row["key"]["source"], ran.at(row["window"]["start"]).minute):
            (row["value"]["mean"], row["value"]["n"])
            for row in ran.rows if row["value"]["n"]
        }  # fmt: skip
        assert found == minutes


def test_case_10_before_1970(second: Callable[..., Second]) -> None:
    question = "SELECT sum(v) AS s, count(*) AS n WINDOW TUMBLING 1 min"
    ran = second("case-10-before-1970.csv", question=question)
    right: dict[datetime, list[float]] = {}
    for row in table("case-10-before-1970.csv"):
        minute = instant(row["ts"]).replace(second=0, microsecond=0)
        right.setdefault(minute, []).append(float(row["v"]))
    assert [len(each) for each in right.values()] == [3, 1, 1, 1]
    found = {ran.at(row["window"]["start"]): row["value"] for row in ran.rows}
    assert found == {
        minute: {"s": pytest.approx(sum(each)), "n": len(each)} for minute, each in right.items()
    }


def test_case_11_counters_without_a_key_for_0(second: Callable[..., Second]) -> None:
    ran = second("case-11-up.jsonl", question="SELECT count(*) AS n WINDOW TUMBLING 1 d")
    assert [row["value"]["n"] for row in ran.rows] == [7]
    assert "1 missing" in ran.err
    assert "duplicate" not in ran.err
    ran = second("case-11-abp.jsonl", question="SELECT count(*) AS n WINDOW TUMBLING 1 d")
    assert [row["value"]["n"] for row in ran.rows] == [3]


def test_case_13_words_among_temperatures(second: Callable[..., Second]) -> None:
    question = "SELECT avg(state) AS t, count(state) AS n WINDOW TUMBLING 1 h"
    ran = second("case-13-temp.csv", question=question)
    assert {ran.at(row["window"]["start"]).hour: row["value"] for row in ran.rows} == {
        7: {"t": pytest.approx((20.9 + 21.3 + 21.5) / 3), "n": 3}, 8: {"t": 22.1, "n": 1},
    }  # fmt: skip


def test_case_13_how_long_a_door_was_open(second: Callable[..., Second]) -> None:
    ran = second(
        "case-13-history.csv",
        question='EVENT SEQ("on" a, "off" b) WHERE a.source = b.source WITHIN 1 d CONTIGUITY NEXT '
        "RETURN a.source AS door, b.ts - a.ts AS open_ns",
    )
    found = [row["value"] for row in ran.rows]
    assert found == [{"door": "binary_sensor.door", "open_ns": 150 * 10**9}]


def test_case_17_one_alarm_an_hour(here: Path, second: Callable[..., Second]) -> None:
    rows = [
        {
            "type": "V",
            "ts": 60 * n,
            "arrival": 60 * n,
            "id": "s1",
            "v": 60 if 10 <= n <= 200 else 20,
        }
        for n in range(240)
    ]
    (here / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = second(
        "in.jsonl", after="if its times are in s ",
        question="EVENT SEQ(V a, !V b) WHERE a.v > 50 AND b.v <= 50 AND b.id = a.id WITHIN 30 s "
        "EMIT AT MOST 1 EVERY 1 h BY a.id",
    )  # fmt: skip
    assert [row["events"][0]["ts"] / 60 for row in ran.rows] == [10, 70, 130, 190]


def test_case_18_every_distinct(second: Callable[..., Second]) -> None:
    question = "EVENT SCAN s EMIT AT MOST 1 EVERY 1 s BY s.sig"
    ran = second("case-18-in.jsonl", question=question, after="if its times are in ms ")
    assert [row["events"][0]["ts"] for row in ran.rows] == [0, 1200, 2400, 9000]


def test_case_21_times_to_the_nanosecond(second: Callable[..., Second]) -> None:
    ran = second("case-21-ns.jsonl", question="SELECT v, ts")
    assert [row["value"]["ts"] for row in ran.rows] == [1641667732350000000, 1641667732350000001]
    ran = second("case-21-s.csv", question="SELECT v, ts")
    exact = [json.loads(line, parse_float=Decimal) for line in ran.out.splitlines()]
    assert [row["value"]["ts"] * 10**9 for row in exact] == [
        (Decimal(row["timestamp"]) * 10**9).to_integral_value() for row in table("case-21-s.csv")
    ]


def test_case_21_times_of_two_units_are_named(second: Callable[..., Second]) -> None:
    ran = second("case-21-mixed-units.csv")
    assert sum(row["value"]["count(*)"] for row in ran.rows) == 4
    assert "2 bad lines skipped" in ran.err


def test_case_29_metadata_two_columns_short_rows_and_1970(second: Callable[..., Second]) -> None:
    question = 'SELECT count(*) AS n WHERE Confirmed = 1 AND "Left" < 100 WINDOW TUMBLING 1 min'
    ran = second("case-29-obs.csv", question=question)
    found = {ran.at(row["window"]["start"]): row["value"]["n"] for row in ran.rows}
    assert found == {instant("2020-11-24T16:32:00Z"): 2}


@pytest.mark.parametrize(
    ("sign", "texts", "sum_"),
    [
        (",", ('"1,000.5"', "20.25", "3"), 1023.75),
        (",", ('"-1,234,567"', '"+1,000.00"', "0"), -1_233_567.0),
        (",", ('"1,000.5"', '"1,200"'), 2200.5),
        (",", ('"1,200"', "950", "0"), 2150.0),
        (",", ('"1,200"', "20.25"), 1220.25),
        (";", ("1.000,5", "20,25", "3"), 1023.75),
        (";", ("1,000.5", "20.25", "3"), 1023.75),
        (";", ("1,200", "3,5"), 4.7),
    ],
)
def test_signs_between_thousands_are_read_where_they_are_plain(
    sign: str, texts: tuple[str, ...], sum_: float, here: Path, cli: Callable[..., Any]
) -> None:
    rows = [f"{at}{sign}{text}\n" for at, text in enumerate(texts)]
    (here / "t.csv").write_text(f"ts{sign}v\n" + "".join(rows))
    run = cli("query", "SELECT sum(v) AS s WINDOW TUMBLING 10", "--input", "t.csv")
    assert run.lines[0]["value"] == {"s": pytest.approx(sum_)}


def test_one_column_tells_of_the_others_that_commas_are_between_thousands(
    second: Callable[..., Second], here: Path
) -> None:
    (here / "t.csv").write_text('ts,a,b\n1,"1,200","1,000,000"\n2,"3,400","2,000,000"\n')
    ran = second("t.csv")
    (window,) = ran.rows
    assert window["value"] == {"avg(a)": 2300.0, "avg(b)": 1_500_000.0, "count(*)": 2}


def test_blanks_around_values_and_nothing_else(second: Callable[..., Second], here: Path) -> None:
    (here / "t.csv").write_text("time , v , w\n2026-03-01 08:00 , 1 , a\n2026-03-01 08:01 ,  , b\n")
    ran = second("t.csv", question="SELECT v, w")
    assert [row["value"] for row in ran.rows] == [{"v": 1, "w": "a"}, {"v": None, "w": "b"}]


def test_where_intervals_begin_and_end(second: Callable[..., Second], here: Path) -> None:
    (here / "t.csv").write_text(
        "id,start,end\n1,2026/03/01 08:00,2026/03/01 08:02\n2,2026/03/01 08:05,2026/3/1 8:06\n"
    )
    ran = second("t.csv", question="SELECT te - ts AS long")
    assert [row["value"]["long"] for row in ran.rows] == [120 * 10**9, 60 * 10**9]


@pytest.mark.parametrize(
    "texts",
    [
        ('"1,200"', '"3,400"'),  # or 1.2 and 3.4
        ('"1,200"', "0", "5"),  # or 1.2, 0 and 5
        ('"1,000.5"', "1200"),
        ('"1,00.5"', "3.5"),
        ("12345678901234567890", "3.5"),
        ('"123,456,789,012,345,678"', "3.5"),
        ('"01,000.5"', "3.5"),
    ],
)
def test_numbers_that_could_be_others_are_texts(
    texts: tuple[str, ...], here: Path, cli: Callable[..., Any]
) -> None:
    rows = [f"{at},{text}\n" for at, text in enumerate(texts)]
    (here / "t.csv").write_text("ts,v\n" + "".join(rows))
    run = cli("query", "SELECT sum(v) AS s WINDOW TUMBLING 10", "--input", "t.csv")
    assert run.code == 2
    assert "'v' is text, and sum takes numbers" in run.err
    assert "one that is no number makes it text" in run.err
