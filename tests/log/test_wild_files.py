"""Files as they are found in the wild: each loads as it is, or with the option its error names."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from slackwater.engine.cli.app import run
from slackwater.engine.core.errors import UserError
from slackwater.engine.log.input.input_log import open_input
from slackwater.engine.log.input.input_read import InputForm

START = 1_700_000_000 * 10**9  # 2023-11-14 22:13:20 UTC
STEP = 500_000_000
TIMES = [START, START + STEP, START + 3 * STEP]
VALUES = [1.5, 2.25, -3.0]
OFFERED = re.compile(r"--(map|time-unit|sort|header) (\S+?)(?=[ ,;:)]|$)")


def frame() -> pd.DataFrame:
    return pd.DataFrame({"time": pd.to_datetime(TIMES), "temp": VALUES, "host": ["a", "b", "a"]})


def jsonl(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(content)
    return sink.getvalue().to_pybytes()


def german(path: Path) -> None:
    stamps = ("14.11.2023 22:13:20,0", "14.11.2023 22:13:20,5", "14.11.2023 22:13:21,500")
    values = [str(value).replace(".", ",") for value in VALUES]
    rows = [f"{stamp};{value};ok;" for stamp, value in zip(stamps, values, strict=True)]
    path.write_bytes("\r\n".join(["Zeitstempel;temp;Status;", *rows, ""]).encode("utf-8-sig"))


def spark_folder(path: Path) -> None:
    for part, rows in enumerate((slice(0, 2), slice(2, 3))):
        folder = path / f"day={part}"
        folder.mkdir(parents=True)
        table = {"event_time": pa.array(TIMES[rows], pa.timestamp("ns")), "temp": VALUES[rows]}
        pq.write_table(
            pa.table(table), folder / f"part-0000{part}-3c1d.c000.snappy.parquet",
            use_deprecated_int96_timestamps=True,
        )  # fmt: skip
        (folder / f".part-0000{part}-3c1d.c000.snappy.parquet.crc").write_bytes(b"crc\0")
    (path / "_SUCCESS").touch()


def ros(path: Path) -> None:
    path.write_bytes(jsonl([
        {"header": {"seq": n, "stamp": {"sec": t // 10**9, "nanosec": t % 10**9}, "frame_id": "x"},
         "temp": v}
        for n, (t, v) in enumerate(zip(TIMES, VALUES, strict=True))
    ]))  # fmt: skip


def influx(path: Path) -> None:
    path.write_bytes(jsonl([
        {"measurement": "cpu", "tags": {"host": "a"}, "fields": {"temp": v},
         "time": pd.Timestamp(t).isoformat() + "Z"}
        for t, v in zip(TIMES, VALUES, strict=True)
    ]))  # fmt: skip


def kafka(path: Path) -> None:
    path.write_bytes(jsonl([
        {"deviceId": 7, "eventTime": t // 10**6, "temp": v, "tags": {"room": "k"}}
        for t, v in zip(TIMES, VALUES, strict=True)
    ]))  # fmt: skip


def debs(path: Path) -> None:
    rows = [
        f"13,{t // 1000},{n},{-n},7,{v}" for n, (t, v) in enumerate(zip(TIMES, VALUES, strict=True))
    ]
    path.write_text("\n".join(rows) + "\n")


def lines(header: str, times: list[Any], sign: str = ",", end: str = "\n") -> bytes:
    rows = [f"{t}{sign}{v}" for t, v in zip(times, VALUES, strict=True)]
    return (end.join([header, *rows]) + end).encode()


ISO_Z = [pd.Timestamp(t).isoformat() + "Z" for t in TIMES]
ISO_OFFSET = [
    "2023-11-14T23:13:20+01:00",
    "2023-11-14 23:13:20.5+0100",
    "2023-11-14T23:13:21.500+01",
]
SECONDS = [t / 10**9 for t in TIMES]
MS = [t // 10**6 for t in TIMES]
FLAT = [{"ts": t, "temp": v} for t, v in zip(TIMES, VALUES, strict=True)]

FILES: dict[str, Callable[[Path], Any]] = {
    "german.csv": german,
    "pandas.csv": lambda p: frame().to_csv(p),
    "pandas_index.csv": lambda p: frame().set_index("time").tz_localize("UTC").to_csv(p),
    "pandas.parquet": lambda p: frame().to_parquet(p),
    "pandas_index.parquet": lambda p: frame().set_index("time").rename_axis(None).to_parquet(p),
    "pandas_zone.parquet": lambda p: (
        frame().assign(time=lambda d: d["time"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
        .rename(columns={"time": "ts"}).to_parquet(p)
    ),
    "pandas.json": lambda p: frame().to_json(p, orient="records", lines=True),
    "pandas_iso.jsonl": lambda p: (
        frame().to_json(p, orient="records", lines=True, date_format="iso", date_unit="us")
    ),
    "spark": spark_folder,
    "float_seconds.parquet": lambda p: pq.write_table(pa.table({"ts": SECONDS, "temp": VALUES}), p),
    "text_times.parquet": lambda p: pq.write_table(pa.table({"ts": ISO_Z, "temp": VALUES}), p),
    "ros.jsonl": ros,
    "influx.jsonl": influx,
    "kafka.json": kafka,
    "debs.csv": debs,
    "iso_z.jsonl": lambda p: p.write_bytes(
        jsonl([each | {"ts": iso} for each, iso in zip(FLAT, ISO_Z, strict=True)])
    ),
    "iso_offset.csv": lambda p: p.write_bytes(lines("ts,temp", ISO_OFFSET)),
    "epoch_floats.csv": lambda p: p.write_bytes(lines("ts,temp", SECONDS)),
    "epoch_floats.jsonl": lambda p: p.write_bytes(
        jsonl([each | {"ts": s} for each, s in zip(FLAT, SECONDS, strict=True)])
    ),
    "epoch_ms.tsv": lambda p: p.write_bytes(lines("ts\ttemp", MS, "\t")),
    "packed.csv.gz": lambda p: p.write_bytes(gzip.compress(lines("ts,temp", MS))),
    "packed.csv.zst": lambda p: p.write_bytes(zstd(lines("ts,temp", MS))),
    "packed.jsonl.zst": lambda p: p.write_bytes(zstd(jsonl(FLAT))),
    "two_frames.zst": lambda p: p.write_bytes(zstd(jsonl(FLAT[:1])) + zstd(jsonl(FLAT[1:]))),
    "packed.jsonl.gz": lambda p: p.write_bytes(gzip.compress(jsonl(FLAT))),
    "bom_crlf.csv": lambda p: p.write_bytes(b"\xef\xbb\xbf" + lines("ts,temp", MS, end="\r\n")),
    "bom_crlf.jsonl": lambda p: p.write_bytes(
        b"\xef\xbb\xbf" + jsonl(FLAT).replace(b"\n", b"\r\n")
    ),
    "quoted_newlines.csv": lambda p: p.write_text(
        "ts,note,temp\n"
        + "".join(f'{t},"a, b\nand ""{n}""",{VALUES[n]}\n' for n, t in enumerate(TIMES))
    ),
    "padded.csv": lambda p: p.write_bytes(lines("ts, temp", [f"{ms}" for ms in MS], ", ")),
    "own_kind.csv": lambda p: p.write_text(
        "ts,kind,delay,temp\n"
        + "".join(f"{t},humidity,7,{v}\n" for t, v in zip(TIMES, VALUES, strict=True))
    ),
    "own_kind.jsonl": lambda p: p.write_bytes(jsonl([each | {"kind": "air"} for each in FLAT])),
    "own_delay.jsonl": lambda p: p.write_bytes(jsonl([each | {"delay": 3} for each in FLAT])),
    "own_kind.parquet": lambda p: pq.write_table(
        pa.table({"ts": TIMES, "kind": ["x", "y", None], "temp": VALUES}), p
    ),
    "unsorted.csv": lambda p: p.write_text(
        "ts,arrival,temp\n" + "".join(f"{TIMES[n]},{TIMES[n]},{VALUES[n]}\n" for n in (2, 0, 1))
    ),
    "unsorted.jsonl": lambda p: p.write_bytes(
        jsonl([FLAT[n] | {"arrival": TIMES[n]} for n in (1, 2, 0)])
    ),
    "numbers_as_names.jsonl": lambda p: p.write_bytes(
        jsonl([each | {"source": 4} for each in FLAT])
    ),
    "capital.jsonl": lambda p: p.write_bytes(
        jsonl([{"Ts": each["ts"], "temp": each["temp"]} for each in FLAT])
    ),
    "not_a_number.jsonl": lambda p: p.write_bytes(
        jsonl([each | {"gap": float("nan")} for each in FLAT])
    ),
}  # fmt: skip
AS_THEY_ARE = {
    "pandas_zone.parquet", "text_times.parquet", "iso_z.jsonl", "iso_offset.csv",
    "packed.jsonl.zst", "two_frames.zst", "packed.jsonl.gz", "bom_crlf.jsonl",
    "quoted_newlines.csv", "own_kind.csv",
    "own_kind.parquet", "not_a_number.jsonl",
}  # fmt: skip


