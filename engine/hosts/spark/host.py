"""Host of the chains on Spark: reads frames of the arrival log, writes results to Parquet.

Spark's file source reads a list of the frames (``engine.hosts.spark.reading_list``). There is one
stateful operator per site, with a RocksDB state store, a checkpoint, and Spark's Parquet sink,
which counts a repeated batch once: after a crash the same call continues without lost or duplicate
results. No result passes the driver.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from slackwater.engine.cache_home import cache_home
from slackwater.engine.core.errors import SlackwaterError, SparkFailure, UserError
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.chain.identity import identity_of
from slackwater.engine.hosts.java import java_home
from slackwater.engine.hosts.spark.chain_state import (
    OUTPUT,
    LogSource,
    PackedAnswers,
    SiteProcessor,
)
from slackwater.engine.hosts.spark.class_archive import java_options
from slackwater.engine.hosts.spark.reading_list import LIST_COLUMNS, ReadingList
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.log.whole_file import whole_file
from slackwater.engine.output.part_store import PartStore, sole_use
from slackwater.engine.output.run_writer import (
    CHECKPOINT,
    READING,
    SETTINGS,
    TASKS,
    OutputPart,
    RunWriter,
)
from slackwater.engine.output.spark_parts import BY_SPARK, KIND, SparkParts

# Failures of Spark: finds the cause in the text of a failed query.


_OURS: Final = re.compile(
    r"^(?:\S*: )?slackwater\.engine\.core\.errors\.(UserError|OverBudget|ContractViolation): (.+)$",
    re.MULTILINE,
)
"""An error of this project at the end of a worker's traceback."""
_RAISED: Final = re.compile(
    r"^(?:Caused by: |: )?((?:[\w$]+\.)*[\w$]*(?:Error|Exception)): (.+)$", re.MULTILINE
)
"""The last line of a Python traceback, or the first of a Java one."""

_KILLED: Final = re.compile(r"Application has been killed\. Reason: (.+)")
"""In the log if the master is unreachable; Spark itself reports only that its context ended."""
_STOPPED: Final = re.compile(r"stopped SparkContext|SparkContext (?:was|has been) shut ?down")
_ENDED: Final = "its JVM has ended"
_LATE: Final = "Python worker failed to connect back"


class WorkerLate(SparkFailure):
    """A worker's Python did not start within ten seconds, a limit that Spark does not configure."""


def spark_failure(said: str, log: Path) -> SlackwaterError:
    """Return the error to raise for a failed query.

    Args:
        said: text of Spark with tracebacks of workers.
        log: file to which the text is appended.

    Returns:
        ``UserError`` if a worker found an error in the input, else ``SparkFailure``.
    """
    with log.open("a", encoding="utf-8") as file:
        file.write(said)
    ours = _OURS.findall(said)
    if ours:
        kind, message = ours[-1]
        return SparkFailure(message, log) if kind == "ContractViolation" else UserError(message)
    if _LATE in said:
        return WorkerLate(f"a {_LATE.removeprefix('Python ')}; the machine is busy", log)
    if _STOPPED.search(said):  # otherwise the log may be from an earlier run
        killed = _KILLED.findall(log.read_text(encoding="utf-8", errors="replace"))
        if killed:
            return SparkFailure(killed[-1], log)
    raised = _RAISED.findall(said)
    if raised:
        return SparkFailure(": ".join(raised[-1]), log)
    return SparkFailure(said.strip().partition("\n")[0], log)


