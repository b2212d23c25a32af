"""``none``: events pass in arrival order, corrected to reference time but not reordered.

The baseline of every comparison: the input of a query without disorder handling. Promises and ends
of streams pass once the numbers below theirs have arrived.

When not to use: if the query's operator cannot handle disorder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.prediction import SyncPoint
from slackwater.engine.core.clocks.reference import SourceClocks
from slackwater.engine.core.columns import Columns, clock_codes
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import Gaps, Progress, Promises, Strings
from slackwater.engine.core.units import parse_duration
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX, NONE, Record, one, record
from slackwater.engine.order.base import (
    DUPLICATES,
    TIMES,
    Correction,
    KeepsSources,
    Order,
    Ordered,
    OrderSettings,
    OrderSite,
    choice,
    only_known,
)
from slackwater.engine.order.sequence.state import MAX_RING

# When punctuations and ends of stream with numbers apply, in a stream that is not ordered.
#
# One with number n follows the events below n of its source and stream, and may overtake them in
# transit. It applies once these have arrived (L09 VI-A: a promise is released "based on
# acknowledged receipt of the events in question"), or are declared missing: ``wait`` after its
# arrival, when the source restarts, or when numbers ``WINDOW`` above have arrived. Numbers begin
# with that of a ``sync``, with a promise of number 0, or else with the first to arrive. As at the
# gateway (``engine.gateway.peers``), of the waiting ones of a lane and type the first is kept, so
# that it applies as early as possible, and the newest, which promises most.


_EVENT: Final = int(r.Kind.EVENT)
_POG: Final = int(r.Kind.POG)
_EOS: Final = int(r.Kind.EOS)
WINDOW: Final = 1024
"""Numbers above the next one that are remembered, a power of two."""
ANY_TYPE: Final = -1
_END: Final = -2
"""The type of a waiting end of stream."""

STATE: Final = record("lanes", "waiting", "free", "soonest", "out")
"""``lanes``: number in use. ``waiting``: places of WAITING, used or free; ``free``: the first free
one. ``soonest``: a lower bound of all deadlines. ``out``: number of applied promises in a call.
"""
LANE: Final = np.dtype(
    [
        *((name, "i8") for name in (
            "source", "stream", "incarnation", "next", "other", "waiting", "wants", "unproven",
        )),
        ("closed", "i1"), ("came", "i1", (WINDOW,)),
    ]
)  # fmt: skip
"""A source's stream. ``next``: the lowest number that has not arrived (-1: none has); ``came``:
bits of later numbers that have. ``closed``: 1: it has ended. ``other``: the source's next lane.
``waiting``: the first of its waiting promises; ``wants``: the least number that one waits for.
``unproven``: number of promises that were applied before all their numbers arrived.
"""
WAITING: Final = record(
    "type", "lane", "link", "number", "ref", "deadline",
    "newest_number", "newest_ref", "newest_deadline",
)  # fmt: skip
"""Waiting promises of a lane and type: ``link`` to the lane's next record, the first and the newest
promise (number -1: there is none). A free place has lane -1.
"""


class ProofState(NamedTuple):
    """The state between batches: one STATE, LANE and WAITING records, and ``first``: the first lane
    of each source, by code.
    """

    state: np.ndarray
    lanes: np.ndarray
    waiting: np.ndarray
    first: np.ndarray


class Records(NamedTuple):
    """A batch: columns of all records, and refs of promises. A column of one value applies to all
    records.
    """

    kind: np.ndarray
    source: np.ndarray
    stream: np.ndarray
    seq: np.ndarray
    incarnation: np.ndarray
    type: np.ndarray
    ref: np.ndarray
    arrival: np.ndarray


class ProofCounts(NamedTuple):
    """Applied promises: the record before which each applies, its type, source, ref and instant."""

    place: np.ndarray
    type: np.ndarray
    source: np.ndarray
    ref: np.ndarray
    at: np.ndarray


@inline
def _at(column: np.ndarray, row: int) -> int:
    return column[min(row, len(column) - 1)]  # type: ignore[no-any-return]


@inline
def _emit_promise(
    b: ProofState, out: ProofCounts, place: int, kind: int, source: int, ref: int, at: int
) -> None:
    number = b.state[0].out
    b.state[0].out = number + 1
    out.place[number], out.type[number], out.source[number] = place, kind, source
    out.ref[number], out.at[number] = ref, at


@inline
def _counts(
    b: ProofState, out: ProofCounts, lane: int, kind: int, ref: int, place: int, at: int
) -> None:
    """Apply a promise; the end of a source applies once all its streams have ended."""
    of = b.lanes[lane]
    if kind != _END:
        _emit_promise(b, out, place, kind, of.source, ref, at)
        return
    of.closed = 1
    other = b.first[of.source]
    while other != NONE:
        if not b.lanes[other].closed:
            return
        other = b.lanes[other].other
    _emit_promise(b, out, place, ANY_TYPE, of.source, INT_MAX, at)


@inline
def find_lane(b: ProofState, source: int, stream: int, incarnation: int) -> int:
    """The lane, created if there is none; -1: the source is in a later incarnation."""
    lane = b.first[source]
    while lane != NONE and b.lanes[lane].stream != stream:
        lane = b.lanes[lane].other
    if lane == NONE:
        lane = b.state[0].lanes
        b.state[0].lanes = lane + 1
        of = b.lanes[lane]
        of.source, of.stream, of.incarnation = source, stream, incarnation
        of.next, of.waiting, of.wants, of.unproven = NONE, NONE, INT_MAX, 0
        of.came[:] = 0
        of.closed = 0
        of.other = b.first[source]
        b.first[source] = lane
    return lane if incarnation >= b.lanes[lane].incarnation else NONE


@kernel
def restart_lane(b: ProofState, lane: int, incarnation: int) -> None:
    """Start a new incarnation of a lane; the numbers of the old one are declared missing."""
    of = b.lanes[lane]
    of.incarnation, of.next, of.wants = incarnation, NONE, INT_MAX
    of.came[:] = 0
    of.closed = 0
    while of.waiting != NONE:
        place = of.waiting
        of.waiting = b.waiting[place].link
        _free(b, place)


@inline
def _free(b: ProofState, place: int) -> None:
    b.waiting[place].link, b.waiting[place].lane = b.state[0].free, NONE
    b.state[0].free = place


@inline
def _advance(of: Record) -> None:
    """Advance ``next`` over the numbers that have arrived."""
    at = of.next
    while of.came[at & (WINDOW - 1)]:
        of.came[at & (WINDOW - 1)] = 0
        at += 1
    of.next = at


@kernel
def _skip_below(of: Record, number: int) -> None:
    """Declare the numbers below ``number`` missing."""
    for at in range(max(of.next, 0), min(number, max(of.next, 0) + WINDOW)):
        of.came[at & (WINDOW - 1)] = 0
    of.next = number
    _advance(of)


@kernel
def _apply_waiting(b: ProofState, out: ProofCounts, lane: int, place: int, at: int) -> None:
    """Apply the waiting promises of a lane whose numbers have arrived."""
    of, state = b.lanes[lane], b.state[0]
    of.wants = INT_MAX
    before, entry = NONE, of.waiting
    while entry != NONE:
        each = b.waiting[entry]
        link, newest = each.link, 0 <= each.newest_number <= of.next
        if newest or each.number <= of.next:
            ref = max(each.ref, each.newest_ref) if newest else each.ref
            _counts(b, out, lane, each.type, ref, place, at)
            each.number = NONE if newest else each.newest_number
            each.ref, each.deadline = each.newest_ref, each.newest_deadline
            each.newest_number = NONE
        if each.number == NONE:
            if before == NONE:
                of.waiting = link
            else:
                b.waiting[before].link = link
            _free(b, entry)
        else:
            of.wants = min(of.wants, each.number)
            state.soonest = min(state.soonest, each.deadline)
            before = entry
        entry = link


@kernel
def _expire(b: ProofState, out: ProofCounts, place: int, now: int) -> None:
    """Declare numbers missing whose deadlines are before ``now``, in order of deadlines.

    Of equal deadlines the smallest number is first, independent of the places of promises.
    """
    state = b.state[0]
    while state.soonest < now:
        first, number, state.soonest = NONE, INT_MAX, INT_MAX
        for entry in range(state.waiting):
            each = b.waiting[entry]
            if each.lane != NONE and (
                each.deadline < state.soonest
                or (each.deadline == state.soonest and each.number < number)
            ):
                first, number, state.soonest = entry, each.number, each.deadline
        if state.soonest >= now:
            return
        at, lane = state.soonest, b.waiting[first].lane
        b.lanes[lane].unproven += 1
        _skip_below(b.lanes[lane], number)
        _apply_waiting(b, out, lane, place, at)


@inline
def _keep_waiting(
    b: ProofState, lane: int, kind: int, number: int, ref: int, deadline: int
) -> None:
    """Keep a promise; it replaces the newest one of its type."""
    of, state = b.lanes[lane], b.state[0]
    entry = of.waiting
    while entry != NONE and b.waiting[entry].type != kind:
        entry = b.waiting[entry].link
    each = b.waiting[entry]
    if entry == NONE:
        entry = state.free
        if entry == NONE:
            entry = state.waiting
            state.waiting = entry + 1
        else:
            state.free = b.waiting[entry].link
        new = b.waiting[entry]
        new.type, new.lane, new.link = kind, lane, of.waiting
        of.waiting = entry
        new.number, new.ref, new.deadline, new.newest_number = number, ref, deadline, NONE
    elif number == each.number:
        each.ref = max(each.ref, ref)
    elif number < each.number:
        if each.newest_number == NONE:
            each.newest_number, each.newest_ref = each.number, each.ref
            each.newest_deadline = each.deadline
        each.number, each.ref = number, ref
        each.deadline = min(deadline, each.deadline)
    elif number >= each.newest_number:
        known = each.newest_ref if each.newest_number != NONE else ref
        each.newest_number, each.newest_ref = number, max(known, ref)
        each.newest_deadline = deadline
    of.wants = min(of.wants, number)
    state.soonest = min(state.soonest, b.waiting[entry].deadline)


@inline
def _event(b: ProofState, out: ProofCounts, lane: int, number: int, row: int, at: int) -> None:
    """Process an event with a number.

    A late event after the end of its source does not revoke the end: it is emitted again, as an
    event tells the reader that the source is active.
    """
    of = b.lanes[lane]
    next_number = of.next
    if number < next_number:
        if of.closed:
            _counts(b, out, lane, _END, INT_MAX, row + 1, at)
        return
    of.closed = 0
    if next_number in (number, NONE):
        of.next = number + 1
        _advance(of)
    elif number < next_number + MAX_RING:
        if number >= next_number + WINDOW:
            _skip_below(of, number - WINDOW + 1)
        if number > of.next:
            of.came[number & (WINDOW - 1)] = 1
        elif number == of.next:
            of.next = number + 1
            _advance(of)
    if of.wants <= of.next:
        _apply_waiting(b, out, lane, row + 1, at)


@kernel
def prove(b: ProofState, batch: Records, out: ProofCounts, start: int, wait: int) -> int:
    """Process records from ``start`` on; returns the first without room, or their number."""
    state = b.state[0]
    for row in range(start, len(batch.arrival)):
        if state.lanes == len(b.lanes) or state.waiting == len(b.waiting):
            return row
        now, kind, source = batch.arrival[row], _at(batch.kind, row), batch.source[row]
        if state.soonest < now:
            _expire(b, out, row, now)
        if kind == _POG and source < 0:
            _emit_promise(b, out, row, _at(batch.type, row), source, batch.ref[row], now)
        if source < 0 or kind not in (_EVENT, _POG, _EOS):
            continue
        incarnation, number = _at(batch.incarnation, row), batch.seq[row]
        lane = find_lane(b, source, _at(batch.stream, row), incarnation)
        if lane == NONE:
            continue
        of = b.lanes[lane]
        if incarnation > of.incarnation:
            restart_lane(b, lane, incarnation)
        if kind == _EVENT:
            if number >= 0:
                _event(b, out, lane, number, row, now)
            continue
        what = _at(batch.type, row) if kind == _POG else _END
        if number == 0 and of.next == NONE:
            of.next = 0  # numbers begin here
        if number <= max(of.next, 0):
            _counts(b, out, lane, what, batch.ref[row], row, now)
        else:
            deadline = now + wait if now <= INT_MAX - wait else INT_MAX
            _keep_waiting(b, lane, what, number, batch.ref[row], deadline)
    return len(batch.arrival)


# The state of ``none`` between batches.


_FIRST = 2


class Proof(Restorable):
    """Decides when promises apply.

    Args:
        strings: the site's table of texts.
        wait_ns: the time after a promise at which numbers below its own are missing [ns].
    """

    state_fields = ("_book",)

    def __init__(self, strings: Strings, wait_ns: int) -> None:
        self._strings = strings
        self._wait_ns = wait_ns
        self._book = ProofState(
            one(STATE, free=NONE, soonest=INT_MAX), np.zeros(_FIRST, LANE),
            np.zeros(_FIRST, WAITING), np.empty(0, np.int64),
        )  # fmt: skip

    def announce(self, sync: SyncPoint) -> None:
        """Set the first number of a source and stream."""
        if sync.first_seq is None:
            return
        source, stream = (self._strings.code(text) for text in (sync.source, sync.stream))
        self._room()
        lane = find_lane(self._book, source, stream, sync.incarnation)
        if lane < 0:
            return
        of = self._book.lanes[lane]
        if sync.incarnation > of["incarnation"]:
            restart_lane(self._book, lane, sync.incarnation)
        if of["next"] < 0:
            of["next"] = sync.first_seq

    def process(self, columns: Columns, rows: int, ref: np.ndarray) -> ProofCounts:
        """The promises that apply during a batch, each before a record.

        Args:
            columns: of all records in arrival order, as in ``engine.core.columns``.
            rows: number of records.
            ref: int64 (rows,): times of promises on the engine's clock; may be empty without
                promises.
        """

        def column(name: str, default: int, kind: type) -> np.ndarray:
            found = columns.get(name)
            if found is None:
                return np.full(1, default, kind)
            # The kernel is compiled for writable arrays; those of a frame may be read-only.
            return np.require(found, kind, ["C", "W"])

        batch = Records(
            column(r.KIND, _EVENT, np.int8), column(r.SOURCE, -1, np.int32),
            column(r.STREAM, 0, np.int32), column(r.SEQ, -1, np.int64),
            column(r.INCARNATION, 0, np.int64), column(r.TYPE, -1, np.int32), ref,
            column(r.ARRIVAL, 0, np.int64),
        )  # fmt: skip
        state = self._book.state
        room = rows + 2 * int(state["waiting"][0])
        out = ProofCounts(*(np.empty(room, np.int64) for _ in ProofCounts._fields))
        state["out"] = 0
        done = 0
        while done < rows:
            self._room()
            done = prove(self._book, batch, out, done, self._wait_ns)
        said = int(state["out"][0])
        return ProofCounts(*(array[:said] for array in out))

    def unproven(self) -> dict[tuple[int, int], int]:
        """The numbers of promises that were applied before all their numbers arrived, by codes of
        source and stream, without zeros.
        """
        lanes = self._book.lanes[: self._book.state["lanes"][0]]
        return {
            (int(lane["source"]), int(lane["stream"])): int(lane["unproven"])
            for lane in lanes[lanes["unproven"] > 0]
        }

    def _room(self) -> None:
        """Make room for one more lane and one more promise, and for every source's code."""
        book = self._book
        lanes, waiting = int(book.state["lanes"][0]), int(book.state["waiting"][0])
        if lanes == len(book.lanes):
            book = book._replace(lanes=_roomy(book.lanes))
        if waiting == len(book.waiting):
            book = book._replace(waiting=_roomy(book.waiting))
        codes = len(self._strings.texts) + 1
        if codes > len(book.first):
            first = np.full(2 * codes, NONE)
            first[: len(book.first)] = book.first
            book = book._replace(first=first)
        self._book = book


