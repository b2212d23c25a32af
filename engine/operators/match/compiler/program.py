"""Join predicates of a query as programs for the kernel's machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct, field

from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.released import Strings
from slackwater.engine.core.units import workdays
from slackwater.engine.operators.match.compiler.tables import Read, aliases_of, chosen, flag
from slackwater.engine.operators.match.search import machine
from slackwater.engine.operators.match.search.machine import (
    ABSENT,
    EQUAL,
    FLOAT,
    INT,
    LESS,
    MORE,
    TEXT,
    Programs,
)
from slackwater.engine.query.clock_sensitivity import (
    Coefficients,
    by_event,
    clocked_aliases,
    coefficients,
    difference,
    is_clocked,
)
from slackwater.engine.query.expression import join_mask
from slackwater.engine.query.fields import attributes_in, bare, inside
from slackwater.engine.query.plan import (
    OPPOSITE,
    Arithmetic,
    Attribute,
    Case,
    Comparison,
    Constant,
    Expression,
    FunctionCall,
    InOneWindow,
    InWorkdays,
    Likeness,
    Logic,
    Membership,
    Predicate,
    Presence,
)

# The text constants of join predicates, and the order of all texts.


def awaits_text(predicates: Iterable[Predicate], strings: Strings) -> bool:
    """Return whether ``predicates`` contain a text that is not yet in ``strings``."""
    return any(strings.find(text) < 0 for text in text_constants(predicates))


def text_constants(predicates: Iterable[Predicate]) -> tuple[str, ...]:
    """Return the distinct text constants of ``predicates``, for ``text_ranks``."""
    parts = (part for predicate in predicates for part in inside(predicate))
    constants = (part.value for part in parts if isinstance(part, Constant))
    return tuple(dict.fromkeys(value for value in constants if isinstance(value, str)))


def text_ranks(strings: Strings, constants: Sequence[str]) -> np.ndarray:
    """Return the ranks of texts in code point order; equal texts have equal ranks.

    The ranks are valid until ``strings`` grows.

    Args:
        strings: the string table.
        constants: the result of ``text_constants``.

    Returns:
        int64: ranks of texts by code, then those of the constants, backwards from the end.
    """
    texts = [*strings.texts, *reversed(constants)]
    place = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return np.array([place[text] for text in texts], np.int64)


# Values in programs: where the instructions of a condition find their operands.
#
# A function or CASE of one event has a register, like an attribute. A CASE of several events is
# compiled to jumps.


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
    """The place of a value of ``kind``; see ``match.search.machine``."""

    kind: int
    value: int
    step: int


NULL: Final = Operand(ABSENT, 0, machine.CONSTANT)
ZERO: Final = Operand(INT, 0, machine.CONSTANT)


class _Writer(Struct):
    """Writes instructions; jump targets are numbers of labels until ``resolved``."""

    place: Mapping[str, int]
    register: Mapping[Read, int]
    kind: np.ndarray
    strings: Strings
    texts: tuple[str, ...]
    """The text constants; as operands they are places of ranks, from the end."""
    code: list[list[int]] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    """The instruction after each label."""
    table: list[int] = field(default_factory=list)
    places: int = 0
    """Number of places of ``work`` in use."""
    base: int = 0
    """The first free place of ``work``; earlier places hold operands of an enclosing expression."""
    zone: str = ""
    """Time zone of the workdays."""

    def emit(self, operation: int, left: Operand, right: Operand, *rest: int) -> None:
        self.code.append([operation, left.value, left.step, right.value, right.step, *rest])

    def always(self, passes: bool, then: int, other: int) -> None:
        self.emit(machine.COMPARE_INT, ZERO, ZERO, ALL if passes else 0, then, other)

    def value(self, node: Expression, depth: int, other: int) -> Operand:
        """Return the operand of ``node``; work places from ``depth`` on are free.

        A null value jumps to ``other``.
        """
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
        """Return the operand of a function or CASE; of one event it has a register.

        Raises:
            ContractViolation: a function of several events that cannot be written out.
        """
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
        """Write the value of a CASE to place ``depth``.

        Raises:
            ContractViolation: the values are texts.
        """
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
        """Write ``node`` to place ``depth`` and jump to ``end``; null jumps to ``other``."""
        value = NULL if node is None else self.value(node, depth, other)
        if value.kind in (ABSENT, TEXT):
            self.always(False, end, other)
            return
        if kind == FLOAT:
            value = self.real(value, depth, other)
        self.places = max(self.places, depth + 2)
        self.emit(machine.MOVE, value, ZERO, depth, end, other)

    def _kind(self, node: Expression | None) -> int:
        """Return the kind of the value of ``node``."""
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
            case Case(values=values):
                return _widest(map(self._kind, values))
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

    def resolved(self) -> np.ndarray:
        """Return the instructions with jump targets resolved to instructions."""
        code = np.array([tuple(each) for each in self.code], machine.INSTRUCTION)
        # TRUE and FALSE are below 0 and count from the end.
        targets = np.array([*self.labels, machine.FALSE, machine.TRUE], np.int64)
        for jump in ("then", "otherwise"):
            code[jump] = targets[code[jump]]
        return code

    def predicate(
        self, node: Predicate, then: int, other: int, *, certain: bool, truth: bool = True
    ) -> None:
        """Jump to ``then`` if ``node`` is ``truth`` under some clock errors, else to ``other``.

        ``certain``: under all clock errors.
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
                comparison = Comparison("=", flag(node), Constant(truth))
                self._comparison(comparison, then, other, certain=certain)
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
        elif isinstance(node, InWorkdays):
            start = Operand(INT, len(self.table), machine.CONSTANT)
            first, last = self.step(node.right.alias), self.step(node.left.alias)
            self.table += [node.period.number, first, last, int(node.left.name == "te")]
            self.zone = node.period.zone
            self.emit(machine.IN_WORKDAYS, start, ZERO, int(certain), then, other)
        elif isinstance(node, InOneWindow):
            start = Operand(INT, len(self.table), machine.CONSTANT)
            events = self.step(node.left.alias), self.step(node.right.alias)
            self.table += [node.size_ns, node.every_ns, *events]
            self.emit(machine.ONE_WINDOW, start, ZERO, int(certain), then, other)
        else:
            detail = _OUTCOMES[node.op] | (machine.CERTAIN_BIT if certain else 0)
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
        """Write a comparison; ``moved``: effect of clock errors on ``left`` minus ``right``."""
        kinds = {left.kind, right.kind}
        if ABSENT in kinds or (TEXT in kinds and len(kinds) > 1):
            self.always(False, then, other)
            return
        if (left.kind, right.kind) == (FLOAT, INT):
            left, right, detail = right, left, _mirrored(detail)
            moved = {time: -factor for time, factor in moved.items()}
        if moved:
            operation = machine.NEAR_MIXED if len(kinds) > 1 else _NEAR[left.kind]
            self._spread(moved, 2, other)
            self.emit(operation, left, right, detail | 2 << machine.PLACE_SHIFT, then, other)
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
        """Write the largest effect of clock errors on a value to ``place`` of ``work``."""
        events = Operand(INT, self._listed(moved), machine.CONSTANT)
        self.result(machine.SPREAD, FLOAT, events, ZERO, place, other)

    def _listed(self, moved: Coefficients) -> int:
        """Append ``moved`` to ``table`` and return its start."""
        start = len(self.table)
        events = by_event(moved)
        self.table.append(len(events))
        for alias, (factor, of_length) in events.items():
            self.table += [self.step(alias), bits(factor), bits(of_length)]
        return start

    def _by_intervals(self, node: Comparison, detail: int, then: int, other: int) -> None:
        """Compare values that are not sums of times, by intervals; exactly without clock errors."""
        aliases = clocked_aliases([node.left, node.right])
        exactly, nearly = len(self.labels), len(self.labels) + 1
        self.labels += [machine.FALSE] * 2
        moved = dict.fromkeys([(alias, False) for alias in aliases], 1.0)
        events = Operand(INT, self._listed(moved), machine.CONSTANT)
        self.emit(machine.NO_ERROR, events, ZERO, 0, exactly, nearly)
        self.labels[exactly] = len(self.code)
        sides = self.value(node.left, 0, other), self.value(node.right, 1, other)
        self._compare(detail, *sides, then, other, {})
        self.labels[nearly] = len(self.code)
        if self._interval(Arithmetic("-", node.left, node.right), 0, other):
            self.emit(machine.COMPARE_INTERVALS, ZERO, ZERO, detail, then, other)
        else:
            self.always(False, then, other)

    def _interval(self, node: Expression, depth: int, other: int) -> bool:
        """Write the range of ``node`` to places ``depth`` and the next; False: not a number."""
        moved = coefficients(node)
        if moved is not None:
            value = self.value(node, depth, other)
            if value.kind not in (INT, FLOAT):
                return False
            value = self.real(value, depth, other)
            self._spread(moved, depth + 2, other)
            wide = Operand(INT, depth + 2, machine.CONSTANT)
            self.result(machine.WIDEN, FLOAT, value, wide, depth, other)
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
        of_event = exact and item.step != machine.CONSTANT  # the code of a text, not its rank
        if exact and item.kind == INT and all(isinstance(each, int) for each in constants):
            codes = {int(constant) for constant in constants}
        elif of_event and item.kind == TEXT and all(isinstance(each, str) for each in constants):
            codes = {self.strings.find(str(constant)) for constant in constants}
        else:
            del self.code[written:]
            if constants:
                each = tuple(Comparison("=", node.item, option) for option in node.options)
                self.predicate(Logic("or", each), then, other, certain=certain, truth=truth)
            else:
                self.always(not truth, then, other)
            return
        start = Operand(INT, len(self.table), machine.CONSTANT)
        self.table += [len(codes), *sorted(codes)]
        self.emit(machine.IN_TABLE, item, start, int(truth), then, other)

    def _coded(self, side: Operand) -> Operand:
        """Return a text operand by code; operands of events are codes already."""
        if side.step >= 0:
            return side
        return side._replace(value=self.strings.find(self.texts[-1 - side.value]))


