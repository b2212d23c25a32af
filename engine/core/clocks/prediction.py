"""The offset of one source between its syncs: a line and its error bound (SPEC 2).

A sync states that the offset was ``offset`` +- ``unc`` when the source's clock showed ``ts``.

The default (``bounded_offset``) assumes only that every sync is right within its ``unc`` and that
the source's frequency error stays within the stated limit. The offset is constant: the middle of
the values that the last syncs allow. Its error grows at the stated rate.

``time=fit`` assumes more (``fit_newest``). The slope of the line through the last syncs is the
skew, fitted by weighted least squares (weights 1/unc^2, in exact integers, rounded once). The error
bound does not come from the residuals, which do not show an asymmetric delay. Instead the set of
lines through *every* sync's interval is bounded exactly, pair by pair (set-membership estimation),
and the error is the distance to the farthest of them. So the bound is right as long as (a) every
sync is right within its ``unc``, (b) the source's frequency error stays within the stated limit,
and (c) it stays within ``WANDER_PPB`` of its present value for the time of the history. If no line
passes through all intervals, the oldest syncs are dropped.

The result is never less certain than without prediction: the line is moved towards the middle of
the possible ones until neither its uncertainty nor its growth exceeds that of the last sync alone.

A sync outside the bound of its source's line is a *step*: the clock was set. Earlier syncs are not
valid for the clock after it, so the history begins again.

Sources: least squares and RFC 5905 section 11 (frequency tolerance); bounds as in Moon, Skelly,
Towsley 1999, "Estimation and removal of clock skew from network delay measurements".

When not to use: syncs without the time of their measurement, or fewer than ``SYNCS_MIN`` of them:
then the last offset is constant until the next sync, as in R19 3.2.2.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from msgspec import Struct

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import TIME_MAX_NS, UNC_MAX_NS
from slackwater.engine.core.clocks.epochs import REFUTES_NS
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import LATEST, ClockBound
from slackwater.engine.kernels.records import NS_PER_S

SYNCS_MIN: Final = 3
SYNCS_KEPT: Final = 8
SKEW_MAX_PPB: Final = 500_000
"""The steepest slope, NTP's frequency tolerance (RFC 5905: 500 ppm), and the limit of sources that
state none. It never changes the order of events of one source."""
UNSTATED_PPB: Final = 50_000
"""Growth of the uncertainty of an offset whose source states no skew error: that of ordinary
crystals (``edge_agent.timesync``). It does not bound the skew itself."""
WANDER_PPB: Final = 2_000
"""Change of a crystal's frequency within minutes, by temperature."""
_FLOORED_NS: Final = 2
"""The products of age with skew and with its error are both rounded down."""
_WEIGHT: Final = 1 << 40
_EVER: Final = 2 * TIME_MAX_NS
"""The longest time between two event times."""


class SyncPoint(Struct, frozen=True):
    """One sync record; durations in ns.

    ``ts``: time at the clock from which the offset is valid; None: after its latest timestamp so
    far. ``clock``: its name; None: that of the source. ``skew_error_ppb``: None: not stated.
    """

    source: str
    stream: str
    arrival: int
    offset: int
    delay: int
    ts: int | None = None
    clock: str | None = None
    incarnation: int = 0
    first_seq: int | None = None
    precision: int = 0
    skew_error_ppb: int | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> SyncPoint:
        """From a sync record; absent numbers are 0."""
        return cls(
            source=record[r.SOURCE],
            stream=record.get(r.STREAM) or r.DEFAULT_STREAM,
            arrival=record[r.ARRIVAL],
            offset=record.get(r.OFFSET) or 0,
            delay=record.get(r.DELAY) or 0,
            ts=record.get(r.TS),
            clock=record.get(r.CLOCK),
            incarnation=record.get(r.INCARNATION) or 0,
            first_seq=record.get(r.FIRST_SEQ),
            precision=record.get(r.PRECISION) or 0,
            skew_error_ppb=record.get(r.SKEW_ERROR_PPB),
        )

    @property
    def clock_name(self) -> str:
        """The name of the synchronised clock."""
        return self.clock or self.source

    @property
    def uncertainty(self) -> int:
        """Half-width around the offset, rounded up."""
        return (self.delay + 1) // 2 + self.precision


class Sample(NamedTuple):
    """One sync: at ``ts`` of the source the offset was ``offset`` +- ``unc`` [ns]."""

    ts: int
    offset: int
    unc: int


