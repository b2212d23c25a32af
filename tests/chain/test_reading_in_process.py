"""The host of one process reads a log as it goes through it, and no further ahead than it must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.chain import ChainSettings
from engine.log import arrival_log
from engine.log.arrival_log import LogReader, LogWriter
from engine.order.registry import parse_order
from engine.passes.inprocess import run_in_process
from engine.stream.frame import Frame

FILES, ROWS = 12, 50


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with LogWriter(tmp_path / "log", rows_per_file=ROWS) as writer:
        for number in range(FILES):
            times = pa.array(np.arange(ROWS, dtype=np.int64) + ROWS * number)
            source = pa.array(["s"] * ROWS).dictionary_encode()
            columns = {"seq": times, "ts": times, "arrival": times, "source": source}
            writer.append(Frame("main", pa.RecordBatch.from_pydict(columns)))
    return tmp_path / "log"


def test_no_more_than_two_files_are_held_before_their_turn(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    before: list[int] = []
    frames_of = arrival_log._frames_of

    def counted(file: Path, sites: Any) -> Any:
        read.append(file)
        return frames_of(file, sites)

    monkeypatch.setattr(arrival_log, "_frames_of", counted)
    monkeypatch.setattr("engine.passes.inprocess._ROWS_PER_BATCH", ROWS)
    run_in_process(
        log, ChainSettings(parse_order("none")), tmp_path / "out",
        lambda _rows: before.append(len(read)),
    )  # fmt: skip
    assert len(before) == len(read) == FILES
    assert all(ahead <= done + 2 for done, ahead in enumerate(before))


def test_what_was_begun_is_read_once(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    frames_of = arrival_log._frames_of

    def counted(file: Path, sites: Any) -> Any:
        read.append(file)
        return frames_of(file, sites)

    monkeypatch.setattr(arrival_log, "_frames_of", counted)
    reader = LogReader(log)
    reader.begin()
    first = list(reader)
    assert read == reader.files
    assert [frame.batch for frame in reader] == [frame.batch for frame in first]
    reader.begin()  # of all sites: it is no use to who asks for some
    assert list(reader.of_sites(["x"])) == []
    assert reader.rows() == {"main": FILES * ROWS}
