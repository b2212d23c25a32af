"""The operator of a pattern under a constraint (SPEC 4.6; L10 Algorithm 5).

The operator applies events to their traces in release order. The event that makes a match certain
emits an alert, the event that rules it out emits ``cleared``. A trace that breaks its constraint
emits a violation; from then on the operator only looks for the match itself. A trace is over when
the constraint allows no further event, or when no event comes within its timeout. It is then
dropped, and the next event of its key begins a new trace. With a horizon, events are applied in
order of event time, and a late event rewrites its trace (``engine.operators.constraint.rewrite``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.edge_agent.records import CLOCK, SOURCE, UNC_MAX_NS
from slackwater.engine.core.clocks.epochs import MIXED, STAMPED_BY
from slackwater.engine.core.operator import Restorable, ResultPieces
from slackwater.engine.core.released import IN_ORDER, LATE_DROPPED, LATEST, Refuted, Released
from slackwater.engine.core.timeline import CHANCE, UNKNOWN
from slackwater.engine.core.units import workdays
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, copy_of
from slackwater.engine.operators.constraint.alerts import (
    Alerts,
    SoFar,
    alert_columns,
    lists_of,
    so_far,
)
from slackwater.engine.operators.constraint.open_traces import OpenTraces
from slackwater.engine.operators.constraint.rewrite import (
    WiderErrors,
    follow_and_rewrite,
    judge_again,
    widen,
)
from slackwater.engine.operators.constraint.step import (
    MOST_RESULTS,
    PLACES,
    Moves,
    follow,
    moves_of,
    sweep,
)
from slackwater.engine.operators.constraint.traces import (
    AT_ONCE,
    EMITTED,
    LATER,
    NOBODY_KNOWS,
    OTHERS,
    PERHAPS,
    TraceEvents,
    TraceProgress,
    TraceTables,
)
from slackwater.engine.operators.window.keys import GroupKeys
from slackwater.engine.query.automata import (
    IGNORED,
    SATISFIABLE,
    UNSATISFIABLE,
    Encoded,
    automata_of,
)
from slackwater.engine.query.fields import attributes_of, released_columns
from slackwater.engine.query.monitor_plan import MonitorPlan, MonitorSettings

_ROOM: Final = 1 << 12
"""Initial room for emitted results, and the number of events for which room is made at once."""
_KEPT_NS: Final = 1_000_000_000
"""Without a horizon, results stay retractable for at least this long [ns].

