"""Results in Parquet and in CSV say what the JSON lines say, in types and in any time unit."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import slackwater
from slackwater.engine.cli.terminal import ROWS_SHOWN, TableTimes, show_results

EVENTS = [
    {"kind": "sync", "source": "s1", "offset": 3, "delay": 4_000_000, "arrival": 1},
    *(
        {"type": "ABC"[n % 3], "ts": 1_700_000_000_000_000_000 + n * 1_234_567, "seq": n // 2,
         "source": f"s{n % 2}", "site": "x" if n > 30 else "main",
         "arrival": 1_700_000_000_000_000_000 + n * 1_234_567 + (9_000_000 if n == 20 else 0),
         "attrs": {"v": n / 4, "n": 2**60 + n, "lit": n % 5 == 0, "day": "2026-11-22"}
         | ({"té.g": 'a "q", \n=1'} if n % 4 else {}) | ({"empty": ""} if n == 7 else {})}
        for n in range(60)
    ),
]  # fmt: skip
EVENTS[1:] = sorted(EVENTS[1:], key=lambda record: record["arrival"])
QUERIES: dict[str, tuple[str, ...]] = {
    "pairs": ("EVENT SEQ(A a, B b) WHERE a.v < 9 WITHIN 5 ms",),
    "values": (
        (
            "EVENT SEQ(A a, OR(B b, SEQ(B c, C d))) WHERE a.v < 4 WITHIN 9 ms "
            "RETURN a.v, b.v - a.v AS gain, a.day AS day"
        ),
    ),
    "windows": (
        "SELECT count(*), min(ref), max(ts) AS m FROM events GROUP BY lit WINDOW TUMBLING 10 ms",
        "SELECT max(n) AS m, avg(ref) FROM events WINDOW TUMBLING 20 ms DRIFT each",
    ),
    "keyless": ("SELECT count(*) FROM events WINDOW TUMBLING 20 ms",),
    "nothing": ("EVENT SEQ(A a, B b) WHERE a.v > 999 WITHIN 5 ms",),
}


def answers(cli: Any, trace: Any, tmp_path: Path, suffix: str, *command: str) -> Path:
    out = tmp_path / f"out{suffix}"
    ran = cli(*command, "--input", trace(*EVENTS), "--clock", "exact", "--out", str(out), "--quiet")
    assert (ran.code, ran.err) == (0, "")
    return out


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def bare(value: Any) -> Any:
    """Without nulls, and objects that have nothing: JSON's are left out of columns, or filled."""
    if isinstance(value, dict):
        kept = {name: bare(each) for name, each in value.items()}
        return {name: each for name, each in kept.items() if each not in (None, {})}
    if isinstance(value, Decimal):  # JSON's fractions are floats to Python
        return int(value) if value == int(value) else float(value)
    return [bare(each) for each in value] if isinstance(value, list) else value


def nested(row: dict[str, Any]) -> dict[str, Any]:
    """A row of CSV as its JSON line: the inverse of what the reference says of the columns."""
    found: dict[str, Any] = {}
    events: dict[str, dict[str, Any]] = {}
    for name, value in row.items():
        first, _, rest = name.partition(".")
        if value is None:
            continue
        if first.startswith("event") and rest:
            event = events.setdefault(first, {})
            outer, _, own = rest.partition("attrs.")
            if own:
                event.setdefault("attrs", {})[own] = value
            else:
                event[outer] = value
        elif first == "bounds":
            label, _, end = rest.rpartition(".")
            found.setdefault(first, {}).setdefault(label, [None, None])[end == "most"] = value
        elif rest:
            found.setdefault(first, {})[rest] = value
        else:
            found[name] = value
    if events:
        assert list(events) == [f"event{n + 1}" for n in range(len(events))]
        found["events"] = list(events.values())
    return found


def read_csv(path: Path) -> list[dict[str, Any]]:
    convert = pyarrow.csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False,
        column_types={
            name: pa.string() if name.endswith("day") else pa.decimal128(38, 6)
            for name in header(path) if name.endswith(("day", ".m"))
        },
    )  # fmt: skip
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return pa.csv.read_csv(path, parse_options=parse, convert_options=convert).to_pylist()


