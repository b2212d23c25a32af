"""``none``: events pass in arrival order, corrected to reference time but not put in order.

The baseline of every comparison: what a query sees without any disorder handling before it.
Promises and ends of streams go on once the numbers that they speak of have come
(``engine.order.unordered.proof_kernel``).

When not to use: whenever the query's operator cannot itself repair disorder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.prediction import SyncPoint
from slackwater.engine.core.clocks.reference import SourceClocks
from slackwater.engine.core.columns import Columns, clock_codes
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import Gaps, Progress, Promises, Strings
from slackwater.engine.core.units import parse_duration
from slackwater.engine.kernels.records import INT_MAX, NONE, one
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
from slackwater.engine.order.unordered.proof_kernel import (
    LANE,
    STATE,
    WAITING,
    ProofCounts,
    ProofState,
    Records,
    begin_anew,
    find_lane,
    go_through,
)

# Keeps what ``engine.order.unordered.proof_kernel`` needs from batch to batch.


_FIRST = 2


class Proof(Restorable):
    """Which promises count, of those that came in.

    Args:
        strings: of the site.
        wait_ns: how long after a promise the numbers below its own are given up.
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
        """Where the numbers of a source and stream begin."""
        if sync.first_seq is None:
            return
        source, stream = (self._strings.code(text) for text in (sync.source, sync.stream))
        self._room()
        lane = find_lane(self._book, source, stream, sync.incarnation)
        if lane < 0:
            return
        of = self._book.lanes[lane]
        if sync.incarnation > of["incarnation"]:
            begin_anew(self._book, lane, sync.incarnation)
        if of["next"] < 0:
            of["next"] = sync.first_seq

    def process(self, columns: Columns, rows: int, ref: np.ndarray) -> ProofCounts:
        """What comes to count during a batch of records, each before a record of it.

        Args:
            columns: of all records in arrival order, as ``engine.core.columns`` makes them.
            rows: how many.
            ref: int64 (rows,): on the engine's clock, where a record is a promise; may be empty
                when none can be.
        """

        def column(name: str, default: int, kind: type) -> np.ndarray:
            found = columns.get(name)
            if found is None:
                return np.full(1, default, kind)
            # The kernel sees arrays of one kind; those of a frame may be read-only.
            return np.require(found, kind, ["C", "W"])

        batch = Records(
            column(r.KIND, int(r.Kind.EVENT), np.int8), column(r.SOURCE, -1, np.int32),
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
            done = go_through(self._book, batch, out, done, self._wait_ns)
        said = int(state["out"][0])
        return ProofCounts(*(array[:said] for array in out))

    def unproven(self) -> dict[tuple[int, int], int]:
        """Promises that counted before all their numbers had come, by codes of source and stream;
        those of which there are any.
        """
        lanes = self._book.lanes[: self._book.state["lanes"][0]]
        return {
            (int(lane["source"]), int(lane["stream"])): int(lane["unproven"])
            for lane in lanes[lanes["unproven"] > 0]
        }

    def _room(self) -> None:
        """Room for one more lane and one more promise, and for every source's code."""
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
    """The same with room for as many more."""
    more = np.zeros(2 * len(records), records.dtype)
    more[: len(records)] = records
    return more


# ``none``: events pass in arrival order, corrected to reference time but not put in order.


_POG: Final = int(r.Kind.POG)
_PLACE: Final = "place"


@dataclass(frozen=True, slots=True)
class NoneSettings(OrderSettings):
    """``time``: ``ref`` (offsets, within what sources state) | ``fit`` (offsets follow a line) |
    ``ts`` (none used) | ``hold`` (each held, R19).
    ``wait_ns``: how long after a promise it counts though numbers below its own have not come.
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
        # Everything that came in goes on at once: nothing is copied for later.
        correction = Correction(site.clocks, site.guards, self.duplicates)
        return NoOrder(self, site.clocks, correction, len(site.plans))


class NoOrder(Restorable, KeepsSources):
    """The ordering operator ``none``.

    Args:
        settings: its own.
        clocks: of the site's sources.
        correction: what is done first.
        readers: queries that read it; nobody else needs promises.
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
        """From where on numbers must have come before a promise counts."""
        if self._proof is not None:
            self._proof.announce(sync)

    def buffered(self) -> int:
        """Nothing is ever held."""
        return 0

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
        """The promises that come to count. One that names no source is on the engine's clock."""
        if self._proof is None:
            return None
        ref, kind = np.zeros(0, np.int64), columns.get(r.KIND)
        if kind is not None:
            ref, clock = columns[r.TS].copy(), clock_codes(columns)
            named = np.flatnonzero((kind == _POG) & (clock >= 0))
            ref[named], _, _ = self._clocks.correct(clock[named], ref[named], 0)
        return self._proof.process(columns, rows, ref)

    def flush(self) -> Ordered:
        """Nothing is held."""
        return Ordered(0, {}, promises=Promises())

    def counters(self) -> list[dict[str, Any]]:
        """Per (source, stream): events that arrived, went on, were copies, and were quarantined;
        and, where there are any, promises that counted before all numbers below their own had come.
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
