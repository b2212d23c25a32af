"""Interval joins of two streams by key: 1 M events, 1,000 keys, WITHIN 100 ms, one core.

12.5 % of the events are up to 1 s late; half of them are of stream ``a``, half of ``b``. With
clocks that may err each pair says how sure it is, and there are more of them. Goal
(issue 15): ahead of a join by hand in Python. Beside ours stand, on the same events in one run:

* "by hand": dictionaries of lists, event by event, late ones found and old ones dropped. That is
  what an operator of bytewax has to do at least; its own cost for each event is not in it.
* "NumPy": everything at once, sorted, when all is there: a batch limit.

From frames in memory to Arrow tables. Seconds are processor time of this process.

``python -m bench.join``
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from bench.workload import event_frames, pattern_stream
from slackwater.engine.core.frame import Frame
from slackwater.engine.core.operator import ResultPieces
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.operators.match.match_results import Matches
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.plan import JoinPlan

EVENTS = 1_000_000
SOURCES = 20
KEYS = 1_000
BATCH_FRAMES = 4
WITHIN_NS = 100_000_000
KEPT_NS = 1_100_000_000
"""By hand: how long behind the newest event partners are kept."""
ROUNDS = 3
GOAL_BY_HAND = 1.0
TEXT = "SELECT a.key, a.v, b.v AS w FROM a {} JOIN b ON a.key = b.key WITHIN 100 ms"
ERROR_NS = 2_000_000
CASES = (
    ("INNER, order none", "", "none", 0),
    ("INNER, clocks err by 2 ms", "", "none", ERROR_NS),
    ("LEFT, order kslack:1s", "LEFT", "kslack:1s", 0),
    ("ANTI, order kslack:1s", "ANTI", "kslack:1s", 0),
    ("FULL, order kslack:1s", "FULL", "kslack:1s", 0),
    ("FULL, clocks err by 2 ms", "FULL", "kslack:1s", ERROR_NS),
)


def events() -> dict[str, np.ndarray]:
    """Columns in arrival order; ``type`` below 5: of stream ``a``."""
    pieces = list(pattern_stream(EVENTS, SOURCES, KEYS))
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def frames(made: dict[str, np.ndarray]) -> list[Frame]:
    """With the name of each event's stream."""
    found: list[Frame] = []
    start, names = 0, pa.array(["a", "b"])
    for frame in event_frames(made, SOURCES):
        side = (made["type"][start : start + frame.rows] >= 5).astype(np.int32)
        start += frame.rows
        stream = pa.DictionaryArray.from_arrays(pa.array(side), names)
        found.append(Frame("main", frame.batch.append_column("stream", stream)))
    return found


def ours(data: list[Frame], kind: str, order: str, error_ns: int) -> int:
    """Pairs and rows without a partner, as Arrow tables. ``error_ns``: what clocks err by."""
    text = TEXT.format(kind)
    if kind == "ANTI":
        text = text.replace(", b.v AS w", "")
    plan = query(text)
    assert isinstance(plan, JoinPlan)
    guards = Guards(default_uncertainty_ns=error_ns)
    chain = Chain(ChainSettings(parse_order(order), (plan,), guards=guards), "main")
    rows = 0
    for start in range(0, len(data), BATCH_FRAMES):
        rows += _as_tables(chain.process(data[start : start + BATCH_FRAMES]).results[0])
    return rows + _as_tables(chain.finish().results[0])


def _as_tables(results: ResultPieces) -> int:
    rows = 0
    for piece in results.pieces:
        assert isinstance(piece, Matches)
        rows += sum(table.num_rows for table in Matches.tables([piece]))
    return rows


def by_hand(made: dict[str, np.ndarray]) -> int:
    """The pairs, event by event."""
    sides: tuple[dict[int, list[tuple[int, float]]], ...] = ({}, {})
    pairs, newest = list[tuple[int, float, float]](), 0
    columns = (made["ts"].tolist(), made["type"].tolist(), made["key"].tolist(), made["v"].tolist())
    for ts, kind, key, v in zip(*columns, strict=True):
        mine, other = sides if kind < 5 else sides[::-1]
        newest = max(newest, ts)
        there = other.get(key)
        if there:
            old = bisect_left(there, (newest - KEPT_NS - WITHIN_NS,))
            if old:
                del there[:old]
            first = bisect_left(there, (ts - WITHIN_NS,))
            for _, w in there[first : bisect_right(there, (ts + WITHIN_NS, np.inf))]:
                pairs.append((key, v, w) if kind < 5 else (key, w, v))
        insort(mine.setdefault(key, []), (ts, v))
    return len(pairs)


def batch_limit(made: dict[str, np.ndarray]) -> int:
    """The pairs of complete data, by sorting."""
    left = made["type"] < 5
    start = int(made["ts"].min())
    place = made["key"] * (1 << 44) + made["ts"] - start
    a, b = place[left], place[~left]
    by_a, by_b = np.argsort(a), np.argsort(b)
    a, b = a[by_a], b[by_b]
    first = np.searchsorted(b, a - WITHIN_NS, "left")
    many = np.searchsorted(b, a + WITHIN_NS, "right") - first
    of = np.repeat(np.arange(len(a)), many)
    partner = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many) + first[of]
    table = pa.table({
        "key": made["key"][left][by_a][of], "v": made["v"][left][by_a][of],
        "w": made["v"][~left][by_b][partner],
    })  # fmt: skip
    return int(table.num_rows)


def best(work: Callable[[], int]) -> tuple[float, int]:
    """The least seconds of some rounds, and the number of rows."""
    least, rows = float("inf"), 0
    for _ in range(ROUNDS):
        begun = time.process_time()
        rows = work()
        least = min(least, time.process_time() - begun)
    return least, rows


def main() -> int:
    """Prints the table; 1 if ours is not ahead of what is done by hand, or finds other pairs."""
    made = events()
    data = frames(made)
    for _, kind, order, error_ns in CASES:
        ours(data[:2], kind, order, error_ns)  # compiled
    rows: list[tuple[str, float, int]] = [
        (name, *best(lambda k=kind, o=order, e=error_ns: ours(data, k, o, e)))  # type: ignore[misc]
        for name, kind, order, error_ns in CASES
    ]
    hand = best(lambda: by_hand(made))
    limit = best(lambda: batch_limit(made))
    for name, seconds, n in [*rows, ("by hand, INNER", *hand), ("NumPy, INNER, batch", *limit)]:
        sys.stdout.write(
            f"{name:<26} {n:>9,} rows  {seconds:6.2f} s  {EVENTS / seconds / 1e6:6.2f} M events/s  "
            f"{hand[0] / seconds:6.2f} x by hand\n"
        )
    ahead = hand[0] / rows[0][1]
    return int(ahead < GOAL_BY_HAND or not rows[0][2] == hand[1] == limit[1])


if __name__ == "__main__":
    sys.exit(main())
