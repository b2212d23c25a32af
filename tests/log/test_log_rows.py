# ruff: noqa: E501 - messages stand in one piece, as the user sees them
"""CSV and row-wise Parquet: round trips, mapping, types, and bad rows by their place."""

from __future__ import annotations

import json
import math
import time
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import STRING, Frame
from slackwater.engine.log.input import csv_import
from slackwater.engine.log.input.csv_import import CsvRead
from slackwater.engine.log.input.input_read import InputForm
from slackwater.engine.log.input.lines import CHUNK_LINES
from slackwater.engine.log.input.parquet_import import ParquetParts, ParquetRead
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.log.row_export import write_rows


def rows(frames: Any) -> list[dict[str, Any]]:
    default = {"kind": 0, "stream": "events", "incarnation": 0}
    return [
        {"site": frame.site}
        | {
            name: value
            for name, value in row.items()
            if value is not None
            and value != default.get(name)
            and not (name == "te" and value == row["ts"])
        }
        for frame in frames
        for row in frame.batch.to_pylist()
    ]


def from_csv(tmp_path: Path, text: str | bytes, **form: Any) -> list[Frame]:
    file = tmp_path / "t.csv"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(CsvRead(file, InputForm(**form)))


def csv_message(tmp_path: Path, text: str | bytes, **form: Any) -> str:
    with pytest.raises(UserError) as raised:
        from_csv(tmp_path, text, **form)
    return str(raised.value).removeprefix(f"{tmp_path / 't.csv'}:")


def parquet_message(tmp_path: Path, columns: dict[str, Any], **form: Any) -> str:
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), file)
    with pytest.raises(UserError) as raised:
        list(ParquetRead(file, InputForm(**form)))
    return str(raised.value).removeprefix(f"{file}:")


TRACE = """{"type":"A","ts":1,"attrs":{"v":1.5,"s":"NA","b":true,"big":9007199254740993}}
{"kind":"sync","source":"x","offset":-5,"delay":3,"incarnation":2,"first_seq":4}
{"source":"x","ts":4,"te":6,"id":"i1","attrs":{"s":"","v":2}}
{"source":"x","ts":5,"stream":"u","attrs":{"s":"a\\n \\"c\\",;é"}}
{"kind":"pog","type":"A","ts":5,"site":"z"}
{"kind":"ibp","type":"A","ts":5,"id":"i2"}
{"kind":"tick","arrival":10}
{"kind":"eos","source":"x","arrival":11}
"""


@pytest.mark.parametrize("unit", ["ns", "ms"])
def test_every_kind_of_record_goes_there_and_back(unit: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(TRACE)
    frames = list(TraceRead(tmp_path / "t.jsonl", "ms"))
    assert write_rows(frames, tmp_path / "t.csv", unit) == 8
    assert write_rows(frames, tmp_path / "t.parquet", unit) == 8
    want = rows(frames)
    assert rows(CsvRead(tmp_path / "t.csv", unit)) == want
    assert rows(ParquetRead(tmp_path / "t.parquet", unit)) == want


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_delimiters_are_seen_from_the_header(sign: str, tmp_path: Path) -> None:
    text = f"ts{sign}v\n1{sign}2\n"
    assert rows(from_csv(tmp_path, text))[0]["attrs.v"] == 2
    with pytest.raises(UserError, match='no column is "ts"'):
        from_csv(tmp_path, text, delimiter="#")


@pytest.mark.parametrize(
    ("values", "type_", "want"),
    [
        (["1", "-2"], pa.int64(), [1, -2]),
        (["9223372036854775807", "1"], pa.int64(), [2**63 - 1, 1]),
        (["1", "2.5", ".5", "1e3"], pa.float64(), [1.0, 2.5, 0.5, 1000.0]),
        (["true", "False"], pa.bool_(), [True, False]),
        (["1", "x"], STRING, ["1", "x"]),
        (["007", "1"], STRING, ["007", "1"]),
        (["9223372036854775808", "1"], STRING, ["9223372036854775808", "1"]),
        (["12345678901234567", "0.5"], STRING, ["12345678901234567", "0.5"]),
        (["NA", "3"], pa.int64(), [None, 3]),
        (['"NA"', "3"], STRING, ["NA", "3"]),
        (['""', "a"], STRING, ["", "a"]),
    ],
)
def test_the_type_of_a_column_is_what_all_its_values_allow(
    values: list[str], type_: pa.DataType, want: list[Any], tmp_path: Path
) -> None:
    (frame,) = from_csv(tmp_path, "ts,v\n" + "".join(f"1,{value}\n" for value in values))
    assert frame.batch.schema.field("attrs.v").type == type_
    assert frame.batch.column("attrs.v").to_pylist() == want


def test_types_are_learned_from_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_import, "_BLOCK_BYTES", 64)
    body = "".join(f"{row},{row}\n" for row in range(100)) + "100,x\n"
    frames = from_csv(tmp_path, "ts,v\n" + body)
    assert len(frames) > 3
    values = [value for frame in frames for value in frame.batch.column("attrs.v").to_pylist()]
    assert values == [*map(str, range(100)), "x"]
    assert [a for f in frames for a in f.batch.column("arrival").to_pylist()] == [*range(2, 103)]