class Line(Struct, frozen=True):
    """Offset of a source from ``anchor`` (its event time) on; times in ns.

    At age a = max(0, ts - anchor) the offset is ``offset + floor(a * skew_ppb / 1e9)``, and its
    error at most ``unc + floor(a * skew_error_ppb / 1e9)``.
    """

    anchor: int
    offset: int
    unc: int
    skew_ppb: int
    skew_error_ppb: int

    def offset_at(self, ts: int) -> int:
        """Offset [ns] at the source's time ``ts``."""
        return self.offset + max(0, ts - self.anchor) * self.skew_ppb // NS_PER_S

    def unc_after(self, age: int, skew_error_ppb: int) -> int:
        """Uncertainty [ns] at ``age`` when it grows by ``skew_error_ppb``."""
        return self.unc + age * skew_error_ppb // NS_PER_S

    def error_at(self, ts: int) -> int:
        """Return the error bound [ns] at any time, also before the anchor."""
        age = ts - self.anchor
        rate = self.skew_error_ppb + (abs(self.skew_ppb) if age < 0 else 0)
        return self.unc_after(abs(age), rate)


def limit_ppb(stated_ppb: int | None) -> int:
    """Return the limit of a source's skew: the stated one, else NTP's tolerance."""
    return stated_ppb or SKEW_MAX_PPB


def growth_ppb(stated_ppb: int | None) -> int:
    """Growth of the uncertainty of a constant offset; 0 if it is stated, as of R19's offsets."""
    return UNSTATED_PPB if stated_ppb is None else stated_ppb


class ClockStep(Struct, frozen=True):
    """A jump of a source's clock between two syncs; times in ns.

    Attributes:
        by: offset measured minus offset predicted; positive: the clock was set back.
        back: the longest time that the clock showed twice; 0: it was set ahead.
        unc: covers the truth from the sync before to this one, whenever the clock jumped, with the
            offset before it and with the one after it.
    """

    by: int
    back: int
    unc: int


