"""A pass in this process reads one batch of its log at a time, however long the log is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.chain import ChainSettings
from engine.order.registry import parse_order
from engine.passes import inprocess
from engine.query import query
from engine.results.store.part_store import PartStore
from engine.stream.frame import Frame

ROWS, BATCH = 1000, 5000


class WatchedLog:
    """Frames that are made as they are read; ``waiting`` rows were read and not processed yet."""

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self.waiting = self.most = 0

    def site_names(self) -> list[str]:
        return ["shop"]

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
    monkeypatch.setattr(inprocess, "opened", lambda _log: log)
    monkeypatch.setattr(inprocess, "_ROWS_PER_BATCH", BATCH)
    plan = query("SELECT count(*) FROM events WINDOW TUMBLING 10 us", name="q")
    store = PartStore(tmp_path, hold=1 << 20)
    counters = inprocess.run_in_process(
        tmp_path, ChainSettings(parse_order("sequence"), (plan,)), store, log.done
    )
    assert counters["events"] == frames * ROWS
    assert (log.most, log.waiting) == (BATCH, 0)
