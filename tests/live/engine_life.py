"""Lives of an embedded engine over a growing log, and what a pass over that log gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.live.embedded import EmbeddedEngine, EnginePlace
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.hosts.spark.live_engine import SparkEngine
from slackwater.engine.log.retention import Limits
from slackwater.engine.output.answer_files import AnswerLines, AnswerTables
from slackwater.engine.output.answer_retention import site_files
from slackwater.engine.output.export import export_jsonl
from slackwater.engine.output.ordered_stream import SIDE_OUTPUT, export_ordered_jsonl
from slackwater.engine.output.run_writer import Failed, FailedQueries, LiveAnswers
from tests.spark.test_growing_log import Growing, trace

Answered = dict[tuple[str, str], bytes]
"""Lines by query, or kind of what was set aside, and site."""


class KilledError(Exception):
    """The process ends here."""


def state_of(folder: Path) -> Path:
    return folder / "answers" / ".state" / "embedded"


def lines_at(folder: Path, key: tuple[str, str], *endings: str) -> bytes:
    """Of a query and site, with closed files; ``.end``: what the log's end would give."""
    paths = [folder / "answers" / key[0] / f"{key[1]}.jsonl{ending}" for ending in endings or [""]]
    found = site_files(paths[0].parent).get(paths[0].name) if paths[0].parent.exists() else None
    if found is not None and (not endings or not endings[0]):
        paths = [*(file.path for file in found.closed), *paths]
    return b"".join(path.read_bytes() for path in paths if path.exists())


class Life:
    """One life of an engine whose answers are in ``folder``; it dies at its ``last`` writing.

    ``tables_every_s``: answers are written as tables, too, and their files closed as often.
    ``again``: the log has its first files, so that a failed query can be tried again.
    ``master``: of Spark, whose engine it then is. ``limits``: of the answers.
    """

    def __init__(
        self,
        folder: Path,
        settings: ChainSettings,
        last: float = float("inf"),
        *,
        tables_every_s: float | None = None,
        again: bool = True,
        master: str | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self.said: list[str] = []
        self.fed: list[bytes] = []
        self.failed: dict[tuple[str, str], str] = {}
        """Reasons by query and site."""
        self._again = again
        self._left = last
        self._folder = folder
        self._tables_every_s = tables_every_s
        self._limits = limits
        self._names = [plan.name for plan in settings.plans] + list(SIDE_OUTPUT.folders)
        self.engine: EmbeddedEngine | SparkEngine
        if master is None:
            place = EnginePlace(folder / "log", state_of(folder), 1e9)
            self.engine = EmbeddedEngine(place, settings, self._opened, self.said.append)
        else:
            self.engine = SparkEngine(
                folder / "log", state_of(folder), settings, self._opened, master, self.said.append
            )

    def _opened(self, known: dict[str, Any]) -> LiveAnswers:
        folder, tables = self._folder / "answers", None
        lines = AnswerLines(folder, self._names, known.get("lines", {}), self.said.append,
                            known.get("numbers", {}), self._limits)  # fmt: skip
        if (every_s := self._tables_every_s) is not None:
            tables = AnswerTables(folder, known.get("tables", {}), every_s, 1, {}, self.said.append)
        failed = FailedQueries(
            folder, self._names, known.get("failed"), again=self._again, tell=self.said.append,
            changed=self._changed,
        )  # fmt: skip
        return LiveAnswers(lines, tables, 1, {}, self.fed.append, self._patient, failed)

    def _changed(self, failed: list[Failed]) -> None:
        self.failed = {(each["query"], each["site"]): each["reason"] for each in failed}

    def _patient(self, what: Callable[[], Any]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise KilledError
        return what()

    def follow(self, growing: Growing, random: Random, saves: float) -> None:
        """The log grows some times, and is read each time; ``saves``: the chance of a save then."""
        for _ in range(random.randint(1, 4)):
            growing.grow(random.randint(1, 5))
            self.engine.upto(growing.there)
            if random.random() < saves:
                self.engine.save()

    def end_at(self, files: int) -> None:
        """Reads the log up to that many files, and stops in good order."""
        self.engine.upto(files)
        self.engine.close()

    def written(self) -> Answered:
        """All that is there, with what the end would give."""
        keys = [(name, site) for name in self._names for site in "ns"]
        return {key: lines_at(self._folder, key, "", ".end") for key in keys}


def passed(folder: Path, settings: ChainSettings) -> Answered:
    """What a pass over the whole log gives."""
    names = [plan.name for plan in settings.plans]
    run_in_process(folder / "log", settings, folder / "parts")
    export_jsonl(folder / "parts", folder / "all.jsonl", queries=names)
    found = {(name, site): b"" for name in (*names, *SIDE_OUTPUT.folders) for site in "ns"}
    for line in (folder / "all.jsonl").read_bytes().splitlines(keepends=True):
        result = json.loads(line)
        found[result["query"], result["site"]] += line
    for kind in SIDE_OUTPUT.folders:
        one = replace(SIDE_OUTPUT, folders=(kind,))
        export_ordered_jsonl(folder / "parts", folder / "aside.jsonl", "ns", one)
        for line in (folder / "aside.jsonl").read_bytes().splitlines(keepends=True):
            found[kind, json.loads(line)["site"]] += line
    return found


def grown(folder: Path) -> int:
    """A whole log; so many files it has."""
    growing = Growing(trace(Random(5).randrange, 150), folder, 7)
    files = len(growing.left)
    growing.grow(files)
    return files


def hurt(path: Path, random: Random) -> None:
    """What a power cut, a rotten disk or somebody may do to a file."""
    content = path.read_bytes()
    at = random.randrange(len(content))
    size = random.randint(1, len(content) - at)
    match random.randrange(6):
        case 0:
            path.write_bytes(content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :])
        case 1:
            path.write_bytes(content[:at] + content[at + size :])
        case 2:
            path.write_bytes(content[:at] + bytes(size) + content[at + size :])
        case 3:
            path.write_bytes(content[:at])
        case 4:
            path.write_bytes(content + b"nonsense\n")
        case _:
            path.unlink()
