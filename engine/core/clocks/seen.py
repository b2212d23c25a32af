"""Epochs of clocks; of which clocks events were released, and whether one of them is unknown.

What compares events of several clocks, one of them unknown, is unknown (SPEC 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import UNC_MAX_NS
from slackwater.engine.core.clocks.choice import ClockChoice, Lane
from slackwater.engine.core.columns import Columns
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import LATE_DROPPED, Strings
from slackwater.engine.core.timeline import CHANCE, UNKNOWN
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE, NS_PER_S, Record, record

# What kernels know of a site's clocks: offsets in force, and reference times by them.


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
def _in_force(of: Record, ts: int) -> int:
    """Which offset of a clock that has some corrects its time ``ts``."""
    j = of.n - 1
    while j > 0 and ts < of.epochs[j].start:
        j -= 1
    return int(j)


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
    epoch = of.epochs[_in_force(of, ts)]
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
            return i, _in_force(of, ts[i]), by
    return NONE, 0, 0


@kernel
def statuses_of(
    clocks: np.ndarray, clock: np.ndarray, ts: np.ndarray, epoch: np.ndarray, found: np.ndarray
) -> None:
    """Fills in places in ``STATUSES`` of events of these epochs; an unknown clock, which matters
    where it is compared with another, counts as none, as ``found`` has it.
    """
    for i in range(len(clock)):
        of = clocks[clock[i]]
        if of.n == 0 or epoch[i] == UNKNOWN_EPOCH:
            continue
        in_force = of.epochs[_in_force(of, ts[i])]
        age = abs(ts[i] - in_force.anchor) if in_force.anchor < UNANCHORED else 0
        found[i] = in_force.rate > 0 and age > FREE_RUNNING_NS
        if epoch[i] == NONE or in_force.refuted > 0:
            found[i] = 2


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


# Of which clocks events have been released, and whether one of them is unknown.


MIXED: Final = "mixed"
"""Column of released events: until here events of several clocks came, of which one is unknown.
Left out where the user says that clocks are exact."""

STAMPED_BY: Final = "stamped_by"
"""Column of results that others read as events: the clock of their own events. Their ``clock`` is
that of their source."""
_NEVER: Final = 2**62
_Name = TypeVar("_Name", int, str)
NO_CLOCK: Final = -1
"""Instead of a clock's code: of several clocks."""


class ClocksSeen(Restorable):
    """The clocks of one released stream, row by row."""

    state_fields = ("_clocks", "_unknown")

    def __init__(self, choice: ClockChoice, site: str, strings: Strings) -> None:
        self._declared = {strings.code(name) for name, _, _ in choice.declared}
        clocks, unknown = _upcoming(choice, site)
        self._clocks = set(map(strings.code, clocks))
        self._unknown = set(map(strings.code, unknown))
        self.held = [*self._clocks, *self._declared]
        """Codes of texts in use, whatever comes."""

    def mark(self, columns: Columns, clocks: np.ndarray) -> None:
        """Adds the column ``mixed``.

        Args:
            columns: of released events, in order.
            clocks: CLOCK, by code: what is known of them by now.
        """
        clock = columns[r.CLOCK]
        newest = clocks["epochs"]["ident"][np.arange(len(clocks)), clocks["n"] - 1]
        known = (clocks["n"] > 0) & (newest != UNKNOWN_EPOCH)
        self._unknown = {code for code in self._unknown if code >= len(known) or not known[code]}
        first = 0 if self._is_mixed() else len(clock)
        found, rows = np.unique(clock, return_index=True)
        news = [(row, code, False) for code, row in zip(found.tolist(), rows.tolist(), strict=True)
                if code not in self._clocks]  # fmt: skip
        where = np.flatnonzero(columns["epoch"] == UNKNOWN_EPOCH)
        found, rows = np.unique(clock[where], return_index=True)
        news += [
            (row, code, True)
            for code, row in zip(found.tolist(), where[rows].tolist(), strict=True)
            if code not in self._unknown
        ]
        for row, code, is_unknown in sorted(news):
            self._clocks.add(code)
            if is_unknown:
                self._unknown.add(code)
            if row < first and self._is_mixed():
                first = row
        columns[MIXED] = np.arange(len(clock)) >= first

    def forget(self, codes: list[int]) -> None:
        """Clocks that stamp no event any more."""
        self._clocks.difference_update(codes)
        self._unknown.difference_update(codes)

    @property
    def unknown(self) -> set[int]:
        """Codes of unknown clocks, if events of others came, too."""
        return self._unknown if self._is_mixed() else set()

    def _is_mixed(self) -> bool:
        return len(self._clocks) > 1 and _are_mixed(self._clocks, self._unknown, self._declared)


def _upcoming(choice: ClockChoice, site: str) -> tuple[set[str], set[str]]:
    """The clocks that will come, and those of them that are unknown."""
    mine = [each for each in choice.upcoming if each.site == site]
    clocks = {clock for each in mine for clock, _ in each.lanes}
    known = {name for name, _, _ in choice.declared}.union(*(each.synced for each in mine))
    return clocks, clocks - known


def _are_mixed(clocks: set[_Name], unknown: set[_Name], declared: set[_Name]) -> bool:
    """Whether one of several ``clocks`` is unknown."""
    if not unknown:
        return False
    if len(unknown) > 1 or len(clocks) > len(declared) + 1:
        return True
    # What is said of all others is said against the one of which nothing is.
    return not clocks - unknown <= declared


