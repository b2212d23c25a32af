"""Parts in memory read as files do, whatever is held, and are files once they are too many."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chain import ChainSettings
from engine.log.arrival_log import LogWriter
from engine.log.input.trace import TraceRead
from engine.order.registry import parse_order
from engine.passes.inprocess import run_in_process
from engine.query import query
from engine.results.export import export_jsonl, export_table, read_results
from engine.results.ordered import export_ordered_jsonl
from engine.results.schema import MATCHES, WINDOWS
from engine.results.store.batch_files import BatchFiles
from engine.results.store.part_store import HELD_BYTES, PartStore

QUERIES = (
    "SELECT sum(v), count(*), avg(v) GROUP BY k WINDOW TUMBLING 5",
    "EVENT SEQ(A a, B b) WITHIN 4 RETURN a.v, b.k",
    "SELECT max(v) WINDOW TUMBLING 3",
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


def told(store: PartStore) -> list[Any]:
    lines, ordered = io.StringIO(), io.StringIO()
    count = export_jsonl(store, lines)
    assert count == len(lines.getvalue().splitlines())
    export_ordered_jsonl(store, ordered)
    kinds = [list(read_results(store, kind)) for kind in (WINDOWS, MATCHES)]
    assert sorted(map(json.dumps, [*kinds[0], *kinds[1]])) == sorted(
        json.dumps(json.loads(line)) for line in lines.getvalue().splitlines()
    )
    return [lines.getvalue(), ordered.getvalue(), kinds]


@given(events=st.lists(EVENTS, min_size=1, max_size=30), rows=st.sampled_from([1, 7, 1 << 18]))
@settings(max_examples=15, deadline=None)
def test_what_is_held_reads_as_what_is_written(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], rows: int
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    (folder / "trace.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    with LogWriter(folder / "log") as writer:
        for frame in TraceRead(folder / "trace.jsonl"):
            writer.append(frame)
    plans = tuple(query(text, name=f"q{n}") for n, text in enumerate(QUERIES))
    chain = ChainSettings(parse_order("none"), plans, ordered="full")
    found, counters = [], []
    for name, hold in (("files", 0), ("held", HELD_BYTES), ("outgrown", 900)):
        store = PartStore(folder / name, hold)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("engine.passes.inprocess._ROWS_PER_BATCH", rows)
            made = run_in_process(folder / "log", chain, store)
        found.append(told(store))
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
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(event) + "\n" for event in trace))
    with LogWriter(tmp_path / "log") as writer:
        for frame in TraceRead(tmp_path / "t.jsonl"):
            writer.append(frame)
    plan = query("SELECT sum(v) WINDOW TUMBLING 10", name="q")
    store = PartStore(tmp_path / "parts")
    run_in_process(tmp_path / "log", ChainSettings(parse_order("none"), (plan,)), store)
    assert export_table(store, tmp_path / "out.parquet", WINDOWS) == len(values)
    table = pq.read_table(tmp_path / "out.parquet")
    assert [row["start"] for row in table["window"].to_pylist()] == [10 * n for n in range(6)]
    lines = io.StringIO()
    export_jsonl(store, lines)
    shown = [json.loads(line)["value"]["sum(v)"] for line in lines.getvalue().splitlines()]
    assert shown == [row["sum(v)"] for row in table["value"].to_pylist()]
    assert BatchFiles(tmp_path / "parts" / WINDOWS).sites == {"main"}
