"""The engine's process, ``python -m slackwater.engine.hosts.live.program``, started by
``serve``.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slackwater.engine.core.child_process import ChildTask, Notices, ServerMessages, begin_child
from slackwater.engine.core.errors import SlackwaterError
from slackwater.engine.core.units import unit_ns
from slackwater.engine.hosts.live.embedded import EmbeddedEngine, EnginePlace, LogWatch
from slackwater.engine.hosts.live.questions import (
    QueryGroup,
    Questions,
    check_claim,
    claim,
    query_groups,
)
from slackwater.engine.kernels.jit import loading, when_compiling
from slackwater.engine.log.log_folder import retired
from slackwater.engine.log.retention import Limits
from slackwater.engine.log.whole_file import sync_folder
from slackwater.engine.output.answer_files import AnswerLines, AnswerTables
from slackwater.engine.output.durability import AnswersDamaged
from slackwater.engine.output.part_store import wait_for_sole_use
from slackwater.engine.output.run_writer import Failed, FailedQueries, LiveAnswers, check_begin
from slackwater.engine.query.results_as_events import time_labels

if TYPE_CHECKING:
    from slackwater.engine.hosts.chain import ChainSettings
    from slackwater.engine.hosts.spark.live_engine import SparkEngine


# The process that computes answers; the server starts it.
#
# Notices are numbers of the log's last durable file. Kinds of messages: ``LINES`` (new answers),
# ``SAVED`` (number of the log's file after which a restart continues), ``FAILED`` (all failed
# queries, as JSON), ``RUNS`` (it is at work), ``WAITS`` (for the disk, until it runs again),
# ``COMPILING`` (repeatedly during compilation). A crash at any point does no harm.


LINES: Final = b"L"
SAVED: Final = b"S"
FAILED: Final = b"F"
RUNS: Final = b"R"
WAITS: Final = b"W"
COMPILING: Final = b"C"
STATE: Final = ".state"
ATTRIBUTES: Final = "attributes"
"""File with the attributes of the log's events so far, for Spark."""
_RETRY_S: Final = 1.0
_COMPILING_EVERY_S: Final = 1.0
_IDLE_S: Final = 1.0
_FILES_AT_ONCE: Final = 16
"""Files of the log that a group of queries reads before another group's turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(ChildTask):
    """The task of the process. ``parquet_every_s`` 0: no tables."""

    kind: str
    log: str
    answers: str
    questions: Questions
    save_every_s: float
    parquet_every_s: float
    master: str
    from_now: tuple[str, ...] = ()
    """New queries that begin after the log's file ``durable``."""
    durable: int = 0
    """Number of the log's last file when the task was created."""
    keep: Limits = Limits()  # noqa: RUF009 - frozen
    """Limits of the answers."""


class _OverError(Exception):
    """The process must end while a write is to be retried."""


def main() -> int:
    """Run until standard input ends; return the exit code."""
    connection = begin_child(Task)
    if connection is None:
        return 0
    task, notices, outlet = connection
    when_compiling.append(
        lambda: outlet.tell(
            "answers: compiling, once for these queries: half a minute to three minutes"
        )
    )
    _say_while_compiling(outlet)
    try:
        with ExitStack() as stack:
            state = Path(task.answers) / STATE
            if not wait_for_sole_use(state, stack, notices.over_within, outlet.tell):
                return 1
            outlet.send(RUNS)
            _run(task, notices, outlet)
    except _OverError:
        return 1
    except (SlackwaterError, AnswersDamaged) as error:  # the server starts it again
        outlet.tell(f"answers: {error}")
        return 1
    return 0


def _say_while_compiling(outlet: ServerMessages) -> None:
    """Send ``COMPILING`` from a thread: the server waits, as a kill would lose compiled code."""

    def say() -> None:
        while True:
            time.sleep(_COMPILING_EVERY_S)
            if loading.is_on:
                outlet.send(COMPILING)

    threading.Thread(target=say, name="compiling", daemon=True).start()


def _run(task: Task, notices: Notices, outlet: ServerMessages) -> None:
    log, folder = Path(task.log), Path(task.answers)
    settings = task.questions.chain_settings()  # before there is anything to do
    patient = _patient(folder, notices, outlet)
    if task.kind == "spark":
        _begin_spark(task)
    if not notices.beyond(0, None):
        return
    sync_folder(log)  # makes the rename of a killed server durable
    of_each = task.questions.of_each()
    patient(lambda: check_claim(folder, log, of_each))
    groups = [QueryGroup(state=task.kind, begin=0, queries=task.questions.queries)]
    if task.kind == "embedded":
        groups = patient(
            lambda: query_groups(
                folder / STATE, task.kind, task.questions, task.from_now, task.durable
            )
        )
    begins = {name: group.begin for group in groups for name, _ in group.answered}
    patient(lambda: claim(folder, log, of_each, begins))
    at_once = _FILES_AT_ONCE if len(groups) > 1 else None
    engines = list(map(_GroupEngine(task, settings, patient, outlet, at_once).of, groups))
    gc.collect()
    gc.freeze()  # loaded objects stay: scanning them takes 0.1 s, which delays answers
    watch = None
    if task.kind == "spark":
        watch = LogWatch(settings, log, folder / STATE / ATTRIBUTES, engines[0].done)
    _answer(engines, watch, patient, notices, outlet)
    for engine in engines:
        patient(engine.close)