def find_step(
    line: Line, sample: Sample, stated_ppb: int | None, *, is_constant: bool = False
) -> ClockStep | None:
    """Return the jump between ``line`` and a new sync; None: their bounds overlap.

    ``is_constant``: ``line`` is a constant offset, and only the limit of its skew is known.
    """
    age = sample.ts - line.anchor
    error = (0 if is_constant else line.skew_error_ppb) or limit_ppb(stated_ppb)
    # Before its anchor a line is constant, whatever the skew was.
    before = error + abs(line.skew_ppb)
    by = sample.offset - line.offset_at(sample.ts)
    allowed = line.unc_after(abs(age), error if age >= 0 else before) + sample.unc
    if abs(by) <= allowed:
        return None
    # After a jump back by J the age is too small by J, and the line may err in this time as well:
    # J <= by + allowed + before * J.
    back = 0
    if by > 0:
        back = _EVER if before >= NS_PER_S else -(-(by + allowed) * NS_PER_S // (NS_PER_S - before))
    oldest = line.unc_after(max(0, age) + back, before)
    return ClockStep(by, back, min(abs(by) + oldest + sample.unc, UNC_MAX_NS))


def doubtful_span(
    lines: Sequence[Line], late: Line, stated_ppb: int | None
) -> tuple[int, int, tuple[Line, ...]] | None:
    """(first, last, lines): timestamps from ``first`` to ``last`` may have any of these offsets.

    ``late``, a sync that arrives after newer ones, contradicts the neighbours before or after it
    among ``lines``, one of which is after it. None: it contradicts neither.
    """
    at = late.anchor + late.offset
    in_order = sorted(lines, key=lambda line: (line.anchor + line.offset, line.unc))
    place = sum(line.anchor + line.offset <= at for line in in_order)
    before, after = in_order[max(place - 1, 0) : place], in_order[place : place + 1]
    found = []
    for one, next_one in [*((line, late) for line in before), *((late, line) for line in after)]:
        moved = abs(next_one.offset - one.offset_at(next_one.anchor))
        if moved - one.error_at(next_one.anchor) - next_one.unc >= REFUTES_NS:
            sample = Sample(next_one.anchor, next_one.offset, next_one.unc)
            step = find_step(one, sample, stated_ppb, is_constant=True)
            back = step.back if step else 0
            found += [one.anchor - back, next_one.anchor, next_one.anchor + back]
    if not found:
        return None
    first = max(min(found), -TIME_MAX_NS) if before else -TIME_MAX_NS
    return first, min(max(found), TIME_MAX_NS), (*before, late, *after)


def zero_order_hold(sample: Sample, stated_ppb: int | None) -> Line:
    """Return the offset of one sync, constant until the next (R19 3.2.2)."""
    return Line(sample.ts, sample.offset, sample.unc, 0, growth_ppb(stated_ppb))


def bounded_offset(samples: Sequence[Sample], stated_ppb: int | None) -> tuple[list[Sample], Line]:
    """The newest of ``samples`` that agree, and the offset at the last one that all of them allow.

    Between two syncs the offset moves by at most the stated rate, however the frequency changes.
    Arguments as of ``fit_newest``.
    """
    last, limit = samples[-1], limit_ppb(stated_ppb)
    kept, low, high = [last], last.offset - last.unc, last.offset + last.unc
    for each in reversed(samples[:-1]):
        moved = -(-(last.ts - each.ts) * limit // NS_PER_S)
        bottom, top = each.offset - each.unc - moved, each.offset + each.unc + moved
        if max(low, bottom) > min(high, top):
            break
        low, high = max(low, bottom), min(high, top)
        kept.append(each)
    offset, unc = (low + high) // 2, (high - low + 1) // 2
    return kept[::-1], Line(last.ts, offset, unc, 0, growth_ppb(stated_ppb))


def fit_newest(samples: Sequence[Sample], stated_ppb: int | None) -> tuple[list[Sample], Line]:
    """The newest of ``samples`` that one line explains, and that line (or the last one's offset).

    Args:
        samples: at least one, of ascending ``ts``, oldest first.
        stated_ppb: limit of the source's skew as it states it; None or 0: it states none.
    """
    for first in range(len(samples)):
        kept = samples[first:]
        if len(kept) < SYNCS_MIN:
            break
        line = fit_line(kept, stated_ppb)
        if line is not None:
            return list(kept), line
    return list(samples[1 - SYNCS_MIN :]), zero_order_hold(samples[-1], stated_ppb)


def fit_line(samples: Sequence[Sample], stated_ppb: int | None) -> Line | None:
    """Return the line through ``samples`` (as ``fit_newest`` has them), anchored at the last one.

    None: no line within the stated skew passes through all of their intervals.
    """
    last = samples[-1]
    limit = limit_ppb(stated_ppb)
    # Ages are positive into the past; a changing frequency widens the interval of an old sync.
    points = [
        Sample(last.ts - ts, offset, unc - (ts - last.ts) * WANDER_PPB // NS_PER_S)
        for ts, offset, unc in samples
    ]
    low, high = _slopes(points, limit)
    if low > high:
        return None
    # At the anchor: a steeper line through an old sync's upper end ends higher there.
    top = min(o + unc - (-age * high // NS_PER_S) for age, o, unc in points)
    bottom = max(o - unc + age * low // NS_PER_S for age, o, unc in points)
    low, high = max(low - WANDER_PPB, -limit), min(high + WANDER_PPB, limit)
    offset, skew = _least_squares(points)
    offset = _clip(offset, max(bottom, top - last.unc), min(top, bottom + last.unc))
    skew = _clip(skew, max(low, high - limit), min(high, low + limit))
    skew = _clip(skew, -SKEW_MAX_PPB, SKEW_MAX_PPB)
    return Line(
        anchor=last.ts,
        offset=offset,
        unc=max(top - offset, offset - bottom) + _FLOORED_NS,
        skew_ppb=skew,
        skew_error_ppb=max(high - skew, skew - low),
    )


def _slopes(points: Sequence[Sample], limit: int) -> tuple[int, int]:
    """Least and greatest slope [ppb] of the lines through all intervals, rounded outwards."""
    low, high = -limit, limit
    for older, newer in combinations(points, 2):
        run = older.ts - newer.ts
        rise, play = newer.offset - older.offset, newer.unc + older.unc
        low = max(low, (rise - play) * NS_PER_S // run)
        high = min(high, -((-rise - play) * NS_PER_S // run))
    return low, high


def _least_squares(points: Sequence[Sample]) -> tuple[int, int]:
    """(offset at age 0, skew in ppb) of the weighted least-squares line, each rounded once."""
    weights = [max(1, _WEIGHT // (point.unc + 1)) ** 2 for point in points]
    total = sum(weights)
    ages = sum(w * p.ts for w, p in zip(weights, points, strict=True))
    offsets = sum(w * p.offset for w, p in zip(weights, points, strict=True))
    squares = sum(w * p.ts * p.ts for w, p in zip(weights, points, strict=True))
    products = sum(w * p.ts * p.offset for w, p in zip(weights, points, strict=True))
    spread = total * squares - ages * ages
    skew = (ages * offsets - total * products) * NS_PER_S
    offset = offsets * squares - ages * products
    return (2 * offset + spread) // (2 * spread), (2 * skew + spread) // (2 * spread)


def _clip(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


# The error bound of all clocks of a site, for closing and purge (SPEC 4.3).
#
# A source without events so far may send the event that matters, with the error of its last sync.
# So the bound covers any future event, not only past ones.
#
# Errors grow with the distance from a sync, in both directions. The bound is one line for the whole
# site: the largest error of any offset at its begin or end, growing at the largest rate so far from
# the oldest of the sources' last syncs on; and likewise towards the past, from the newest of the
# sources' oldest remembered offsets. It is conservative, and costs nothing per source and event.


_EARLIEST: Final = -(1 << 61)
_RATE_MOST: Final = 10**8
"""A tenth: no clock is worse."""
_ROUNDED_NS: Final = 2
"""Reference times are rounded."""
_STALE: Final = 64
"""Most stale entries of the heap before it is sorted."""


class SiteClocks(Restorable):
    """The bound of one site, sync by sync.

    Args:
        least_ns: uncertainty of a source that was never synchronised.
    """

    state_fields = ("_unc_ns", "_rate_ppb", "_back_ppb", "_until", "_last")

    def __init__(self, least_ns: int = 0) -> None:
        self._unc_ns = min(least_ns, UNC_MAX_NS)
        self._rate_ppb = 0
        self._back_ppb = 0
        self._until = -LATEST
        self._last: dict[int, int] = {}
        """By source whose error grows: reference time of its last sync."""
        self._oldest: list[tuple[int, int]] = []
        """Heap of (reference time, source); entries that differ from ``_last`` are stale."""

    @property
    def bound(self) -> ClockBound:
        """The bound until the next sync."""
        heap = self._oldest
        while heap and self._last.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        since = min(max(heap[0][0], _EARLIEST), LATEST) if heap else 0
        rate_ppb = self._rate_ppb if heap else 0
        return ClockBound(self._unc_ns, rate_ppb, since, self._back_ppb, self._until)

    def add_offset(self, source: int, line: Line) -> None:
        """An offset of the source with this code is valid from now on."""
        self._unc_ns = min(max(self._unc_ns, line.unc), UNC_MAX_NS)
        if line.skew_error_ppb <= 0:
            self._last.pop(source, None)
            return
        # The source's time runs faster than reference time by up to its skew.
        rate_ppb = line.skew_error_ppb + line.skew_error_ppb // 1000 + 1
        self._rate_ppb = min(max(self._rate_ppb, rate_ppb), _RATE_MOST)
        self._last[source] = line.anchor + line.offset - _ROUNDED_NS
        heapq.heappush(self._oldest, (self._last[source], source))
        if len(self._oldest) > 2 * len(self._last) + _STALE:
            self._sort()

    def include_past(self, anchor: int, offset: int, rate_ppb: int) -> None:
        """The oldest remembered offset of a source, which also corrects earlier events."""
        if rate_ppb > 0:
            self._back_ppb = min(max(self._back_ppb, rate_ppb + rate_ppb // 1000 + 1), _RATE_MOST)
            self._until = min(max(self._until, anchor + offset + _ROUNDED_NS), LATEST - 1)

    def include_error(self, unc_ns: int) -> None:
        """An offset was valid until its error had grown to ``unc_ns``."""
        self._unc_ns = min(max(self._unc_ns, unc_ns), UNC_MAX_NS)

    def forget(self, source: int) -> None:
        """Forget a source by code; if an event comes, it counts as of a new source."""
        self._last.pop(source, None)

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._sort()

    def _sort(self) -> None:
        """Rebuild the heap without stale entries."""
        self._oldest = sorted((ref, source) for source, ref in self._last.items())
