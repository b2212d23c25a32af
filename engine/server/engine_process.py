"""Engine and sinks as child processes of the server, which never waits for them.

The engine is informed how far the log is durable, and returns lines of answers for the live page.
The sinks read the files of answers. A child that ends by itself is restarted with a growing delay:
the cause may be fixed meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from abc import ABC, abstractmethod
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from slackwater.edge_agent.settings_file import Table
from slackwater.engine.core.child_process import HEAD, TELL, ChildTask
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.java import need_spark
from slackwater.engine.hosts.live.program import (
    COMPILING,
    FAILED,
    LINES,
    RUNS,
    SAVED,
    WAITS,
    Task,
)
from slackwater.engine.hosts.live.questions import LOG, NOW, Questions
from slackwater.engine.hosts.options import statement_text
from slackwater.engine.log.retention import Limits
from slackwater.engine.server.overview import AnswersState
from slackwater.engine.sinks.program import FIGURES, SinkTask

# ``[engine]``, ``[answers]`` and ``[[query]]`` of a site's settings.


KINDS: Final = ("spark", "embedded", "none")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
CERTAINTIES: Final = ("pairwise", "max-delay", "max-delay-r19")
_EMBEDDED: Final = 'kind = "embedded" in [engine], or --engine embedded'
_SAVE_NS: Final = 10 * 10**9
_PARQUET_NS: Final = 60 * 10**9
_AGE_LEAST_NS: Final = 60 * 10**9
_BYTES_LEAST: Final = 1 << 20
_UNREAD: Final = ("keep", "delete")


def read_engine(whole: Table, folder: Path, log: Path, kind: str | None) -> Task | None:
    """Read the sections of the file; None: no queries, or no engine.

    Args:
        whole: the file.
        folder: the folder to which file names are relative.
        log: the arrival log.
        kind: kind of the engine, instead of the file's; None: as in the file.

    Raises:
        SettingsError: a wrong setting in the tables.
        UserError: a query or an option is invalid; names it.
    """
    keep = read_limits(whole.table("answers"))
    table = whole.table("engine")
    tables = whole.tables("query")
    queries = _queries(tables, folder)
    said = table.text("kind", "spark", among=KINDS)
    defaults = Questions(queries=())
    options: dict[str, Any] = {
        name: table.text(name, getattr(defaults, name))
        for name in ("order", "purge", "intervals", "joins", "guard", "time_unit")
    }
    for name in ("barrier", "spill", "window", "monitor"):
        options[name] = table.text(name, "") or None
    options["clock"] = tuple(table.texts("clock", []))
    references = whole.tables("table")
    options["table"] = _reference_tables(references, folder)
    options["matches_max"] = table.integer("matches_max", defaults.matches_max, low=1)
    options["late"] = table.flag("late", defaults.late)
    options["certainty"] = table.text("certainty", defaults.certainty, among=CERTAINTIES)
    formats = table.texts("formats", ["jsonl"])
    parquet_every = table.duration_ns("parquet_every", _PARQUET_NS, low=10**6)
    if "jsonl" not in formats or not set(formats) <= {"jsonl", "parquet"}:
        raise table.wrong("formats", 'write ["jsonl"] or ["jsonl", "parquet"]')
    kind = said if kind is None else kind
    from_now = [
        name
        for (name, _), each in zip(queries, tables, strict=True)
        if each.text("begin", LOG, among=(LOG, NOW)) == NOW
    ]
    if from_now and kind == "spark":
        raise table.wrong("kind", f'begin = "now" of query {from_now[0]} needs {_EMBEDDED}')
    task = Task(
        kind=kind,
        log=str(log.resolve()),
        answers=str((folder / table.text("answers", f"{log.name}.answers")).resolve()),
        questions=Questions(queries=queries, **options),
        save_every_s=table.duration_ns("save_every", _SAVE_NS, low=10**6) / 1e9,
        parquet_every_s=parquet_every / 1e9 if "parquet" in formats else 0,
        master=table.text("master", "local[*]"),
        from_now=tuple(from_now),
        keep=keep,
    )
    if queries:
        try:
            task.questions.chain_settings()
        except (UserError, OSError) as error:
            said = (
                f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
            )
            places = {
                f"query {name}": each for (name, _), each in zip(queries, tables, strict=True)
            }
            places |= {str(folder / each.effective["path"]): each for each in references}
            raise _placed(said, table, places) from error
    return task if queries and kind != "none" else None


def read_limits(table: Table) -> Limits:
    """Read the limits on kept answers.

    Raises:
        SettingsError: a wrong setting.
    """
    age_ns = table.duration_ns("keep", 0)
    if 0 < age_ns < _AGE_LEAST_NS:
        raise table.wrong("keep", 'must be at least 1 min; "0 s" keeps all')
    size = table.size("keep_size", 0)
    if 0 < size < _BYTES_LEAST:
        raise table.wrong("keep_size", 'must be at least 1 MiB; "0 B" keeps all')
    unread = table.text("unread", "keep", among=_UNREAD) == "delete"
    return Limits(age_ns=age_ns, bytes=size, unread=unread)


def _placed(said: str, engine: Table, tables: Mapping[str, Table]) -> Exception:
    """Return an error at the query, file or option that the text begins with."""
    for name, table in tables.items():
        if said.startswith(f"{name}: "):
            key = next(key for key in ("text", "file", "path") if key in table.effective)
            return table.wrong(key, said)
    said = said.removeprefix("--")
    word = said.partition(" ")[0]
    return engine.wrong(word, said) if word in engine.effective else UserError(said)


def _queries(tables: list[Table], folder: Path) -> tuple[tuple[str, str], ...]:
    """(name, text) of each query."""
    found: dict[str, str] = {}
    for number, table in enumerate(tables, 1):
        name = _new_name(table, table.text("name", f"q{number}"), found)
        file, text = table.text("file", ""), table.text("text", "")
        if bool(file) == bool(text):
            raise table.wrong("text", "give text or file, and one of them")
        path = folder / file
        try:
            found[name] = statement_text(path, "query") if file else text
        except UserError as error:
            raise table.wrong("file", str(error)) from error
    return tuple(found.items())


def _reference_tables(tables: list[Table], folder: Path) -> tuple[str, ...]:
    """NAME=FILE of each ``[[table]]``."""
    found: dict[str, Path] = {}
    for table in tables:
        name = _new_name(table, table.text("name"), found)
        found[name] = folder / table.text("path")
    return tuple(f"{name}={path}" for name, path in found.items())


def _new_name(table: Table, name: str, known: Collection[str]) -> str:
    """Check that ``name`` is valid as a folder name and not in ``known``; return it."""
    if not _NAME.fullmatch(name):
        raise table.wrong("name", f"{name!r} is to be a name: letters, digits, _ - .")
    if name in known:
        raise table.wrong("name", f"{name!r} is there twice")
    return name


def spark_ready() -> None:
    """Check that Spark can run here.

    Raises:
        UserError: it cannot; names what to install, or how to answer without Spark.
    """
    try:
        need_spark(f"answer without Spark: {_EMBEDDED}")
    except UserError as error:
        raise UserError(f"[engine] kind spark: {error}") from error


# Processes of the server.


OnResults = Callable[[Sequence[bytes]], None]
"""Takes new lines of answers, each a JSON object without its newline."""
_AGAIN_S: Final = (1.0, 15.0)
"""Waits between restarts [s]: the first, and the longest."""
_AGAIN_AFTER_ANSWERS_S: Final = 4.0
"""Longest wait after a run that produced answers, so that answers return soon [s]."""
ENDED: Final = 1
_STEADY_S: Final = 60.0
"""A process that ran this long is restarted with the shortest wait [s]."""
STOP_S: Final = 45.0
"""Longest time to finish pending work when the server stops, for example the log [s]."""
COMPILING_STOP_S: Final = 240.0
"""The same while queries compile, which would be lost and repeated at the next start [s]."""


class ChildProcess(ABC):
    """A child process, from ``start`` to ``stop`` on one event loop; it is restarted when it ends
    by itself. The end of its standard input tells it to stop.

    Args:
        module: module to run.
        name: for messages.
        task: what it must do.
        tell: takes a line for people.
    """

    unfinished = "not all is done yet; the next start goes on"
    """Message if the process was killed, or was waiting for its next start."""

    def __init__(
        self, module: str, name: str, task: ChildTask, tell: Callable[[str], None]
    ) -> None:
        self._module = module
        self._name = name
        self._task = task
        self._tell = tell
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._was_at_work = False
        self._before: set[str] = set()
        self._said: set[str] = set()
        """Lines of this run and the previous one: repeated lines are reported once."""
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the process."""
        self._running = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop the process: return when it has finished its work, or took too long."""
        assert self._running is not None
        self._stopping.set()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        if not await self._ended_in_time(self._running) and self._process is not None:
            self._process.kill()
        await self._running

    async def _ended_in_time(self, running: asyncio.Task[None]) -> bool:
        done, _ = await asyncio.wait([running], timeout=STOP_S)
        return bool(done)

    @abstractmethod
    def _take(self, kind: bytes, content: bytes) -> None:
        """Handle a message of the process."""

    async def _hear(self, stdout: asyncio.StreamReader) -> None:
        """Read the messages of the process.

        Raises:
            IncompleteReadError: it has ended, perhaps within a message.
        """
        while True:
            head = await stdout.readexactly(HEAD)
            content = await stdout.readexactly(int.from_bytes(head[1:], "big"))
            if head[:1] == TELL:
                self._say(content.decode())
            else:
                self._take(head[:1], content)

    def _begin(self, process: Process) -> None:
        """Called after each start of the process."""
        assert process.stdin is not None
        process.stdin.write(self._task.as_line())

    def _end(self) -> None:
        """Called after each end of the process."""
        self._process = None

    def _say(self, line: str) -> None:
        """Report a line, unless the previous run did: it may end four times a minute, for days."""
        if line not in self._before:
            self._tell(line)
        self._said.add(line)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = _AGAIN_S[0]
        while not self._stopping.is_set():
            begun, self._was_at_work = loop.time(), False
            code = await self._once()
            if self._stopping.is_set():
                if not code:
                    return
                break
            if loop.time() - begun > _STEADY_S:
                wait_s, self._before = _AGAIN_S[0], set()
            if self._was_at_work:
                wait_s = min(wait_s, _AGAIN_AFTER_ANSWERS_S)
            self._say(f"{self._name} ended ({code}); starts again in {wait_s:.0f} s")
            self._before, self._said = self._said, set()
            done = asyncio.create_task(self._stopping.wait())
            await asyncio.wait([done], timeout=wait_s)
            done.cancel()
            wait_s = min(2 * wait_s, _AGAIN_S[1])
        # It was killed, or was waiting for its next start or for an earlier server's to end.
        self._tell(self.unfinished)

    async def _once(self) -> int:
        """Run the process once; return its exit code."""
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self._module, stdin=PIPE, stdout=PIPE,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._tell(f"{self._name} cannot be started: {error.strerror}")
            return ENDED
        self._begin(process)
        if self._stopping.is_set() and process.stdin is not None:
            process.stdin.close()
        assert process.stdout is not None
        with suppress(asyncio.IncompleteReadError):
            await self._hear(process.stdout)
        self._end()
        return await process.wait()


class EngineProcess(ChildProcess):
    """The engine that answers the queries.

    Args:
        task: what it must do.
        tell: takes a line for people.
        on_results: takes new answers.
        state: updated here.
    """

    unfinished = "answers: not all are written yet; the next start goes on"

    def __init__(
        self, task: Task, tell: Callable[[str], None], on_results: OnResults, state: AnswersState
    ) -> None:
        module = "slackwater.engine.hosts.live.program"
        super().__init__(module, "answers: the engine", task, tell)
        self._number = task.durable
        self.saved = 0
        """Number of the newest log file that is no longer needed, not even for a restart."""
        self._on_results = on_results
        self._state = state
        state.running = False
        self._compiled_at = -COMPILING_STOP_S

    def durable(self, number: int) -> None:
        """Record that the log is durable up to the file ``number``."""
        self._number = number
        if self._process is not None and not self._stopping.is_set():
            self._say_number(self._process)

    async def _ended_in_time(self, running: asyncio.Task[None]) -> bool:
        now = asyncio.get_running_loop().time
        begun, reported = now(), False
        while (left := max(begun, self._compiled_at) + STOP_S - now()) > 0:
            if now() > begun + COMPILING_STOP_S:
                break
            done, _ = await asyncio.wait([running], timeout=min(left, 1.0))
            if done:
                return True
            if self._compiled_at > begun and not reported:
                reported = True
                self._tell("answers: waits until the engine has compiled, which is kept")
        return False

    def _begin(self, process: Process) -> None:
        super()._begin(process)
        self._say_number(process)  # also before a stop: it answers the whole log first

    def _say_number(self, process: Process) -> None:
        assert process.stdin is not None
        if self._number:
            process.stdin.write(b"%d\n" % self._number)

    def _end(self) -> None:
        super()._end()
        self._state.running = False

    def _take(self, kind: bytes, content: bytes) -> None:
        if kind == LINES:
            self._on_results(content.splitlines())
        elif kind == SAVED:
            self.saved = int(content)
        elif kind == FAILED:
            self._state.failed = json.loads(content)
        elif kind == RUNS:
            self._state.running = self._was_at_work = True
        elif kind == WAITS:
            self._state.running = False
        elif kind == COMPILING:
            self._compiled_at = asyncio.get_running_loop().time()


class SinksProcess(ChildProcess):
    """The process of the sinks, which deliver answers to other programs.

    Args:
        task: what they must do.
        tell: takes a line for people.
        state: updated here.
    """

    unfinished = "sinks: not all is delivered yet; the next start goes on"

    def __init__(self, task: SinkTask, tell: Callable[[str], None], state: AnswersState) -> None:
        super().__init__("slackwater.engine.sinks.program", "sinks: their process", task, tell)
        self._state = state

    def _take(self, kind: bytes, content: bytes) -> None:
        if kind == FIGURES:
            self._was_at_work = True
            self._state.sinks = json.loads(content)
