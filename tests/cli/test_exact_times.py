"""Times in results are exact in every unit and format, and are read again as they were."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.log.row_export import _DecimalCsv
from slackwater.engine.output.json_lines import fraction_type, in_unit, json_text
from slackwater.engine.output.result_kinds import KINDS
from slackwater.engine.output.typed_columns import TypedColumns

NS = st.one_of(st.none(), st.integers(-(2**62), 2**62), st.integers(-(10**12), 10**12))
LENGTHS = [*NS_PER.values(), 7 * NS_PER["d"]]


@given(st.lists(NS), st.sampled_from(LENGTHS), st.booleans())
def test_a_time_is_the_decimal_from_which_its_ns_can_be_read(
    times: list[int | None], unit: int, multiply: bool
) -> None:
    if multiply:
        times = [None if ns is None else ns // unit * unit for ns in times]
    found = in_unit(pa.array(times, pa.int64()), unit)
    is_whole = all(ns is None or ns % unit == 0 for ns in times)
    assert found.type == (pa.int64() if is_whole else fraction_type(unit))
    for ns, value, text in zip(times, found.to_pylist(), json_text(found).to_pylist(), strict=True):
        if ns is None:
            assert (value, text) == (None, "null")
            continue
        assert round(Fraction(value) * unit) == ns
        assert Fraction(text) == Fraction(value)
        assert "E" not in text
        assert "." not in text or text[-1] != "0"
        if 10 ** (len(str(unit)) - 1) == unit:
            assert Fraction(value) * unit == ns


@given(st.lists(st.tuples(NS, st.booleans())), st.sampled_from(LENGTHS))
def test_only_the_rows_that_are_times_change(
    rows: list[tuple[int | None, bool]], unit: int
) -> None:
    values = pa.array([ns for ns, _ in rows], pa.int64())
    found = in_unit(values, unit, pa.array([of for _, of in rows], pa.bool_()).to_numpy(False))
    for (ns, is_time), value in zip(rows, found.to_pylist(), strict=True):
        if ns is not None:
            assert round(Fraction(value) * (unit if is_time else 1)) == ns


def test_a_csv_with_fractions_is_as_arrow_writes_it() -> None:
    table = pa.table({
        'a "b"': pa.array(['x,"y"\n', "", None]), "n": pa.array([1, None, 2**62]),
        "x": pa.array([97.0, 1e-9, None]), "b": pa.array([True, None, False]),
    })  # fmt: skip
    wanted, found = io.BytesIO(), io.BytesIO()
    pa.csv.write_csv(table, wanted)
    with _DecimalCsv(found, table.schema) as writer:
        writer.write_table(table)
    assert found.getvalue() == wanted.getvalue()


TIMES = (-3_750_000_000, -1, 0, 1_250_000_000, 3_000_000_000, 2**53 + 1, 1_772_352_001_500_000_001)


def events_of(text: str) -> list[tuple[str, int, int]]:
    read = (json.loads(line) for line in text.splitlines())
    return [(e["type"], e["ts"], e["arrival"]) for e in read]


@pytest.mark.parametrize("unit", NS_PER)
@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_what_order_writes_is_read_as_the_same_events(
    unit: str, ending: str, cli: Any, trace: Any, tmp_path: Path
) -> None:
    out, plain = tmp_path / f"o{ending}", ("--guard", "off", "--quiet", "--order", "none")
    source = trace(*({"type": "A", "ts": ns, "arrival": ns} for ns in TIMES))
    log = tmp_path / "l.log"
    assert cli("log", "import", source, "--out", str(log)).code == 0
    assert (
        cli("order", "--input", str(log), "--time-unit", unit, "--out", str(out), *plain).code == 0
    )
    again = tmp_path / "again.log"
    assert cli("log", "import", str(out), "--time-unit", unit, "--out", str(again)).code == 0
    ran = cli("order", "--input", str(again), *plain)
    assert events_of(ran.out) == [("A", ns, ns) for ns in TIMES]


ROWS = [{"type": t, "ts": ts} for t, ts in (("A", -3.75), ("A", 1.25), ("B", 3))]
PAIRS = "EVENT SEQ(A a, B b) WITHIN 10"
ENDS = "SELECT max(ts), min(ts) WINDOW TUMBLING 2.5"


def test_matches_and_windows_have_fractions_in_every_format(
    cli: Any, trace: Any, tmp_path: Path
) -> None:
    plain = ("--input", trace(*ROWS), "--time-unit", "s", "--quiet")
    first, second = cli("query", PAIRS, *plain).lines
    assert [event["ts"] for event in first["events"]] == [-3.75, 3]
    assert '"ts": 3, "te": 3, "ref": 3' in cli("query", PAIRS, *plain).out
    assert [event["ref"] for event in second["events"]] == [1.25, 3]
    windows = cli("query", ENDS, *plain).lines
    assert [line["window"] for line in windows] == [
        {"start": -5, "end": -2.5}, {"start": 0, "end": 2.5}, {"start": 2.5, "end": 5},
    ]  # fmt: skip
    assert [line["value"]["max(ts)"] for line in windows] == [-3.75, 1.25, 3]
    out = tmp_path / "w.csv"
    assert cli("query", ENDS, *plain, "--out", str(out)).code == 0
    assert '"+","q1","main",2,-5,-2.5,-3.75,-3.75,' in out.read_text()
    out = tmp_path / "w.parquet"
    assert cli("query", ENDS, *plain, "--out", str(out)).code == 0
    table = pq.read_table(out)
    seconds = pa.decimal128(38, 9)
    assert table.schema.field("at").type == pa.int64()
    assert table.schema.field("window").type == pa.struct({"start": seconds, "end": seconds})
    assert [each["max(ts)"] for each in table["value"].to_pylist()] == [-3.75, 1.25, 3]


def test_data_frames_have_fractions_and_whole_numbers_stay_integers() -> None:
    found = slackwater.query(slackwater.read(ROWS, time_unit="s"), ENDS).to_pandas(flat=True)
    assert list(found["window.end"]) == [Decimal("-2.5"), Decimal("2.5"), 5]
    assert found["at"].dtype == "int64"
    rows = slackwater.order(slackwater.read(ROWS, time_unit="ms"), order="none").to_arrow()
    assert rows["ts"].to_pylist() == [Decimal("-3.75"), Decimal("1.25"), 3]
    whole = slackwater.order(slackwater.read({"type": ["A"], "ts": [3]}, time_unit="s"))
    assert whole.to_arrow().schema.field("ts").type == pa.int64()


def test_a_notebook_shows_the_fraction() -> None:
    found = slackwater.query(slackwater.read(ROWS, time_unit="s"), PAIRS)
    assert "-3.75" in found._repr_html_()


def test_files_that_others_follow_have_one_type() -> None:
    """Whole times here may have fractions behind them in the next file."""
    kind = KINDS["windows"]
    schemas = []
    for at in (10**9, 10**9 + 1):
        table = kind.rows([0], [{
            "op": "+", "query": "q", "site": "s", "at": at, "window": {"start": 0, "end": at},
            "key": {}, "value": {"n": 1}, "certain": 1, "ambiguous": 0, "missing": 0,
        }])  # fmt: skip
        columns = TypedColumns(kind.schema, kind.name, 10**9, open_ended=True)
        columns.learn(table)
        schemas.append(columns.typed(table).schema)
    assert schemas[0] == schemas[1]
    assert schemas[0].field("at").type == fraction_type(10**9)
