"""Two gateways' logs of the same sources, as of a cable and of Wi-Fi: what each missed, and when.

An event is known again by its source, stream, incarnation and number. The gateways' clocks are not
compared, so of how much later one of them had an event only the part that varies is meant: the
difference of the arrivals less its median (R19 Eq 3.13 is of sources and their gateway alone).
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
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.log.describe import ints, string_codes

# An arrival log as whole columns: what shows clocks and links, and no attributes.
#
# Memory: some 70 bytes per record.


NONE: Final = -(2**63)
"""Means null in a column of numbers."""
_NUMBERS: Final = (
    r.KIND, r.SEQ, r.INCARNATION, r.TS, r.ARRIVAL, r.OFFSET, r.DELAY, r.PRECISION,
    r.SKEW_ERROR_PPB, r.FIRST_SEQ,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Records in the order of the log, site by site in that of each site.

    ``numbers``: int64 by field name, ``NONE`` where null; ``source``, ``stream``, ``type``: codes
    of ``sources`` ((site, source) pairs), ``streams`` and ``types``; -1: null. ``clock``: codes of
    ``sources``, too, as (site, clock) pairs; None: every record is of its source's own clock.
    """

    numbers: dict[str, np.ndarray]
    source: np.ndarray
    stream: np.ndarray
    type: np.ndarray
    sources: list[tuple[str, str]]
    streams: list[str]
    types: list[str]
    clock: np.ndarray | None = None

    def __getitem__(self, name: str) -> np.ndarray:
        return self.numbers[name]

    @property
    def clocks(self) -> np.ndarray:
        """Code of each record's clock."""
        return self.source if self.clock is None else self.clock

    def rows(self, kind: Kind) -> np.ndarray:
        """Places of the records of ``kind``."""
        return np.flatnonzero(self.numbers[r.KIND] == kind)


class _Texts:
    """Codes of texts over all frames."""

    def __init__(self) -> None:
        self.known: dict[object, int] = {}

    def codes(self, column: pa.Array | None, rows: int, missing: str | None, key: Callable[
        [str], object]) -> np.ndarray:  # fmt: skip
        if column is None:
            code = -1 if missing is None else self.known.setdefault(key(missing), len(self.known))
            return np.full(rows, code, np.int64)
        codes, texts = string_codes(column)
        own = [self.known.setdefault(key(text), len(self.known)) for text in texts]
        found: np.ndarray = np.array([*own, -1], np.int64)[codes]
        return found


def read_columns(log: Path, advanced: Callable[[int], None] = lambda _rows: None) -> LogColumns:
    """The whole log.

    Args:
        log: an arrival log.
        advanced: receives the number of records after each frame.

    Raises:
        UserError: no log, or its arrivals are the line numbers of a trace.
    """
    reader = LogReader(log)
    if not reader.arrival_given:
        raise UserError(
            f"{log}: its arrivals are the line numbers of a trace, which say nothing of clocks and "
            "links; use a log that a gateway or a simulation wrote"
        )
    sources, streams, types = _Texts(), _Texts(), _Texts()
    parts: list[dict[str, np.ndarray]] = []
    for frame in reader:
        parts.append(_numbers(frame) | _codes(frame, sources, streams, types))
        advanced(frame.rows)
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return LogColumns(
        {name: found[name] for name in _NUMBERS}, found["source"], found["stream"], found["type"],
        [(str(each[0]), str(each[1])) for each in sources.known if isinstance(each, tuple)],
        [str(each) for each in streams.known], [str(each) for each in types.known],
        found["clock"],
    )  # fmt: skip


def _numbers(frame: Frame) -> dict[str, np.ndarray]:
    batch, found = frame.batch, {}
    names = set(batch.schema.names)
    for name in _NUMBERS:
        if name in names:
            values, given = ints(batch.column(name))
            found[name] = np.where(given, values.astype(np.int64), NONE)
        else:
            usual = 0 if name in (r.KIND, r.INCARNATION) else NONE
            found[name] = np.full(frame.rows, usual, np.int64)
    return found


def _codes(frame: Frame, sources: _Texts, streams: _Texts, types: _Texts) -> dict[str, np.ndarray]:
    batch = frame.batch
    names = set(batch.schema.names)

    def column(name: str) -> pa.Array | None:
        return batch.column(name) if name in names else None

    source = sources.codes(column(r.SOURCE), frame.rows, None, lambda text: (frame.site, text))
    clock = sources.codes(column(r.CLOCK), frame.rows, None, lambda text: (frame.site, text))
    return {
        "source": source,
        "clock": np.where(clock >= 0, clock, source),
        "stream": streams.codes(column(r.STREAM), frame.rows, r.DEFAULT_STREAM, lambda text: text),
        "type": types.codes(column(r.TYPE), frame.rows, None, lambda text: text),
    }


# Two gateways' logs of the same sources, as of a cable and of Wi-Fi: what each missed, and when.


