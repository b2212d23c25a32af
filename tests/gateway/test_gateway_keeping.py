"""A gateway whose log is merged and given up behind it knows its sources after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge_agent import messages as m
from engine.gateway.core import Recalled
from engine.log import compaction
from engine.log.arrival_log import LogReader, LogWriter
from engine.log.files.folder import numbered_files
from engine.log.files.retired import retired
from engine.log.retention import Limits
from engine.server.log_keeper import KeepSettings, LogKeeper
from tests.gateway.device_messages import SYNC, a_data, a_hello
from tests.gateway.test_gateway_durable import bench_on

S = 10**9


def grown(folder: Path, files: int) -> None:
    """So many messages, each in a file of its own as is the SYNC; some come before their former."""
    with LogWriter(folder, rows_per_file=1) as writer:
        bench = bench_on(writer, frame_rows=1)
        bench.join("c", a_hello(start=1))
        for number in range(files):
            at = number + (number % 10 == 0) - (number % 10 == 1)
            bench.say("c", *([SYNC] if not number else []), a_data(5 * at, 5), now=number * S)
        bench.core.finish(files * S)


def keeper(folder: Path, said: list[str], read: int | None = None, **limits: Any) -> LogKeeper:
    settings = KeepSettings(limits=Limits(**limits))
    return LogKeeper(folder, settings, lambda: read, said.append, lambda: 100 * S)


def test_numbers_outlive_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN", 4)
    grown(tmp_path, 41)
    said: list[str] = []
    keeper(tmp_path, said, age_ns=60 * S).step()
    keeper(tmp_path, said, age_ns=60 * S).step()
    assert [(file.first, file.last) for file in numbered_files(tmp_path)] == [(42, 42)]
    assert said == []
    with LogWriter(tmp_path) as writer:
        known = Recalled(LogReader(tmp_path).one_by_one(), retired(tmp_path).known)
        again = bench_on(writer, known)
        # Number 200 to 204 came after 205 to 209 would have: 40 is the first of a pair.
        assert again.join("d", a_hello(start=1), now=100 * S) == [m.Welcome(0, (200,))]
        assert again.say("d", a_data(205, 5), now=100 * S) == [m.Ack(0, (200,))]
        again.say("d", a_data(200, 10), now=100 * S)
        again.core.finish(101 * S)
        assert again.answers() == [m.Ack(0, (210,))]
        assert again.core.counts["main", "d", "duplicate"] == 10
        assert writer.files == 43
        stale = again.join("e", a_hello(incarnation=0, start=2), now=200 * S)
        assert stale[0].reason == "stale_incarnation"
        assert again.core.clock.now >= 200 * S


def test_what_the_engine_has_not_read_stays_and_is_told_once(tmp_path: Path) -> None:
    grown(tmp_path, 10)
    said: list[str] = []
    one = keeper(tmp_path, said, read=4, age_ns=S)
    one.step()
    one.step()
    assert [file.first for file in numbered_files(tmp_path)] == list(range(5, 12))
    assert len(said) == 1
    assert "6 files from frames-000000000005.parquet on are beyond what [log] keeps" in said[0]


def test_what_the_engine_has_not_read_goes_if_asked_for_and_is_counted(tmp_path: Path) -> None:
    grown(tmp_path, 10)
    said: list[str] = []
    keeper(tmp_path, said, read=4, age_ns=S, unread=True).step()
    assert [file.first for file in numbered_files(tmp_path)] == [11]
    assert said == [f"log {tmp_path}: 6 files were given up that the engine had not read, 6 in all"]


def test_a_damaged_file_stops_the_keeper_and_not_the_gateway(tmp_path: Path) -> None:
    grown(tmp_path, 40)
    path = numbered_files(tmp_path)[3].path
    path.write_bytes(path.read_bytes()[:-9])
    said: list[str] = []
    one = keeper(tmp_path, said)
    one._work()
    one._work()
    assert len(said) == 1
    assert "frames-000000000004.parquet: damaged file" in said[0]
    assert len(numbered_files(tmp_path)) == 41
