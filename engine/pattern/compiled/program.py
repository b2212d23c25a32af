"""Turns the join predicates of a query into programs for ``engine.pattern.search.program_machine``.

The meaning is that of ``engine.query.expression.join_mask``, which works on columns: a program is
asked for one combination of events at a time, so that a matcher can drop it where it arises. Where
clocks err, a predicate on times holds possibly or certainly: each has two programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from engine.errors import ContractViolation
from engine.pattern.compiled.program_texts import text_constants
from engine.pattern.search import clocked_machine as clocked
from engine.pattern.search import program_machine as machine
from engine.pattern.search.program_machine import ABSENT, FLOAT, INT, TEXT, Programs
from engine.pattern.verdict.outcomes import EQUAL, LESS, MORE
from engine.query.clocked import (
    Coefficients,
    clocked_aliases,
    coefficients,
    difference,
    is_clocked,
    one_window,
)
from engine.query.expression import join_mask
from engine.query.fields import attributes_in
from engine.query.plan import (
    Arithmetic,
    Attribute,
    Comparison,
    Constant,
    Expression,
    Logic,
    Membership,
    Predicate,
)
from engine.stream.released import Strings

_ALL: Final = LESS | EQUAL | MORE
_OUTCOMES: Final = {
    "=": EQUAL, "!=": LESS | MORE, "<": LESS,
    "<=": LESS | EQUAL, ">": MORE, ">=": MORE | EQUAL,
}  # fmt: skip
_INTEGER: Final = {
    "+": machine.ADD_INT, "-": machine.SUBTRACT_INT, "*": machine.MULTIPLY_INT,
}  # fmt: skip
_FLOAT: Final = {
    "+": machine.ADD_FLOAT, "-": machine.SUBTRACT_FLOAT, "*": machine.MULTIPLY_FLOAT,
    "/": machine.DIVIDE,
}  # fmt: skip
_COMPARE: Final = {INT: machine.COMPARE_INT, FLOAT: machine.COMPARE_FLOAT}
_NEAR: Final = {INT: clocked.NEAR_INT, FLOAT: clocked.NEAR_FLOAT}
_INTERVALS: Final = {
    "+": clocked.ADD_INTERVALS, "-": clocked.SUBTRACT_INTERVALS,
    "*": clocked.MULTIPLY_INTERVALS, "/": clocked.DIVIDE_INTERVALS,
}  # fmt: skip


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
    """Two programs for each of ``predicates``, in their order: possibly and certainly true.

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
        start += [len(writer.code)] * 2
        writer.predicate(predicate, machine.TRUE, machine.FALSE, certain=False)
        if is_clocked(predicate):
            start[-1] = len(writer.code)
            writer.predicate(predicate, machine.TRUE, machine.FALSE, certain=True)
    return Programs(
        writer.resolved(),
        np.array(start, np.int64),
        np.array(writer.table, np.int64),
        np.zeros(writer.places, np.int64),
    )


