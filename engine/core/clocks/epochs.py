"""Epochs of clocks, and the clocks of released events.

A result that compares events of several clocks, one of them unknown, is unknown (SPEC 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import UNC_MAX_NS
from slackwater.engine.core.clocks.choice import ClockChoice, Lane
from slackwater.engine.core.columns import Columns
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import LATE_DROPPED, LATEST, Released, Strings
from slackwater.engine.core.timeline import CHANCE, LONG_AGO, REF_END, UNKNOWN
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE, NS_PER_S, Record, record

# Tables of a site's clocks for kernels: offsets by event time, and the reference times they give.


EPOCHS_KEPT: Final = 8
"""Offsets remembered per clock, for events that were stamped before the newest sync."""
REFUTES_NS: Final = 1_000
"""An event with an earlier arrival than possible, but by less than this, refutes no bound: software
timestamps are no more precise, and small examples count in single nanoseconds.
"""
EPOCH: Final = record(
    "start", "offset", "unc", "rate", "anchor", "ident", "skew", "doubt", "regime", "refuted"
)
"""One offset of a clock, valid from event time ``start`` on.

``skew``: slope of the offset [ppb], ``rate``: of its uncertainty [ppb], both from ``anchor`` on.
Before ``anchor`` the offset is constant, so its uncertainty grows by the sum of both.
``doubt``: the uncertainty of its events after a later step of the clock was found; 0: no step.
``regime``: number of steps of the clock found before it. ``refuted``: added to the uncertainty
because an event arrived before it can have happened; 0: none did.
"""
CLOCK: Final = np.dtype(
    [
        ("n", "i8"),
        ("first_lane", "i8"),
        ("gone", "i8"),
        ("older", "i8"),
        ("max_ts", "i8"),
        ("unsynced", "i8"),
        ("known_at", "i8"),
        ("epochs", EPOCH, (EPOCHS_KEPT,)),
    ]
)
"""A clock's ``n`` offsets, oldest first. ``gone``: number of events released with the newest one.
``older``: added to the uncertainty of events before the start of the oldest one, for earlier steps.
``max_ts``: the largest timestamp of its trusted events. ``unsynced``: the epoch of its events while
it has no offset. ``known_at``: arrival of the sync that made it known; ``LATEST``: it is unknown.
``first_lane``: of the source of this code.
"""
UNKNOWN_EPOCH: Final = -2
"""The epoch of events of an unknown clock: without syncs, and not declared by the user."""
_BEFORE: Final = UNKNOWN_EPOCH - 1
"""Epochs before a sync count downwards from here."""
STATUSES: Final = ("synchronized", "free-running", "disrupted", "unknown")
"""The status of a clock at an event, from good to bad (SPEC 2; terms of ClockBound)."""
CLOCK_STATUS: Final = "clock_status"
"""Column of released events, and field of results: an index into ``STATUSES``; omitted if all are
synchronized.
"""
FREE_RUNNING_NS: Final = 300 * NS_PER_S
"""A clock is free-running this long after its last sync; agents synchronise every minute."""
UNANCHORED: Final = 2**62
"""The anchor of a sync without a time that came before any event of its clock."""


@inline
def _in_force(of: Record, ts: int) -> int:
    """The place of the offset that is valid at the clock's time ``ts``; the clock has offsets."""
    j = of.n - 1
    while j > 0 and ts < of.epochs[j].start:
        j -= 1
    return int(j)


@inline
def reference(clocks: np.ndarray, default: int, clock: int, ts: int) -> tuple[int, int, int]:
    """(ref, uncertainty, epoch) of event time ``ts`` at the clock of this code (R19 Eq 3.14, 3.15).

    The time between two events of one epoch errs by the difference of their uncertainties: both
    grow with the distance from the sync, at the clock's rate. So events before the sync have an
    epoch of their own. ``ref`` never decreases with ``ts`` within an epoch, as a slope is far from
    -1. The uncertainty saturates at ``UNC_MAX_NS``.
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
        # Seconds and the remainder separately: their products with a rate fit into int64.
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
    """Return the number of the offset for an event's epoch."""
    return ident if ident >= UNKNOWN_EPOCH else _BEFORE - ident


def epochs_of(ident: np.ndarray) -> np.ndarray:
    """``epoch_of`` of an array."""
    return np.where(ident >= UNKNOWN_EPOCH, ident, _BEFORE - ident)


