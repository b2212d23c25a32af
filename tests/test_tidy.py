"""The house rules that a machine can watch: sizes, names, words, and what cores may touch.

Each rule gives the offending places, so that a failure reads as a list of things to mend. Every
rule is also shown an offender of its own (``test_rule_sees``), so none can pass by being blind.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("edge_agent", "engine", "simulator", "scenarios", "slackwater")
CODE = (*PACKAGES, "bench", "scripts")
TEXTS = ("README.md", "CHANGELOG.md", "Makefile", "pyproject.toml", "constraints.txt", ".ci/run")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".lark", ".txt", ".svg", ".css", ".jsonl", ".sh", ".js"}

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
BANNED_MODULES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
# Cores take time, chance and settings as arguments, so that what is simulated is what is deployed.
CORES = (
    "edge_agent", "engine/order", "engine/operators/window", "engine/operators/match",
    "engine/barrier", "engine/gateway", "engine/hosts/chain/site_chain.py",
)  # fmt: skip
# What runs the cores on a device reads its clock and draws its cookies; commands have surroundings.
CORE_EXCEPTIONS = ("edge_agent/clock.py", "edge_agent/drivers/", "edge_agent/entry.py")
CORE_BANNED_IMPORTS = {"time", "random", "secrets", "uuid", "numpy.random"}
CORE_BANNED_ATTRIBUTES = {"environ", "getenv", "now", "utcnow", "today", "random", "urandom"}
# "Drift" means five things to five communities (docs/glossary.md); here only R19's windows.
DRIFT_FOLDERS = (
    "engine/operators/window/",
    "engine/query/",
    "docs/glossary.md",
    "tests/test_tidy.py",
)
DRIFT_ALLOWED = re.compile(
    r"DRIFT|Drift\b|\.drift\b|drift=|R19|r19|drift[-_ ](windows?|variation|sequence)"
)
KERNELS = {"kernel", "inline", "njit"}
TREES = {"merge", "timer"}
"""Arrays that are trees: their root is at 1."""
# Pieces, so that this file does not name what it forbids.
UNFINISHED = tuple(
    "".join(word)
    for word in (("TO", "DO"), ("FIX", "ME"), ("X", "XX"), ("NotImplemented", "Error"))
)
UNFINISHED_WORD = re.compile(rf"\b(?:{'|'.join(UNFINISHED)})\b")
REGISTRIES = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"), ("pythonhosted", "org"), ("repo1", "maven"), ("repo", "maven"),
        ("npmjs", "org"), ("npmjs", "com"), ("crates", "io"), ("proxy", "golang"),
        ("docker", "io"), ("ghcr", "io"), ("quay", "io"), ("anaconda", "org"), ("rubygems", "org"),
        ("deb", "debian"), ("archive", "ubuntu"),
    )
)  # fmt: skip


class Source:
    """One file of the project: its path from the root, its text and, for Python, its tree."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = ast.parse(text) if path.endswith(".py") else ast.Module([], [])

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    @property
    def module(self) -> str:
        inside = self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return inside if inside.startswith("slackwater") else f"slackwater.{inside}"

    def lines(self) -> Iterator[tuple[str, str]]:
        for number, line in enumerate(self.text.splitlines(), 1):
            yield f"{self.path}:{number}", line


@cache
def sources() -> tuple[Source, ...]:
    """Every file of the project that a person writes."""
    found = [ROOT / name for name in TEXTS]
    for folder in (*CODE, "tests", "docs"):
        found += [
            path
            for path in sorted((ROOT / folder).rglob("*"))
            if path.suffix in TEXT_SUFFIXES and not {"__pycache__", "site"} & {*path.parts}
        ]
    return tuple(
        Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for path in found
        if path.exists()
    )


def long_files(source: Source) -> Iterator[str]:
    count = len(source.text.splitlines())
    if source.path.endswith(".py") and count > FILE_LINES_MAX:
        yield f"{source.path}: {count} lines"


def long_functions(source: Source) -> Iterator[str]:
    if source.is_test:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if count > FUNCTION_LINES_MAX:
                yield f"{source.path}:{node.lineno}: {node.name} has {count} lines"


def vague_names(source: Source) -> Iterator[str]:
    for part in Path(source.path).with_suffix("").parts:
        if BANNED_MODULES & set(part.lower().split("_")):
            yield f"{source.path}: {part!r} does not say what is in it"


def unfinished_places(source: Source) -> Iterator[str]:
    for place, line in source.lines():
        if UNFINISHED_WORD.search(line):
            yield f"{place}: {line.strip()}"


def stray_drift(source: Source) -> Iterator[str]:
    if source.path.startswith(DRIFT_FOLDERS) or re.search(r"window|query|gramm", source.path):
        return
    for place, line in source.lines():
        if "drift" in DRIFT_ALLOWED.sub("", line).lower() and "R19" not in line:
            yield f"{place}: say offset or skew: {line.strip()}"


def registry_hosts(source: Source) -> Iterator[str]:
    for place, line in source.lines():
        if any(host in line.lower() for host in REGISTRIES):
            yield f"{place}: names a package registry: {line.strip()}"


