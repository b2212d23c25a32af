"""Source information store of the engine: offsets, uncertainties and their epochs (SPEC 2).

``ref = ts + offset`` (R19 Eq 3.15) with uncertainty ``delay / 2`` + precision (Eq 3.14), growing by
``skew_error_ppb`` of the time between the event and the sync, which may be the later one (50 ppm
where the sync does not say). A stored offset applies to events by event time from its measurement
on; the first one also to earlier events. An epoch is the validity of one offset, so two events of
one source and epoch share one clock error. The site's ``t_a`` is the largest filtered
delay (Eq 3.16).

Beyond R19, earlier syncs narrow the last offset, which with ``fits`` has a slope from a source's
third sync on; and a sync that contradicts the earlier ones is a step of the source's clock
(``clocks.prediction``). Events between the two syncs that are released after the second one get an
uncertainty that covers the step, and share their clock error with no other event. Events released
before it keep their time, and operators widen them likewise (``Refuted``). The uncertainties of
several steps add up, so they cover a stamp before or after any of them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from msgspec import Struct, field, structs
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.edge_agent.device_clock import EPOCHS_KEPT as EPOCHS_KEPT_OF_DEVICE
from slackwater.edge_agent.device_clock import closed_clocks, device_of
from slackwater.edge_agent.records import TIME_MAX_NS, UNC_MAX_NS
from slackwater.engine.core.clocks.choice import ClockChoice
from slackwater.engine.core.clocks.epochs import (
    CLOCK,
    CLOCK_STATUS,
    EPOCHS_KEPT,
    REFUTES_NS,
    UNANCHORED,
    UNKNOWN_EPOCH,
    first_refuted,
    reference,
    statuses_of,
    widen_released,
)
from slackwater.engine.core.clocks.prediction import (
    SYNCS_KEPT,
    SYNCS_MIN,
    ClockStep,
    Line,
    Sample,
    SiteClocks,
    SyncPoint,
    bounded_offset,
    doubtful_span,
    find_step,
    fit_newest,
    growth_ppb,
    zero_order_hold,
)
from slackwater.engine.core.columns import Columns, clock_codes
from slackwater.engine.core.released import LATEST, NO_EPOCH, Refuted, Strings
from slackwater.engine.core.timeline import EPOCH_START, REF_END, UNC_START
from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, NONE, NS_PER_S

_NO_FLAGS: Final = np.zeros(0, np.bool_)


class _Known(Struct):
    """State of one source's clock; durations in ns.

    ``report``: offset, uncertainty and stated skew error of the last sync. ``samples``: the syncs
    of ``line``; empty if the last one has no time of measurement.
    """

    delay: int
    report: tuple[int, int, int | None]
    line: Line
    samples: list[Sample] = field(default_factory=list)
    syncs: int = 0
    clock_steps: int = 0
    last_step_ns: int = 0
    released_before_step: int = 0
    refuted_ns: int = 0
    seen_ppb: int = 0
    """The least rate [ppb] that explains an offset that moved by more than the stated rate."""
    doubt_until: int = INT_MIN
    """Events with a smaller timestamp may be from before a step of the clock."""

    def plain(self) -> list[Any]:
        """Return the fields as new lists, which serialise fastest."""
        delay, report, line, samples, *counts = structs.astuple(self)
        line = list(structs.astuple(line))
        return [delay, list(report), line, [list(each) for each in samples], *counts]


class SourceClocks:
    """Offsets of every clock of a site, by the code of its name in ``strings``.

    ``predict``: False keeps every offset until the next sync, as R19 does, and detects no steps.
    ``fits``: offsets follow the line through the last syncs, which assumes a stable frequency
    (``engine.core.clocks.prediction``).
    ``default_uncertainty_ns``: of a source that was never synchronised. ``choice``: the user's
    statements about clocks without syncs.
    """

    def __init__(
        self, strings: Strings, *, predict: bool = True, fits: bool = False,
        default_uncertainty_ns: int = 0, choice: ClockChoice | None = None,
    ) -> None:  # fmt: skip
        self.strings = strings
        choice = choice or ClockChoice()
        exact = choice.exact or default_uncertainty_ns > 0
        self._unsynced = NONE if exact else UNKNOWN_EPOCH
        self.next_epoch = 0
        self.clocks = self._empty(0)
        self._predict, self._fits = predict, fits
        self.unanchored: set[int] = set()
        self._known: dict[str, _Known] = {}
        self._users: dict[int, set[int]] = {}
        """By code of a clock that records name: codes of the sources that have named it."""
        self._devices: dict[str, set[str]] = {}
        """By device: names of the known clocks of its epochs."""
        self._forgotten_delay = 0
        self.site = SiteClocks(default_uncertainty_ns)
        self.refuted = Refuted()
        """Refutations that operators have not received yet; passing them on empties it."""
        self._declared = {name: (offset, bound) for name, offset, bound in choice.declared}
        for name in self._declared:
            self._declare(name)

    def _declare(self, name: str) -> None:
        """Enter the offset that the user states; it is valid until the first sync."""
        offset, bound = self._declared[name]
        self.learn(SyncPoint(name, r.DEFAULT_STREAM, 0, offset, 2 * bound, skew_error_ppb=0))

    def _empty(self, codes: int) -> np.ndarray:
        """Clock tables of ``codes`` codes, none of them synchronised."""
        table = np.zeros(codes, CLOCK)
        table["first_lane"] = NONE
        table["max_ts"] = INT_MIN
        table["unsynced"] = self._unsynced
        table["known_at"] = LATEST
        return table

    @property
    def t_a(self) -> int:
        """The largest filtered delay over the site's sources [ns] (R19 Eq 3.16)."""
        return max([self._forgotten_delay, *(known.delay for known in self._known.values())])

    def delays(self) -> np.ndarray:
        """Return the filtered delay of every synchronised source [ns], in no order."""
        return np.fromiter((known.delay for known in self._known.values()), np.int64)

    def grow(self, codes: int) -> None:
        """Make room for clocks with codes below ``codes``."""
        have = len(self.clocks)
        if codes > have:
            more = self._empty(max(codes, 2 * have))
            more[:have] = self.clocks
            self.clocks = more

    def codes(self) -> np.ndarray:
        """Return codes of the synchronised clocks, and of those that records have named."""
        return np.array([*map(self.strings.code, self._known), *self._users], np.int64)

    def forget(self, sources: list[int]) -> list[int]:
        """Forget sources without buffered events and the clocks that only they have named.

        ``t_a`` still counts them. Returns the codes of all.
        """
        unused_clocks = list[int]()
        for clock, users in self._users.items():
            users.difference_update(sources)
            unused_clocks += [] if users else [clock]
        for clock in unused_clocks:
            del self._users[clock]
        unused_sources = [code for code in sources if code not in self._users]
        codes = [*unused_sources, *(code for code in unused_clocks if code not in unused_sources)]
        self._forget(codes)
        return codes

    def forget_closed(self, name: str) -> list[int]:
        """Forget old epochs of the device of ``name``, which got a sync; return their codes."""
        device = device_of(name)
        if device == name or name in self._declared:
            return []
        mine = self._devices.setdefault(device, set())
        mine.add(name)
        closed = closed_clocks(mine) if len(mine) > EPOCHS_KEPT_OF_DEVICE else set()
        gone = sorted(self.strings.code(clock) for clock in closed)
        for code in gone:
            self._users.pop(code, None)
        self._forget(gone)
        return gone

    def _forget(self, codes: list[int]) -> None:
        """Forget clocks that stamp no more events."""
        for code in codes:
            name = self.strings.text(code) or ""
            known = self._known.pop(name, None)
            self._forget_epoch(name)
            if known is not None:
                self._forgotten_delay = max(self._forgotten_delay, known.delay)
                self.site.forget(code)
                self.unanchored.discard(code)
        known_codes = [code for code in codes if code < len(self.clocks)]
        self.clocks[known_codes] = self._empty(1)
        for name in self._declared:
            if name not in self._known:
                self._declare(name)

    def _forget_epoch(self, name: str) -> None:
        of = self._devices.get(device_of(name))
        if of is not None:
            of.discard(name)
            if not of:
                del self._devices[device_of(name)]

    def learn(self, sync: SyncPoint) -> None:
        """Update the clock of ``sync`` with its offset, and look for a step."""
        code = self.strings.code(sync.clock_name)
        self.grow(code + 1)
        newest_ts = int(self.clocks["max_ts"][code])
        report = (sync.offset, sync.uncertainty, sync.skew_error_ppb)
        if sync.ts is None:
            start = newest_ts + 1 if newest_ts > INT_MIN else INT_MIN
            anchor = newest_ts if newest_ts > INT_MIN else UNANCHORED
            growth = growth_ppb(sync.skew_error_ppb)
            line = Line(anchor, sync.offset, sync.uncertainty, 0, growth)
        else:
            start = sync.ts
            line = zero_order_hold(Sample(sync.ts, *report[:2]), sync.skew_error_ppb)
        known = self._known.get(sync.clock_name)
        if known is None:
            known = self._known[sync.clock_name] = _Known(sync.delay, report, line)
            start = INT_MIN
            if newest_ts > INT_MIN and self._predict:
                # Earlier events were released by their timestamps; so must the next ones be.
                known.doubt_until = newest_ts + max(0, -sync.offset) + 1
        known.delay = sync.delay
        before_it = known.line.anchor if self.clocks["known_at"][code] == LATEST else None
        if known.syncs and known.report == report and sync.ts in (before_it, known.line.anchor):
            return  # the same report for another stream of this source
        newest, is_timed = known.line, sync.ts is not None and known.samples
        if is_timed and line.anchor + line.offset < newest.anchor + newest.offset:
            self._learn_late(code, known, line, sync.arrival)
            return
        known.report = report
        known.syncs += 1
        before, known.line = known.line, line
        was, step = self.clocks[code : code + 1].copy(), None
        if sync.ts is None or not self._predict:
            known.samples.clear()
        else:
            step = self._predicted(code, known, before, sync.arrival)
        if not known.line.skew_ppb:
            ppb = max(known.line.skew_error_ppb, known.seen_ppb)
            known.line = replace(known.line, skew_error_ppb=ppb)
        self._enter_doubts(code, known, before, step, start)
        start = max(start, known.doubt_until)
        self._enter(code, start, known.line, self.next_epoch, known.clock_steps)
        of = self.clocks[code]
        if of["known_at"] == LATEST:
            # A step is found by now: earlier events err by the present offsets.
            of["known_at"], idents = sync.arrival, of["epochs"]["ident"]
            idents[idents == UNKNOWN_EPOCH] = NONE
        if known.line.anchor == UNANCHORED:
            self.unanchored.add(code)
        self.next_epoch += 1
        if step is not None and newest_ts > INT_MIN:
            first = min(before.anchor, known.line.anchor) - step.back
            self._refute_before(code, was, first, sync.arrival)

    def mark_unknown(self, name: str) -> None:
        """The source of ``name`` restarted and cannot synchronise: the clock may have been set.

        It keeps its offset and is unknown until the next sync, also for events to come that were
        stamped before the restart.
        """
        is_stated = name in self._declared or self._unsynced != UNKNOWN_EPOCH
        if name not in self._known or is_stated:
            return
        of = self.clocks[self.strings.code(name)]
        of["epochs"][0] = of["epochs"][int(of["n"]) - 1]
        of["epochs"][0]["start"], of["epochs"][0]["ident"] = INT_MIN, UNKNOWN_EPOCH
        of["n"], of["gone"], of["older"], of["known_at"] = 1, 0, 0, LATEST

    def _learn_late(self, code: int, known: _Known, late: Line, at: int) -> None:
        """Take a sync that arrives after newer ones.

        If it contradicts the offsets before and after it, the clock was set in between or ran at
        another rate, and their uncertainty grows; else it changes nothing.
        """
        of, n = self.clocks[code], int(self.clocks["n"][code])
        if (of["epochs"]["anchor"][:n] == late.anchor).any():
            return  # the same report for another stream of this source
        epochs = of["epochs"][:n]
        lines = [known.line] + [
            Line(*(int(each[name]) for name in ("anchor", "offset", "unc", "skew", "rate")))
            for each in epochs[epochs["ident"] != NONE]
        ]
        doubt = doubtful_span(lines, late, known.report[2])
        known.syncs += 1
        if doubt is None:
            return
        was, changes, (first, last, around) = self.clocks[code : code + 1].copy(), False, doubt
        for place in range(n):
            low = max(first, int(epochs["start"][place]) if place else first)
            high = min(last, int(epochs["start"][place + 1]) - 1 if place + 1 < n else last)
            if low > high:
                continue
            turns = [low, high, *(min(max(line.anchor, low), high) for line in around)]
            times = np.array(turns, np.int64)
            ref, unc, _ = _corrected(was, np.zeros(len(times), np.int64), times, 0)
            beyond = [
                abs(ts + line.offset_at(ts) - by) + line.error_at(ts) - wrong
                for ts, by, wrong in zip(turns, ref.tolist(), unc.tolist(), strict=True)
                for line in around
            ]
            more = min(max(0, *beyond), UNC_MAX_NS)
            changes |= more > 0 or int(epochs["ident"][place]) != NONE
            epochs["refuted"][place] += more
            epochs["ident"][place] = NONE
            self.site.include_error(int(unc.max()) + more)
        known.doubt_until = max(known.doubt_until, last)
        known.clock_steps += changes
        if changes and int(was["max_ts"][0]) > INT_MIN:
            self._refute_before(code, was, first, at, last)

    def remember_names(self, columns: Columns) -> None:
        """Remember the clocks that the next records name."""
        if r.CLOCK in columns:
            clock, source = columns[r.CLOCK], columns[r.SOURCE]
            other = clock != source
            pairs = np.unique(clock[other].astype(np.int64) << 32 | source[other])
            for pair in pairs.tolist():
                self._users.setdefault(pair >> 32, set()).add(pair & (1 << 32) - 1)

    def anchor_offsets(self, columns: Columns) -> None:
        """Anchors ``unanchored`` offsets, which have no time and came before any event of their
        source, at its first event among the next records (in order of arrival).
        """
        clock = clock_codes(columns)
        mine = np.isin(clock, np.fromiter(self.unanchored, np.int64))
        if "kind" in columns:
            mine &= columns["kind"] == int(r.Kind.EVENT)
        rows = np.flatnonzero(mine)
        for code, first in zip(*np.unique(clock[rows], return_index=True), strict=True):
            ts = int(columns["ts"][rows[first]])
            anchors = self.clocks["epochs"]["anchor"][code]
            anchors[anchors == UNANCHORED] = ts
            known = self._known[self.strings.texts[code]]
            if known.line.anchor == UNANCHORED:  # no sync at a stated time came before the event
                known.line = replace(known.line, anchor=ts)
            self.site.add_offset(int(code), known.line)
            self._extend_back(int(code))
            self.unanchored.discard(int(code))

    def _predicted(self, code: int, known: _Known, before: Line, at: int) -> ClockStep | None:
        """Fits the line of ``known`` again; returns the step since ``before``, if any."""
        offset, unc, stated_ppb = known.report
        sample = Sample(known.line.anchor, offset, unc)
        is_constant, step = not self._fits or len(known.samples) < SYNCS_MIN, None
        if known.samples:
            step = find_step(before, sample, stated_ppb, is_constant=is_constant)
        if known.samples and step is None and is_constant:
            self._check_rate(code, known, before, sample, at)
        if step is not None:
            known.clock_steps += 1
            known.last_step_ns = step.by
            known.released_before_step += int(self.clocks["gone"][code])
            known.doubt_until = max(known.doubt_until, sample.ts + step.back)
            known.samples = [sample]
            return step
        if known.samples and known.samples[-1].ts >= sample.ts:
            known.samples.clear()  # overtaken or repeated: no line through it
        line = fit_newest if self._fits else bounded_offset
        known.samples, known.line = line([*known.samples[1 - SYNCS_KEPT :], sample], stated_ppb)
        return None

    def _check_rate(self, code: int, known: _Known, before: Line, sample: Sample, at: int) -> None:
        """Widen the last offset if it moved by more since ``before`` than its rate allows: the
        crystal is worse than stated, which is no step, and later bounds grow faster.
        """
        age = abs(sample.ts - before.anchor)
        moved = abs(sample.offset - before.offset_at(sample.ts)) - before.unc - sample.unc
        beyond = moved - age * before.skew_error_ppb // NS_PER_S
        if beyond >= REFUTES_NS:
            known.seen_ppb = max(known.seen_ppb, -(-moved * NS_PER_S // age))
            # The sync shows the error of the earlier offset right before it.
            self._widen(code, int(self.clocks["n"][code]) - 1, beyond + 2 * sample.unc, at)

    def _enter_doubts(
        self, code: int, known: _Known, before: Line, step: ClockStep | None, start: int
    ) -> None:
        """Enter epochs for timestamps that may be from before or after a step of the clock.

        These are the timestamps since the previous sync; if the clock was set back, also timestamps
        that much before that sync, and after this one from ``start`` on. Syncs within this time do
        not resolve the doubt. Timestamps before those of the events before the first sync are in
        doubt, too.
        """
        after, wide = known.line, list[tuple[int, int, Line]]()
        unc = after.unc + (abs(after.offset) if known.syncs == 1 else 0)
        if step is not None:
            of = self.clocks[code]
            of["epochs"]["doubt"][of["n"] - 1] = step.unc
            line = Line(before.anchor, before.offset, step.unc, before.skew_ppb, 0)
            wide.append((before.anchor - step.back, after.anchor, line))
            unc = step.unc
        if start < known.doubt_until:
            wide.append((start, known.doubt_until, replace(after, unc=unc)))
        lines = [self._covering(code, *each) for each in wide]
        for (begin, _, _), line in zip(wide, lines, strict=True):
            self._enter(code, begin, line, NONE, known.clock_steps)

    def _covering(self, code: int, start: int, end: int, line: Line) -> Line:
        """``line`` with an uncertainty that covers the offsets from ``start`` to ``end`` that are
        in doubt already or from before an earlier step.
        """
        of, one, lowest, highest = self.clocks[code], self._empty(1), -line.unc, line.unc
        first, n = of["epochs"], int(of["n"])
        regime = int(first["regime"][n - 1])
        start, end = max(start, -TIME_MAX_NS), min(end, TIME_MAX_NS)
        for j in range(n):
            if first["ident"][j] != NONE and int(first["regime"][j]) >= regime:
                continue
            low = max(start, int(first["start"][j]))
            high = min(end, int(first["start"][j + 1]) if j + 1 < n else end)
            if low < high:
                one["n"], one["epochs"][0, 0] = 1, first[j]
                times = np.array([low, high, min(max(int(first["anchor"][j]), low), high)])
                ref, wrong, _ = _corrected(one, np.zeros(len(times), np.int64), times, 0)
                for t, r, w in zip(times.tolist(), ref.tolist(), wrong.tolist(), strict=True):
                    off = r - t - line.offset_at(t)
                    lowest, highest = min(lowest, off - w), max(highest, off + w)
        middle = (lowest + highest) // 2
        unc = min(highest - middle, UNC_MAX_NS)
        return replace(line, offset=line.offset + middle, unc=unc)

    def _enter(self, code: int, start: int, line: Line, epoch: int, regime: int) -> None:
        """Add ``line``, valid from event time ``start`` on; ``regime``: number of steps."""
        of = self.clocks[code]
        n, epochs = int(of["n"]), of["epochs"]
        if n == EPOCHS_KEPT:
            forgotten = 1
            while forgotten < n - 1 and epochs[forgotten]["ident"] == NONE:
                forgotten += 1  # epochs in doubt are removed with the epoch before their step
            older = int(of["older"]) + int(epochs["doubt"][:forgotten].sum())
            of["older"] = min(older, UNC_MAX_NS)
            epochs[: n - forgotten] = epochs[forgotten:n].copy()
            n -= forgotten
        if n:
            last = epochs[n - 1]
            self.site.include_error(int(last["unc"]) + _grown(last, start))
        self.site.add_offset(code, line)
        # start, offset, unc, rate, anchor, ident, skew, doubt, regime, refuted
        epochs[n] = (
            min(max(start, INT_MIN), INT_MAX), line.offset, min(line.unc, UNC_MAX_NS),
            line.skew_error_ppb, line.anchor, epoch, line.skew_ppb, 0, regime, 0,
        )  # fmt: skip
        of["n"], of["gone"] = n + 1, 0
        self._extend_back(code)

    def _extend_back(self, code: int) -> None:
        """The oldest offset of a clock is used for all earlier timestamps: bounds include them."""
        of = self.clocks[code]
        oldest = of["epochs"][0]
        anchor, offset, unc, rate, skew = (
            int(oldest[name]) for name in ("anchor", "offset", "unc", "rate", "skew")
        )
        if anchor < UNANCHORED:
            self.site.include_past(anchor, offset, rate + abs(skew))
        if of["older"]:
            self.site.include_error(unc + int(of["older"]))

    def correct(
        self, clock: np.ndarray, ts: np.ndarray, default_uncertainty: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(ref, uncertainty, epoch), int64 (times,), of times ``ts`` at clocks of these codes."""
        self.grow(int(clock.max(initial=NONE)) + 1)
        return _corrected(self.clocks, clock, ts, default_uncertainty)

    def refute(self, columns: Columns, start: int, end: int, guard_ns: int | None) -> int:
        """Return the first of these records, in order of arrival, that arrived before it can have
        happened (SPEC 2, Causality); ``end``: none did.

        If it is ``start``, the uncertainty of its clock first grows, by a power of two so that it
        grows seldom, until the event is possible. An event further than ``guard_ns`` in the future
        refutes nothing; None: arrivals are no instants, and no event does.
        """
        if not self._predict or guard_ns is None or not self.next_epoch:
            return end
        code = clock_codes(columns)[start:end]
        self.grow(int(code.max(initial=NONE)) + 1)
        kind = columns.get(r.KIND)
        is_event = kind[start:end] == int(r.Kind.EVENT) if kind is not None else _NO_FLAGS
        times = (columns[r.TS][start:end], columns[r.ARRIVAL][start:end])
        row, place, by = first_refuted(self.clocks, code, *times, is_event, guard_ns)
        if row != 0:
            return end if row == NONE else start + int(row)
        known = self._known[self.strings.texts[int(code[0])]]
        before = int(self.clocks["epochs"]["refuted"][int(code[0]), place])
        known.refuted_ns = max(known.refuted_ns, before + int(by))
        self._widen(int(code[0]), place, int(by), int(columns[r.ARRIVAL][start]))
        return start

    def _widen(self, code: int, place: int, by: int, at: int) -> None:
        """Widen an offset that errs by ``by`` more than stated, to a power of two (seldom)."""
        epoch = self.clocks["epochs"][code]
        before = int(epoch["refuted"][place])
        now = 1 << (before + by - 1).bit_length()
        epoch["refuted"][place] = now
        low, high = self._extent(code, place)
        self.refuted = self.refuted.and_more(
            at, code, int(epoch["ident"][place]), now - before, low, high, -LATEST, LATEST
        )
        is_newest = place + 1 >= int(self.clocks["n"][code])
        grown = 0 if is_newest else _grown(epoch[place], int(epoch["start"][place + 1]))
        self.site.include_error(int(epoch["unc"][place]) + grown + now)

    def _refute_before(
        self, code: int, was: np.ndarray, first: int, at: int, last: int = TIME_MAX_NS
    ) -> None:
        """Refutes the times of events that were released with the offsets ``was``, stamped from
        ``first`` to ``last`` and before the step, which is found now.
        """
        last, now = min(last, int(was["max_ts"][0])), self.clocks[code : code + 1]
        first = min(max(first, -TIME_MAX_NS), last)
        turns = [first, last]
        for table in (was[0], now[0]):
            epochs = table["epochs"][: table["n"]]
            turns += [*epochs["start"].tolist(), *epochs["anchor"].tolist()]
        # Between two turns offsets and errors are linear: the maximum is at an end.
        both = {time for turn in turns for time in (turn - 1, turn) if first <= time <= last}
        times = np.array(sorted(both), np.int64)
        same = np.zeros(len(times), np.int64)
        then, unc, _ = _corrected(was, same, times, 0)
        ref, wrong, _ = _corrected(now, same, times, 0)
        by = int(np.minimum(abs(ref - then) + wrong + unc, UNC_MAX_NS).max())
        low, high = int(then.min()) - by, int(then.max()) + by
        self.refuted = self.refuted.and_more(at, code, NO_EPOCH, by, low, high, first, last)
        self.site.include_error(by + int(unc.max()))

    def _extent(self, code: int, place: int) -> tuple[int, int]:
        """The least and the largest reference time of past events that an offset corrects."""
        of = self.clocks[code]
        last, first = max(int(of["max_ts"]), -LATEST), -LATEST
        if place + 1 < of["n"]:
            last = min(last, int(of["epochs"]["start"][place + 1]))
        if place:
            first = min(int(of["epochs"]["start"][place]), last)
        ref, unc, _ = self.correct(np.full(2, code), np.array([first, last]), 0)
        return max(int(ref[0] - unc[0]), -LATEST), min(int(ref[1] + unc[1]), LATEST)

    def release(self, columns: Columns, *, counts: bool = True) -> None:
        """Widen the uncertainty of events in ``columns`` that precede a step found since.

        Args:
            columns: of a ``Released`` stream; ``unc`` and ``epoch`` are changed in place.
            counts: False for events that leave a later buffer again.
        """
        lasting = REF_END in columns
        times = (columns[r.TE], columns[REF_END]) if lasting else (columns[r.TS], columns["ref"])
        if self._predict:
            widen_released(
                self.clocks, clock_codes(columns), columns["status"], *times,
                columns["unc"], columns["epoch"], counts,
            )  # fmt: skip
        if lasting:
            self._place_starts(columns)

    def _place_starts(self, columns: Columns) -> None:
        """Add uncertainty and epoch of interval starts, which are the ends minus the lengths."""
        rows = np.flatnonzero(columns[r.TE] != columns[r.TS])
        clock = clock_codes(columns)[rows]
        ref, wrong, epoch = self.correct(clock, columns[r.TS][rows], 0)
        rows, off = rows[(known := self.clocks["n"][clock] > 0)], np.abs(columns["ref"][rows] - ref)
        off, wrong, epoch = off[known], wrong[known], epoch[known]
        columns[UNC_START], columns[EPOCH_START] = columns["unc"].copy(), columns["epoch"].copy()
        epoch = np.where(off == 0, epoch, NONE)
        # One ns more where start and end have equal but independent errors: they are not one error.
        wrong = np.minimum(wrong + off, UNC_MAX_NS)
        wrong -= (epoch == NONE) & (wrong == UNC_MAX_NS)
        alike = (epoch == NONE) & (wrong == columns["unc"][rows])
        columns[UNC_START][rows] = wrong + alike
        columns[EPOCH_START][rows] = epoch

    def mark_statuses(self, columns: Columns) -> None:
        """Add the column ``clock_status`` to released events if a clock was not synchronized."""
        found = np.zeros(len(columns["ts"]), np.int8)
        statuses_of(self.clocks, clock_codes(columns), columns["ts"], columns["epoch"], found)
        if found.any():
            columns[CLOCK_STATUS] = found

    def counters(self) -> list[dict[str, Any]]:
        """Return each synchronised source's offset since the last sync, and its clock's steps.

        ``clock_steps``, ``last_step_ns`` (positive: set back), ``released_before_step``: events
        that were released before the step was found, and keep their times.
        ``refuted_ns``: the most by which an event's earliest possible time exceeds its arrival.
        ``skew_seen_ppb``: the rate that syncs show, if they contradict ``skew_stated_ppb``.
        """
        return [
            {
                "source": source,
                "syncs": known.syncs,
                "offset_ns": known.line.offset,
                "uncertainty_ns": known.line.unc,
                "skew_ppb": known.line.skew_ppb,
                "skew_error_ppb": known.line.skew_error_ppb,
                "clock_steps": known.clock_steps,
                "last_step_ns": known.last_step_ns,
                "released_before_step": known.released_before_step,
                "refuted_ns": known.refuted_ns,
            }
            | (
                {"skew_seen_ppb": known.seen_ppb, "skew_stated_ppb": growth_ppb(known.report[2])}
                if known.seen_ppb
                else {}
            )
            for source, known in sorted(self._known.items())
        ]

    def lane_positions(self, lanes: list[dict[str, Any]], least_ns: int) -> list[dict[str, Any]]:
        """Return an order's sorted ``lanes`` with time, offset and uncertainty of the newest event.

        ``least_ns``: uncertainty of a clock without syncs [ns].
        """
        begun = [lane for lane in lanes if lane["newest_ts"] is not None]
        codes = self.strings.codes
        source = np.array([codes.get(lane["source"] or "", -2) for lane in begun], np.int64)
        newest = np.array([lane["newest_ts"] for lane in begun], np.int64)
        self.grow(int(source.max(initial=NONE)) + 1)
        ref, unc, _ = self.correct(source, newest, least_ns)
        places = zip(ref.tolist(), (ref - newest).tolist(), unc.tolist(), strict=True)
        for lane in lanes:
            place = (None, None, None) if lane.pop("newest_ts") is None else next(places)
            lane.update(zip(("last_event", "offset", "uncertainty"), place, strict=True))
        return sorted(lanes, key=lambda lane: (lane["source"] or "", lane["stream"] or ""))

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "next_epoch": self.next_epoch,
            "unanchored": sorted(self.unanchored),
            "forgotten_delay": self._forgotten_delay,
            "known": {clock: known.plain() for clock, known in self._known.items()},
            "users": {clock: sorted(users) for clock, users in self._users.items()},
            "clocks": self.clocks.copy(),
            "site": self.site.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.next_epoch = state["next_epoch"]
        self.unanchored = set(state["unanchored"])
        self._forgotten_delay = state["forgotten_delay"]
        self._known = {
            clock: _Known(
                delay, tuple(report), Line(*line), [Sample(*each) for each in samples], *counts
            )
            for clock, (delay, report, line, samples, *counts) in state["known"].items()
        }
        self._users = {clock: set(users) for clock, users in state["users"].items()}
        self._devices = {}
        for name in self._known:
            if (device := device_of(name)) != name and name not in self._declared:
                self._devices.setdefault(device, set()).add(name)
        self.clocks = state["clocks"].copy()
        self.site.restore(state["site"])


def _grown(epoch: np.void, until: int) -> int:
    """Return the growth of an offset's error until the next one begins, at ``until`` [ns]."""
    return max(0, until - int(epoch["anchor"])) * int(epoch["rate"]) // NS_PER_S


def _corrected(
    clocks: np.ndarray, clock: np.ndarray, ts: np.ndarray, default: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``SourceClocks.correct`` by a table of clocks."""
    ref, unc, epoch = (np.empty(len(clock), np.int64) for _ in range(3))
    _correct(clocks, clock, ts, default, ref, unc, epoch)
    return ref, unc, epoch


@kernel
def _correct(
    clocks: np.ndarray, clock: np.ndarray, ts: np.ndarray, default: int, ref: np.ndarray,
    unc: np.ndarray, epoch: np.ndarray,
) -> None:  # fmt: skip
    for i in range(len(clock)):
        ref[i], unc[i], epoch[i] = reference(clocks, default, clock[i], ts[i])
