"""Every door (traces, CSV, Parquet, logs) lets in the same values, by the one rule of values."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import records as limits
from slackwater.edge_agent import wire
from slackwater.edge_agent.errors import WireError
from slackwater.edge_agent.records import KIND_NAMES
from slackwater.engine.core.columns import COUNTS, RANGES, beyond, joined_type, without_nan
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import FIXED_TYPES, STRING, Frame
from slackwater.engine.core.units import DURATION_MAX_NS
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.log.arrival_log import LOG_SCHEMA
from slackwater.engine.log.input.input_log import open_input
from slackwater.engine.log.input.input_read import InputForm
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query

Record = dict[str, Any]
TIMES = ("ts", "te", "arrival", "offset", "delay", "precision")
NUMBERS = ("seq", "incarnation", "first_seq", "skew_error_ppb")
FIELDS = ("kind", "source", "type", *TIMES, *NUMBERS)
LARGEST = {
    "ts": limits.TIME_MAX_NS, "te": limits.TIME_MAX_NS, "arrival": limits.TIME_MAX_NS,
    "offset": limits.OFFSET_MAX_NS, "delay": limits.DELAY_MAX_NS,
    "precision": limits.PRECISION_MAX_NS, "seq": limits.COUNTER_MAX,
    "incarnation": limits.COUNTER_MAX, "first_seq": limits.COUNTER_MAX,
    "skew_error_ppb": limits.SKEW_ERROR_MAX_PPB,
}  # fmt: skip
PLANS = (
    query("SELECT count(*), sum(v) FROM events WINDOW TUMBLING 1 s", name="w"),
    query("EVENT SEQ(A a, B b) WHERE b.v > a.v WITHIN 5 s", name="p"),
)
INT64 = 2**63 - 1
EVENT: Record = {"kind": "event", "source": "a", "type": "A", "ts": 5, "arrival": 0}
LATER: Record = {"kind": "event", "source": "b", "type": "B", "ts": 7, "arrival": 3}


def numbers(field: str) -> st.SearchStrategy[int]:
    most = LARGEST[field]
    return st.sampled_from([0, 1, 5, most, most + 1, -1, -most, -most - 1, INT64, -INT64 - 1])


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    """An event or a sync, then an event, with values in their ranges, at the ends and beyond."""
    first = dict(EVENT)
    if draw(st.booleans()):
        first = {"kind": "sync", "source": "a", "arrival": 0, "offset": 1, "delay": 2}
        of_kind = ("offset", "delay", "precision", "skew_error_ppb", "ts", "first_seq")
    else:
        of_kind = ("ts", "te", "seq", "incarnation", "arrival")
    for field in draw(st.sets(st.sampled_from(of_kind), max_size=2)):
        first[field] = draw(numbers(field))
    second = dict(LATER)
    floats = st.sampled_from([1.5, -0.0, math.nan, math.inf, -math.inf, 1.7e308, 5e-324])
    for record in (first, second):
        if record["kind"] == "event":
            record["v"] = draw(st.none() | floats)
    return [first, second]


def write_trace(path: Path, rows: list[Record]) -> None:
    lines = []
    for row in rows:
        record = {name: value for name, value in row.items() if name != "v"}
        lines.append(json.dumps(record | ({"attrs": {"v": row["v"]}} if "v" in row else {})))
    path.write_text("\n".join(lines) + "\n")


def write_csv(path: Path, rows: list[Record]) -> None:
    out = io.StringIO()
    writer = csv.DictWriter(out, (*FIELDS, "v"))
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(out.getvalue())


def columns(rows: list[Record]) -> dict[str, pa.Array]:
    found = {
        name: pa.array([row.get(name) for row in rows], pa.int64()) for name in (*TIMES, *NUMBERS)
    }
    found |= {name: pa.array([row.get(name) for row in rows]) for name in ("source", "type")}
    return found


def write_parquet(path: Path, rows: list[Record]) -> None:
    kinds = pa.array([row["kind"] for row in rows])
    values = pa.array([row.get("v") for row in rows], pa.float64())
    pq.write_table(pa.table(columns(rows) | {"kind": kinds, "v": values}), path)


def write_log(path: Path, rows: list[Record]) -> None:
    """A log as nobody of ours writes it: the doors before it did not look."""
    path.mkdir()
    made = columns(rows)
    seqs = [row.get("seq", 0 if row["kind"] == "event" else None) for row in rows]
    made["seq"] = pa.array(seqs, pa.int64())
    kinds = pa.array([int(KIND_NAMES[row["kind"]]) for row in rows], pa.int8())
    values = pa.array([row.get("v") for row in rows], pa.float64())
    batch = pa.RecordBatch.from_pydict(
        {
            name: column.cast(FIXED_TYPES[name]) if FIXED_TYPES[name] == STRING else column
            for name, column in (made | {"kind": kinds}).items()
        }
        | {"attrs.v": values}
    )
    arrivals = [row["arrival"] for row in rows]
    row = {"site": "main", "first_arrival": arrivals[0], "last_arrival": arrivals[-1],
           "rows": len(rows), "payload": Frame("main", batch).to_bytes()}  # fmt: skip
    pq.write_table(pa.Table.from_pylist([row], LOG_SCHEMA), path / "frames-000000000001.parquet")


WRITERS = {"t.jsonl": write_trace, "t.csv": write_csv, "t.parquet": write_parquet, "log": write_log}


def taken(path: Path) -> list[Record] | None:
    """What a door lets in, without defaults; None: it refuses."""
    try:
        frames = list(open_input(path, InputForm("ns")))
    except UserError:
        return None
    chain = Chain(ChainSettings(parse_order("sequence"), PLANS, guards=Guards(None)), "main")
    for output in (chain.process(frames), chain.finish()):
        json.dumps([list(of_query) for of_query in output.results], allow_nan=False)
    rows = []
    for row in (row for each in frames for row in each.batch.to_pylist()):
        if row.get("te") == row["ts"]:
            row.pop("te", None)
        kept = {name: value for name, value in sorted(row.items()) if value not in (None, -1)}
        rows.append({n: v for n, v in kept.items() if (n, v) != ("incarnation", 0) and n != "seq"})
        if rows[-1].get("kind") == 0:
            rows[-1].pop("kind")
    return rows


@settings(max_examples=25, deadline=None)
@given(rows=records())
@example([EVENT | {"v": math.nan}, LATER | {"v": 1.5}])
@example([EVENT | {"v": math.inf}, LATER | {"v": 1.5}])
def test_every_door_lets_in_the_same_values_and_the_chain_answers_them(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Record]
) -> None:
    folder = tmp_path_factory.mktemp("doors")
    reported = {}
    for name, write in WRITERS.items():
        write(folder / name, rows)
        reported[name] = taken(folder / name)
    for name, found in reported.items():
        assert repr(found) == repr(reported["t.parquet"]), (name, reported)


def test_the_largest_sum_of_a_chain_stays_within_64_bits() -> None:
    largest = limits.TIME_MAX_NS + limits.OFFSET_MAX_NS + 2 * limits.UNC_MAX_NS + DURATION_MAX_NS
    assert largest < 2**63
    assert limits.DELAY_MAX_NS // 2 + limits.PRECISION_MAX_NS <= limits.UNC_MAX_NS
    # The age of an offset: the difference of two times.
    assert 2 * limits.TIME_MAX_NS < 2**63


@pytest.mark.parametrize("field", [*RANGES, *COUNTS])
def test_a_range_begins_and_ends_where_it_says_in_every_unit(field: str) -> None:
    for unit in (1, 10**9):
        low, high = RANGES[field][:2] if field in RANGES else (0, COUNTS[field])
        if field in RANGES:
            low, high = -(-low // unit), high // unit
        values = np.array([low - 1, low, 0, high, high + 1], np.int64)
        assert beyond(field, values, unit).tolist() == [True, False, False, False, True]


def test_the_wire_has_the_ranges_of_the_files() -> None:
    def said(**changes: int) -> m.Message:
        made = {"number": 0, "offset": 0, "delay": 0, "measured_at": 0, "precision": 0,
                "skew_error_ppb": 0}  # fmt: skip
        return wire.decode(wire.encode(m.Sync(**{**made, **changes}))[4:])

    for name, field in {"offset": "offset", "delay": "delay", "measured_at": "ts",
                        "precision": "precision"}.items():  # fmt: skip
        low, high, _ = RANGES[field]
        for value in (low, high):
            assert getattr(said(**{name: value}), name) == value
        for value in (low - 1, high + 1):
            with pytest.raises(WireError, match="range"):
                said(**{name: value})


def test_nan_is_no_value_and_infinite_is_reported() -> None:
    nan, inf = float("nan"), float("inf")
    column, infinite = without_nan(pa.array([1.5, nan, None, inf, -inf]))
    assert column.to_pylist() == [1.5, None, None, inf, -inf]
    assert infinite.tolist() == [False, False, False, True, True]


def test_numbers_mix_and_nothing_else_does() -> None:
    assert [joined_type(*pair) for pair in ((None, "str"), ("int", "int"), ("int", "float"))] == [
        "str", "int", "float",
    ]  # fmt: skip
    assert joined_type("float", "int") == "float"
    for pair in (("str", "int"), ("bool", "int"), ("float", "bool"), ("str", "bool")):
        assert joined_type(*pair) is None
        assert joined_type(*pair[::-1]) is None
