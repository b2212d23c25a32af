"""What is said of a run on Spark that failed, and Ctrl-C while Spark works."""

from __future__ import annotations

import logging
import os
import re
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.core.errors import SparkFailure, UserError
from slackwater.engine.hosts.pipeline import work_folder
from slackwater.engine.hosts.spark.host import spark_failure, wait_for

HEAD = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted.
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 4.0 failed
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3122)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 3421, in main
    process()
"""
TAIL = "\n\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:600)\n"


@pytest.mark.parametrize(
    ("raised", "cause"),
    [
        (
            "slackwater.engine.core.errors.ContractViolation: site 'a': it is so",
            "site 'a': it is so",
        ),
        ("ZeroDivisionError: division by zero", "ZeroDivisionError: division by zero"),
        ("numba.core.errors.TypingError: no", "numba.core.errors.TypingError: no"),
    ],
)
def test_the_last_cause_is_shown_and_the_log_has_all(
    raised: str, cause: str, tmp_path: Path
) -> None:
    log = tmp_path / "spark.log"
    log.write_text("what the JVM said\n")
    failure = spark_failure(HEAD + raised + TAIL, log)
    assert isinstance(failure, SparkFailure)
    assert str(failure) == f"the run on Spark failed: {cause}; all of it is in {log}"
    assert log.read_text() == "what the JVM said\n" + HEAD + raised + TAIL


def test_without_a_python_cause_the_last_of_the_jvm_is_shown(tmp_path: Path) -> None:
    said = HEAD.rpartition("Caused by")[0] + "Caused by: java.io.IOException: No space left" + TAIL
    failure = spark_failure(said, tmp_path / "spark.log")
    assert "java.io.IOException: No space left" in str(failure)
    assert "Query terminated" in str(spark_failure("Query terminated\nat x", tmp_path / "s.log"))


def test_a_master_out_of_reach_is_the_cause_and_not_what_spark_raises_then(tmp_path: Path) -> None:
    said = (
        "An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.\n"
        ": java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n\tat x"
    )
    log = tmp_path / "spark.log"
    assert "IllegalStateException: Cannot call" in str(spark_failure(said, log))
    with log.open("a") as file:
        file.write(
            "26/11/29 15:41:43 ERROR StandaloneSchedulerBackend: Application has been killed. "
            "Reason: All masters are unresponsive! Giving up.\n26/11/29 15:41:43 ERROR x\n"
        )
    assert "failed: All masters are unresponsive! Giving up.; all" in str(spark_failure(said, log))
    later = "Caused by: java.io.IOException: No space left"  # of another run, into the same file
    assert "failed: java.io.IOException: No space left; all" in str(spark_failure(later, log))


@pytest.mark.parametrize("kind", ["UserError", "OverBudget"])
def test_what_a_worker_finds_wrong_with_the_input_is_the_users_error(
    tmp_path: Path, kind: str
) -> None:
    failure = spark_failure(
        f"{HEAD}slackwater.engine.core.errors.{kind}: f.parquet: damaged{TAIL}", tmp_path / "l"
    )
    assert isinstance(failure, UserError)
    assert str(failure) == "f.parquet: damaged"


def test_the_log_of_a_failure_stays_where_the_message_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fails() -> None:
        with work_folder(None) as folder:
            (folder / "log").mkdir()
            (folder / "spark.log").write_text("all of it")
            raise SparkFailure("why", folder / "spark.log")

    with pytest.raises(
        SparkFailure, match="the run on Spark failed: why; all of it is in"
    ) as reported:
        fails()
    (kept,) = tmp_path.iterdir()
    assert str(reported.value).endswith(str(kept))
    assert kept.read_text() == "all of it"


def test_nothing_else_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for error in (UserError("x"), KeyboardInterrupt()):

        def fails(error: Any = error) -> None:
            with work_folder(None) as folder:
                (folder / "spark.log").write_text("x")
                raise error

        with pytest.raises(type(error)):
            fails()
    assert list(tmp_path.iterdir()) == []
    with (
        pytest.raises(SparkFailure, match=re.escape(str(tmp_path / "w"))),
        work_folder(tmp_path / "w") as folder,
    ):
        raise SparkFailure("why", folder / "spark.log")  # the user's own folder keeps it


def test_it_waits_and_passes_on_what_failed() -> None:
    done: list[int] = []
    wait_for(lambda: done.append(1))
    assert done == [1]

    def fails() -> None:
        raise ValueError("reported")

    with pytest.raises(ValueError, match="reported"):
        wait_for(fails)


def test_an_interrupt_ends_the_waiting_and_not_the_call() -> None:
    """The call goes on in its own thread, which nothing interrupts, until it ends by itself."""
    release, ended = threading.Event(), threading.Event()

    def works() -> None:
        release.wait(30)
        ended.set()

    before = signal.getsignal(signal.SIGINT)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            wait_for(works)
    finally:
        signal.signal(signal.SIGINT, before)
        logging.getLogger().setLevel(logging.WARNING)
    assert time.monotonic() - begun < 20
    assert not ended.is_set()
    release.set()
    assert ended.wait(30)
