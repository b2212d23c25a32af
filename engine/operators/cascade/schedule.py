"""When results of one statement become events of another, and which of them are corrections.

An event is handed on when progress has passed it, so that all are handed on in order. One that
comes behind progress, and the retraction of one that was handed on, are *corrections*: they wait
for the next instant at which something is handed on, and are taken in before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.engine.core.released import Progress
from slackwater.engine.operators.cascade.derived_events import CONTENT, PLUS, DerivedRows, joined
from slackwater.engine.output.kinds import partners

LATE: Final = "late"
"""Whether an event that waits came behind progress."""
NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Instants:
    """Those at which anything happens, ascending: ``at``; the progress from then on, ``value``;
    and the progress ``before`` them.
    """

    at: np.ndarray
    value: np.ndarray
    before: int

    @property
    def earlier(self) -> np.ndarray:
        """The progress just before each."""
        return np.concatenate(([self.before], self.value[:-1]))[: len(self.at)]


@dataclass(slots=True)
class Schedule:
    """What to do at which instant (numbers of ``Instants``).

    ``fed``: events in order, ``fed_at`` when each is handed on. ``steps``, ``steps_at``: of
    progress besides. ``late``, ``late_at``: events taken in late. ``gone``, ``gone_at``: contents
    of events that are taken back. ``waiting``: what is left for later. ``too_late``: how many came
    when nothing could be done any more.
    """

    fed: DerivedRows
    fed_at: np.ndarray
    steps: np.ndarray
    steps_at: np.ndarray
    late: DerivedRows
    late_at: np.ndarray
    gone: np.ndarray
    gone_at: np.ndarray
    waiting: DerivedRows
    too_late: int

    def corrected_at(self) -> list[int]:
        """The instants of corrections."""
        return [int(at) for at in np.unique(np.concatenate([self.late_at, self.gone_at]))]

    def part(self, start: int, end: int, at: np.ndarray) -> tuple[DerivedRows, Progress]:
        """The events handed on at instants from ``start`` to before ``end``, and steps besides."""
        mine = (self.fed_at >= start) & (self.fed_at < end)
        own = (self.steps_at >= start) & (self.steps_at < end)
        places, steps_at = self.fed_at[mine], self.steps_at[own]
        rows = self.fed.take(mine).having(release=at[places])
        behind = np.searchsorted(places, steps_at, "right")
        return rows, Progress(behind, self.steps[own], at[steps_at])


def schedule(
    tail: DerivedRows,
    waiting: DerivedRows,
    new: DerivedRows,
    instants: Instants,
    quantum: int,
    back_ns: int | None,
) -> Schedule:
    """What to do with results that have come.

    Args:
        tail: events handed on that may still be taken back.
        waiting: of earlier schedules.
        new: results in the order in which they came, each at one of ``instants``.
        instants: until now.
        quantum: progress is passed on when it passes a multiple of this [ns].
        back_ns: corrections so far behind progress are too late; None: none is.
    """
    n = len(instants.at)
    came = np.concatenate([
        np.full(waiting.n, -1), np.searchsorted(instants.at, new.columns.get("arrival", _NONE)),
    ])  # fmt: skip
    earlier = instants.earlier
    if new.n:
        behind = new.time < earlier[came[waiting.n :]]
        new = new.having(**{LATE: behind})
    all_rows = joined([waiting, new])
    partner, unknown = _pairs(tail, all_rows)
    plus = all_rows.columns.get(PLUS, _FALSE)
    late = all_rows.columns.get(LATE, _FALSE) & plus
    over = np.zeros(all_rows.n, np.bool_)
    if back_ns is not None and n:
        # What came when it was too far behind; what waits was not.
        over = (came >= 0) & (all_rows.time < earlier[came] - back_ns)
    lost = over & late
    release = np.full(all_rows.n, n)
    on_time, late = plus & ~late, late & ~lost
    first = np.searchsorted(instants.value, all_rows.time, "right")
    release[on_time] = np.maximum(first, came)[on_time]
    gone = _cancelled(partner, came, release, on_time)
    grid = instants.value // quantum
    reached = np.maximum.accumulate(grid)
    moved = np.flatnonzero(
        reached > np.concatenate(([instants.before // quantum], reached[:-1]))[:n]
    )
    live = on_time & ~gone & (release < n)
    feeding = np.union1d(release[live], moved)
    after = _next(feeding, np.maximum(came, 0), n)
    release[late] = after[late]
    gone |= _cancelled(partner, came, release, late)
    # A retraction whose insertion was lost, or handed on too long before.
    lost |= ~plus & ~gone & (over | unknown | ((partner >= 0) & lost[partner]))
    backs = ~plus & ~gone & ~lost
    fed = np.flatnonzero(live)
    fed = fed[_order_of(all_rows, fed, release)]
    lates = np.flatnonzero(late & ~gone & (release < n))
    takes = np.flatnonzero(backs & (after < n))
    stays = ~gone & ~lost & ((plus & (release == n)) | (backs & (after == n)))
    content = all_rows.contents()
    return Schedule(
        all_rows.take(fed), release[fed], (reached * quantum)[moved], moved, all_rows.take(lates),
        release[lates], content[takes], after[takes], all_rows.take(stays), int(lost.sum()),
    )  # fmt: skip


_NONE: Final = np.empty(0, np.int64)
_FALSE: Final = np.empty(0, np.bool_)


def _pairs(tail: DerivedRows, rows: DerivedRows) -> tuple[np.ndarray, np.ndarray]:
    """Per retraction in ``rows`` the row that it takes back: its place, -1 in ``tail``, or itself;
    and which are of nothing that is known. Of one content an insertion and a retraction take turns.
    """
    partner = np.arange(rows.n)
    unknown = np.zeros(rows.n, np.bool_)
    plus = rows.columns.get(PLUS, _FALSE)
    if plus.all():
        return partner, unknown
    content = np.concatenate([tail.contents(), rows.contents()])
    given = np.concatenate([np.ones(tail.n, np.bool_), plus])
    minus = np.flatnonzero(~plus)
    place = partners(content, given)[tail.n + minus]
    known = place >= 0
    unknown[minus[~known]] = True
    partner[minus[known]] = np.maximum(place[known] - tail.n, -1)
    return partner, unknown


def _cancelled(
    partner: np.ndarray, came: np.ndarray, release: np.ndarray, of: np.ndarray
) -> np.ndarray:
    """Insertions of ``of`` that were taken back before they were handed on, with what does so."""
    gone = np.zeros(len(partner), np.bool_)
    minus = np.flatnonzero((partner >= 0) & (partner != np.arange(len(partner))))
    minus = minus[of[partner[minus]]]
    some = minus[release[partner[minus]] >= np.maximum(came[minus], 0)]
    gone[some] = gone[partner[some]] = True
    return gone


def _next(feeding: np.ndarray, came: np.ndarray, n: int) -> np.ndarray:
    """The first of ``feeding`` that is not before each of ``came``; n if there is none."""
    place = np.searchsorted(feeding, came)
    return np.asarray(np.append(feeding, n)[place])


def _order_of(rows: DerivedRows, which: np.ndarray, release: np.ndarray) -> np.ndarray:
    if not len(which):
        return which
    keys = [rows[name][which] for name in (*CONTENT[::-1], "ref", "ref_end")]
    return np.asarray(np.lexsort([*keys, release[which]]))