@contextmanager
def of_the_jvm(log: Path) -> Iterator[None]:
    """Convert errors of calls to the JVM, or of its end, to those of ``spark_failure``.

    Args:
        log: log file of the JVM.

    Raises:
        SlackwaterError: result of ``spark_failure``.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        if isinstance(error, PySparkException) and error.getCondition() == "JAVA_GATEWAY_EXITED":
            raise SparkFailure(_ENDED, log) from error
        raise spark_failure(str(error), log) from error
    except (Py4JError, ConnectionError) as error:
        raise SparkFailure(_ENDED, log) from error


@contextmanager
def logging_to(log: Path) -> Iterator[None]:
    """Write log records of py4j and PySpark to ``log``, unless the program has handlers.

    The handler stays after an error: their threads keep logging about the JVM that has ended.
    """
    if logging.root.handlers:
        yield
        return
    handler = logging.FileHandler(log, delay=True)
    logging.root.addHandler(handler)
    yield
    logging.root.removeHandler(handler)
    handler.close()


# Waits for Spark so that Ctrl-C ends it cleanly.
#
# PySpark's own handler calls the JVM from within the interrupted call, which breaks the connection
# and prints a hundred lines. Here another thread waits, which Ctrl-C does not interrupt.


_LOOK_SECONDS = 0.2


def wait_for(done: Callable[[], None]) -> None:
    """Call ``done`` in a thread and wait for it; raises its error here.

    Raises:
        KeyboardInterrupt: Ctrl-C; ``done`` then ends by itself.
    """
    failed: list[BaseException] = []

    def call() -> None:
        try:
            done()
        except BaseException as error:
            failed.append(error)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    waiting = threading.Thread(target=call, daemon=True)
    waiting.start()
    try:
        while waiting.is_alive():
            waiting.join(_LOOK_SECONDS)
    except KeyboardInterrupt:
        # Calls in progress end with errors that are of no interest.
        logging.getLogger().setLevel(logging.CRITICAL + 1)
        raise
    if failed:
        raise failed[0]


_STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_ROCKSDB: Final = "spark.sql.streaming.stateStore.rocksdb"
_CHECKPOINTING: Final = "org.apache.spark.sql.execution.streaming.checkpointing"
_FILES: Final = f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"
_SPARK_LOG: Final = "spark.log"
_TRIES: Final = 3
"""Attempts of a run if a worker is slow to start."""
_SINK: Final = {
    "compression": "zstd",
    "parquet.block.size": str(8 << 20),
    # Payloads may be large: the size is checked after each.
    "parquet.page.size.row.check.min": "1",
    "parquet.page.size.row.check.max": "1",
    "parquet.block.size.row.check.min": "1",
    "parquet.block.size.row.check.max": "1",
    "parquet.enable.dictionary#payload": "false",
}
"""Options of Spark's Parquet sink. An export reads row groups of 8 MB."""
FILES_PER_BATCH: Final = 8
"""Files of the log, some 4 M events: a micro-batch takes at least a second."""


def spark_session(master: str = "local[*]", log: Path | None = None) -> SparkSession:
    """Return a session for the engine: RocksDB state, no web page, workers with this Python.

    Args:
        master: any Spark master.
        log: log file of the JVM and its workers; None: standard error.

    Raises:
        UserError: no Java 17 or later; the message says what to install.
        SparkFailure: it does not start; only with a ``log``.
    """
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    builder = (
        SparkSession.builder.master(master)
        .appName("slackwater")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", os.environ.get("SLACKWATER_DRIVER_MEMORY", "1g"))
        .config("spark.driver.extraJavaOptions", java_options(os.environ, home))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # The file also gets warnings, e.g. that no worker has enough memory or cores.
        .config("spark.log.level", "ERROR" if log is None else "WARN")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.streaming.stateStore.providerClass", _STATE_STORE)
        # A batch then writes only changes, and does not count rows.
        .config(f"{_ROCKSDB}.changelogCheckpointing.enabled", "true")
        .config(f"{_ROCKSDB}.trackTotalNumberOfRows", "false")
        # Folders are local paths, for which both of Spark's file managers rename a file into place.
        # Its default runs ``readlink`` eight times per file, and a batch has five files. The
        # default also refuses the file of a second driver, which the lock of the folder prevents
        # here.
        .config("spark.sql.streaming.checkpointFileManagerClass", _FILES)
    )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if log is None:
        return builder.getOrCreate()
    with _standard_error_to(log), of_the_jvm(log):
        return builder.getOrCreate()


