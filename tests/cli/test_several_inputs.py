"""Several files as one input, and options that are given twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.engine.core.errors import UserError

COUNT = "SELECT count(*) AS n, sum(v) AS s GROUP BY source WINDOW TUMBLING 1 min"
ORDERS = "ts,order_id,amount\n2018-07-07 23:50:17,1,10.5\n2018-07-07 23:50:17,2,3.32\n"
ITEMS = (
    "ts,order_id,product\n2018-07-07 23:50:19,1,Foo\n2018-07-07 23:50:19,1,Bar\n"
    "2018-07-07 23:50:19,1,Baz\n2018-07-07 23:50:19,2,Foo\n"
)


@pytest.fixture(name="devices")
def _devices(here: Path) -> Path:
    """Two devices, a file each, whose times take turns."""
    for name, first in (("d1", 0), ("d2", 1)):
        rows = [f"2026-03-01T08:00:{first + 2 * n:02d}Z,{n}" for n in range(5)]
        (here / f"{name}.csv").write_text("\n".join(["ts,v", *rows]) + "\n", encoding="utf-8")
    return here


def _sums(ran: Any) -> dict[str, tuple[int, float]]:
    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    return {row["key"]["source"]: (row["value"]["n"], row["value"]["s"]) for row in rows}


@pytest.mark.parametrize(
    "inputs",
    [
        ("--input", "d1.csv", "--input", "d2.csv"),
        ("--input", "d2.csv", "d1.csv"),  # as a shell writes out d*.csv
        ("--input", "d*.csv"),
        ("--input", "."),
    ],
)
def test_a_file_for_each_device(
    inputs: tuple[str, ...], devices: Path, cli: Callable[..., Any]
) -> None:
    del devices
    ran = cli("query", COUNT, *inputs, "--source-from", "name", "--quiet")
    assert _sums(ran) == {"d1": (5, 10), "d2": (5, 10)}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_files_without_sources_have_a_clock_each(
    kind: str, here: Path, cli: Callable[..., Any]
) -> None:
    """Nobody compared the clocks: the badge server may be 3.2 s fast."""
    for folder, stream, at in (("a", "door", 10), ("b", "badge", 12)):
        table = pa.table({"ts": [at, at + 100], "type": [stream] * 2})
        (here / folder).mkdir()
        file = here / folder / f"log.{kind}"
        if kind == "parquet":
            pq.write_table(table, file)
        elif kind == "csv":
            file.write_text(f"ts,type\n{at},{stream}\n{at + 100},{stream}\n", encoding="utf-8")
        else:
            file.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
    files = ("--input", f"a/log.{kind}", f"b/log.{kind}")

    def certainty(query: str, *options: str) -> list[str]:
        ran = cli("query", query, *files, "--quiet", *options)
        assert ran.code == 0, ran.err
        return [json.loads(line)["certainty"] for line in ran.out.splitlines()]

    pair = "EVENT SEQ(door d, badge b) WITHIN 5"
    assert certainty(pair) == certainty("SELECT count(*) WINDOW TUMBLING 50") == ["unknown"] * 2
    assert certainty("EVENT SEQ(door d, door e) WITHIN 100") == ["confirmed"]
    assert certainty(pair, "--clock", "exact") == ["confirmed"] * 2
    assert certainty(pair, "--clock", f"b/log.{kind}=-3s±0.1s") == []


def test_rows_of_several_files_are_in_order(devices: Path, cli: Callable[..., Any]) -> None:
    del devices
    ran = cli("order", "--input", "d2.csv", "d1.csv", "--source-from", "name", "--quiet")
    assert ran.code == 0, ran.err
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert [each["ts"] for each in events] == sorted(each["ts"] for each in events)
    assert [each["source"] for each in events] == ["d1", "d2"] * 5
    assert not any(each["late"] for each in events)


def test_arrivals_order_the_rows_of_several_files(here: Path, cli: Callable[..., Any]) -> None:
    for name, arrivals in (("a", (10, 30)), ("b", (20, 40))):
        rows = [json.dumps({"ts": at - 5, "arrival": at, "v": 1}) for at in arrivals]
        (here / f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert cli("log", "import", "b.jsonl", "a.jsonl", "--out", "both.log").code == 0
    assert cli("log", "export", "both.log", "--out", "both.jsonl").code == 0
    records = [json.loads(line) for line in (here / "both.jsonl").read_text().splitlines()]
    assert [each["arrival"] for each in records] == [10, 20, 30, 40]


def test_case_02_ksql_left_join_null(here: Path, cli: Callable[..., Any]) -> None:
    (here / "orders.csv").write_text(ORDERS, encoding="utf-8")
    (here / "items.csv").write_text(ITEMS, encoding="utf-8")
    query = (
        "SELECT o.order_id, o.amount, i.product FROM orders o LEFT JOIN items i "
        "ON o.order_id = i.order_id WITHIN {} s"
    )
    looked = cli("look", "orders.csv", "items.csv")
    named = "--input orders.csv --input items.csv --source-from name --stream-from name"
    assert named in looked.out, looked.err
    files = ("--input", "orders.csv", "--input", "items.csv", "--stream-from", "name", "--quiet")
    for within, nulls, pairs in ((3, 0, 4), (2, 0, 4), (1, 2, 0)):
        ran = cli("query", query.format(within), *files)
        assert ran.code == 0, ran.err
        rows = [json.loads(line) for line in ran.out.splitlines()]
        assert all(row["op"] == "+" for row in rows)
        products = [row["value"]["product"] for row in rows]
        assert (products.count(None), len(products) - products.count(None)) == (nulls, pairs)


@pytest.mark.parametrize("sort", [(), ("--sort", "ts")])
def test_files_of_several_kinds_and_types(
    sort: tuple[str, ...], here: Path, cli: Callable[..., Any]
) -> None:
    (here / "a.csv").write_text("source,ts,v,w\na,10,1,\na,20,2,\n", encoding="utf-8")
    (here / "b.jsonl").write_text('{"source":"b","ts":15,"v":2.5,"w":"x"}\n', encoding="utf-8")
    pq.write_table(pa.table({"ts": [12], "source": ["c"], "v": [4]}), here / "c.parquet")
    ran = cli("query", COUNT, "--input", "a.csv", "b.jsonl", "c.parquet", "--quiet", *sort)
    assert _sums(ran) == {"a": (2, 3), "b": (1, 2.5), "c": (1, 4)}


@pytest.mark.parametrize(
    ("names", "clocks"),
    [
        (("part-0.parquet", "part-1.parquet"), ["s0"]),
        (("data_0.parquet", "data_1.parquet"), ["s0"]),
        (("00000000.parquet", "00000001.parquet"), ["s0"]),
        (("data_a.parquet", "data_b.parquet"), ["data_a", "data_b"]),
        (("day=1/a.parquet", "day=2/a.parquet"), ["s0"]),
        (("door.parquet", "oven.parquet"), ["door", "oven"]),
        (("door.parquet", "oven.csv"), ["door", "oven"]),
        (("part-0.parquet", "oven.csv"), ["oven", "part-0"]),
        (("DOOR.CSV", "oven.csv"), ["DOOR", "oven"]),
        (("door/part-0.parquet", "oven/part-1.parquet"), ["part-0", "part-1"]),
        (("a/b/m.csv", "a/c/m.csv", "n.csv"), ["b/m.csv", "c/m.csv", "n"]),
    ],
)  # fmt: skip
def test_a_folder_is_one_table_where_its_files_are_parts(
    names: tuple[str, ...], clocks: list[str], here: Path, cli: Callable[..., Any]
) -> None:
    for count, name in enumerate(names):
        file = here / "folder" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix.lower() == ".csv":
            file.write_text(f"ts,v\n{count},1\n")
        else:
            pq.write_table(pa.table({"ts": [count], "v": [1]}), file)
    ran = cli("clocks", "folder", "--json")
    assert [each["name"] for each in json.loads(ran.out)["clocks"]] == clocks, ran.err


def test_an_input_by_uri(here: Path, cli: Callable[..., Any]) -> None:
    (here / "a 1.csv").write_text("ts,v\n10,1\n", encoding="utf-8")
    query = ("query", "SELECT sum(v) AS s WINDOW TUMBLING 100", "--clock", "exact", "--quiet")
    by_path = cli(*query, "--input", "a 1.csv")
    by_uri = cli(*query, "--input", (here / "a 1.csv").as_uri())
    assert by_path.code == by_uri.code == 0
    assert by_path.out == by_uri.out != ""
    assert "%20" in (here / "a 1.csv").as_uri()


def test_what_cannot_be_one_input(here: Path, cli: Callable[..., Any]) -> None:
    (here / "a.csv").write_text("ts,v\n10,1\n", encoding="utf-8")
    (here / "link.csv").symlink_to("a.csv")
    (here / "b.csv").write_text("ts,v\n10,off\n", encoding="utf-8")
    (here / "c.jsonl").write_text('{"ts": 1, "arrival": 5}\n', encoding="utf-8")
    assert cli("log", "import", "a.csv", "--out", "a.log").code == 0
    for inputs, said in (
        (("a.csv", "b.csv"), 'b.csv: attribute "v" is text here and a number in a.csv'),
        (("a.csv", "c.jsonl"), "a.csv, c.jsonl: 1 of 2 rows give their arrival"),
        (("a.csv", "a.csv"), "a.csv: is given twice as an input; leave out one"),
        (("a.csv", "./a.csv"), "./a.csv: is given twice as an input, also as a.csv; leave out one"),
        (("a.csv", "link.csv"), "link.csv: is given twice as an input, also as a.csv"),
        (("-", "-"), "-: is given twice as an input"),
        (("a.csv", "a.log"), "a.log: is an arrival log, and is an input of its own"),
        (("x*.csv",), "x*.csv: no file is named so"),
        (("ftp://host/a.csv",), "ftp://host/a.csv: cannot be read: Unrecognized filesystem type"),
        (("a.csv", "none.csv"), "none.csv: cannot be read: No such file"),
    ):
        words = [word for name in inputs for word in ("--input", name)]
        ran = cli("order", *words)
        assert (ran.code, ran.out) == (2, ""), ran
        assert said in ran.err
    assert cli("log", "export", "a.log", "--out", "log.jsonl").code == 0  # the remedy
    assert cli("order", "--input", "c.jsonl", "--input", "log.jsonl").code == 0
    ran = cli("order", "--input", "a.csv", "--source-from", "folder")
    assert ran.code == 2
    assert "write --source-from name" in ran.err


def test_bad_lines_of_several_files_keep_their_place(here: Path, cli: Callable[..., Any]) -> None:
    (here / "a.csv").write_text("ts,v\n10,1\nx,2\n", encoding="utf-8")
    (here / "b.csv").write_text("ts,v\n11,1\ny,2\n", encoding="utf-8")
    assert "b.csv:3: " not in cli("order", "--input", "a.csv", "b.csv").err
    assert "a.csv:3: " in cli("order", "--input", "a.csv", "b.csv").err
    ran = cli(
        "order", "--input", "a.csv", "b.csv", "--on-bad", "skip", "--dead-letter", "bad.jsonl"
    )
    assert ran.code == 0, ran.err
    bad = [json.loads(line) for line in (here / "bad.jsonl").read_text().splitlines()]
    assert [(each["file"], each["line"]) for each in bad] == [("a.csv", 3), ("b.csv", 3)]
    ran = cli("order", "--input", "a.csv", "b.csv", "--on-bad", "skip", "--dead-letter", "b.csv")
    assert "is the input itself" in ran.err


def test_several_paths_in_python(devices: Path) -> None:
    paths = [devices / "d1.csv", devices / "d2.csv"]
    with sw.read(paths, source_from="name") as events:
        found = list(sw.query(events, COUNT, clock="exact"))
    assert sorted(each["key"]["source"] for each in found) == ["d1", "d2"]
    with pytest.raises(UserError, match="source_from folder: write source_from name"):
        sw.read(paths, source_from="folder")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("order", "--input", "t.jsonl", "--order", "none", "--order", "kslack:1"), "--order"),
        (("order", "--time-unit", "s", "--input", "t.jsonl", "--time-unit", "ms"), "--time-unit"),
        (("log", "export", "t.jsonl", "--out", "a.csv", "--out", "b.csv"), "--out"),
        (("doctor", "--config", "a", "-c", "b"), "--config"),
    ],
)  # fmt: skip
def test_an_option_of_one_value_is_given_once(
    command: tuple[str, ...], option: str, here: Path, cli: Callable[..., Any]
) -> None:
    (here / "t.jsonl").write_text('{"ts": 1, "v": 2}\n', encoding="utf-8")
    ran = cli(*command)
    assert ran.code == 2
    assert f"{option} is given 2 times and takes one value; leave out one" in ran.err
    assert ran.left == {}


def test_files_whose_numbers_clash_may_be_of_a_device_each(
    here: Path, cli: Callable[..., Any]
) -> None:
    for name in ("x", "y"):
        rows = "".join(f"{n},a,{100 * n},{name}\n" for n in range(3))
        (here / f"{name}.csv").write_text("seq,type,ts,v\n" + rows, encoding="utf-8")
    files = ("order", "--input", "x.csv", "y.csv", "--time-unit", "s")
    found = cli(*files)
    assert "3 reused numbers" in found.err
    assert "--source-from name if each file is of one device" in found.err
    followed = cli(*files, "--source-from", "name")
    assert "reused" not in followed.err
    assert len(followed.out.splitlines()) == 6