def uses_text_order(programs: Programs) -> bool:
    """Whether ``programs`` need ``text_ranks``: one of them orders texts."""
    return bool((programs.code["operation"] == machine.COMPARE_TEXT).any())


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
        """The instructions with jumps to instructions."""
        code = np.array([tuple(each) for each in self.code], machine.INSTRUCTION)
        # TRUE and FALSE are below 0 and count from the end.
        targets = np.array([*self.labels, machine.FALSE, machine.TRUE], np.int64)
        for jump in ("then", "otherwise"):
            code[jump] = targets[code[jump]]
        return code

    def predicate(
        self, node: Predicate, then: int, other: int, *, certain: bool, truth: bool = True
    ) -> None:
        """A jump to ``then`` where ``node`` is ``truth`` under some clock errors (``certain``:
        under all), else to ``other``.
        """
        match node:
            case Logic(op="not", terms=(term,)):
                self.predicate(term, then, other, certain=certain, truth=not truth)
            case Logic(op=op, terms=terms):
                every = (op == "and") == truth
                for term in terms[:-1]:
                    label = len(self.labels)
                    self.labels.append(machine.FALSE)
                    ends = (label, other) if every else (then, label)
                    self.predicate(term, *ends, certain=certain, truth=truth)
                    self.labels[label] = len(self.code)
                self.predicate(terms[-1], then, other, certain=certain, truth=truth)
            case _ if not truth:
                # It is false for certain where it is not possibly true; so is one with a null.
                self._leaf(node, other, then, certain=not certain)
            case _:
                self._leaf(node, then, other, certain=certain)

    def _leaf(self, node: Comparison | Membership, then: int, other: int, *, certain: bool) -> None:
        if not any(attributes_in(node)):
            self._always(bool(join_mask(node, {})), then, other)
        elif isinstance(node, Membership):
            self._membership(node, then, other, certain=certain)
        elif (of_window := one_window(node)) is not None:
            size, events = of_window
            start = _Operand(INT, len(self.table), machine.CONSTANT)
            self.table += [size, *map(self._step, events)]
            self._emit(clocked.ONE_WINDOW, start, _ZERO, int(certain), then, other)
        else:
            detail = _OUTCOMES[node.op] | (clocked.CERTAIN_BIT if certain else 0)
            moved = difference(node.left, node.right)
            if moved is None:
                self._by_intervals(node, detail, then, other)
                return
            sides = self._value(node.left, 0, other), self._value(node.right, 1, other)
            self._compare(detail, *sides, then, other, moved)

    def _emit(self, operation: int, left: _Operand, right: _Operand, *rest: int) -> None:
        self.code.append([operation, left.value, left.step, right.value, right.step, *rest])

    def _always(self, passes: bool, then: int, other: int) -> None:
        self._emit(machine.COMPARE_INT, _ZERO, _ZERO, _ALL if passes else 0, then, other)

    def _compare(
        self, detail: int, left: _Operand, right: _Operand, then: int, other: int,
        moved: Coefficients,
    ) -> None:  # fmt: skip
        """``moved``: how far clock errors move ``left`` beside ``right``."""
        kinds = {left.kind, right.kind}
        if ABSENT in kinds or (TEXT in kinds and len(kinds) > 1):
            self._always(False, then, other)
            return
        if (left.kind, right.kind) == (FLOAT, INT):
            left, right, detail = right, left, _mirrored(detail)
            moved = {alias: -factor for alias, factor in moved.items()}
        if moved:
            operation = clocked.NEAR_MIXED if len(kinds) > 1 else _NEAR[left.kind]
            self._spread(moved, 2, other)
            self._emit(operation, left, right, detail | 2 << clocked.PLACE_SHIFT, then, other)
            return
        detail &= _ALL
        if left.kind != TEXT:
            operation = machine.COMPARE_MIXED if len(kinds) > 1 else _COMPARE[left.kind]
        elif detail in {_OUTCOMES["="], _OUTCOMES["!="]}:
            operation = machine.COMPARE_INT
            left, right = (self._coded(side) for side in (left, right))
        else:
            operation = machine.COMPARE_TEXT
        self._emit(operation, left, right, detail, then, other)

    def _spread(self, moved: Coefficients, place: int, other: int) -> None:
        """How far the clocks of some events move a value, to ``place`` of ``work``."""
        events = _Operand(INT, self._listed(moved), machine.CONSTANT)
        self._result(clocked.SPREAD, FLOAT, events, _ZERO, place, other)

    def _listed(self, moved: Coefficients) -> int:
        """Where ``moved`` begins in ``table``."""
        start = len(self.table)
        self.table.append(len(moved))
        for alias, factor in moved.items():
            self.table += [self._step(alias), _bits(factor)]
        return start

    def _by_intervals(self, node: Comparison, detail: int, then: int, other: int) -> None:
        """Of values that are no sums of times; as ever, where no clock errs."""
        aliases = clocked_aliases([node.left, node.right])
        exactly, nearly = len(self.labels), len(self.labels) + 1
        self.labels += [machine.FALSE] * 2
        events = _Operand(INT, self._listed(dict.fromkeys(aliases, 1.0)), machine.CONSTANT)
        self._emit(clocked.NO_ERROR, events, _ZERO, 0, exactly, nearly)
        self.labels[exactly] = len(self.code)
        sides = self._value(node.left, 0, other), self._value(node.right, 1, other)
        self._compare(detail, *sides, then, other, {})
        self.labels[nearly] = len(self.code)
        if self._interval(Arithmetic("-", node.left, node.right), 0, other):
            self._emit(clocked.COMPARE_INTERVALS, _ZERO, _ZERO, detail, then, other)
        else:
            self._always(False, then, other)

    def _interval(self, node: Expression, depth: int, other: int) -> bool:
        """What ``node`` may be, to places ``depth`` and the next; False: it is no number."""
        moved = coefficients(node)
        if moved is not None:
            value = self._value(node, depth, other)
            if value.kind not in (INT, FLOAT):
                return False
            value = self._real(value, depth, other)
            self._spread(moved, depth + 2, other)
            wide = _Operand(INT, depth + 2, machine.CONSTANT)
            self._result(clocked.WIDEN, FLOAT, value, wide, depth, other)
            return True
        assert isinstance(node, Arithmetic)
        if not self._interval(node.left, depth, other):
            return False
        if not self._interval(node.right, depth + 2, other):
            return False
        left, right = (_Operand(INT, place, machine.CONSTANT) for place in (depth, depth + 2))
        self._result(_INTERVALS[node.op], FLOAT, left, right, depth, other)
        return True

    def _membership(self, node: Membership, then: int, other: int, *, certain: bool) -> None:
        constants = [option.value for option in node.options]
        written = len(self.code)
        item = self._value(node.item, 0, other)
        exact = coefficients(node.item) == {}
        if exact and item.kind == INT and all(isinstance(each, int) for each in constants):
            wanted = {int(constant) for constant in constants}
        elif exact and item.kind == TEXT and all(isinstance(each, str) for each in constants):
            wanted = {self.strings.find(str(constant)) for constant in constants}
        else:
            del self.code[written:]
            if constants:
                each = tuple(Comparison("=", node.item, option) for option in node.options)
                self.predicate(Logic("or", each), then, other, certain=certain)
            else:
                self._always(False, then, other)
            return
        start = _Operand(INT, len(self.table), machine.CONSTANT)
        self.table += [len(wanted), *sorted(wanted)]
        self._emit(machine.IN_TABLE, item, start, 1, then, other)

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
        step, number = self._step(node.alias), self.register.get(node.name)
        if number is None:
            raise ContractViolation(f"predicate names {node.name!r}, which has no register")
        kind = int(self.kind[number])
        return _NULL if kind == ABSENT else _Operand(kind, number, step)

    def _step(self, alias: str | None) -> int:
        if alias is None or alias not in self.place:
            raise ContractViolation(f"predicate names alias {alias!r}, which has no step")
        return self.place[alias]

    def _real(self, value: _Operand, depth: int, other: int) -> _Operand:
        if value.kind == FLOAT:
            return value
        if value.step == machine.CONSTANT:
            return _Operand(FLOAT, _bits(float(value.value)), machine.CONSTANT)
        return self._result(machine.TO_FLOAT, FLOAT, value, _ZERO, depth, other)

    def _result(
        self, operation: int, kind: int, left: _Operand, right: _Operand, depth: int, other: int
    ) -> _Operand:
        self.places = max(self.places, depth + 2)  # an interval takes two
        label = len(self.labels)
        self.labels.append(len(self.code) + 1)
        self._emit(operation, left, right, depth, label, other)
        return _Operand(kind, depth, machine.WORK)


def _bits(real: float) -> int:
    return int(np.array(real, np.float64).view(np.int64))


def _mirrored(outcomes: int) -> int:
    """The outcomes seen from the other side; other bits stay."""
    kept = outcomes & ~(LESS | MORE)
    less, more = outcomes & LESS, outcomes & MORE
    return kept | (MORE if less else 0) | (LESS if more else 0)
