"""The machine that runs the join predicates of a query inside the matcher's kernel."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.core.released import NO_EPOCH
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX, Record, record
from slackwater.engine.operators.window.settings import workdays_later

# Comparison of two numbers; floats are bit patterns in programs.


# An outcome of a comparison; none of them when a side is a NaN.
LESS: Final = 1
EQUAL: Final = 2
MORE: Final = 4

_EXACT: Final = 2**53
_EDGE: Final = 2.0**63


@inline
def real_of(bits: int) -> float:
    """Return the float64 of a bit pattern."""
    return np.int64(bits).view(np.float64)


@inline
def bits_of(real: float) -> int:
    """Return the bit pattern of a float64, as an int64."""
    return int(np.float64(real).view(np.int64))


@inline
def outcome_int(left: int, right: int) -> int:
    """Return the outcome of comparing two integers."""
    if left < right:
        return LESS
    return EQUAL if left == right else MORE


@inline
def outcome_float(left: float, right: float) -> int:
    """Return the outcome of comparing two floats; 0 if one is NaN."""
    if left < right:
        return LESS
    if left > right:
        return MORE
    return EQUAL if left == right else 0


@inline
def outcome_mixed(whole: int, real: float) -> int:
    """Return the exact outcome of comparing an int64 and a float64, also beyond 2**53."""
    if -_EXACT <= whole <= _EXACT:
        return outcome_float(float(whole), real)
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


# Instructions for values that depend on clock errors.
#
# A value lies within its *spread* of the value by the clock readings: the sum, over its clocks, of
# the clock's uncertainty times the derivative of the value by its error. Events of one clock and
# epoch share one error, so equal terms of opposite sign cancel out, except for the difference of
# their uncertainties: the error of the clock's rate. R19's rule has no shared clocks: each event
# may err by T_a/2 (SPEC 4.3).
#
# A program tests whether a comparison holds under some errors (*possible*) or under all
# (*certain*). If the errors are a sample, values are shifted by them, and both tests are equal. A
# value that is not a sum of times is an interval of floats, rounded outwards.


SPREAD: Final = 19
"""The spread of a table's events into ``work``; with a sample of errors, the shift."""
NO_ERROR: Final = 20
"""Whether no event of a table has a clock error."""
NEAR_INT: Final = 21
"""Comparisons whose left side has a spread; DETAIL has its place in ``work``."""
NEAR_FLOAT: Final = 22
NEAR_MIXED: Final = 23
WIDEN: Final = 24
"""A float and the place of its spread make an interval: two places of ``work``."""
ADD_INTERVALS: Final = 25
SUBTRACT_INTERVALS: Final = 26
MULTIPLY_INTERVALS: Final = 27
DIVIDE_INTERVALS: Final = 28
COMPARE_INTERVALS: Final = 29
"""Compares the left interval with 0."""
ONE_WINDOW: Final = 30
"""Whether two events lie in one window; DETAIL 1: for certain."""
IN_WORKDAYS: Final = 31
"""Whether a time is at most n workdays after another one; DETAIL 1: for certain."""

# Parts of DETAIL of a comparison, besides the outcomes that pass.
CERTAIN_BIT: Final = 8
PLACE_SHIFT: Final = 4

_MIN: Final = -(2**63)
_MOST: Final = 2.0**62
_ULPS: Final = 2.0**-50


class Errors(NamedTuple):
    """The clock errors of the events: bounds, or a sample.

    ``events``: EVENT records, for the pairwise rule. ``t_a``: T_a of R19's rule [ns], else -1.
    ``shift_ns``: a sample: the error of each step's event, float64; ``ANY_SHIFT``: all errors
    within the bounds.
    """

    events: np.ndarray
    t_a: int
    shift_ns: np.ndarray


ANY_SHIFT: Final = np.empty(0, np.float64)


@inline
def _one_clock(events: np.ndarray, first: int, second: int) -> bool:
    """Return whether two events share one clock error, at both ends of each."""
    one, other = events[first], events[second]
    shared = one.epoch == other.epoch != NO_EPOCH and one.clock == other.clock
    return bool(shared and lasts_exactly(one) and lasts_exactly(other))


