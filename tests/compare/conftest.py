"""Small logs made of records as a trace writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.log.arrival_log import LogWriter
from slackwater.engine.log.input.trace import TraceRead

Record = dict[str, Any]


@pytest.fixture(name="make_log")
def _make_log(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes records as an arrival log, in frames of so many rows; gives its folder."""

    def make(records: Sequence[Record], rows: int = 1 << 20) -> Path:
        folder = tmp_path_factory.mktemp("compare")
        trace = folder / "trace.jsonl"
        trace.write_text("".join(json.dumps(record) + "\n" for record in records))
        with LogWriter(folder / "log", 2 * rows) as writer:
            for frame in TraceRead(trace):
                for start in range(0, frame.rows, rows):
                    writer.append(frame.slice(start, min(rows, frame.rows - start)))
        return folder / "log"

    return make