def will_mix(choice: ClockChoice, site: str, lanes: Iterable[Lane]) -> bool:
    """Whether events of these ``lanes`` are of several clocks of which one is unknown."""
    clocks, unknown = _upcoming(choice, site)
    declared, read = {name for name, _, _ in choice.declared}, {clock for clock, _ in lanes}
    several = not choice.exact and len(clocks) > 1 and len(read) > 1
    return several and _are_mixed(clocks, unknown, declared) and not read.isdisjoint(unknown)


class ComparedClocks(Restorable):
    """Of the events that an operator reads, from when on what it makes of them compares unknown
    clocks: results of one clock are as certain as ever. Others are unknown that end after the first
    event of a second clock: to tell them apart by group would take a place for a clock in every
    cell, and which events a group lacks is a matter of all clocks. So are results that end after
    the first event that is itself an unknown result.

    Args:
        keys: by what events are grouped: of one source, or one clock, they are not compared with
            others.
        early: results leave before they end, so that it counts when they begin.
        mixed: it is known that several clocks will come of which one is unknown.
    """

    state_fields = ("_clocks", "_first", "_newest", "_one", "_known", "_sure", "_alone")

    def __init__(
        self, keys: Sequence[str] = (), *, early: bool = False, mixed: bool = False
    ) -> None:
        self._by_clock, self._by_source = r.CLOCK in keys, r.SOURCE in keys
        self._key = next((n for n, name in enumerate(keys) if name in (r.CLOCK, r.SOURCE)), None)
        """Which key says whose clock it is; None: none does."""
        self._early = early
        self._clocks = set[tuple[int, int]]()
        """(group, clock): those of one group share windows."""
        self._groups = set[int]()
        self._first = NO_CLOCK
        self._newest = -_NEVER
        # Up to when there were events of one clock, of known clocks, and of known results alone;
        # and no other clock in the stream beside an unknown one.
        self._known = self._alone = -_NEVER if mixed else _NEVER
        self._one, self._sure = self._known if self._key is None else _NEVER, _NEVER

    def see(self, columns: Columns, ref: np.ndarray, chosen: np.ndarray | None) -> None:
        """Events in order of release.

        Args:
            columns: theirs.
            ref: when they happened.
            chosen: which of them the query reads; None: all.
        """
        if MIXED not in columns:
            return
        rows = np.arange(len(ref)) if chosen is None else np.flatnonzero(chosen)
        if not len(rows):
            return
        times = np.maximum.accumulate(np.append(self._newest, ref[rows]))
        clock = columns.get(STAMPED_BY, columns[r.CLOCK])[rows]
        if self._first == NO_CLOCK:
            self._first = int(clock[0])
        if self._one == _NEVER and not self._by_clock:
            self._one = self._second_clock(clock, columns[r.SOURCE][rows], times)
        if self._known == _NEVER:
            self._known = _before_first(columns["epoch"][rows] == UNKNOWN_EPOCH, times)
        if self._alone == _NEVER:
            self._alone = _before_first(columns[MIXED][rows], times)
        if self._sure == _NEVER and CHANCE in columns:
            self._sure = _before_first(columns[CHANCE][rows] == UNKNOWN, times)
        self._newest = int(times[-1])

    def _second_clock(self, clock: np.ndarray, source: np.ndarray, times: np.ndarray) -> int:
        group = np.zeros_like(clock)
        if self._by_source:
            # A source's own clock is one; of its devices there may be several.
            group = np.where(clock == source, NO_CLOCK, source)
        pairs = group.astype(np.int64) << 32 | clock
        found, first = np.unique(pairs, return_index=True)
        for place, pair in sorted(zip(first.tolist(), found.tolist(), strict=True)):
            key = (pair >> 32, pair & (1 << 32) - 1)
            if key[0] == NO_CLOCK or key in self._clocks:
                continue
            if key[0] in self._groups:
                return int(times[place])
            self._clocks.add(key)
            self._groups.add(key[0])
        return _NEVER

    def of(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Which results of these extents are unknown."""
        since = min(max(self._one, self._known, self._alone), self._sure)
        return np.asarray((start if self._early else end) > since)

    def clocks(
        self, start: np.ndarray, end: np.ndarray, keys: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """By result, whose clock it is of (``NO_CLOCK``: of several), and whether that may be
        unknown beside others.

        Args:
            start: of its extent.
            end: of its extent.
            keys: codes of its group's keys.
        """
        at = start if self._early else end
        if self._key is not None:
            clock = keys[:, self._key]
        else:
            clock = np.where(at > self._one, NO_CLOCK, self._first)
        return clock.astype(np.int32), np.asarray(at > max(self._known, self._alone))

    def codes(self) -> np.ndarray:
        """Of clocks and sources."""
        held = {code for pair in self._clocks for code in pair} | {self._first}
        return np.array(sorted(held - {NO_CLOCK}), np.int64)

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._groups = {group for group, _ in self._clocks}


def _before_first(flags: np.ndarray, times: np.ndarray) -> int:
    """The newest event before the first of ``flags``; ``times``: newest so far, before each row."""
    return int(times[int(flags.argmax())]) if flags.any() else _NEVER