def followed(form: InputForm, message: str) -> InputForm:
    """The form with the options that an error's message names; the first of two of one kind."""
    for option, value in reversed(OFFERED.findall(message)):
        if option == "map":
            target, _, column = value.partition("=")
            form = replace(form, mapping={**form.mapping, target: column})
        elif option == "header":
            form = replace(form, header=["sid", "ts", "x", "y", "z", "temp"])
        else:
            form = replace(form, **{"unit" if option == "time-unit" else option: value})
    return form


def refusal(path: Path, form: InputForm) -> str | None:
    try:
        list(open_input(path, form))
    except UserError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_the_wild_loads_as_it_is_or_as_its_error_says(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    FILES[name](path)
    form = InputForm()
    reported: list[str] = []
    while (wrong := refusal(path, form)) is not None:
        reported.append(wrong)
        assert len(reported) < 4, reported
        assert followed(form, wrong) != form, reported
        form = followed(form, wrong)
    frames = list(open_input(path, form))
    assert bool(reported) != (name in AS_THEY_ARE)
    times = [t for each in frames for t in each.batch.column("ts").to_pylist()]
    assert times == TIMES
    temps = [
        v
        for each in frames
        for column in ("attrs.temp", "attrs.fields_temp")
        if column in each.batch.schema.names
        for v in each.batch.column(column).to_pylist()
    ]
    assert temps == VALUES


def test_an_epoch_in_ms_under_the_default_unit_stops_and_names_the_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.jsonl").write_bytes(jsonl([{"type": "A", "ts": ms} for ms in MS]))
    count = ["query", "SELECT count(*) WINDOW TUMBLING 1 s", "--input", "t.jsonl", "--in-process"]
    for command in (count, ["order", "--input", "t.jsonl"], ["compare", "--input", "t.jsonl"],
                    ["log", "show", "t.jsonl"], ["log", "import", "t.jsonl", "--out", "o"],
                    ["log", "export", "t.jsonl", "--out", "o.csv"]):  # fmt: skip
        assert run(command) == 2, command
        said = capsys.readouterr().err
        assert "2023-11-14 22:13:20 in ms: give --time-unit ms" in said
        assert 't.jsonl:1: "ts" 1700000000000 would be 1970-01-01 00:28:20 in ns' in said
    for unit in ("ms", "ns"):
        assert run(["log", "show", "t.jsonl", "--time-unit", unit, "--json"]) == 0
        first = json.loads(capsys.readouterr().out)["sites"]["main"]["first_ts"]
        assert first == MS[0] * {"ms": 10**6, "ns": 1}[unit]


@pytest.mark.parametrize("times", [[1, 2, 3], [0, 10**9, 2 * 10**9], [1.0, 2.0], TIMES])
def test_small_times_and_ns_need_no_unit(times: list[Any], tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(jsonl([{"ts": t} for t in times]))
    (each,) = open_input(tmp_path / "t.jsonl")
    assert each.batch.column("ts").to_pylist() == times


def test_times_without_a_zone_are_of_the_timezone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local = "2026-07-01 12:00:00"
    (tmp_path / "t.csv").write_text(f"ts\n{local}\n{local}Z\n")
    (tmp_path / "t.jsonl").write_bytes(jsonl([{"ts": local}, {"ts": local + "Z"}]))
    stamps = pa.array([pd.Timestamp(local)], pa.timestamp("us"))
    pq.write_table(pa.table({"ts": stamps}), tmp_path / "t.parquet")
    utc = pd.Timestamp(local).value
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        (each,) = open_input(tmp_path / name, InputForm(timezone="Europe/Berlin"))
        want = [utc - 2 * 3600 * 10**9, utc][: each.rows]
        assert each.batch.column("ts").to_pylist() == want
    assert run(["log", "show", str(tmp_path / "t.csv"), "--timezone", "Europe/Berln"]) == 2
    assert 'did you mean "Europe/Berlin"?' in capsys.readouterr().err
    (tmp_path / "t.csv").write_text("ts\n2026-10-25 02:30:00\n")
    with pytest.raises(UserError, match="is there twice or never in Europe/Berlin"):
        list(open_input(tmp_path / "t.csv", InputForm(timezone="Europe/Berlin")))


def test_sorted_by_arrival_an_unsorted_file_is_the_sorted_one(tmp_path: Path) -> None:
    order = [(7919 * n) % 1009 for n in range(1009)]
    rows = {n: f"{n % 5},{n},{5 * n},{'x' if n % 3 else ''},{n / 2}\n" for n in order}
    head = "source,ts,arrival,name,v\n"
    (tmp_path / "mixed.csv").write_text(head + "".join(rows[n] for n in order))
    (tmp_path / "right.csv").write_text(head + "".join(rows[n] for n in sorted(order)))
    by_arrival = InputForm(sort="arrival")
    (mixed,) = open_input(tmp_path / "mixed.csv", by_arrival)
    (right,) = open_input(tmp_path / "right.csv")
    assert mixed.batch.to_pylist() == right.batch.to_pylist()
    objects = [{"ts": n, "arrival": 5 * n} | ({"v": n} if n % 2 else {"w": "x"}) for n in order]
    (tmp_path / "mixed.jsonl").write_bytes(jsonl(objects))
    objects.sort(key=lambda each: each["ts"])
    (tmp_path / "right.jsonl").write_bytes(jsonl(objects))
    (mixed,) = open_input(tmp_path / "mixed.jsonl", by_arrival)
    (right,) = open_input(tmp_path / "right.jsonl")
    assert mixed.batch.to_pylist() == right.batch.to_pylist()


def test_sorted_by_event_time_rows_arrive_as_they_happened(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("source,ts\na,5\na,9\nb,3\nb,7\n")
    (each,) = open_input(tmp_path / "t.csv", InputForm(sort="ts"))
    assert each.batch.column("ts").to_pylist() == [3, 5, 7, 9]
    assert each.batch.column("arrival").to_pylist() == [1, 2, 3, 4]
    (tmp_path / "t.csv").write_text("ts,arrival\n5,9\n9,3\n")
    with pytest.raises(UserError, match="give --sort arrival"):
        list(open_input(tmp_path / "t.csv", InputForm(sort="ts")))
    with pytest.raises(UserError, match="unknown --sort 'time'; use arrival or ts"):
        open_input(tmp_path / "t.csv", InputForm(sort="time"))


def test_fractions_are_taken_digit_by_digit(tmp_path: Path) -> None:
    text = "ts\n1700000000.123456789\n1700000000,5\n-0.25\n1.7e9\n"
    (tmp_path / "t.csv").write_text(text.replace(",", "."))
    (each,) = open_input(tmp_path / "t.csv", "s")
    want = [START + 123_456_789, START + STEP, -250_000_000, START]
    assert each.batch.column("ts").to_pylist() == want
    (tmp_path / "t.jsonl").write_bytes(jsonl([{"ts": 1700000000.123456}, {"ts": 4.5}]))
    (each,) = open_input(tmp_path / "t.jsonl", "s")
    assert each.batch.column("ts").to_pylist() == [START + 123_456_000, 4_500_000_000]
