"""A recording in Parquet is played like one in CSV."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edge_agent.errors import AgentError
from edge_agent.inputs import parquet
from edge_agent.rows import Row
from tests.inputs.outlet import KeptOutlet, an_input, mistake


def played(folder: Path, table: pa.Table, **settings: Any) -> KeptOutlet:
    pq.write_table(table, folder / "a.parquet")
    outlet = KeptOutlet()
    made = an_input(
        {"kind": "replay", "file": "a.parquet", "pace": 0, **settings},
        {"v": "int", "name": "str"}, folder,
    )  # fmt: skip
    asyncio.run(made.run(outlet))
    assert made.counts["records"] == len(outlet.rows)
    return outlet


def test_rows_are_events(tmp_path: Path) -> None:
    table = pa.table({"ts": [1, 2], "type": ["A", None], "v": [3, None], "name": ["x", "y"]})
    assert played(tmp_path, table, time_unit="ms").rows == [
        ("events", Row(10**6, 10**6, None, "A", (3, "x"))),
        ("events", Row(2 * 10**6, 2 * 10**6, None, None, (None, "y"))),
    ]


def test_many_rows_are_read_some_at_a_time(tmp_path: Path) -> None:
    table = pa.table({"ts": range(2500), "v": range(2500)})
    assert [row.attrs[0] for _, row in played(tmp_path, table).rows] == list(range(2500))


def test_timestamps_are_instants(tmp_path: Path) -> None:
    at = datetime(2024, 1, 1, 12, 0, 0, 250, tzinfo=UTC)
    table = pa.table({"ts": pa.array([at], pa.timestamp("us", "Europe/Berlin"))})
    assert played(tmp_path, table).rows[0][1].ts == 1704110400_000_250_000


def test_what_is_no_event_is_told_with_its_row(tmp_path: Path) -> None:
    naive = pa.array([datetime(2024, 1, 1)] * 2, pa.timestamp("us"))  # noqa: DTZ001
    outlet = played(tmp_path, pa.table({"ts": naive}))
    assert outlet.rows == []
    assert "a.parquet: line 2: ts: datetime.datetime(2024" in outlet.told[1]


def test_a_file_that_is_no_parquet_is_told(tmp_path: Path) -> None:
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and nothing else")
    for name in ("b.parquet", "gone.parquet"):
        made = an_input({"kind": "replay", "file": name}, {}, tmp_path)
        with pytest.raises(AgentError, match=name):
            asyncio.run(made.run(KeptOutlet()))


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not parquet.is_installed()
    assert mistake({"kind": "replay", "file": "a.parquet"}, {}).endswith(
        "format: Parquet needs pyarrow: pip install 'slackwater[parquet]'"
    )
