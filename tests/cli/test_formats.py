"""Files in the formats that people have, read as the same events."""

from __future__ import annotations

import gzip
import io
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.engine.core.errors import UserError

EVENTS = [("a", 1.5, 1_772_352_000), ("b", 2.5, 1_772_352_001)]
ISO = ("2026-03-01T08:00:00Z", "2026-03-01T08:00:01Z")
TABLE = "source,v,ts\n" + "".join(
    f"{s},{v},{t}\n" for (s, v, _), t in zip(EVENTS, ISO, strict=True)
)
OBJECTS = [{"source": s, "v": v, "ts": t} for (s, v, _), t in zip(EVENTS, ISO, strict=True)]
POINTS = "".join(f"{s},source={s} v={v} {ts}000000000\n" for s, v, ts in EVENTS)
ANNOTATED = (
    "#group,false,false,true,true,false,false,true,true\r\n"
    "#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,double,string,string\r\n"
    "#default,_result,,,,,,,\r\n,result,table,_start,_stop,ts,_value,_field,source\r\n"
    + "\r\n".join(
        f",,0,2026-03-01T00:00:00Z,2026-03-02T00:00:00Z,{t},{v},v,{s}"
        for (s, v, _), t in zip(EVENTS, ISO, strict=True)
    )
    + "\r\n\r\n#group,false,false,true\r\n#datatype,string,long,string\r\n#default,_result,,\r\n"
)
FORMS: dict[str, bytes] = {
    "table.csv": TABLE.encode(),
    "table.tsv": TABLE.replace(",", "\t").encode(),
    "excel.csv": ("sep=;\n" + TABLE.replace(",", ";")).encode(),
    "comments.csv": ("# by a logger\n// of ours\n" + TABLE).encode(),
    "comment-header.csv": ("#" + TABLE).encode(),
    "utf16.csv": TABLE.encode("utf-16"),
    "utf16.csv.gz": gzip.compress(TABLE.encode("utf-16")),
    "utf16.jsonl": "".join(json.dumps(each) + "\n" for each in OBJECTS).encode("utf-16"),
    "array.json": json.dumps(OBJECTS).encode(),
    "pretty-array.json": json.dumps(OBJECTS, indent=2).encode(),
    "pretty-objects.json": "\n".join(json.dumps(each, indent=2) for each in OBJECTS).encode(),
    "within.json": json.dumps({"page": 1, "data": OBJECTS}, indent=1).encode(),
    "arrays.json": json.dumps([[each] for each in OBJECTS]).encode(),
    "points.lp": POINTS.encode(),
    "points.txt": POINTS.encode(),
    "annotated.csv": ANNOTATED.encode(),
    "no-suffix": TABLE.encode(),
}


def _read(here: Path, cli: Callable[..., Any], *words: str) -> list[dict[str, Any]]:
    ran = cli("log", "export", *words, "--out", "out.jsonl")
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in (here / "out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", FORMS)
def test_the_same_events_from_every_format(name: str, here: Path, cli: Callable[..., Any]) -> None:
    (here / name).write_bytes(FORMS[name])
    found = _read(here, cli, name)
    assert [(each["source"], each["attrs"]["v"], each["ts"]) for each in found] == [
        (source, value, 1_000_000_000 * ts) for source, value, ts in EVENTS
    ]


@pytest.mark.parametrize(
    "name", ["table.csv", "excel.csv", "points.lp", "array.json", "utf16.jsonl"]
)
def test_every_format_comes_from_standard_input(
    name: str, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(FORMS[name]))))
    ran = cli("order", "--input", "-", "--quiet")
    assert ran.code == 0, ran.err
    assert [each["attrs"]["v"] for each in ran.lines] == [1.5, 2.5]


def test_a_format_is_said(here: Path, cli: Callable[..., Any]) -> None:
    (here / "t.dat").write_text(TABLE.replace(",", "\t"), encoding="utf-8")
    found = _read(here, cli, "t.dat", "--input-format", "tsv")
    assert [each["source"] for each in found] == ["a", "b"]
    ran = cli("order", "--input", "t.dat", "--format", "jsonll")
    assert (ran.code, ran.left) == (2, {})
    assert 'unknown --format jsonll; did you mean "jsonl"?' in ran.err
    ran = cli("order", "--input", "t.dat", "--format", "line-protocol")
    assert "t.dat:1: not line protocol; a point is written as" in ran.err