def header(path: Path) -> list[str]:
    options = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return list(pa.csv.read_csv(path, parse_options=options).column_names)


@pytest.mark.parametrize("unit", ["ns", "ms"])
@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_the_same_in_every_format(
    name: str, unit: str, cli: Any, trace: Any, tmp_path: Path
) -> None:
    if unit == "ms":  # the same trace, whose durations are written with their units
        given = [
            record | {key: record[key] / 10**6 for key in ("ts", "arrival", "offset", "delay")
                      if key in record}
            for record in EVENTS
        ]  # fmt: skip
    else:
        given = EVENTS
    command = ("query", *QUERIES[name], "--time-unit", unit, "--clock", "exact")
    made = {}
    for suffix in (".jsonl", ".parquet", ".csv"):
        out = tmp_path / f"out{suffix}"
        ran = cli(*command, "--input", trace(*given), "--out", str(out), "--quiet")
        assert (ran.code, ran.err) == (0, "")
        made[suffix] = out
    reported = [bare(line) for line in lines(made[".jsonl"])]
    assert bool(reported) == (name != "nothing")
    ordered = sorted(reported, key=lambda line: line["site"])
    assert sorted_as(pq.read_table(made[".parquet"]).to_pylist(), ordered) == ordered
    found = [nested(row) for row in read_csv(made[".csv"])] if reported else []
    assert sorted_as(found, ordered) == ordered


