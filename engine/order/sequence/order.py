"""``sequence`` + ``merge``: order by sequence numbers, then by reference time (R19 3.2.1, 3.2.2).

It adds latency only while numbers are missing. Source: Rajendran 2019, chapters 3 and 4.

When not to use: sources that cannot number their events (use a slack order), or whose numbers
are not in event-time order.

The state is the pending rows and one record per lane; the kernels' rings, queues and trees are
rebuilt from them at every call, so a snapshot is small plain data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Self

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.prediction import SyncPoint
from slackwater.engine.core.clocks.reference import SourceClocks
from slackwater.engine.core.columns import VALID_PREFIX, Columns, join
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import Gaps, Progress, Strings
from slackwater.engine.core.units import parse_duration
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, NONE, numbers_of, one, records_at
from slackwater.engine.order.base import (
    TIMES,
    Guards,
    Order,
    Ordered,
    OrderSettings,
    OrderSite,
    choice,
    only_known,
    share,
)
from slackwater.engine.order.sequence.lanes import LaneTable
from slackwater.engine.order.sequence.run import (
    flush,
    move_runs,
    new_rows,
    place_rings,
    place_runs,
    run,
    survivors,
)
from slackwater.engine.order.sequence.state import (
    COUNTERS,
    EVENT,
    MODE_FIXED,
    MODE_QUANTILE,
    MODE_R19,
    MODE_R19_CODE,
    NODE,
    NOTE,
    NOTE_GAP,
    NOTE_PROGRESS,
    NOTE_QUARANTINE,
    PROGRESS,
    ROW,
    RUN,
    STATE,
    Sequencer,
)
from slackwater.engine.order.sequence.timeouts import memory_window, resolution_bits, silence_window

FORGET_EVERY: Final = 16_384
"""The number of records of a site between two checks for forgotten sources."""
_SOURCES_MOST: Final = 1_000_000
_MODES: Final = {
    "r19": MODE_R19, "r19-code": MODE_R19_CODE, "fixed": MODE_FIXED, "quantile": MODE_QUANTILE,
}  # fmt: skip
_FACTORS: Final = {"ms": 1, "us": 10**3, "ns": 10**6, "ps": 10**9}
"""Unit of event times -> ms by this unit: ``r19-code`` takes a number of units for one of ms."""
_ROW_COLUMNS: Final = {
    r.SEQ: "seq", r.INCARNATION: "inc", r.TS: "ts", r.ARRIVAL: "arrival", "epoch": "epoch",
}  # fmt: skip
"""The columns in the kernels' rows; all others are payload."""
_EVENT_COLUMNS: Final = ("release", "ref", "unc", "status")
"""Columns that the kernel writes in release order."""
_NOT_PAYLOAD: Final = (r.KIND, r.TE, r.SOURCE, r.STREAM)
_NO_ROWS: Final = np.empty(0, ROW)
_NO_INTS: Final = np.empty(0, np.int64)
_NO_KINDS: Final = np.empty(0, np.int8)
_NO_CODES: Final = np.empty(0, np.int32)
_LENGTH: Final = "te_length"
"""``te - ts``; 0 for a frame without ``te``."""