@inline
def lasts_exactly(event: np.record) -> bool:
    """Return whether both ends of an event have the same clock error."""
    return bool(event.unc == event.unc_end and event.epoch == event.epoch_end)


@inline
def length_error(event: np.record) -> int:
    """Return the largest error of an event's length [ns]: of its clock's rate only, unless its ends
    have different offsets, or the clock was set near them.
    """
    if event.epoch == event.epoch_end != NO_EPOCH:
        return int(abs(event.unc_end - event.unc))
    return 0 if lasts_exactly(event) else int(event.unc + event.unc_end)


@inline
def widest_of(event: np.record) -> int:
    """Return the largest uncertainty of an event's two ends [ns]."""
    return int(max(event.unc, event.unc_end))


@kernel
def spread(table: np.ndarray, at: int, rows: np.ndarray, errors: Errors) -> float:
    """Return the largest move of a value by clock errors; with a sample of errors, its shift.

    Args:
        table: at ``at`` the number of events, then for each its step, and the bits of its factor
            and of the factor of its length.
        at: see ``table``.
        rows: the row of each step's event.
        errors: the clock errors.
    """
    total, stop = 0.0, at + 1 + 3 * table[at]
    for i in range(at + 1, stop, 3):
        step, factor = table[i], real_of(table[i + 1])
        if len(errors.shift_ns):
            total += factor * errors.shift_ns[step]
            continue
        total += real_of(table[i + 2]) * length_error(errors.events[rows[step]])
        if errors.t_a >= 0:
            total += abs(factor) * errors.t_a / 2.0
        else:
            row, first = rows[step], True
            for j in range(at + 1, i, 3):
                first = first and not _one_clock(errors.events, row, rows[table[j]])
            if first:
                unc = errors.events[row].unc
                widest = widest_of(errors.events[row])
                for j in range(i + 3, stop, 3):
                    other = rows[table[j]]
                    if _one_clock(errors.events, row, other):
                        factor += real_of(table[j + 1])
                        widest = max(widest, errors.events[other].unc)
                        apart = abs(errors.events[other].unc - unc)
                        total += abs(real_of(table[j + 1])) * apart
                total += abs(factor) * widest
    return total


@kernel
def no_error(table: np.ndarray, at: int, rows: np.ndarray, errors: Errors) -> bool:
    """Return whether the events of a table are exact."""
    for i in range(at + 1, at + 1 + 3 * table[at], 3):
        if len(errors.shift_ns):
            if errors.shift_ns[table[i]] != 0.0:
                return False
        elif errors.t_a > 0 or (errors.t_a < 0 and widest_of(errors.events[rows[table[i]]]) > 0):
            return False
    return True


@inline
def window_of(ref: int, error: float, size: int) -> int:
    """Return the number of the window of a time with a known error."""
    window = ref // size
    return int(window + np.int64(np.floor((float(ref - window * size) + error) / size)))


@inline
def partners(ref: int, error: float, size: int, slide: int) -> tuple[float, float]:
    """Return the range [begin, end) of true times that share a window with an event.

    The event is at ``ref`` [ns] with the error ``error`` [ns]; the range is relative to ``ref``.
    """
    first, last = window_of(ref - size, error, slide) + 1, window_of(ref, error, slide)
    return float(first * slide - ref), float(last * slide + size - ref)