def sorted_as(rows: list[dict[str, Any]], like: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """JSON lines go by site, then by query; tables by site, then in order of emission."""
    places = list(dict.fromkeys(line["query"] for line in like))
    return sorted(map(bare, rows), key=lambda row: (row["site"], places.index(row["query"])))


def test_matches_have_typed_attributes_and_values(cli: Any, trace: Any, tmp_path: Path) -> None:
    out = answers(cli, trace, tmp_path, ".parquet", "query", *QUERIES["pairs"])
    schema = pq.read_schema(out)
    event = schema.field("events").type.value_type
    assert str(event.field("attrs").type) == (
        "struct<day: string, empty: string, lit: bool, n: int64, té.g: string, v: double>"
    )
    assert "more" not in (*schema.names, *(field.name for field in event))
    out = answers(cli, trace, tmp_path, ".parquet", "query", *QUERIES["values"])
    assert str(pq.read_schema(out).field("value").type) == "struct<gain: double, day: string>"


def test_the_columns_of_a_csv_follow_from_the_query(cli: Any, trace: Any, tmp_path: Path) -> None:
    """Not from which of an OR's alternatives were found, nor from whether anything was."""
    out = answers(cli, trace, tmp_path, ".csv", "query", *QUERIES["nothing"])
    names = out.read_text().strip().replace('"', "").split(",")
    assert names[:7] == ["op", "query", "site", "at", "known_at", "certainty", "probability"]
    assert names[7:] == [
        f"event{n}.{field}"
        for n in (1, 2)
        for field in ("site", "stream", "source", "seq", "type", "ts", "te", "ref")
    ]
    three = "EVENT SEQ(A a, OR(B b, SEQ(NONE c, C d))) WHERE a.v < 2 WITHIN 5 ms"
    assert "event3.ref" in header(answers(cli, trace, tmp_path, ".csv", "query", three))


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_the_ordered_stream_is_the_same_in_every_format(
    suffix: str, cli: Any, trace: Any, tmp_path: Path
) -> None:
    command = ("order", "--order", "kslack:1ms", "--time-unit", "ns")
    reported = lines(answers(cli, trace, tmp_path, ".jsonl", *command))
    out = answers(cli, trace, tmp_path, suffix, *command)
    rows = pq.read_table(out).to_pylist() if suffix == ".parquet" else read_csv(out)
    assert [record(row) for row in rows] == reported
    assert {row["late"] for row in rows} == {False, True}


def record(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the trace writes it: what is usual is left out."""
    usual = {"site": "main", "stream": "events", "incarnation": 0, "te": row["ts"]}
    found: dict[str, Any] = {}
    for name, value in row.items():
        first, _, own = name.partition(".")
        if own and value is not None:
            found.setdefault(first, {})[own] = value
        elif value is not None and (name not in usual or value != usual[name]):
            found[name] = value
    return found


def test_times_of_tables_are_in_the_unit(cli: Any, trace: Any, tmp_path: Path) -> None:
    records = [{"type": "A", "ts": 5, "arrival": 7}, {"type": "B", "ts": 9, "arrival": 11}]
    for command, suffix in ((("query", "EVENT SEQ(A a, B b)"), ".parquet"), (("order",), ".csv")):
        out = tmp_path / f"out{suffix}"
        ran = cli(*command, "--time-unit", "s", "--input", trace(*records), "--out", str(out))
        assert ran.code == 0
        if suffix == ".csv":
            rows = read_csv(out)
            assert [(row["ts"], row["te"], row["arrival"]) for row in rows] == [
                (5, 5, 7), (9, 9, 11),
            ]  # fmt: skip
        else:
            (row,) = pq.read_table(out).to_pylist()
            assert [event["ts"] for event in row["events"]] == [5, 9]
            assert row["known_at"] == 11


def test_late_events_as_a_table_are_in_the_unit(cli: Any, trace: Any, tmp_path: Path) -> None:
    records = [{"type": "A", "ts": ts, "arrival": 90 + at} for at, ts in enumerate((50, 60, 5))]
    late = tmp_path / "late.csv"
    ran = cli(
        "order", "--order", "kslack:1s", "--time-unit", "s", "--input", trace(*records),
        "--out", str(tmp_path / "out.parquet"), "--late", str(late),
    )  # fmt: skip
    assert ran.code == 0
    (row,) = read_csv(late)
    assert (row["ts"], row["lateness"], row["reason"]) == (5, 45, "late")


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_table_of_alerts_may_have_no_event_before_any(
    suffix: str, cli: Any, trace: Any, tmp_path: Path
) -> None:
    records = [{"type": kind, "ts": n, "attrs": {"k": 1}} for n, kind in enumerate("AC")]
    query = "EVENT SEQ(B b, D d) UNDER CONSTRAINT way FOR TRACE BY k AS A, (C | B, D)"
    out = tmp_path / f"out{suffix}"
    ran = cli("query", query, "--input", trace(*records), "--out", str(out), "--quiet")
    assert (ran.code, ran.err) == (0, "")
    (row,) = pq.read_table(out).to_pylist() if suffix == ".parquet" else read_csv(out)
    assert (row["alert"], row["type"], row.get("so_far", [])) == ("cleared", "C", [])


ROOT = Path(__file__).resolve().parents[2]
WINDOW = {
    "op": "+", "query": "q1", "site": "main", "at": 4, "window": {"start": 0, "end": 20},
    "key": {"type": "A"}, "value": {"count(*)": 1}, "low": {"count(*)": 1},
    "middle": {"count(*)": 1}, "high": {"count(*)": 2}, "certain": 1, "ambiguous": 0,
    "missing": 0, "bounds": {"count(*)": [1, 1]},
}  # fmt: skip
EVENT = {"site": "main", "source": "s0", "seq": 3, "type": "A\x1b[31m", "ts": 5, "attrs": {}}


def shown(tmp_path: Path, *records: dict[str, Any], times: TableTimes | None = None) -> str:
    lines = tmp_path / "shown.jsonl"
    lines.write_text("".join(json.dumps(each) + "\n" for each in records))
    out = io.StringIO()
    show_results(lines, Console(file=out, width=200), times)
    return out.getvalue()


def table(text: str) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and the cells of each line."""
    cells = [
        [cell.strip() for cell in line.replace("┃", "│").split("│")[1:-1]]
        for line in text.splitlines()
        if line[0] in "┃│"
    ]
    return cells[0], cells[1:]


def test_a_window_shows_keys_values_and_what_differs(tmp_path: Path) -> None:
    names, rows = table(shown(tmp_path, WINDOW))
    assert names == ["start", "end", "type", "count(*)", "high.count(*)", "missing"]
    assert rows == [["0", "20", "A", "1", "2", "0"]]
    doubtful = WINDOW | {"ambiguous": 2, "bounds": {"count(*)": [1, 3]}, "op": "-", "at": 9}
    names, rows = table(shown(tmp_path, WINDOW, doubtful))
    assert names == ["op", "at", "start", "end", "type", "count(*)", "high.count(*)", "missing",
                     "certain", "ambiguous", "count(*) from .. to"]  # fmt: skip
    assert rows[1][:2] == ["-", "9"]
    assert rows[1][-3:] == ["1", "2", "1 .. 3"]


def test_a_match_shows_its_events_and_no_escape_code_gets_through(tmp_path: Path) -> None:
    text = shown(tmp_path, {"op": "+", "at": 7, "events": [EVENT, EVENT | {"type": "B"}]})
    names, rows = table(text)
    assert names == ["events"]
    assert rows[1] == ["B s0#3 5"]
    assert "\x1b" not in text


DAY = 1_772_352_000_000_000_000
DATED: dict[str, Any] = {
    "op": "+", "query": "q1", "site": "main", "at": 4, "known_at": 4, "certainty": "uncertain",
    "probability": 0.906_249_1, "value": {"opened": DAY, "gap": 2_500_000_000, "temp": 20.333333},
    "events": [
        {"source": "door", "seq": 3, "type": "OPEN", "ts": DAY, "te": DAY, "ref": DAY + 250_000_000,
         "attrs": {}},
        {"source": "cam", "seq": None, "type": "STAY", "ts": DAY, "te": DAY + 9_000_000_000,
         "ref": DAY + 1_000_000_000, "attrs": {"room": "R1", "v": 2 / 3}},
    ],
}  # fmt: skip


def test_dates_are_shown_in_the_zone_and_numbers_are_rounded(tmp_path: Path) -> None:
    times = TableTimes("s", "Europe/Berlin", {"q1": {"opened", "gap"}}, arrives=False)
    names, rows = table(shown(tmp_path, DATED, times=times))
    assert names == ["certainty", "probability", "opened", "gap", "temp", "events"]
    day = "2026-03-01T09:00"
    assert rows[0] == [
        "uncertain", "0.906", f"{day}:00.000+01:00", "2.5", "20.3333",
        f"OPEN door#3 {day}:00.250+01:00",
    ]  # fmt: skip
    assert rows[1][-1] == (f"STAY cam {day}:01.000+01:00 .. {day}:10.000+01:00 room=R1 v=0.666667")


def test_no_line_number_is_shown_beside_dates_and_no_time_is_truncated(tmp_path: Path) -> None:
    changed = [DATED, DATED | {"op": "-"}]
    assert "at" not in table(shown(tmp_path, *changed, times=TableTimes(arrives=False)))[0]
    names, rows = table(shown(tmp_path, *changed))
    assert rows[0][names.index("at")] == "4"
    small = WINDOW | {"window": {"start": 1_500_000_000, "end": 3_000_000_000}}
    assert table(shown(tmp_path, small, times=TableTimes("s")))[1][0][:2] == ["1.5", "3"]


def test_certain_and_nearly_certain_are_not_shown_alike(tmp_path: Path) -> None:
    rows = table(shown(tmp_path, *(DATED | {"probability": p} for p in (1.0, 0.99999, 1e-9))))[1]
    assert [row[1] for row in rows[::2]] == ["1", "0.999", "0.001"]


def test_many_results_are_counted(tmp_path: Path) -> None:
    text = shown(tmp_path, *({"op": "+", "ts": at} for at in range(ROWS_SHOWN + 1234)))
    assert "... and 1,234 more; --out FILE keeps all of them" in text
    assert "no results" in shown(tmp_path)


def test_a_terminal_gets_a_table_and_a_pipe_json(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"type": "A", "ts": 1}\n')
    code = "from slackwater.engine.cli import main; main()"
    command = [sys.executable, "-c", code, "order", "--input", "t.jsonl", "--quiet"]
    given: dict[str, Any] = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(ROOT)}}
    piped = subprocess.run(command, **given, capture_output=True, check=True)
    assert json.loads(piped.stdout)["type"] == "A"
    try:
        master, terminal = pty.openpty()
    except OSError as problem:
        pytest.skip(f"no terminals on this machine: {problem}")
    subprocess.run(command, **given, stdout=terminal, check=True)
    assert "┃" in os.read(master, 65536).decode()
    for end in (master, terminal):
        os.close(end)
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


