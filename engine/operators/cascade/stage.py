"""The operator of a statement over the results of other statements; it reads no log stream.

Results become events of the statement's stream. The statement's operator is an ordinary one. It
reads the events in order of event time, after progress has passed them, so it never sees a late
event. If a result is retracted or comes behind progress, the operator is reset: a copy from before
the first changed event (``cascade.result_reader``) reads the corrected events from there on, and
another copy reads the previous events. The stage emits the difference of their results (``-`` and
``+``).

So the net results of any operator equal those of a run over the net results upstream. Corrections
further back than an upstream result may change are only counted.

Once an event with a clock error is read, a source may hide results (``uncertain_sources``). All
its results then become uncertain, including those already read; that is a correction as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from slackwater.engine.core.columns import VARIES_PREFIX
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.operator import Operator, Restorable, Result, ResultPieces
from slackwater.engine.core.released import ClockBound, Progress, Released, Strings
from slackwater.engine.core.timeline import CHANCE
from slackwater.engine.kernels.records import INT_MAX
from slackwater.engine.kernels.tables import places_of
from slackwater.engine.operators.cascade.derived_events import (
    CONTENT,
    PLUS,
    DerivedRows,
    columns_in,
    derived_events,
    joined,
)
from slackwater.engine.operators.cascade.result_reader import (
    EARLIEST,
    NO_STEPS,
    AskedOperator,
    Checkpoints,
    ProgressSteps,
    Reach,
    changes_between,
)
from slackwater.engine.output.result_kinds import partners
from slackwater.engine.query.plan import DerivedPlan
from slackwater.engine.query.results_as_events import (
    deciding_columns,
    facts_of,
    quantum_of,
    span_of,
    uncertain_sources,
)

# When results become events, and which of them are corrections.
#
# An event is released to the operator when progress has passed it, so all are released in order.
# An event behind progress and the retraction of a released event are *corrections*: they wait for
# the next instant at which events are released and are applied before them.


LATE: Final = "late"
"""Column: whether a waiting event came behind progress."""
NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Instants:
    """Instants at which something happens.

    ``at``: the instants, ascending. ``value``: the progress from each on. ``before``: the progress
    before the first.
    """

    at: np.ndarray
    value: np.ndarray
    before: int

    @property
    def earlier(self) -> np.ndarray:
        """The progress just before each instant."""
        return np.concatenate(([self.before], self.value[:-1]))[: len(self.at)]


@dataclass(slots=True)
class Schedule:
    """What to do at which instant (places in ``Instants``).

    ``fed``, ``fed_at``: events to release, in order. ``steps``, ``steps_at``: additional progress.
    ``late``, ``late_at``: late events. ``gone``, ``gone_at``: contents of retracted events.
    ``waiting``: events left for later. ``too_late``: number of corrections that come too late.
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

    def part(self, start: int, end: int, at: np.ndarray) -> tuple[DerivedRows, Progress]:
        """Return the events released at instants [``start``, ``end``), and additional progress."""
        mine = (self.fed_at >= start) & (self.fed_at < end)
        in_part = (self.steps_at >= start) & (self.steps_at < end)
        places, steps_at = self.fed_at[mine], self.steps_at[in_part]
        rows = self.fed.take(mine).having(release=at[places])
        behind = np.searchsorted(places, steps_at, "right")
        return rows, Progress(behind, self.steps[in_part], at[steps_at])


