"""What tests need that compare Spark's answers with those of the in-process host."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.output.export import export_jsonl


def log_of(trace: str, folder: Path, rows_per_file: int, rows_per_frame: int) -> Path:
    """The lines as an arrival log of several files and small frames."""
    (folder / "t.jsonl").write_text(trace, encoding="utf-8")
    with LogWriter(folder / "log", rows_per_file) as writer:
        for frame in TraceRead(folder / "t.jsonl"):
            for start in range(0, frame.rows, rows_per_frame):
                writer.append(frame.slice(start, min(rows_per_frame, frame.rows - start)))
    assert len(LogReader(folder / "log").files) >= 3
    return folder / "log"


def answers(parts: Path, queries: Iterable[str]) -> str:
    """The results of a pass as JSON lines, by the queries' names."""
    out = io.StringIO()
    export_jsonl(parts, out, queries=tuple(queries))
    return out.getvalue()
