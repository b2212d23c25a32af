"""A gateway on its log on disk: full disks, clocks set back, merged and retired files."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from slackwater.edge_agent import messages as m
from slackwater.engine.gateway.core import Recalled
from slackwater.engine.gateway.outputs import ArrivalClock
from slackwater.engine.log import arrival_log
from slackwater.engine.log import retention as compaction
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.log.log_folder import numbered_files, retired
from slackwater.engine.log.retention import Limits
from slackwater.engine.server.log_keeper import KeepSettings, LogKeeper
from tests.gateway.conftest import SYNC, Bench, a_data, a_hello

MS = 10**6

S = 10**9


def seqs(folder: Path) -> list[int]:
    """Numbers of the events in the log on disk, in its order."""
    if not list(folder.glob("*.parquet")):
        return []
    rows = [row for frame in LogReader(folder) for row in frame.batch.to_pylist()]
    return [row["seq"] for row in rows if row.get("kind", 0) == 0]


@pytest.mark.parametrize("commit_every_ns", [0, 500 * MS])
def test_acked_is_on_disk(tmp_path: Path, commit_every_ns: int) -> None:
    bench = Bench(LogWriter(tmp_path), commit_every_ns=commit_every_ns)
    bench.join("c", a_hello())
    assert bench.say("c", SYNC, a_data(0, 5)) == []
    acked = 0
    while (due := bench.core.next_wake()) is not None:
        bench.core.wake(due)
        for said in bench.answers():
            acked = said.next_seqs[0]
            assert len(seqs(tmp_path)) >= acked
        assert due <= 200 * MS + commit_every_ns
    assert acked == 5


@pytest.mark.parametrize("rows_per_file", [1, 1000])
def test_a_full_disk_is_tried_again_and_nothing_is_lost_or_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_per_file: int
) -> None:
    """With one row per file the writer fails while it appends, with more when it flushes."""
    bench = Bench(LogWriter(tmp_path, rows_per_file), sink_retry_ns=S)
    bench.join("c", a_hello())
    bench.say("c", SYNC, a_data(0, 5))
    write = arrival_log.write_parquet

    def full(*_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(arrival_log, "write_parquet", full)
    bench.core.wake(200 * MS)
    assert bench.answers() == []
    assert bench.core.sink_error is not None
    assert bench.core.next_wake() == 1200 * MS
    bench.say("c", a_data(5, 3), now=300 * MS)
    bench.core.wake(1200 * MS)
    assert bench.core.counts["", "", "sink_failed"] == 2
    assert seqs(tmp_path) == []
    monkeypatch.setattr(arrival_log, "write_parquet", write)
    said = []
    while (due := bench.core.next_wake()) is not None:
        bench.core.wake(due)
        said += bench.answers()
    assert said[-1] == m.Ack(1, (8,))
    assert bench.core.sink_error is None
    assert seqs(tmp_path) == list(range(8))


def test_while_the_disk_is_full_memory_is_bounded() -> None:
    bench = Bench(waiting_bytes_max=5000, frame_rows=10)
    bench.join("c", a_hello())
    bench.log.fails = True
    said: list[Any] = []
    for number in range(20):
        said += bench.say("c", a_data(10 * number, 10), now=number)
    assert [each.reason for each in said if isinstance(each, m.ErrorMessage)] == ["busy"]
    assert said[0].retry
    assert bench.core._commits.waiting_bytes < 5000 + 1000
    bench.log.fails = False
    bench.core.finish(S)
    assert bench.core._commits.waiting_bytes == 0
    assert bench.core.counts["main", "d", "recorded"] == len(bench.log.rows("seq")) - 1


def test_a_log_is_gone_on_with(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as writer:
        bench = Bench(writer)
        bench.join("c", a_hello(start=1), now=5)
        bench.say("c", SYNC, a_data(0, 5), now=5 * S)
        bench.core.finish(6 * S)
    with LogWriter(tmp_path) as writer:
        again = Bench(writer, Recalled(LogReader(tmp_path)))
        # The machine's clock was set back by an hour while it was off.
        assert again.join("d", a_hello(start=1), now=-3600 * S) == [m.Welcome(0, (5,))]
        again.say("d", a_data(3, 4), now=-3599 * S)
        again.core.finish(-3598 * S)
        assert again.core.clock.set_back == 1
    assert seqs(tmp_path) == list(range(7))
    arrivals = [frame.last_arrival for frame in LogReader(tmp_path)]
    assert arrivals == [5 * S, 6 * S]


def test_a_clock_set_back_does_not_hold_up_frames_acks_and_questions() -> None:
    bench = Bench()
    bench.join("c", a_hello(), now=100 * S)
    bench.say("c", SYNC, a_data(0, 2), now=100 * S)
    back = 100 * S - 3600 * S
    bench.say("c", a_data(2, 1), now=back + 50 * MS)
    due = bench.core.next_wake()
    assert due == back + 250 * MS
    bench.core.wake(due)
    assert bench.answers() == [m.Ack(1, (3,))]
    assert bench.core.clock.ahead_ns == 3600 * S - 50 * MS


def test_arrival_waits_for_a_small_step_and_runs_on_after_a_large_one() -> None:
    clock = ArrivalClock(None)
    assert [clock.advance(now) for now in (10 * S, 9 * S, 9 * S + 5, 11 * S)] == [
        10 * S, 10 * S, 10 * S, 11 * S,
    ]  # fmt: skip
    assert (clock.ahead_ns, clock.set_back) == (0, 0)
    assert [clock.advance(now) for now in (2 * S, 3 * S, 4 * S)] == [11 * S, 12 * S, 13 * S]
    assert (clock.ahead_ns, clock.set_back) == (9 * S, 1)
    assert clock.engine_ns(20 * S) == 11 * S


def grown(folder: Path, files: int) -> None:
    """So many messages, each in a file of its own as is the SYNC; some come before their former."""
    with LogWriter(folder, rows_per_file=1) as writer:
        bench = Bench(writer, frame_rows=1)
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
        again = Bench(writer, known)
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


def test_what_the_engine_has_not_read_stays_and_is_reported_once(tmp_path: Path) -> None:
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
