"""Spark's failures and interruptions: the one cause at the end of what it says, and Ctrl-C."""

from __future__ import annotations

import logging
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from engine.errors import SlackwaterError, SparkFailure, UserError

# From what Spark says of a failed query to the one cause at its end.


_OURS: Final = re.compile(
    r"^(?:\S*: )?engine\.errors\.(UserError|OverBudget|ContractViolation): (.+)$", re.MULTILINE
)
"""An error of ours as a worker's traceback ends."""
_RAISED: Final = re.compile(
    r"^(?:Caused by: )?((?:[\w$]+\.)*[\w$]*(?:Error|Exception)): (.+)$", re.MULTILINE
)
"""The last line of a Python traceback, or the head of a Java one."""

_ENDED: Final = "its JVM has ended"
_LATE: Final = "Python worker failed to connect back"


class WorkerLate(SparkFailure):
    """A worker's Python had not begun after the ten seconds that Spark waits, whatever is set."""


def spark_failure(said: str, log: Path) -> SlackwaterError:
    """The error to raise for a query that failed.

    Args:
        said: by Spark, tracebacks of workers among it.
        log: file that gets it, too.

    Returns:
        ``UserError`` where a worker found the input at fault, else ``SparkFailure``.
    """
    with log.open("a", encoding="utf-8") as file:
        file.write(said)
    ours = _OURS.findall(said)
    if ours:
        kind, message = ours[-1]
        return SparkFailure(message, log) if kind == "ContractViolation" else UserError(message)
    if _LATE in said:
        return WorkerLate(f"a {_LATE.removeprefix('Python ')}; the machine is busy", log)
    raised = _RAISED.findall(said)
    if raised:
        return SparkFailure(": ".join(raised[-1]), log)
    return SparkFailure(said.strip().partition("\n")[0], log)


@contextmanager
def of_the_jvm(log: Path) -> Iterator[None]:
    """Turns errors of calls to the JVM, or of its end, into those of ``spark_failure``.

    Args:
        log: file that has what the JVM says.

    Raises:
        SlackwaterError: as ``spark_failure`` gives it.
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
def told_to(log: Path) -> Iterator[None]:
    """Writes what py4j and PySpark log to ``log``, unless the program has handlers of its own.

    After an error it stays so: their threads go on telling of a JVM that has ended.
    """
    if logging.root.handlers:
        yield
        return
    handler = logging.FileHandler(log, delay=True)
    logging.root.addHandler(handler)
    yield
    logging.root.removeHandler(handler)
    handler.close()


# Waiting for Spark so that Ctrl-C ends it in good order.
#
# PySpark's own handler calls the JVM from within whatever call Ctrl-C meets; that breaks the
# connection and prints a hundred lines. Here a thread waits, and the one that Ctrl-C meets does
# not.


_LOOK_SECONDS = 0.2


def wait_for(done: Callable[[], None]) -> None:
    """Calls ``done`` and waits until it returns; what it raises is raised here.

    Raises:
        KeyboardInterrupt: Ctrl-C; ``done`` is then left to end by itself.
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
        # What is under way ends with an error that nobody needs to read.
        logging.getLogger().setLevel(logging.CRITICAL + 1)
        raise
    if failed:
        raise failed[0]
