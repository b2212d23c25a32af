"""Small faults that a careless edit could make, found in the syntax tree: mutants.py plants them.

A fault is a text edit of one place in a function's body. Its id is a hash of its room, its
function, the statement around it and its kind, and the ids' order chooses: an edit elsewhere, or a
move of a file, changes neither.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE_MAX: Final = 3
"""Chosen faults of one file."""
KIND_SHARE: Final = 4
"""At most one in so many of a room's faults is of one kind."""

COMPARISONS: Final = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
ARITHMETIC: Final = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
}  # fmt: skip
BOOLEAN: Final = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
EXTREMES: Final = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}

# Texts for people, what only decides about speed, and what has no effect when it runs.
FUNCTIONS_LEFT_OUT: Final = re.compile(
    r"__(repr|str|hash)__|explain|render|describe|message|picture|sentence|wording"
    r"|reserve|grow|capacity|shrink|prefetch|cache_"
)
STATEMENTS_LEFT_OUT: Final = re.compile(
    r"\b(cast|warn|warnings|debug|lru_cache|\w*(capacity|reserve|hint|prefetch|cached?|grow\w*))\b"
)
KEYWORDS_LEFT_OUT: Final = {"axis", "copy", "dtype", "kind", "maxsize", "stacklevel", "strict"}
TEXTS: Final = (ast.JoinedStr, ast.List, ast.Tuple, ast.Set, ast.ListComp)
"""``+`` joins them: minus would fail at once."""


@dataclass(frozen=True, order=True)
class PlantedFault:
    """One edit: the bytes from ``start`` to ``end`` of a file become ``after``."""

    id: str
    room: str
    file: str
    line: int
    function: str
    kind: str
    start: int
    end: int
    before: str
    after: str
    edit_text: str
    """The line, the edit in brackets."""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def planted(self, source: bytes) -> bytes:
        """The file's content with this fault in it."""
        if source[self.start : self.end].decode() != self.before:
            raise ValueError(f"{self.place} is no longer what the fault {self.id} was made from")
        return source[: self.start] + self.after.encode() + source[self.end :]


def faults_of(room: str, root: Path, folders: Iterable[str]) -> list[PlantedFault]:
    """Every fault of a room's files; of two with one id the first counts."""
    files = sorted(
        file for folder in folders for file in (root / folder).rglob("*.py") if file.is_file()
    )
    found: dict[str, PlantedFault] = {}
    for file in files:
        for fault in faults_in(room, file.relative_to(root).as_posix(), file.read_bytes()):
            found.setdefault(fault.id, fault)
    return list(found.values())


