"""Comparison of two gateways' logs of the same sources (for example over cable and Wi-Fi): lost
events, and differences of arrivals.

Events are identified by source, stream, incarnation and number. The gateways' clocks are not
compared, so only variations of the difference count: the difference of the arrivals minus its
median (R19 Eq 3.13 applies to sources and their gateway only).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.engine.apps.report.measure.events import RunRows, codes_of, quantiles, together
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame, clock_names, column_ints
from slackwater.engine.log.arrival_log import LogReader

# An arrival log as whole columns, without attributes.
#
# Memory: some 70 bytes per record.


NONE: Final = -(2**63)
"""Null in a column of numbers."""
_ABSENT: Final = {
    r.KIND: 0, r.SEQ: NONE, r.INCARNATION: 0, r.TS: NONE, r.ARRIVAL: NONE, r.OFFSET: NONE,
    r.DELAY: NONE, r.PRECISION: NONE, r.SKEW_ERROR_PPB: NONE, r.FIRST_SEQ: NONE,
}  # fmt: skip
"""Columns of numbers, and their values if omitted or null."""


def read_columns(log: Path, advanced: Callable[[int], None] = lambda _rows: None) -> RunRows:
    """Read the whole log: numbers, ``NONE`` where null, and ``site source stream type clock``; if a
    record names no clock, it is the source's own.

    Args:
        log: an arrival log.
        advanced: called with the number of records after each frame.

    Raises:
        UserError: no log, or its arrivals are the line numbers of a trace.
    """
    reader = LogReader(log)
    if not reader.arrival_given:
        raise UserError(
            f"{log}: its arrivals are the line numbers of a trace, which say nothing of clocks and "
            "links; use a log that a gateway or a simulation wrote"
        )
    numbers: dict[str, list[np.ndarray]] = {name: [] for name in _ABSENT}
    texts: dict[str, list[pa.Array]] = {}
    for frame in reader:
        for name, absent in _ABSENT.items():
            numbers[name].append(column_ints(frame.batch, name, absent))
        for name, column in _texts(frame).items():
            texts.setdefault(name, []).append(column)
        advanced(frame.rows)
    codes = {name: codes_of(parts) for name, parts in texts.items()}
    columns = {name: np.concatenate(parts) for name, parts in numbers.items()}
    return RunRows(
        columns | {name: code for name, (code, _) in codes.items()},
        {name: known for name, (_, known) in codes.items()},
    )


def _texts(frame: Frame) -> dict[str, pa.Array]:
    batch, names = frame.batch, frame.batch.schema.names
    stream, kind = pa.scalar(r.DEFAULT_STREAM), pa.scalar(None, pa.string())
    absent = {r.STREAM: pa.repeat(stream, frame.rows), r.TYPE: pa.repeat(kind, frame.rows)}
    return {
        r.SITE: pa.repeat(frame.site, frame.rows), r.SOURCE: batch.column(r.SOURCE),
        **{name: batch.column(name) if name in names else none for name, none in absent.items()},
        r.CLOCK: clock_names(batch),
    }  # fmt: skip


# Comparison of two gateways' logs of the same sources: lost events, and differences of arrivals.


_LANE: Final = (r.SITE, r.SOURCE, r.STREAM, r.INCARNATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBeside:
    """One source in both logs. ``later_ns``: quantiles of B's arrival minus A's, minus the median
    of all; ``out_of_order``: events that arrived after one of their stream with a larger number.
    """

    name: str
    both: int
    missing_a: int
    missing_b: int
    out_of_order_a: int
    out_of_order_b: int
    later_ns: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLogs:
    """``median_ns``: of B's arrival minus A's over all common events: path and clocks together."""

    sources: tuple[SourceBeside, ...]
    median_ns: int


def compare_logs(a: RunRows, b: RunRows) -> TwoLogs:
    """Compare events with numbers; duplicates count once, at their first arrival.

    Raises:
        UserError: the logs have no event in common.
    """
    numbered = [log.only((log[r.KIND] == Kind.EVENT) & (log[r.SEQ] >= 0)) for log in (a, b)]
    rows = together(*numbered)
    columns = np.stack([rows[name] for name in (*_LANE, r.SEQ)])
    distinct, number = np.unique(columns, axis=1, return_inverse=True)
    lane = np.cumsum(np.any(np.diff(distinct[:-1], axis=1, prepend=-1) != 0, axis=0))
    of_a, of_b = np.split(number.ravel(), [len(numbered[0])])
    arrival_a, arrival_b = np.split(rows[r.ARRIVAL], [len(numbered[0])])
    first_a, first_b = _first(of_a, arrival_a, len(lane)), _first(of_b, arrival_b, len(lane))
    in_a, in_b = first_a != NONE, first_b != NONE
    both, later = in_a & in_b, first_b - first_a
    if not both.any():
        raise UserError(
            "the two logs have no event in common: are they of the same sources, streams and "
            "incarnations, with numbers?"
        )
    median = int(np.sort(later[both])[(int(both.sum()) - 1) // 2])
    out_a, out_b = _overtaken(of_a, lane), _overtaken(of_b, lane)
    is_one = len(rows.texts[r.SITE]) == 1
    events = RunRows({r.SITE: distinct[0], r.SOURCE: distinct[1]}, rows.texts)
    found = [
        SourceBeside(
            name=source if is_one else f"{site}/{source}", both=int(both[mine].sum()),
            missing_a=int((in_b & ~in_a)[mine].sum()), missing_b=int((in_a & ~in_b)[mine].sum()),
            out_of_order_a=int(out_a[mine].sum()), out_of_order_b=int(out_b[mine].sum()),
            later_ns=_spread(np.sort(later[mine][both[mine]]) - median),
        )
        for (site, source), mine in events.groups(r.SITE, r.SOURCE)
    ]  # fmt: skip
    return TwoLogs(sources=tuple(sorted(found, key=lambda each: each.name)), median_ns=median)


def _first(number: np.ndarray, arrival: np.ndarray, count: int) -> np.ndarray:
    """First arrival of each event; ``NONE``: it did not arrive."""
    found = np.full(count, NONE)
    came, at = np.unique(number, return_index=True)
    found[came] = arrival[at]
    return found


def _overtaken(number: np.ndarray, lane: np.ndarray) -> np.ndarray:
    """Whether each event arrived after one of its lane with a larger number.

    ``number``: rank by lane, then by the number in it.
    """
    by_lane = number[np.argsort(lane[number], kind="stable")]
    newest = np.maximum.accumulate(by_lane)  # later lanes have larger places
    found = np.zeros(len(lane), np.bool_)
    found[by_lane[by_lane < newest]] = True
    return found


def _spread(ascending: np.ndarray) -> dict[str, int]:
    if not len(ascending):
        return {}
    least = {"min": int(ascending[0]), "p5": int(ascending[-(-len(ascending) // 20) - 1])}
    known = quantiles(ascending)
    return least | {name: known[name] or 0 for name in ("p50", "p95", "p999", "max")}
