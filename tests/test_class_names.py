"""A class's name means one thing in the engine and the public API; what is left may only go."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TWICE = {
    "Events",
    "Tables",
    "Told",
    "Asked",
    "Book",
    "Choice",
    "Comparison",
    "Counted",
    "Entries",
    "Promised",
    "Table",
    "Term",
    "Timeline",
    "Wanted",
}
"""Of rooms that do not meet."""


def test_no_new_name_means_two_things() -> None:
    names = Counter(
        node.name
        for package in ("engine", "slackwater")
        for file in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, times in names.items() if times > 1} <= TWICE
