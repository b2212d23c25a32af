"""Values in programs: where each instruction of a condition finds what it compares.

A function or CASE of one event has a register, as an attribute has; of several events it is
written out: what it chooses by becomes jumps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct, field

from engine.errors import ContractViolation
from engine.pattern.compiled.derived import Read, aliases_of, chosen
from engine.pattern.search import program_machine as machine
from engine.pattern.search.program_machine import ABSENT, FLOAT, INT, TEXT
from engine.pattern.verdict.outcomes import EQUAL, LESS, MORE
from engine.query.fields import bare
from engine.query.plan import (
    Arithmetic,
    Attribute,
    Case,
    Constant,
    Expression,
    FunctionCall,
    Predicate,
)
from engine.stream.released import Strings

ALL: Final = LESS | EQUAL | MORE
_INTEGER: Final = {
    "+": machine.ADD_INT, "-": machine.SUBTRACT_INT, "*": machine.MULTIPLY_INT,
    "%": machine.MODULO_INT,
}  # fmt: skip
_FLOAT: Final = {
    "+": machine.ADD_FLOAT, "-": machine.SUBTRACT_FLOAT, "*": machine.MULTIPLY_FLOAT,
    "/": machine.DIVIDE, "%": machine.MODULO_FLOAT,
}  # fmt: skip
_WHOLE: Final = {"floor": machine.FLOOR, "ceil": machine.CEIL, "round": machine.ROUND}


class Operand(NamedTuple):
    """Where a value of ``kind`` is found: see ``program_machine``."""

    kind: int
    value: int
    step: int


NULL: Final = Operand(ABSENT, 0, machine.CONSTANT)
ZERO: Final = Operand(INT, 0, machine.CONSTANT)


class ValueWriter(Struct):
    """Writes the instructions of values; jumps lead to numbers of labels until ``resolved``."""

    place: Mapping[str, int]
    register: Mapping[Read, int]
    kind: np.ndarray
    strings: Strings
    texts: tuple[str, ...]
    """The text constants; each is an operand by the place of its rank, from the end."""
    code: list[list[int]] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    """The instruction that each label stands before."""
    table: list[int] = field(default_factory=list)
    places: int = 0
    """Of ``work``."""
    base: int = 0
    """The first place of ``work`` that is free; others have values of which a CASE is a part."""

    @abstractmethod
    def predicate(
        self, node: Predicate, then: int, other: int, *, certain: bool, truth: bool = True
    ) -> None:
        """A jump to ``then`` where ``node`` is ``truth`` under some clock errors (``certain``:
        under all), else to ``other``.
        """

    def emit(self, operation: int, left: Operand, right: Operand, *rest: int) -> None:
        self.code.append([operation, left.value, left.step, right.value, right.step, *rest])

    def always(self, passes: bool, then: int, other: int) -> None:
        self.emit(machine.COMPARE_INT, ZERO, ZERO, ALL if passes else 0, then, other)

    def value(self, node: Expression, depth: int, other: int) -> Operand:
        """Where the value of ``node`` is found; work places from ``depth`` on are free."""
        match node:
            case Constant(value=str(text)):
                return Operand(TEXT, -1 - self.texts.index(text), machine.CONSTANT)
            case Constant(value=float(real)):
                return Operand(FLOAT, bits(real), machine.CONSTANT)
            case Constant(value=constant):
                return Operand(INT, int(constant), machine.CONSTANT)
            case Attribute():
                return self.read(node.name, node.alias)
            case FunctionCall() | Case():
                return self._called(node, depth, other)
        left = self.value(node.left, depth, other)
        right = self.value(node.right, depth + 1, other)
        kinds = {left.kind, right.kind}
        if not kinds <= {INT, FLOAT}:
            return NULL
        if kinds == {INT} and node.op != "/":
            return self.result(_INTEGER[node.op], INT, left, right, depth, other)
        left, right = self.real(left, depth, other), self.real(right, depth + 1, other)
        return self.result(_FLOAT[node.op], FLOAT, left, right, depth, other)

    def _called(self, node: FunctionCall | Case, depth: int, other: int) -> Operand:
        """A function or CASE: of one event it has a register."""
        aliases = aliases_of(node)
        if len(aliases) == 1:
            return self.read(bare(node), *aliases)
        if isinstance(node, FunctionCall) and node.function in _WHOLE:
            value = self.value(node.arguments[0], depth, other)
            if value.kind != FLOAT:
                return value
            return self.result(_WHOLE[node.function], FLOAT, value, ZERO, depth, other)
        case = node if isinstance(node, Case) else chosen(node)
        if case is None:
            raise ContractViolation(f"{node!r} reads several events")
        return self._chosen(case, depth, other)

    def _chosen(self, node: Case, depth: int, other: int) -> Operand:
        """The value of a CASE, at place ``depth``."""
        kind = self._kind(node)
        if kind == TEXT:
            raise ContractViolation(f"{node!r} chooses among texts of several events")
        end, base = self.label(), self.base
        for when, then in node.whens:
            yes, no = self.label(), self.label()
            self.base = depth
            self.predicate(when, yes, no, certain=False)
            self.base = base
            self.labels[yes] = len(self.code)
            self._put(then, kind, depth, end, other)
            self.labels[no] = len(self.code)
        self._put(node.otherwise, kind, depth, end, other)
        self.labels[end] = len(self.code)
        return Operand(kind, depth, machine.WORK)

    def _put(self, node: Expression | None, kind: int, depth: int, end: int, other: int) -> None:
        """The value of ``node`` to place ``depth``, and a jump to ``end``; null: to ``other``."""
        value = NULL if node is None else self.value(node, depth, other)
        if value.kind in (ABSENT, TEXT):
            self.always(False, end, other)
            return
        if kind == FLOAT:
            value = self.real(value, depth, other)
        self.places = max(self.places, depth + 2)
        self.emit(machine.MOVE, value, ZERO, depth, end, other)

    def _kind(self, node: Expression | None) -> int:
        """Of which kind the value is."""
        match node:
            case Constant(value=value):
                return (
                    TEXT if isinstance(value, str) else FLOAT if isinstance(value, float) else INT
                )
            case Attribute(name=name):
                return int(self.kind[self.register[name]])
            case Arithmetic(op=op, left=left, right=right):
                kinds = {self._kind(left), self._kind(right)}
                if not kinds <= {INT, FLOAT}:
                    return ABSENT
                return FLOAT if FLOAT in kinds or op == "/" else INT
            case FunctionCall() | Case() if len(aliases_of(node)) == 1:
                return int(self.kind[self.register[bare(node)]])
            case FunctionCall(arguments=arguments):
                return _widest(map(self._kind, arguments))
            case Case(whens=whens, otherwise=otherwise):
                return _widest(map(self._kind, (*(then for _, then in whens), otherwise)))
        return ABSENT

    def label(self) -> int:
        self.labels.append(machine.FALSE)
        return len(self.labels) - 1

    def read(self, read: Read, alias: str | None) -> Operand:
        step, number = self.step(alias), self.register.get(read)
        if number is None:
            raise ContractViolation(f"predicate names {read!r}, which has no register")
        kind = int(self.kind[number])
        return NULL if kind == ABSENT else Operand(kind, number, step)

    def step(self, alias: str | None) -> int:
        if alias is None or alias not in self.place:
            raise ContractViolation(f"predicate names alias {alias!r}, which has no step")
        return self.place[alias]

    def real(self, value: Operand, depth: int, other: int) -> Operand:
        if value.kind == FLOAT:
            return value
        if value.step == machine.CONSTANT:
            return Operand(FLOAT, bits(float(value.value)), machine.CONSTANT)
        return self.result(machine.TO_FLOAT, FLOAT, value, ZERO, depth, other)

    def result(
        self, operation: int, kind: int, left: Operand, right: Operand, depth: int, other: int
    ) -> Operand:
        self.places = max(self.places, depth + 2)  # an interval takes two
        label = len(self.labels)
        self.labels.append(len(self.code) + 1)
        self.emit(operation, left, right, depth, label, other)
        return Operand(kind, depth, machine.WORK)


def _widest(kinds: Iterable[int]) -> int:
    """Of values of which one is chosen."""
    found = set(kinds)
    return next((kind for kind in (TEXT, FLOAT, INT) if kind in found), ABSENT)


def bits(real: float) -> int:
    """The bit pattern of ``real``."""
    return int(np.array(real, np.float64).view(np.int64))
