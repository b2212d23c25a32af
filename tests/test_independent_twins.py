"""Twins, which say by definition what is right, share nothing with what they judge."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
JUDGED = {"edge_agent", "engine", "simulator", "slackwater", "scenarios", "bench"}
NAMES = (
    "slow_*.py", "by_*.py", "*definition*.py", "known_halves.py", "plain.py", "lifetimes.py",
    "correctness.py", "questions.py", "true_worlds.py", "*_twin.py",
)  # fmt: skip
TWINS = {
    path for name in NAMES for path in TESTS.rglob(name)
    if not path.name.startswith("test_")
}  # fmt: skip


def imported(path: Path) -> set[str]:
    """Names of modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
            found |= {f"{node.module}.{each.name}" for each in node.names}
    return found


def file_of(module: str, beside: Path) -> Path | None:
    """Of a module of the tests: by its whole name, or beside the file that imports it."""
    for path in (TESTS.parent / module.replace(".", "/"), beside.parent / module):
        if path.with_suffix(".py").is_file():
            return path.with_suffix(".py")
    return None


@pytest.mark.parametrize("twin", sorted(path.relative_to(TESTS).as_posix() for path in TWINS))
def test_a_twin_imports_nothing_that_is_judged_nor_anything_that_does(twin: str) -> None:
    waiting, seen = [TESTS / twin], set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        modules = imported(path)
        judged = {each for each in modules if each.split(".")[0] in JUDGED}
        assert not judged, f"{path.relative_to(TESTS)} imports {sorted(judged)}"
        files = {file_of(each, path) for each in modules} - {None}
        waiting += [each for each in files if each is not None and each not in seen]


def test_there_are_twins() -> None:
    assert len(TWINS) > 20
