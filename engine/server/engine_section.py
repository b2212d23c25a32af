"""``[engine]`` and ``[[query]]`` of a site's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from edge_agent.settings_file import Table
from engine.errors import UserError
from engine.java import java_home
from engine.live.program import Task
from engine.live.questions import Questions

KINDS: Final = ("spark", "embedded", "none")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
CERTAINTIES: Final = ("pairwise", "max-delay", "max-delay-r19")
_EMBEDDED: Final = 'kind = "embedded" in [engine], or --engine embedded'
_SAVE_NS: Final = 10 * 10**9
_PARQUET_NS: Final = 60 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Who answers what. ``parquet_every_ns`` 0: JSON lines alone."""

    kind: str
    questions: Questions
    answers: Path
    save_every_ns: int
    parquet_every_ns: int
    master: str

    def task(self, log: Path) -> Task:
        """For the process that answers."""
        return Task(
            kind=self.kind,
            log=str(log.resolve()),
            answers=str(self.answers.resolve()),
            questions=self.questions,
            save_every_s=self.save_every_ns / 1e9,
            parquet_every_s=self.parquet_every_ns / 1e9,
            master=self.master,
        )


def read_engine(whole: Table, folder: Path, log: Path, kind: str | None) -> EngineSettings | None:
    """The sections of the file; None: no queries, or no engine.

    Args:
        whole: the file.
        folder: to which files are relative.
        log: the arrival log.
        kind: of the engine, instead of the file's; None: as the file says.

    Raises:
        SettingsError: a mistake in the tables.
        UserError: a query or an option is at fault; names it.
    """
    table = whole.table("engine")
    tables = whole.tables("query")
    asked = _queries(tables, folder)
    said = table.text("kind", "spark", among=KINDS)
    defaults = Questions(queries=())
    options: dict[str, Any] = {
        name: table.text(name, getattr(defaults, name))
        for name in (
            "order", "barrier", "purge", "intervals", "joins", "spill", "window", "monitor",
            "guard", "time_unit",
        )
    }  # fmt: skip
    options["clock"] = "\n".join(table.texts("clock", []))
    options["matches_max"] = table.integer("matches_max", defaults.matches_max, low=1)
    options["late"] = table.flag("late", defaults.late)
    options["certainty"] = table.text("certainty", defaults.certainty, among=CERTAINTIES)
    formats = table.texts("formats", ["jsonl"])
    parquet_every = table.duration_ns("parquet_every", _PARQUET_NS, low=10**6)
    if "jsonl" not in formats or not set(formats) <= {"jsonl", "parquet"}:
        raise table.wrong("formats", 'write ["jsonl"] or ["jsonl", "parquet"]')
    kind = said if kind is None else kind
    settings = EngineSettings(
        kind=kind,
        questions=Questions(queries=asked, **options),
        answers=folder / table.text("answers", f"{log.name}.answers"),
        save_every_ns=table.duration_ns("save_every", _SAVE_NS, low=10**6),
        parquet_every_ns=parquet_every if "parquet" in formats else 0,
        master=table.text("master", "local[*]"),
    )
    if asked:
        try:
            settings.questions.chain_settings()
        except UserError as error:
            raise _placed(str(error), table, dict(zip((n for n, _ in asked), tables, strict=True))
                          ) from error  # fmt: skip
    return settings if asked and settings.kind != "none" else None


def _placed(said: str, engine: Table, queries: Mapping[str, Table]) -> Exception:
    """The error to raise: at the query, or the option, that it is about by its first word."""
    for name, table in queries.items():
        if said.startswith(f"query {name}: "):
            return table.wrong("text" if "text" in table.effective else "file", said)
    word = said.partition(" ")[0]
    return engine.wrong(word, said) if word in engine.effective else UserError(said)


def _queries(tables: list[Table], folder: Path) -> tuple[tuple[str, str], ...]:
    """(name, text) of each."""
    found: dict[str, str] = {}
    for number, table in enumerate(tables, 1):
        name = table.text("name", f"q{number}")
        if not _NAME.fullmatch(name):
            raise table.wrong("name", f"{name!r} is to be a folder: letters, digits, _ - .")
        if name in found:
            raise table.wrong("name", f"{name!r} is there twice")
        file, text = table.text("file", ""), table.text("text", "")
        if bool(file) == bool(text):
            raise table.wrong("text", "give text or file, and one of them")
        found[name] = _content(folder / file) if file else text
    return tuple(found.items())


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"[[query]] file: {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"[[query]] file: {file}: not UTF-8; save it as UTF-8") from error


def spark_ready() -> None:
    """Whether Spark can run here.

    Raises:
        UserError: it cannot; says what to install, or whom to ask instead.
    """
    instead = f"or answer without Spark: {_EMBEDDED}"
    if find_spec("pyspark") is None:
        raise UserError(
            f"[engine] kind spark needs pyspark: pip install slackwater[engine]; {instead}"
        )
    try:
        java_home()
    except UserError as error:
        raise UserError(f"[engine] kind spark: {error} Or {instead.removeprefix('or ')}") from error
