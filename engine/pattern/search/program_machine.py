"""The machine that runs the join predicates of a query inside the matcher's kernel.

One compiled machine for all queries: ``engine.pattern.compiled.program`` turns a query's predicates
into rows of integers in microseconds, where compiling them with Numba would take seconds per query.

AND, OR and NOT have become jumps, and a null anywhere in a comparison means one thing, its other
jump. What clock errors can change is asked in two ways (``engine.pattern.search.clocked_machine``).
Nothing is allocated.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.kernels.jit import inline, kernel
from engine.kernels.records import record
from engine.pattern.search.clocked_machine import (
    NEAR_MIXED,
    NO_ERROR,
    ONE_WINDOW,
    PLACE_SHIFT,
    SPREAD,
    WIDEN,
    Errors,
    intervals,
    near,
    no_error,
    one_window,
    spread,
    widened,
)
from engine.pattern.verdict.outcomes import (
    bits_of,
    outcome_float,
    outcome_int,
    outcome_mixed,
    real_of,
)

INT: Final = 0
"""Kinds of a register: int64 or a truth value,"""
FLOAT: Final = 1
"""the bit pattern of a float64,"""
TEXT: Final = 2
"""a string's code,"""
ABSENT: Final = 3
"""nothing: no event has the attribute."""

INSTRUCTION: Final = record(
    "operation", "left", "left_step", "right", "right_step", "detail", "then", "otherwise"
)
"""64 bytes. ``detail``: of a comparison, the outcomes that pass; of a value, the place in ``work``
where it goes. ``then``, ``otherwise``: the next instruction; a null leads to the latter.
"""

# An operand is (value, step): register `value` of the event of `step`, or, below 0:
CONSTANT: Final = -1
"""``value`` itself."""
WORK: Final = -2
"""Place ``value`` of ``work``."""

# Where a jump leads when not to an instruction.
TRUE: Final = -1
FALSE: Final = -2

POSSIBLY: Final = 0
"""The first of a predicate's two programs, whose numbers are 2 n and 2 n + 1."""
CERTAINLY: Final = 1

COMPARE_INT: Final = 0
COMPARE_FLOAT: Final = 1
COMPARE_MIXED: Final = 2
"""An int on the left with a float on the right, exactly."""
COMPARE_TEXT: Final = 3
"""By ``ranks``; operands are places in it, the constants' counted from its end."""
IN_TABLE: Final = 4
"""Whether ``left`` is in the list at place ``right`` of ``table``; ``detail`` 1: it must be, 0: it
must not.
"""
ADD_INT: Final = 5
SUBTRACT_INT: Final = 6
MULTIPLY_INT: Final = 7
MODULO_INT: Final = 8
TO_FLOAT: Final = 9
MOVE: Final = 10
"""As it is, to a place of ``work``."""
ADD_FLOAT: Final = 11
SUBTRACT_FLOAT: Final = 12
MULTIPLY_FLOAT: Final = 13
DIVIDE: Final = 14
MODULO_FLOAT: Final = 15
FLOOR: Final = 16
"""And the next two: of ``left`` alone."""
CEIL: Final = 17
ROUND: Final = 18

_SAFE: Final = 2.0**62


class Programs(NamedTuple):
    """Programs of some predicates, as plain arrays that a kernel takes as one argument.

    ``code``: of INSTRUCTION; ``start`` int64: the first instruction of each
    program; ``table`` int64: the lists of IN, each as its length and its sorted values, and those
    of events whose clocks a value reads;
    ``work`` int64: values on their way, so one ``Programs`` serves one thread.
    """

    code: np.ndarray
    start: np.ndarray
    table: np.ndarray
    work: np.ndarray


NO_PROGRAMS: Final = Programs(
    np.empty(0, INSTRUCTION), np.empty(0, np.int64), np.empty(0, np.int64),
    np.empty(0, np.int64),
)  # fmt: skip


@inline
def _known(value: int, step: int, rows: np.ndarray, ok: np.ndarray) -> bool:
    return step < 0 or ok[value, rows[step]]


@inline
def _operand(value: int, step: int, rows: np.ndarray, raw: np.ndarray, work: np.ndarray) -> int:
    if step >= 0:
        return raw[value, rows[step]]  # type: ignore[no-any-return]
    return value if step == CONSTANT else work[value]


@inline
def _in_table(wanted: int, table: np.ndarray, place: int) -> bool:
    first = place + 1
    end = stop = first + table[place]
    while first < stop:
        middle = (first + stop) >> 1
        if table[middle] < wanted:
            first = middle + 1
        else:
            stop = middle
    return bool(first < end and table[first] == wanted)


