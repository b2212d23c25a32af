"""Runs commands in this process, in an empty folder, and looks at all they leave behind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.cli.app import run
from slackwater.engine.cli.terminal import COMPILING


@dataclass(frozen=True)
class CommandRun:
    """Exit code and output of one command; ``left``: files and folders it made or changed."""

    code: int
    out: str
    err: str
    left: dict[str, bytes | None]

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def content(folder: Path) -> dict[str, bytes | None]:
    """Every path below ``folder`` with its bytes; a folder's are None."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_dir() or path.is_file()
    }


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder; ``TMPDIR`` is beside it."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(name="cli")
def _cli(here: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., CommandRun]:
    """Runs ``slackwater ARGUMENTS``; that kernels were compiled on the way is not looked at."""

    def command(*arguments: str) -> CommandRun:
        capsys.readouterr()
        before = content(here)
        code = run(list(arguments))
        out, err = capsys.readouterr()
        err = err.replace(COMPILING, "")
        after = content(here)
        left = {name: after[name] for name in after if after[name] != before.get(name, b"\0?")}
        return CommandRun(code, out, err, left)

    return command


@pytest.fixture(name="trace")
def _trace(here: Path) -> Callable[..., str]:
    """Writes records (dicts) or lines (texts, bytes) as a trace; gives its name."""

    def write(*records: dict[str, Any] | str | bytes, name: str = "t.jsonl") -> str:
        lines = [json.dumps(each) if isinstance(each, dict) else each for each in records]
        coded = [line.encode() if isinstance(line, str) else line for line in lines]
        (here / name).write_bytes(b"".join(line + b"\n" for line in coded))
        return os.fspath(name)

    return write