def _answer(
    engines: list[EmbeddedEngine | SparkEngine], watch: LogWatch | None,
    patient: Callable[[Callable[[], Any]], Any], notices: Notices, outlet: ServerMessages,
) -> None:  # fmt: skip
    """Process notices until no more come and all files are answered."""
    saved, caught_up = -1, False
    while True:
        now_saved = min(engine.saved for engine in engines)
        if now_saved != saved:
            saved = now_saved
            outlet.send(SAVED, b"%d" % saved)
        if not caught_up or notices.beyond(min(engine.done for engine in engines), _IDLE_S):
            number = notices.number
            if watch is not None:
                patient(partial(watch.see, engines[0].done, number))
            for engine in engines:
                engine.upto(number)
            if watch is not None and not caught_up:
                for line in watch.missing():
                    outlet.tell(f"warning: {line}, so far")
            caught_up = True
        elif notices.ended:
            return
        else:
            for engine in engines:
                engine.idle()


@dataclass(frozen=True)
class _GroupEngine:
    """Creates the engine of a group of queries."""

    task: Task
    settings: ChainSettings
    """Settings of all queries together."""
    patient: Callable[[Callable[[], Any]], Any]
    outlet: ServerMessages
    files_at_once: int | None
    failed: dict[str, list[Failed]] = field(default_factory=dict)
    """Failed queries of all groups, by the names of their states."""

    def of(self, group: QueryGroup) -> EmbeddedEngine | SparkEngine:
        """Return an engine that continues from the group's state, or begins."""
        task, tell = self.task, self.outlet.tell
        # Late and quarantined events are equal for all queries: the first chain reports them.
        late = task.questions.late and group.state == task.kind
        questions = replace(task.questions, queries=group.queries, late=late)
        if questions == task.questions:
            questions, settings = task.questions, self.settings  # its tables are read
        else:
            settings = questions.chain_settings()
        log, state = Path(task.log), Path(task.answers) / STATE / group.state
        opened = partial(self._opened, group, questions.folders, time_labels(settings.plans))
        if task.kind == "embedded":
            place = EnginePlace(
                log, state, task.save_every_s, begin=group.begin, files_at_once=self.files_at_once
            )
            return EmbeddedEngine(place, settings, opened, tell)
        # pyspark and a JVM only on request
        from slackwater.engine.hosts.spark.live_engine import SparkEngine  # noqa: PLC0415

        return SparkEngine(log, state, settings, opened, task.master, tell)

    def _opened(
        self, group: QueryGroup, names: Collection[str], times: Mapping[str, Collection[str]],
        known: dict[str, Any],
    ) -> LiveAnswers:  # fmt: skip
        task, tell, silent = self.task, self.outlet.tell, group.silent_statements
        log, folder = Path(task.log), Path(task.answers)
        names = [name for name in names if name not in silent]
        if not known:
            check_begin(log, folder, names, group.begin)
        lines = AnswerLines(
            folder, names, known.get("lines", {}), tell, known.get("numbers", {}), task.keep
        )
        unit, tables = unit_ns(task.questions.time_unit), None
        if task.parquet_every_s:
            tables = AnswerTables(
                folder, known.get("tables", {}), task.parquet_every_s, unit, times, tell
            )

        def changed(failed: list[Failed]) -> None:
            self.failed[group.state] = failed
            every = [each for mine in self.failed.values() for each in mine]
            self.outlet.send(FAILED, json.dumps(every).encode())

        failed = FailedQueries(
            folder, names, known.get("failed"), again=retired(log).upto <= group.begin, tell=tell,
            changed=changed,
        )  # fmt: skip
        return LiveAnswers(
            lines,
            tables,
            unit,
            times,
            partial(self.outlet.send, LINES),
            self.patient,
            failed,
            silent,
        )


def _begin_spark(task: Task) -> None:
    """Start Spark before there is input, as that takes seconds."""
    from slackwater.engine.hosts.spark.host import spark_session  # noqa: PLC0415
    from slackwater.engine.hosts.spark.live_engine import spark_log  # noqa: PLC0415

    log = spark_log(Path(task.answers) / STATE / task.kind)
    with log.open("ab") as file:  # output of its libraries, e.g. when the JVM ends
        os.dup2(file.fileno(), sys.stderr.fileno())
    spark_session(task.master, log)


def _patient(
    folder: Path, notices: Notices, outlet: ServerMessages
) -> Callable[[Callable[[], Any]], Any]:
    """Return a function that retries a call each second after an OSError, e.g. on a full disk.

    Nothing is answered meanwhile.
    """

    def call(what: Callable[[], Any]) -> Any:
        reported = False
        while True:
            try:
                done = what()
            except OSError as error:
                if not reported:
                    outlet.tell(
                        f"answers in {folder} wait: {error.strerror}; tried again each second"
                    )
                    outlet.send(WAITS)
                reported = True
            else:
                if reported:
                    outlet.tell(f"answers in {folder} are written again")
                    outlet.send(RUNS)
                return done
            if notices.over_within(_RETRY_S):
                raise _OverError

    return call


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
