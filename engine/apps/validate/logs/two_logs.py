"""Two gateways' logs of the same sources, as of a cable and of Wi-Fi: what each missed, and when.

An event is known again by its source, stream, incarnation and number. The gateways' clocks are not
compared, so of how much later one of them had an event only the part that varies is meant: the
difference of the arrivals less its median (R19 Eq 3.13 is of sources and their gateway alone).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.engine.apps.validate.logs.log_columns import LogColumns
from slackwater.engine.core.errors import UserError

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
