"""One source's clock as SPEC 2 reads, slowly: exact fractions, and all corners of what is possible.

A line (a, s) says: the offset is ``a`` at the last sync and rises by ``s`` ns per ns. The lines
that pass through all syncs form a polygon; its corners are found by trying every pair of borders.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import Any

NEVER = 1 - 2**63
EPOCHS_KEPT, SYNCS_KEPT, SYNCS_MIN = 8, 8, 3
PPB = 10**9
EVER = 2**63
"""Longer than from any event time to any other."""
TOLERANCE, UNSTATED, WANDER = 500_000, 50_000, 2_000
Point = tuple[int, int, int]
"""(time, offset, uncertainty) of a sync."""


@dataclass
class Epoch:
    """One offset of a source, in force from event time ``start``; ``skew`` and ``rate`` in ppb.

    ``doubt``: the uncertainty that a step found later leaves to its events; 0: none found.
    ``steps``: how many were found before it.
    """

    start: int
    anchor: int | None
    offset: int
    unc: int
    skew: int = 0
    rate: int = 0
    doubt: int = 0
    shared: bool = True
    steps: int = 0
    refuted: int = 0

    def at(self, ts: int) -> tuple[int, int]:
        """(offset, uncertainty) of an event: less is known of it the farther it is from the sync,
        in both directions (SPEC 2, Age). Behind the sync the line goes on; before it, it is level.
        """
        age = 0 if self.anchor is None else max(0, ts - self.anchor)
        grown = age * self.rate // PPB + self.before(ts)
        return self.offset + age * self.skew // PPB, self.unc + grown

    def before(self, ts: int) -> int:
        """By how much the uncertainty grows towards an event before the sync."""
        if self.anchor is None or ts >= self.anchor:
            return 0
        return (self.anchor - ts) * (self.rate + abs(self.skew)) // PPB


class SlowClock:
    """What is known of one source's clock."""

    def __init__(self, *, fits: bool = False) -> None:
        self.fits = fits
        self.epochs: list[Epoch] = []
        self.points: list[Point] = []
        self.report: tuple[int, int, int] | None = None
        self.steps: list[int] = []
        self.fastest = 0
        """The least rate [ppb] of a move between two syncs that was more than stated."""
        self.older = 0
        self.unsure_until = NEVER

    def learn(self, record: dict[str, Any], newest: int | None) -> None:
        ts, rate = record.get("ts"), record.get("skew_error_ppb")
        unc = (record["delay"] + 1) // 2 + (record.get("precision") or 0)
        report = (record["offset"], unc, rate)
        if self.epochs and report == self.report and ts in (None, self.epochs[-1].anchor):
            return
        last = self.epochs[-1] if self.epochs else None
        if ts is not None and last is not None:
            again = any(each.anchor == ts for each in self.epochs)
            at = None if last.anchor is None else last.anchor + last.offset
            if (again and at is None) or (at is not None and ts + record["offset"] < at
                                          and (again or self.points)):  # fmt: skip
                return  # behind newer ones: none here contradicts them by a microsecond
        self.report = report
        if ts is None:
            start = NEVER if newest is None else newest + 1
            self.points = []
            growth = max(UNSTATED if rate is None else rate, self.fastest)
            steps = len(self.steps)
            new = Epoch(start, newest, record["offset"], unc, rate=growth, steps=steps)
            self.enter(new, None, None, newest)
        else:
            self.timed((ts, record["offset"], unc), rate, newest)
        while len(self.epochs) > EPOCHS_KEPT:
            self.older += self.epochs.pop(0).doubt  # events before may lie before that step
            while not self.epochs[0].shared:
                self.epochs.pop(0)

    def begin(self, ts: int) -> None:
        """An event came: what was measured at no stated time, before any, is as old as it."""
        for epoch in self.epochs:
            epoch.anchor = ts if epoch.anchor is None else epoch.anchor

    def enter(
        self, new: Epoch, before: Epoch | None, step: tuple[int, int, int] | None,
        newest: int | None,
    ) -> None:  # fmt: skip
        first = not self.epochs
        if first:  # its offset holds for what was stamped before it, too
            new.start = NEVER
        if first and newest is not None:
            self.unsure_until = newest + max(0, -new.offset) + 1
        self.epochs += self.doubts(before, new, step, first)
        new.start = max(new.start, self.unsure_until)
        self.epochs.append(new)

    def timed(self, point: Point, stated: int | None, newest: int | None) -> None:
        ts, offset, unc = point
        new = Epoch(ts, ts, offset, unc, 0, UNSTATED if stated is None else stated)
        step, before = None, self.epochs[-1] if self.epochs else None
        if self.points:
            assert before is not None
            step = self.jump(before, point, stated)
            if step is None and not (self.fits and len(self.points) >= SYNCS_MIN):
                self.moved(before, point)
            if step is not None:
                self.steps.append(step[0])
                self.points = []
            elif self.points[-1][0] >= ts:
                self.points = []
        self.points = [*self.points, point][-SYNCS_KEPT:]
        while not self.fits:
            low, high = level(self.points, stated)
            if low <= high:
                new.offset = (low + high) // 2
                new.unc = high - new.offset
                break
            del self.points[0]
        while self.fits and len(self.points) >= SYNCS_MIN:
            fit = line(self.points, stated)
            if fit is not None:
                new.offset, new.unc, new.skew, new.rate = fit
                break
            del self.points[0]
        if not new.skew:
            new.rate = max(new.rate, self.fastest)
        new.steps = len(self.steps)
        self.enter(new, before, step, newest)

    def moved(self, before: Epoch, point: Point) -> None:
        """By a microsecond more than was declared: the offset of before errs as this sync says,
        rounded up to a power of two, and later ones grow as fast as this one moved.
        """
        ts, offset, unc = point
        assert before.anchor is not None
        far, span = abs(offset - before.at(ts)[0]) - before.unc - unc, abs(ts - before.anchor)
        extra = far - floor(Fraction(span * before.rate, PPB))
        if extra >= 1_000:
            self.fastest = max(self.fastest, ceil(Fraction(far * PPB, span)))
            before.refuted = 2 ** (before.refuted + extra + 2 * unc - 1).bit_length()

    def jump(self, before: Epoch, point: Point, stated: int | None) -> tuple[int, int, int] | None:
        """(size, how far back at most, uncertainty), if the clock cannot have run so."""
        ts, offset, unc = point
        assert before.anchor is not None
        age = ts - before.anchor
        growth = before.rate if self.fits and len(self.points) >= SYNCS_MIN else 0
        growth = growth or stated or TOLERANCE
        size = offset - before.at(ts)[0]
        strict = growth if age >= 0 else growth + abs(before.skew)
        allowed = before.unc + floor(Fraction(abs(age) * strict, PPB)) + unc
        if -allowed <= size <= allowed:
            return None
        wrong = Fraction(growth + abs(before.skew), PPB)
        back = EVER if wrong >= 1 else ceil((size + allowed) / (1 - wrong))
        back = back if size > 0 else 0
        span = max(age, 0) + back
        own = before.unc + floor(Fraction(span * (growth + abs(before.skew)), PPB))
        return size, back, min(abs(size) + own + unc, 2**61)

    def doubts(
        self, before: Epoch | None, new: Epoch, step: tuple[int, int, int] | None, first: bool
    ) -> list[Epoch]:
        """What may lie on either side of a step, of this one or of one before it; and what a clock
        stamped before events that were released before it was known.
        """
        found, unc, start = list[Epoch](), new.unc, new.start
        if first:
            unc += abs(new.offset)
        if step is not None:
            assert before is not None
            assert before.anchor is not None
            _, back, unc = step
            before.doubt = unc
            old = Epoch(before.anchor - back, before.anchor, before.offset, unc, before.skew)
            assert new.anchor is not None
            found.append(self.wide(old, new.anchor))
            self.unsure_until = max(self.unsure_until, new.anchor + back)
        if start < self.unsure_until:
            shadow = Epoch(start, new.anchor, new.offset, unc, new.skew, new.rate)
            found.append(self.wide(shadow, self.unsure_until))
        for each in found:
            each.shared, each.steps = False, len(self.steps)
        return found

    def wide(self, epoch: Epoch, end: int) -> Epoch:
        """``epoch``, with all that was in doubt up to ``end``, or is from before other steps."""
        now = self.epochs[-1].steps if self.epochs else 0
        low, high = -epoch.unc, epoch.unc
        starts = [NEVER, *(each.start for each in self.epochs[1:]), EVER]
        for one, start, stop in zip(self.epochs, starts, starts[1:], strict=False):
            first, last = max(start, epoch.start), min(stop, end)
            if first < last and (not one.shared or one.steps < now):
                turns = [first, last]
                if one.anchor is not None and first < one.anchor < last:
                    turns.append(one.anchor)
                for ts in turns:
                    (offset, unc), (mine, _) = one.at(ts), epoch.at(ts)
                    unc += one.refuted
                    low, high = min(low, offset - mine - unc), max(high, offset - mine + unc)
        middle = (low + high) // 2
        epoch.offset, epoch.unc = epoch.offset + middle, high - middle
        return epoch

    def told_late(self, ts: int, ref: int, unc: int, epoch: Epoch | None) -> int:
        """The uncertainty of an event that is released now, and had ``epoch`` when it came."""
        now = self.find(ts)
        if epoch is not None and epoch is self.epochs[-1]:
            if epoch.refuted:
                unc = max(unc, now.at(ts)[1] + now.refuted)
            return unc
        same = now is epoch or (epoch is self.epochs[0] and now.start == epoch.start)
        if same and now.shared:
            return max(unc, now.at(ts)[1] + now.refuted)
        known = epoch is not None and epoch.shared and any(epoch is each for each in self.epochs)
        if known and now.shared and epoch.steps == self.epochs[-1].steps:
            return unc
        offset, wrong = now.at(ts)
        wrong += now.refuted
        return max(unc, abs(ts + offset - ref) + wrong)

    def find(self, ts: int) -> Epoch:
        for epoch in reversed(self.epochs[1:]):
            if ts >= epoch.start:
                return epoch
        oldest = self.epochs[0]
        if self.older and ts < oldest.start:
            return replace(oldest, unc=oldest.unc + self.older)
        return oldest


