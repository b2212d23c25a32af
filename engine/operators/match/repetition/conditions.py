"""Conditions on the events of a match: their order, WITHIN, and WHERE.

Each returns CERTAIN, POSSIBLE or IMPOSSIBLE of ``engine.operators.match.search.state`` (SPEC 4.3).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.operators.match.repetition.compiler import (
    ALL_OF,
    AVG,
    CUR,
    HEAD,
    LEAST,
    MOST,
    NUMBER,
    PREV,
    ROLES,
    SUM,
    TAIL,
    SearchState,
)
from slackwater.engine.operators.match.search.machine import (
    ANY_SHIFT,
    CERTAINLY,
    FLOAT,
    POSSIBLY,
    Errors,
    bits_of,
    holds,
    real_of,
)
from slackwater.engine.operators.match.search.state import (
    CERTAIN,
    IMPOSSIBLE,
    POSSIBLE,
    apart_error,
    certainty_of,
    lasts_within,
)

HALF: Final = 32
LOW_HALF: Final = 2**32 - 1
"""Sums are computed in two halves, to detect an overflow of int64."""


@inline
def role_of(step: int, role: int) -> int:
    """Return the place of a step's role in the input of programs."""
    return ROLES * step + role


@inline
def error_of(s: SearchState, one: int, one_end: int, two: int, two_end: int, t_a: int) -> int:
    """Return the largest error of the difference of two events' times [ns]; ``..._end`` 1: of the
    end.
    """
    if s.setting[0].max_delay:
        return t_a
    return int(apart_error(s.events[one], one_end, s.events[two], two_end))


@inline
def order_of(s: SearchState, one: int, end: int, two: int, t_a: int) -> int:
    """Return the certainty that ``one`` begins, or (``end``) ends, before ``two`` begins."""
    time = s.events[one].ref_end if end else s.events[one].ref
    return certainty_of(time - s.events[two].ref, 0, 1, error_of(s, one, end, two, 0, t_a))


@inline
def is_within(s: SearchState, one: int, two: int, end: int, t_a: int) -> int:
    """Return the certainty that ``two`` begins, or (``end``) ends, WITHIN the begin of ``one``."""
    within = s.setting[0].within
    if within < 0:
        return CERTAIN
    if end and one == two:
        return int(lasts_within(s.events[one], within))
    time = s.events[two].ref_end if end else s.events[two].ref
    apart = time - s.events[one].ref
    return certainty_of(apart, within, 0, error_of(s, one, 0, two, end, t_a))


@inline
def condition_holds(s: SearchState, which: int, present: int, t_a: int) -> int:
    """Return the certainty that a condition holds for the events in ``rows``.

    ``present``: bits of their steps.
    """
    of = s.t.conditions[which]
    if of.needs & ~present:
        return CERTAIN
    by_delay = t_a if s.setting[0].max_delay else -1
    if of.collects:
        errors = Errors(s.made_events, by_delay, ANY_SHIFT)
        rows, raw, ok = s.itself, s.made_raw, s.made_ok
    else:
        errors = Errors(s.events, by_delay, ANY_SHIFT)
        rows, raw, ok = s.rows, s.raw, s.ok
    program = 2 * of.predicate
    if not holds(s.programs, s.ranks, program + POSSIBLY, rows, raw, ok, errors):
        return IMPOSSIBLE
    if of.clocked and not holds(s.programs, s.ranks, program + CERTAINLY, rows, raw, ok, errors):
        return POSSIBLE
    return CERTAIN


@kernel
def step_holds(s: SearchState, step: int, row: int, before: int, present: int, t_a: int) -> int:
    """Return the certainty that the conditions of ``step`` hold for ``row``; put it into ``rows``.

    ``before``: the previous event of the step, or -1. ``present``: bits of the steps so far.
    """
    s.rows[role_of(step, CUR)], s.rows[role_of(step, PREV)] = row, before
    of, found = s.t.steps[step], CERTAIN
    for c in range(of.take_from, of.take_to):
        if found != IMPOSSIBLE and (before >= 0 or not s.t.conditions[c].again):
            found = min(found, condition_holds(s, c, present | 1 << step, t_a))
    return found


@kernel
def place_events(s: SearchState, path: np.ndarray, from_: int, size: int) -> int:
    """Put the events of a match into ``rows``; returns the bits of its steps."""
    present = 0
    for i in range(from_, from_ + size):
        step, row = path[i].step, path[i].row
        if not present >> step & 1:
            s.rows[role_of(step, HEAD)] = row
            s.rows[role_of(step, PREV)] = -1
        present |= 1 << step
        s.rows[role_of(step, CUR)] = s.rows[role_of(step, TAIL)] = row
    return present


@kernel
def copy_event(s: SearchState, place: int) -> None:
    """Copy the event at a place of ``rows`` to the input of programs that read aggregates."""
    row = s.rows[place]
    for register in range(len(s.raw)):
        s.made_raw[register, place] = s.raw[register, row]
        s.made_ok[register, place] = s.ok[register, row]
    s.made_events[place] = s.events[row]


