"""Programs that run sinks: a server's process, and ``slackwater query --sink``."""

from __future__ import annotations

import json
import re
import shlex
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote, urlsplit

from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.settings_file import Kind, Table, read_kinds, read_toml, unknown
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.core.child_process import ChildTask, Notices, ServerMessages, begin_child
from slackwater.engine.core.errors import SlackwaterError, UserError
from slackwater.engine.output.answer_files import site_file
from slackwater.engine.output.answer_retention import SUFFIX
from slackwater.engine.output.part_store import wait_for_sole_use
from slackwater.engine.sinks.base import MakeReceiver, SinkSettings
from slackwater.engine.sinks.forwarding import FOLDER, QUERY_FILE, Forwarder, SinkFigures

# The kinds of sink, found as entry points of the group ``slackwater.sinks``.


GROUP: Final = "slackwater.sinks"
_KINDS: Final = "slackwater.engine.sinks.kinds"
OURS: Final[dict[str, Kind]] = {
    "exec": Kind(f"{_KINDS}:exec_sink"),
    "http": Kind(f"{_KINDS}:http_sink"),
    "mqtt": Kind("slackwater.engine.sinks.mqtt:mqtt_sink", ("mqtt",)),
    "postgres": Kind("slackwater.engine.sinks.postgres:postgres_sink", ("postgres",)),
}
_START: Final = "start"
_NOW: Final = "now"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")


def read_sinks(
    tables: Sequence[Table], folders: Collection[str] | None
) -> tuple[SinkSettings, ...]:
    """Create the sinks that the ``[[sink]]`` tables describe.

    Args:
        tables: one per sink.
        folders: names of all queries with answers; None: unknown.

    Raises:
        SettingsError: a wrong setting, a duplicate name, or a package that is not installed.
    """
    found = []
    for name, table, maker in read_kinds(tables, OURS, GROUP, "sinks"):
        if not _NAME.fullmatch(name):
            raise table.wrong("name", f"{name!r} is part of names of files: letters, digits, _ -")
        make: MakeReceiver = maker
        queries = tuple(table.texts("queries", []))
        for query in queries:
            if folders is not None and query not in folders:
                raise table.wrong("queries", unknown(query, folders))
        retry = table.duration_ns("retry", NS_PER["s"], low=NS_PER["ms"])
        retry_max = table.duration_ns("retry_max", max(60 * NS_PER["s"], retry), low=retry)
        found.append(
            SinkSettings(
                name=name,
                kind=table.effective["kind"],
                queries=queries or None,
                begins_now=table.text("begin", _START, among=(_START, _NOW)) == _NOW,
                confirmed_only=table.flag("confirmed_only", False),
                settle_s=table.duration_ns("settle", 0) / 1e9,
                batch=table.integer("batch", 100, 1, 100_000),
                behind_max=table.size("behind_max", 1 << 30, low=1),
                retry_s=(retry / 1e9, retry_max / 1e9),
                receiver=make(table, name),
            )
        )
    return tuple(found)


# The process of a server's sinks: ``python -m slackwater.engine.sinks.program``.
#
# ``serve`` starts it, so that receiving, acking and the engine never wait for a receiver. Each sink
# has its own thread. The process sends the sinks' figures every second (``FIGURES``).


FIGURES: Final = b"F"
STOP_S: Final = 5.0
"""Longest time to deliver existing answers when the server stops [s]."""
_FIGURES_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTask(ChildTask):
    """Task of the process.

    ``answers``: folder of answers; ``file``: settings file, for messages; ``tables``: its
    ``[[sink]]`` tables; ``queries``: queries of sinks that name none; ``follows``: by sink, the
    queries that it follows.
    """

    answers: str
    file: str
    tables: tuple[Mapping[str, Any], ...]
    queries: tuple[str, ...]
    follows: Mapping[str, tuple[str, ...]]

    def sinks(self) -> tuple[SinkSettings, ...]:
        """The sinks of the tables, which the server has checked."""
        tables = [Table(values, self.file, "sink") for values in self.tables]
        return read_sinks(tables, None)


def main() -> int:
    """Run until standard input ends; return the exit code."""
    child = begin_child(SinkTask)
    if child is None:
        return 0
    task, notices, outlet = child
    answers = Path(task.answers)
    with ExitStack() as stack:
        try:
            folder = answers / FOLDER
            if not wait_for_sole_use(folder, stack, notices.over_within, outlet.tell, "the sinks"):
                return 1
            forwarders = [
                Forwarder(sink, answers, task.queries, outlet.tell) for sink in task.sinks()
            ]
        except (SlackwaterError, SettingsError) as error:  # the server restarts the process
            outlet.tell(f"sinks: {error}")
            return 1
        return _run(forwarders, notices, outlet)


def _run(forwarders: list[Forwarder], notices: Notices, outlet: ServerMessages) -> int:
    stopping = threading.Event()
    faults: list[str] = []

    def forward(forwarder: Forwarder) -> None:
        try:
            forwarder.run(stopping)
        except Exception:
            faults.append(traceback.format_exc())

    threads = [
        threading.Thread(target=forward, args=(each,), name=each.figures.name, daemon=True)
        for each in forwarders
    ]
    for thread in threads:
        thread.start()

    def say_figures() -> None:
        outlet.send(FIGURES, json.dumps([asdict(each.figures) for each in forwarders]).encode())

    while not faults and not notices.over_within(_FIGURES_S):
        say_figures()
    stopping.set()
    end = time.monotonic() + STOP_S
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0.0))
    say_figures()
    for fault in faults:
        for line in fault.splitlines():
            outlet.tell(f"sinks: {line}")
    return 1 if faults or any(thread.is_alive() for thread in threads) else 0


