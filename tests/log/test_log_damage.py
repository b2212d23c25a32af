"""Damage to a log, bit by bit and part by part: an error, or no effect; never other answers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.cli.app import run
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import STRING, Frame
from slackwater.engine.log.arrival_log import LOG_SCHEMA, LogReader, LogWriter


def frame(first: int, site: str = "main", rows: int = 2) -> Frame:
    arrival = list(range(first, first + rows))
    columns = {
        "source": pa.array(["s0"] * rows, STRING), "seq": pa.array(arrival),
        "ts": pa.array([5 * at for at in arrival]), "arrival": pa.array(arrival),
        "type": pa.array(["A"] * rows, STRING), "attrs.v": pa.array([at / 2 for at in arrival]),
    }  # fmt: skip
    return Frame(site, pa.RecordBatch.from_pydict(columns))


def write(log: Path, files: int = 1, *, arrival_given: bool = True) -> list[Path]:
    with LogWriter(log, rows_per_file=6) as writer:
        writer.arrival_given = arrival_given
        for number in range(files):
            for turn, site in enumerate(("main", "b", "main")):
                writer.append(frame(10 * number + 2 * turn, site))
    return LogReader(log).files


Content = tuple[bool, list[tuple[str, str]]]


def content(log: Path) -> Content | str:
    """All that a log says, or the error that it is."""
    try:
        reader = LogReader(log)
        reported = [(each.site, repr(each.batch.to_pydict())) for each in reader]
        one_by_one = [(each.site, repr(each.batch.to_pydict())) for each in reader.one_by_one()]
    except UserError as error:
        return str(error)
    assert reported == one_by_one
    return reader.arrival_given, reported


@pytest.mark.parametrize(
    ("bits", "apart"),
    [
        (1, 5),
        pytest.param(1, 1, marks=pytest.mark.slow),
        pytest.param(8, 1, marks=pytest.mark.deep),
    ],
)
def test_a_flipped_bit_of_a_log_is_an_error_or_harmless(
    bits: int, apart: int, tmp_path: Path
) -> None:
    """``bits``: so many of every byte, or of one in so many."""
    (file,) = write(tmp_path / "log", arrival_given=False)
    right, data = content(tmp_path / "log"), file.read_bytes()
    assert isinstance(right, tuple)
    wrong: list[tuple[int, int]] = []
    harmless = 0
    for place in range(0, len(data), apart):
        for bit in range(place % 8, place % 8 + bits):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit % 8
            file.write_bytes(flipped)
            found = content(tmp_path / "log")
            harmless += found == right
            if not isinstance(found, str) and found != right:
                wrong.append((place, bit % 8))
    assert not wrong
    assert 0 < harmless < bits * len(data) // (2 * apart)


def test_a_part_that_is_lost_is_an_error(tmp_path: Path) -> None:
    for lost in (0, 1, 2):
        log = tmp_path / f"log{lost}"
        files = write(log, 4)
        files[lost].unlink()
        said = content(log)
        assert isinstance(said, str)
        assert f"file frames-{lost + 1:012d}.parquet of the log is missing; restore it" in said
        assert run(["log", "show", str(log)]) == 2


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_rest_is_read_when_files_are_moved_as_the_message_says(
    is_lost: bool, tmp_path: Path
) -> None:
    write(tmp_path / "rest", 2)
    log = tmp_path / "log"
    files = write(log, 4)
    if is_lost:
        files.pop(2).unlink()
    else:
        files[2].write_bytes(b"PAR1")
    said = content(log)
    assert isinstance(said, str)
    assert f"move {'the files after it' if is_lost else 'it and all after it'} away" in said
    for path in files[2:]:
        path.unlink()
    assert content(log) == content(tmp_path / "rest")


@pytest.mark.parametrize("name", ["frames-000000000004.parquet", "frames-000000000002 (1).parquet"])
def test_a_part_that_is_there_twice_is_an_error(name: str, tmp_path: Path) -> None:
    files = write(tmp_path / "log", 3)
    shutil.copy(files[1], tmp_path / "log" / name)
    said = content(tmp_path / "log")
    assert isinstance(said, str)
    assert "is a copy of frames-000000000002" in said


def test_parts_under_each_others_names_are_an_error(tmp_path: Path) -> None:
    first, second = write(tmp_path / "log", 2)
    first.rename(tmp_path / "kept")
    second.rename(first)
    (tmp_path / "kept").rename(second)
    said = content(tmp_path / "log")
    assert isinstance(said, str)
    assert "was written as file 2 of its log; give it its name again" in said


@pytest.mark.parametrize("what", ["folder", "fifo", "link", "socket"])
@pytest.mark.parametrize("number", [2, 3])
def test_what_is_no_file_in_a_parts_place_is_an_error(
    what: str, number: int, tmp_path: Path
) -> None:
    files = write(tmp_path / "log", 2)
    place = tmp_path / "log" / f"frames-{number:012d}.parquet"
    if number == 2:
        files[1].unlink()
    if what == "folder":
        place.mkdir()
    elif what == "fifo":
        os.mkfifo(place)
    elif what == "socket":
        os.mknod(place, 0o140600)
    else:
        place.symlink_to(tmp_path / "nothing")
    said = content(tmp_path / "log")
    assert isinstance(said, str)
    assert f"{place}: is " in said
    assert "in a log's file's place; restore it" in said
    if what == "link":  # a link to a file is as good as the file
        place.unlink()
        (tmp_path / "elsewhere").write_bytes(write(tmp_path / "other", 3)[number - 1].read_bytes())
        place.symlink_to(tmp_path / "elsewhere")
        assert not isinstance(content(tmp_path / "log"), str)


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    row = {"site": "main", "first_arrival": 0, "last_arrival": 1, "rows": 2,
           "payload": frame(0).to_bytes()}  # fmt: skip
    path = tmp_path / "frames-000000000001.parquet"
    for said, given_ in ({}, True), ({b"slackwater.arrival": b"line numbers"}, False):
        schema = LOG_SCHEMA.with_metadata(said)
        pq.write_table(pa.Table.from_pylist([row], schema), path)
        found = content(tmp_path)
        assert isinstance(found, tuple)
        assert found[0] is given_
        assert len(found[1]) == 1
    (file,) = write(tmp_path / "log")
    pq.write_table(pq.read_table(file).replace_schema_metadata(None), file)
    assert "its footer has lost what it said of the file" in str(content(tmp_path / "log"))


def column(values: list[Any], type_: pa.DataType | None = None) -> pa.Array:
    return pa.array(values, type_)


BAD_INDEX = pa.DictionaryArray.from_arrays(
    pa.array([0, 9], pa.int32()), pa.array(["s"]), safe=False
)
BAD_TEXT = pa.StringArray.from_buffers(
    2, pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes()), pa.py_buffer(b"\xff\xfe")
)
HOSTILE: dict[str, tuple[dict[str, pa.Array | None], str]] = {
    "arrival inside": ({"arrival": column([1, 0])}, "record 1 arrived at 0, after 1"),
    "text as ts": ({"ts": column(["1", "2"])}, "ts is string, not int64"),
    "float ts": ({"ts": column([1.0, 2.0])}, "ts is double, not int64"),
    "narrow ts": ({"ts": column([1, 2], pa.int32())}, "ts is int32, not int64"),
    "list": ({"attrs.v": column([[1], [2]])}, "a value of type list"),
    "struct": ({"attrs.v": column([{"a": 1}, None])}, "a value of type struct"),
    "timestamp": ({"attrs.v": column([1, 2], pa.timestamp("ns"))}, "a value of type timestamp"),
    "uint64": ({"attrs.v": column([1, 2**64 - 1], pa.uint64())}, "a value of type uint64"),
    "number as source": ({"source": column([1, 2])}, "source is int64, not text"),
    "no source": ({"source": column([None, "a"], STRING)}, "a record of kind event without source"),
    "no sources": ({"source": column([None, None])}, "a record of kind event without source"),
    "null in texts": (
        {"source": pa.DictionaryArray.from_arrays(column([0, 1], pa.int32()), column(["s", None]))},
        "a record of kind event without source",
    ),
    "no ts": ({"ts": column([None, 1], pa.int64())}, "a record of kind event without ts"),
    "no arrival": ({"arrival": column([None, 1], pa.int64())}, "a record without arrival"),
    "null arrivals": ({"arrival": column([None, None])}, "arrival is null, not int64"),
    "kind": ({"kind": column([0, 9], pa.int8())}, "a record of kind 9, which there is not"),
    "wide kind": ({"kind": column([0, 1])}, "kind is int64, not int8"),
    "seq": ({"seq": column([0, -2])}, 'record 1 of kind event: "seq" is beyond'),
    "large ts": ({"ts": column([0, 2**62])}, '"ts" is beyond 146 years'),
    "large arrival": ({"arrival": column([0, 2**63 - 1])}, '"arrival" is beyond 146 years'),
    "te": ({"te": column([0, 2])}, "record 1 ends before it begins"),
    "offset": (
        {"kind": column([3, 0], pa.int8()), "offset": column([2**63 - 1, None]),
         "delay": column([1, None])}, '"offset" is beyond 73 years',
    ),
    "delay": (
        {"kind": column([3, 0], pa.int8()), "offset": column([0, None]),
         "delay": column([-1, None])}, '"delay" is beyond 9 years',
    ),
    "incarnation": ({"incarnation": column([0, -1])}, '"incarnation" is beyond'),
    "infinite": ({"attrs.v": column([1.0, float("inf")])}, "attrs.v is infinite in record 1"),
    "unknown column": ({"speed": column([1, 2])}, "an unknown column 'speed'"),
    "no arrival column": ({"arrival": None}, "without column arrival"),
    "index": ({"type": BAD_INDEX}, "out of bounds"),
    "bytes": ({"attrs.s": BAD_TEXT}, "Invalid UTF8"),
    "bool id": ({"id": column([True, None])}, "id is bool"),
}  # fmt: skip


def log_of(directory: Path, *payloads: bytes, **header: Any) -> None:
    rows = [
        {"site": "main", "first_arrival": 0, "last_arrival": 1, "rows": 2, "payload": payload}
        | header
        for payload in payloads
    ]
    pq.write_table(
        pa.Table.from_pylist(rows, LOG_SCHEMA), directory / "frames-000000000001.parquet"
    )


@pytest.mark.parametrize("case", HOSTILE)
def test_a_payload_that_breaks_a_rule_is_an_error_naming_file_and_rule(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, said = HOSTILE[case]
    plain = {"source": column(["a", "a"], STRING), "seq": column([0, 1]), "ts": column([0, 5]),
             "arrival": column([0, 1])}  # fmt: skip
    columns = {name: each for name, each in (plain | change).items() if each is not None}
    batch = pa.RecordBatch.from_pydict(columns)
    log_of(tmp_path, Frame("main", batch).to_bytes())
    found = content(tmp_path)
    assert isinstance(found, str)
    assert "frames-000000000001.parquet: damaged file: " in found
    assert said in found
    for command in (["log", "show"], ["order", "--order", "none", "--input"], ["log", "export"]):
        assert run([*command, str(tmp_path)]) == 2
        assert "Traceback" not in capsys.readouterr().err


def test_a_nan_in_a_log_is_no_value(tmp_path: Path) -> None:
    batch = frame(0).batch
    place = batch.schema.get_field_index("attrs.v")
    batch = batch.set_column(place, "attrs.v", column([float("nan"), 1.0]))
    log_of(tmp_path, Frame("main", batch).to_bytes())
    (each,) = LogReader(tmp_path)
    assert each.batch.column("attrs.v").to_pylist() == [None, 1.0]


def test_an_attribute_that_changes_its_type_within_a_site_is_an_error(tmp_path: Path) -> None:
    texts = pa.RecordBatch.from_pydict(
        dict(zip(frame(2).batch.schema.names, frame(2).batch.columns, strict=True))
        | {"attrs.v": column(["x", "y"], STRING)}
    )
    with LogWriter(tmp_path / "log") as writer:
        for each in (frame(0), Frame("b", texts), Frame("main", texts)):
            writer.append(each)
    said = content(tmp_path / "log")
    assert isinstance(said, str)
    assert "row 2: site 'main': attrs.v is str here and was float before" in said


PAYLOAD = frame(0).to_bytes()


@settings(max_examples=75, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=64),
        st.tuples(st.integers(0, len(PAYLOAD)), st.binary(max_size=8)).map(
            lambda cut: PAYLOAD[: cut[0]] + cut[1] + PAYLOAD[cut[0] + len(cut[1]) :]
        ),
        st.integers(0, len(PAYLOAD)).map(lambda kept: PAYLOAD[:kept]),
    )
)
def test_any_bytes_as_payload_are_an_error_or_a_frame(
    tmp_path_factory: pytest.TempPathFactory, payload: bytes
) -> None:
    directory = tmp_path_factory.mktemp("log")
    log_of(directory, payload)
    found = content(directory)
    if isinstance(found, str):
        assert "damaged file" in found
