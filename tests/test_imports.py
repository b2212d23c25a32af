"""Who may import whom (DESIGN "Packages"): a light device package, Spark in one folder only."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STDLIB = sys.stdlib_module_names

# Package -> the top-level names, or dotted prefixes of our own, that it may import.
ALLOWED = {
    "edge_agent": {"edge_agent", "msgpack", "ntplib", "netifaces"},
    "simulator": {
        "simulator", "edge_agent", "simpy", "numpy", "numba", "pyarrow",
        "engine.gateway", "engine.kernels.jit", "engine.log", "engine.core.frame",
        "engine.core.errors", "engine.core.units",
    },
    "engine": {
        "engine", "edge_agent", "numpy", "numba", "llvmlite", "pyarrow", "lark", "msgpack",
        "msgspec", "pyspark", "py4j", "pandas", "rich", "typer", "packaging", "plotly", "jinja2",
        "markupsafe", "simulator", "scenarios", "aiohttp", "prometheus_client",
    },
    "slackwater": {
        "slackwater", "engine", "edge_agent", "simulator", "pyarrow", "pandas", "polars",
    },
    "scenarios": {"scenarios", "slackwater", "numpy", "numba", "pyarrow"},
}  # fmt: skip
# An input of an extra has its library.
# What scenarios still take from within. Who measures an algorithm of a paper needs the algorithm
# itself; a page beside reports is made of a report's parts; a pass of which nothing is kept is a
# chain's.
INNER = {
    "engine/cli/paper_command.py": {"slackwater.paper"},
    "edge_agent/inputs/mqtt/link.py": {"paho"},
    "engine/sinks/mqtt.py": {"paho"},
    "engine/sinks/postgres.py": {"psycopg"},
    "edge_agent/inputs/replay.py": {"pyarrow"},
    "scenarios/papers/": {
        "engine.barrier", "engine.hosts.chain", "engine.core.errors", "engine.operators.grouping",
        "engine.kernels.jit", "engine.core.operator",
        "engine.order.base", "engine.order.registry", "engine.operators.match", "engine.query",
        "engine.apps.report", "engine.scenario", "engine.core",
    },
    "scenarios/recordings.py": {"engine.core.units", "engine.log.whole_file", "engine.apps.report"},
    "scenarios/mimic/answers.py": {
        "engine.hosts.chain", "engine.hosts.pipeline", "engine.order.registry", "engine.query",
    },
}  # fmt: skip
# Only these parts of the engine may start simulations: everything else sees an arrival log.
MAY_SIMULATE = ("engine/cli/", "engine/apps/report/")


@cache  # tests ask of the same files, and parsing all of them takes seconds
def imports(text: str) -> tuple[tuple[int, str], ...]:
    """Line and dotted name of every import; ``from a.b import c`` gives ``a.b``.

    Names of our folders are given without the ``slackwater.`` that they are installed under.
    """
    return tuple(_imports(text))


def _imports(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, _by_folder(alias.name)) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [node.module or ""]
            if node.module == "slackwater":  # a folder of ours, or a public name
                names = [f"slackwater.{each.name}" for each in node.names]
            yield from ((node.lineno, _by_folder(name)) for name in names)


def _by_folder(name: str) -> str:
    inner = name.removeprefix("slackwater.")
    return inner if inner.split(".")[0] in ALLOWED else name


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def is_allowed(name: str, allowed: set[str]) -> bool:
    if name.split(".", maxsplit=1)[0] in STDLIB:
        return True
    return any(name == prefix or name.startswith(prefix + ".") for prefix in allowed)


def inner(file: Path) -> set[str]:
    """What a file may take from within, beyond what its package may import."""
    place = file.relative_to(ROOT).as_posix()
    return {name for start, names in INNER.items() if place.startswith(start) for name in names}


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    files = python_files(package)
    assert files
    offenders = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in files
        for line, name in imports(file.read_text(encoding="utf-8"))
        if not is_allowed(name, ALLOWED[package] | inner(file))
    ]
    assert not offenders, "\n".join(["", *offenders])


@pytest.mark.parametrize(
    ("word", "places"),
    [
        ("pyspark", ("engine/hosts/spark/",)),
        ("py4j", ("engine/hosts/spark/",)),
        ("simulator", ("simulator/", "slackwater/simulation.py", *MAY_SIMULATE)),
        ("plotly", ("engine/apps/report/",)),
        ("jinja2", ("engine/apps/report/",)),
        ("markupsafe", ("engine/apps/report/",)),
        ("lark", ("engine/query/",)),
        ("typer", ("engine/cli/",)),
        ("packaging", ("engine/cli/",)),
        ("aiohttp", ("engine/server/page/",)),
        ("prometheus_client", ("engine/server/page/",)),
    ],
)
def test_a_library_stays_in_its_folder(word: str, places: tuple[str, ...]) -> None:
    offenders = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for package in ("edge_agent", "engine", "simulator", "scenarios", "slackwater")
        for file in python_files(package)
        if not file.relative_to(ROOT).as_posix().startswith(places)
        for line, name in imports(file.read_text(encoding="utf-8"))
        if name.split(".")[0] == word
    ]
    assert not offenders, "\n".join(["", *offenders])


def loaded_by(module: str) -> set[str]:
    """Libraries and our folders in memory after ``import module`` in a fresh interpreter."""
    names = "name.removeprefix('slackwater.').split('.')[0] for name in sys.modules"
    code = f"import sys, {module}; print(*{{{names}}})"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return set(done.stdout.split())


def test_a_device_loads_nothing_heavy() -> None:
    modules = [
        ".".join(("slackwater", *file.relative_to(ROOT).with_suffix("").parts))
        for file in python_files("edge_agent")
        if file.name not in {"__main__.py", "__init__.py"}
    ]
    heavy = {"numpy", "pyarrow", "pyspark", "pandas", "numba", "engine", "rich", "typer"}
    assert not heavy & loaded_by(", ".join(modules))


def test_the_command_line_starts_without_its_heavy_parts() -> None:
    assert not {"pyspark", "numba", "simpy", "plotly", "jinja2", "aiohttp"} & loaded_by(
        "slackwater.engine.cli"
    )
