"""The log is written in a thread: a slow disk stops neither receiving nor the clock."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.core import GatewayCore, GatewaySettings
from slackwater.engine.log import arrival_log
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.server.log_keeper import LogThread
from slackwater.engine.server.tcp_host import TcpHost
from tests.gateway.conftest import a_data, a_hello


def frame(first: int) -> Frame:
    numbers = pa.array(np.arange(first, first + 3))
    columns = {"source": pa.array(["d"] * 3), "seq": numbers, "ts": numbers, "arrival": numbers}
    return Frame("main", pa.RecordBatch.from_pydict(columns))


def written(folder: Path) -> list[int]:
    """Numbers of the events in the log; ticks have none."""
    found = list(folder.glob("*.parquet")) and LogReader(folder)
    numbers = [seq for each in found for seq in each.batch.column("seq").to_pylist()]
    return [seq for seq in numbers if seq is not None]


class Disk:
    """``write_parquet`` that may wait, and may fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
        self.free = threading.Event()
        self.begun = threading.Event()
        self.fails = fails
        if fails:
            self.free.set()
        self._write: Callable[..., int] = arrival_log.write_parquet
        monkeypatch.setattr(arrival_log, "write_parquet", self)

    def __call__(self, *args: Any, **options: Any) -> int:
        self.begun.set()
        self.free.wait(10)
        if self.fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(*args, **options)


class ThreadReports:
    """What the thread says, in order."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.came = asyncio.Event()

    def durable(self, flushes: int, files: int) -> None:
        self.said.append((flushes, files))
        self.came.set()

    def failed(self, error: OSError) -> None:
        self.said.append(error.errno)
        self.came.set()


def played(
    folder: Path,
    act: Callable[[LogThread, ThreadReports], Awaitable[None]],
    *,
    rows_per_file: int = 1000,
    retry_ns: int = 10**7,
    tell: Callable[[str], None] = print,
) -> list[Any]:
    """What a thread says while ``act`` has it write, until all is written."""

    async def run() -> list[Any]:
        reports, log = ThreadReports(), LogThread(LogWriter(folder, rows_per_file), retry_ns, tell)
        over = log.start(reports.durable, reports.failed)
        await act(log, reports)
        log.close()
        await over
        return reports.said

    return asyncio.run(run())


def flushed(log: LogThread, *firsts: int) -> None:
    for first in firsts:
        log.append(frame(first))
    log.flush()


def test_what_waits_during_a_write_goes_into_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)

    async def act(log: LogThread, _: ThreadReports) -> None:
        flushed(log, 0)
        await asyncio.to_thread(disk.begun.wait, 10)
        for first in (3, 6, 9):
            flushed(log, first)
        disk.free.set()

    assert played(tmp_path, act) == [(1, 1), (4, 2)]
    assert written(tmp_path) == list(range(12))


@pytest.mark.parametrize("rows_per_file", [1, 1000])
def test_a_full_disk_is_tried_again_and_nothing_is_lost_or_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_per_file: int
) -> None:
    disk = Disk(monkeypatch, fails=True)
    lines: list[str] = []

    async def act(log: LogThread, reports: ThreadReports) -> None:
        flushed(log, 0, 3)
        while len(reports.said) < 3:  # tries
            reports.came.clear()
            await reports.came.wait()
        disk.fails = False
        flushed(log, 6)

    said = played(tmp_path, act, rows_per_file=rows_per_file, tell=lines.append)
    failure, success = lines
    assert failure.startswith("the log cannot be written: [Errno 28] No space left on device;")
    assert success == "the log is written again"
    assert said[0] == errno.ENOSPC
    assert said[-1][0] == 2
    assert written(tmp_path) == list(range(9))


def test_a_disk_that_is_full_at_the_end_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(monkeypatch, fails=True)

    async def act(log: LogThread, reports: ThreadReports) -> None:
        flushed(log, 0)
        await reports.came.wait()

    with pytest.raises(OSError, match="No space left"):
        played(tmp_path, act, retry_ns=10**12)


def test_a_fault_of_ours_ends_the_thread_and_is_reported(tmp_path: Path) -> None:
    async def act(log: LogThread, _: ThreadReports) -> None:
        flushed(log, 3, 0)

    with pytest.raises(ContractViolation, match="arrival 0 after 5"):
        played(tmp_path, act)


def test_a_slow_disk_does_not_stop_the_loop_and_a_full_memory_stops_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer sends ten times what the gateway may keep; then the disk goes on."""
    disk = Disk(monkeypatch)
    limit, rows = 400_000, 500
    messages = [wire.encode(a_data(rows * n, rows)) for n in range(100)]

    async def run() -> tuple[int, float]:
        log = LogThread(LogWriter(tmp_path), retry_ns=10**7, tell=print)
        options = {"frame_rows": 1000, "waiting_bytes_max": limit, "listen": "127.0.0.1"}
        core = GatewayCore(GatewaySettings(**options), log)
        host = TcpHost(core)
        over = log.start(lambda flushes, _: host.flushed(flushes), host.flush_failed)
        port = await host.listen("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(wire.encode(a_hello()) + b"".join(messages))
        most, slowest, until = 0, 0.0, time.monotonic() + 20
        while not core.congested and time.monotonic() < until:
            begun = time.monotonic()
            await asyncio.sleep(0.01)
            slowest = max(slowest, time.monotonic() - begun)
            most = max(most, core._commits.waiting_bytes)
        assert core.congested
        disk.free.set()
        decoder, acked = wire.Decoder(), 0
        while acked < rows * len(messages):
            for said in decoder.feed(await asyncio.wait_for(reader.read(1 << 16), 20)):
                assert isinstance(said, m.Ack | m.Welcome)
                acked = said.next_seqs[0]
        writer.close()

        async def finished() -> None:
            log.close()
            await over

        await host.stop(finished)
        return most, slowest

    most, slowest = asyncio.run(run())
    # What one read of a socket may bring is beyond it.
    assert limit // 2 < most < limit // 2 + 1_500_000
    assert slowest < 0.8
    assert written(tmp_path) == list(range(rows * len(messages)))