def dated(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "AB"[n % 2], "ts": text} for n, text in enumerate(texts)]


TWO = dated("2026-03-01T08:00:01.5Z", "2026-03-01T08:00:03Z")
PAIR = ("query", "EVENT SEQ(A a, B b) WITHIN 1 min", "--clock", "exact", "--quiet")


def test_dates_in_dates_out(cli: Any, trace: Any, tmp_path: Path) -> None:
    name = trace(*TWO)
    (line,) = cli(*PAIR, "--input", name, "--timezone", "Europe/Berlin").lines
    day = "2026-03-01T09:00"
    assert [event["ref"] for event in line["events"]] == [f"{day}:01.500+01:00", f"{day}:03+01:00"]
    assert (line["at"], line["known_at"]) == (None, None)  # arrivals are line numbers
    windows = ("query", "SELECT count(*) AS n WINDOW TUMBLING 1 min", "--quiet", "--input", name)
    for ending in (".csv", ".parquet"):
        assert cli(*windows, "--out", str(tmp_path / f"w{ending}")).code == 0
    assert '"2026-03-01T08:00:00Z","2026-03-01T08:01:00Z"' in (tmp_path / "w.csv").read_text()
    berlin = ("--timezone", "Europe/Berlin", "--out", str(tmp_path / "b.parquet"))
    assert cli(*windows, *berlin).code == 0
    kind = pq.read_schema(tmp_path / "b.parquet").field("window").type.field("start").type
    assert kind == pa.timestamp("ns", "Europe/Berlin")
    with slackwater.read(name, timezone="Europe/Berlin") as events:
        found = slackwater.query(events, "SELECT count(*) AS n WINDOW TUMBLING 1 min")
        assert found.to_arrow().schema.field("at").type == kind
        assert str(found.to_pandas(flat=True)["window.start"].dtype) == (
            "datetime64[ns, Europe/Berlin]"
        )
        found.write(tmp_path / "p.jsonl")
    asked = cli(*windows, "--timezone", "Europe/Berlin")
    assert (tmp_path / "p.jsonl").read_text() == asked.out
    assert '"start": "2026-03-01T09:00:00+01:00"' in asked.out
    schema = pq.read_schema(tmp_path / "w.parquet")
    assert schema.field("window").type.field("start").type == pa.timestamp("ns", "UTC")
    (start,) = (
        pq.read_table(tmp_path / "w.parquet")["window"]
        .combine_chunks()
        .field("start")
        .cast(pa.int64())
        .to_pylist()
    )
    assert start == DAY


@pytest.mark.parametrize("given", [("--time-unit", "s"), ("--times", "number")])
def test_numbers_where_they_are_asked_for(given: tuple[str, ...], cli: Any, trace: Any) -> None:
    (line,) = cli(*PAIR, "--input", trace(*TWO), *given).lines
    exact = 1_772_352_001.5 if given[0] == "--time-unit" else 1_772_352_001_500_000_000
    assert line["events"][0]["ts"] == exact
    assert isinstance(line["events"][1]["ts"], int)
    assert line["at"] == 2
    numbers = [record | {"ts": DAY + n} for n, record in enumerate(TWO)]
    (line,) = cli(*PAIR, "--input", trace(*numbers)).lines
    assert line["events"][1]["ts"] == DAY + 1
    (line,) = cli(*PAIR, "--input", trace(*numbers), "--times", "iso").lines
    assert line["events"][1]["ts"] == "2026-03-01T08:00:00.000000001Z"


def test_another_form_of_times_is_refused(cli: Any, trace: Any) -> None:
    ran = cli(*PAIR, "--input", trace(*TWO), "--times", "unix")
    assert (ran.code, ran.err) == (2, "slackwater: --times unix: write iso or number\n")
