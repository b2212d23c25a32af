"""Source information store of the engine: offsets, uncertainties and their epochs (SPEC 2).

``ref = ts + offset`` (R19 Eq 3.15) with uncertainty ``delay / 2`` + precision (Eq 3.14), growing by
``skew_error_ppb`` of the time between the event and the sync, which may be the later one (50 ppm
where the sync does not say). A stored offset applies to events by event time from its measurement
on, the first one to those before it, too; an epoch is the validity of one offset, so two
events of one source and epoch share one clock error. The site's ``t_a`` is the largest filtered
delay (Eq 3.16).

Beyond R19, syncs before the last one narrow its offset, which by choice (``fits``) has a slope
from a source's third sync on; and a sync that contradicts what was known before it is a step of the
source's clock (``clocks.prediction``). Events between the two syncs that are released after
the second one get an uncertainty that covers the step, and share their clock error with no other
event. What was released before keeps its time, and operators widen it likewise (``Refuted``).
Doubts of several steps add up: what may have been stamped before any of them, or after, lies within
the uncertainty.
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
    bounded,
    explained,
    growth_ppb,
    in_doubt,
    stepped,
    zero_order_hold,
)
from slackwater.engine.core.columns import Columns, clock_codes
from slackwater.engine.core.released import LATEST, NO_EPOCH, Refuted, Strings
from slackwater.engine.core.timeline import EPOCH_START, REF_END, UNC_START
from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, NONE, NS_PER_S

_NO_FLAGS: Final = np.zeros(0, np.bool_)


class _Known(Struct):
    """What is known of one source's clock; durations in ns.

    ``report``: offset, uncertainty and stated skew error of the last sync; ``samples``: the syncs
    that ``line`` comes from, none when the last one did not say when it was measured.
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
    """The least rate that explains syncs between which the offset moved by more than was stated."""
    doubt_until: int = INT_MIN
    """Events stamped before this may be from before a step of the clock."""

    def plain(self) -> list[Any]:
        """Its fields, none of which is shared: lists, which a state has fastest."""
        delay, report, line, samples, *counts = structs.astuple(self)
        line = list(structs.astuple(line))
        return [delay, list(report), line, [list(each) for each in samples], *counts]