@kernel
def collect(s: SearchState, path: np.ndarray, from_: int, size: int, present: int) -> None:
    """Compute the input of programs that read aggregates of steps."""
    for step in range(len(s.t.steps)):
        if present >> step & 1:
            for role in (CUR, HEAD, TAIL):
                copy_event(s, role_of(step, role))
    for c in range(len(s.t.collections)):
        of = s.t.collections[c]
        n, known, whole, high, low, real = 0, 0, 0, 0, 0, 0.0
        as_float = s.kinds[of.source] == FLOAT
        for i in range(from_, from_ + size):
            row = path[i].row
            if path[i].step != of.step:
                continue
            n += 1
            if of.function == NUMBER or not s.ok[of.source, row]:
                continue
            value = s.raw[of.source, row]
            number = real_of(value) if as_float else float(value)
            first, known = known == 0, known + 1
            if of.function == LEAST:
                whole, real = (
                    (value if first else min(whole, value)),
                    (number if first else min(real, number)),
                )
            elif of.function == MOST:
                whole, real = (
                    (value if first else max(whole, value)),
                    (number if first else max(real, number)),
                )
            else:
                high, low, real = high + (value >> HALF), low + (value & LOW_HALF), real + number
        if of.function == SUM:
            high += low >> HALF
            whole = (high << HALF) | (low & LOW_HALF)
            if not as_float and high != whole >> HALF:
                known = 0  # an overflow is null, as with +
        place = role_of(of.step, ALL_OF)
        s.made_ok[of.target, place] = of.function == NUMBER or known > 0
        if of.function == NUMBER:
            s.made_raw[of.target, place] = n
        elif of.function == AVG:
            s.made_raw[of.target, place] = bits_of(real / max(known, 1))
        else:
            s.made_raw[of.target, place] = bits_of(real) if as_float else whole


@kernel
def conditions_hold(
    s: SearchState, path: np.ndarray, from_: int, size: int, present: int, first: int, to: int,
    taken: int, t_a: int,
) -> int:  # fmt: skip
    """Return the certainty that the conditions ``first`` to ``to`` hold for a match.

    ``taken``: the step of its last event: its earlier events were checked before; -1: all events
    are checked.
    """
    found, made = CERTAIN, False
    again = taken >= 0 and size > 1 and path[from_ + size - 2].step == taken
    for c in range(first, to):
        of = s.t.conditions[c]
        if found == IMPOSSIBLE or of.needs & ~present or (again and of.each != taken):
            continue
        if of.collects and not made:
            collect(s, path, from_, size, present)
            made = True
        if of.each < 0:
            found = min(found, condition_holds(s, c, present, t_a))
            continue
        before, start = -1, from_
        if again:
            before, start = path[from_ + size - 2].row, from_ + size - 1
        for i in range(start, from_ + size):
            if path[i].step == of.each:
                here, earlier = role_of(of.each, CUR), role_of(of.each, PREV)
                s.rows[here], s.rows[earlier] = path[i].row, before
                if of.collects:
                    copy_event(s, here)
                    if before >= 0:
                        copy_event(s, earlier)
                if found != IMPOSSIBLE and (before >= 0 or not of.again):
                    found = min(found, condition_holds(s, c, present, t_a))
                before = path[i].row
    return found


@inline
def has_prefix_conditions(s: SearchState, step: int) -> bool:
    """Return whether ``step`` has conditions on a prefix of the match."""
    return bool(s.t.steps[step].prefix_from < s.t.steps[step].prefix_to)


@kernel
def trial_holds(s: SearchState, size: int, t_a: int) -> int:
    """Return the certainty that the prefix conditions hold for the ``size`` events in ``trial``.

    The events are put into ``rows``.
    """
    step = s.trial[size - 1].step
    of, present = s.t.steps[step], place_events(s, s.trial, 0, size)
    return int(
        conditions_hold(s, s.trial, 0, size, present, of.prefix_from, of.prefix_to, step, t_a)
    )


@kernel
def path_holds(s: SearchState, from_: int, size: int, t_a: int) -> int:
    """Return the certainty that the conditions of each event hold, as ``step_holds`` for it."""
    found, present, before, last = CERTAIN, 0, -1, -1
    for i in range(from_, from_ + size):
        step, row = s.path[i].step, s.path[i].row
        found = min(found, step_holds(s, step, row, before if step == last else -1, present, t_a))
        present |= 1 << step
        before, last = row, step
    return found


@inline
def key_equal(s: SearchState, one: int, two: int) -> bool:
    """Return whether two events are of one partition."""
    for k in range(s.setting[0].keys):
        if s.tag[k, one] == 0 or s.tag[k, one] != s.tag[k, two] or s.same[k, one] != s.same[k, two]:
            return False
    return True
