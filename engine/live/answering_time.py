"""How long disk and engine take here from a closed frame to its answers' lines.

What a simulation has not: it knows when a frame is closed, and not what the machine then takes to
write it, read it, answer it and write what came of it. Measured with the engine itself, over frames
of a few events in a folder that is removed, beside the log: on the same disk.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from edge_agent import records as r
from engine.live.embedded import EmbeddedEngine, EnginePlace
from engine.live.questions import Questions
from engine.log.arrival_log import LogWriter
from engine.results.answer_lines import AnswerLines
from engine.results.failed_queries import FailedQueries
from engine.results.live_answers import LiveAnswers
from engine.stream.frame import Frame

TRIALS: Final = 15
_FIRST: Final = 3
"""These load what is needed, and do not count."""
_ROWS: Final = 6
"""Of a frame. All trials together are too few to compile kernels for."""
_APART_NS: Final = 10**9
_NEVER_S: Final = 10**9


def answering_time_ns(beside: Path, questions: Questions) -> int:
    """The median over some trials.

    Args:
        beside: folder on the log's disk, in which a folder is made and removed.
        questions: that are answered.

    Raises:
        UserError: a question is at fault, or ``beside`` cannot be written.
    """
    # What is tried is no result, and must not fail in silence.
    settings = replace(questions.chain_settings(), isolate_failures=False)
    with tempfile.TemporaryDirectory(prefix=".slackwater-validate-", dir=beside) as scratch:
        folder = Path(scratch)

        def opened(_: dict[str, Any]) -> LiveAnswers:
            lines = AnswerLines(folder / "answers", questions.folders, {}, _ignore)
            failed = FailedQueries(
                folder / "answers", (), None, again=True, tell=_ignore, changed=_ignore
            )
            return LiveAnswers(lines, None, 1, {}, _ignore, _at_once, failed)

        writer = LogWriter(folder / "log")
        place = EnginePlace(folder / "log", folder / "state", _NEVER_S)
        engine = EmbeddedEngine(place, settings, opened, _ignore)
        took = []
        for number in range(_FIRST + TRIALS):
            frame = _frame(number)
            begun = time.monotonic_ns()
            writer.append(frame)
            writer.flush()
            engine.upto(writer.files)
            took.append(time.monotonic_ns() - begun)
        writer.close()
    return int(np.median(took[_FIRST:]))


def _frame(number: int) -> Frame:
    """Events a second after those of the frame before."""
    at = np.arange(_ROWS, dtype=np.int64) + number * _APART_NS
    columns = {
        r.SOURCE: pa.array(["s0"] * _ROWS).dictionary_encode(),
        r.SEQ: pa.array(np.arange(_ROWS) + number * _ROWS),
        r.TS: pa.array(at),
        r.ARRIVAL: pa.array(at),
    }
    return Frame("main", pa.RecordBatch.from_pydict(columns))


def _ignore(_: object) -> None:
    """Takes lines that nobody reads."""


def _at_once(what: Callable[[], Any]) -> Any:
    return what()
