"""How large the project is, beside the goals of its house: ``python -m bench.mass``.

Counts files, statements, functions, kernels and import circles. A statement is one of Python's
``ast``, without docstrings, also those of attributes: so HOUSE's 48,671 at 50d29369 are counted. An
import counts wherever it is written, in a function too; not under ``TYPE_CHECKING``, which never
runs. A text that is the name of a module counts as an import of it, as registries load by name.
``--circles`` lists the files of each circle. Exit code 1: a goal is missed.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Container, Iterator
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from bench.one_event import from_line_to_line

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = ("edge_agent", "engine", "simulator", "scenarios", "slackwater")
KERNELS: Final = {"kernel", "inline", "njit"}
PRIVATE_WORDS: Final = re.compile(r"\b(told|anew|whoever)\b", re.IGNORECASE)
PARTICIPLES: Final = frozenset(
    {"told", "asked", "given", "held", "shown", "counted", "own", "wanted", "let"}
)
"""No names by themselves (HOUSE section 4): they do not say what a thing is."""
_NAME: Final = re.compile(rf"({'|'.join(PACKAGES)})(\.\w+)+")
_ONE_CIRCLE: Final = 2
"""Files in the smallest circle."""


class MassGoal(NamedTuple):
    """At most so many, now and when the house is done."""

    now: int
    done: int


GOALS: Final = {
    "engine files": MassGoal(400, 330),
    "engine statements": MassGoal(40_000, 33_000),
    "engine lines": MassGoal(75_000, 60_000),
    "engine functions": MassGoal(4_200, 3_300),
    "engine kernels": MassGoal(380, 380),
    "engine lines with private words": MassGoal(60, 60),
    "names that are participles": MassGoal(0, 0),
    "edge_agent files": MassGoal(70, 70),
    "circles": MassGoal(0, 0),
    "changes of file of one event": MassGoal(281, 281),
    "rooms of one event": MassGoal(9, 9),
}


class Module(NamedTuple):
    """One file, parsed."""

    name: str
    text: str
    tree: ast.Module

    @property
    def statements(self) -> int:
        """Without docstrings."""
        return sum(
            isinstance(node, ast.stmt)
            and not (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            )
            for node in ast.walk(self.tree)
        )

    @property
    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Methods too."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    @property
    def names(self) -> Iterator[str]:
        """What it names: modules, classes, functions, parameters, attributes, variables."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.arg):
                yield node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr
        yield self.name.rpartition(".")[2]

    @property
    def kernels(self) -> int:
        """Functions that Numba compiles."""
        return sum(
            any(isinstance(mark, ast.Name) and mark.id in KERNELS for mark in each.decorator_list)
            for each in self.functions
        )


class Mass:
    """The packages below ``root``."""

    def __init__(self, root: Path = ROOT) -> None:
        self.modules: dict[str, Module] = {}
        for package in PACKAGES:
            for path in sorted((root / package).rglob("*.py")):
                parts = path.relative_to(root).with_suffix("").parts
                inner = parts[1:] if package == "slackwater" else parts
                name = ".".join(("slackwater", *inner)).removesuffix(".__init__")
                text = path.read_text(encoding="utf-8")
                self.modules[name] = Module(name, text, ast.parse(text))

    def of(self, package: str) -> list[Module]:
        """The modules of one folder."""
        whole = f"slackwater.{package}"
        return [
            module
            for name, module in self.modules.items()
            if name == whole or name.startswith(f"{whole}.")
        ]

    @cached_property
    def circles(self) -> list[list[str]]:
        """Names of modules that import one another, directly or through others."""
        graph = {
            name: set(_imported(module.tree, self.modules)) - {name}
            for name, module in self.modules.items()
        }
        return [sorted(each) for each in _components(graph) if len(each) >= _ONE_CIRCLE]

    def figures(self) -> dict[str, int]:
        """What each goal is of."""
        engine = self.of("engine")
        way = from_line_to_line()
        return {
            "engine files": len(engine),
            "engine statements": sum(each.statements for each in engine),
            "engine lines": sum(each.text.count("\n") for each in engine),
            "engine functions": sum(len(list(each.functions)) for each in engine),
            "engine kernels": sum(each.kernels for each in engine),
            "engine lines with private words": sum(
                PRIVATE_WORDS.search(line) is not None
                for each in engine
                for line in each.text.splitlines()
            ),
            "names that are participles": sum(
                name.strip("_").lower() in PARTICIPLES
                for module in self.modules.values()
                for name in module.names
            ),
            "edge_agent files": len(self.of("edge_agent")),
            "circles": len(self.circles),
            "changes of file of one event": way.changes,
            "rooms of one event": len({_room(file) for file in way.files}),
        }


def _room(file: str) -> str:
    return "/".join(file.split("/")[:2])


def _imported(tree: ast.Module, modules: Container[str]) -> Iterator[str]:
    """Those of our modules that this one imports, or whose name is a text in it."""
    for node in _running(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in inner]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value.partition(":")[0]] if _NAME.match(node.value) else []
        else:
            continue
        yield from (name for name in names if name in modules)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All below ``node`` but what only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _running(child)


def _components(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components (Kosaraju), in no particular order."""
    order: list[str] = []
    seen: set[str] = set()
    for start in graph:
        order += _reached(start, graph, seen)
    back: dict[str, set[str]] = {name: set() for name in graph}
    for name, others in graph.items():
        for other in others:
            back[other].add(name)
    seen = set()
    return [found for start in reversed(order) if (found := _reached(start, back, seen))]


def _reached(start: str, graph: dict[str, set[str]], seen: set[str]) -> list[str]:
    """What is newly reached from ``start``, each behind all that it leads to."""
    if start in seen:
        return []
    seen.add(start)
    found: list[str] = []
    stack = [(start, iter(sorted(graph[start])))]
    while stack:
        name, others = stack[-1]
        following = next((each for each in others if each not in seen), None)
        if following is None:
            found.append(name)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(sorted(graph[following]))))
    return found


def main() -> int:
    """Prints the figures; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--circles", action="store_true", help="list the files of each circle")
    options = parser.parse_args()
    mass = Mass()
    figures = mass.figures()
    print(f"{'':34}{'now':>8}{'goal':>8}{'in the end':>12}")
    for name, number in figures.items():
        mark = "  missed" if number > GOALS[name].now else ""
        print(f"{name:34}{number:>8}{GOALS[name].now:>8}{GOALS[name].done:>12}{mark}")
    if options.circles:
        for each in mass.circles:
            print(f"\ncircle of {len(each)}:\n  " + "\n  ".join(each))
    return int(any(number > GOALS[name].now for name, number in figures.items()))


if __name__ == "__main__":
    sys.exit(main())
