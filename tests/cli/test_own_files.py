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
        return Second([row for row in ran.lines if row["op"] == "+"], ran.err, words)

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
        at = datetime.strptime(row["Zeitstempel"] + "000", "%d.%m.%Y %H:%M:%S,%f")
        yield Event(
            row["Sensor"], at.replace(tzinfo=UTC), float(row["Temperatur"].replace(",", "."))
        )


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
    assert "10 missing" in err