def schedule(
    tail: DerivedRows,
    waiting: DerivedRows,
    new: DerivedRows,
    instants: Instants,
    quantum: int,
    back_ns: int | None,
) -> Schedule:
    """Return when to release new results and apply corrections.

    Args:
        tail: released events that may still be retracted.
        waiting: events left by earlier schedules.
        new: results in arrival order, each at one of ``instants``.
        instants: the instants until now.
        quantum: progress is passed on when it reaches a multiple of this [ns].
        back_ns: corrections further behind progress are too late; None: none is.
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
        # Results too far behind progress when they came; those that wait were not.
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
    # A retraction whose insertion was lost or released too long ago.
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
    """Return the place of the insertion that each retraction in ``rows`` refers to.

    The place is -1 if the insertion is in ``tail``; each other row has its own place. The second
    array marks retractions without a known insertion. Insertions and retractions of one content
    alternate.
    """
    partner = np.arange(rows.n)
    unknown = np.zeros(rows.n, np.bool_)
    plus = rows.columns.get(PLUS, _FALSE)
    if plus.all():
        return partner, unknown
    content = np.concatenate([tail.contents(), rows.contents()])
    is_plus = np.concatenate([np.ones(tail.n, np.bool_), plus])
    minus = np.flatnonzero(~plus)
    place = partners(content, is_plus)[tail.n + minus]
    known = place >= 0
    unknown[minus[~known]] = True
    partner[minus[known]] = np.maximum(place[known] - tail.n, -1)
    return partner, unknown


def _cancelled(
    partner: np.ndarray, came: np.ndarray, release: np.ndarray, of: np.ndarray
) -> np.ndarray:
    """Return the insertions in ``of`` that are retracted before release, and their retractions."""
    gone = np.zeros(len(partner), np.bool_)
    minus = np.flatnonzero((partner >= 0) & (partner != np.arange(len(partner))))
    minus = minus[of[partner[minus]]]
    some = minus[release[partner[minus]] >= np.maximum(came[minus], 0)]
    gone[some] = gone[partner[some]] = True
    return gone


def _next(feeding: np.ndarray, came: np.ndarray, n: int) -> np.ndarray:
    """Return for each of ``came`` the first of ``feeding`` not before it; n if there is none."""
    place = np.searchsorted(feeding, came)
    return np.asarray(np.append(feeding, n)[place])


def _order_of(rows: DerivedRows, which: np.ndarray, release: np.ndarray) -> np.ndarray:
    if not len(which):
        return which
    keys = [rows[name][which] for name in (*CONTENT[::-1], "ref", "ref_end")]
    return np.asarray(np.lexsort([*keys, release[which]]))


END: Final = 2**62
_NO_NEWS: Final = 2**61
"""Progress from here on means the end of the input and is not passed on to operators."""
_FEW: Final = 256


class DerivedStage(Restorable):
    """Operator of a ``DerivedPlan``.

    Args:
        plan: the plan of the statement.
        build: returns a new operator for the statement's query.
        reach: the reach of the results of each source.
    """

    state_fields = (
        "_operator", "_checkpoints", "_reached", "_counts", "_tail", "_waiting", "_frontier",
        "_step", "_bound",
    )  # fmt: skip

    types: Final = None

    def __init__(
        self, plan: DerivedPlan, build: Callable[[], Operator], reach: Sequence[Reach]
    ) -> None:
        self.plan = plan
        self._operator = AskedOperator(build, 0 if facts_of(plan).on_clock else 1)
        self._checkpoints = Checkpoints(self._operator.copy())
        backs = [each.back_ns for each in reach]
        self._back = None if None in backs else max(back for back in backs if back is not None)
        self._quantum = quantum_of(plan)
        self._doubted = uncertain_sources(plan)
        self._errs_from = INT_MAX
        self._span = span_of(plan)
        self._deciding = [VARIES_PREFIX + name for name in sorted(deciding_columns(plan))]
        self._inbox: list[DerivedRows] = []
        self._steps: dict[int, list[ProgressSteps]] = {n: [] for n in range(len(plan.sources))}
        self._reached = dict.fromkeys(self._steps, EARLIEST)
        self._tail, self._waiting = DerivedRows(), DerivedRows()
        self._frontier = EARLIEST
        self._step = EARLIEST
        self._bound = ClockBound()
        self.strings = Strings()
        """The current texts of the site."""
        self._counts = dict.fromkeys(("results_read", "results_corrected", "results_too_late"), 0)
        self.progress: list[ProgressSteps] = []
        """Progress of this statement's results since a reader last took it."""

    # ---- input from sources -----------------------------------------------------------------

    def take(
        self, source: int, pieces: Sequence[Sequence[Result]], steps: Sequence[ProgressSteps],
        bound: ClockBound, errs_from: int,
    ) -> None:  # fmt: skip
        """Buffer new results of a source, in order, and its progress.

        ``bound``: the bound of their clock errors. ``errs_from``: see ``derived_events``.
        """
        name = self.plan.sources[source].name
        for piece in columns_in(pieces):
            columns, types = derived_events(piece, name, self.strings, errs_from)
            unsure = [columns[each] for each in self._deciding if each in columns]
            if unsure:
                sure = (columns[CHANCE] == 1) & np.any(unsure, axis=0)
                columns[CHANCE] = np.where(sure, np.nan, columns[CHANCE])
            self._inbox.append(DerivedRows(len(piece), columns, types))
            self._counts["results_read"] += len(piece)
        self._steps[source] += steps
        self._bound = bound
        if self._doubted:
            self._errs_from = errs_from

    # ---- interface of an operator -----------------------------------------------------------

    def required_columns(self) -> set[str]:
        """Return no column: the stage reads no events of the log."""
        return set()

    def process(self, released: Released) -> Sequence[Result]:  # noqa: ARG002 - it reads none
        """Raise ``ContractViolation``: the stage reads no stream."""
        raise ContractViolation(f"statement {self.plan.name!r} reads results, not events")

    def advance(self, now: int) -> ResultPieces:
        """Advance the arrival clock to ``now`` and process the results that came before it."""
        results = self._read(self._until(now))
        results.extend(self._operator.operator.advance(now))
        return results

    def finish(self, at: int) -> ResultPieces:
        """End the input at instant ``at`` and process all waiting results."""
        for steps in self._steps.values():
            steps.append(ProgressSteps(np.array([at]), np.array([END])))
        results = self._read(self._until(INT_MAX))
        results.extend(self._operator.operator.finish(at))
        return results

    def counters(self) -> dict[str, int]:
        """Return the counters of the stage and of its operator.

        ``results_read``: results of the sources. ``results_corrected``: corrections after release.
        ``results_too_late``: corrections that came too late. ``results_kept``: events that may
        still change.
        """
        kept = {"results_kept": self._tail.n}
        return {**self._operator.operator.counters(), **self._counts, **kept}

    def codes(self) -> np.ndarray | None:
        parts = [self._operator.codes(), *self._checkpoints.codes()]
        if any(codes is None for codes in parts):
            return None
        rows = [self._tail, self._waiting, *self._inbox]
        return np.concatenate([*parts, *(each.codes() for each in rows)])

    # ---- reading ----------------------------------------------------------------------------

    def _until(self, now: int) -> tuple[DerivedRows, Instants]:
        """Return the results that came before ``now``, in order, and all instants until then."""
        inbox = joined(self._inbox)
        mine = inbox.columns.get("arrival", np.empty(0, np.int64)) < now
        new = inbox.take(mine)
        self._inbox = [inbox.take(~mine)]
        new = new.take(np.argsort(new["arrival"], kind="stable")) if new.n else new
        times = np.unique(np.concatenate([self._waiting.time, new.time]))
        due = {
            source: self._telling(self._taken_until(source, now), times) for source in self._steps
        }
        at = [new["arrival"]] if new.n else []
        instants = np.unique(np.concatenate([*at, *(each.at for each in due.values())]))
        begins = self._errs_from > instants[0] if len(instants) else False
        if self._errs_from < now and (begins or self._sure_at(self._tail).any()):
            instants = np.union1d(instants, [self._errs_from])
        value = np.full(len(instants), END)
        for source, steps in due.items():
            place = np.searchsorted(steps.at, instants, "right")
            reached = np.concatenate(([self._reached[source]], steps.value))
            value = np.minimum(value, reached[place])
            self._reached[source] = int(reached[-1])
        found = Instants(instants, np.maximum(value, self._frontier), self._frontier)
        if len(instants):
            self._frontier = int(found.value[-1])
        return new, found

    def _taken_until(self, source: int, now: int) -> ProgressSteps:
        """Remove and return the steps of a source before ``now``."""
        steps = self._steps[source]
        if not steps:
            return ProgressSteps(np.empty(0, np.int64), np.empty(0, np.int64))
        at = np.concatenate([step.at for step in steps])
        value = np.maximum.accumulate(np.concatenate([step.value for step in steps]))
        end = int(np.searchsorted(at, now, "left"))
        self._steps[source] = [ProgressSteps(at[end:], value[end:])] if end < len(at) else []
        return ProgressSteps(at[:end], value[:end])

    def _telling(self, steps: ProgressSteps, times: np.ndarray) -> ProgressSteps:
        """Return only the steps that matter; a source that reads the log has one per event.

        A step matters if it releases an event of ``times``, passes progress on, or makes an event
        too late. The first and the last step always stay.
        """
        if not len(steps.at):
            return steps
        last = len(steps.at) - 1
        grid = steps.value // self._quantum
        moved = np.flatnonzero(grid[1:] > grid[:-1]) + 1
        due = [times] if self._back is None else [times, times + self._back]
        found = [np.searchsorted(steps.value, each, "right") for each in due]
        places = np.unique(np.concatenate([[0, last], moved, *found]).clip(0, last))
        return ProgressSteps(steps.at[places], steps.value[places])

    def _read(self, came: tuple[DerivedRows, Instants]) -> ResultPieces:
        new, instants = came
        results = ResultPieces()
        if not len(instants.at):
            return results
        plan = schedule(self._tail, self._waiting, new, instants, self._quantum, self._back)
        self._counts["results_too_late"] += plan.too_late
        start = 0
        doubting = np.flatnonzero(instants.at == self._errs_from)
        for at in np.unique(np.concatenate([plan.late_at, plan.gone_at, doubting])).tolist():
            self._feed(plan, start, at, instants, results)
            self._correct(plan, at, int(instants.at[at]), results)
            start = at
        self._feed(plan, start, len(instants.at), instants, results)
        self._waiting = plan.waiting
        self._let_go()
        return results

    def _feed(
        self, plan: Schedule, start: int, end: int, instants: Instants, results: ResultPieces,
    ) -> None:  # fmt: skip
        """Release the events that are due at instants [``start``, ``end``)."""
        rows, steps = plan.part(start, end, instants.at)
        if self._doubted and rows.n:
            rows = self._doubting(rows, rows["release"] >= self._errs_from)
        news = steps.frontier < _NO_NEWS
        steps = Progress(steps.row[news], steps.frontier[news], steps.at[news])
        if not rows.n and not len(steps.row):
            return
        results.extend(self._operator.feed(rows, steps, self.strings, self._bound))
        self._tail = joined([self._tail, rows])
        value = np.concatenate([rows.time, steps.frontier])
        at = np.concatenate([rows.columns.get("release", np.empty(0, np.int64)), steps.at])
        order = np.argsort(
            np.concatenate([2 * np.arange(rows.n) + 1, 2 * steps.row]), kind="stable"
        )
        reached = np.maximum.accumulate(np.maximum(value[order], self._step))
        self._step = int(reached[-1])
        self.progress.append(ProgressSteps(at[order], reached))

    def _correct(self, plan: Schedule, at: int, now: int, results: ResultPieces) -> None:
        """Apply the corrections of instant number ``at``, whose time is ``now`` [ns]."""
        results.extend(self._operator.operator.advance(now))
        gone, late = plan.gone[plan.gone_at == at], plan.late.take(plan.late_at == at)
        self._counts["results_corrected"] += len(gone) + late.n
        tail = self._tail
        lost = _places(tail.contents(), gone)
        errs = now >= self._errs_from
        sure = np.flatnonzero(self._sure_at(tail))[:1] if errs else ()
        start = int(min([tail.n, *lost, *sure]))
        if late.n:
            start = min(start, int(np.searchsorted(tail.time, late.time.min(), "left")))
        before = tail.cut(start, tail.n)
        kept = np.ones(before.n, np.bool_)
        kept[lost - start] = False
        released_at = int(tail["release"][start - 1]) if start else None
        right = joined([before.take(kept), late]).in_order()
        right = self._doubting(right, np.full(right.n, errs))
        right = _released(right, before, released_at, now)
        checkpoint = self._checkpoints.back_to(tail, start, self.strings, self._bound)
        (_, was), (self._operator, shall_be) = (
            checkpoint.run(rows, self._reached_at(rows.n, now), now, self.strings, self._bound)
            for rows in (before, right)
        )
        results.extend(changes_between(was.pieces, shall_be.pieces, now))
        self._tail = joined([tail.cut(0, start), right])

    def _sure_at(self, rows: DerivedRows) -> np.ndarray:
        """Return which of ``rows`` are certain and come from a source that may hide results."""
        if not self._doubted or not rows.n:
            return np.zeros(rows.n, np.bool_)
        codes = [self.strings.find(name) for name in self._doubted]
        return np.asarray((rows[CHANCE] == 1) & np.isin(rows["stream"], codes))

    def _doubting(self, rows: DerivedRows, where: np.ndarray) -> DerivedRows:
        """Return ``rows``, uncertain ``where`` their source may hide results."""
        sure = self._sure_at(rows) & where
        if not sure.any():
            return rows
        return rows.having(**{CHANCE: np.where(sure, np.nan, rows[CHANCE])})

    def _reached_at(self, row: int, now: int) -> Progress:
        """Return the progress so far as a step after ``row`` rows; no step if there is none."""
        if self._step <= EARLIEST:
            return NO_STEPS
        return Progress(np.array([row]), np.array([self._step]), np.array([now]))

    def _let_go(self) -> None:
        """Move final events from the tail to the first checkpoint, rarely and many at once."""
        back = self._back
        if back is not None and self._doubted and self._errs_from == INT_MAX:
            back = None if self._span is None else back + self._span
        if back is None or not self._tail.n:
            return
        final = int(np.searchsorted(self._tail.time, self._frontier - back, "left"))
        if final >= max(_FEW, self._tail.n // 2):
            self._checkpoints.let_go(self._tail, final, self.strings, self._bound)
            # A copy: a view would keep the whole tail in memory.
            self._tail = self._tail.take(np.arange(final, self._tail.n))

    # ---- state ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        steps = {source: [(s.at.copy(), s.value.copy()) for s in steps]
                for source, steps in self._steps.items()}  # fmt: skip
        return super().snapshot() | {
            "inbox": [rows.snapshot() for rows in self._inbox], "steps": steps,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._inbox = [DerivedRows(**rows) for rows in state["inbox"]]
        self._steps = {source: [ProgressSteps(*each) for each in steps]
                      for source, steps in state["steps"].items()}  # fmt: skip


def _places(tail: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Return the places in ``tail`` of the contents ``gone``; equal contents count separately."""
    among = np.flatnonzero(places_of(gone, tail) >= 0)  # few of a long tail
    plus = np.arange(len(among) + len(gone)) < len(among)
    found = partners(np.concatenate([tail[among], gone]), plus)[len(among) :]
    return np.asarray(among[found[found >= 0]])


def _released(
    corrected: DerivedRows, emitted: DerivedRows, before: int | None, now: int
) -> DerivedRows:
    """Return ``corrected`` with ascending release times.

    A late event gets the release time of its predecessor, so those of the others stay.

    Args:
        corrected: events; some are in ``emitted``.
        emitted: events with their release times.
        before: the release time of the preceding event; None: there is none.
        now: the release time if no event has one.
    """
    if not corrected.n:
        return corrected
    release = corrected.columns.get("release", np.zeros(corrected.n, np.int64))
    known = np.zeros(corrected.n, np.bool_)
    if emitted.n:
        known = places_of(emitted.contents(), corrected.contents()) >= 0
    release = np.maximum.accumulate(np.where(known, release, np.iinfo(np.int64).min))
    if before is None:
        before = int(release[known.argmax()]) if known.any() else now
    return corrected.having(release=np.maximum(release, before))
