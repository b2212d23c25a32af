"""A pass in this process reads one batch of its log at a time, however long the log is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts import pipeline
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.log import arrival_log
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.query import query

ROWS, BATCH = 1000, 5000
FILES, IN_FILE = 12, 50


class WatchedLog:
    """Frames that are made as they are read; ``waiting`` rows were read and not processed yet."""

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self.waiting = self.most = 0

    def rows(self) -> dict[str, int]:
        return {"shop": self._frames * ROWS}

    def of_sites(self, _sites: Collection[str] | None) -> Iterator[Frame]:
        for number in range(self._frames):
            self.waiting += ROWS
            self.most = max(self.most, self.waiting)
            at = pa.array(np.arange(number * ROWS, (number + 1) * ROWS))
            source = pa.array(["a"] * ROWS).dictionary_encode()
            columns = {"source": source, "ts": at, "seq": at, "arrival": at}
            yield Frame("shop", pa.RecordBatch.from_pydict(columns))

    def done(self, rows: int) -> None:
        self.waiting -= rows


@pytest.mark.parametrize("frames", [12, 48, 192])
def test_no_more_of_a_log_is_read_than_a_batch(
    frames: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WatchedLog(frames)
    monkeypatch.setattr(pipeline, "opened", lambda _log: log)
    monkeypatch.setattr(pipeline, "_ROWS_PER_BATCH", BATCH)
    plan = query("SELECT count(*) FROM events WINDOW TUMBLING 10 us", name="q")
    store = PartStore(tmp_path, hold=1 << 20)
    counters = pipeline.run_in_process(
        tmp_path, ChainSettings(parse_order("sequence"), (plan,)), store, log.done
    )
    assert counters["events"] == frames * ROWS
    assert (log.most, log.waiting) == (BATCH, 0)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with LogWriter(tmp_path / "log", rows_per_file=IN_FILE) as writer:
        for number in range(FILES):
            times = pa.array(np.arange(IN_FILE, dtype=np.int64) + IN_FILE * number)
            source = pa.array(["s"] * IN_FILE).dictionary_encode()
            columns = {"seq": times, "ts": times, "arrival": times, "source": source}
            writer.append(Frame("main", pa.RecordBatch.from_pydict(columns)))
    return tmp_path / "log"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of a log, as they are read."""
    found: list[Path] = []
    frames_of = arrival_log._frames_of

    def noted(file: Path, sites: Any) -> Any:
        found.append(file)
        return frames_of(file, sites)

    monkeypatch.setattr(arrival_log, "_frames_of", noted)
    return found


def test_no_more_than_two_files_are_held_before_their_turn(
    log: Path, read: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: list[int] = []
    monkeypatch.setattr("slackwater.engine.hosts.pipeline._ROWS_PER_BATCH", IN_FILE)
    pipeline.run_in_process(
        log, ChainSettings(parse_order("none")), tmp_path / "out",
        lambda _rows: before.append(len(read)),
    )  # fmt: skip
    assert len(before) == len(read) == FILES
    assert all(ahead <= done + 2 for done, ahead in enumerate(before))


def test_a_reading_reads_each_file_once(log: Path, read: list[Path]) -> None:
    reader = LogReader(log)
    first = list(reader)
    assert read == reader.files
    assert [frame.batch for frame in reader] == [frame.batch for frame in first]
    assert list(reader.of_sites(["x"])) == []
    assert reader.rows() == {"main": FILES * IN_FILE}
