"""The machine that runs the join predicates of a query inside the matcher's kernel.

One compiled machine for all queries: ``engine.pattern.program`` turns a query's predicates into
rows of integers in microseconds, where compiling them with Numba would take seconds per query.

Three-valued logic is gone from the program already. What is asked is where a predicate is
certainly true, NOT has been pushed into the comparisons, and AND and OR have become jumps; so a
null anywhere in a comparison means one thing, its ELSE jump. Nothing is allocated.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.jit import inline

INT: Final = 0
"""Kinds of a register: int64 or a truth value,"""
FLOAT: Final = 1
"""the bit pattern of a float64,"""
TEXT: Final = 2
"""a string's code,"""
ABSENT: Final = 3
"""nothing: no event has the attribute."""

# Columns of an instruction, 64 bytes long.
OPERATION: Final = 0
LEFT: Final = 1
LEFT_STEP: Final = 2
RIGHT: Final = 3
RIGHT_STEP: Final = 4
DETAIL: Final = 5
"""Of a comparison: the outcomes that pass. Of a value: the place in ``work`` where it goes."""
THEN: Final = 6
ELSE: Final = 7
"""Of a value too: where a null leads."""
COLUMNS: Final = 8

# An operand is (value, step): register `value` of the event of `step`, or, below 0:
CONSTANT: Final = -1
"""``value`` itself."""
WORK: Final = -2
"""Place ``value`` of ``work``."""

# Where a jump leads when not to an instruction.
TRUE: Final = -1
FALSE: Final = -2

# Outcomes of a comparison; none of them when a side is a NaN.
LESS: Final = 1
EQUAL: Final = 2
MORE: Final = 4

COMPARE_INT: Final = 0
COMPARE_FLOAT: Final = 1
COMPARE_MIXED: Final = 2
"""An int on the left with a float on the right, exactly."""
COMPARE_TEXT: Final = 3
"""By ``ranks``; operands are places in it, the constants' counted from its end."""
IN_TABLE: Final = 4
"""Whether LEFT is in the list at place RIGHT of ``table``; DETAIL 1: it must be, 0: must not."""
ADD_INT: Final = 5
SUBTRACT_INT: Final = 6
MULTIPLY_INT: Final = 7
TO_FLOAT: Final = 8
ADD_FLOAT: Final = 9
SUBTRACT_FLOAT: Final = 10
MULTIPLY_FLOAT: Final = 11
DIVIDE: Final = 12

_EXACT: Final = 2**53
_EDGE: Final = 2.0**63
_SAFE: Final = 2.0**62


class Programs(NamedTuple):
    """Programs of some predicates, as plain arrays that a kernel takes as one argument.

    ``code`` int64 (instructions, COLUMNS); ``start`` int64: the first instruction of each
    predicate; ``table`` int64: the lists of IN, each as its length and its sorted values;
    ``work`` int64: values on their way, so one ``Programs`` serves one thread.
    """

    code: np.ndarray
    start: np.ndarray
    table: np.ndarray
    work: np.ndarray


@inline
def real_of(bits: int) -> float:
    """The float64 whose bit pattern an int64 is."""
    return np.int64(bits).view(np.float64)


@inline
def bits_of(real: float) -> int:
    """The bit pattern of a float64, as an int64."""
    return int(np.float64(real).view(np.int64))


@inline
def _known(value: int, step: int, rows: np.ndarray, ok: np.ndarray) -> bool:
    return step < 0 or ok[value, rows[step]]


@inline
def _operand(value: int, step: int, rows: np.ndarray, raw: np.ndarray, work: np.ndarray) -> int:
    if step >= 0:
        return raw[value, rows[step]]  # type: ignore[no-any-return]
    return value if step == CONSTANT else work[value]


@inline
def _outcome_int(left: int, right: int) -> int:
    if left < right:
        return LESS
    return EQUAL if left == right else MORE


@inline
def _outcome_float(left: float, right: float) -> int:
    if left < right:
        return LESS
    if left > right:
        return MORE
    return EQUAL if left == right else 0


@inline
def _outcome_mixed(whole: int, real: float) -> int:
    """Exactly: beyond 2**53 an int64 need not be a float64."""
    if -_EXACT <= whole <= _EXACT:
        return _outcome_float(float(whole), real)
    if real >= _EDGE:
        return LESS
    if real < -_EDGE:
        return MORE
    if np.isnan(real):
        return 0
    floor = np.floor(real)
    base = np.int64(floor)
    if whole == base:
        return LESS if real > floor else EQUAL
    return LESS if whole < base else MORE


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
        outcome = _outcome_int(left, right)
    elif operation == COMPARE_FLOAT:
        outcome = _outcome_float(real_of(left), real_of(right))
    elif operation == COMPARE_MIXED:
        outcome = _outcome_mixed(left, real_of(right))
    elif operation == COMPARE_TEXT:
        end = len(ranks)
        outcome = _outcome_int(
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
    return left / right, right != 0


@inline
def holds(
    programs: Programs, ranks: np.ndarray, which: int, rows: np.ndarray, raw: np.ndarray,
    ok: np.ndarray,
) -> bool:  # fmt: skip
    """Whether predicate number ``which`` is certainly true of a combination of events.

    Args:
        programs: of ``engine.pattern.program.compile_programs``; ``work`` is written.
        ranks: int64, of ``text_ranks``; may be empty if no predicate orders text.
        which: the predicate's place among those compiled.
        rows: int64; ``rows[s]`` is the row of the event of step ``s``; steps that the predicate
            does not name are not looked at.
        raw: int64 (registers, capacity): integers and truth values, the bit patterns of floats,
            codes of texts.
        ok: bool (registers, capacity): not null. Of a text, that the code is not -1.
    """
    code, work = programs.code, programs.work
    at = programs.start[which]
    while at >= 0:
        left, left_step = code[at, LEFT], code[at, LEFT_STEP]
        right, right_step = code[at, RIGHT], code[at, RIGHT_STEP]
        if not (_known(left, left_step, rows, ok) and _known(right, right_step, rows, ok)):
            at = code[at, ELSE]
            continue
        operation, detail = code[at, OPERATION], code[at, DETAIL]
        first = _operand(left, left_step, rows, raw, work)
        second = _operand(right, right_step, rows, raw, work)
        if operation <= IN_TABLE:
            passes = _test(operation, first, second, detail, programs.table, ranks)
        elif operation <= MULTIPLY_INT:
            work[detail], passes = _integer(operation, first, second)
        elif operation == TO_FLOAT:
            work[detail], passes = bits_of(float(first)), True
        else:
            real, passes = _real(operation, real_of(first), real_of(second))
            work[detail] = bits_of(real)
        at = code[at, THEN if passes else ELSE]
    return bool(at == TRUE)