def test_line_protocol_has_tags_fields_types_and_escapes(
    here: Path, cli: Callable[..., Any]
) -> None:
    (here / "p.lp").write_text(
        '# a comment\nmy\\ mem,ho\\,st=h\\=1 n=3i,ok=t,on=false,note="a b, \\"c\\"",v=-1.5e2 17\n'
        "up n=4u 18\n", encoding="utf-8",
    )  # fmt: skip
    first, second = _read(here, cli, "p.lp")
    assert (first["type"], first["ts"]) == ("my mem", 17)
    assert first["attrs"] == {
        "ho,st": "h=1", "n": 3, "ok": True, "on": False, "note": 'a b, "c"', "v": -150.0,
    }  # fmt: skip
    assert (second["type"], second["attrs"]) == ("up", {"n": 4})


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("mem used=1", "the point has no time"),
        ("mem used=x 17", "field value x is no number"),
        ("mem,h used=1 17", 'tag "h" has no value'),
        ("mem used 17", 'the fields "used" are not written as NAME=VALUE'),
        ("mem", "not line protocol"),
        ("mem used=1,ts=5i 17", "ts is the point's time"),
    ],
)
def test_a_bad_point_is_named_by_its_line(
    point: str, said: str, here: Path, cli: Callable[..., Any]
) -> None:
    (here / "p.lp").write_text(f"ok v=1 16\n{point}\n", encoding="utf-8")
    ran = cli("order", "--input", "p.lp")
    assert ran.code == 2
    assert f"p.lp:2: {said}" in ran.err
    assert cli("order", "--input", "p.lp", "--on-bad", "skip").code == 0


