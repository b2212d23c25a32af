"""``slackwater look``: what is in a file, and a command that works when it is pasted."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.cli.app import run

SENSORS = ("s0", "s1")
MS = 1_772_352_000_000
EU = "\ufeffZeitstempel;Sensor;Temperatur\n" + "".join(
    f"01.03.2026 08:00:{second:02d},500;{SENSORS[second % 2]};2{second % 3},25\n"
    for second in range(20)
)
NESTED = "".join(
    json.dumps(
        {"device": {"id": SENSORS[n % 2]}, "timestamp": 1772352000000 + 500 * n,
         "data": {"temp": 20 + n}, "tags": ["a"]}
    ) + "\n"
    for n in range(20)
)  # fmt: skip
GATEWAY = "received_at,device_id,counter,device_time,temp\n" + "".join(
    f"2026-03-01T08:00:{n:02d}.3Z,{SENSORS[n % 2]},{n // 2},2026-03-01T08:00:{n:02d}Z,{n}.5\n"
    for n in range(20)
)
NO_HEADER = "".join(f"{1772352000 + n}.250\t{SENSORS[n % 2]}\t{n}.5\n" for n in range(20))
RESERVED = "time,host,select,a b\n" + "".join(
    f"2026-03-01T08:00:{n:02d}Z,h,{n},1\n" for n in range(9)
)
ODD = "logger 7\nDate;Time;dev;v;w\n" + "".join(
    f"01.03.2026;08:00:{n:02d};s{n % 2};{'offline' if n == 3 else n};x\n" if n != 7
    else f"01.03.2026;08:00:{n:02d};s1;7\n" for n in range(20)
)  # fmt: skip
POINTS = "".join(f"mem,host=s{n % 2} used={n}.5 {1772352000 + n}000000000\n" for n in range(20))
OF_DAY = "mat,reader,time\n" + "".join(f"m,s{n % 2},10:30:{n:02d}.2\n" for n in range(20))
POINTED = RESERVED.replace("select,a b", "a.b,attrs.v")
LITERAL = "".join(f'{{"ts": {n}, "": {n}, "a.b": {n}, "c": {{"d": {n}}}}}\n' for n in range(20))
WITHIN = json.dumps({"data": [{"ts": n, "v": {"x": n}} for n in range(20)]})
FILES: dict[str, tuple[str, dict[str, str]]] = {
    "eu.csv": (EU, {"Zeitstempel": "ts", "Sensor": "source"}),
    "nested.jsonl": (NESTED, {"timestamp": "ts", "device.id": "source"}),
    "gateway.csv": (
        GATEWAY,
        {"received_at": "arrival", "device_id": "source", "counter": "seq", "device_time": "ts"},
    ),
    "no-header.tsv": (NO_HEADER, {"ts": "ts", "source": "source"}),
    "odd.csv": (ODD, {"Date": "ts", "Time": "ts", "dev": "source"}),
    "points.lp": (POINTS, {"ts": "ts", "type": "type", "host": "source"}),
    "of-day.csv": (OF_DAY, {"time": "ts", "reader": "source"}),
    "reserved.csv": (RESERVED, {"time": "ts", "host": "source"}),
    "points.csv": (POINTED, {"time": "ts", "host": "source"}),
    "literal.jsonl": (LITERAL, {"ts": "ts"}),
    "within.json": (WITHIN, {"ts": "ts"}),
}


def _rows(results: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.splitlines()]


@pytest.mark.parametrize("name", FILES)
def test_the_command_to_go_on_with_works_when_pasted(
    name: str, here: Path, cli: Callable[..., Any]
) -> None:
    text, fields = FILES[name]
    (here / name).write_text(text, encoding="utf-8")
    shown = cli("look", name)
    assert shown.code == 0, shown.err
    found = json.loads(cli("look", name, "--json").out)
    assert {each["name"]: each["read_as"] for each in found["columns"] if each["read_as"]} == fields
    assert found["command"] in shown.out
    command = shlex.split(found["command"])
    assert command[0] == "slackwater"
    ran = cli(*command[1:])
    assert ran.code == 0, ran.err
    rows = [row for row in _rows(ran.out) if row["op"] == "+"]
    events = 9 if name in ("reserved.csv", "points.csv") else 20
    assert sum(row["value"]["count(*)"] for row in rows) == events


def test_what_is_in_a_file(here: Path, cli: Callable[..., Any]) -> None:
    (here / "gateway.csv").write_text(GATEWAY, encoding="utf-8")
    shown = cli("look", "gateway.csv").out
    assert shown.startswith(
        "gateway.csv: csv, 20 rows, 2026-03-01T08:00:00Z to 2026-03-01T08:00:19Z, 19 s long, "
        "2 sources (s0, s1), 0 out of order\n"
    )


def test_timestamps_of_parquet_are_times(here: Path, cli: Callable[..., Any]) -> None:
    when = pa.array([1_772_352_000_000 + n for n in range(5)], pa.timestamp("ms", "Europe/Berlin"))
    table = pa.table({"host": ["a"] * 5, "load": [0.5] * 5, "measured": when})
    pq.write_table(table, here / "t.parquet")
    found = json.loads(cli("look", "t.parquet", "--json").out)
    assert "--map ts=measured --map source=host" in found["command"]


def test_where_a_range_begins_is_no_event_time(here: Path, cli: Callable[..., Any]) -> None:
    (here / "r.csv").write_text("_start,_stop,_value\n2026-03-01,2026-03-02,1\n", encoding="utf-8")
    ran = cli("look", "r.csv")
    assert ran.code == 2
    assert 'no column is "ts"' in ran.out


def test_a_refusal_ends_with_the_command_that_works(
    here: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "eu.csv").write_text(EU, encoding="utf-8")
    typed = ["query", "SELECT avg(Temperatur) WINDOW TUMBLING 10 s", "--input", "eu.csv"]
    monkeypatch.setattr(sys, "argv", ["slackwater", *typed])
    ran = cli(*typed)
    assert ran.code == 2
    said, _, command = ran.err.strip().rpartition("\nthis reads it: ")
    assert 'no column is "ts"' in said
    assert command.endswith("--input eu.csv --map ts=Zeitstempel --map source=Sensor")
    assert cli(*shlex.split(command)[1:]).code == 0


def test_files_of_devices_and_files_of_streams(here: Path, cli: Callable[..., Any]) -> None:
    (here / "a.csv").write_text("ts,event,v\n1,x,1\n2,y,2\n", encoding="utf-8")
    (here / "b.csv").write_text("ts,event,w\n1,z,1\n2,z,2\n", encoding="utf-8")
    assert "--map type=event --source-from name" in cli("look", "a.csv", "b.csv").out
    (here / "c.csv").write_text("ts,u\n1,1\n2,2\n", encoding="utf-8")
    (here / "d.csv").write_text("ts,u\n1,1\n2,2\n", encoding="utf-8")
    assert "--input c.csv --input d.csv --source-from name" in cli("look", "c.csv", "d.csv").out
    (here / "e.csv").write_text("ts,x\n1,1\n2,2\n", encoding="utf-8")
    shown = cli("look", "c.csv", "e.csv").out
    assert "--source-from name --stream-from name" in shown
    assert cli(*shlex.split(shown.splitlines()[-1])[1:]).code == 0
    assert "if the clock of c is off" in shown  # two files may have two clocks


@pytest.mark.parametrize("names", [("a.csv", "b.csv", "c.csv"), ("c.csv", "b.csv", "a.csv")])
def test_what_any_file_has_counts(
    names: tuple[str, ...], here: Path, cli: Callable[..., Any]
) -> None:
    """Rows of one file name their source, so the names of the files are none."""
    texts = ("ts,v,device\n1,1,d\n2,2,d\n", "ts,u\n1,5\n2,offline\n", "ts,source\n1,z\n2,\n")
    for name, text in zip(names, texts, strict=True):
        (here / name).write_text(text, encoding="utf-8")
    found = json.loads(cli("look", ".", "--json").out)
    assert found["fault"] is None
    assert sorted(each["name"] for each in found["columns"]) == ["device", "source", "ts", "u", "v"]
    assert "--null offline" in found["command"]
    assert "--source-from name" not in found["command"]
    commands = [found["command"], *(each["command"] for each in found["alternatives"])]
    assert any("--clock 'z=" in each for each in commands)
    for command in commands:
        ran = cli(*shlex.split(command)[1:])
        assert ran.code == 0, ran.err


def test_what_a_user_says_is_not_guessed(here: Path, cli: Callable[..., Any]) -> None:
    (here / "eu.csv").write_text(EU, encoding="utf-8")
    found = json.loads(cli("look", "eu.csv", "--map", "ts=Zeitstempel", "--json").out)
    assert found["columns"][0]["why"] == "as --map says"
    ran = cli("look", "eu.csv", "--map", "ts=Zeit")
    assert ran.code == 2
    assert 'no column "Zeit" (wanted for ts); did you mean "Zeitstempel"?' in ran.out
    assert "to go on" not in ran.out


def test_structs_and_instants_beyond_ns_are_shown(here: Path, cli: Callable[..., Any]) -> None:
    until = pa.array([np.datetime64("9999-12-31", "us")] * 2, pa.timestamp("us"))
    table = pa.table({"ts": [1, 2], "at": [{"x": 1}, {"x": 2}], "until": until})
    pq.write_table(table, here / "t.parquet")
    found = json.loads(cli("look", "t.parquet", "--json").out)
    assert [each["name"] for each in found["columns"]] == ["ts", "at.x", "until"]
    assert found["fault"] is None
    assert "is beyond 292 years in nanoseconds" in found["columns"][2]["why"]
    assert found["command"].endswith("--attrs at.x")


def test_a_log_is_looked_at_as_it_is(here: Path, cli: Callable[..., Any]) -> None:
    (here / "t.jsonl").write_text('{"ts": 1, "v": 2}\n{"ts": 5, "v": 3}\n', encoding="utf-8")
    assert run(["log", "import", "t.jsonl", "--out", "t.log"]) == 0
    shown = cli("look", "t.log")
    assert shown.code == 0
    assert "t.log: log, 2 rows, 4 ns long, 0 out of order" in shown.out


MARKED = "259,2023-09-30 09:29:10.1\ns\n245,2023-09-30 09:29:11.4\n130,2023-09-30 09:29:12.5\n"


def test_09_race_backup_mat_lines_that_are_none_are_skipped(
    here: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "mats.csv").write_text(MARKED, encoding="utf-8")
    asked = "query", "SELECT count(*) AS n WINDOW TUMBLING 1 min", "--input", "mats.csv"
    monkeypatch.setattr(sys, "argv", ["slackwater", *asked])
    shown = cli("look", "mats.csv")
    assert shown.code == 2, "it is not readable as it is"
    assert "not readable as it is: mats.csv:2: " in shown.out
    assert "to go on without the 1 bad:" in shown.out
    for command in (
        shown.out.splitlines()[-1],
        cli(*asked).err.splitlines()[-1].removeprefix("this reads all but 1 of it: "),
    ):
        ran = cli(*shlex.split(command)[1:])
        assert ran.code == 0, ran.err
        assert "1 bad lines skipped" in ran.err


def test_a_file_with_more_bad_lines_than_good_ones_is_not_skipped(
    here: Path, cli: Callable[..., Any]
) -> None:
    (here / "t.jsonl").write_text('{"ts": 1}\nx\ny\n', encoding="utf-8")
    shown = cli("look", "t.jsonl")
    assert shown.code == 2
    assert "to go on" not in shown.out
    assert "this reads" not in cli("order", "--input", "t.jsonl", "--order", "none").err


def test_numbers_of_which_some_are_texts_are_times(here: Path, cli: Callable[..., Any]) -> None:
    (here / "s.jsonl").write_text(
        '{"timestamp": 1551129661.954561233, "v": 1}\n{"timestamp": "1551129661.9546", "v": 2}\n'
        '{"timestamp": 1551129662, "v": 3}\n'
    )
    command = shlex.split(json.loads(cli("look", "s.jsonl", "--json").out)["command"])
    assert command[-4:] == ["--map", "ts=timestamp", "--time-unit", "s"]
    ran = cli(*command[1:])
    assert ran.code == 0, ran.err
    assert sum(row["value"]["count(*)"] for row in _rows(ran.out)) == 3


def test_a_comma_in_a_file_that_commas_part_is_no_point(
    here: Path, cli: Callable[..., Any]
) -> None:
    for name, delimiter, type_ in (("a.csv", ",", "text"), ("b.csv", ";", "number")):
        rows = [("time", "t"), ("2026-03-01T12:00:00Z", '"20,5"'), ("2026-03-01T12:00:01Z", "21")]
        (here / name).write_text("".join(f"{delimiter.join(row)}\n" for row in rows))
        found = json.loads(cli("look", name, "--json").out)
        assert [each["type"] for each in found["columns"]] == ["time", type_]
        ran = cli(*shlex.split(found["command"])[1:])
        assert ran.code == 0, ran.err


def test_a_refusal_that_names_no_unit_changes_none(here: Path, cli: Callable[..., Any]) -> None:
    (here / "round.csv").write_text("ts,v\n0.0000000006,1\n1.0000000015,4\n")
    shown = cli("look", "round.csv")
    assert "not readable as it is: round.csv:2" in shown.out + shown.err
    assert "Traceback" not in shown.err
    assert "unknown time unit" not in shown.out + shown.err


def test_the_remedy_for_an_id_works(here: Path, cli: Callable[..., Any]) -> None:
    (here / "i.jsonl").write_text('{"ts": 1, "id": "a"}\n{"ts": 2, "id": "b"}\n')
    asked = ("query", "SELECT count(*) WHERE id = 'a' WINDOW TUMBLING 5 s", "--input", "i.jsonl")
    refused = cli(*asked)
    assert refused.code == 2
    assert "--map attrs.id=id" in refused.err
    ran = cli(*asked, "--map", "attrs.id=id")
    assert [row["value"] for row in _rows(ran.out)] == [{"count(*)": 1}]


@pytest.mark.parametrize("key", ["seq", "fcnt"])
def test_numbers_that_json_has_as_texts(key: str, here: Path, cli: Callable[..., Any]) -> None:
    rows = [{"ts": n, "source": n % 2, key: str(n // 2), "v": n} for n in range(6)]
    (here / "t.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = json.loads(cli("look", "t.jsonl", "--json").out)
    assert f"--map seq={key}" in found["command"]
    assert "--map source=source" in found["command"]
    assert cli(*shlex.split(found["command"])[1:]).code == 0
    ran = cli("order", "--input", "t.jsonl", "--map", "source=source", "--map", f"seq={key}")
    assert [(row["source"], row["seq"]) for row in _rows(ran.out)] == [
        (str(n % 2), n // 2) for n in range(6)
    ]


SYNCED = (
    '{"kind": "sync", "source": "a", "offset": 0, "delay": 1, "arrival": 1}\n'
    '{"source": "a", "ts": 1700000000000000000, "arrival": 2}\n'
    '{"source": "b", "ts": 1700000000000000001, "arrival": 3}\n'
)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("one.csv", "time,host,v\n2026-03-01,a,1\n2026-03-02,a,2\n", []),
        (
            "two.csv", "time,host,v\n2026-03-01,a,1\n2026-03-02,b,2\n",
            ["one clock stamped all", "the clock of a is off"],
        ),
        (
            "arrived.csv",
            "time,received_at,host\n2026-03-01T08:00,2026-03-01T08:01,a\n2026-03-01T08:02,2026-03-01T08:02,b\n",
            ["some clock may be wrong"],
        ),
        (
            "synced.jsonl",
            SYNCED, [],
        ),
        ("small.jsonl", '{"ts": 0}\n{"ts": 90}\n', ["its times are in s (1.5 min long)",
                                                   "its times are in ms (90 ms long)"]),
        ("negative.csv", "ts,v\n-90,1\n0,2\n", ["its times are in s (1.5 min long)",
                                               "its times are in ms (90 ms long)"]),
        ("large.jsonl", '{"ts": 0}\n{"ts": 90000000000}\n', ["its times are in ms (1,041.666 d"]),
        ("dates.jsonl", '{"ts": 1700000000000}\n{"ts": 1700000000001}\n', []),
        ("before.csv", "ts,v\n1960-03-01,1\n1960-03-02,2\n", []),
    ],
)  # fmt: skip
def test_what_only_the_user_knows_has_a_command_of_its_own(
    name: str, text: str, said: list[str], here: Path, cli: Callable[..., Any]
) -> None:
    (here / name).write_text(text)
    shown = cli("look", name).out
    found = json.loads(cli("look", name, "--json").out)
    assert len(said) == len(found["alternatives"])
    for words, each in zip(said, found["alternatives"], strict=True):
        assert each["if"].startswith(words)
        assert f"if {each['if']}:\n  {each['command']}\n" in shown
        ran = cli(*shlex.split(each["command"])[1:])
        assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("values", "type_"),
    [(("1", "2", "3"), "text"), (("true", "false"), "text"), ((1, "2"), "mixed"), ((1, 2), "int")],
)
def test_an_attribute_of_json_has_the_type_that_a_query_sees(
    values: tuple[Any, ...], type_: str, here: Path, cli: Callable[..., Any]
) -> None:
    rows = [{"time": MS + n, "v": values[n % len(values)], "w": n} for n in range(12)]
    (here / "t.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = json.loads(cli("look", "t.jsonl", "--json").out)
    assert {each["name"]: each["type"] for each in found["columns"]}["v"] == type_
    assert ("avg(v)" in found["command"]) == (type_ == "int")
    assert cli(*shlex.split(found["command"])[1:]).code == 0


def test_numbers_that_repeat_need_a_source_to_be_of_one(
    here: Path, cli: Callable[..., Any]
) -> None:
    rows = "".join(f"{n},m{n % 2},{n // 2}\n" for n in range(20))
    for name, read in (("pump", None), ("device", "seq")):
        (here / "t.csv").write_text(f"ts,{name},counter\n{rows}", encoding="utf-8")
        found = json.loads(cli("look", "t.csv", "--json").out)
        assert {each["name"]: each["read_as"] for each in found["columns"]}["counter"] == read


def test_what_all_rows_have_is_likelier_the_source(here: Path, cli: Callable[..., Any]) -> None:
    """As in a LoRaWAN network's export: where a place is known, ``_source`` says from where."""
    rows = [{"time": MS + n, "dev_eui": f"d{n % 2}"} for n in range(9)]
    rows[4]["place"] = {"_source": "object"}
    (here / "t.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert "--map source=dev_eui" in cli("look", "t.jsonl").out


def test_ids_and_constants_are_not_averaged(here: Path, cli: Callable[..., Any]) -> None:
    rows = "".join(f"{n},{n % 2},7,{20 + n},{n}.5,{n % 2}\n" for n in range(5))
    (here / "c.csv").write_text("ts,orderId,port,temp,v_no,FCnt\n" + rows)
    command = json.loads(cli("look", "c.csv", "--json").out)["command"]
    assert "SELECT avg(v_no), avg(temp), count(*) " in command


def test_a_few_times_far_off_do_not_size_the_windows(here: Path, cli: Callable[..., Any]) -> None:
    rows = [*(f"2026-03-01T08:00:{n:02d}Z,{n}" for n in range(20)), "1980-01-06T00:00:00Z,1"]
    (here / "far.csv").write_text("\n".join(["time,v", *rows]) + "\n")
    shown = cli("look", "far.csv").out
    assert " d long, half of it within 10 s, 1 out of order" in shown
    assert "TUMBLING 1 s" in shown
    (here / "same.csv").write_text("time,v\n" + "2026-03-01T08:00:00Z,1\n" * 5 + rows[-1] + "\n")
    assert "TUMBLING 10 d" in cli("look", "same.csv").out


def test_texts_of_many_kinds_are_no_types(here: Path, cli: Callable[..., Any]) -> None:
    for kinds, said in ((50, "type (by its name)"), (51, "attribute")):
        rows = "".join(f"2026-03-01,a,x{n}\n" for n in range(kinds))
        (here / f"{kinds}.csv").write_text("time,host,state\n" + rows)
        line = next(each for each in cli("look", f"{kinds}.csv").out.splitlines() if "x0" in each)
        assert said in line


def test_nulls_of_each_column_are_counted(here: Path, cli: Callable[..., Any]) -> None:
    (here / "n.csv").write_text("ts,v,w\n1,N/A,a\n2,,b\n3,5,c\n4,x,\n5,6,d\n6,7,e\n")
    lines = {each.split()[0]: each for each in cli("look", "n.csv").out.splitlines()[2:5]}
    assert "attribute (3 null)" in lines["v"], "N/A, empty and the x that --null makes one"
    assert "attribute (1 null)" in lines["w"]
    (here / "n.jsonl").write_text('{"ts": 1, "a": {"b": 1}}\n{"ts": 2}\n{"ts": 3, "c": 1}\n')
    shown = cli("look", "n.jsonl").out
    assert shown.count("attribute (2 null)") == 2


NO_TIME = "is not an integer, nor a time such as"
EITHER = "day and month come in either order; --date "


@pytest.mark.parametrize(
    ("times", "line", "either"),
    [
        (("03/11/2026 08:00:00", "03/12/2026 08:00:00"), 2, True),
        (("10.03.2026 08:00", "3/11/26 08:00", "3/12/26 08:00"), 3, True),
        (("2026-03-01T08:00Z", "2026-03-01T08:01Z", "11-03-2026"), 4, True),
        (("2026-03-01T08:00Z", "soon 1"), 3, False),
        (("5 o'clock", "6 o'clock"), 2, False),
    ],
)
def test_times_in_notations_that_cannot_be_read_are_named_with_their_line(
    times: Sequence[str], line: int, either: bool, here: Path, cli: Callable[..., Any]
) -> None:
    (here / "t.csv").write_text("v,time\n" + "".join(f"1,{time}\n" for time in times))
    shown = cli("look", "t.csv").out
    assert (
        f'not readable as it is: t.csv:{line}: column "time": "{times[line - 2]}" {NO_TIME}'
        in shown
    )
    assert (EITHER in shown) == either
    objects = "".join(json.dumps({"v": 1, "time": time}) + "\n" for time in times)
    (here / "t.jsonl").write_text(objects)
    shown = cli("look", "t.jsonl").out
    assert f't.jsonl:{line - 1}: "ts" ' in shown
    assert (EITHER in shown) == either


def test_texts_without_digits_are_no_times(here: Path, cli: Callable[..., Any]) -> None:
    (here / "t.csv").write_text("time,v\nnoon,1\nnight,2\n")
    assert 'no column is "ts", the event time; say which' in cli("look", "t.csv").out
    (here / "u.csv").write_text("time,at_station,v\nround 1,2026-03-01T08:00Z,1\n")
    assert "--map ts=at_station" in cli("look", "u.csv").out


@pytest.mark.parametrize(
    ("written", "order", "month", "time"),
    [
        ("3/1/2026 09:05:00", "month-first", 3, "09:05:00"),
        ("3/1/2026 9:05", "day-first", 1, "09:05:00"),
        ("03-01-26 09:05:07.5", "month-first", 3, "09:05:07.500"),
        ("3/1/2026, 9:05:00", "day-first", 1, "09:05:00"),
        ("3/1/2026 9:05 PM", "day-first", 1, "21:05:00"),
        ("3/1/2026 9:05:00 PM", "month-first", 3, "21:05:00"),
        ("03/01/2026", "day-first", 1, "00:00:00"),
    ],
)
def test_dates_with_slashes_are_read_as_date_says(
    written: str, order: str, month: int, time: str, here: Path, cli: Callable[..., Any]
) -> None:
    (here / "d.csv").write_text(f'time,v\n"{written}",1\n')
    run = cli("query", "SELECT v", "--input", "d.csv", "--map", "ts=time", "--date", order)
    (event,) = run.lines[0]["events"]
    day = f"2026-{month:02}-{4 - month:02}"
    assert event["ts"] == f"{day}T{time}Z"


def test_a_day_beyond_12_says_its_order_and_look_takes_it(
    here: Path, cli: Callable[..., Any]
) -> None:
    for first in ("03/14/2026 10:00", "3/1/2026"):  # the other row says it for both
        (here / "d.csv").write_text(f"time,v\n{first},1\n03/15/2026 10:05,2\n")
        assert "--date month-first" in cli("look", "d.csv").out.splitlines()[-1]
    run = cli("query", "SELECT v", "--input", "d.csv", "--map", "ts=time", "--date", "day-first")
    assert run.code == 2
    assert "--date month-first reads it" in run.err
    run = cli("look", "d.csv", "--date", "mdy")
    assert "write year, month and day" in run.err
    assert "month-first or day-first" in run.err


@pytest.mark.parametrize(
    ("record", "attrs"),
    [
        ({"v": 1.5, "x": 2**70}, "v"),
        ({"v": 1.5, "a_b": 1, "a": {"b": 2}}, "v"),
        ({"v": 1.5, "x": {"y": 2**64, "z": 3}, "w": -(2**64)}, "v,x.z"),
    ],
)
def test_attributes_that_cannot_be_read_in_any_row_are_left_out(
    record: dict[str, Any], attrs: str, here: Path, cli: Callable[..., Any]
) -> None:
    rows = [json.dumps({"ts": at, **record}) + "\n" for at in (1, 2, 3)]
    (here / "t.jsonl").write_text("".join(rows))
    shown = cli("look", "t.jsonl").out
    command = next(line for line in shown.splitlines() if "slackwater query" in line)
    assert command.endswith(f"--attrs {attrs}")
    run = cli(*shlex.split(command)[1:])
    assert (run.code, run.lines[0]["value"]["avg(v)"]) == (0, 1.5)