def test_mapping_prefix_and_choice_of_attributes(tmp_path: Path) -> None:
    text = "when,who,attrs.v,w,x\n1,a,2,3,4\n"
    (row,) = rows(from_csv(tmp_path, text, mapping={"ts": "when", "source": "who", "attrs.y": "x"}))
    assert row == {"site": "main", "source": "a", "seq": 0, "ts": 1, "arrival": 2,
                   "attrs.v": 2, "attrs.w": 3, "attrs.y": 4}  # fmt: skip
    (row,) = rows(from_csv(tmp_path, text, mapping={"ts": "when"}, attrs=["w"]))
    assert sorted(row) == ["arrival", "attrs.w", "seq", "site", "source", "ts"]


@pytest.mark.parametrize(
    ("text", "options", "want"),
    [
        ("", {}, "1: the file is empty; its first line must name the columns"),
        ("ts,v\n", {}, " no rows; an input has one event at least"),
        ("ts,v\n\n,\n", {}, " no rows; an input has one event at least"),
        ("ts,v,,v,,ts\n1,2,3,4,5,6\n", {}, '1: column "v" is there twice; rename one (columns 2 and 4); of CSV, --header names all, and --skip-lines leaves out this line'),
        ("ts,v,v\n1,2,3\n", {"header": ["ts", "v", "v"], "skip_lines": 1}, '1: column "v" is there twice; rename one (columns 2 and 3); of CSV, --header names all, and --skip-lines leaves out this line'),
        ("a,b\n1,2\n", {}, '1: no column is "ts", the event time; say which, as in --map ts=COLUMN (columns: a, b)'),
        ("a time,b\n1,2\n", {}, "1: no column is \"ts\", the event time; say which, as in --map 'ts=a time' (columns: a time, b)"),
        ("time,b\n1,2\n", {"mapping": {"ts": "tme"}}, '1: no column "tme" (wanted for ts); did you mean "time"?'),
        ("ts,b\n1,2\n", {"attrs": ["c"]}, '1: no column "c"; known are ts, b'),
        ("ts,v,attrs.v\n1,2,3\n", {}, '1: columns "v" and "attrs.v" are both attribute "v"; rename one'),
        ("ts,v\n1,2\n3\n", {}, "3: 1 values for 2 columns; --on-short null takes those that lack for nulls"),
        ("ts,v\n1,2\n\n3,4,5\n", {}, "4: 3 values for 2 columns"),
        ("ts,v\n1,2\n4.5,2\n", {}, '3: column "ts": "4.5" is not an integer; write whole numbers in a finer --time-unit, or give the --time-unit that it is in'),
        ("ts,v\n1,2\nx,2\n", {}, '3: column "ts": "x" is not an integer, nor a time such as 2026-03-01T12:00:00Z'),
        ("ts,v\n1,2\n 3,2\n", {}, '3: column "ts": " 3" is not an integer, nor a time such as 2026-03-01T12:00:00Z'),
        ("ts,v\n1,2\n9223372036854775808,2\n", {}, '3: column "ts": "9223372036854775808" is beyond 64 bits'),
        ("ts,v\n1,2\n,2\n", {}, '3: a record of kind event needs "ts"'),
        ("ts,kind\n1,event\n1,evnt\n", {}, '3: column "kind": "evnt" is no kind of record; known are event, pog, ibp, sync, tick, eos, ibe; --map attrs.kind=kind makes it an attribute'),
        ("ts,v\n1,2.5\n2,1e999\n", {}, '3: column "v": "1e999" is beyond what a float holds'),
        ("ts,arrival\n1,9\n2,8\n", {}, '3: "arrival" 8 lies before 9 of line 2; records are in order of arrival: --sort arrival puts them so'),
        ("ts,te\n1,2\n2,1\n", {}, '3: "te" 1 lies before "ts" 2; an interval ends at or after its start'),
        (b"ts,v\n1,a\n2,\xff\n", {}, '3: column "v": not UTF-8; save the file as UTF-8, or name its --encoding, as cp1252 (Windows, Latin-1)'),
        (b"ts,\xff\n1,a\n", {}, "1: not UTF-8 at byte 4; save the file as UTF-8, or name its --encoding, as cp1252 (Windows, Latin-1)"),
        ("ts,v\n1,a\n", {"mapping": {"tz": "ts"}}, 'cannot map "ts" to "tz": not a record field; did you mean "ts"? (or attrs.NAME)'),
    ],
)  # fmt: skip
def test_bad_csv_is_reported_by_row_and_column(
    text: str | bytes, options: dict[str, Any], want: str, tmp_path: Path
) -> None:
    assert csv_message(tmp_path, text, **options) == want