@dataclass(frozen=True, slots=True)
class SequenceSettings(OrderSettings):
    """Settings of ``sequence`` (R19's seven parameters, and the choice of timeout).

    ``timeout``: ``quantile`` | ``r19`` | ``r19-code`` | ``fixed``; ``quantile``: target share of
    events in time; ``fixed_ns``: the fixed timeout; ``latency_ns``: the latency threshold, which
    caps every timeout but the fixed one; ``interval_factor``: what ``r19-code`` multiplies
    intervals of event times by; ``alpha_milli``, ``beta_milli``: smoothing factors in 1/1000;
    ``late``: ``drop`` | ``pass``; ``residual``: ``emit`` | ``drop``; ``time``: ``ref`` | ``ts`` (as
    if clocks had never been compared) | ``hold`` (each offset until the next, as R19).
    ``sources``: how many are remembered, those heard last; see ``Sequence.forget``.
    """

    timeout: str = "quantile"
    quantile_ppm: int = 999_000
    fixed_ns: int = 0
    latency_ns: int = 500_000_000
    interval_factor: int = 1
    alpha_milli: int = 600
    beta_milli: int = 600
    late: str = "drop"
    residual: str = "emit"
    time: str = "ref"
    sources: int = 10_000

    asks_numbers = True

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        keys = ("timeout", "latency", "alpha", "beta", "late", "residual", "time", "sources")
        only_known(pairs, keys)
        sources = pairs.get("sources", "10000")
        if not sources.isdecimal() or not 1 <= int(sources) <= _SOURCES_MOST:
            raise UserError(f"sources={sources}: use a whole number from 1 to {_SOURCES_MOST:,}")
        kind, _, value = pairs.get("timeout", "quantile:0.999").partition(":")
        if kind not in _MODES or (kind == "r19" and value):
            raise UserError(
                f"timeout={pairs['timeout']}: use quantile:SHARE, r19, r19-code:UNIT or "
                "fixed:DURATION"
            )
        if kind == "r19-code" and (value or "ms") not in _FACTORS:
            raise UserError(
                f"timeout={pairs['timeout']}: UNIT, of the event times as its author's program "
                f"reads them, is one of {', '.join(_FACTORS)}"
            )
        smoothing = "0.5" if kind == "r19-code" else "0.6"
        if kind == "fixed" and not value:
            raise UserError("timeout=fixed needs a duration, as in fixed:10ms")
        return cls(
            timeout=kind,
            quantile_ppm=share(value or "0.999", "quantile", 10**6)
            if kind == "quantile"
            else 999_000,
            fixed_ns=parse_duration(value, time_unit) if kind == "fixed" else 0,
            latency_ns=parse_duration(pairs.get("latency", "500ms"), time_unit),
            interval_factor=_FACTORS[value or "ms"] if kind == "r19-code" else 1,
            alpha_milli=share(pairs.get("alpha", smoothing), "alpha", 1000),
            beta_milli=share(pairs.get("beta", smoothing), "beta", 1000),
            late=choice(pairs, "late", ("drop", "pass")),
            residual=choice(pairs, "residual", ("emit", "drop")),
            time=choice(pairs, "time", TIMES),
            sources=int(sources),
        )

    def build(self, site: OrderSite) -> Order:
        return Sequence(self, site.clocks, site.guards, site.columns_read)


@lru_cache(maxsize=64)
def _first_state(settings: SequenceSettings, guards: Guards) -> np.ndarray:
    """The initial STATE of a site."""
    tail_ppm = 1_000_000 - settings.quantile_ppm
    return one(
        STATE, mode=_MODES[settings.timeout], fixed=settings.fixed_ns, latency=settings.latency_ns,
        alpha=settings.alpha_milli, beta=settings.beta_milli, tail_ppm=tail_ppm,
        late_pass=settings.late == "pass", residual_drop=settings.residual == "drop",
        guard=-1 if guards.guard_ns is None else guards.guard_ns,
        default_uncertainty=guards.default_uncertainty_ns, window=memory_window(tail_ppm),
        bits=resolution_bits(settings.latency_ns), interval_factor=settings.interval_factor,
        silence_window=silence_window(tail_ppm),
        clock=INT_MIN, frontier=INT_MIN, blocker=NONE, since=INT_MAX,
    )  # fmt: skip