def test_case_10_influx_annotated_csv(here: Path, cli: Callable[..., Any]) -> None:
    head = "#group,false,false,true,true,false,false,true,true,true\n"
    time = "dateTime:RFC3339"
    kinds = f"#datatype,string,long,{time},{time},{time},{{}},string,string,string\n"
    names = "#default,_result,,,,,,,,\n"
    names += ",result,table,_start,_stop,_time,_value,_field,_measurement,host\n"
    row = ",,{},2020-01-11T10:00:00Z,2020-01-11T11:00:00Z,2020-01-11T10:{},{},{},{},{}\n"
    used = [
        ("10:10Z", 64, "host1"), ("10:50.5Z", 66, "host1"), ("11:20Z", 70, "host1"),
        ("10:12Z", 30, "host2"), ("11:22Z", 34, "host2"),
    ]  # fmt: skip
    text = head + kinds.format("double") + names
    text += "".join(row.format(0, at, value, "used", "mem", host) for at, value, host in used)
    text += "\n" + head + kinds.format("string") + names
    text += row.format(1, "10:30Z", "ok", "state", "svc", "host1")
    (here / "export.csv").write_text(text.replace("\n", "\r\n"), encoding="utf-8")
    ran = cli(
        "query", "SELECT avg(used) AS mean, count(used) AS n GROUP BY host WINDOW TUMBLING 1 min",
        "--input", "export.csv", "--map", "ts=_time", "--sort", "ts", "--quiet",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert sorted(
        (each["key"]["host"], each["value"]["mean"], each["value"]["n"]) for each in ran.lines
        if each["op"] == "+"
    ) == [("host1", 65, 2), ("host1", 70, 1), ("host2", 30, 1), ("host2", 34, 1)]  # fmt: skip
    (here / "bad.csv").write_text(text.replace(",64,", ",many,"), encoding="utf-8")
    ran = cli("order", "--input", "bad.csv", "--map", "ts=_time")
    assert 'bad.csv:5: column "_value": many is no double' in ran.err


def test_case_29_openbikesensor(here: Path, cli: Callable[..., Any]) -> None:
    (here / "obs.csv").write_text(
        "OBSDataFormat=2&DeviceId=ECEC\nDate;Time;Left;Confirmed;Tms1;Lus1;Tms2\n"
        "01.01.1970;00:00:07;150;0;5;10440;50\n01.01.1970;00:00:08;148;0;5\n"
        "24.11.2020;16:32:18;95;1;5;7250;50\n24.11.2020;16:32:19;160;0;4\n"
        "24.11.2020;16:32:20;89;1;4\n", encoding="utf-8",
    )  # fmt: skip
    looked = cli("look", "obs.csv")
    assert "--map ts=Date+Time --skip-lines 1 --on-short null" in looked.out
    ran = cli(
        "query", 'SELECT count(*) AS n WHERE Confirmed = 1 AND "Left" < 100 WINDOW TUMBLING 1 min',
        "--input", "obs.csv", "--map", "ts=Date+Time", "--skip-lines", "1", "--on-short", "null",
        "--quiet",
    )  # fmt: skip
    assert [(each["window"]["start"], each["value"]["n"]) for each in ran.lines] == [
        ("2020-11-24T16:32:00Z", 2)
    ]
    ran = cli("order", "--input", "obs.csv", "--map", "ts=Date+Time", "--skip-lines", "1")
    assert "obs.csv:4: 5 values for 7 columns; --on-short null takes" in ran.err


def test_case_13_ha_history_unavailable(here: Path, cli: Callable[..., Any]) -> None:
    states = ("20.9", "21.3", "unavailable", "21.5", "unknown", "22.1")
    rows = [f"t,{state},2025-10-30T0{7 + (n > 3)}:{n}0:00.000Z" for n, state in enumerate(states)]
    (here / "h.csv").write_text("\n".join(["entity_id,state,at", *rows]) + "\n", encoding="utf-8")
    objects = [
        {"entity_id": "t", "state": state if state[0] == "u" else float(state), "at": row[-24:]}
        for state, row in zip(states, rows, strict=True)
    ]
    lines = "".join(json.dumps(each) + "\n" for each in objects)
    (here / "h.jsonl").write_text(lines, encoding="utf-8")
    assert "--null unavailable,unknown" in cli("look", "h.csv").out
    for name in ("h.csv", "h.jsonl"):
        ran = cli(
            "query", "SELECT avg(state) AS t, count(state) AS n WINDOW TUMBLING 1 h",
            "--input", name, "--map", "ts=at", "--null", "unavailable,unknown", "--quiet",
        )  # fmt: skip
        assert ran.code == 0, ran.err
        values = [(round(each["value"]["t"], 4), each["value"]["n"]) for each in ran.lines]
        assert values == [(21.2333, 3), (22.1, 1)]


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("20260301T120000Z", 1_772_366_400_000_000_000),
        ("20260301T120000.25Z", 1_772_366_400_250_000_000),
        ("3/1/2026 12:00:00 PM", 1_772_366_400_000_000_000),
        ("03/01/2026 12:00 AM", 1_772_323_200_000_000_000),
        ("3/1/2026, 1:05:00.5 pm", 1_772_370_300_500_000_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000_000),
        ("Sun Mar 01 12:00:00.5  2026-03-01", 1_772_366_400_500_000_000),
        ("2026/03/01 12:00:00", 1_772_366_400_000_000_000),
        ("2026/3/1 9:30", 1_772_357_400_000_000_000),
        ("2026.03.01 12:00", 1_772_366_400_000_000_000),
        ("2026-3-1", 1_772_323_200_000_000_000),
        (" 2026-03-01 12:00 ", 1_772_366_400_000_000_000),
        ("2026-03-01 9:30 PM", 1_772_400_600_000_000_000),
        ("Sun, 01 Mar 2026 12:00:00 GMT", 1_772_366_400_000_000_000),
        ("Sun, 1 Mar 2026 13:00:00.5 +0100", 1_772_366_400_500_000_000),
        ("01-MAR-2026 12:00:00", 1_772_366_400_000_000_000),
        ("1 March 2026", 1_772_323_200_000_000_000),
        ("March 1, 2026 12:00 PM", 1_772_366_400_000_000_000),
        ("Mar 01 2026 12:00", 1_772_366_400_000_000_000),
        ("01/Mar/2026:13:00:00 +0100", 1_772_366_400_000_000_000),
        ("Sun Mar  1 12:00:00 2026", 1_772_366_400_000_000_000),
        ("10:30:00.2", 1_772_361_000_200_000_000),
        ("9:30", 1_772_357_400_000_000_000),
        ("2026-03-01T12:00:00.1234567896Z", 1_772_366_400_123_456_790),
        ("2026-03-01T12:00:00.9999999996Z", 1_772_366_401_000_000_000),
    ],
)
def test_times_as_people_write_them(
    text: str, ns: int, here: Path, cli: Callable[..., Any]
) -> None:
    (here / "t.csv").write_text(f'v,ts\n1,"{text}"\n', encoding="utf-8")
    (here / "t.jsonl").write_text(json.dumps({"v": 1, "ts": text}) + "\n", encoding="utf-8")
    for name in ("t.csv", "t.jsonl"):
        assert [each["ts"] for each in _read(here, cli, name, "--date", "2026-03-01")] == [ns]


