"""Which lines of kernels were run: of functions that ``engine.kernels.jit`` decorates."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coverage import Coverage

ROOT = Path(__file__).resolve().parent.parent.parent
DECORATORS = {"kernel", "inline", "njit"}


class Kernel(NamedTuple):
    """A kernel's statements by their first lines, and those that were not run."""

    place: str
    name: str
    lines: list[int]
    missing: list[int]


def kernel_files() -> list[Path]:
    return [file for file in sorted((ROOT / "engine").rglob("*.py")) if any(_functions(file))]


def _functions(file: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            named = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
            if named & DECORATORS:
                yield node


def kernels(data: Path) -> list[Kernel]:
    """Every kernel, as far as the run that wrote ``data`` came in it."""
    run = Coverage(data_file=data)
    run.load()
    found = []
    for file in kernel_files():
        _, statements, _, missing, _ = run.analysis2(str(file))
        for function in _functions(file):
            first, end = function.body[0].lineno, function.end_lineno or 0
            of_it = [[n for n in lines if first <= n <= end] for lines in (statements, missing)]
            place = f"{file.relative_to(ROOT)}:{function.lineno}"
            found.append(Kernel(place, function.name, *of_it))
    return found