_SHARES: Final = (0.0, 0.05, 0.5, 0.95, 0.999, 1.0)
_NAMES: Final = ("min", "p5", "p50", "p95", "p999", "max")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBeside:
    """One source in both logs. ``later_ns``: quantiles of B's arrival less A's, less the median of
    all; ``out_of_order``: events that came after one of their stream with a larger number.
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
    """``median_ns``: of B's arrival less A's, over all events of both: path and clocks together."""

    sources: tuple[SourceBeside, ...]
    median_ns: int


def compare_logs(a: LogColumns, b: LogColumns) -> TwoLogs:
    """Compares events with numbers; second copies count once, at their first arrival.

    Raises:
        UserError: the logs have no event in common.
    """
    keys, first = _keys(a, b)
    key_a, arrival_a, order_a = first[0]
    key_b, arrival_b, order_b = first[1]
    shared, in_a, in_b = np.intersect1d(key_a, key_b, assume_unique=True, return_indices=True)
    if not len(shared):
        raise UserError(
            "the two logs have no event in common: are they of the same sources, streams and "
            "incarnations, with numbers?"
        )
    later = arrival_b[in_b] - arrival_a[in_a]
    median = int(np.sort(later)[(len(later) - 1) // 2])
    source_of = keys.source
    of_shared = source_of[shared]
    count = len(keys.names)
    missing_b = np.bincount(source_of[key_a], minlength=count) - np.bincount(
        of_shared, minlength=count
    )
    missing_a = np.bincount(source_of[key_b], minlength=count) - np.bincount(
        of_shared, minlength=count
    )
    out_a = np.bincount(source_of[order_a], minlength=count)
    out_b = np.bincount(source_of[order_b], minlength=count)
    by_source = np.lexsort((later, of_shared))
    starts = np.searchsorted(of_shared[by_source], np.arange(count + 1))
    found = []
    for code, name in enumerate(keys.names):
        mine = later[by_source][starts[code] : starts[code + 1]] - median
        found.append(
            SourceBeside(
                name=name, both=len(mine), missing_a=int(missing_a[code]),
                missing_b=int(missing_b[code]), out_of_order_a=int(out_a[code]),
                out_of_order_b=int(out_b[code]), later_ns=_quantiles(mine),
            )
        )  # fmt: skip
    return TwoLogs(sources=tuple(sorted(found, key=lambda each: each.name)), median_ns=median)


def _quantiles(ascending: np.ndarray) -> dict[str, int]:
    if not len(ascending):
        return {}
    places = [max(int(np.ceil(share * len(ascending))), 1) - 1 for share in _SHARES]
    return dict(zip(_NAMES, ascending[places].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class _Keys:
    """Events of both logs, numbered; ``source[number]``: code of ``names``."""

    source: np.ndarray
    names: list[str]


_First = tuple[np.ndarray, np.ndarray, np.ndarray]


def _keys(a: LogColumns, b: LogColumns) -> tuple[_Keys, list[_First]]:
    """Each distinct event numbered; per log: what came, when first, and what out of order."""
    is_one = len({site for log in (a, b) for site, _ in log.sources}) == 1

    def named(site: str, source: str) -> str:
        return source if is_one else f"{site}/{source}"

    names = sorted({named(*each) for log in (a, b) for each in log.sources})
    streams = sorted({*a.streams, *b.streams})
    columns = []
    for log in (a, b):
        rows = log.rows(Kind.EVENT)
        rows = rows[log[r.SEQ][rows] >= 0]
        source = np.array([names.index(named(*each)) for each in log.sources], np.int64)
        stream = np.array([streams.index(each) for each in log.streams], np.int64)
        columns.append((
            source[log.source[rows]], stream[log.stream[rows]], log[r.INCARNATION][rows],
            log[r.SEQ][rows], log[r.ARRIVAL][rows],
        ))  # fmt: skip
    both = np.stack([np.concatenate(pair) for pair in zip(*columns, strict=True)])[:4]
    distinct, number = np.unique(both, axis=1, return_inverse=True)
    number = number.ravel()
    split = np.split(number, [len(columns[0][0])])
    found = []
    for own, (*_, arrival) in zip(split, columns, strict=True):
        came, at = np.unique(own, return_index=True)
        found.append((came, arrival[at], _overtaken(own, distinct)))
    return _Keys(distinct[0], names), found


def _overtaken(number: np.ndarray, distinct: np.ndarray) -> np.ndarray:
    """Numbers of events that came after one of their lane with a larger number.

    ``distinct`` is sorted by lane, then by the event's number in it, so its places are, too.
    """
    lane = np.cumsum(np.any(np.diff(distinct[:3], axis=1, prepend=distinct[:3, :1]) != 0, axis=0))
    order = np.argsort(lane[number], kind="stable")
    own = number[order]
    newest = np.maximum.accumulate(own)  # later lanes have larger places
    return np.unique(own[own < newest])