def level(points: Sequence[Point], stated: int | None) -> tuple[int, int]:
    """Least and largest offset at the last point, of a clock that is never off by more a second
    than it states.
    """
    end, limit = points[-1][0], stated or TOLERANCE
    wide = [unc + ceil(Fraction((end - ts) * limit, PPB)) for ts, _, unc in points]
    both = list(zip(points, wide, strict=True))
    return max(p[1] - w for p, w in both), min(p[1] + w for p, w in both)


def widened(ts: int, unc: int, end: int) -> int:
    """What a sync says of the line at ``end``: the frequency may have wandered since."""
    return unc + ceil(Fraction((end - ts) * WANDER, PPB))


def corners(points: Sequence[Point], limit: int) -> list[tuple[Fraction, Fraction]]:
    """Corners (a, s) of the lines that pass within ``unc`` of all points; a is at the last one."""
    end = points[-1][0]
    borders: list[tuple[int, int, int]] = [(0, 1, limit), (0, -1, limit)]  # p a + q s <= r, s in
    for ts, offset, unc in points:  # ppb, so that all is a whole number
        wide = widened(ts, unc, end)
        x = ts - end
        borders += [(PPB, x, PPB * (offset + wide)), (-PPB, -x, PPB * (wide - offset))]
    found = []
    for (p, q, r), (u, v, w) in itertools.combinations(borders, 2):
        if p * v != q * u:
            cross = p * v - q * u
            a, s = Fraction(r * v - q * w, cross), Fraction(p * w - r * u, cross)
            if all(i * a + j * s <= k for i, j, k in borders):
                found.append((a, s))
    return found