They stay longer under larger clock errors. The minimum allows for a clock with a larger error than
any so far.
"""
_OF_EVENT: Final = ("ref", "unc", "source", "clock", "epoch", "seq", "type")
_NO_PROGRESS: Final = TraceProgress(np.empty(0, np.int64), np.full(1, -LATEST))
_READ: Final = {"release", "status", "ts", "te", *_OF_EVENT}


class MonitorOperator(Restorable):
    """Runs the automata of ``plan`` over every trace of one site; ``store``: the traces."""

    state_fields = (
        "store", "_counts", "_clock", "_now", "_rows", "_unknown_until", "_progress", "_widest",
        "_settled", "_kept",
    )  # fmt: skip

    def __init__(
        self, plan: MonitorPlan, site: str, settings: MonitorSettings | None = None
    ) -> None:
        settings = settings or MonitorSettings()
        automata = automata_of(plan)
        self.plan, self.site = plan, site
        self._alphabet, both = automata.alphabet, automata.encoded
        self._allowed = _allowed(automata.alphabet.names, both.table, both.broken)
        self._tables = _tables(both, self._allowed, by_types=plan.by_types)
        self._timeout, self._horizon = plan.timeout_ns or 0, settings.horizon_ns
        if plan.workdays is not None:
            starts, ends = (np.array(each) for each in workdays(plan.workdays.zone))
            self._timeout = plan.workdays.number
            self._tables = self._tables._replace(day_starts=starts, day_ends=ends)
        self._keys = GroupKeys((plan.trace,), plan.name)
        self.store = OpenTraces(rewrites=self._horizon is not None)
        self._clock = self._now = INT_MIN
        self._progress, self._widest, self._settled, self._kept = INT_MIN // 2, 0, INT_MIN, INT_MIN
        self._rows = 0
        self._by_others = plan.trace.name not in (SOURCE, CLOCK)
        """Whether a trace may have events of several clocks."""
        self._unknown_until = -LATEST
        """Column ``MIXED`` of the last row; -``LATEST`` if each trace has one clock."""
        self._emitted = np.zeros(0, EMITTED)
        self._counts = dict.fromkeys(("untraced", "late_dropped", "over"), 0)

    @property
    def types(self) -> tuple[str, ...] | None:
        # Events that the ordering operator dropped as late rewrite traces, too.
        return self._alphabet.types if self._horizon is None else None

    def required_columns(self) -> set[str]:
        return _READ | released_columns(attributes_of(self.plan))

    def process(self, released: Released) -> Sequence[Any]:
        columns = released.columns
        again = self._refuted(released) if len(released.refuted.by) else ()
        symbols = self._alphabet.read(released)
        if self._horizon is None:
            self._leave_out(symbols, columns["status"] == LATE_DROPPED, "late_dropped")
        keys, nulls = self._keys.codes(released)
        if len(nulls):
            self._leave_out(symbols, nulls != 0, "untraced")
        numbers = np.arange(self._rows, self._rows + released.n)
        self._rows += released.n
        widest = np.maximum.accumulate(np.append(self._widest, columns["unc"]))
        moves = moves_of(released, self._now, widest) if self._timeout else None
        settled, kept = self._settled_before(columns, widest)
        found: list[tuple[np.ndarray, SoFar]] = []
        until = np.append(columns.get(MIXED, np.full(released.n, -LATEST)), self._unknown_until)
        if not self._by_others:
            until[:] = -LATEST
        progress = moves.progress(until) if moves is not None else _NO_PROGRESS
        if (symbols >= 0).any():
            read = {name: columns[name] for name in _OF_EVENT}
            read[CLOCK] = columns.get(STAMPED_BY, columns[CLOCK])
            doubt = _doubt(columns, by_others=self._by_others)
            events = TraceEvents(
                symbol=symbols, number=numbers, doubt=doubt, **read, **_ends(released)
            )
            key, now = np.ascontiguousarray(keys[:, 0]), np.zeros(released.n, np.int64)
            now = now if moves is None else moves.before
            self._follow(key, events, settled, kept, now, progress, found)
        if moves is not None and len(moves.to):
            self._now = int(moves.to[-1])
            self._sweep(progress, found)
        if self._horizon is not None and released.n:
            self._clock = max(self._clock, int(columns["ref"].max()))
            self._kept = min(self._limit(), self._settled)
            self.store.settle(self._kept, self._timeout, self._tables)
        self.store.settle_recent(self._kept)
        rest = (self._timeout, self._tables)
        self._counts["over"] += self.store.forget(self._ended_before(), *rest)
        results = self._results(found, released, moves)
        if released.n:
            self._unknown_until = int(until[-2])
        if not len(again):
            return results
        return ResultPieces([again, *([results] if len(results) else [])])

    def _refuted(self, released: Released) -> Sequence[Any]:
        """Widen the errors of refuted clocks; re-evaluate alerts whose events are buffered."""
        of, store, first, room = released.refuted, self.store, 0, 0
        wider = WiderErrors(of.clock, of.epoch, of.by, of.low, of.high)
        self._widest = min(self._widest + int(of.by.max()), UNC_MAX_NS)
        store.widen_recent(min(int(of.by.max()), UNC_MAX_NS))
        if self._horizon is None:
            widen(store.traces, store.open, wider)
            return ()
        found: list[tuple[np.ndarray, SoFar]] = []
        while first < store.open:
            store.make_room(3 * (room + 2))
            self._make_room(room)
            rest = (self._kept, self._now, self._timeout, self._tables, store.pool, store.recent)
            first, rows, room = judge_again(
                first, store.traces, store.open, wider, *rest, store.kept(), self._emitted
            )
            self._drain(rows, found)
        return self._results(found, released, None, of)

    def _make_room(self, events: int) -> None:
        """Make room for the results of a trace with ``events`` events, and for retractions."""
        most = MOST_RESULTS * (events + 2)
        self.store.make_recent_room(max(most, (MOST_RESULTS + 2) * AT_ONCE))
        room = 2 * max(most, len(self.store.recent.results) + MOST_RESULTS)
        if room > len(self._emitted):
            self._emitted = np.zeros(max(_ROOM, 2 * room), EMITTED)

    def _leave_out(self, symbols: np.ndarray, rows: np.ndarray, why: str) -> None:
        """Ignore ``rows``, and count those with a symbol under ``why``."""
        left_out = rows & (symbols >= 0)
        self._counts[why] += int(left_out.sum())
        symbols[left_out] = IGNORED

    def _limit(self) -> int:
        """Return the time before which events rewrite nothing [ns]."""
        if self._horizon is None:
            return INT_MAX
        return self._clock - self._horizon if self._clock > INT_MIN + self._horizon else INT_MIN

    def _settled_before(
        self, columns: Mapping[str, np.ndarray], widest: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return two limits per row, as known before the row [ns].

        The first: no clock error can place an event before it. The second: results before it are
        not retracted.
        """
        in_order = np.where(columns["status"] == IN_ORDER, columns["ref"], INT_MIN // 2)
        progress = np.maximum.accumulate(np.append(self._progress, in_order))
        settled = np.maximum.accumulate(np.append(self._settled, progress - 2 * widest))[1:]
        since = progress - np.maximum(2 * widest, _KEPT_NS)
        kept = np.maximum.accumulate(np.append(self._kept, since))[1:]
        self._progress, self._widest = int(progress[-1]), int(widest[-1])
        self._settled, self._kept = int(settled[-1]), int(kept[-1])
        return np.asarray(settled[:-1]), np.asarray(kept[:-1])

    def _ended_before(self) -> int:
        """Return the time before which ended traces may be dropped [ns]."""
        if self._horizon is None:
            return self._settled
        return min(max(self._limit(), INT_MIN + self._widest) - self._widest, self._settled)

    def _follow(
        self, keys: np.ndarray, events: TraceEvents, settled: np.ndarray, kept: np.ndarray,
        now: np.ndarray, progress: TraceProgress, found: list[tuple[np.ndarray, SoFar]],
    ) -> None:  # fmt: skip
        """Apply every event to its trace."""
        limits = np.empty(0, np.int64)
        if self._horizon is not None:
            clock = np.maximum.accumulate(np.append(self._clock, events.ref))[:-1]
            limits = np.maximum(clock, INT_MIN + self._horizon) - self._horizon
            kept = np.minimum(limits, settled)
        store, first, room, entry = self.store, 0, 0, np.empty(len(keys), np.int32)
        while True:
            store.make_room(min(_ROOM, len(keys) - first) + 3 * (room + 2))
            store.settle_recent(int(kept[first]))
            self._make_room(room)
            keyed = store.keyed(keys, entry)
            rest = (self._timeout, self._tables, events, store.pool, store.recent)
            if self._horizon is None:
                first, rows = follow(
                    first, keyed, now, progress, settled, kept, *rest, self._emitted
                )
            else:
                first, rows, room = follow_and_rewrite(
                    first, keyed, now, progress, limits, kept, *rest, store.kept(), self._emitted
                )
            self._drain(rows, found)
            if first == len(entry):
                return

    def _sweep(self, progress: TraceProgress, found: list[tuple[np.ndarray, SoFar]]) -> None:
        """End the traces whose timeout has passed."""
        store, first = self.store, 0
        while first < store.open:
            self._make_room(0)
            rest = (self._timeout, self._tables, store.recent, self._emitted, first)
            first, rows = sweep(store.traces, store.open, self._now, progress, *rest)
            self._drain(rows, found)

    def _drain(self, rows: int, found: list[tuple[np.ndarray, SoFar]]) -> None:
        """Copy the first ``rows`` emitted results and their events, before these move."""
        if rows:
            emitted = copy_of(self._emitted[:rows])
            found.append((emitted, so_far(emitted["path"], self.store.pool.nodes)))

    def _results(
        self, found: list[tuple[np.ndarray, SoFar]], released: Released, moves: Moves | None,
        refuted: Refuted | None = None,
    ) -> Sequence[Any]:  # fmt: skip
        """Return the alerts of ``found``, in order.

        ``refuted``: the refutation that caused them; they then precede all rows.
        """
        if not found:
            return ()
        emitted = np.concatenate([rows for rows, _ in found])
        lists = lists_of([events for _, events in found], released.strings)
        at, row = np.zeros(len(emitted), np.int64), emitted["row"]
        place, deadline, number = PLACES * row, np.zeros_like(row), np.zeros_like(row)
        later = row == LATER
        if refuted is not None:
            at[:], place[:], number = refuted.at, -1, emitted["number"]
        else:
            at[~later] = released.columns["release"][row[~later]]
        if refuted is None and later.any():
            assert moves is not None, "a time ran out by progress"
            passing = moves.passing(emitted["due"][later])
            at[later], place[later] = moves.at[passing], moves.place[passing]
            deadline[later], number[later] = emitted["due"][later], emitted["number"][later]
        order = np.lexsort((number, deadline, place))
        emitted, lists = emitted[order], lists.take(pa.array(order))
        traces = self._keys.columns(np.zeros(len(emitted), np.int64), emitted["key"][:, None])
        columns = alert_columns(
            emitted, at[order], lists, traces[self.plan.trace.name], self._allowed, released.strings
        )
        return Alerts(columns, self.plan.name, self.site, self.plan.constraint)

    def advance(self, now: int) -> Sequence[Any]:  # noqa: ARG002 - progress comes with events
        return ()

    def finish(self, at: int) -> Sequence[Any]:  # noqa: ARG002 - the input ends, not the traces
        return ()

    def counters(self) -> dict[str, int]:
        over, beyond = self.store.over(), {}
        if self._horizon is not None:
            beyond = {"beyond_horizon": self.store.beyond}
        counts = {**self._counts, **beyond, "over": self._counts["over"] + over}
        return {**counts, "open": self.store.open - over}

    def codes(self) -> np.ndarray:
        keys = self.store.traces["key"][: self.store.open]
        return np.concatenate((self._keys.used(keys[:, None]), self.store.codes()))

    def snapshot(self) -> dict[str, Any]:
        state = super().snapshot()
        traces = state["store"]["traces"]["key"][:, None]
        return state | {"keys": self._keys.snapshot(traces, np.zeros(0, np.int64))}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._keys.restore(state["keys"])


def _ends(released: Released) -> dict[str, np.ndarray]:
    """Return where events end, and the latest end with the clock error at that time [ns]."""
    columns = released.columns
    long = columns["te"] - columns["ts"]
    end = columns["ref"] + long
    unc = np.where(long > 0, np.maximum(columns["unc"], released.bound.at(end)), columns["unc"])
    return {"end": end, "latest": end + unc}


def _doubt(columns: Mapping[str, np.ndarray], *, by_others: bool) -> np.ndarray:
    """Return the bits ``OTHERS PERHAPS NOBODY_KNOWS`` of each event (``constraint.traces``).

    ``by_others``: whether a trace may have events of several clocks.
    """
    found = np.zeros(len(columns["ref"]), np.int8)
    if MIXED in columns:
        mixed = columns["ref"] - columns["unc"] <= columns[MIXED]
        found[mixed] = OTHERS | NOBODY_KNOWS if by_others else OTHERS
    if CHANCE in columns:
        chance = columns[CHANCE]
        found |= np.where(
            chance == UNKNOWN, NOBODY_KNOWS, np.where(chance == 1, 0, PERHAPS)
        ).astype(np.int8)
    return found


def _tables(both: Encoded, allowed: list[str], *, by_types: bool) -> TraceTables:
    emits = np.zeros(3, np.bool_)
    emits[UNSATISFIABLE] = True
    emits[SATISFIABLE] = by_types
    same = np.unique(np.array(allowed), return_inverse=True)[1].reshape(-1)
    return TraceTables(
        both.table, both.verdict, both.broken, both.ended, both.complete, both.moves, emits, same,
        np.empty(0, np.int64), np.empty(0, np.int64),
    )  # fmt: skip


def _allowed(names: list[str], table: np.ndarray, broken: np.ndarray) -> list[str]:
    """Return for each state the names of the symbols that do not break the constraint."""
    found = []
    for row in ~broken[table]:
        activities = [name for name, fine in zip(names, row.tolist(), strict=True) if fine]
        found.append(", ".join(activities) or "nothing more")
    return found