def chosen(faults: Iterable[PlantedFault], number: int, seed: int = 0) -> list[PlantedFault]:
    """``number`` faults by their ids: one of a function, few of a file and of a kind."""
    ranked = sorted(faults, key=lambda fault: _hash(str(seed), fault.id))
    kept: list[PlantedFault] = []
    functions: set[tuple[str, str]] = set()
    counts: Counter[str] = Counter()
    for fault in ranked:
        if len(kept) == number:
            break
        function = (fault.file, fault.function)
        if (
            function not in functions
            and counts[fault.file] < FILE_MAX
            and counts[fault.kind] < -(-number // KIND_SHARE)
        ):
            kept.append(fault)
            functions.add(function)
            counts.update((fault.file, fault.kind))
    return kept


def faults_in(room: str, file: str, source: bytes) -> Iterator[PlantedFault]:
    """Every fault of one file, in the order of its text."""
    sites = _Sites(source)
    sites.visit(ast.parse(source))
    seen: Counter[str] = Counter()
    for site in sites.found:
        key = "\0".join((room, site.function, site.statement, site.kind))
        number = seen[key]
        seen[key] += 1
        before = source[site.start : site.end].decode()
        yield PlantedFault(
            _hash(key, str(number))[:10], room, file, source.count(b"\n", 0, site.start) + 1,
            site.function, site.kind, site.start, site.end, before, site.after,
            _edit_text(source, site, before),
        )  # fmt: skip


def _edit_text(source: bytes, site: _Site, before: str) -> str:
    begin = source.rfind(b"\n", 0, site.start) + 1
    end = source.find(b"\n", site.end)
    ahead = source[begin : site.start].decode().lstrip()
    behind = source[site.end : end if end >= 0 else None].decode()
    return f"{ahead}[{' '.join(before.split())} -> {site.after}]{behind}".rstrip()


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class _Site:
    function: str
    statement: str
    kind: str
    start: int
    end: int
    after: str


class _Sites(ast.NodeVisitor):
    """Collects the places of one file."""

    def __init__(self, source: bytes) -> None:
        self.found: list[_Site] = []
        self._source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._names: list[str] = []
        self._depth = 0  # functions around
        self._statement = ""
        self._loops: list[set[str]] = []  # names in the conditions of the loops around

    # What surrounds a place.

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._within(node.name, node.body, 0)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if not FUNCTIONS_LEFT_OUT.search(node.name):
            self._within(node.name, node.body, 1)

    def _within(self, name: str, body: list[ast.stmt], depth: int) -> None:
        self._names.append(name)
        self._depth += depth
        for statement in body:
            self.visit(statement)
        self._depth -= depth
        self._names.pop()

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.stmt):
            super().visit(node)
            return
        before, self._statement = self._statement, _statement_text(node)
        if not self._depth or not STATEMENTS_LEFT_OUT.search(self._statement):
            super().visit(node)
        elif isinstance(node, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
            self._visit_body(node)
        self._statement = before

    def _visit_body(self, node: ast.stmt) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.stmt, ast.ExceptHandler)):
                self.visit(child)

    def visit_While(self, node: ast.While) -> None:
        self._loops.append(_names_in(node.test))
        self.generic_visit(node)
        self._loops.pop()

    def visit_Raise(self, node: ast.Raise) -> None:
        """A message is a text."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """An assert states what holds anyway."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """A text."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in KEYWORDS_LEFT_OUT:
            self.visit(node.value)

    # The places.

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            self._swap("comparison", left, COMPARISONS.get(type(operator)), right)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not any(_is_text(side) for side in (node.left, node.right)):
            self._swap("arithmetic", node.left, ARITHMETIC.get(type(node.op)), node.right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._swap("and or", node.values[0], BOOLEAN[type(node.op)], node.values[1])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start = self._start(node)
            word = re.match(rb"not\s*", self._source[start : self._end(node)])
            self._add("not", start, start + len(word[0] if word else b"not"), "")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.id if isinstance(function, ast.Name) else ""
        if isinstance(function, ast.Attribute):
            name = function.attr
        if name in EXTREMES and (node.args or node.keywords):
            end = self._end(function)
            self._add("min max", end - len(name), end, EXTREMES[name])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace("True False", node, str(not node.value))
        elif isinstance(node.value, int):
            self._replace("constant", node, str(node.value + 1))

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._replace("dropped", node, "pass")
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        written = all(isinstance(each, (ast.Attribute, ast.Subscript)) for each in node.targets)
        if written and self._names[-1:] != ["__init__"]:  # which the first use would miss
            self._drop(node, *node.targets)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._drop(node, node.target)
        if not _is_text(node.value) and not self._is_counter(node.target):
            self._swap("arithmetic", node.target, ARITHMETIC.get(type(node.op)), node.value)
        self.generic_visit(node)

    def _drop(self, node: ast.stmt, *targets: ast.expr) -> None:
        if not any(self._is_counter(target) for target in targets):
            self._replace("dropped", node, "pass")

    def _is_counter(self, target: ast.expr) -> bool:
        """Whether a loop around ends by it: a fault there only makes the loop endless."""
        return any(_names_in(target) & names for names in self._loops)

    def _swap(
        self, kind: str, left: ast.expr, words: tuple[str, str] | None, right: ast.expr
    ) -> None:
        """Another operator between two expressions."""
        start, end = self._end(left), self._start(right)
        between = self._source[start:end]
        if words is None or b"#" in between:
            return
        word, other = words
        at = re.search(rb"(?<!\w)" + re.escape(word.encode()).replace(rb"\ ", rb"\s+"), between)
        if at is not None:
            self._add(kind, start + at.start(), start + at.end(), other)

    def _replace(self, kind: str, node: ast.expr | ast.stmt, after: str) -> None:
        self._add(kind, self._start(node), self._end(node), after)

    def _add(self, kind: str, start: int, end: int, after: str) -> None:
        if self._depth:
            name = ".".join(self._names)
            site = _Site(name, self._statement, kind, start, end, after)
            self.found.append(site)

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        if node.end_lineno is None or node.end_col_offset is None:
            raise ValueError(f"line {node.lineno}: the parser gave no end")
        return self._lines[node.end_lineno - 1] + node.end_col_offset


def _statement_text(node: ast.stmt) -> str:
    """A statement, of a compound one its head, without its layout."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return ""  # what is in it has a text of its own
    if isinstance(node, (ast.If, ast.While)):
        return ast.unparse(node.test)
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return f"{ast.unparse(node.target)} in {ast.unparse(node.iter)}"
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return ", ".join(map(ast.unparse, node.items))
    if isinstance(node, ast.Match):
        return ast.unparse(node.subject)
    if isinstance(node, (ast.Try, ast.TryStar)):
        return ""
    return ast.unparse(node)


def _names_in(node: ast.expr) -> set[str]:
    """What an expression reads or a target writes: ``self.x`` is ``x``."""
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(node)
        if isinstance(each, (ast.Name, ast.Attribute))
    } - {"self"}


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (str, bytes))
    return isinstance(node, TEXTS)
