"""What kernels know of a site's clocks: offsets in force, and reference times by them."""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.edge_agent.records import UNC_MAX_NS
from slackwater.engine.core.released import LATE_DROPPED
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE, NS_PER_S, record

EPOCHS_KEPT: Final = 8
"""Offsets remembered per clock, to correct events stamped before the newest sync."""
REFUTES_NS: Final = 1_000
"""An event that arrives less than that before it happened refutes no bound: no stamp of software is
better, and small examples count in single nanoseconds."""
EPOCH: Final = record(
    "start", "offset", "unc", "rate", "anchor", "ident", "skew", "doubt", "regime", "refuted"
)
"""One offset of a clock, in force from event time ``start`` on.

``skew``: slope of the offset, ``rate``: of its uncertainty [ppb], both from ``anchor`` on. Before
it the offset is level, so that its uncertainty grows by both.
``doubt``: the uncertainty of its events since a step was found behind them; 0: none was.
``regime``: how many steps of the clock had been found before it. ``refuted``: what is added to the
uncertainty since an event arrived before it can have happened; 0: none did.
"""
CLOCK: Final = np.dtype(
    [
        ("n", "i8"),
        ("first_lane", "i8"),
        ("gone", "i8"),
        ("older", "i8"),
        ("max_ts", "i8"),
        ("unsynced", "i8"),
        ("epochs", EPOCH, (EPOCHS_KEPT,)),
    ]
)
"""A clock's ``n`` offsets, oldest first. ``gone``: events released by the newest. ``older``: what
steps before the oldest one add to the uncertainty of events before its start. ``max_ts``: the
largest time that it stamped, of the events that are trusted. ``unsynced``: the epoch of
its events while it has no offset. ``first_lane``: of the source of this code.
"""
UNKNOWN_EPOCH: Final = -2
"""Of events of a clock of which nothing is known: no sync, and nothing that the user says."""
_BEFORE: Final = UNKNOWN_EPOCH - 1
"""Epochs before a sync count downwards from here."""
STATUSES: Final = ("synchronized", "free-running", "disrupted", "unknown")
"""What a clock was at an event (SPEC 2, in the words of ClockBound), from good to bad."""
CLOCK_STATUS: Final = "clock_status"
"""Column of released events, and field of results: a place in ``STATUSES``; left out where all are
synchronized."""
FREE_RUNNING_NS: Final = 300 * NS_PER_S
"""So far from its sync a clock is free-running; agents ask each minute."""
UNANCHORED: Final = 2**62
"""The anchor of a sync that came before any event of its clock and says not when it was made."""


@inline
def reference(clocks: np.ndarray, default: int, clock: int, ts: int) -> tuple[int, int, int]:
    """(ref, uncertainty, epoch) of event time ``ts`` at the clock of this code (R19 Eq 3.14, 3.15).

    Of two events of one epoch, what lies between is off by what their uncertainties differ by: both
    grow away from the sync, at the clock's rate. So those before it are of an epoch of their own.
    Never descending in ``ts`` within an epoch: a slope is far from -1. The uncertainty saturates.
    """
    of = clocks[clock]
    if of.n == 0:
        return ts, default, of.unsynced
    j = of.n - 1
    while j > 0 and ts < of.epochs[j].start:
        j -= 1
    epoch = of.epochs[j]
    ident = epoch.ident
    offset, unc, rate = epoch.offset, epoch.unc, epoch.rate
    age = ts - epoch.anchor
    if age < 0:
        rate = rate + abs(epoch.skew) if epoch.anchor < UNANCHORED else 0
        if rate > 0 and ident >= 0:
            ident = _BEFORE - ident
    if rate > 0 or epoch.skew != 0:
        # Whole seconds and the rest apart: their products with a rate stay within int64.
        seconds, rest = abs(age) // NS_PER_S, abs(age) % NS_PER_S
        grown = seconds * rate + rest * rate // NS_PER_S
        unc = unc + grown if grown < UNC_MAX_NS - unc else UNC_MAX_NS
        if age > 0:
            offset += seconds * epoch.skew + rest * epoch.skew // NS_PER_S
    unc = min(unc + epoch.refuted, UNC_MAX_NS)
    if ts < epoch.start:
        unc = unc + of.older if of.older < UNC_MAX_NS - unc else UNC_MAX_NS
    return ts + offset, unc, ident