def _widest(kinds: Iterable[int]) -> int:
    """Return the kind of a choice between values of ``kinds``."""
    found = set(kinds)
    return next((kind for kind in (TEXT, FLOAT, INT) if kind in found), ABSENT)


def bits(real: float) -> int:
    """Return the bit pattern of ``real``."""
    return int(np.array(real, np.float64).view(np.int64))


# Compiles the join predicates of a query to programs for ``engine.operators.match.search.machine``.
#
# The semantics are those of ``engine.query.expression.join_mask``, which works on columns. A
# program tests one combination of events at a time, so a matcher can drop it early. Under clock
# errors a predicate on times holds possibly or certainly, so each predicate has two programs.


_OUTCOMES: Final = {
    "=": EQUAL, "!=": LESS | MORE, "<": LESS,
    "<=": LESS | EQUAL, ">": MORE, ">=": MORE | EQUAL,
}  # fmt: skip
_COMPARE: Final = {INT: machine.COMPARE_INT, FLOAT: machine.COMPARE_FLOAT}
_NEAR: Final = {INT: machine.NEAR_INT, FLOAT: machine.NEAR_FLOAT}
_INTERVALS: Final = {
    "+": machine.ADD_INTERVALS, "-": machine.SUBTRACT_INTERVALS,
    "*": machine.MULTIPLY_INTERVALS, "/": machine.DIVIDE_INTERVALS,
}  # fmt: skip