def impure_cores(source: Source) -> Iterator[str]:
    if not source.path.startswith(CORES) or source.path.startswith(CORE_EXCEPTIONS):
        return
    for node in ast.walk(source.tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name in CORE_BANNED_IMPORTS]
        elif isinstance(node, ast.ImportFrom):
            full = {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
            banned = CORE_BANNED_IMPORTS | {"os.environ", "os.getenv", "os.urandom"}
            names = sorted(full & banned)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            is_module = node.value.id in {"os", "datetime", "date", "np", "numpy"}
            names = [node.attr] if is_module and node.attr in CORE_BANNED_ATTRIBUTES else []
        for name in names:
            yield f"{source.path}:{node.lineno}: a core may not use {name}; have it handed in"


def undocumented(source: Source) -> Iterator[str]:
    if source.is_test or source.path.startswith("bench/"):
        return
    for node in source.tree.body:
        is_definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if is_definition and not node.name.startswith("_") and not ast.get_docstring(node):
            yield f"{source.path}:{node.lineno}: {node.name} has no docstring"
    if source.path.endswith(".py") and not ast.get_docstring(source.tree):
        yield f"{source.path}: no docstring says what the module is for"


def kernels(source: Source) -> Iterator[ast.FunctionDef]:
    if source.is_test:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef):
            named = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
            if named & KERNELS:
                yield node


def _is_number(index: ast.expr) -> bool:
    """A literal, or a constant that stands for one, also added to a place."""
    match index:
        case ast.Constant(value=value):
            return isinstance(value, int)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return any(_is_number(each) and not isinstance(each, ast.Constant)
                       for each in (left, right))  # fmt: skip
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").isupper()
    return False


def unnamed_columns(source: Source) -> Iterator[str]:
    """What has a meaning of its own is a field of a record, not column 3 or place ``S_CLOCK``.

    An index that is one: the first item, the root of a tree, a number of dimensions.
    """
    for kernel in kernels(source):
        for node in ast.walk(kernel):
            if not isinstance(node, ast.Subscript):
                continue
            of, index = ast.unparse(node.value).split(".")[-1], node.slice
            columns = index.elts if isinstance(index, ast.Tuple) else [index]
            is_index = of == "shape" or (
                isinstance(index, ast.Constant) and index.value == (1 if of in TREES else 0)
            )
            if not is_index and any(map(_is_number, columns)):
                yield f"{source.path}:{node.lineno}: {ast.unparse(node)} is a column without a name"


RULES: dict[Callable[[Source], Iterator[str]], Source] = {
    long_files: Source("engine/a.py", '"""A."""\n' * (FILE_LINES_MAX + 1)),
    long_functions: Source("engine/a.py", "def f():\n" + "    g()\n" * 70),
    vague_names: Source("engine/log_utils.py", ""),
    unfinished_places: Source("engine/a.py", f"# {UNFINISHED[0]}: later\n"),
    stray_drift: Source("simulator/clock.py", "clock_drift = 3\n"),
    registry_hosts: Source("README.md", f"see https://{REGISTRIES[0]}/project\n"),
    impure_cores: Source("engine/order/a.py", "from time import monotonic\n"),
    undocumented: Source("engine/a.py", "def visible():\n    pass\n"),
    unnamed_columns: Source("engine/a.py", "@kernel\ndef f(s):\n    s[HOPS, hop, 8] = 1\n"),
}
"""Every rule, with an offender that it must see."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_house(rule: Callable[[Source], Iterator[str]]) -> None:
    offenders = [place for source in sources() for place in rule(source)]
    assert not offenders, "\n".join(["", *offenders])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_sees(rule: Callable[[Source], Iterator[str]]) -> None:
    assert list(rule(RULES[rule]))


@pytest.mark.parametrize(
    "text",
    [
        "import random",
        "import numpy.random",
        "from numpy import random",
        "from os import environ",
        "import os\nos.environ['A']",
        "from datetime import datetime\ndatetime.now()",
        "import numpy as np\nnp.random.default_rng()",
    ],
)
def test_impure_cores_sees(text: str) -> None:
    assert len(list(impure_cores(Source("edge_agent/session.py", text)))) == 1
    assert not list(impure_cores(Source("edge_agent/clock.py", text)))
    assert not list(impure_cores(Source("simulator/link.py", text)))


@pytest.mark.parametrize(
    ("index", "has_name"),
    [
        ("a[i, 2]", False), ("a[TOTAL]", False), ("a.b[m.CLOCK]", False), ("a[3]", False),
        ("a[place + _SUM]", False), ("a[i, -1]", False), ("a[FIRST + part]", False),
        ("a[i].total", True), ("a.state[0].clock", True), ("a.shape[1]", True), ("heap[0]", True),
        ("s.merge[1].key", True), ("a[i - 1]", True), ("a[i & MASK]", True), ("a[i, j]", True),
    ],
)  # fmt: skip
def test_unnamed_columns_sees(index: str, has_name: bool) -> None:
    text = f"@inline\ndef f(a, i):\n    return {index}\n"
    assert bool(list(unnamed_columns(Source("engine/a.py", text)))) != has_name


def mentioned_modules(source: Source) -> Iterator[str]:
    """Dotted names that a file imports, or names in a string (registries, lazy imports)."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\bslackwater(?:\.\w+)+", node.value)


def test_no_module_is_dead() -> None:
    # Scenarios are found by name, and a test is no user.
    written = {
        source.module
        for source in sources()
        if source.path.startswith(("edge_agent/", "engine/", "simulator/", "slackwater/"))
        and source.path.endswith(".py")
        and not source.path.endswith(("__init__.py", "__main__.py"))
    }
    used = {
        name
        for source in sources()
        if not source.is_test
        for name in mentioned_modules(source)
        if name != source.module
    }
    entry_points = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    dead = sorted(name for name in written - used if f'"{name}:' not in entry_points)
    assert not dead, f"never imported by the program: {dead}"
