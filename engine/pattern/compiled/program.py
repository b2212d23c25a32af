"""Turns the join predicates of a query into programs for ``engine.pattern.search.program_machine``.

The meaning is that of ``engine.query.expression.join_mask``, which works on columns: a program is
asked for one combination of events at a time, so that a matcher can drop it where it arises. Where
clocks err, a predicate on times holds possibly or certainly: each has two programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from engine.pattern.compiled.derived import Read, flag
from engine.pattern.compiled.program_texts import text_constants
from engine.pattern.compiled.program_values import ALL, ZERO, Operand, ValueWriter, bits
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
    OPPOSITE,
    Arithmetic,
    Comparison,
    Constant,
    Expression,
    Likeness,
    Logic,
    Membership,
    Predicate,
    Presence,
)
from engine.stream.released import Strings

_OUTCOMES: Final = {
    "=": EQUAL, "!=": LESS | MORE, "<": LESS,
    "<=": LESS | EQUAL, ">": MORE, ">=": MORE | EQUAL,
}  # fmt: skip
_COMPARE: Final = {INT: machine.COMPARE_INT, FLOAT: machine.COMPARE_FLOAT}
_NEAR: Final = {INT: clocked.NEAR_INT, FLOAT: clocked.NEAR_FLOAT}
_INTERVALS: Final = {
    "+": clocked.ADD_INTERVALS, "-": clocked.SUBTRACT_INTERVALS,
    "*": clocked.MULTIPLY_INTERVALS, "/": clocked.DIVIDE_INTERVALS,
}  # fmt: skip


def compile_programs(
    predicates: Sequence[Predicate],
    place: Mapping[str, int],
    register: Mapping[Read, int],
    kind: np.ndarray,
    strings: Strings,
) -> Programs:
    """Two programs for each of ``predicates``, in their order: possibly and certainly true.

    They are for these kinds and this state of ``strings``: to be compiled again when a kind
    changes, and when ``strings`` has grown after ``awaits_text`` was true.

    Args:
        predicates: that name aliases of ``place``.
        place: the step that an alias is.
        register: the register of all that the predicates read (``derived.reads``).
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