def compile_programs(
    predicates: Sequence[Predicate],
    place: Mapping[str, int],
    register: Mapping[Read, int],
    kind: np.ndarray,
    strings: Strings,
) -> Programs:
    """Return two programs per predicate, in order: possibly and certainly true.

    The programs are valid until a kind changes, or until ``strings`` grows if ``awaits_text``.

    Args:
        predicates: the predicates; their aliases are in ``place``.
        place: the step of each alias.
        register: the register of everything that the predicates read (``tables.reads``).
        kind: int8 (registers,): INT, FLOAT, TEXT or ABSENT.
        strings: the string table.

    Raises:
        ContractViolation: an alias has no step, or an attribute has no register.
    """
    writer = _Writer(place, register, kind, strings, text_constants(predicates))
    start = []
    for predicate in predicates:
        start += [len(writer.code)] * 2
        writer.predicate(predicate, machine.TRUE, machine.FALSE, certain=False)
        if is_clocked(predicate):
            start[-1] = len(writer.code)
            writer.predicate(predicate, machine.TRUE, machine.FALSE, certain=True)
    days = workdays(writer.zone) if writer.zone else ([], [])
    return Programs(
        writer.resolved(),
        np.array(start, np.int64),
        np.array(writer.table, np.int64),
        np.zeros(writer.places, np.int64),
        *(np.array(each, np.int64) for each in days),
    )


def uses_text_order(programs: Programs) -> bool:
    """Return whether ``programs`` need ``text_ranks``: one of them orders texts."""
    return bool((programs.code["operation"] == machine.COMPARE_TEXT).any())


def _mirrored(outcomes: int) -> int:
    """Return ``outcomes`` for swapped operands; other bits stay."""
    kept = outcomes & ~(LESS | MORE)
    less, more = outcomes & LESS, outcomes & MORE
    return kept | (MORE if less else 0) | (LESS if more else 0)