def line(points: Sequence[Point], stated: int | None) -> tuple[int, int, int, int] | None:
    """(offset, uncertainty, skew, its error) at the last point, or None: no line explains all."""
    limit = stated or TOLERANCE
    possible = corners(points, limit)
    if not possible:
        return None
    end, _, last = points[-1]
    low = floor(min(s for _, s in possible))
    high = ceil(max(s for _, s in possible))
    tops, bottoms = [], []
    for ts, offset, unc in points:
        wide, age = widened(ts, unc, end), end - ts
        tops.append(offset + wide + ceil(Fraction(age * high, PPB)))
        bottoms.append(offset - wide + floor(Fraction(age * low, PPB)))
    top, bottom = min(tops), max(bottoms)
    low, high = max(low - WANDER, -limit), min(high + WANDER, limit)
    a, s = least_squares(points)
    a = sorted((max(bottom, top - last), a, min(top, bottom + last)))[1]
    s = sorted((max(low, high - limit), s, min(high, low + limit)))[1]
    s = sorted((-TOLERANCE, s, TOLERANCE))[1]
    return a, max(top - a, a - bottom) + 2, s, max(high - s, s - low)


def least_squares(points: Sequence[Point]) -> tuple[int, int]:
    """By centred moments: (value at the last point, slope in ppb), rounded to nearest."""
    end = points[-1][0]
    weights = []
    for ts, _, unc in points:
        weights.append(Fraction(max(1, 2**40 // (widened(ts, unc, end) + 1))) ** 2)
    total = sum(weights)
    x = sum(w * p[0] for w, p in zip(weights, points, strict=True)) / total
    y = sum(w * p[1] for w, p in zip(weights, points, strict=True)) / total
    spread = sum(w * (p[0] - x) ** 2 for w, p in zip(weights, points, strict=True))
    both = sum(w * (p[0] - x) * (p[1] - y) for w, p in zip(weights, points, strict=True))
    slope = both / spread
    return floor(y + slope * (end - x) + Fraction(1, 2)), floor(slope * PPB + Fraction(1, 2))