@kernel
def first_refuted(
    clocks: np.ndarray, clock: np.ndarray, ts: np.ndarray, arrival: np.ndarray,
    is_event: np.ndarray, guard: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Return (row, place of the epoch, excess [ns]) of the first event that arrived before ``ref -
    unc``; row -1: there is none.
    """
    for i in range(len(clock)):
        if clock[i] < 0 or (len(is_event) > 0 and not is_event[i]):
            continue
        of = clocks[clock[i]]
        if of.n == 0:
            continue
        ref, unc, _ = reference(clocks, 0, clock[i], ts[i])
        place = _in_force(of, ts[i])
        by = ref - unc - arrival[i]
        least = 1 if of.epochs[place].refuted > 0 else REFUTES_NS
        if least <= by <= guard:
            return i, place, by
    return NONE, 0, 0


@kernel
def statuses_of(
    clocks: np.ndarray, clock: np.ndarray, ts: np.ndarray, epoch: np.ndarray, found: np.ndarray
) -> None:
    """Write the indices in ``STATUSES`` of these events into ``found``; events of an unknown clock
    keep their value there, as only a comparison with another clock is uncertain.
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
    """Count events released with the newest offset of their clock; widen the uncertainty of others,
    with a doubtful or unknown offset, to cover the present knowledge about their stamps.
    """
    for i in range(len(clock)):
        of = clocks[clock[i]]
        j = of.n - 1
        if j < 0 or of.known_at == LATEST:
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


# The clocks of released events, and whether one of them is unknown.


MIXED: Final = "mixed"
"""Column of released events: the latest time [ns] of an earlier event of an unknown clock, where
events of several clocks have come. ``LATEST``: a clock is unknown now; -``LATEST``: none was
unknown; ``LATEST - 1``: none is unknown now, but arrivals give no bound. Omitted if the user
declares the clocks exact."""

STAMPED_BY: Final = "stamped_by"
"""Column of results that others read as events: the clock of their own events. Their ``clock`` is
their source's."""
SPANS_KEPT: Final = 256
"""Most spans with unknown clocks that an operator remembers."""
_NONE: Final = np.empty(0, np.int64)
CLOCKS_KEPT: Final = 1024
"""Most clocks whose last known time an operator remembers, at least."""
_NEVER: Final = 2**62
_Name = TypeVar("_Name", int, str)
IS_UNKNOWN, IS_MIXED = np.int8(1), np.int8(2)
"""Flags of a result, for statements that read results as events: it compares events of several
clocks, one of them unknown; such clocks had events by then."""
NO_CLOCK: Final = -1
"""Code of a result of several clocks."""


class ClocksSeen(Restorable):
    """The clocks of one released stream, row by row."""

    state_fields = ("_clocks", "_unknown", "_mixed", "_until")

    def __init__(self, choice: ClockChoice, site: str, strings: Strings) -> None:
        self._declared = {strings.code(name) for name, _, _ in choice.declared}
        clocks, unknown = _upcoming(choice, site)
        self._clocks = set(map(strings.code, clocks))
        self._unknown = set(map(strings.code, unknown))
        """Clocks that were unknown at an event."""
        self._until = -LATEST
        self._mixed = self._is_mixed()
        self.fixed_codes = [*self._clocks, *self._declared]
        """Codes that stay in use: of the configured clocks."""

    def mark(self, columns: Columns, known_at: np.ndarray, *, causal: bool) -> None:
        """Add the column ``mixed``.

        Args:
            columns: of released events, in order.
            known_at: of clocks, by code; those beyond are unknown.
            causal: no event lies behind its arrival.
        """
        clock, unknown = columns[r.CLOCK], columns["epoch"] == UNKNOWN_EPOCH
        before = known_since(known_at, sorted(self._unknown)).max(initial=self._until)
        first = 0 if self._mixed else len(clock)
        news = list[tuple[int, int, bool]]()
        for rows, is_unknown in ((np.arange(first), False), (np.flatnonzero(unknown), True)):
            seen = self._unknown if is_unknown else self._clocks
            found, places = np.unique(clock[rows], return_index=True)
            pairs = zip(rows[places].tolist(), found.tolist(), strict=True)
            news += [(row, code, is_unknown) for row, code in pairs if code not in seen]
        for row, code, is_unknown in sorted(news):
            (self._unknown if is_unknown else self._clocks).add(code)
            if not self._mixed and self._is_mixed():
                self._mixed, first = True, row
        until = np.full(len(clock) + 1, before)
        if unknown.any():
            # They were before they came; results have them where they are put.
            ends = columns[REF_END] if REF_END in columns else columns["ref"]
            latest = np.maximum(columns["release"], ends + columns["unc"])
            until[1:][unknown] = latest[unknown]
            self._until = max(self._until, int(until[1:][unknown].max()))
            codes = np.unique(clock[unknown])
            still = codes[known_since(known_at, codes) == LATEST]
            until[1:][unknown & np.isin(clock, still)] = LATEST
        until = np.maximum.accumulate(until)[1:]
        if not causal:
            until = np.where(until > -LATEST, np.maximum(until, LATEST - 1), until)
        until[:first] = -LATEST
        columns[MIXED] = until

    def _is_mixed(self) -> bool:
        return len(self._clocks) > 1 and _are_mixed(self._clocks, self._unknown, self._declared)

    def forget(self, codes: list[int]) -> None:
        """Forget clocks that stamp no more events."""
        self._clocks.difference_update(codes)
        self._unknown.difference_update(codes)

    def unknown(self, known_at: np.ndarray) -> set[int]:
        """Return codes of clocks that are still unknown, if other clocks had events, too."""
        codes = np.array(sorted(self._unknown if self._mixed else ()), np.int64)
        return set(codes[known_since(known_at, codes) == LATEST].tolist())


def known_since(known_at: np.ndarray, codes: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return when clocks of these codes became known [ns]; ``LATEST``: they are unknown."""
    code = np.asarray(codes, np.int64)
    found, there = np.full(len(code), LATEST), (code >= 0) & (code < len(known_at))
    found[there] = known_at[code[there]]
    return found


def _upcoming(choice: ClockChoice, site: str) -> tuple[set[str], set[str]]:
    """Return the clocks that are expected, and the unknown ones among them."""
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
    # If all other clocks are declared, they are declared relative to the unknown one.
    return not clocks - unknown <= declared


def unknown_read(choice: ClockChoice, site: str, lanes: Iterable[Lane]) -> tuple[str, ...]:
    """Return the unknown clocks among these ``lanes``, if several clocks are expected."""
    clocks, unknown = _upcoming(choice, site)
    declared, read = {name for name, _, _ in choice.declared}, {clock for clock, _ in lanes}
    several = not choice.exact and len(clocks) > 1 and len(read) > 1
    is_mixed = several and _are_mixed(clocks, unknown, declared)
    return tuple(sorted(read & unknown)) if is_mixed else ()


class ComparedClocks(Restorable):
    """Finds results of an operator that compare events of an unknown clock with others.

    Results of one clock are certain. Other results are unknown if they are emitted after the first
    event of an unknown clock and start before the latest time that its last event may have; while
    the clock is unknown, such an event may still come. This is not decided per group: it would take
    a clock in every cell, and events that a group lacks may be of any clock. Results emitted after
    the first event that is an unknown result itself are unknown, too.

    Args:
        keys: grouping keys; within one source or clock, events are not compared with other clocks.
        unknown: names of unknown clocks that will have events.
        before: an event affects a result that starts up to this much later [ns]; ``LATEST``: any.
        near: of results that start and end with events: an event up to this long before a result
            [ns] may become its first event; None: results have fixed borders.
    """

    state_fields = (
        "_clocks", "_first", "_newest", "_one", "_alone", "_sure", "_unknown", "_until",
        "_spans", "_known_until",
    )  # fmt: skip

    def __init__(
        self, keys: Sequence[str] = (), *, unknown: Sequence[str] = (), before: int = 0,
        near: int | None = None,
    ) -> None:  # fmt: skip
        self._by_clock, self._by_source = r.CLOCK in keys, r.SOURCE in keys
        self._key = next((n for n, name in enumerate(keys) if name in (r.CLOCK, r.SOURCE)), None)
        """Place of the key that is a clock or a source; None: there is none."""
        self._before, self._near = before, near
        self._clocks = set[tuple[int, int]]()
        """(group, clock); clocks of one group share windows."""
        self._groups = set[int]()
        self._first = NO_CLOCK
        self._newest = LONG_AGO
        self._known_until = dict[str, int]()
        """Time of each clock's last event while it was known [ns], by name."""
        self._unknown = set(unknown)
        """Names of clocks with events that are still unknown."""
        self._until = -LATEST
        """The latest time of an event of a clock that was unknown."""
        self._spans = np.array([(LONG_AGO, LATEST)] if unknown else [], np.int64).reshape(-1, 2)
        """(spans, 2): results emitted after the first and starting before the second are unknown.
        Ascending; the last one is open while a clock is unknown."""
        # Results emitted up to these places: of one clock (``_one``), of known results (``_sure``),
        # of a stream without another clock besides an unknown one (``_alone``).
        self._alone = LONG_AGO if unknown else _NEVER
        self._one, self._sure = self._alone if self._key is None else _NEVER, _NEVER

    def see_until_unknown(
        self, released: Released, ref: np.ndarray, before: np.ndarray, chosen: np.ndarray | None
    ) -> Iterator[tuple[int, int]]:
        """As ``see``, in parts that end with an event that may make earlier results unknown.

        Yields:
            The number of events seen so far, and a time [ns]: results that end before it stay
            known, as the clock of the event was known until then.
        """
        mixed = released.columns.get(MIXED, _NONE)
        if not (mixed > -LATEST).any() and CHANCE not in released.columns:
            self.see(released, ref, before, chosen)
            return
        state, known = self.snapshot(), self._changes()
        self.see(released, ref, before, chosen)
        times = np.array(sorted(self._changes() - known), np.int64)
        first = 0
        if len(times) and len(ref):
            self.restore(state)
            for row in np.unique(np.searchsorted(before, times)).tolist():
                self.see(released, ref, before, chosen, slice(first, row + 1))
                first, name = row + 1, released.strings.texts[released.columns[r.CLOCK][row]]
                is_unknown = released.columns["epoch"][row] == UNKNOWN_EPOCH
                yield first, self._known_until.get(name, LONG_AGO) if is_unknown else LONG_AGO
            self.see(released, ref, before, chosen, slice(first, len(ref)))

    def _changes(self) -> set[int]:
        """Return the times of emission after which more results are unknown."""
        found = {self._sure} if self._sure != _NEVER else set()
        if len(self._spans):
            found |= {*self._spans[:, 0].tolist(), self._one, self._alone} - {LONG_AGO, _NEVER}
        return found

    def see(
        self, released: Released, ref: np.ndarray, before: np.ndarray, chosen: np.ndarray | None,
        part: slice | None = None,
    ) -> None:  # fmt: skip
        """Process events in order of release.

        Args:
            released: the batch.
            ref: reference times (rows,) [ns].
            before: the largest ``at`` of results (see ``of``) before each row.
            chosen: bool (rows,): the query reads it; None: all.
            part: the rows to see now; None: all.
        """
        columns = released.columns
        self._recover(released)
        seen = np.arange(len(ref))[part or slice(None)]
        newest = np.maximum.accumulate(np.append(self._newest, ref[seen]))
        self._newest = int(newest[-1])
        rows = seen if chosen is None else seen[chosen[seen]]
        if MIXED not in columns or not len(rows):
            return
        if STAMPED_BY not in columns:  # results that share a clock need not come in its order
            self._remember(released, ref, seen)
        times = before[rows]
        clock = columns.get(STAMPED_BY, columns[r.CLOCK])[rows]
        if self._first == NO_CLOCK:
            self._first = int(clock[0])
        if self._one == _NEVER and not self._by_clock:
            self._one = self._second_clock(clock, columns[r.SOURCE][rows], times)
        if self._alone == _NEVER:
            self._alone = _before_first(columns[MIXED][rows] > -LATEST, times)
        if self._sure == _NEVER and CHANCE in columns:
            self._sure = _before_first(columns[CHANCE][rows] == UNKNOWN, times)
        unknown = columns["epoch"][rows] == UNKNOWN_EPOCH
        until = np.maximum(columns["release"], ref + columns["unc"])[rows]
        until[~unknown] = -LATEST
        latest = np.maximum.accumulate(np.append(self._until, until))
        self._until = int(latest[-1])
        if self._near is not None:
            perhaps = ref[rows] - columns["unc"][rows] - self._near
            until = np.where(perhaps <= latest[:-1], np.maximum(until, ref[rows]), until)
        if unknown.any():
            codes = np.unique(clock[unknown])
            still = codes[known_since(released.known_at, codes) == LATEST]
            until[unknown & np.isin(clock, still)] = LATEST
            self._unknown.update(released.strings.texts[code] for code in still.tolist())
        self._add(times, newest[rows - seen[0]], until)

    def _remember(self, released: Released, ref: np.ndarray, rows: np.ndarray) -> None:
        """Remember the last known time of each clock in the batch."""
        columns = released.columns
        rows = rows[columns["epoch"][rows] != UNKNOWN_EPOCH]
        code = columns[r.CLOCK][rows]
        until = np.full(int(code.max(initial=-1)) + 1, LONG_AGO)
        until[code] = (ref - columns["unc"])[rows]  # of the last event; any would do
        for each in np.flatnonzero(until > LONG_AGO).tolist():
            name = released.strings.texts[each]
            self._known_until[name] = max(int(until[each]), self._known_until.get(name, LONG_AGO))
        if len(self._known_until) > 2 * CLOCKS_KEPT:
            by_time = sorted((time, name) for name, time in self._known_until.items())
            self._known_until = {name: time for time, name in by_time[-CLOCKS_KEPT:]}

    def _recover(self, released: Released) -> None:
        """Remove clocks that have become known, and close the last span if none is left."""
        if not self._unknown:
            return
        names = sorted(self._unknown)
        since = known_since(released.known_at, list(map(released.strings.find, names)))
        self._unknown = {name for name, at in zip(names, since.tolist(), strict=True)
                         if at == LATEST}  # fmt: skip
        self._until = int(since[since < LATEST].max(initial=self._until))
        if not self._unknown:
            self._spans[-1, 1] = max(self._until, self._newest)

    def _add(self, since: np.ndarray, newest: np.ndarray, until: np.ndarray) -> None:
        """Add spans ``since`` to ``until``; ``newest``: the latest event before each.

        Spans are merged if no result can have begun between them.
        """
        spans = self._spans
        before = np.maximum.accumulate(np.append(spans[-1:, 1], until))
        before = before[:-1] if len(spans) else np.append(-LATEST, before[:-1])
        more = until > before
        since, newest, until = since[more], newest[more], until[more]
        before = before[more]
        if not len(until):
            return
        first = np.flatnonzero((newest > before) | (before == -LATEST))
        if len(spans) and (not len(first) or first[0]):
            spans[-1, 1] = until[first[0] - 1 if len(first) else -1]
        last = np.append(first[1:], len(until)) - 1 if len(first) else first
        self._spans = np.concatenate((spans, np.column_stack((since[first], until[last]))))
        if len(self._spans) > SPANS_KEPT:
            # The oldest spans are merged: results between them are final.
            self._spans[-SPANS_KEPT, 0] = self._spans[0, 0]
            self._spans = self._spans[-SPANS_KEPT:]

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

    def of(self, start: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return flags ``IS_UNKNOWN`` and ``IS_MIXED`` (int8) of results.

        Args:
            start: start times (results,) [ns].
            at: places of their emission in any ascending measure, such as events read so far.
        """
        unknown = self._compare(start, at, self._one) | (at > self._sure)
        mixed = self._compare(start, at, LONG_AGO)
        return np.asarray(unknown * IS_UNKNOWN | mixed * IS_MIXED)

    def _compare(self, start: np.ndarray, at: np.ndarray, one: int) -> np.ndarray:
        """Bool (results,): compares an unknown clock; ``one``: last place with a single clock."""
        found = np.zeros(len(at), np.bool_)
        for since, until in self._spans.tolist():
            since = max(since, one, self._alone)  # noqa: PLW2901 - all are needed
            found |= (at > since) & (start - self._before <= until)
        return found

    def clock_of(self, at: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return the clock's code of each result (``NO_CLOCK``: several clocks).

        ``at``: places of emission; ``keys``: codes (results, keys) of the groups.
        """
        if self._key is not None:
            return keys[:, self._key].astype(np.int32)
        return np.where(at > self._one, NO_CLOCK, self._first).astype(np.int32)

    def codes(self) -> np.ndarray:
        """Return codes of clocks and sources in use."""
        codes = {code for pair in self._clocks for code in pair} | {self._first}
        return np.array(sorted(codes - {NO_CLOCK}), np.int64)

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._groups = {group for group, _ in self._clocks}


def _before_first(flags: np.ndarray, times: np.ndarray) -> int:
    """Return the element of ``times`` at the first true flag; ``_NEVER``: all are false."""
    return int(times[int(flags.argmax())]) if flags.any() else _NEVER