@pytest.mark.parametrize(
    "text",
    [
        "13/1/2026 1:00 PM",
        "3/1/2026 13:00 PM",
        "20261301T120000Z",
        "12:75",
        "3/1/2026 13:00",
        "2026/13/01",
        "32 Mar 2026",
        "1 Mai 2026",
        "Mar 1",
        "2026-02-29 9:00 AM",
    ],
)
def test_times_that_are_none(text: str, here: Path, cli: Callable[..., Any]) -> None:
    (here / "t.csv").write_text(f"ts\n{text}\n", encoding="utf-8")
    ran = cli("order", "--input", "t.csv", "--date", "2026-03-01")
    assert ran.code == 2
    assert f't.csv:2: column "ts": "{text}" is not an integer, nor a time' in ran.err


def test_dates_of_14_digits(here: Path, cli: Callable[..., Any]) -> None:
    texts = [20260301120000, 20260301120001, 20260301125959]
    (here / "t.csv").write_text("ts\n" + "".join(f"{text}\n" for text in texts))
    (here / "t.jsonl").write_text("".join(f'{{"ts": {text}}}\n' for text in texts))
    pq.write_table(pa.table({"ts": texts}), here / "t.parquet")
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        found = [each["ts"] - 1_772_366_400_000_000_000 for each in _read(here, cli, name)]
        assert found == [0, 10**9, 3599 * 10**9]
        assert [each["ts"] for each in _read(here, cli, name, "--input-unit", "ns")] == texts
    (here / "t.csv").write_text("ts\n20260301120000\n20260301126000\n")
    assert [each["ts"] for each in _read(here, cli, "t.csv")] == [20260301120000, 20260301126000]


def test_epoch_as_text(here: Path, cli: Callable[..., Any]) -> None:
    (here / "t.jsonl").write_text('{"ts": "1551129661.954561234"}\n{"ts": "1551129662"}\n')
    found = _read(here, cli, "t.jsonl", "--input-unit", "s")
    assert [each["ts"] for each in found] == [1_551_129_661_954_561_234, 1_551_129_662_000_000_000]


def test_what_is_not_said_right(here: Path, cli: Callable[..., Any]) -> None:
    (here / "t.csv").write_text("ts,v\n1,2\n", encoding="utf-8")
    (here / "t.json").write_text('[{"ts": 1},\n {"ts": }]\n', encoding="utf-8")
    (here / "t.jsonl").write_text('{"ts": 1}\n', encoding="utf-8")
    for words, said in (
        (("t.csv", "--date", "01.03.2026"), "--date 01.03.2026: write year, month and day"),
        (("t.csv", "--on-short", "fill"), "unknown --on-short fill; use bad or null"),
        (("t.json",), "t.json:2: not JSON (expecting value)"),
        (("t.jsonl", "--skip-lines", "1"), "t.jsonl: is a trace; --skip-lines"),
    ):
        ran = cli("order", "--input", *words)
        assert ran.code == 2
        assert said in ran.err, ran.err


def test_rows_that_lack_values_keep_their_place(here: Path, cli: Callable[..., Any]) -> None:
    (here / "t.csv").write_text(
        "# x\nts,v,w\n1,1,1\n2,2\n3,3,3\n4\n5,5,5,5\n6,-,6\n", encoding="utf-8"
    )
    words = ("--on-short", "null", "--null", "-")
    ran = cli("order", "--input", "t.csv", *words)
    assert "t.csv:7: 4 values for 3 columns" in ran.err
    ran = cli("order", "--input", "t.csv", *words, "--on-bad", "skip", "--quiet")
    assert ran.code == 0, ran.err
    values = [(each["ts"], each.get("attrs", {})) for each in ran.lines]
    found = [(ts, attrs.get("v"), attrs.get("w")) for ts, attrs in values]
    assert found == [(1, 1, 1), (2, 2, None), (3, 3, 3), (4, None, None), (6, None, 6)]


def test_formats_in_python(here: Path) -> None:
    (here / "t.dat").write_text(TABLE.replace(",", "\t"), encoding="utf-8")
    with sw.read(here / "t.dat", format="tsv", null=["1.5"]) as events:
        assert [each.get("attrs", {}).get("v") for each in sw.order(events, clock="exact")] == [
            None,
            2.5,
        ]
    with pytest.raises(UserError, match="on_short"):
        sw.read(here / "t.dat", on_short="fill")


