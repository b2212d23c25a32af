"""Results of one pass to a sink: what ``slackwater query --sink`` does."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote, urlsplit

from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.settings_file import Table, read_toml
from slackwater.engine.core.errors import SlackwaterError, UserError
from slackwater.engine.output.answer_files import SUFFIX, site_file
from slackwater.engine.sinks.base import SinkSettings, read_sinks
from slackwater.engine.sinks.forwarding import QUERY_FILE, Forwarder, SinkFigures

PATIENCE_S: Final = 60.0
"""So long deliveries may fail one after another."""
_OPEN_FILES: Final = 64
_SCHEMES: Final = {
    "http": "http", "https": "http", "mqtt": "mqtt", "mqtts": "mqtt", "postgresql": "postgres",
    "postgres": "postgres",
}  # fmt: skip
_EXEC: Final = "exec:"


class _Patience:
    """In place of an event that says when to stop: when nothing was delivered for too long."""

    def __init__(self, figures: SinkFigures) -> None:
        self._figures = figures
        self._seen = 0
        self._left_s = PATIENCE_S

    def is_set(self) -> bool:
        """Nothing more will come."""
        return True

    def wait(self, seconds: float) -> bool:
        """Whether it is too long; waits before, if not."""
        progress = self._figures.delivered + self._figures.dead
        if progress != self._seen:
            self._seen, self._left_s = progress, PATIENCE_S
        self._left_s -= seconds
        if self._left_s < 0:
            return True
        time.sleep(seconds)
        return False


def read_target(text: str) -> SinkSettings:
    """The sink that ``--sink`` names: an address, ``exec:PROGRAM ARGUMENTS``, or a TOML file with a
    ``[[sink]]``.

    Raises:
        UserError: it is none of these, or a mistake in the file.
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
    return replace(sink, settle_s=0.0)  # all is there


def _values(text: str) -> dict[str, Any]:
    """The settings that are in an address."""
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
    """Sends results, in their order within a site and query; gives their number.

    Keys are of the content: the same results have the same keys, other ones have others.

    Args:
        results: JSON lines of ``slackwater query``, those of a site and query together.
        sink: where to.
        folder: for files of the while.
        tell: takes a line for people.

    Raises:
        SlackwaterError: not all could be delivered; says how many were.
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
            f"{forwarder.waits}; the same command sends all of them, with the same keys"
        )
    return figures.delivered


def _as_answers(results: Path, folder: Path) -> tuple[list[str], int]:
    """Files as a server's engine writes them; gives the queries, and how many results there are."""
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