def test_bad_csv_rows_can_be_skipped_counted_and_kept(tmp_path: Path) -> None:
    file, letters = tmp_path / "t.csv", tmp_path / "bad.jsonl"
    file.write_bytes(b'ts,v\n1,a\n3\n\n4.5,b\n5,"x\ny"\n5,6,7\n8,\xff\n9,z\n')
    read = CsvRead(file, on_bad="skip", dead_letter=letters)
    (frame,) = list(read)
    assert frame.batch.column("ts").to_pylist() == [1, 5, 9]
    assert frame.batch.column("arrival").to_pylist() == [2, 6, 9]
    assert frame.batch.column("attrs.v").to_pylist() == ["a", "x\ny", "z"]
    assert (read.bad_count, read.records, read.arrival_given) == (4, 3, False)
    kept = [json.loads(line) for line in letters.read_text().splitlines()]
    assert [(each["line"], each["text"]) for each in kept] == [
        (3, "3"), (5, '{"ts": "4.5", "v": "b"}'), (7, "5,6,7"), (8, "\N{REPLACEMENT CHARACTER}"),
    ]  # fmt: skip


@pytest.mark.parametrize("block", [16, 40, 10**6])
def test_rows_are_numbered_rightly_over_blocks(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_import, "_BLOCK_BYTES", block)
    lines = ["ts,arrival", *(f"{n},{n}" if n % 3 else "9" for n in range(2, 200))]
    read = CsvRead(_file(tmp_path, "\n".join(lines)), on_bad="skip", dead_letter=tmp_path / "bad")
    good = [a for frame in read for a in frame.batch.column("ts").to_pylist()]
    assert good == [n for n in range(2, 200) if n % 3]
    bad = [json.loads(line)["line"] for line in (tmp_path / "bad").read_text().splitlines()]
    assert bad == [n for n in range(2, 200) if not n % 3]


def _file(tmp_path: Path, text: str) -> Path:
    (tmp_path / "t.csv").write_text(text)
    return tmp_path / "t.csv"


def test_frames_of_csv_are_bounded(tmp_path: Path) -> None:
    frames = from_csv(tmp_path, "ts\n" + "1\n" * 70_000)
    assert [frame.rows for frame in frames] == [65_536, 70_000 - 65_536]


