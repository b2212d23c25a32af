"""Reading traces: every field and default of DESIGN "Trace", numbers, units, chunks."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import FIXED_TYPES, STRING, Frame
from slackwater.engine.log.input import lines
from slackwater.engine.log.input.input_log import open_input
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.output.json_lines import write_trace


def rows(frames: list[Frame]) -> list[dict[str, Any]]:
    """Records as dicts with their site, without nulls."""
    return [
        {"site": frame.site} | {name: value for name, value in row.items() if value is not None}
        for frame in frames
        for row in frame.batch.to_pylist()
    ]


def read(tmp_path: Path, *records: dict[str, Any] | str, unit: str = "ns") -> list[Frame]:
    file = tmp_path / "t.jsonl"
    texts = [each if isinstance(each, str) else json.dumps(each) for each in records]
    file.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return list(TraceRead(file, unit))


def test_design_the_shortest_record_is_enough(tmp_path: Path) -> None:
    (frame,) = read(tmp_path, '{"type": "A", "ts": 3}')
    assert rows([frame]) == [
        {"site": "main", "source": "s0", "seq": 0, "type": "A", "ts": 3, "arrival": 1}
    ]
    # What every record says alike is left out (engine.core.frame).
    assert frame.batch.schema.names == ["source", "seq", "type", "ts", "arrival"]


def test_design_every_kind_with_every_field(tmp_path: Path) -> None:
    common = {"site": "x", "stream": "a", "source": "d", "clock": "c", "incarnation": 2}
    records: list[dict[str, Any]] = [
        {"kind": "sync", **common, "offset": -5, "delay": 4, "first_seq": 7, "precision": 1,
         "skew_error_ppb": 30, "ts": 1, "arrival": 10},
        {"kind": "event", **common, "seq": 7, "type": "A", "ts": 2, "te": 5, "id": "i",
         "arrival": 11, "attrs": {"b": True, "f": 1.5, "n": 3, "s": "t"}},
        {"kind": "pog", **common, "seq": 8, "type": "A", "ts": 3, "arrival": 12},
        {"kind": "ibp", **common, "type": "A", "id": "j", "ts": 4, "arrival": 13},
        {"kind": "tick", "site": "x", "arrival": 14},
        {"kind": "eos", **common, "seq": 9, "arrival": 15},
    ]  # fmt: skip
    (frame,) = read(tmp_path, *records)
    kinds = [Kind[record["kind"].upper()] for record in records]
    assert frame.batch.column("kind").to_pylist() == kinds
    for name, type_ in FIXED_TYPES.items():
        assert frame.batch.schema.field(name).type == type_, name
    for name in ("source", "clock", "seq", "ts", "type", "id", "offset", "delay", "first_seq",
                 "precision", "skew_error_ppb"):  # fmt: skip
        want = [record.get(name) for record in records]
        assert frame.batch.column(name).to_pylist() == want, name
    assert frame.batch.column("te").to_pylist() == [1, 5, 3, 4, None, None]
    assert frame.batch.column("incarnation").to_pylist() == [2, 2, 2, 2, 0, 2]
    assert frame.batch.schema.field("attrs.s").type == STRING
    assert [frame.batch.column("attrs." + n)[1].as_py() for n in "bfns"] == [True, 1.5, 3, "t"]


def no_defaults(row: dict[str, Any]) -> dict[str, Any]:
    """A record without what a frame may leave out or say, depending on its other records."""
    default = {"kind": 0, "incarnation": 0, "te": row.get("ts"), "stream": "events"}
    return {name: value for name, value in row.items() if value != default.get(name)}


@pytest.mark.parametrize(
    ("unit", "ns"), [("ns", 1), ("us", 10**3), ("ms", 10**6), ("h", 3600 * 10**9)]
)
def test_times_are_converted_and_counts_are_not(unit: str, ns: int, tmp_path: Path) -> None:
    record = {"kind": "sync", "ts": 3, "offset": -4, "delay": 5, "precision": 6, "arrival": 7,
              "first_seq": 8, "incarnation": 9, "skew_error_ppb": 10}  # fmt: skip
    (frame,) = read(tmp_path, record, unit=unit)
    (row,) = frame.batch.to_pylist()
    times = {name: row[name] // ns for name in ("ts", "offset", "delay", "precision", "arrival")}
    assert times == {"ts": 3, "offset": -4, "delay": 5, "precision": 6, "arrival": 7}
    assert [row[name] for name in ("first_seq", "incarnation", "skew_error_ppb")] == [8, 9, 10]


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
def test_the_largest_times_of_each_unit_are_exact(unit: str, tmp_path: Path) -> None:
    ns = {"ns": 1, "us": 10**3, "s": 10**9}[unit]
    largest = (2**62 - 1) // ns
    (frame,) = read(tmp_path, {"ts": -largest}, {"ts": largest}, unit=unit)
    assert frame.batch.column("ts").to_pylist() == [-largest * ns, largest * ns]
    with pytest.raises(UserError, match='"ts" is beyond 146 years'):
        read(tmp_path, {"ts": largest + 1}, unit=unit)


def test_line_numbers_stand_in_for_arrival_in_the_unit(tmp_path: Path) -> None:
    texts = ['{"ts": 1}', "", '{"ts": 2}', " \t", '{"ts": 3}\r']
    (frame,) = read(tmp_path, *texts, unit="us")
    assert frame.batch.column("arrival").to_pylist() == [1000, 3000, 5000]


def test_whether_arrival_was_given_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text('{"ts": 1}\n')
    one = TraceRead(file)
    list(one)
    assert one.arrival_given is False
    file.write_text('{"ts": 1}\n{"ts": 1, "arrival": 3}\n')
    other = TraceRead(file)
    assert [frame.rows for frame in other] == [2]
    assert other.arrival_given is True
    assert [frame.rows for frame in other] == [2]  # as often as it is read


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1.0, 2.5, None, -3.0], "double"),
        ([2.5, 9 * 10**18, None, -(2**63)], "double"),  # Arrow takes none beyond 2**53 as a float
        ([2**63 - 1, -(2**63), 2**53 + 1], "int64"),
    ],
)
def test_numbers_of_an_attribute_are_exact(
    values: list[float | None], type_: str, tmp_path: Path
) -> None:
    given_ = [int(v) if v is not None and v == int(v) else v for v in values]
    (frame,) = read(tmp_path, *({"ts": 1, "attrs": {"v": v}} for v in given_))
    assert frame.batch.column("attrs.v").to_pylist() == values
    assert str(frame.batch.schema.field("attrs.v").type) == type_


def test_ids_are_numbers_or_text(tmp_path: Path) -> None:
    (frame,) = read(tmp_path, {"ts": 1, "id": 2**63 - 1}, {"ts": 1})
    assert frame.batch.column("id").to_pylist() == [2**63 - 1, None]
    (frame,) = read(tmp_path, {"ts": 1, "id": "i"}, {"ts": 1})
    assert frame.batch.schema.field("id").type == STRING


def test_null_means_absent(tmp_path: Path) -> None:
    fields = dict.fromkeys([name for name in r.RECORD_FIELDS if name != r.TS])
    (frame,) = read(tmp_path, {**fields, "ts": 1}, {"ts": 1, "attrs": {"v": None}})
    assert frame.batch.schema.names == ["source", "seq", "ts", "arrival", "attrs.v"]
    assert frame.batch.schema.field("attrs.v").type == pa.null()  # there, without any value


def test_strings_that_look_like_keys_do_not_confuse(tmp_path: Path) -> None:
    record = {"ts": 1, "type": 'a: "b": {', "attrs": {"v:w": 'x": 1, "x": 2'}}
    (row,) = rows(read(tmp_path, record))
    assert (row["type"], row["attrs.v:w"]) == (record["type"], record["attrs"]["v:w"])  # type: ignore[index]


def test_frames_are_bounded(tmp_path: Path) -> None:
    frames = read(tmp_path, *['{"ts": 1}'] * (2 * lines.CHUNK_LINES + 5))
    assert [frame.rows for frame in frames] == [lines.CHUNK_LINES, lines.CHUNK_LINES, 5]
    assert frames[2].batch.column("seq")[4].as_py() == 2 * lines.CHUNK_LINES + 4


SCALARS = {
    "b": st.booleans(),
    "n": st.integers(-(2**63), 2**63 - 1),
    "f": st.floats(allow_nan=False, allow_infinity=False),
    "s": st.text(),
}
ATTRS = st.fixed_dictionaries({}, optional=SCALARS)
NAMES = st.sampled_from(["s0", "a", "é:\n", ""])
PLACE = {
    "site": st.sampled_from(["main", "z"]),
    "source": NAMES,
    "stream": st.sampled_from(["events", "u"]),
}
TIME = st.integers(-(2**40), 2**40)
STARTS = st.sampled_from([0, 1, 2, 3, 2**40])
EVENT = st.fixed_dictionaries(
    {"ts": TIME},
    optional={**PLACE, "seq": st.integers(0, 2**62 - 1000), "type": NAMES, "id": st.text(),
              "incarnation": STARTS, "attrs": ATTRS},
)  # fmt: skip
POG = {"kind": st.just("pog"), "ts": TIME, "type": NAMES}
IBP = {"kind": st.just("ibp"), "ts": TIME, "type": NAMES, "id": st.text()}
SYNC = {"kind": st.just("sync"), "offset": TIME, "delay": st.integers(0, 9)}
ANNOUNCED = {"ts": TIME, "incarnation": STARTS, "first_seq": st.integers(0, 9)}
OTHERS = [
    st.fixed_dictionaries(POG, optional=PLACE),
    st.fixed_dictionaries(IBP, optional=PLACE),
    st.fixed_dictionaries(SYNC, optional={**PLACE, **ANNOUNCED}),
    st.fixed_dictionaries({"kind": st.just("eos")}, optional=PLACE),
    st.fixed_dictionaries({"kind": st.just("tick")}),
]
RECORDS = st.lists(st.one_of(EVENT, EVENT, *OTHERS), min_size=1, max_size=20)


def as_trace(frames: list[Frame], unit: str) -> str:
    out = io.StringIO()
    write_trace(frames, out, unit)
    return out.getvalue()


@settings(deadline=None, max_examples=35)
@example([{"ts": 0}, {"ts": 1, "seq": 0}], "ns", 1)  # a restart
@example([{"ts": 0}, {"ts": 0, "seq": 0}], "ns", 1)  # a number that another event has
@example([{"ts": 1, "seq": 1}, {"ts": 0, "seq": 1}, {"ts": 0, "seq": 1}], "ns", 1)  # and a copy
@example([{"ts": 0, "seq": 4}, {"ts": 1}, {"ts": 2, "seq": 5}], "ns", 2)
@given(RECORDS, st.sampled_from(["ns", "us"]), st.integers(1, 20))
def test_trace_to_frames_to_trace_says_the_same(
    records: list[dict[str, Any]], unit: str, chunk: int
) -> None:
    """A trace of all that was read reads as the same frames, however it is cut."""
    for arrival, record in enumerate(records):
        record["arrival"] = 3 * arrival
    first = read_text("".join(json.dumps(record) + "\n" for record in records), unit, chunk)
    text = as_trace(first, unit)
    for other in (1, lines.CHUNK_LINES):
        again = read_text(text, unit, other)
        assert by_arrival(again) == by_arrival(first)
    check_against_twin(records, rows(first), {"ns": 1, "us": 1000}[unit])


def by_arrival(frames: list[Frame]) -> list[dict[str, Any]]:
    return sorted(map(no_defaults, rows(frames)), key=lambda row: int(row["arrival"]))


def read_text(text: str, unit: str, chunk: int) -> list[Frame]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_LINES", chunk)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return list(TraceRead("-", unit))


def check_against_twin(
    records: list[dict[str, Any]], found: list[dict[str, Any]], unit: int
) -> None:
    """The defaults again, record by record, as DESIGN's words say.

    What a number means that does not increase is another test's (``test_numbering``).
    """
    latest: dict[tuple[str, str], int] = {}
    newest: dict[tuple[str, str, str, int], int] = {}
    numbered, fallen = set(), set()
    by_arrival = {row["arrival"]: row for row in found}
    assert len(by_arrival) == len(records)
    for record in records:
        row = by_arrival[record["arrival"] * unit]
        kind = record.get("kind", "event")
        site = record.get("site", "main")
        default = None if kind in ("pog", "tick") else "s0"
        source = record.get("source", default)
        key = (site, source or "")
        if kind == "sync" and "incarnation" in record:
            latest[key] = record["incarnation"]
        incarnation = record.get("incarnation", latest.get(key, 0) if source is not None else 0)
        seq = record.get("seq")
        place = (site, source or "", record.get("stream", "events"), incarnation)
        if kind == "event":
            before = newest.get(place, -1)
            if seq is not None:
                numbered.add(place)
                if seq <= before:
                    fallen.add(place)
            elif place not in numbered:
                seq = before + 1
            newest[place] = before if seq is None else seq
        assert row["site"] == site
        assert row.get("source") == source
        if kind != "event" or place not in fallen:
            assert row.get("incarnation", 0) == incarnation
            assert row.get("seq") == seq
        assert row.get("ts") == (record["ts"] * unit if "ts" in record else None)
        assert row.get("te", row.get("ts")) == row.get("ts")
        for name, value in record.get("attrs", {}).items():
            assert row[f"attrs.{name}"] == value


def test_a_pipe_is_a_trace_that_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "records"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"type": "A", "ts": 7}\n',))
    writer.start()
    assert [frame.rows for frame in open_input(pipe)] == [1]
    writer.join()
