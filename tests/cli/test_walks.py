"""Five walks from a fresh file to an answer, as a person at a terminal sees them.

A walk is a file in ``walks``: commands behind ``$``, each with all that the terminal shows. The
second command is one that the first has printed; its question may be the person's own.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_own_files import FILES

WALKS = Path(__file__).parent / "walks"
COLUMNS = "120"
BOLD = re.compile(r"\x1b\[[0-9;]*m")


def steps(text: str) -> list[tuple[str, str]]:
    """Each command with what the terminal shows."""
    found = []
    for part in text.removeprefix("$ ").split("\n$ "):
        command, _, shown = part.partition("\n")
        found.append((command, shown))
    return found


@pytest.mark.parametrize("walk", sorted(WALKS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_walk(
    walk: Path, here: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", COLUMNS)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    look, query = steps(walk.read_text(encoding="utf-8"))
    printed = [shlex.split(line) for line in look[1].splitlines() if "slackwater query" in line]
    asked = shlex.split(query[0])
    assert any(words[3:] == asked[3:] for words in printed)
    for name in shlex.split(look[0])[2:]:
        shutil.copy(FILES / name, here / name)
    for command, shown in (look, query):
        ran = cli(*shlex.split(command)[1:])
        assert ran.code == 0, ran.err
        lines = [BOLD.sub("", line).rstrip() for line in (ran.out + ran.err).splitlines()]
        assert lines == shown.rstrip("\n").splitlines()


def test_there_are_five_walks() -> None:
    assert len(list(WALKS.glob("*.txt"))) == 5