class Sequence(Restorable):
    """The ordering operator ``sequence`` with its merge over all lanes of a site."""

    state_fields = ("_rows", "_payload", "_state", "_row_bytes", "_records", "_lanes")

    def __init__(
        self,
        settings: SequenceSettings,
        clocks: SourceClocks,
        guards: Guards,
        columns_read: set[str] | None = None,
    ) -> None:
        self._clocks = clocks
        self._columns_read = columns_read
        self._lanes = LaneTable(clocks.strings)
        self._rows = _NO_ROWS
        self._payload: Columns = {}
        self._state = _first_state(settings, guards).copy()
        self._rings = np.empty(0, np.int32)
        self._kept = settings.sources
        self._records = 0
        self._row_bytes = 0

    @property
    def buffered_max(self) -> int:
        """The most events buffered at once so far."""
        return int(self._state["most"][0])

    @property
    def buffered_max_bytes(self) -> int:
        """The most bytes of buffered events so far: their rows and payload columns."""
        return self.buffered_max * (ROW.itemsize + self._row_bytes)

    def announce(self, sync: SyncPoint) -> None:
        """Create the lane of a sync record with a first number, before any event."""
        if sync.first_seq is not None:
            self._lanes.announce(sync, self._state)

    def process(self, columns: Columns, rows: int) -> Ordered:
        """Records in arrival order; see ``engine.order.base.Order``.

        An event without a number is merged once its lane waits for no number.
        """
        pending = len(self._rows)
        all_rows = np.empty(pending + rows, ROW)
        if pending:
            numbers_of(all_rows)[:pending] = numbers_of(self._rows)
        new_rows(
            all_rows[pending:], self._lanes.of(columns, rows, self._state), columns[r.SOURCE],
            columns[r.SEQ], columns[r.TS], columns[r.ARRIVAL],
            columns.get(r.INCARNATION, _NO_INTS), columns.get(r.KIND, _NO_KINDS),
            columns.get(r.TYPE, _NO_CODES),
        )  # fmt: skip
        payload = {
            name: column
            for name, column in columns.items()
            if name not in _ROW_COLUMNS and name not in _NOT_PAYLOAD and self._is_read(name)
        }
        if r.TE in columns and self._is_read(r.TE):
            payload[_LENGTH] = columns[r.TE] - columns[r.TS]
        if pending:
            if (r.CLOCK in payload) != (r.CLOCK in self._payload):
                self._payload.setdefault(r.CLOCK, self._own_clocks())
                payload.setdefault(r.CLOCK, columns[r.SOURCE])
            payload = join([self._payload, payload], [pending, rows])
        clocks = int(max(columns[r.SOURCE].max(initial=-1), self._clock(payload).max(initial=-1)))
        ordered = self._call(all_rows, payload, pending, clocks + 1, last=False)
        self._records += rows
        return ordered

    def _own_clocks(self) -> np.ndarray:
        """The code of each buffered row's source."""
        return np.asarray(self._lanes.tables["source"][self._rows["lane"]], np.int32)

    @staticmethod
    def _clock(payload: Columns) -> np.ndarray:
        """Codes of the rows' clocks; empty: each row's clock is its source."""
        return payload.get(r.CLOCK, _NO_CODES)

    def cuts(self, columns: Columns, rows: int) -> list[int]:
        """The places where ``columns`` are cut and ``forget`` is called, and their end.

        That is after every ``FORGET_EVERY`` records of the site; only the end while the sources,
        with the new ones of these rows, do not exceed the limit.
        """
        if len(self._clocks.strings.texts) <= self._kept:
            return [rows]  # there are no more sources than texts
        known = self._lanes.known(int(columns[r.SOURCE].max(initial=-1)) + 1 if rows else 0)
        heard = np.zeros(len(known), bool)
        if rows:
            heard[columns[r.SOURCE]] = True
            heard[-1] = False  # records without a source
        if (known | heard).sum() <= self._kept:
            return [rows]
        first = FORGET_EVERY - self._records % FORGET_EVERY
        return [*range(first, rows, FORGET_EVERY), rows]

    def forget(self) -> list[int]:
        """After ``FORGET_EVERY`` records: the codes of sources that are forgotten now.

        Beyond the settings' ``sources``, the sources heard least recently (by arrival, then by
        name) are forgotten, if no event of theirs is buffered. A pure function of the records so
        far. A source that returns starts as a new one.
        """
        if self._records % FORGET_EVERY:
            return []
        return self._lanes.forget(self._kept, self._rows, self._state)

    def sources(self) -> dict[str, int]:
        """Counts of forgotten sources, and of those that may have returned."""
        of = self._lanes.forgotten
        return {
            "sources_forgotten": of.sources, "sources_may_have_returned": of.may_have_returned,
        }  # fmt: skip

    def flush(self) -> Ordered:
        """End of the input: every buffered event is released at the last arrival."""
        return self._call(self._rows, self._payload, len(self._rows), 0, last=True)

    def _is_read(self, column: str) -> bool:
        is_read = self._columns_read is None or column in self._columns_read
        return is_read or column == r.CLOCK or column.startswith(VALID_PREFIX)

    def _call(
        self, rows: np.ndarray, payload: Columns, pending: int, clocks: int, last: bool
    ) -> Ordered:
        total = len(rows)
        s = self._sequencer(rows, self._clock(payload), clocks)
        for name in ("events", "notes", "gone"):
            self._state[name] = 0
        if last:
            flush(s, total)
        else:
            run(s, pending, total)
        self._lanes.runs = np.empty(self._lanes.tables["missing_n"].sum(), RUN)
        move_runs(self._lanes.tables, self._lanes.runs, s.runs, True)
        keep = np.empty(total, np.int64)
        keep = keep[: survivors(s, keep)]
        ordered = self._ordered(s, payload)
        self._rows = records_at(rows, keep) if len(keep) else _NO_ROWS
        self._payload = {name: column[keep] for name, column in payload.items()}
        self._row_bytes = max(self._row_bytes, sum(c.itemsize for c in payload.values()))
        return ordered

    def _sequencer(self, rows: np.ndarray, clock: np.ndarray, codes: int) -> Sequencer:
        """The arrays of the kernels, with a ring per lane of the size that this call may need."""
        clocks = self._lanes.link(self._clocks, codes)
        lanes = len(self._lanes.tables)
        low, high = np.empty((2, lanes), np.int64)
        offset = place_rings(rows, self._lanes.tables, low, high)
        if len(self._rings) < offset:
            self._rings = np.empty(offset, np.int32)
        runs = np.empty(place_runs(rows, self._lanes.tables), RUN)
        move_runs(self._lanes.tables, self._lanes.runs, runs, False)
        size = 1 << max(1, (max(lanes, 2) - 1).bit_length())
        notes = 4 * len(rows) + 6 * lanes + 16
        return Sequencer(
            rows, self._lanes.tables, self._lanes.memories, runs, self._rings[:offset],
            np.empty(2 * size, NODE), np.empty(2 * size, NODE), clocks, clock, self._state,
            np.empty(len(rows), EVENT), np.empty(notes, NOTE),
        )  # fmt: skip

    def _ordered(self, s: Sequencer, payload: Columns) -> Ordered:
        """Gather what the kernel released."""
        rows, state = s.rows, s.state[0]
        events, notes = s.events[: state["events"]], s.notes[: state["notes"]]
        index, lanes = events["row"].astype(np.intp), events["lane"].astype(np.intp)
        taken = self._gather(rows, payload, index, lanes)
        taken.update({name: events[name].copy() for name in _EVENT_COLUMNS})
        if state["residual_drop"]:
            # Dropped by the merge, not as a late number.
            taken["by_merge"] = rows["late"][index] == 0
        is_gap, is_step = notes["kind"] == NOTE_GAP, notes["kind"] == NOTE_PROGRESS
        gap, step = notes[is_gap], notes[is_step]
        bad = notes[notes["kind"] == NOTE_QUARANTINE]
        quarantined = {}
        if len(bad):
            where = bad["row"]
            lanes = rows["lane"][where]
            quarantined = {
                **self._gather(rows, payload, where, lanes),
                "reason": bad["reason"].copy(),
            }
            quarantined.update({name: rows[name][where] for name in ("ref", "unc")})
        of_gap = self._lanes.tables[gap["lane"]]
        return Ordered(
            len(events),
            taken,
            Progress(*(step[name].copy() for name in ("released", "frontier", "at"))),
            Gaps(
                gap["released"].copy(), of_gap["source"].astype(np.int32),
                of_gap["stream"].astype(np.int32), gap["inc"].copy(),
                gap["first"].copy(), gap["count"].copy(), gap["low"].copy(), gap["high"].copy(),
                np.cumsum(is_step)[is_gap],
            ),
            quarantined,
        )  # fmt: skip

    def _gather(
        self, rows: np.ndarray, payload: Columns, index: np.ndarray, lanes: np.ndarray
    ) -> Columns:
        """The columns that queries read, of the rows at ``index``, of ``lanes``."""
        taken = {
            name: rows[field].take(index, mode="clip").astype(np.int64, copy=False)
            for name, field in _ROW_COLUMNS.items()
            if self._is_read(name)
        }
        taken[r.SOURCE] = self._lanes.tables["source"].astype(np.int32)[lanes]
        if self._is_read(r.STREAM):
            taken[r.STREAM] = self._lanes.tables["stream"].astype(np.int32)[lanes]
        # "clip" only skips a check: every index is valid.
        taken.update({n: column.take(index, mode="clip") for n, column in payload.items()})
        if self._is_read(r.TE):
            length = taken.pop(_LENGTH, None)
            ts = rows["ts"][index]
            taken[r.TE] = ts if length is None else ts + length
        return taken

    def counters(self) -> list[dict[str, Any]]:
        """Per (source, stream): counts of events by outcome, timeouts [ns], and progress."""
        return self._lanes.counters((*COUNTERS, *PROGRESS), int(self._state["clock"][0]))

    def codes(self) -> np.ndarray:
        """Codes of texts that are in use: int32 columns of the payload have only these."""
        columns = [column for column in self._payload.values() if column.dtype == np.int32]
        return np.concatenate([self._lanes.codes(), *columns])

    def adopt(self, strings: Strings) -> None:
        """Replace the table of texts by ``strings``, which has the same codes for texts in use."""
        self._lanes.adopt(strings)
