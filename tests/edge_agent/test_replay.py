"""A recording is played at its pace: no event waits for later ones, beyond a slice."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from edge_agent.inputs.record_fields import read_fields
from edge_agent.inputs.replay import ReplayInput
from edge_agent.messages import StreamSchema
from edge_agent.rows import Row
from edge_agent.settings_file import Table

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


def played(folder: Path, times_ms: Sequence[int], pace: float) -> list[tuple[float, list[int]]]:
    file = folder / "recording.jsonl"
    file.write_text("".join(json.dumps({"ts": at * MS}) + "\n" for at in times_ms))
    fields = read_fields(Table({}, "agent.toml"), {"events": StreamSchema("events")})
    outlet = Outlet()
    replay = ReplayInput(file, "jsonl", pace, restamp=False, fields=fields, wall_ns=lambda: 0)
    asyncio.run(replay.run(outlet))
    return outlet.taken


@pytest.mark.parametrize("gap_ms", [1, 5, 10, 25])
def test_events_wait_ten_milliseconds_at_most_for_later_ones(tmp_path: Path, gap_ms: int) -> None:
    times = list(range(0, 300, gap_ms))
    taken = played(tmp_path, times, pace=1.0)
    assert [at for _, rows in taken for at in rows] == times
    assert all(rows[-1] - rows[0] <= 10 for _, rows in taken)
    # On a busy machine they may be late, the first of them, too; none is early.
    assert all(after * 1000 >= rows[-1] for after, rows in taken)


def test_at_no_pace_all_go_at_once(tmp_path: Path) -> None:
    ((_, rows),) = played(tmp_path, range(500), pace=0)
    assert rows == list(range(500))


def test_a_recording_in_another_order_is_played_in_its_own(tmp_path: Path) -> None:
    times = [0, 30, 5, 60, 20]
    taken = played(tmp_path, times, pace=1.0)
    assert [at for _, rows in taken for at in rows] == times