@inline
def _test(
    operation: int, left: int, right: int, detail: int, table: np.ndarray, ranks: np.ndarray
) -> bool:
    """Whether a comparison or an IN holds."""
    if operation == COMPARE_INT:
        outcome = outcome_int(left, right)
    elif operation == COMPARE_FLOAT:
        outcome = outcome_float(real_of(left), real_of(right))
    elif operation == COMPARE_MIXED:
        outcome = outcome_mixed(left, real_of(right))
    elif operation == COMPARE_TEXT:
        end = len(ranks)
        outcome = outcome_int(
            ranks[left if left >= 0 else end + left], ranks[right if right >= 0 else end + right]
        )
    else:
        return _in_table(left, table, right) == (detail == 1)
    return outcome & detail != 0


@inline
def _integer(operation: int, left: int, right: int) -> tuple[int, bool]:
    """The result of an operation on integers, and whether int64 has it."""
    # Unsigned, because the compiler takes it that signed results never leave int64.
    first, second = np.uint64(left), np.uint64(right)
    if operation == ADD_INT:
        total = np.int64(first + second)
        return int(total), bool((left ^ total) & (right ^ total) >= 0)
    if operation == SUBTRACT_INT:
        rest = np.int64(first - second)
        return int(rest), bool((left ^ right) & (left ^ rest) >= 0)
    if operation == MODULO_INT:
        if right in (0, -1):  # by -1 the least integer leaves int64 on the way
            return 0, right != 0
        modulus = left % right  # with the sign of right
        return modulus - right if modulus != 0 and (modulus < 0) != (left < 0) else modulus, True
    product = np.int64(first * second)
    # A product that left int64 is off by a multiple of 2**64, far beyond what floats round.
    return int(product), abs(float(left) * float(right) - float(product)) < _SAFE


@inline
def _real(operation: int, left: float, right: float) -> tuple[float, bool]:
    """The result of an operation on floats, and whether there is one."""
    if operation == ADD_FLOAT:
        return left + right, True
    if operation == SUBTRACT_FLOAT:
        return left - right, True
    if operation == MULTIPLY_FLOAT:
        return left * right, True
    if operation == DIVIDE:
        return left / right, right != 0
    if operation == MODULO_FLOAT:
        return np.fmod(left, right) if right != 0 else 0.0, right != 0
    whole = np.trunc(left)
    if operation == ROUND:
        return whole + np.copysign(1.0, left) if abs(left - whole) >= 0.5 else whole, True
    return np.floor(left) if operation == FLOOR else np.ceil(left), True


@inline
def _clocked(
    operation: int, first: int, second: int, detail: int, programs: Programs, rows: np.ndarray,
    errors: Errors,
) -> bool:  # fmt: skip
    """An instruction on values that clock errors move."""
    work, shifts = programs.work, len(errors.given) > 0
    if operation == SPREAD:
        work[detail] = bits_of(spread(programs.table, first, rows, errors))
        return True
    if operation == NO_ERROR:
        return no_error(programs.table, first, rows, errors)
    if operation <= NEAR_MIXED:
        wide = real_of(work[detail >> PLACE_SHIFT])
        return near(operation, first, second, wide, detail, shifts)
    if operation == ONE_WINDOW:
        return one_window(programs.table, first, rows, errors, detail == 1)
    if operation == WIDEN:
        widened(first, real_of(work[second]), detail, work, shifts)
        return True
    return intervals(operation, first, second, detail, work)


@kernel
def holds(
    programs: Programs, ranks: np.ndarray, which: int, rows: np.ndarray, raw: np.ndarray,
    ok: np.ndarray, errors: Errors,
) -> bool:  # fmt: skip
    """Whether program number ``which`` says yes to a combination of events.

    Args:
        programs: of ``engine.pattern.compiled.program.compile_programs``; ``work`` is written.
        ranks: int64, of ``text_ranks``; may be empty if no predicate orders text.
        which: the program's place.
        rows: int64; ``rows[s]`` is the row of the event of step ``s``; steps that the predicate
            does not name are not looked at.
        raw: int64 (registers, capacity): integers and truth values, the bit patterns of floats,
            codes of texts.
        ok: bool (registers, capacity): not null. Of a text, that the code is not -1.
        errors: of the events' clocks.
    """
    code, work = programs.code, programs.work
    at = programs.start[which]
    while at >= 0:
        now = code[at]
        left, left_step, right, right_step = now.left, now.left_step, now.right, now.right_step
        if not (_known(left, left_step, rows, ok) and _known(right, right_step, rows, ok)):
            at = now.otherwise
            continue
        operation, detail = now.operation, now.detail
        first = _operand(left, left_step, rows, raw, work)
        second = _operand(right, right_step, rows, raw, work)
        if operation <= IN_TABLE:
            passes = _test(operation, first, second, detail, programs.table, ranks)
        elif operation <= MODULO_INT:
            work[detail], passes = _integer(operation, first, second)
        elif operation == TO_FLOAT:
            work[detail], passes = bits_of(float(first)), True
        elif operation == MOVE:
            work[detail], passes = first, True
        elif operation >= SPREAD:
            passes = _clocked(operation, first, second, detail, programs, rows, errors)
        else:
            real, passes = _real(operation, real_of(first), real_of(second))
            work[detail] = bits_of(real)
        at = now.then if passes else now.otherwise
    return bool(at == TRUE)