class SourceClocks:
    """Offsets of every clock of a site, by the code of its name in ``strings``.

    ``predict``: False holds every offset until the next sync, as R19 does, and looks for no steps.
    ``fits``: offsets follow the line through the last syncs, which assumes that a frequency moves
    little (``engine.core.clocks.prediction``).
    ``default_uncertainty_ns``: of a source that was never synchronised. ``choice``: what the user
    says of clocks that no sync speaks of.
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
        """Code of a clock that is not its source's own: codes of the sources that have named it."""
        self._devices: dict[str, set[str]] = {}
        """By device, the clocks of its epochs that are known."""
        self._forgotten_delay = 0
        self.site = SiteClocks(default_uncertainty_ns)
        self.refuted = Refuted()
        """What operators do not know yet; handing it on empties it."""
        self._declared = {name: (offset, bound) for name, offset, bound in choice.declared}
        for name in self._declared:
            self._declare(name)

    def _declare(self, name: str) -> None:
        """The offset that the user states, until a sync says more."""
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
        """The filtered delay of every synchronised source [ns], in no order."""
        return np.fromiter((known.delay for known in self._known.values()), np.int64)

    def grow(self, codes: int) -> None:
        """Make room for codes of clocks below ``codes``; codes of other texts need none."""
        have = len(self.clocks)
        if codes > have:
            more = self._empty(max(codes, 2 * have))
            more[:have] = self.clocks
            self.clocks = more

    def codes(self) -> np.ndarray:
        """Codes of the synchronised clocks, and of those that records have named."""
        return np.array([*map(self.strings.code, self._known), *self._users], np.int64)

    def forget(self, sources: list[int]) -> list[int]:
        """Sources, by code, of which no event is held any more; ``t_a`` goes on counting them.

        So are the clocks that they alone have named. Gives the codes of all.
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
        """A sync of the clock ``name`` came: those of epochs of its device that are over for long
        are forgotten; gives their codes. Events of them that are held know what they need.
        """
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
        """Clocks that stamp no event any more."""
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
        """Take over ``sync``."""
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
            line = zero_order_hold(
                Sample(sync.ts, sync.offset, sync.uncertainty), sync.skew_error_ppb
            )
        known = self._known.get(sync.clock_name)
        if known is None:
            known = self._known[sync.clock_name] = _Known(sync.delay, report, line)
            start = INT_MIN
            if newest_ts > INT_MIN and self._predict:
                # Events went out as they were stamped; those of this clock keep its own order.
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
            # A step, if there was one, is found: what it stamped before errs as offsets say now.
            of["known_at"], idents = sync.arrival, of["epochs"]["ident"]
            idents[idents == UNKNOWN_EPOCH] = NONE
        if known.line.anchor == UNANCHORED:
            self.unanchored.add(code)
        self.next_epoch += 1
        if step is not None and newest_ts > INT_MIN:
            first = min(before.anchor, known.line.anchor) - step.back
            self._refute_before(code, was, first, sync.arrival)

    def disown(self, name: str) -> None:
        """The source of the clock ``name`` started again and cannot compare it: the clock may have
        been set. It keeps its offset, as nothing better is known, and is unknown until the next
        sync; so is what it has stamped and has not come yet.
        """
        is_stated = name in self._declared or self._unsynced != UNKNOWN_EPOCH
        if name not in self._known or is_stated:
            return
        of = self.clocks[self.strings.code(name)]
        of["epochs"][0] = of["epochs"][int(of["n"]) - 1]
        of["epochs"][0]["start"], of["epochs"][0]["ident"] = INT_MIN, UNKNOWN_EPOCH
        of["n"], of["gone"], of["older"], of["known_at"] = 1, 0, 0, LATEST

    def _learn_late(self, code: int, known: _Known, late: Line, at: int) -> None:
        """A sync that newer ones have overtaken says how wrong the offsets around it are: where it
        contradicts those before and after it, the clock was set in between, or ran at another rate.
        Else it changes nothing.
        """
        of, n = self.clocks[code], int(self.clocks["n"][code])
        if (of["epochs"]["anchor"][:n] == late.anchor).any():
            return  # the same report for another stream of this source
        epochs = of["epochs"][:n]
        lines = [known.line] + [
            Line(*(int(each[name]) for name in ("anchor", "offset", "unc", "skew", "rate")))
            for each in epochs[epochs["ident"] != NONE]
        ]
        doubt = in_doubt(lines, late, known.report[2])
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
            self.site.ends(int(unc.max()) + more)
        known.doubt_until = max(known.doubt_until, last)
        known.clock_steps += changes
        if changes and int(was["max_ts"][0]) > INT_MIN:
            self._refute_before(code, was, first, at, last)

    def named(self, columns: Columns) -> None:
        """Records are to come that may name clocks."""
        if r.CLOCK in columns:
            clock, source = columns[r.CLOCK], columns[r.SOURCE]
            other = clock != source
            pairs = np.unique(clock[other].astype(np.int64) << 32 | source[other])
            for pair in pairs.tolist():
                self._users.setdefault(pair >> 32, set()).add(pair & (1 << 32) - 1)

    def seen(self, columns: Columns) -> None:
        """Records are to come, in order of arrival: an offset measured at no stated time, before
        any event of its source, as those ``unanchored`` were, is as old as the first one.
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
            self.site.begins(int(code), known.line)
            self._goes_back(int(code))
            self.unanchored.discard(int(code))

    def _predicted(self, code: int, known: _Known, before: Line, at: int) -> ClockStep | None:
        """Fit the line of ``known`` again; gives the step since ``before``. ``at``: of arrival."""
        offset, unc, stated_ppb = known.report
        sample = Sample(known.line.anchor, offset, unc)
        is_held, step = not self._fits or len(known.samples) < SYNCS_MIN, None
        if known.samples:
            step = stepped(before, sample, stated_ppb, is_held=is_held)
        if known.samples and step is None and is_held:
            self._moved(code, known, before, sample, at)
        if step is not None:
            known.clock_steps += 1
            known.last_step_ns = step.by
            known.released_before_step += int(self.clocks["gone"][code])
            known.doubt_until = max(known.doubt_until, sample.ts + step.back)
            known.samples = [sample]
            return step
        if known.samples and known.samples[-1].ts >= sample.ts:
            known.samples.clear()  # a report that was overtaken, or repeated: no line through it
        line = explained if self._fits else bounded
        known.samples, known.line = line([*known.samples[1 - SYNCS_KEPT :], sample], stated_ppb)
        return None

    def _moved(self, code: int, known: _Known, before: Line, sample: Sample, at: int) -> None:
        """Has the offset moved by more since ``before`` than its rate allows? A crystal that is
        worse than stated is no step, but refutes the bound, and lets the next ones grow faster.
        """
        age = abs(sample.ts - before.anchor)
        moved = abs(sample.offset - before.offset_at(sample.ts)) - before.unc - sample.unc
        beyond = moved - age * before.skew_error_ppb // NS_PER_S
        if beyond >= REFUTES_NS:
            known.seen_ppb = max(known.seen_ppb, -(-moved * NS_PER_S // age))
            # Of events right before this sync, it says how wrong the offset before was.
            self._widen(code, int(self.clocks["n"][code]) - 1, beyond + 2 * sample.unc, at)

    def _enter_doubts(
        self, code: int, known: _Known, before: Line, step: ClockStep | None, start: int
    ) -> None:
        """Epochs of their own for what may lie on either side of a step of the clock.

        That is what the source stamped from the sync before on; and, where it was set back, as much
        before that, and after this sync, from ``start`` on, as it was set back by. Syncs that come
        before that ends find it still in doubt; and so is what was stamped before events that came
        before the first sync.
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
        """``line``, as uncertain as to cover what lies between two stamps in doubt already, or from
        before an earlier step.
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
        """``line`` holds from event time ``start`` on, ``regime`` steps of the clock behind it."""
        of = self.clocks[code]
        n, epochs = int(of["n"]), of["epochs"]
        if n == EPOCHS_KEPT:
            forgotten = 1
            while forgotten < n - 1 and epochs[forgotten]["ident"] == NONE:
                forgotten += 1  # what a step left in doubt, without what was before it
            older = int(of["older"]) + int(epochs["doubt"][:forgotten].sum())
            of["older"] = min(older, UNC_MAX_NS)
            epochs[: n - forgotten] = epochs[forgotten:n].copy()
            n -= forgotten
        if n:
            last = epochs[n - 1]
            self.site.ends(int(last["unc"]) + _grown(last, start))
        self.site.begins(code, line)
        # start, offset, unc, rate, anchor, ident, skew, doubt, regime, refuted
        epochs[n] = (
            min(max(start, INT_MIN), INT_MAX), line.offset, min(line.unc, UNC_MAX_NS),
            line.skew_error_ppb, line.anchor, epoch, line.skew_ppb, 0, regime, 0,
        )  # fmt: skip
        of["n"], of["gone"] = n + 1, 0
        self._goes_back(code)

    def _goes_back(self, code: int) -> None:
        """The oldest offset of a source corrects whatever it stamped before."""
        of = self.clocks[code]
        oldest = of["epochs"][0]
        anchor, offset, unc, rate, skew = (
            int(oldest[name]) for name in ("anchor", "offset", "unc", "rate", "skew")
        )
        if anchor < UNANCHORED:
            self.site.goes_back(anchor, offset, rate + abs(skew))
        if of["older"]:
            self.site.ends(unc + int(of["older"]))

    def correct(
        self, clock: np.ndarray, ts: np.ndarray, default_uncertainty: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(ref, uncertainty, epoch) of times at clocks of these codes."""
        self.grow(int(clock.max(initial=NONE)) + 1)
        return _corrected(self.clocks, clock, ts, default_uncertainty)

    def refute(self, columns: Columns, start: int, end: int, guard_ns: int | None) -> int:
        """The first of these records, in order of arrival, that arrived before it can have happened
        (SPEC 2, Causality); ``end``: none did.

        Where that is ``start``, what its clock is declared to err by grows first, until it is
        possible: by a power of two, so that it grows seldom. What lies beyond ``guard_ns`` refutes
        nothing; without it (None) arrivals are no instants, and nothing does.
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
        """An offset errs by ``by`` more than it says, as is known from ``at`` on: it grows by a
        power of two, so that it grows seldom.
        """
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
        self.site.ends(int(epoch["unc"][place]) + grown + now)

    def _refute_before(
        self, code: int, was: np.ndarray, first: int, at: int, last: int = TIME_MAX_NS
    ) -> None:
        """What the clock stamped from ``first`` to ``last`` and was released before its step was
        found, by the offsets that ``was`` has, errs by what is known of it now.
        """
        last, now = min(last, int(was["max_ts"][0])), self.clocks[code : code + 1]
        first = min(max(first, -TIME_MAX_NS), last)
        turns = [first, last]
        for table in (was[0], now[0]):
            epochs = table["epochs"][: table["n"]]
            turns += [*epochs["start"].tolist(), *epochs["anchor"].tolist()]
        # Between two turns offsets and errors are lines: they are largest at an end.
        both = {time for turn in turns for time in (turn - 1, turn) if first <= time <= last}
        times = np.array(sorted(both), np.int64)
        same = np.zeros(len(times), np.int64)
        then, unc, _ = _corrected(was, same, times, 0)
        ref, wrong, _ = _corrected(now, same, times, 0)
        by = int(np.minimum(abs(ref - then) + wrong + unc, UNC_MAX_NS).max())
        low, high = int(then.min()) - by, int(then.max()) + by
        self.refuted = self.refuted.and_more(at, code, NO_EPOCH, by, low, high, first, last)
        self.site.ends(by + int(unc.max()))

    def _extent(self, code: int, place: int) -> tuple[int, int]:
        """Between which reference times lie the events so far that an offset corrects."""
        of = self.clocks[code]
        last, first = max(int(of["max_ts"]), -LATEST), -LATEST
        if place + 1 < of["n"]:
            last = min(last, int(of["epochs"]["start"][place + 1]))
        if place:
            first = min(int(of["epochs"]["start"][place]), last)
        ref, unc, _ = self.correct(np.full(2, code), np.array([first, last]), 0)
        return max(int(ref[0] - unc[0]), -LATEST), min(int(ref[1] + unc[1]), LATEST)

    def release(self, columns: Columns, *, counts: bool = True) -> None:
        """Events leave the ordering operator: those before a step found since are made uncertain.

        Args:
            columns: of a ``Released`` stream; ``unc`` and ``epoch`` are changed in place.
            counts: False where the same events leave once more, from a later buffer.
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
        """How wrong the starts of intervals are, which lie their length before their ends."""
        rows = np.flatnonzero(columns[r.TE] != columns[r.TS])
        clock = clock_codes(columns)[rows]
        ref, wrong, epoch = self.correct(clock, columns[r.TS][rows], 0)
        rows, off = rows[(known := self.clocks["n"][clock] > 0)], np.abs(columns["ref"][rows] - ref)
        off, wrong, epoch = off[known], wrong[known], epoch[known]
        columns[UNC_START], columns[EPOCH_START] = columns["unc"].copy(), columns["epoch"].copy()
        epoch = np.where(off == 0, epoch, NONE)
        # Ends that err by as much, by no shared error, would err alike.
        wrong = np.minimum(wrong + off, UNC_MAX_NS)
        wrong -= (epoch == NONE) & (wrong == UNC_MAX_NS)
        alike = (epoch == NONE) & (wrong == columns["unc"][rows])
        columns[UNC_START][rows] = wrong + alike
        columns[EPOCH_START][rows] = epoch

    def mark_statuses(self, columns: Columns) -> None:
        """Adds the column ``clock_status`` to released events, if a clock was not synchronized."""
        found = np.zeros(len(columns["ts"]), np.int8)
        statuses_of(self.clocks, clock_codes(columns), columns["ts"], columns["epoch"], found)
        if found.any():
            columns[CLOCK_STATUS] = found

    def counters(self) -> list[dict[str, Any]]:
        """Per synchronised source: its offset as the last sync left it, and its clock's steps.

        ``clock_steps``, ``last_step_ns`` (positive: set back), ``released_before_step``: events
        after the sync before each step that had gone out when it was found, and keep their times.
        ``refuted_ns``: by how much an event arrived before it can have happened, at most.
        ``skew_seen_ppb``, where syncs contradict ``skew_stated_ppb``: the rate that they show.
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

    def placed(self, lanes: list[dict[str, Any]], least_ns: int) -> list[dict[str, Any]]:
        """An order's ``lanes`` by name, each with the time of its newest event on the engine's
        clock, and by which offset that is corrected; for reports.

        ``least_ns``: what an event of a clock that no handshake corrects may be off by [ns].
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
    """By how much the error of an offset has grown when the next one begins, at ``until``."""
    return max(0, until - int(epoch["anchor"])) * int(epoch["rate"]) // NS_PER_S


def _corrected(
    clocks: np.ndarray, clock: np.ndarray, ts: np.ndarray, default: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(ref, uncertainty, epoch) by a table of clocks."""
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
