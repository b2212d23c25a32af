"""A recording is played at its pace, of JSON or Parquet."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.edge_agent.errors import AgentError
from slackwater.edge_agent.inputs import replay as parquet
from slackwater.edge_agent.inputs.record_fields import read_fields
from slackwater.edge_agent.inputs.replay import ReplayInput
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import Row
from slackwater.edge_agent.settings_file import Table
from tests.inputs.outlet import KeptOutlet, an_input, mistake

MS = 1_000_000


class Outlet:
    """Notes when rows were handed over [s, from the start], and their times [ms]."""

    def __init__(self) -> None:
        self.taken: list[tuple[float, list[int]]] = []
        self.began = time.monotonic()

    async def take(self, stream: str, rows: Sequence[Row]) -> None:
        assert stream == "events"
        after = time.monotonic() - self.began
        self.taken.append((after, [row.ts // MS for row in rows]))

    def bad(self, what: str, place: str) -> None:
        pytest.fail(f"{place}: {what}")


def paced(folder: Path, times_ms: Sequence[int], pace: float) -> list[tuple[float, list[int]]]:
    file = folder / "recording.jsonl"
    file.write_text("".join(json.dumps({"ts": at * MS}) + "\n" for at in times_ms))
    fields = read_fields(Table({}, "agent.toml"), {"events": StreamSchema("events")})
    outlet = Outlet()
    replay = ReplayInput(file, "jsonl", pace, restamp=False, fields=fields, wall_ns=lambda: 0)
    asyncio.run(replay.run(outlet))
    return outlet.taken


@pytest.mark.parametrize(
    "times", [list(range(0, 100, 1)), list(range(0, 100, 10)), [0, 30, 5, 60, 20]]
)
def test_events_wait_ten_milliseconds_at_most_for_later_ones(
    tmp_path: Path, times: list[int]
) -> None:
    taken = paced(tmp_path, times, pace=1.0)
    assert [at for _, rows in taken for at in rows] == times
    assert all(max(rows) - rows[0] <= 10 for _, rows in taken)
    # On a busy machine they may be late, the first of them, too; none is early.
    assert all(after * 1000 >= max(rows) for after, rows in taken)


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


def test_what_is_no_event_is_reported_with_its_row(tmp_path: Path) -> None:
    naive = pa.array([datetime(2024, 1, 1)] * 2, pa.timestamp("us"))  # noqa: DTZ001
    outlet = played(tmp_path, pa.table({"ts": naive}))
    assert outlet.rows == []
    assert "a.parquet: line 2: ts: datetime.datetime(2024" in outlet.faults[1]


def test_a_file_that_is_no_parquet_is_reported(tmp_path: Path) -> None:
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