@inline
def status_of(clocks: np.ndarray, clock: int, ts: int, ident: int) -> int:
    """Place in ``STATUSES`` of an event of this epoch; an unknown clock, which matters where it is
    compared with another, counts as none.
    """
    of = clocks[clock]
    if of.n == 0 or ident == UNKNOWN_EPOCH:
        return 0
    j = of.n - 1
    while j > 0 and ts < of.epochs[j].start:
        j -= 1
    epoch = of.epochs[j]
    if ident == NONE or epoch.refuted > 0:
        return 2
    age = abs(ts - epoch.anchor) if epoch.anchor < UNANCHORED else 0
    return int(epoch.rate > 0 and age > FREE_RUNNING_NS)


@inline
def epoch_of(ident: int) -> int:
    """The number of the offset in force, of an event's epoch."""
    return ident if ident >= UNKNOWN_EPOCH else _BEFORE - ident


def epochs_of(ident: np.ndarray) -> np.ndarray:
    """``epoch_of``, of many."""
    return np.where(ident >= UNKNOWN_EPOCH, ident, _BEFORE - ident)


@kernel
def first_refuted(
    clocks: np.ndarray, clock: np.ndarray, ts: np.ndarray, arrival: np.ndarray,
    is_event: np.ndarray, guard: int,
) -> tuple[int, int, int]:  # fmt: skip
    """(row, place of the epoch, by how much) of the first event that arrived before its time, less
    its uncertainty; row -1: none did.
    """
    for i in range(len(clock)):
        if clock[i] < 0 or (len(is_event) > 0 and not is_event[i]):
            continue
        of = clocks[clock[i]]
        if of.n == 0:
            continue
        ref, unc, _ = reference(clocks, 0, clock[i], ts[i])
        by = ref - unc - arrival[i]
        if REFUTES_NS <= by <= guard:
            j = of.n - 1
            while j > 0 and ts[i] < of.epochs[j].start:
                j -= 1
            return i, j, by
    return NONE, 0, 0


@kernel
def statuses_of(
    clocks: np.ndarray, clock: np.ndarray, ts: np.ndarray, epoch: np.ndarray, found: np.ndarray
) -> None:
    """``status_of``, of many."""
    for i in range(len(clock)):
        found[i] = status_of(clocks, clock[i], ts[i], epoch[i])


@kernel
def widen_released(
    clocks: np.ndarray, clock: np.ndarray, status: np.ndarray, ts: np.ndarray, ref: np.ndarray,
    unc: np.ndarray, epoch: np.ndarray, counts: bool,
) -> None:  # fmt: skip
    """Count what the newest offset of a clock released; widen what an offset in doubt did, so as
    to cover what is known of that stamp now.
    """
    for i in range(len(clock)):
        of = clocks[clock[i]]
        j = of.n - 1
        if j < 0 or epoch[i] == UNKNOWN_EPOCH:
            continue
        mine = epoch_of(epoch[i])
        if mine == of.epochs[j].ident:
            if counts and status[i] != LATE_DROPPED:
                of.gone += 1
            if of.epochs[j].refuted > 0:
                _, wrong, _ = reference(clocks, 0, clock[i], ts[i])
                unc[i] = max(unc[i], wrong)
            continue
        now, wrong, found = reference(clocks, 0, clock[i], ts[i])
        if found == epoch[i] and found != NONE:
            unc[i] = max(unc[i], wrong)  # refuted since then
            continue
        while j >= 0 and of.epochs[j].ident != mine:
            j -= 1
        known = epoch[i] != NONE and found != NONE
        if known and j >= 0 and of.epochs[j].regime == of.epochs[of.n - 1].regime:
            continue
        unc[i] = min(max(unc[i], abs(now - ref[i]) + wrong), UNC_MAX_NS)
        epoch[i] = NONE