def test_parquet_types(tmp_path: Path) -> None:
    columns = {
        "ts": pa.array([1, 2], pa.timestamp("ms")),
        "source": pa.array([4, 8]),
        "seq": pa.array([0, 1], pa.uint64()),
        "arrival": pa.array([5, 6], pa.int16()),
        "f": pa.array([1.5, math.nan], pa.float32()),
        "d": pa.array(["a", None]).dictionary_encode(),
        "l": pa.array(["a", "b"], pa.large_string()),
        "u": pa.array([1, 2], pa.uint8()),
        "b": pa.array([True, False]),
        "id": pa.array([7, None]),
        "c": pa.array([3, None]).dictionary_encode(),
        "t": pa.array([2, None], pa.duration("ms")),
        "n": pa.array([Decimal(2**53 + 1), None], pa.decimal128(38)),
        "o": pa.array([{"a": 1, "p": {"x": "u"}}, None]),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    (frame,) = ParquetRead(tmp_path / "t.parquet")
    assert rows([frame]) == [
        {"site": "main", "source": "4", "seq": 0, "ts": 10**6, "arrival": 5, "id": 7,
         "attrs.f": 1.5, "attrs.d": "a", "attrs.l": "a", "attrs.u": 1, "attrs.b": True,
         "attrs.c": 3, "attrs.t": 2 * 10**6, "attrs.n": 2**53 + 1, "attrs.o_a": 1,
         "attrs.o_p_x": "u"},
        {"site": "main", "source": "8", "seq": 1, "ts": 2 * 10**6, "arrival": 6,
         "attrs.l": "b", "attrs.u": 2, "attrs.b": False},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "options", "want"),
    [
        ({"ts": [1.5]}, {}, '1: column "ts": 1.5 is not an integer; write whole numbers in a finer --time-unit, or give the --time-unit that it is in'),
        ({"ts": [True]}, {}, ' column "ts" is bool, but ts is numbers, timestamps or text; --map attrs.ts=ts makes it an attribute'),
        ({"ts": [1], "source": [1.5]}, {}, ' column "source" is double, but source is text or integers; --map attrs.source=source makes it an attribute'),
        ({"ts": [1], "v": [[1]]}, {}, ' column "v" is list<element: int64>; attributes are numbers, text or truth values: leave it out with --attrs, or convert it'),
        ({"ts": [1, 1], "kind": ["event", "x"]}, {}, '2: column "kind": "x" is no kind of record; known are event, pog, ibp, sync, tick, eos, ibe; --map attrs.kind=kind makes it an attribute'),
        ({"ts": [1, 1], "v": [1.0, math.inf]}, {}, '2: column "v": inf is infinite'),
        ({"ts": [1, 1], "v": pa.array([1, 2**63], pa.uint64())}, {}, f'2: column "v": {2**63} is beyond 64 bits'),
        ({"ts": [1, 1], "v": pa.array([1, 2**63], pa.decimal128(38))}, {}, f'2: column "v": {2**63} is beyond 64 bits'),
        ({"ts": [1, 1], "v": pa.array([None, np.datetime64("9999-12-31", "us")], pa.timestamp("us"))}, {}, '2: column "v": "9999-12-31 00:00:00.000000" is beyond 292 years in nanoseconds; leave it out with --attrs, or convert it to text'),
        ({"ts": [1], "v": pa.array([date(1500, 1, 1)])}, {}, '1: column "v": "1500-01-01 00:00:00" is beyond 292 years in nanoseconds; leave it out with --attrs, or convert it to text'),
        ({"ts": [1], "v": pa.array([2**62], pa.duration("s"))}, {}, f'1: column "v": "{2**62}" is beyond 292 years in nanoseconds; leave it out with --attrs, or convert it to text'),
        ({"ts": [1], "v": [{"a": 1}], "v_a": [1]}, {}, '1: columns "v.a" and "v_a" are both attribute "v_a"; rename one'),
        ({"ts": [1, None]}, {}, '2: a record of kind event needs "ts"'),
        ({"ts": pa.array([], pa.int64())}, {}, " no rows; an input has one event at least"),
        ({"v": [1]}, {}, '1: no column is "ts", the event time; say which, as in --map ts=COLUMN (columns: v)'),
    ],
)  # fmt: skip
def test_bad_parquet_is_reported_by_row_and_column(
    columns: dict[str, Any], options: dict[str, Any], want: str, tmp_path: Path
) -> None:
    assert parquet_message(tmp_path, columns, **options) == want