@contextmanager
def _standard_error_to(log: Path) -> Iterator[None]:
    """Redirect standard error: the JVM inherits it at its start and keeps it."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def uri(path: Path) -> str:
    """Return a path for Spark that does not depend on its default file system.

    Unlike ``Path.as_uri`` it keeps ``%``, which Hadoop takes literally.
    """
    return f"file://{path.resolve()}"


def chained(listed: DataFrame, settings: ChainSettings, log: Path, *, files: bool) -> DataFrame:
    """Return the rows of ``OUTPUT`` of all chains over the frames of ``log`` that are ``listed``.

    ``files``: as for ``PackedAnswers``.
    """
    return listed.groupBy("site").transformWithState(
        statefulProcessor=log_processor(settings, log, files=files),
        outputStructType=OUTPUT,
        outputMode="Append",
        timeMode="None",
    )


def log_processor(settings: ChainSettings, log: Path, *, files: bool) -> SiteProcessor:
    """Return the stateful operator over the reading list of ``log``; ``files``: as ``chained``."""
    answers = partial(PackedAnswers, files=files)
    return SiteProcessor(settings, LogSource(log.resolve()), answers, cache_home())


def due(session: SparkSession, folder: Path, **options: str) -> DataFrame:
    """Return rows of the reading list; each file is one micro-batch.

    Args:
        session: the session.
        folder: folder of the list.
        options: more options of Spark's file source.
    """
    listed = session.readStream.schema(LIST_COLUMNS).options(**options)
    return listed.option("maxFilesPerTrigger", 1).parquet(uri(folder))


def _check_settings(file: Path, settings: ChainSettings) -> None:
    """Refuse settings other than those of the checkpoint, whose state only fits its own."""
    mine = identity_of(settings)
    if not file.exists():
        with whole_file(file) as sink:
            sink.write(mine.encode())
    elif file.read_text(encoding="utf-8") != mine:
        raise UserError(
            f"{file.parent}: was begun with another query, order or other settings; "
            "go on with those, or choose a new folder"
        )


def run_on_spark(
    log: Path,
    settings: ChainSettings,
    out: Path,
    master: str = "local[*]",
    files_per_batch: int = FILES_PER_BATCH,
    advanced: Callable[[int], None] = lambda _rows: None,
) -> dict[str, Any]:
    """Run the chains of all sites over the log on Spark; the counterpart of ``run_in_process``.

    Another call with the same ``out`` continues from the checkpoint: after a crash, or with files
    added to the log since. Files added during a run are left to the next call. On a cluster,
    workers must reach the log and ``out`` under the same paths as the driver. If a busy machine is
    slow to start a worker, the run is tried again, as Spark waits ten seconds only.

    Raises:
        UserError: no Java, not a log, ``out`` was begun with other settings or another log, or a
            part of its results is missing.
        SparkFailure: the Spark query failed; has its last cause.
    """
    with sole_use(out):
        for _ in range(_TRIES - 1):
            with suppress(WorkerLate):
                return _run(log, settings, out, master, files_per_batch, advanced)
        return _run(log, settings, out, master, files_per_batch, advanced)


def _run(
    log: Path,
    settings: ChainSettings,
    out: Path,
    master: str,
    files_per_batch: int,
    advanced: Callable[[int], None],
) -> dict[str, Any]:
    started = time.perf_counter()
    reader = LogReader(log)
    writer = RunWriter(PartStore(out))
    committed = committed_batches(out / CHECKPOINT)
    if committed:
        _check_settings(out / SETTINGS, settings)
        SparkParts(out).check(committed)
    else:
        writer.clear()  # leftovers of the other host, or of a run that ended early
        _check_settings(out / SETTINGS, settings)
    facts = ReadingList(out / READING).extend(reader, files_per_batch, committed)
    batches: list[dict[str, Any]] = []
    tasks: tuple[int, int] | None = None
    if committed < facts.batches:
        batches, tasks = _micro_batches(log, settings, out, master, facts.sites)
    advanced(facts.rows)
    return writer.finish(
        host=f"spark {master}",
        events=facts.rows,
        seconds=time.perf_counter() - started,
        computing=sum(each["seconds"] for each in batches),
        batches=batches,
        tasks=tasks,
    )


def committed_batches(checkpoint: Path) -> int:
    """Return the number of micro-batches that Spark will not repeat; it keeps recent names."""
    folder = checkpoint / "commits"
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) + 1 for name in names if name.isdecimal()), default=0)


def _micro_batches(
    log: Path, settings: ChainSettings, out: Path, master: str, sites: int
) -> tuple[list[dict[str, Any]], tuple[int, int]]:
    """Process the part of the reading list that is not committed.

    Returns:
        rows and seconds of each batch; and the number of tasks, actual and possible.
    """
    with of_the_jvm(out / _SPARK_LOG), logging_to(out / _SPARK_LOG):
        session = spark_session(master, out / _SPARK_LOG)
        possible = max(1, min(sites, session.sparkContext.defaultParallelism))
        tasks = _tasks(out / TASKS, possible)
        session.conf.set("spark.sql.shuffle.partitions", tasks)
        query = (
            chained(due(session, out / READING), settings, log, files=True)
            .writeStream.format("parquet")
            .partitionBy(KIND)
            .options(**_SINK)
            .option("path", uri(out / BY_SPARK))
            .option("checkpointLocation", uri(out / CHECKPOINT))
            .start()
        )
        try:
            wait_for(query.processAllAvailable)
        finally:
            query.stop()
        done = query.recentProgress
    batches = [
        {"frames": each.numInputRows, "seconds": each.durationMs["triggerExecution"] / 1000}
        for each in done
        if each.numInputRows
    ]
    return batches, (tasks, possible)


def _tasks(file: Path, possible: int) -> int:
    """Return the number of tasks; a checkpoint keeps its first number, which is in ``file``."""
    if not file.exists():
        with whole_file(file) as sink:
            sink.write(str(possible).encode())
    return int(file.read_text(encoding="utf-8"))


def part_of(row: Row) -> OutputPart:
    """Return the content of a row of ``OUTPUT``."""
    return OutputPart(row.site, row.kind, bytes(row.payload))
