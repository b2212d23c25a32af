"""Keeps what ``engine.order.unordered.proof_kernel`` needs from batch to batch."""

from __future__ import annotations

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.prediction import SyncPoint
from slackwater.engine.core.columns import Columns
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import Strings
from slackwater.engine.kernels.records import INT_MAX, NONE, one
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