def _roomy(records: np.ndarray) -> np.ndarray:
    """``records`` with twice the room."""
    more = np.zeros(2 * len(records), records.dtype)
    more[: len(records)] = records
    return more


# ``none``: events pass in arrival order, corrected to reference time but not reordered.


_PLACE: Final = "place"


@dataclass(frozen=True, slots=True)
class NoneSettings(OrderSettings):
    """``time``: ``ref`` (offsets, within what sources state) | ``fit`` (offsets follow a line) |
    ``ts`` (none used) | ``hold`` (each held, R19).
    ``wait_ns``: the time after which a promise applies without all numbers below its own.
    ``duplicates``: ``drop`` | ``pass``.
    """

    time: str = "ref"
    wait_ns: int = 1_000_000_000
    duplicates: str = "drop"

    leaves_promises = True

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        only_known(pairs, ("time", "wait", "duplicates"))
        wait_ns = min(parse_duration(pairs.get("wait", "1s"), time_unit), INT_MAX)
        time, duplicates = choice(pairs, "time", TIMES), choice(pairs, "duplicates", DUPLICATES)
        return cls(time, wait_ns, duplicates)

    def build(self, site: OrderSite) -> Order:
        # Everything passes at once: nothing is copied for later.
        correction = Correction(site.clocks, site.guards, self.duplicates)
        return NoOrder(self, site.clocks, correction, len(site.plans))


