"""Progress of windows: when they close under a barrier, and when open ones emit early results.

A window emits when progress passes its end. By default that is the progress of the ordering
operator: a row in order moves it to its own time, a promise or a slack to its value. A barrier
replaces it, for fewer corrections and more delay (SPEC 4.2):

* ``bounded:K``: the event clock (the largest ref so far) minus K; nothing else moves it;
* ``punctuation``: promises for events of all types. After an ordering operator that is its progress
  without slack, otherwise the punctuations without a type;
* ``hold:H``: the operator's progress, H later on the arrival clock. At one instant records come
  first.

``EMIT EARLY EVERY d`` uses the event clock or the operator's progress, the larger of both, under
every barrier: a *tick* is a point at which it reaches another multiple of d.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from slackwater.engine.barrier.registry import BARRIERS, BarrierSettings, Closes
from slackwater.engine.core.clocks.stream_clocks import PromiseBook
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import IN_ORDER, RESIDUAL, Gaps, Progress, Released
from slackwater.engine.core.timeline import ANY_TYPE, LONG_AGO, Steps
from slackwater.engine.kernels.records import take_rows
from slackwater.engine.query.plan import Emit, WindowPlan

_NOTHING: Final = np.empty(0, np.int64)


class ClockMoves(NamedTuple):
    """The moves of progress in a batch, the gaps that become known, and the ticks.

    ``status``: of the rows; rows IN_ORDER move progress to their own time. ``steps``: further
    moves, each before a row. ``gaps``: each after a number of ``steps``. ``tick_row``,
    ``tick_steps``, ``tick_at``: ticks, each before a row, after a number of steps, and its instant;
    a tick comes before a gap at the same place.
    """

    status: np.ndarray
    steps: Progress
    gaps: Gaps
    tick_row: np.ndarray
    tick_steps: np.ndarray
    tick_at: np.ndarray

    def progress(self, ref: np.ndarray) -> np.ndarray:
        """Return progress before each row and after the last; ``ref``: time of each row [ns]."""
        found, in_order = np.full(len(ref) + 1, LONG_AGO), self.status == IN_ORDER
        found[1:][in_order] = ref[in_order]
        np.maximum.at(found, self.steps.row, self.steps.frontier)
        return np.maximum.accumulate(found)


class _Clock(NamedTuple):
    """Moves of a clock, in order: to ``value`` before row ``row``, at the instant ``at``.

    ``between``: a step between two rows makes the move, else the row before ``row``.
    """

    row: np.ndarray
    value: np.ndarray
    at: np.ndarray
    between: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, ref: np.ndarray, release: np.ndarray, steps: Progress) -> _Clock:
        """Return the moves by ``rows`` to their ``ref``, and by ``steps``."""
        row = np.concatenate((rows + 1, steps.row))
        value = np.concatenate((ref[rows], steps.frontier))
        at = np.concatenate((release[rows], steps.at))
        between = np.arange(len(row)) >= len(rows)
        order = np.lexsort((between, row))
        return cls(row[order], value[order], at[order], between[order])


class WindowClock(Restorable):
    """The progress of the windows of one query and site.

    Args:
        plan: the plan of the query.
        barrier: the barrier; None: the progress of the ordering operator closes windows.
    """

    state_fields = ("_newest", "_tick", "_waits", "_gaps", "_book")

    def __init__(self, plan: WindowPlan, barrier: BarrierSettings | None) -> None:
        kind = None if barrier is None else BARRIERS[barrier.name]
        span = 0 if barrier is None else barrier.span_ns
        closes = Closes.NOTHING if kind is None else kind.closes
        self._slack_ns = span if closes is Closes.SLACK else None
        self._hold_ns = span if kind is not None and kind.by_arrival else None
        self._promises = closes is Closes.PROMISE
        self._early_ns = plan.early_ns if plan.emit is Emit.EARLY else 0
        self._book: PromiseBook | None = None
        self._newest = LONG_AGO
        self._tick = LONG_AGO
        self._waits = _NOTHING.reshape(2, 0)
        """Delayed moves of progress: values and instants."""
        self._gaps = Gaps()
        """Gaps that become known with the next row."""

    def take(self, released: Released, ref: np.ndarray, gaps: Gaps) -> ClockMoves:
        """Return the moves of a batch; ``ref``: time of each row [ns]; ``gaps``: its gaps."""
        columns = released.columns
        status, release = (columns.get(name, _NOTHING) for name in ("status", "release"))
        # A slack is not a promise.
        base = released.slack if len(released.slack.row) else released.progress
        ticks = self._ticks(ref, release, base)
        steps = base
        between = np.ones(len(steps.row), np.bool_)
        if self._slack_ns is not None:
            steps = self._less_slack(ref, release, self._slack_ns)
            between = np.zeros(len(steps.row), np.bool_)
            status = _moving_nothing(status)
            gaps = _known_behind(gaps, steps)
        elif self._hold_ns is not None:
            steps = self._hold_steps(ref, status, release, base, self._hold_ns)
            between = np.ones(len(steps.row), np.bool_)
            status = _moving_nothing(status)
            gaps = self._with_next_row(gaps, len(release), steps)
        elif self._promises:
            steps, between = self._promised(released)
            if released.promises is not None:
                status = _moving_nothing(status)
        tick_steps = self._steps_before(ticks, steps, between)
        return ClockMoves(status, steps, gaps, ticks.row, tick_steps, ticks.at)

    def until(self, now: int, *, last: bool = False) -> ClockMoves | None:
        """Return the delayed moves due before ``now``; None: none; ``last``: no row follows."""
        frontier, due = self._waits
        n = int(np.searchsorted(due, now))
        gaps = self._gaps if last else Gaps()
        if not n and not len(gaps.row):
            return None
        steps = Progress(np.zeros(n, np.int64), frontier[:n], due[:n])
        self._waits = self._waits[:, n:]
        if last:
            self._gaps = Gaps()
        status = np.empty(0, np.int8)
        return ClockMoves(status, steps, _known_behind(gaps, steps), _NOTHING, _NOTHING, _NOTHING)

    # ---- progress ---------------------------------------------------------------------------

    def _less_slack(self, ref: np.ndarray, release: np.ndarray, slack_ns: int) -> Progress:
        clock = Steps.of(ref, release, np.arange(len(ref)), self._newest)
        self._newest = int(clock.value[-1])
        return Progress(clock.moment[1:] + 1, clock.value[1:] - slack_ns, clock.at[1:])

    def _hold_steps(
        self, ref: np.ndarray, status: np.ndarray, release: np.ndarray, base: Progress, hold_ns: int
    ) -> Progress:
        """Return the moves due before the last instant of the batch; the rest waits."""
        clock = _Clock.of(np.flatnonzero(status == IN_ORDER), ref, release, base)
        moves = Steps.of(clock.value, clock.at, clock.row, self._newest)
        self._newest = int(moves.value[-1])
        fresh = np.array((moves.value[1:], moves.at[1:] + hold_ns))
        frontier, due = waits = np.concatenate((self._waits, fresh), axis=1)
        now = max([LONG_AGO, *release[-1:].tolist(), *base.at[-1:].tolist()])
        n = int(np.searchsorted(due, now))
        self._waits = waits[:, n:]
        return Progress(np.searchsorted(release, due[:n], side="right"), frontier[:n], due[:n])

    def _with_next_row(self, gaps: Gaps, rows: int, steps: Progress) -> Gaps:
        """Make each gap known with the row that follows it, also in a later batch."""
        kept = Gaps(*(
            np.concatenate((getattr(self._gaps, name), getattr(gaps, name)))
            for name in Gaps.__struct_fields__
        ))  # fmt: skip
        here = kept.row < rows
        self._gaps = some_gaps(kept, ~here)
        self._gaps.row[:] = 0
        return _known_behind(some_gaps(kept, here), steps)

    def _promised(self, released: Released) -> tuple[Progress, np.ndarray]:
        """Return progress by promises, and which of its steps are not made by a row."""
        if released.promises is None:
            return released.progress, np.ones(len(released.progress.row), np.bool_)
        self._book = self._book or PromiseBook(frozenset((ANY_TYPE,)))
        said = self._book.steps(released, released.promises, 0)[ANY_TYPE]
        moment = said.moment[1:]
        return Progress((moment + 1) // 2, said.value[1:], said.at[1:]), moment % 2 == 0

    # ---- ticks ------------------------------------------------------------------------------

    def _ticks(self, ref: np.ndarray, release: np.ndarray, base: Progress) -> _Clock:
        """Return the ticks; ``value``: the step of ``base`` that each tick belongs to."""
        if not self._early_ns:
            return _Clock(_NOTHING, _NOTHING, _NOTHING, _NOTHING)
        clock = _Clock.of(np.arange(len(ref)), ref, release, base)
        number = np.maximum.accumulate(
            np.concatenate(([self._tick], clock.value // self._early_ns))
        )
        moves = (number[1:] > number[:-1]) & (number[:-1] > LONG_AGO)
        self._tick = int(number[-1])
        numbered = clock._replace(value=np.cumsum(clock.between) - 1)
        return take_rows(numbered, moves)

    def _steps_before(self, ticks: _Clock, steps: Progress, between: np.ndarray) -> np.ndarray:
        """Return how many of ``steps`` precede each tick; ``between``: no row makes the step."""
        before = np.searchsorted(steps.row, ticks.row)
        here = np.cumsum(np.concatenate(([0], ~between)))
        after = np.searchsorted(steps.row, ticks.row, side="right")
        by_row = before + here[after] - here[before]
        if self._slack_ns is not None:
            return after
        if self._hold_ns is None:
            return np.asarray(np.where(ticks.between, np.minimum(ticks.value + 1, after), by_row))
        # Both are instants of the arrival clock; delayed moves come last at an instant.
        reached = np.searchsorted(steps.at, ticks.at)
        return np.asarray(np.where(ticks.between, np.clip(reached, before, after), by_row))

    # ---- state ------------------------------------------------------------------------------

    def codes(self) -> np.ndarray:
        """Return the codes of texts in use."""
        return np.concatenate((self._gaps.source, self._gaps.stream))

    def restore(self, state: dict[str, Any]) -> None:
        if state["_book"] is not None:
            self._book = PromiseBook(frozenset((ANY_TYPE,)))
        super().restore(state)


def _moving_nothing(status: np.ndarray) -> np.ndarray:
    """Return ``status`` so that no row moves progress."""
    return np.where(status == IN_ORDER, np.int8(RESIDUAL), status)


def some_gaps(gaps: Gaps, which: np.ndarray) -> Gaps:
    """Return the gaps at ``which``: places, or a mask."""
    return Gaps(*(getattr(gaps, name)[which] for name in Gaps.__struct_fields__))


def _known_behind(gaps: Gaps, steps: Progress) -> Gaps:
    """Return ``gaps``, each known after all ``steps`` before its row."""
    behind = np.searchsorted(steps.row, gaps.row, side="right")
    return replace(gaps, steps=behind)
