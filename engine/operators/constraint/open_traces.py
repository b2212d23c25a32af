"""The store of open traces and their events; traces that are over are dropped."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import NONE, copy_of, longer, numbers_of, records_at
from slackwater.engine.operators.constraint.rewrite import Rewritable, kept_of, mark_over, settle
from slackwater.engine.operators.constraint.step import MOST_RESULTS
from slackwater.engine.operators.constraint.traces import (
    AT_ONCE,
    EMITTED,
    FRESH,
    NODE,
    RUN_OUT,
    TRACE,
    Keyed,
    Recent,
    TracePool,
    TraceTables,
    enter_all,
    slots_for,
)

_LEAST: Final = 64
"""The initial room for traces, and for events."""


class Memory(NamedTuple):
    """Bytes of traces, of the table of their keys, and of buffered events, without last events."""

    traces: int
    keys: int
    events: int


class OpenTraces:
    """Traces by key, and their buffered events.

    Attributes:
        traces: TRACE, the first ``open`` ones are in use.
        pool: the events.
        recent: confirmed results that may still be retracted.
        kept: the state that late events can rewrite.

    Args:
        rewrites: whether late events rewrite traces.
    """

    def __init__(self, *, rewrites: bool) -> None:
        self._tally = np.zeros(1, np.int64)
        self._rewrites = rewrites
        self._beyond = np.zeros(1, np.int64)
        self._settled, self._tails = np.zeros(0, TRACE), np.zeros(0, np.int32)
        self._left = 0
        """Number of events after the last ``_tidy``."""
        self.pool = TracePool(np.zeros(_LEAST, NODE), np.zeros(1, np.int64))
        self.recent = Recent(np.zeros(0, EMITTED), np.zeros(1, np.int64))
        self._take(np.zeros(0, TRACE), _room(0))

    @property
    def beyond(self) -> int:
        """Number of events later than the horizon."""
        return int(self._beyond[0])

    @property
    def open(self) -> int:
        """Number of traces."""
        return int(self._tally[0])

    @property
    def memory(self) -> Memory:
        """The memory in use; there is room for at most a sixth more traces than are open."""
        kept = self._settled.nbytes + self._tails.nbytes
        return Memory(self.traces.nbytes + kept, self._slots.nbytes, self.pool.nodes.nbytes)

    def keyed(self, keys: np.ndarray, entry: np.ndarray) -> Keyed:
        """Return the traces for events with ``keys``, with room for new ones; fill ``entry``."""
        if self.open + AT_ONCE > len(self.traces):
            self._take(self.traces[: self.open], _room(self.open))
        return Keyed(self.traces, self._slots, self._tally, keys, entry)

    def _take(self, traces: np.ndarray, room: int) -> None:
        """Store ``traces``, with room for ``room`` of them."""
        n, old = len(traces), (self._settled, self._tails)
        self._tally[0], self.traces = n, longer(traces, room)
        self._slots = slots_for(room)
        enter_all(self._slots, self.traces, n)
        if self._rewrites:
            # A trace without a settled event begins with the next one, like a new trace.
            self._settled, self._tails = np.zeros(room, TRACE), np.full(room, NONE, np.int32)
            self._settled["path"] = NONE
            self._settled["flags"] = FRESH
            kept = min(n, len(old[1]))
            self._settled[:kept], self._tails[:kept] = old[0][:kept], old[1][:kept]

    def kept(self) -> Rewritable:
        """Return the state that late events can rewrite."""
        return kept_of(self._settled, self._tails, self.pool, self._beyond)

    def make_room(self, events: int) -> None:
        """Make room for ``events`` more events, after dropping unreferenced ones."""
        n = int(self.pool.used[0])
        if n + events <= len(self.pool.nodes):
            return
        if n > 2 * self._left:
            n = self._tidy()
        if 2 * (n + events) > len(self.pool.nodes):
            nodes = longer(self.pool.nodes[:n], 4 * (n + events))
            self.pool = TracePool(nodes, np.array([n]))

    def _recent(self) -> np.ndarray:
        return self.recent.results[: int(self.recent.used[0])]

    def make_recent_room(self, results: int) -> None:
        """Make room for ``results`` more confirmed results."""
        n = int(self.recent.used[0])
        if n + results > len(self.recent.results):
            room = longer(self._recent(), 2 * (n + results))
            self.recent = Recent(room, self.recent.used)

    def settle_recent(self, limit: int) -> None:
        """Drop recent results that are before ``limit`` under every clock error: they are final."""
        before = self._recent()
        if len(before):
            kept = before[(before["due"] >= limit) & (before["certainty"] == 0)]
            kept["most"] = np.maximum.accumulate(kept["due"])
            self._take_recent(kept)

    def widen_recent(self, by: int) -> None:
        """Widen the recent results by an additional clock error ``by`` [ns]."""
        of = self._recent()
        of["due"] += by
        of["most"] += by

    def _take_recent(self, results: np.ndarray) -> None:
        room = longer(results, max(_LEAST, 2 * len(results)))
        self.recent = Recent(room, np.array([len(results)]))

    def _tidy(self) -> int:
        n = int(self.pool.used[0])
        nodes, in_use = self.pool.nodes, np.zeros(n + 1, np.bool_)  # the last one is for NONE
        lists = [self.traces["path"][: self.open], self._recent()["path"]]
        if self._rewrites:
            lists += [self._settled["path"][: self.open], self._tails[: self.open]]
        for ends in lists:
            _mark(ends, nodes["link"], in_use)
        in_use[n] = False
        number = np.append(np.cumsum(in_use[:n]) - 1, NONE).astype(np.int32)
        kept = np.flatnonzero(in_use)
        numbers_of(nodes)[: len(kept)] = numbers_of(nodes)[kept]
        nodes["link"][: len(kept)] = number[nodes["link"][: len(kept)]]
        for ends in lists:
            ends[:] = number[ends]
        self.pool.used[0] = self._left = len(kept)
        return len(kept)

    def settle(self, limit: int, timeout: int, tables: TraceTables) -> None:
        """Drop events before ``limit``, once they are many."""
        n = int(self.pool.used[0])
        if self._rewrites and n > max(_LEAST, 2 * self._left):
            self.make_room(n)
            kept, emitted = self.kept(), np.zeros(MOST_RESULTS, EMITTED)
            _settle_all(self.open, limit, timeout, tables, self.pool, kept, emitted)
            self._tidy()

    def forget(self, limit: int, timeout: int, tables: TraceTables) -> int:
        """Drop traces that are over once they are half of all; returns the number of dropped ones.

        Args:
            limit: no event rewrites a trace that ended before it, or is before its end.
            timeout: as of ``engine.operators.constraint.step``.
            tables: likewise.
        """
        over = np.zeros(self.open, np.bool_)
        count = mark_over(self.traces, self.open, limit, timeout, tables, over)
        if count <= _LEAST or 2 * count < self.open:
            return 0
        kept = np.flatnonzero(~over)
        if self._rewrites:
            self._settled, self._tails = records_at(self._settled, kept), self._tails[kept]
        self._take(records_at(self.traces, kept), _room(len(kept)))
        return count

    def over(self) -> int:
        """Number of traces that are over and not dropped."""
        return int(np.count_nonzero(self.traces["flags"][: self.open] & (FRESH | RUN_OUT)))

    def codes(self) -> np.ndarray:
        """Codes of sources, clocks and types in use."""
        nodes, recent = self.pool.nodes[: int(self.pool.used[0])], self._recent()
        of_recent = (recent[name] for name in ("clock", "source", "type"))
        found = (self.traces["clock"][: self.open], nodes["source"], nodes["type"], *of_recent)
        codes = np.unique(np.concatenate(found))
        return np.asarray(codes[codes != NONE])

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""
        self._tidy()
        n = self.open if self._rewrites else 0
        return {
            "traces": copy_of(self.traces[: self.open]),
            "nodes": copy_of(self.pool.nodes[: int(self.pool.used[0])]),
            "settled": copy_of(self._settled[:n]),
            "tails": self._tails[:n].copy(),
            "recent": copy_of(self._recent()),
            "beyond": self.beyond,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot."""
        n = len(state["traces"])
        self._settled, self._tails = state["settled"].copy(), state["tails"].copy()
        self._take(state["traces"], _room(n))
        self._left = len(state["nodes"])
        nodes = longer(state["nodes"], max(_LEAST, 2 * self._left))
        self.pool = TracePool(nodes, np.array([self._left]))
        self._beyond[0] = state["beyond"]
        self._take_recent(state["recent"])


def _room(traces: int) -> int:
    """Return the room for ``traces`` traces: a sixth more."""
    return traces + traces // 6 + 2 * AT_ONCE


@kernel
def _mark(ends: np.ndarray, link: np.ndarray, in_use: np.ndarray) -> None:
    """Mark the events of the lists that end at ``ends``."""
    for end in ends:
        place = end
        while place != NONE and not in_use[place]:
            in_use[place] = True
            place = link[place]


@kernel
def _settle_all(
    known: int, limit: int, timeout: int, tables: TraceTables, pool: TracePool,
    kept: Rewritable, emitted: np.ndarray,
) -> None:  # fmt: skip
    for entry in range(known):
        settle(entry, limit, timeout, tables, pool, kept, emitted, 0)