# One pass of results to a sink: ``slackwater query --sink``.


PATIENCE_S: Final = 60.0
"""Longest time without a successful delivery [s]."""
_OPEN_FILES: Final = 64
_SCHEMES: Final = {
    "http": "http", "https": "http", "mqtt": "mqtt", "mqtts": "mqtt", "postgresql": "postgres",
    "postgres": "postgres",
}  # fmt: skip
_EXEC: Final = "exec:"


class _Patience:
    """A ``Stopping`` that is set when nothing was delivered for too long."""

    def __init__(self, figures: SinkFigures) -> None:
        self._figures = figures
        self._seen = 0
        self._left_s = PATIENCE_S

    def is_set(self) -> bool:
        """Return True: all results exist already."""
        return True

    def wait(self, seconds: float) -> bool:
        """Wait unless the time is used up; return whether it is."""
        progress = self._figures.delivered + self._figures.dead
        if progress != self._seen:
            self._seen, self._left_s = progress, PATIENCE_S
        self._left_s -= seconds
        if self._left_s < 0:
            return True
        time.sleep(seconds)
        return False


def read_target(text: str) -> SinkSettings:
    """Make the sink that ``--sink`` names: an address, ``exec:PROGRAM ARGUMENTS``, or a TOML file
    with a ``[[sink]]``.

    Raises:
        UserError: none of these, or a wrong setting in the file.
    """
    try:
        if text.endswith(".toml"):
            whole = read_toml(Path(text))
            tables = whole.tables("sink")
            if len(tables) != 1:
                raise UserError(f"--sink {text}: must have one [[sink]], not {len(tables)}")
        else:
            whole = Table({"sink": [_values(text)]}, "--sink")
            tables = whole.tables("sink")
        (sink,) = read_sinks(tables, None)
        whole.done()
    except SettingsError as error:
        raise UserError(str(error)) from error
    return replace(sink, settle_s=0.0, begins_now=False)  # all results exist already


def _values(text: str) -> dict[str, Any]:
    """The settings in an address."""
    if text.startswith(_EXEC):
        try:
            return {"kind": "exec", "command": shlex.split(text.removeprefix(_EXEC))}
        except ValueError as error:
            raise UserError(f"--sink exec: {error}") from error
    scheme, colon, _ = text.partition("://")
    if not colon or scheme not in _SCHEMES:
        raise UserError(
            "--sink: write http://HOST/PATH, mqtt://HOST:PORT/TOPIC, "
            "postgres://USER@HOST/DATABASE, exec:'PROGRAM ARGUMENTS', or the name of a .toml file "
            "with a [[sink]]"
        )
    kind = _SCHEMES[scheme]
    if kind != "mqtt":
        return {"kind": kind, "url": text}
    try:
        url = urlsplit(text)
    except ValueError as error:
        raise UserError(f"--sink: {error}") from error
    topic = url.path.strip("/")
    return {
        "kind": kind, "url": url._replace(path="").geturl(), **({"topic": topic} if topic else {})
    }  # fmt: skip


def send(results: Path, sink: SinkSettings, folder: Path, tell: Callable[[str], None]) -> int:
    """Send results, in order within a site and query; return their number.

    Keys depend on the content: equal results have equal keys.

    Args:
        results: JSON lines of ``slackwater query``, grouped by site and query.
        sink: the target.
        folder: for temporary files.
        tell: takes a line for people.

    Raises:
        SlackwaterError: some could not be delivered; says how many were.
    """
    queries, count = _as_answers(results, folder)
    dead = Path(f"{sink.name}.dead.jsonl")
    forwarder = Forwarder(sink, folder, queries, tell, dead=dead)
    forwarder.run(_Patience(forwarder.figures))
    figures = forwarder.figures
    if figures.dead:
        raise SlackwaterError(
            f"--sink: {figures.dead:,} of {count:,} results were refused, and are in {dead} with "
            f"the reason; {figures.delivered:,} are delivered"
        )
    if figures.behind_bytes:
        raise SlackwaterError(
            f"--sink: {figures.delivered:,} of {count:,} results are delivered: "
            f"{figures.waits}; the same command sends all of them, with the same keys"
        )
    return figures.delivered


def _as_answers(results: Path, folder: Path) -> tuple[list[str], int]:
    """Write results as a server's engine does; return the queries and the number of results."""
    digest, count = blake2b(digest_size=16), 0
    queries: dict[str, str] = {}
    with results.open("rb") as lines, ExitStack() as stack:
        files: dict[tuple[str, str], BinaryIO] = {}
        for line in lines:
            result = json.loads(line)
            key = result["query"], result["site"]
            if key not in files:
                if len(files) == _OPEN_FILES:
                    stack.close()
                    files.clear()
                name = quote(key[0], safe="")
                (folder / name).mkdir(parents=True, exist_ok=True)
                queries[name] = key[0]
                place = folder / name / f"{site_file(key[1])}{SUFFIX}"
                files[key] = stack.enter_context(place.open("ab"))
            files[key].write(line)
            digest.update(line)
            count += 1
    for name in queries:
        (folder / name / QUERY_FILE).write_text(digest.hexdigest(), encoding="ascii")
    return [*queries], count


if __name__ == "__main__":
    sys.exit(main())
