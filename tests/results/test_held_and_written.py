"""Results held in memory and on disk say the same, as lines and as tables."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.hosts.result_files import Answers, write
from slackwater.engine.log.arrival_log import LogWriter
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.log.row_export import write_table
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.export import export_jsonl, export_table, read_results
from slackwater.engine.output.ordered_stream import export_ordered_jsonl, export_ordered_table
from slackwater.engine.output.part_store import HELD_BYTES, BatchFiles, PartStore
from slackwater.engine.output.run_writer import OutputPart, RunWriter
from slackwater.engine.output.schema import MATCHES, WINDOWS
from slackwater.engine.output.spark_parts import COUNTERS
from slackwater.engine.query import query

QUERIES = (
    "EVENT SEQ(A a, B b) WITHIN 4 RETURN a.v, b.k",
    "SELECT sum(v), count(*), avg(v) GROUP BY k WINDOW TUMBLING 5",
)
EVENTS = st.fixed_dictionaries(
    {
        "type": st.sampled_from("AB"), "ts": st.integers(0, 40),
        "site": st.sampled_from(["main", "x", "zoo"]),
    },
    optional={
        "attrs": st.fixed_dictionaries(
            {},
            optional={
                "v": st.integers(-3, 2**62) | st.floats(-9, 9), "k": st.sampled_from(["a", "ä"]),
            },
        )
    },
)  # fmt: skip


def log_of(events: list[dict[str, Any]], folder: Path, rows: int = 1 << 16) -> Path:
    """A log with frames of so many ``rows``."""
    (folder / "trace.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    with LogWriter(folder / "log") as writer:
        for frame in TraceRead(folder / "trace.jsonl"):
            for start in range(0, frame.rows, rows):
                writer.append(Frame(frame.site, frame.batch.slice(start, rows)))
    return folder / "log"


def readable_log_of(events: list[dict[str, Any]], folder: Path, rows: int = 1 << 16) -> Path:
    """``log_of``, unless whole numbers beyond 2^53 lie beside fractions, which is refused."""
    try:
        return log_of(events, folder, rows)
    except UserError as error:
        if "cannot be held exactly" not in str(error):
            raise
        reject()


@pytest.mark.parametrize("text", QUERIES)
def test_a_whole_number_of_many_digits_at_one_site_is_a_fraction_at_another(
    tmp_path: Path, text: str
) -> None:
    """Also as bounds of a window, which are a list."""
    many, ends = 2**62 - 1, [[2.5, 2.5], [float(2**62), float(2**62)]]
    log = log_of(
        [
            {"type": kind, "ts": ts, "site": site, "attrs": {"v": v, "k": "a"}}
            for site, v in (("main", many), ("x", 2.5))
            for ts, kind in ((1, "A"), (2, "B"), (3, "A"))
        ],
        tmp_path,
        rows=3,
    )
    store = PartStore(tmp_path / "parts", HELD_BYTES)
    plan = query(text.replace("sum(v)", "max(v)"), name="q")
    run_in_process(log, ChainSettings(parse_order("none"), (plan,)), store)
    write(Answers(store, (plan,), "ns"), tmp_path / "end.parquet")
    rows = pq.read_table(tmp_path / "end.parquet").to_pylist()
    assert len(rows) == 2
    if "max(v)" in plan.text:
        assert sorted(row["bounds"]["max(v)"] for row in rows) == ends
    else:
        assert sorted(row["events"][0]["attrs"]["v"] for row in rows) == [2.5, float(2**62)]


def a_table() -> pa.Table:
    return pa.table({"v": [1, 2]})


def test_a_file_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    out = tmp_path / "gone" / "t.parquet"
    with pytest.raises(UserError, match=rf"{out}: cannot be written: No such file"):
        write_table(out, a_table().schema, [a_table()])


def test_nothing_is_left_of_rows_that_fail_and_what_was_there_stays(tmp_path: Path) -> None:
    def rows() -> Iterator[pa.Table]:
        yield a_table()
        raise KeyError("the rows")

    (tmp_path / "t.parquet").write_text("what there was")
    for name in ("t.parquet", "new.parquet"):
        with pytest.raises(KeyError, match="the rows"):
            write_table(tmp_path / name, a_table().schema, rows())
    assert [path.read_text() for path in tmp_path.iterdir()] == ["what there was"]


def test_a_disk_that_is_full_is_reported_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(UserError, match="cannot be written: No space left on device"):
        write_table(tmp_path / "t.parquet", a_table().schema, [a_table()] * 5)
    assert list(tmp_path.iterdir()) == []


HELD_QUERIES = (
    "SELECT sum(v), count(*), avg(v) GROUP BY k WINDOW TUMBLING 5",
    "EVENT SEQ(A a, B b) WITHIN 4 RETURN a.v, b.k",
    "SELECT max(v) WINDOW TUMBLING 3",
)


def emitted(store: PartStore, folder: Path) -> list[Any]:
    lines, ordered = io.StringIO(), io.StringIO()
    count = export_jsonl(store, lines)
    assert count == len(lines.getvalue().splitlines())
    export_ordered_jsonl(store, ordered)
    kinds = [list(read_results(store, kind)) for kind in (WINDOWS, MATCHES)]
    assert sorted(map(json.dumps, [*kinds[0], *kinds[1]])) == sorted(
        json.dumps(json.loads(line)) for line in lines.getvalue().splitlines()
    )
    export_ordered_table(store, folder / "ordered.parquet")
    table = pq.read_table(folder / "ordered.parquet").to_pylist()
    return [lines.getvalue(), ordered.getvalue(), kinds, table]


@given(events=st.lists(EVENTS, min_size=1, max_size=30), rows=st.sampled_from([1, 7, 1 << 18]))
@settings(max_examples=5, deadline=None)
def test_what_is_held_reads_as_what_is_written(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], rows: int
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    log = readable_log_of(events, folder)
    plans = tuple(query(text, name=f"q{n}") for n, text in enumerate(HELD_QUERIES))
    chain = ChainSettings(parse_order("none"), plans, ordered="full")
    found, counters = [], []
    for name, hold in (("files", 0), ("held", HELD_BYTES), ("outgrown", 900)):
        store = PartStore(folder / name, hold)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("slackwater.engine.hosts.pipeline._ROWS_PER_BATCH", rows)
            made = run_in_process(log, chain, store)
        found.append(emitted(store, folder))
        counters.append(made["sites"])
    assert found[0] == found[1] == found[2]
    assert counters[0] == counters[1] == counters[2]
    assert not (folder / "held").exists()


def test_a_table_is_in_order_of_emission_whatever_the_schemas_of_its_parts(tmp_path: Path) -> None:
    # Sums of whole numbers, then of fractions, then of nothing: three schemas in one batch.
    values = [1, 2, 0.5, None, 3, 1.5]
    trace = [
        {"type": "A", "ts": 10 * n, **({} if v is None else {"attrs": {"v": v}})}
        for n, v in enumerate(values)
    ]
    log = log_of(trace, tmp_path)
    plan = query("SELECT sum(v) WINDOW TUMBLING 10", name="q")
    store = PartStore(tmp_path / "parts")
    run_in_process(log, ChainSettings(parse_order("none"), (plan,)), store)
    assert export_table(store, tmp_path / "out.parquet", WINDOWS) == len(values)
    table = pq.read_table(tmp_path / "out.parquet")
    assert [row["start"] for row in table["window"].to_pylist()] == [10 * n for n in range(6)]
    lines = io.StringIO()
    export_jsonl(store, lines)
    shown = [json.loads(line)["value"]["sum(v)"] for line in lines.getvalue().splitlines()]
    assert shown == [row["sum(v)"] for row in table["value"].to_pylist()]
    assert BatchFiles(tmp_path / "parts" / WINDOWS).sites == {"main"}


@pytest.mark.parametrize("facts", [{}, {"host": "here", "batches": [{"seconds": 0.5}]}])
@pytest.mark.parametrize("sites", [(), ("zoo",), ("zoo", "ä", "x")])
def test_the_file_of_counters_has_what_a_pass_returns(
    tmp_path: Path, sites: tuple[str, ...], facts: dict[str, Any]
) -> None:
    writer = RunWriter(PartStore(tmp_path))
    for batch, site in enumerate(sites):
        counters = {"t_a": batch, "lanes": [{"source": site, "last_event": 2**62}]}
        writer.write(batch, [OutputPart(site, COUNTERS, counters)])
    found = writer.finish(**facts)
    assert list(found["sites"]) == sorted(sites)
    assert json.loads((tmp_path / "counters.json").read_bytes()) == {
        **facts, "sites": dict(found["sites"])
    }  # fmt: skip
    for site in sites:
        found["sites"][site] = found["sites"][site] | {"t_a": 7}
        assert found["sites"][site]["t_a"] == 7