class NoOrder(Restorable, KeepsSources):
    """The ordering operator ``none``.

    Args:
        settings: the operator's.
        clocks: of the site's sources.
        correction: the preprocessing of events.
        readers: queries that read it; only they need promises.
    """

    state_fields = ("_correction", "_proof")

    def __init__(
        self, settings: NoneSettings, clocks: SourceClocks, correction: Correction, readers: int = 0
    ) -> None:
        self._proof = Proof(clocks.strings, settings.wait_ns) if readers else None
        self._clocks = clocks
        self._correction = correction
        self.buffered_max = self.buffered_max_bytes = 0

    def announce(self, sync: SyncPoint) -> None:
        """Set the number from which on numbers must arrive before a promise applies."""
        if self._proof is not None:
            self._proof.announce(sync)

    def process(self, columns: Columns, rows: int) -> Ordered:
        """Records in arrival order; see ``engine.order.base.Order``."""
        promised = self._promised(columns, rows)
        columns, quarantined = self._correction.take(
            {**columns, _PLACE: np.arange(len(columns[r.TS]))}
        )
        place = columns.pop(_PLACE)
        quarantined.pop(_PLACE, None)
        promises = Promises()
        if promised is not None:
            row = np.searchsorted(place, promised.place)
            promises = Promises(row, promised.type, promised.source, promised.ref, promised.at)
        columns = self._correction.complete(columns)
        n = len(columns[r.TS])
        self._correction.count(columns, "in_order")
        columns.update(release=columns[r.ARRIVAL], status=np.zeros(n, np.int8))
        return Ordered(n, columns, Progress(), Gaps(), quarantined, promises=promises)

    def _promised(self, columns: Columns, rows: int) -> ProofCounts | None:
        """The promises that apply. One without a source is on the engine's clock."""
        if self._proof is None:
            return None
        ref, kind = np.zeros(0, np.int64), columns.get(r.KIND)
        if kind is not None:
            ref, clock = columns[r.TS].copy(), clock_codes(columns)
            named = np.flatnonzero((kind == _POG) & (clock >= 0))
            ref[named], _, _ = self._clocks.correct(clock[named], ref[named], 0)
        return self._proof.process(columns, rows, ref)

    def flush(self) -> Ordered:
        """No event is buffered."""
        return Ordered(0, {}, promises=Promises())

    def counters(self) -> list[dict[str, Any]]:
        """Per (source, stream): numbers of arrived, released, duplicate and quarantined events;
        and, if there are any, of promises that were applied before all their numbers arrived.
        """
        lanes = self._correction.counters("arrived", "in_order", "duplicate", "quarantined_future")
        if self._proof is not None:
            text = self._clocks.strings.text
            found = {(text(source), text(stream)): count
                     for (source, stream), count in self._proof.unproven().items()}  # fmt: skip
            for lane in lanes:
                unproven = found.get((lane["source"], lane["stream"]))
                if unproven:
                    lane["promises_unproven"] = unproven
        return lanes