@kernel
def in_one_window(
    table: np.ndarray, at: int, rows: np.ndarray, errors: Errors, certain: bool
) -> bool:
    """Return whether two events are in one window under some errors, or (``certain``) under all.

    Args:
        table: at ``at`` the length and the slide of the windows [ns] and the two steps.
        at: see ``table``.
        rows: the row of each step's event.
        errors: the clock errors.
        certain: under all errors, else under some.
    """
    size, slide, left, right = table[at], table[at + 1], table[at + 2], table[at + 3]
    one, two = errors.events[rows[left]], errors.events[rows[right]]
    if len(errors.shift_ns):
        low, high = partners(one.ref, errors.shift_ns[left], size, slide)
        return bool(low <= float(two.ref - one.ref) + errors.shift_ns[right] < high)
    if errors.t_a < 0 and _one_clock(errors.events, rows[left], rows[right]):
        return _one_window_of_a_clock(one, two, size, slide, certain)
    # In halves of ns, as the error of an event is T_a/2 by R19's rule.
    mine = errors.t_a if errors.t_a >= 0 else 2 * one.unc
    its = errors.t_a if errors.t_a >= 0 else 2 * two.unc
    first, last = 2 * one.ref - mine, 2 * one.ref + mine
    begin, end = 2 * two.ref - its, 2 * two.ref + its
    if not certain:
        first, last, begin, end = last, first, end, begin
    # Each is before the end of the last window that contains the other one.
    size, slide = 2 * size, 2 * slide
    return bool(last < begin // slide * slide + size and end < first // slide * slide + size)


@kernel
def in_workdays(
    programs: Programs, at: int, rows: np.ndarray, errors: Errors, certain: bool
) -> bool:  # fmt: skip
    """Return whether an event is in time, in workdays, under some errors, or (``certain``) under
    all.

    Args:
        programs: ``table`` has at ``at`` the number of workdays, the step that they begin with, the
            other one, and whether the end of its event counts.
        at: see ``programs``.
        rows: the row of each step's event.
        errors: the clock errors. The error of a shared clock moves both events.
        certain: under all errors, else under some.
    """
    table = programs.table
    number, first, last, ends = table[at], table[at + 1], table[at + 2], table[at + 3]
    one, two = errors.events[rows[first]], errors.events[rows[last]]
    time, its = (two.ref_end, two.unc_end) if ends else (two.ref, two.unc)
    begin, mine = one.ref, one.unc
    if errors.t_a >= 0:
        mine = its = (errors.t_a + 1) // 2
    if len(errors.shift_ns):
        mine, its = -np.int64(errors.shift_ns[first]), np.int64(errors.shift_ns[last])
    elif not certain:
        mine, its = -mine, -its
    starts, stops = programs.day_starts, programs.day_ends
    return bool(time + its <= workdays_later(starts, stops, begin - mine, number))


@inline
def _one_window_of_a_clock(
    one: Record, two: Record, size: int, slide: int, certain: bool
) -> bool:  # fmt: skip
    """``in_one_window`` for events of one clock, whose error moves both."""
    low, high = min(one.ref, two.ref), max(one.ref, two.ref)
    unc, differ = max(one.unc, two.unc), abs(one.unc - two.unc)
    passed = (low - unc) // slide != (low + unc) // slide
    if certain:
        if low == high or high + unc < (low - unc) // slide * slide + size:
            return True
        return bool(high - low + differ < size - (slide - 1 if passed else (low + unc) % slide))
    free = passed or differ > 0
    return bool(high - low - differ < size - (0 if free else (low - unc) % slide))


@inline
def _passes(low: int, high: int, detail: int) -> bool:
    """Return whether a comparison holds, by the outcomes for the least and the largest value."""
    if low == 0 or high == 0:
        return False
    outcomes = low | high
    if low == LESS and high == MORE:
        outcomes |= EQUAL
    if detail & CERTAIN_BIT:
        return bool(outcomes & ~detail & (LESS | EQUAL | MORE) == 0)
    return bool(outcomes & detail != 0)


@kernel
def compare_spread(
    operation: int, left: int, right: int, wide: float, detail: int, shifts: bool
) -> bool:
    """Return whether a comparison holds; ``wide``: the spread, or (``shifts``) shift, of its left
    side.
    """
    if shifts:
        if operation == NEAR_INT:
            apart = float(_difference(left, right))
        elif operation == NEAR_FLOAT:
            apart = real_of(left) - real_of(right)
        else:
            apart = float(left) - real_of(right)
        outcome = outcome_float(apart + wide, 0.0)
        return _passes(outcome, outcome, detail)
    if operation == NEAR_FLOAT:
        value, other = real_of(left), real_of(right)
        return _passes(
            outcome_float(value - wide, other), outcome_float(value + wide, other), detail
        )
    by = int(np.ceil(min(wide, _MOST)))
    low = left - by if left >= _MIN + by else _MIN
    high = left + by if left <= INT_MAX - by else INT_MAX
    if operation == NEAR_INT:
        return _passes(outcome_int(low, right), outcome_int(high, right), detail)
    return _passes(outcome_mixed(low, real_of(right)), outcome_mixed(high, real_of(right)), detail)


@inline
def _difference(left: int, right: int) -> int:
    """Return the difference of two integers, limited to int64."""
    rest = np.int64(np.uint64(left) - np.uint64(right))
    if (left ^ right) & (left ^ rest) >= 0:
        return int(rest)
    return INT_MAX if left > right else _MIN


@kernel
def intervals(operation: int, left: int, right: int, detail: int, work: np.ndarray) -> bool:
    """Run an instruction on intervals; return the outcome of a comparison, else whether defined."""
    low, high = real_of(work[left]), real_of(work[left + 1])
    if operation == COMPARE_INTERVALS:
        return _passes(outcome_float(low, 0.0), outcome_float(high, 0.0), detail)
    by_low, by_high = real_of(work[right]), real_of(work[right + 1])
    if np.isnan(low) or np.isnan(by_low):
        return False
    exact, unknown = low == high and by_low == by_high, False
    if operation == ADD_INTERVALS:
        low, high = low + by_low, high + by_high
    elif operation == SUBTRACT_INTERVALS:
        low, high = low - by_high, high - by_low
    elif operation == DIVIDE_INTERVALS and by_low == 0.0 == by_high:
        return False
    elif operation == DIVIDE_INTERVALS and by_low <= 0.0 <= by_high:
        low, high = -np.inf, np.inf
    else:
        if operation == MULTIPLY_INTERVALS:
            first, second = low * by_low, low * by_high
            third, fourth = high * by_low, high * by_high
        else:
            first, second = low / by_low, low / by_high
            third, fourth = high / by_low, high / by_high
        low = min(first, second, third, fourth)
        high = max(first, second, third, fourth)
        unknown = np.isnan(first + second + third + fourth)
    if np.isnan(low) or (exact and unknown):
        return False
    if unknown:
        low, high = -np.inf, np.inf
    elif not exact:
        low, high = low - abs(low) * _ULPS, high + abs(high) * _ULPS
    work[detail], work[detail + 1] = bits_of(low), bits_of(high)
    return True


@inline
def widen(left: int, wide: float, detail: int, work: np.ndarray, shifts: bool) -> None:
    """The interval of a float with the spread (``shifts``: the shift) ``wide``."""
    value = real_of(left)
    if shifts:
        work[detail] = work[detail + 1] = bits_of(value + wide)
    else:
        low, high = value - wide, value + wide
        if wide > 0.0:
            low, high = low - abs(low) * _ULPS, high + abs(high) * _ULPS
        work[detail], work[detail + 1] = bits_of(low), bits_of(high)


# The machine that runs the join predicates of a query inside the matcher's kernel.
#
# One compiled machine runs all queries: ``engine.operators.match.compiler.program`` translates
# predicates into rows of integers in microseconds; compiling them with Numba would take seconds
# per query.
#
# AND, OR and NOT are jumps; a comparison with a null takes its ``otherwise`` jump. Predicates that
# depend on clock errors have two programs, possible and certain. Nothing is allocated.


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
"""64 bytes. ``detail``: of a comparison, the outcomes that pass; of a value, its target place in
``work``. ``then``, ``otherwise``: the next instruction; a null leads to the latter.
"""

# An operand is (value, step): register `value` of the event of `step`, or, below 0:
CONSTANT: Final = -1
"""``value`` itself."""
WORK: Final = -2
"""Place ``value`` of ``work``."""

# Jump targets that are no instructions.
TRUE: Final = -1
FALSE: Final = -2

POSSIBLY: Final = 0
"""The first of a predicate's two programs; predicate n has the programs 2 n and 2 n + 1."""
CERTAINLY: Final = 1

COMPARE_INT: Final = 0
COMPARE_FLOAT: Final = 1
COMPARE_MIXED: Final = 2
"""An int on the left with a float on the right, exactly."""
COMPARE_TEXT: Final = 3
"""By ``ranks``; operands are places in it, those of constants from its end."""
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
"""A copy to a place of ``work``."""
ADD_FLOAT: Final = 11
SUBTRACT_FLOAT: Final = 12
MULTIPLY_FLOAT: Final = 13
DIVIDE: Final = 14
MODULO_FLOAT: Final = 15
FLOOR: Final = 16
"""FLOOR, CEIL and ROUND have the operand ``left`` only."""
CEIL: Final = 17
ROUND: Final = 18

_SAFE: Final = 2.0**62


class Programs(NamedTuple):
    """Programs of predicates, as arrays: one argument of a kernel.

    ``code``: of INSTRUCTION. ``start`` int64: the first instruction of each program. ``table``
    int64: the lists of IN, each as its length and its sorted values, and the lists of events whose
    clocks a value reads. ``work`` int64: intermediate values, so one ``Programs`` serves one
    thread. ``day_starts``, ``day_ends``: of workdays [ns], if a predicate counts them.
    """

    code: np.ndarray
    start: np.ndarray
    table: np.ndarray
    work: np.ndarray
    day_starts: np.ndarray
    day_ends: np.ndarray


NO_PROGRAMS: Final = Programs(
    np.empty(0, INSTRUCTION), np.empty(0, np.int64), np.empty(0, np.int64),
    np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64),
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
def _in_table(value: int, table: np.ndarray, place: int) -> bool:
    listed = table[place + 1 : place + 1 + table[place]]
    at = np.searchsorted(listed, value)
    return bool(at < len(listed) and listed[at] == value)


@inline
def _test(
    operation: int, left: int, right: int, detail: int, table: np.ndarray, ranks: np.ndarray
) -> bool:
    """Return whether a comparison or an IN holds."""
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
    """Return the result of an operation on integers, and whether it fits into int64."""
    # Unsigned, because the compiler assumes that signed integers do not overflow.
    first, second = np.uint64(left), np.uint64(right)
    if operation == ADD_INT:
        total = np.int64(first + second)
        return int(total), bool((left ^ total) & (right ^ total) >= 0)
    if operation == SUBTRACT_INT:
        rest = np.int64(first - second)
        return int(rest), bool((left ^ right) & (left ^ rest) >= 0)
    if operation == MODULO_INT:
        if right in (0, -1):  # the least integer by -1 overflows
            return 0, right != 0
        modulus = left % right  # with the sign of right
        return modulus - right if modulus != 0 and (modulus < 0) != (left < 0) else modulus, True
    product = np.int64(first * second)
    # An overflowed product is off by a multiple of 2**64, far more than the rounding of floats.
    return int(product), abs(float(left) * float(right) - float(product)) < _SAFE


@inline
def _real(operation: int, left: float, right: float) -> tuple[float, bool]:
    """Return the result of an operation on floats, and whether it is defined."""
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
    """Run an instruction on values that depend on clock errors."""
    work, shifts = programs.work, len(errors.shift_ns) > 0
    if operation == SPREAD:
        work[detail] = bits_of(spread(programs.table, first, rows, errors))
        return True
    if operation == NO_ERROR:
        return no_error(programs.table, first, rows, errors)
    if operation <= NEAR_MIXED:
        wide = real_of(work[detail >> PLACE_SHIFT])
        return compare_spread(operation, first, second, wide, detail, shifts)
    if operation == IN_WORKDAYS:
        return in_workdays(programs, first, rows, errors, detail == 1)
    if operation == ONE_WINDOW:
        return in_one_window(programs.table, first, rows, errors, detail == 1)
    if operation == WIDEN:
        widen(first, real_of(work[second]), detail, work, shifts)
        return True
    return intervals(operation, first, second, detail, work)


@kernel
def holds(
    programs: Programs, ranks: np.ndarray, which: int, rows: np.ndarray, raw: np.ndarray,
    ok: np.ndarray, errors: Errors,
) -> bool:  # fmt: skip
    """Return whether program number ``which`` is true for a combination of events.

    Args:
        programs: from ``match.compiler.program.compile_programs``; ``work`` is written.
        ranks: int64 from ``text_ranks``; may be empty if no predicate orders text.
        which: the program's place.
        rows: int64; ``rows[s]`` is the row of the event of step ``s``; only steps that the
            predicate names are read.
        raw: int64 (registers, capacity): integers and truth values, the bit patterns of floats,
            codes of texts.
        ok: bool (registers, capacity): not null; for texts: the code is not -1.
        errors: the errors of the events' clocks.
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
