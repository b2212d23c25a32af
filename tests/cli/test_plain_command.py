"""Texts and paths of commands are what Typer would make of them, without its validators."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.exceptions import TyperException

from engine.cli.options.plain_command import PlainCommand, PlainGroup

FULL = [
    "one", "two", "--path", "here/a.txt", "--many", "b", "--many", "", "--number", "3", "--flag",
    "--share", "0.5", "--word", "x",
]  # fmt: skip
CALLS: list[list[str]] = [
    FULL, ["one"], ["one", "--path", ""], ["a b", "--many", "--number"],
    ["one", "--pair", "a", "b"],
]  # fmt: skip
FAULTS: list[list[str]] = [
    [], ["one", "--number", "x"], ["one", "--share", "half"], ["one", "--path"], ["one", "--other"],
]  # fmt: skip


def given(arguments: list[str], *, plain: bool) -> dict[str, Any]:
    """What a command's function gets."""
    found: dict[str, Any] = {}
    app = typer.Typer(rich_markup_mode=None, cls=PlainGroup if plain else None)
    app.callback()(lambda: None)

    def command(
        texts: list[str],
        path: Annotated[Path | None, typer.Option("--path")] = None,
        many: Annotated[list[str] | None, typer.Option("--many")] = None,
        number: Annotated[int, typer.Option("--number")] = 1,
        share: Annotated[float | None, typer.Option("--share")] = None,
        flag: Annotated[bool, typer.Option("--flag")] = False,
        word: Annotated[str, typer.Option("--word")] = "default",
        pair: Annotated[tuple[Path, Path] | None, typer.Option("--pair")] = None,
    ) -> None:
        found.update(locals())

    app.command("do", cls=PlainCommand if plain else None)(command)
    app(["do", *arguments], standalone_mode=False)
    found.pop("found")
    return found


@pytest.mark.parametrize("arguments", CALLS)
def test_a_command_gets_what_typer_gives(arguments: list[str]) -> None:
    theirs = outcome(arguments, plain=False)
    assert outcome(arguments, plain=True) == theirs


def outcome(arguments: list[str], *, plain: bool) -> Any:
    """What it gets, with types, or what it is told."""
    try:
        found = given(arguments, plain=plain)
    except TyperException as error:
        return type(error).__name__, error.format_message()
    return {name: (type(value).__name__, value) for name, value in found.items()}


@pytest.mark.parametrize("arguments", FAULTS)
def test_faults_are_told_in_typers_words(arguments: list[str]) -> None:
    theirs = outcome(arguments, plain=False)
    assert isinstance(theirs, tuple)
    assert outcome(arguments, plain=True) == theirs


def test_a_path_that_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    call = ["one", "--path", str(tmp_path / "a")]
    assert isinstance(outcome(call, plain=True), dict)
    monkeypatch.setattr("os.access", lambda *_: False)
    told = outcome(call, plain=True)
    assert told == outcome(call, plain=False)
    assert "not readable" in told[1]
