"""Traces in an empty folder, and what the command line says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.cli.app import run

Record = dict[str, Any]


@pytest.fixture(name="here", autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with the folder for temporary files beside it."""
    folder, temporary = tmp_path / "here", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return folder


@pytest.fixture(name="trace")
def _trace(here: Path) -> Callable[[list[Record]], str]:
    """Writes records as a trace; gives its name."""

    def write(records: list[Record], name: str = "t.jsonl") -> str:
        (here / name).write_text("".join(json.dumps(each) + "\n" for each in records))
        return name

    return write


@pytest.fixture(name="command")
def _command(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs ``slackwater ARGUMENTS --quiet``; gives its standard output."""

    def output(*arguments: str) -> str:
        capsys.readouterr()
        assert run([*arguments, "--quiet"]) == 0
        return capsys.readouterr().out

    return output
