"""Chains on Spark over a growing log: one query without end, a micro-batch for each page.

The output of a micro-batch is written first (``LiveAnswers``), then the progress is saved, then
Spark commits. So after a crash Spark may repeat a micro-batch of which all or a part is written:
its answers are skipped, or compared with those written.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.chain.identity import identity_of
from slackwater.engine.hosts.chain.site_chain import SNAPSHOT_VERSION
from slackwater.engine.hosts.spark.host import (
    chained,
    committed_batches,
    due,
    of_the_jvm,
    part_of,
    spark_failure,
    spark_session,
    uri,
)
from slackwater.engine.hosts.spark.reading_list import BYTES_PER_PAGE, FILES_PER_PAGE, LiveList
from slackwater.engine.log.arrival_log import Piece, piece_after
from slackwater.engine.log.log_files import reading_lock
from slackwater.engine.output.durability import AGAIN, AnswersDamaged, EngineProgress
from slackwater.engine.output.run_writer import CHECKPOINT, READING, LiveAnswers, skipped

_SINK: Final = "sink"
_LOOK_S: Final = 0.2
_VERSION: Final = (3, SNAPSHOT_VERSION)


def spark_log(folder: Path) -> Path:
    """Return the log file of Spark, for an engine with its state in ``folder``."""
    return folder.with_suffix(".log")


class SparkEngine:
    """The chains of all sites, on a Spark master; the counterpart of ``live.EmbeddedEngine``.

    Args:
        log: the arrival log; workers reach it and ``folder`` under the same paths.
        folder: folder of this engine's state only. The log of Spark is a file next to it.
        settings: settings of all chains.
        open_answers: opens the answers from the result of ``LiveAnswers.state``, or an empty dict.
        master: any Spark master.
        tell: takes a line for the user.

    Raises:
        UserError: there is no Java.
    """

    def __init__(
        self,
        log: Path,
        folder: Path,
        settings: ChainSettings,
        open_answers: Callable[[dict[str, Any]], LiveAnswers],
        master: str,
        tell: Callable[[str], None],
    ) -> None:
        self._log = log
        self._folder = folder
        self._settings = settings
        self._progress = EngineProgress(folder / _SINK, log, identity_of(settings), _VERSION)
        self._tell = tell
        self._written = threading.Condition()
        self._caught_up = False
        self._ended = False
        self._saved = 0
        self._open(open_answers)
        with of_the_jvm(spark_log(folder)):
            self._query = self._start(spark_session(master, spark_log(folder)))

    @property
    def done(self) -> int:
        """Number of the log's file that was read last."""
        return self._list.listed

    @property
    def saved(self) -> int:
        """Number of the log's file after which a restart continues.

        Micro-batches that Spark has not committed are repeated from the log.
        """
        batch, done = self._last
        if done != self._saved and committed_batches(self._folder / CHECKPOINT) > batch:
            self._saved = done
        return self._saved

    def _open(self, open_answers: Callable[[dict[str, Any]], LiveAnswers]) -> None:
        committed = committed_batches(self._folder / CHECKPOINT)
        state = self._progress.load(
            self._tell, lambda state: state["batch"] in (committed - 1, committed)
        )
        if state is not None:
            try:
                self._answers = open_answers(state["answers"])
            except AnswersDamaged as damaged:
                self._tell(f"{damaged}: {AGAIN}")
                state = None
        if state is None:
            self._answers = open_answers({})  # may be refused: then the state stays
            shutil.rmtree(self._folder, ignore_errors=True)
            state = {"batch": -1, "done": 0, "sites": ()}
        self._folder.mkdir(parents=True, exist_ok=True)
        self._batch: int = state["batch"]
        self._last: tuple[int, int] = (self._batch, state["done"])
        self._list = LiveList(self._folder / READING, self._batch + 1, state["done"])
        self._list.sites.update(state["sites"])
        self._list.listed = skipped(self._log, self._list.listed, self._tell)
        if self._batch < 0 and self._list.listed:
            # Otherwise a restart would find answers without their beginning.
            self._answers.patient(partial(self._save, -1, self._list.listed))

    def _start(self, session: SparkSession) -> StreamingQuery:
        session.conf.set(
            "spark.sql.shuffle.partitions", session.sparkContext.defaultParallelism
        )  # a checkpoint keeps its first value
        listed = due(session, self._folder / READING, cleanSource="delete")
        return (
            chained(listed, self._settings, self._log, files=False)
            .writeStream.foreachBatch(lambda batch, number: self._sink(batch.collect(), number))
            .option("checkpointLocation", uri(self._folder / CHECKPOINT))
            .start()
        )

    def upto(self, number: int) -> None:
        """Process the log's files up to that number.

        Raises:
            UserError: a worker found an error in the log or a query.
            SparkFailure: the Spark query failed.
        """
        while self._list.listed < number:
            # Files that arrive meanwhile go on one page, as small pages would only wait for one
            # another. A page of a killed process may be in Spark's list of files and in no batch
            # yet: the next batch would contain that page and the one added now.
            self._wait_for(self._all_done)
            with reading_lock(self._log):
                self._list.add(*self._next_pieces(number))
        self._wait_for(self._all_done)
        if not self._caught_up:
            self._caught_up = True
            with self._written:
                self._answers.caught_up()

    def idle(self) -> None:
        """React to a time without input."""
        self._check()
        with self._written:
            self._answers.idle()

    def close(self) -> None:
        """Wait until all is answered, and write the output for the end of the log.

        Raises:
            SlackwaterError: as ``upto``.
        """
        self._wait_for(self._all_done)
        if self._list.sites:
            self._list.add([], self._list.listed, ends=True)
            self._wait_for(self._all_done)
        with of_the_jvm(spark_log(self._folder)):
            self._query.stop()
        with self._written:
            if not self._ended:
                self._answers.close()

    def _next_pieces(self, number: int) -> tuple[list[Piece], int]:
        """Return the pieces of the log for a page, and the number of their last file."""
        pieces: list[Piece] = []
        size, done = 0, self._list.listed
        while done < number and size < BYTES_PER_PAGE and len(pieces) < FILES_PER_PAGE:
            piece = piece_after(self._log, done)
            pieces.append(piece)
            size, done = size + piece.path.stat().st_size, piece.last
        return pieces, done

    def _all_done(self) -> bool:
        return self._batch == self._list.next - 1

    def _wait_for(self, true: Callable[[], bool]) -> None:
        with self._written:
            while not self._written.wait_for(true, _LOOK_S):
                self._check()

    def _check(self) -> None:
        with of_the_jvm(spark_log(self._folder)):
            if not self._query.isActive:
                raise spark_failure(str(self._query.exception()), spark_log(self._folder))

    def _sink(self, rows: list[Row], batch: int) -> None:
        """Write the output of a micro-batch, unless that was done before a crash."""
        with self._written:
            if batch > self._batch:
                # Sorted here: a sort in Spark samples its input, which would run the chains twice.
                in_order = sorted(rows, key=lambda row: (row.site, row.number))
                self._answers.take([part_of(row) for row in in_order if not row.last])
                done = self._list.done_of.pop(batch)
                last = [part_of(row) for row in in_order if row.last]
                if last:
                    self._answers.close(last)
                    self._ended = True
                self._answers.patient(partial(self._save, batch, done))
                self._batch = batch
                self._written.notify_all()

    def _save(self, batch: int, done: int) -> None:
        """Save the progress; raises OSError."""
        answers, sites = self._answers.state(), sorted(self._list.sites)
        self._progress.save(done, batch=batch, sites=sites, answers=answers)
        self._answers.saved()
        self._last = (batch, done)