def test_parquet_that_is_none_and_rows_of_it_that_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and no more")
    for name in ("t.parquet", "none.parquet"):
        with pytest.raises(UserError, match=f"{name}: not readable as Parquet: "):
            list(ParquetRead(tmp_path / name))
    pq.write_table(
        pa.table({"ts": [1, None, 3], "v": [1.0, 2.0, math.inf]}), tmp_path / "t.parquet"
    )
    read = ParquetRead(tmp_path / "t.parquet", on_bad="skip", dead_letter=tmp_path / "bad")
    assert [r["ts"] for r in rows(read)] == [1]
    kept = [json.loads(line) for line in (tmp_path / "bad").read_text().splitlines()]
    assert [each["line"] for each in kept] == [2, 3]
    assert json.loads(kept[0]["text"]) == {"ts": None, "v": 2.0}


def test_an_export_that_a_table_cannot_hold(tmp_path: Path) -> None:
    texts = ['{"ts": 1, "attrs": {"v": 1}}', '{"ts": 1, "attrs": {"v": "x"}, "site": "b"}']
    frames = []
    for name, text in zip("ab", texts, strict=True):
        (tmp_path / name).write_text(text)
        frames += list(TraceRead(tmp_path / name))
    want = "attrs.v is int64 at site 'main' and string at site 'b', which one column cannot hold"
    with pytest.raises(UserError, match=f"{want}; write JSONL instead"):
        write_rows(frames, tmp_path / "out.csv")
    with pytest.raises(
        UserError, match=r'"ts" 1 ns is not a whole number of us; write with a finer'
    ):
        write_rows(frames[:1], tmp_path / "out.parquet", "us")
    with pytest.raises(UserError, match="cannot be written: No such file"):
        write_rows(frames[:1], tmp_path / "none" / "out.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


PART_COLUMNS = 8
PART_BYTES = CHUNK_LINES * PART_COLUMNS * 8
PARTS_MAX = 8
"""That one, and the pages and dictionaries that it is decoded from; the files have 16 and 64."""


@pytest.mark.parametrize(
    ("parts", "rows_per_group"),
    [(16, 8 * CHUNK_LINES), pytest.param(64, CHUNK_LINES, marks=pytest.mark.slow)],
)
def test_a_slow_reader_is_not_read_ahead_of(
    parts: int, rows_per_group: int, tmp_path: Path
) -> None:
    rows = parts * CHUNK_LINES
    random = np.random.default_rng(3)
    values = {f"c{n}": random.random(rows) for n in range(PART_COLUMNS)}
    pq.write_table(pa.table(values), tmp_path / "rows.parquet", row_group_size=rows_per_group)
    table = ParquetParts(str(tmp_path / "rows.parquet"), [str(tmp_path / "rows.parquet")])
    before, most, found = pa.total_allocated_bytes(), 0, 0
    for part in table.parts(table.schema.names):
        time.sleep(0.02)
        most = max(most, pa.total_allocated_bytes() - before)
        assert part.column("c0").to_numpy().tolist()[:3] == values["c0"][found : found + 3].tolist()
        found += part.num_rows
    assert found == rows
    assert most < PARTS_MAX * PART_BYTES


def test_files_of_a_folder_are_one_table_with_its_keys(tmp_path: Path) -> None:
    for day, columns in ((1, {"ts": [1, 2]}), (2, {"ts": [3.5], "b": ["x"]})):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table(columns), tmp_path / f"day={day}" / "rows.parquet")
    table = ParquetParts(str(tmp_path), [str(path) for path in sorted(tmp_path.rglob("*.parquet"))])
    found = pa.Table.from_batches(table.parts(["b", "day", "ts"])).to_pydict()
    assert found == {"b": [None, None, "x"], "day": [1, 1, 2], "ts": [1.0, 2.0, 3.5]}


def test_fields_of_structs_are_found_in_every_file_of_a_folder(tmp_path: Path) -> None:
    for name, value in (("part-0", {"at": 1}), ("part-1", {"at": 2, "v": 5})):
        pq.write_table(pa.table({"h": [value]}), tmp_path / f"{name}.parquet")
    found = ParquetRead(tmp_path, InputForm(mapping={"ts": "h.at"}))
    assert [(row["ts"], row.get("attrs.h_v")) for row in rows(found)] == [(1, None), (2, 5)]
