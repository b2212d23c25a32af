"""Host of the chains on Spark: the arrival log through Spark's file source, results to Parquet.

One stateful operator per site, RocksDB state store, checkpoint, and a sink that replaces a batch
written again: after a crash the same call goes on without loss or double results.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from engine.cache_home import cache_home
from engine.chain import ChainSettings
from engine.cli.java import java_home
from engine.errors import SlackwaterError, UserError
from engine.log.arrival_log import LOG_SCHEMA, LogReader
from engine.log.replay import log_facts, order_by_time
from engine.log.whole_file import whole_file
from engine.results.run_writer import Part, RunWriter
from engine.spark.class_archive import java_options
from engine.spark.processor import OUTPUT, SiteChain
from engine.spark.staged import Staged

_LOG_COLUMNS: Final = (
    "site string, first_arrival long, last_arrival long, rows long, payload binary"
)
_STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_ROCKSDB: Final = "spark.sql.streaming.stateStore.rocksdb"
_END: Final = "frames-end.parquet"
_SETTINGS: Final = "settings.txt"
_STAGED: Final = "staged"
FILES_PER_BATCH: Final = 8
"""Of the log, some 4 M events: a micro-batch costs more than a second whatever it holds."""


def spark_session(master: str = "local[*]", log: Path | None = None) -> SparkSession:
    """A session with what the engine needs: RocksDB state, no web page, workers of this Python.

    Args:
        master: any Spark master.
        log: file for what the JVM and its workers say; None = standard error.

    Raises:
        UserError: no Java 17 or later; says what to install.
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
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executorEnv.SLACKWATER_CACHE", str(cache_home()))
        .config("spark.sql.streaming.stateStore.providerClass", _STATE_STORE)
        # A batch then writes only what changed, and need not know how much there was before.
        .config(f"{_ROCKSDB}.changelogCheckpointing.enabled", "true")
        .config(f"{_ROCKSDB}.trackTotalNumberOfRows", "false")
    )
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with _standard_error_to(log):
        return builder.getOrCreate()


@contextmanager
def _standard_error_to(log: Path | None) -> Iterator[None]:
    """The JVM inherits standard error when it starts and keeps it: give it a file instead."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _chained(frames: DataFrame, settings: ChainSettings, log: Path, staged: Path) -> DataFrame:
    """Every site's chain over ``frames`` of ``log`` (columns site, file, place, rows)."""
    return frames.groupBy("site").transformWithState(
        statefulProcessor=SiteChain(settings, log.resolve(), staged.resolve(), cache_home()),
        outputStructType=OUTPUT,
        outputMode="Append",
        timeMode="None",
    )


def _frames(session: SparkSession, folder: Path, files_per_batch: int) -> DataFrame:
    """Frames of the log files in ``folder``, each with its place in the log."""
    return (
        session.readStream.schema(_LOG_COLUMNS)
        .option("maxFilesPerTrigger", files_per_batch)
        .parquet(str(folder))
        .select(
            "site",
            F.col("_metadata.file_name").alias("file"),
            F.col("_metadata.row_index").alias("place"),
            "rows",
        )
    )


def _write_end(folder: Path, sites: Sequence[str]) -> None:
    """Say that the input is over: one row without payload per site, read after everything else."""
    rows = [
        {"site": site, "first_arrival": 0, "last_arrival": 0, "rows": 0, "payload": b""}
        for site in sites
    ]
    with whole_file(folder / _END) as sink:
        pq.write_table(pa.Table.from_pylist(rows, schema=LOG_SCHEMA), sink)


def _check_settings(file: Path, settings: ChainSettings) -> None:
    """A checkpoint holds state of chains with certain settings; others could not go on with it."""
    mine = repr(settings)
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
    """Run the chains of every site over the log on Spark; the twin of ``run_in_process``.

    Called again with the same ``out`` after a crash, it goes on from the checkpoint. On a cluster,
    workers must reach the log and ``out`` under the same paths as the driver.

    Raises:
        UserError: no Java, not a log, or ``out`` was begun with other settings.
        SlackwaterError: the Spark query failed; carries its message.
    """
    started = time.perf_counter()
    reader = LogReader(log)
    order_by_time(reader)
    facts = log_facts(reader)
    end, checkpoint = out / "end", out / "checkpoint"
    end.mkdir(parents=True, exist_ok=True)
    _check_settings(out / _SETTINGS, settings)
    session = spark_session(master, out / "spark.log")
    # More tasks than sites would have nothing to do; a checkpoint keeps the number it began with.
    tasks = max(1, min(len(facts.sites), session.sparkContext.defaultParallelism))
    session.conf.set("spark.sql.shuffle.partitions", tasks)
    writer, staged = RunWriter(out), Staged(out / _STAGED)
    staged.clear()

    # A batch with the last frames may have the end, too; a batch of its own costs a second.
    ends_first = len(reader.files) <= files_per_batch
    if ends_first:
        _write_end(end, facts.sites)
    frames = _frames(session, log, files_per_batch).union(_frames(session, end, 1))
    query = (
        _chained(frames, settings, log, out / _STAGED)
        .writeStream.foreachBatch(_sink(writer, staged))
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    try:
        query.processAllAvailable()
        advanced(facts.rows)
        if not ends_first:
            _write_end(end, facts.sites)
            query.processAllAvailable()
    except Exception as error:
        raise SlackwaterError(
            f"the Spark query failed: {_first_line(error)}; all of it is in {out / 'spark.log'}"
        ) from error
    finally:
        query.stop()
    staged.remove()
    return writer.finish(
        host=f"spark {master}",
        events=facts.rows,
        seconds=time.perf_counter() - started,
        batches=[
            {"frames": each.numInputRows, "seconds": each.durationMs["triggerExecution"] / 1000}
            for each in query.recentProgress
            if each.numInputRows
        ],
    )


def _sink(writer: RunWriter, staged: Staged) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, batch_id: int) -> None:
        staged.clear()
        # Sorted here: a sort in Spark samples its input first, and so runs the chains twice.
        rows = sorted(batch.collect(), key=lambda row: (row.site, row.number))
        writer.write(batch_id, [_part(row, staged) for row in rows])

    return write


def _part(row: Row, staged: Staged) -> Part:
    payload = staged.get(row.staged) if row.staged else bytes(row.payload)
    return Part(row.site, row.kind, payload)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
