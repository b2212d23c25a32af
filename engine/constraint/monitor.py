"""The operator of a pattern under a constraint (SPEC 4.6; L10 Algorithm 5).

Events go to their traces in the order in which they are released. An alert is given with the event
that makes the match certain, ``cleared`` with the one that rules it out; a trace that breaks its
constraint is told of and watched for the match itself from then on. A trace of which the
constraint allows no more is over, and is forgotten; the next event of its key begins another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.constraint.alerts import CERTAINTIES, AlertColumns, Alerts
from engine.constraint.traces import (
    OVER,
    TRACE,
    VIOLATION,
    Events,
    Tables,
    Told,
    follow,
    keep_open,
    room_for,
)
from engine.kernels.table import empty_slots, enter
from engine.query.automata.alphabet import IGNORED
from engine.query.automata.compiled import automata_of
from engine.query.automata.verdicts import SATISFIABLE, UNSATISFIABLE
from engine.query.fields import attributes_of, released_columns
from engine.query.monitor_plan import MonitorPlan
from engine.results.schema import KINDS_OF_ALERT, decoded, one_of
from engine.stream.released import LATE_DROPPED, Released
from engine.window.keys import GroupKeys

_LEAST: Final = 64
"""Traces for which there is room at first."""
_OF_CLOCKS: Final = ("ref", "unc", "source", "epoch")
_READ: Final = {"type", "release", "status", "seq", *_OF_CLOCKS}


class MonitorOperator:
    """Follows every trace of one site through the automata of ``plan``."""

    def __init__(self, plan: MonitorPlan, site: str) -> None:
        automata = automata_of(plan)
        self.plan, self.site = plan, site
        self._alphabet, both = automata.alphabet, automata.encoded
        told = np.zeros(3, np.bool_)
        told[UNSATISFIABLE] = True
        told[SATISFIABLE] = plan.by_types
        self._tables = Tables(both.table, both.verdict, both.broken, both.ended, told)
        self._allowed = _allowed(automata.alphabet.names, both.table, both.broken)
        self._keys = GroupKeys((plan.trace,), plan.name)
        self._traces, self._open, self._slots = np.zeros(0, TRACE), 0, empty_slots(0)
        self._counts = dict.fromkeys(("untraced", "late_dropped", "over"), 0)

    @property
    def types(self) -> tuple[str, ...]:
        return self._alphabet.types

    def required_columns(self) -> set[str]:
        return _READ | released_columns(attributes_of(self.plan))

    def process(self, released: Released) -> Sequence[Any]:
        columns = released.columns
        symbols = self._alphabet.read(released)
        self._leave_out(symbols, columns["status"] == LATE_DROPPED, "late_dropped")
        keys, nulls = self._keys.codes(released)
        if len(nulls):
            self._leave_out(symbols, nulls != 0, "untraced")
        read = int((symbols >= 0).sum())
        if not read:
            return ()
        self._make_room(self._open + read)
        events = Events(symbols, keys[:, 0], *(columns[name] for name in _OF_CLOCKS))
        told = room_for(read)
        self._open, count = follow(
            self._traces, _numbers(self._traces), self._slots, self._open, self._tables,
            events, told,
        )  # fmt: skip
        found = self._results(released, keys[:, 0], Told(*(each[:count] for each in told)))
        self._forget()
        return found

    def _leave_out(self, symbols: np.ndarray, rows: np.ndarray, why: str) -> None:
        """``rows`` are not read, and those that would have been are counted."""
        left_out = rows & (symbols >= 0)
        self._counts[why] += int(left_out.sum())
        symbols[left_out] = IGNORED

    def _make_room(self, wanted: int) -> None:
        """Room for ``wanted`` traces."""
        if wanted > len(self._traces):
            self._take(self._traces[: self._open], max(_LEAST, 2 * wanted))

    def _take(self, traces: np.ndarray, room: int) -> None:
        """``traces``, and room for so many in all."""
        self._open = len(traces)
        self._traces = np.zeros(room, TRACE)
        self._traces[: self._open] = traces
        self._slots = empty_slots(room)
        enter(self._slots, _numbers(self._traces)[: self._open, :1], 0)

    def _over(self) -> int:
        return int((self._traces["flags"][: self._open] & OVER != 0).sum())

    def _forget(self) -> None:
        """Traces that are over leave once they are half of all."""
        over = self._over()
        if over > _LEAST and 2 * over > self._open:
            self._counts["over"] += over
            kept = keep_open(self._traces, self._open)
            self._take(self._traces[:kept], max(_LEAST, 2 * kept))

    def _results(self, released: Released, keys: np.ndarray, told: Told) -> Sequence[Any]:
        if not len(told.event):
            return ()
        at = told.event
        columns, text = released.columns, released.strings.text
        none = np.zeros(len(at), np.bool_)
        traces = self._keys.columns(np.zeros(len(at), np.int64), keys[at][:, None])
        seq = columns["seq"][at]
        broken = told.kind == VIOLATION
        found = AlertColumns(
            at=pa.array(columns["release"][at]),
            alert=one_of(KINDS_OF_ALERT, told.kind),
            trace=traces[self.plan.trace.name].cast(pa.string()),
            certainty=one_of(CERTAINTIES, told.doubtful),
            type=decoded(columns["type"][at], none, text),
            source=decoded(columns["source"][at], none, text),
            seq=pa.array(seq, mask=seq < 0),
            ts=pa.array(columns["ref"][at]),
            allowed=one_of(self._allowed, told.before, ~broken),
        )
        return Alerts(found, self.plan.name, self.site, self.plan.constraint)

    def advance(self, now: int) -> Sequence[Any]:  # noqa: ARG002 - nothing waits for time
        return ()

    def finish(self, at: int) -> Sequence[Any]:  # noqa: ARG002 - as ``advance``
        return ()

    def counters(self) -> dict[str, int]:
        over = self._over()
        return {**self._counts, "over": self._counts["over"] + over, "open": self._open - over}

    def codes(self) -> np.ndarray:
        traces = self._traces[: self._open]
        return np.concatenate((self._keys.used(traces["key"][:, None]), traces["source"]))

    def snapshot(self) -> dict[str, Any]:
        traces = self._traces[: self._open].copy()
        keys = self._keys.snapshot(traces["key"][:, None], np.zeros(0, np.int64))
        return {"traces": traces, "keys": keys, "counts": dict(self._counts)}

    def restore(self, state: dict[str, Any]) -> None:
        self._keys.restore(state["keys"])
        self._counts = dict(state["counts"])
        traces = state["traces"]
        self._take(traces, max(_LEAST, 2 * len(traces)))


def _numbers(traces: np.ndarray) -> np.ndarray:
    """The same memory as rows of int64, of which the first is the key."""
    return traces.view(np.int64).reshape(len(traces), -1)


def _allowed(names: list[str], table: np.ndarray, broken: np.ndarray) -> list[str]:
    """Of each state the symbols that do not break the constraint."""
    found = []
    for row in ~broken[table]:
        shown = [name for name, fine in zip(names, row.tolist(), strict=True) if fine]
        found.append(", ".join(shown) or "nothing more")
    return found