ROOMS = ("K\u00fcche", "Stra\u00dfe", "Caf\u00e9", "plain")
TEXTS = {
    "t.csv": "ts,room,v\n" + "".join(f"{n},{room},{n}\n" for n, room in enumerate(ROOMS)),
    "t.jsonl": "".join(f'{{"ts": {n}, "room": "{room}"}}\n' for n, room in enumerate(ROOMS)),
    "t.json": json.dumps(
        [{"ts": n, "room": room} for n, room in enumerate(ROOMS)], ensure_ascii=False, indent=1
    ),
    "t.lp": "".join(f"m,room={room} v=1 {n}\n" for n, room in enumerate(ROOMS)),
}
ENCODINGS = ("cp1252", "latin-1", "cp437", "utf-16", "utf-16-le", "utf-8")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", TEXTS)
def test_text_of_another_encoding_reads_as_utf8(
    name: str, encoding: str, here: Path, cli: Callable[..., Any]
) -> None:
    options = ("--order", "none", "--time-unit", "s", "--input")
    (here / name).write_text(TEXTS[name], encoding="utf-8")
    right = cli("order", *options, name)
    assert (right.code, len(right.lines)) == (0, len(ROOMS)), right.err
    (here / name).write_bytes(TEXTS[name].encode(encoding))
    assert cli("order", *options, name, "--encoding", encoding).out == right.out
    (here / f"{name}.gz").write_bytes(gzip.compress(TEXTS[name].encode(encoding)))
    assert cli("order", *options, f"{name}.gz", "--encoding", encoding).out == right.out


@pytest.mark.parametrize("name", TEXTS)
def test_look_sees_text_that_is_not_utf8(name: str, here: Path, cli: Callable[..., Any]) -> None:
    (here / name).write_bytes(TEXTS[name].encode("cp1252"))
    shown = cli("look", name)
    assert (shown.code, "K\u00fcche" in shown.out) == (0, True), shown.out
    command = json.loads(cli("look", name, "--json").out)["command"]
    assert "--encoding cp1252" in command
    ran = cli(*shlex.split(command)[1:])
    assert sum(row["value"]["count(*)"] for row in ran.lines if row["op"] == "+") == len(ROOMS)


def test_damage_is_no_encoding(here: Path, cli: Callable[..., Any]) -> None:
    """A few bytes among letters of UTF-8, files of both kinds, zeros: no other encoding helps."""
    good = TEXTS["t.csv"].encode()
    old = TEXTS["t.csv"].encode("cp1252")
    (here / "a.csv").write_bytes(good + b"9,\xff,9\n")
    (here / "b.csv").write_bytes(old + b"9,\0,9\n")
    (here / "c.csv").write_bytes(good)
    (here / "d.csv").write_bytes(old)
    for files in (("a.csv",), ("b.csv",), ("c.csv",), ("c.csv", "d.csv")):
        assert "--encoding" not in cli("look", *files).out.replace("name its --encoding", "")
    (here / "e.csv").write_bytes(b"ts,v\n1,a\n2,\x81\n")
    bad = cli("order", "--order", "none", "--input", "e.csv", "--encoding", "cp1252")
    assert (bad.code, 'e.csv:3: column "v": not UTF-8' in bad.err) == (2, True), bad.err


def test_encodings_that_cannot_be(here: Path, cli: Callable[..., Any]) -> None:
    (here / "t.csv").write_text("ts,v\n1,2\n")
    for encoding in ("nosuch", "base64", "hex"):
        ran = cli("order", "--input", "t.csv", "--encoding", encoding)
        assert (ran.code, f"unknown --encoding {encoding}; use cp1252" in ran.err) == (2, True)
    ran = cli("order", "--input", "t.csv", "--encoding", "utf-16")
    assert (ran.code, "t.csv: UTF-16 stream does not start with BOM" in ran.err) == (2, True)
    pq.write_table(pa.table({"ts": [1]}), here / "t.parquet")
    ran = cli("order", "--input", "t.parquet", "--encoding", "latin-1")
    assert (ran.code, "--encoding is for files of text" in ran.err) == (2, True)
    with pytest.raises(UserError, match="unknown encoding nosuch"):
        sw.read(here / "t.csv", encoding="nosuch")
    assert len(sw.read(here / "t.csv", encoding="latin-1")) == 1
