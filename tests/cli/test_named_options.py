"""Messages and pages recommend only options that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from edge_agent.command import _parser
from engine.cli.app import _NAMES, _application

ROOT = Path(__file__).resolve().parents[2]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
OF_OTHERS = {
    "--events",
    "--rounds",
    "--only",
    "--build",
    "--now",
    "--seconds",
    "--no-loadscope-reorder",
}
"""Of ``python -m bench...``, ``python -m scenarios.recordings``, ``docker compose``,
``systemctl`` and pytest-xdist, which are no commands of ours."""


def options_of(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    for inner in getattr(command, "commands", {}).values():
        yield from options_of(inner)


@pytest.fixture(scope="module", name="known")
def _known() -> set[str]:
    of_agent = [option for action in _parser()._actions for option in action.option_strings]
    return {"--help", *of_agent, *options_of(typer.main.get_command(_application(list(_NAMES))))}


def texts(path: Path) -> Iterator[str]:
    """The strings of a module, without its docstrings: what a person may be told."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


@pytest.mark.parametrize("package", ["engine", "scenarios", "simulator", "edge_agent"])
def test_messages_name_options_that_exist(package: str, known: set[str]) -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: {option}"
        for path in (ROOT / package).rglob("*.py")
        if path.name != "document.py"  # a style sheet's variables look the same
        for text in texts(path)
        for option in OPTION.findall(text)
        if option not in known | OF_OTHERS
    }
    assert not wrong


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))])
def test_pages_name_options_that_exist(page: str, known: set[str]) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert set(OPTION.findall(text)) - known - OF_OTHERS == set()


def test_an_option_that_does_not_exist_is_seen(known: set[str]) -> None:
    (option,) = OPTION.findall("write --nosuch-option, or leave it out")
    assert option not in known