class _Writer(ValueWriter):
    """Writes instructions; jumps lead to numbers of labels until ``resolved``."""

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
            case Presence(item=item):
                self._presence(item, then, other, truth=truth)
            case Likeness():
                wanted = Comparison("=", flag(node), Constant(truth))
                self._comparison(wanted, then, other, certain=certain)
            case Membership():
                self._membership(node, then, other, certain=certain, truth=truth)
            case Comparison() if not truth:
                opposite = Comparison(OPPOSITE[node.op], node.left, node.right)
                self._comparison(opposite, then, other, certain=certain)
            case _:
                self._comparison(node, then, other, certain=certain)

    def _comparison(self, node: Comparison, then: int, other: int, *, certain: bool) -> None:
        if not any(attributes_in(node)):
            self.always(bool(join_mask(node, {})), then, other)
        elif (of_window := one_window(node)) is not None:
            size, events = of_window
            start = Operand(INT, len(self.table), machine.CONSTANT)
            self.table += [size, *map(self.step, events)]
            self.emit(clocked.ONE_WINDOW, start, ZERO, int(certain), then, other)
        else:
            detail = _OUTCOMES[node.op] | (clocked.CERTAIN_BIT if certain else 0)
            moved = difference(node.left, node.right)
            if moved is None:
                self._by_intervals(node, detail, then, other)
                return
            base = self.base
            sides = self.value(node.left, base, other), self.value(node.right, base + 1, other)
            self._compare(detail, *sides, then, other, moved)

    def _presence(self, item: Expression, then: int, other: int, *, truth: bool) -> None:
        if not truth:
            then, other = other, then
        value = self.value(item, self.base, other)
        if value.kind == ABSENT:
            self.always(False, then, other)
        elif value.kind == FLOAT:
            self.emit(machine.COMPARE_FLOAT, value, value, ALL, then, other)  # a NaN is null
        else:
            self.emit(machine.COMPARE_INT, value, value, ALL, then, other)

    def _compare(
        self, detail: int, left: Operand, right: Operand, then: int, other: int,
        moved: Coefficients,
    ) -> None:  # fmt: skip
        """``moved``: how far clock errors move ``left`` beside ``right``."""
        kinds = {left.kind, right.kind}
        if ABSENT in kinds or (TEXT in kinds and len(kinds) > 1):
            self.always(False, then, other)
            return
        if (left.kind, right.kind) == (FLOAT, INT):
            left, right, detail = right, left, _mirrored(detail)
            moved = {alias: -factor for alias, factor in moved.items()}
        if moved:
            operation = clocked.NEAR_MIXED if len(kinds) > 1 else _NEAR[left.kind]
            self._spread(moved, 2, other)
            self.emit(operation, left, right, detail | 2 << clocked.PLACE_SHIFT, then, other)
            return
        detail &= ALL
        if left.kind != TEXT:
            operation = machine.COMPARE_MIXED if len(kinds) > 1 else _COMPARE[left.kind]
        elif detail in {_OUTCOMES["="], _OUTCOMES["!="]}:
            operation = machine.COMPARE_INT
            left, right = (self._coded(side) for side in (left, right))
        else:
            operation = machine.COMPARE_TEXT
        self.emit(operation, left, right, detail, then, other)

    def _spread(self, moved: Coefficients, place: int, other: int) -> None:
        """How far the clocks of some events move a value, to ``place`` of ``work``."""
        events = Operand(INT, self._listed(moved), machine.CONSTANT)
        self.result(clocked.SPREAD, FLOAT, events, ZERO, place, other)

    def _listed(self, moved: Coefficients) -> int:
        """Where ``moved`` begins in ``table``."""
        start = len(self.table)
        self.table.append(len(moved))
        for alias, factor in moved.items():
            self.table += [self.step(alias), bits(factor)]
        return start

    def _by_intervals(self, node: Comparison, detail: int, then: int, other: int) -> None:
        """Of values that are no sums of times; as ever, where no clock errs."""
        aliases = clocked_aliases([node.left, node.right])
        exactly, nearly = len(self.labels), len(self.labels) + 1
        self.labels += [machine.FALSE] * 2
        events = Operand(INT, self._listed(dict.fromkeys(aliases, 1.0)), machine.CONSTANT)
        self.emit(clocked.NO_ERROR, events, ZERO, 0, exactly, nearly)
        self.labels[exactly] = len(self.code)
        sides = self.value(node.left, 0, other), self.value(node.right, 1, other)
        self._compare(detail, *sides, then, other, {})
        self.labels[nearly] = len(self.code)
        if self._interval(Arithmetic("-", node.left, node.right), 0, other):
            self.emit(clocked.COMPARE_INTERVALS, ZERO, ZERO, detail, then, other)
        else:
            self.always(False, then, other)

    def _interval(self, node: Expression, depth: int, other: int) -> bool:
        """What ``node`` may be, to places ``depth`` and the next; False: it is no number."""
        moved = coefficients(node)
        if moved is not None:
            value = self.value(node, depth, other)
            if value.kind not in (INT, FLOAT):
                return False
            value = self.real(value, depth, other)
            self._spread(moved, depth + 2, other)
            wide = Operand(INT, depth + 2, machine.CONSTANT)
            self.result(clocked.WIDEN, FLOAT, value, wide, depth, other)
            return True
        assert isinstance(node, Arithmetic)
        if not self._interval(node.left, depth, other):
            return False
        if not self._interval(node.right, depth + 2, other):
            return False
        left, right = (Operand(INT, place, machine.CONSTANT) for place in (depth, depth + 2))
        self.result(_INTERVALS[node.op], FLOAT, left, right, depth, other)
        return True

    def _membership(
        self, node: Membership, then: int, other: int, *, certain: bool, truth: bool
    ) -> None:
        constants = [option.value for option in node.options]
        written = len(self.code)
        item = self.value(node.item, self.base, other)
        exact = coefficients(node.item) == {}
        if exact and item.kind == INT and all(isinstance(each, int) for each in constants):
            wanted = {int(constant) for constant in constants}
        elif exact and item.kind == TEXT and all(isinstance(each, str) for each in constants):
            wanted = {self.strings.find(str(constant)) for constant in constants}
        else:
            del self.code[written:]
            if constants:
                each = tuple(Comparison("=", node.item, option) for option in node.options)
                self.predicate(Logic("or", each), then, other, certain=certain, truth=truth)
            else:
                self.always(not truth, then, other)
            return
        start = Operand(INT, len(self.table), machine.CONSTANT)
        self.table += [len(wanted), *sorted(wanted)]
        self.emit(machine.IN_TABLE, item, start, int(truth), then, other)

    def _coded(self, side: Operand) -> Operand:
        """A text by its code, which events' texts are already."""
        if side.step >= 0:
            return side
        return side._replace(value=self.strings.find(self.texts[-1 - side.value]))


def _mirrored(outcomes: int) -> int:
    """The outcomes seen from the other side; other bits stay."""
    kept = outcomes & ~(LESS | MORE)
    less, more = outcomes & LESS, outcomes & MORE
    return kept | (MORE if less else 0) | (LESS if more else 0)
