"""Events that are no result: late ones and quarantined ones (side output)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from edge_agent import records as r
from engine.kernels.records import INT_MIN
from engine.order.base import Ordered
from engine.order.sequence.state import DUPLICATE, QUARANTINED_FUTURE, QUARANTINED_JUMP
from engine.results.ordered import (
    EVENT_FIELDS,
    EVENT_TIMES,
    NO_EVENTS,
    STATUS,
    UNCERTAINTY,
    EventFiles,
    released_table,
)
from engine.stream.columns import Columns
from engine.stream.ends import ends_of
from engine.stream.released import IN_ORDER, LATE_DROPPED, RESIDUAL, Released, Strings

# Events that did not go their way: late ones, and those that were set aside (side output).
#
# The ordered stream says ``late``, and drops or keeps such events by choice. Here each of them is
# kept with its reason and how late it was, whatever the choice.
#
# Columns as of ``Released``, and ``reason`` (place in ``REASONS``), ``dropped`` (bool: not in the
# ordered stream) and ``lateness``: how far ref lay below the largest one released in order [ns], at
# least 0; -1 for events that were set aside (quarantined, duplicates), which are compared with
# nothing.


REASONS: Final = ("late", "residual", "future", "jump", "duplicate")
_LATE, _RESIDUAL, _FUTURE, _JUMP, _DUPLICATE = range(len(REASONS))
_SET_ASIDE: Final = {QUARANTINED_FUTURE: _FUTURE, QUARANTINED_JUMP: _JUMP, DUPLICATE: _DUPLICATE}
REASON: Final = "reason"
LATENESS: Final = "lateness"
DROPPED: Final = "dropped"


class SideOutput(Struct):
    """Finds them among what an order gives; knows the largest ref released in order so far."""

    frontier: int = INT_MIN

    def late_of(self, released: Released) -> list[Released]:
        """The late and residual events among ``released``; none or one batch of them."""
        if not released.n:
            return []
        columns = released.columns
        ref, status = ends_of(released), columns["status"]
        moves = np.where(status == IN_ORDER, ref, INT_MIN)
        frontier = np.maximum.accumulate(np.concatenate(([self.frontier], moves)))
        self.frontier = int(frontier[-1])
        rows = np.flatnonzero(status != IN_ORDER)
        if not len(rows):
            return []
        chosen = {name: column[rows] for name, column in columns.items()}
        by_merge = chosen.pop("by_merge", np.zeros(len(rows), np.bool_))
        residual = (chosen["status"] == RESIDUAL) | by_merge
        chosen[REASON] = np.where(residual, _RESIDUAL, _LATE).astype(np.int8)
        chosen[DROPPED] = chosen["status"] == LATE_DROPPED
        # A first event may be late already, when numbers were announced: then by nothing known.
        chosen[LATENESS] = np.maximum(frontier[rows], ref[rows]) - ref[rows]
        return [replace(released, n=len(rows), columns=chosen)]

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"frontier": self.frontier}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.frontier = state["frontier"]


def quarantined_columns(ordered: Ordered) -> Columns:
    """The events of a call that were set aside, with the columns of a side output; empty if none.

    Markers among what was set aside are no events.
    """
    codes = ordered.quarantined.get(REASON, np.empty(0, np.int64))
    rows = np.flatnonzero(np.isin(codes, list(_SET_ASIDE)))
    n = len(rows)
    if not n:
        return {}
    columns = {name: column[rows] for name, column in ordered.quarantined.items()}
    columns[REASON] = np.array([_SET_ASIDE[code] for code in columns[REASON].tolist()], np.int8)
    columns[DROPPED] = np.ones(n, np.bool_)
    columns[LATENESS] = np.full(n, -1)
    columns["release"] = columns[r.ARRIVAL]
    columns["status"] = np.full(n, LATE_DROPPED, np.int8)
    return columns


def quarantined_shown(columns: Columns, strings: Strings, most: int) -> list[dict[str, Any]]:
    """The first ``most`` of the events set aside that are no duplicates, for people to look at."""
    reasons = columns.get(REASON, np.empty(0, np.int64))
    return [
        {
            "reason": "future" if int(reasons[i]) == QUARANTINED_FUTURE else "sequence jump",
            "source": strings.text(int(columns[r.SOURCE][i])),
            **{name: int(columns[name][i]) for name in (r.SEQ, "ref")},
        }
        for i in np.flatnonzero(reasons != DUPLICATE)[:most]
    ]


# Sink and exports of what did not go its way: late and quarantined events, with reasons.
#
# Late events in release order, after them the quarantined ones in the order of their refusal: both
# are the same however a log is cut. Sites one after another.


LATE: Final = "late"
QUARANTINED: Final = "quarantined"


def aside_table(site: str, released: Released) -> pa.Table:
    """As ``released_table``, with ``reason`` (text), ``lateness`` (ns or null), ``dropped``."""
    table = released_table(site, released)
    columns = released.columns
    reasons = pa.array(REASONS).take(pa.array(columns[REASON]))
    lateness = columns[LATENESS].astype(np.int64, copy=False)
    table = table.append_column(REASON, reasons)
    table = table.append_column(LATENESS, pa.array(lateness, mask=lateness < 0))
    return table.append_column(DROPPED, pa.array(columns[DROPPED]))


def _shown(table: pa.Table) -> pa.Table:
    return table.drop_columns([STATUS, UNCERTAINTY])


SIDE_OUTPUT: Final = EventFiles(
    (LATE, QUARANTINED),
    (*EVENT_FIELDS, REASON, LATENESS, DROPPED),
    (*EVENT_TIMES, LATENESS),
    _shown,
    pa.schema([*NO_EVENTS, (REASON, pa.string()), (LATENESS, pa.int64()), (DROPPED, pa.bool_())]),
)
"""Records of the events as in a trace, with ``ref release reason lateness dropped``."""
