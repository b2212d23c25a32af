"""Turns the join predicates of a query into programs for ``engine.pattern.program_machine``.

The meaning is that of ``engine.query.expression.join_mask``, which works on columns: a program is
asked for one combination of events at a time, so that a matcher can drop it where it arises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from engine.errors import ContractViolation
from engine.pattern import program_machine as machine
from engine.pattern.program_machine import ABSENT, FLOAT, INT, TEXT, Programs
from engine.query.expression import join_mask
from engine.query.fields import attributes_in
from engine.query.plan import (
    Attribute,
    Comparison,
    Constant,
    Expression,
    Logic,
    Membership,
    Predicate,
)
from engine.released import Strings

_ALL: Final = machine.LESS | machine.EQUAL | machine.MORE
_OUTCOMES: Final = {
    "=": machine.EQUAL, "!=": machine.LESS | machine.MORE, "<": machine.LESS,
    "<=": machine.LESS | machine.EQUAL, ">": machine.MORE, ">=": machine.MORE | machine.EQUAL,
}  # fmt: skip
_INTEGER: Final = {
    "+": machine.ADD_INT, "-": machine.SUBTRACT_INT, "*": machine.MULTIPLY_INT,
}  # fmt: skip
_FLOAT: Final = {
    "+": machine.ADD_FLOAT, "-": machine.SUBTRACT_FLOAT, "*": machine.MULTIPLY_FLOAT,
    "/": machine.DIVIDE,
}  # fmt: skip
_COMPARE: Final = {INT: machine.COMPARE_INT, FLOAT: machine.COMPARE_FLOAT}


class _Operand(NamedTuple):
    kind: int
    value: int
    step: int


_NULL: Final = _Operand(ABSENT, 0, machine.CONSTANT)
_ZERO: Final = _Operand(INT, 0, machine.CONSTANT)


def compile_programs(
    predicates: Sequence[Predicate],
    place: Mapping[str, int],
    register: Mapping[str, int],
    kind: np.ndarray,
    strings: Strings,
) -> Programs:
    """Programs of ``predicates``, in their order.

    They are for these kinds and this state of ``strings``: to be compiled again when a kind
    changes, and when ``strings`` has grown after ``awaits_text`` was true.

    Args:
        predicates: that name aliases of ``place``.
        place: the step that an alias is.
        register: the register of each attribute that the predicates name, by the plan's name.
        kind: int8 (registers,): INT, FLOAT, TEXT or ABSENT.
        strings: the string table that the codes of texts are of.

    Raises:
        ContractViolation: an alias without a step, or an attribute without a register.
    """
    writer = _Writer(place, register, kind, strings, text_constants(predicates))
    start = []
    for predicate in predicates:
        start.append(len(writer.code))
        writer.predicate(predicate, True, machine.TRUE, machine.FALSE)
    return Programs(
        writer.resolved(),
        np.array(start, np.int64),
        np.array(writer.table, np.int64),
        np.zeros(writer.places, np.int64),
    )


def uses_text_order(programs: Programs) -> bool:
    """Whether ``programs`` need ``text_ranks``: one of them orders texts."""
    return bool((programs.code[:, machine.OPERATION] == machine.COMPARE_TEXT).any())


def awaits_text(predicates: Iterable[Predicate], strings: Strings) -> bool:
    """Whether ``predicates`` name a text that is not yet in ``strings``."""
    return any(
        isinstance(constant.value, str) and strings.find(constant.value) < 0
        for leaf in _leaves(predicates)
        for constant in _constants_in(leaf)
    )


def text_constants(predicates: Iterable[Predicate]) -> tuple[str, ...]:
    """The texts that ``predicates`` name, each once, for ``text_ranks``."""
    found = {
        constant.value: None
        for leaf in _leaves(predicates)
        for constant in _constants_in(leaf)
        if isinstance(constant.value, str)
    }
    return tuple(found)


def text_ranks(strings: Strings, constants: Sequence[str]) -> np.ndarray:
    """Places of texts in the order of their code points; equal texts have equal places.

    To be made again when ``strings`` has grown.

    Args:
        strings: the string table.
        constants: of ``text_constants``.

    Returns:
        int64 (len(strings) + len(constants),): by code; the constants' from the end backwards.
    """
    texts = [*strings.texts, *reversed(constants)]
    place = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return np.array([place[text] for text in texts], np.int64)


def _leaves(predicates: Iterable[Predicate]) -> Iterator[Comparison | Membership]:
    for predicate in predicates:
        if isinstance(predicate, Logic):
            yield from _leaves(predicate.terms)
        else:
            yield predicate


def _constants_in(leaf: Comparison | Membership) -> Iterator[Constant]:
    stack: list[Expression] = (
        [leaf.left, leaf.right] if isinstance(leaf, Comparison) else [leaf.item, *leaf.options]
    )
    while stack:
        node = stack.pop()
        if isinstance(node, Constant):
            yield node
        elif not isinstance(node, Attribute):
            stack += [node.left, node.right]


@dataclass(slots=True)
class _Writer:
    """Writes instructions; jumps lead to numbers of labels until ``resolved``."""

    place: Mapping[str, int]
    register: Mapping[str, int]
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

    def resolved(self) -> np.ndarray:
        """The instructions with jumps to instructions; int64 (instructions, COLUMNS)."""
        code = np.array(self.code, np.int64).reshape(-1, machine.COLUMNS)
        # TRUE and FALSE are below 0 and count from the end.
        targets = np.array([*self.labels, machine.FALSE, machine.TRUE], np.int64)
        for column in (machine.THEN, machine.ELSE):
            code[:, column] = targets[code[:, column]]
        return code

    def predicate(self, node: Predicate, truth: bool, then: int, other: int) -> None:
        """A jump to ``then`` where ``node`` is certainly ``truth``, else to ``other``."""
        match node:
            case Logic(op="not", terms=(term,)):
                self.predicate(term, not truth, then, other)
            case Logic(op=op, terms=terms):
                every = (op == "and") == truth
                for term in terms[:-1]:
                    label = len(self.labels)
                    self.labels.append(machine.FALSE)
                    self.predicate(term, truth, *((label, other) if every else (then, label)))
                    self.labels[label] = len(self.code)
                self.predicate(terms[-1], truth, then, other)
            case _ if not any(attributes_in(node)):
                certain = node if truth else Logic("not", (node,))
                self._always(bool(join_mask(certain, {})), then, other)
            case Comparison(op=op, left=left, right=right):
                outcomes = _OUTCOMES[op] if truth else _ALL ^ _OUTCOMES[op]
                sides = self._value(left, 0, other), self._value(right, 1, other)
                self._compare(outcomes, *sides, then, other)
            case Membership():
                self._membership(node, truth, then, other)

    def _emit(self, operation: int, left: _Operand, right: _Operand, *rest: int) -> None:
        self.code.append([operation, left.value, left.step, right.value, right.step, *rest])

    def _always(self, passes: bool, then: int, other: int) -> None:
        self._emit(machine.COMPARE_INT, _ZERO, _ZERO, _ALL if passes else 0, then, other)

    def _compare(
        self, outcomes: int, left: _Operand, right: _Operand, then: int, other: int
    ) -> None:
        kinds = {left.kind, right.kind}
        if ABSENT in kinds or (TEXT in kinds and len(kinds) > 1):
            self._always(False, then, other)
            return
        if (left.kind, right.kind) == (FLOAT, INT):
            left, right, outcomes = right, left, _mirrored(outcomes)
        if left.kind != TEXT:
            operation = machine.COMPARE_MIXED if len(kinds) > 1 else _COMPARE[left.kind]
        elif outcomes in {_OUTCOMES["="], _OUTCOMES["!="]}:
            operation = machine.COMPARE_INT
            left, right = (self._coded(side) for side in (left, right))
        else:
            operation = machine.COMPARE_TEXT
        self._emit(operation, left, right, outcomes, then, other)

    def _membership(self, node: Membership, truth: bool, then: int, other: int) -> None:
        constants = [option.value for option in node.options]
        written = len(self.code)
        item = self._value(node.item, 0, other)
        if item.kind == INT and all(isinstance(constant, int) for constant in constants):
            wanted = {int(constant) for constant in constants}
        elif item.kind == TEXT and all(isinstance(constant, str) for constant in constants):
            wanted = {self.strings.find(str(constant)) for constant in constants}
        else:
            del self.code[written:]
            if constants:
                each = tuple(Comparison("=", node.item, option) for option in node.options)
                self.predicate(Logic("or", each), truth, then, other)
            else:
                self._always(not truth, then, other)
            return
        start = _Operand(INT, len(self.table), machine.CONSTANT)
        self.table += [len(wanted), *sorted(wanted)]
        self._emit(machine.IN_TABLE, item, start, int(truth), then, other)

    def _coded(self, side: _Operand) -> _Operand:
        """A text by its code, which events' texts are already."""
        if side.step >= 0:
            return side
        return side._replace(value=self.strings.find(self.texts[-1 - side.value]))

    def _value(self, node: Expression, depth: int, other: int) -> _Operand:
        """Where the value of ``node`` is found; work places from ``depth`` on are free."""
        match node:
            case Constant(value=str(text)):
                return _Operand(TEXT, -1 - self.texts.index(text), machine.CONSTANT)
            case Constant(value=float(real)):
                return _Operand(FLOAT, _bits(real), machine.CONSTANT)
            case Constant(value=constant):
                return _Operand(INT, int(constant), machine.CONSTANT)
            case Attribute():
                return self._attribute(node)
        left = self._value(node.left, depth, other)
        right = self._value(node.right, depth + 1, other)
        kinds = {left.kind, right.kind}
        if not kinds <= {INT, FLOAT}:
            return _NULL
        if kinds == {INT} and node.op != "/":
            return self._result(_INTEGER[node.op], INT, left, right, depth, other)
        left, right = self._real(left, depth, other), self._real(right, depth + 1, other)
        return self._result(_FLOAT[node.op], FLOAT, left, right, depth, other)

    def _attribute(self, node: Attribute) -> _Operand:
        if node.alias is None or node.alias not in self.place:
            raise ContractViolation(f"predicate names alias {node.alias!r}, which has no step")
        number = self.register.get(node.name)
        if number is None:
            raise ContractViolation(f"predicate names {node.name!r}, which has no register")
        kind = int(self.kind[number])
        return _NULL if kind == ABSENT else _Operand(kind, number, self.place[node.alias])

    def _real(self, value: _Operand, depth: int, other: int) -> _Operand:
        if value.kind == FLOAT:
            return value
        if value.step == machine.CONSTANT:
            return _Operand(FLOAT, _bits(float(value.value)), machine.CONSTANT)
        return self._result(machine.TO_FLOAT, FLOAT, value, _ZERO, depth, other)

    def _result(
        self, operation: int, kind: int, left: _Operand, right: _Operand, depth: int, other: int
    ) -> _Operand:
        self.places = max(self.places, depth + 1)
        label = len(self.labels)
        self.labels.append(len(self.code) + 1)
        self._emit(operation, left, right, depth, label, other)
        return _Operand(kind, depth, machine.WORK)


def _bits(real: float) -> int:
    return int(np.array(real, np.float64).view(np.int64))


def _mirrored(outcomes: int) -> int:
    """The outcomes seen from the other side."""
    kept = outcomes & machine.EQUAL
    less, more = outcomes & machine.LESS, outcomes & machine.MORE
    return kept | (machine.MORE if less else 0) | (machine.LESS if more else 0)
