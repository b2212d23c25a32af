"""ISEQ: naive, indexed and IBP-indexed search beside one another, and its speed, on one core.

Set-up of L10 5.5: W = 30 s, 200 intervals per window of 20 types in equal shares, of W/10 length on
average; query length 10, half of the end points on the chain starts (50t-50s). Goals (issue 13):
IBP-indexed at least 2 x indexed and 4 x naive; at least 1,000,000 intervals/s of lengths 3 and 4
with a key of 20 values, 300,000 without; at most 150 bytes per interval held.

Seconds are processor time of this process, the least of several passes that take turns. The
operator alone, on the released stream, in batches of 512 intervals (many matches) or 16,384 (few).
Beside it the batch limit: a range join of the finished intervals by DuckDB, if it is installed;
it finds the same matches, and of fewer intervals, as such joins grow with their square.

``python -m bench.intervals``
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slackwater.engine.core.released import Released, Strings
from slackwater.engine.operators.match.interval.trees import IseqMatcher
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.query import query
from slackwater.engine.query.joins import INDEXES
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import Plan, SeqPlan

WITHIN_NS = 30 * 10**9
DENSITY, TYPES, KEYS = 200, 20, 20
FEW, MANY = 512, 16_384
LENGTH = 10
COMPARED, TIMED = 4_000, 200_000
BATCHED = 20_000
TURNS = 5
Batch = Callable[[int, bool], tuple[float, int]]
"""Of length and key: seconds, matches."""


@dataclass(frozen=True)
class IntervalColumns:
    """In order of their ends."""

    ts: np.ndarray
    te: np.ndarray
    kind: np.ndarray
    key: np.ndarray

    def released(self, start: int, stop: int, strings: Strings) -> Released:
        mine = slice(start, stop)
        names = np.array([strings.code(_name(kind)) for kind in range(TYPES)], np.int32)
        ts, te = self.ts[mine], self.te[mine]
        n, source = len(ts), strings.code("s")
        columns = {
            "ref": ts, "ref_end": te, "ts": ts, "te": te, "unc": np.zeros(n, np.int64),
            "epoch": np.full(n, -1), "arrival": te, "release": te,
            "seq": np.arange(start, start + n), "status": np.zeros(n, np.int8),
            "stream": np.zeros(n, np.int32), "source": np.full(n, source, np.int32),
            "type": names[self.kind[mine]], "attrs.k": self.key[mine],
        }  # fmt: skip
        return Released(n, columns, {"k": "int"}, strings, 0)


def stream(n: int) -> IntervalColumns:
    """``n`` intervals, the same ones each time."""
    rng = np.random.default_rng(13)
    center = np.sort(rng.integers(0, n * WITHIN_NS // DENSITY, n))
    long = np.abs(rng.normal(WITHIN_NS / 10, WITHIN_NS / 40, n)).astype(np.int64)
    ts = center - long // 2
    order = np.argsort(ts + long, kind="stable")
    kind, key = rng.integers(0, TYPES, n), rng.integers(0, KEYS, n)
    return IntervalColumns(ts[order], (ts + long)[order], kind, key)


def _name(kind: int) -> str:
    return chr(ord("A") + kind)


def chain(length: int, *, keyed: bool = False) -> str:
    """A query of ``length`` steps: starts, then ends, one after the other."""
    names = [_name(step) for step in range(length)]
    points = points_of(names)
    where = " AND ".join(f"{names[0]}.k = {x}.k" for x in names[1:])
    return (
        f"EVENT ISEQ[{' < '.join(points)}]({', '.join(names)})"
        f"{f' WHERE {where}' if keyed else ''} WITHIN 30 s RETURN A.ts"
    )


def points_of(names: list[str]) -> list[str]:
    """The chain of ``chain``: starts of the first half of the steps, then ends."""
    return [f"{x}.{'ts' if n < len(names) // 2 else 'te'}" for n, x in enumerate(names)]


def timed(
    plan: Plan, columns: IntervalColumns, index: str, batch: int
) -> tuple[float, int, SeqMatcher]:
    """Seconds of the processor, matches, and the matcher afterwards."""
    assert isinstance(plan, SeqPlan)
    matcher = IseqMatcher(plan, PatternSettings(intervals=index, keep_late_ns=0))
    alone, strings, found = Alone(matcher), Strings(["events"]), 0
    n = len(columns.ts)
    before = time.process_time()
    for start in range(0, n, batch):
        released = columns.released(start, min(n, start + batch), strings)
        found += len(alone.process(released))
    return time.process_time() - before, found, matcher


def bytes_held(matcher: SeqMatcher) -> float:
    """Per interval in the store: its columns and registers, and its entries in stacks."""
    store, stacks = matcher.table, matcher.stacks
    columns = [c for c in store.columns.values() if c.base is None]  # the others are views
    each = store.events.itemsize + sum(column.itemsize for column in columns)
    each += sum(matrix.itemsize * len(matrix) for matrix in store.registers)
    entries = int(stacks.stack["size"][: int(stacks.used["stacks"][0])].sum())
    return each + entries * stacks.entry.itemsize / max(1, store.n)


def in_batch(columns: IntervalColumns) -> Batch | None:
    """What DuckDB, on one core, takes for the same matches; None: it is not installed.

    All intervals are there in columns of its own. A join has the chain's order, and the window
    for each pair of steps, so that every one is a range join (or one by key).
    """
    try:
        import duckdb  # noqa: PLC0415 - it may not be there
        import pyarrow as pa  # noqa: PLC0415 - for it alone
    except ImportError:
        return None
    names = [_name(kind) for kind in columns.kind.tolist()]
    events = pa.table({"ts": columns.ts, "te": columns.te, "type": names, "k": columns.key})
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("given", events)
    connection.execute("CREATE TABLE e AS SELECT * FROM given")

    def batch(length: int, keyed: bool) -> tuple[float, int]:
        text = joined(length, keyed=keyed)
        before = time.process_time()
        (found, _) = connection.execute(text).fetchone()
        return time.process_time() - before, found

    return batch


def joined(length: int, *, keyed: bool) -> str:
    """``chain`` as SQL; the sum makes it find every row."""
    steps = [_name(step) for step in range(length)]
    points = points_of(steps)
    text = "SELECT count(*), sum(A.ts % 7) FROM (SELECT * FROM e WHERE type = 'A') A"
    for n, mine in enumerate(steps[1:], 1):
        conditions = [f"A.k = {mine}.k"] if keyed else []
        conditions.append(f"{points[n - 1]} < {points[n]}")
        for other in steps[:n]:
            conditions.append(f"{mine}.te - {other}.ts <= {WITHIN_NS}")
            conditions.append(f"{other}.te - {mine}.ts <= {WITHIN_NS}")
        text += (
            f" JOIN (SELECT * FROM e WHERE type = '{mine}') {mine} ON {' AND '.join(conditions)}"
        )
    return text


def main() -> None:
    columns, plan = stream(COMPARED), query(chain(LENGTH))
    passes: dict[str, list[tuple[float, int]]] = {index: [] for index in INDEXES}
    for turn in range(1 + TURNS):  # the first may compile and is not counted
        for index in INDEXES:
            passes[index] += [timed(plan, columns, index, FEW)[:2]][:turn]
    took = {index: min(seconds for seconds, _ in of) for index, of in passes.items()}
    for index, of in passes.items():
        print(f"length {LENGTH}, 50t-50s, {index:8} {took[index]:7.3f} s  {of[0][1]:,} matches")
    for index, goal in (("indexed", 2), ("naive", 4)):
        print(f"ibp is {took[index] / took['ibp']:.1f} x {index} (goal {goal} x)")
    columns = stream(TIMED)
    less = stream(BATCHED)
    batch = in_batch(less)
    for keyed, goal in ((True, 1_000_000), (False, 300_000)):
        for length in (3, 4):
            plan = query(chain(length, keyed=keyed))
            timed(plan, stream(FEW), "ibp", FEW)
            every = [timed(plan, columns, "ibp", MANY) for _ in range(TURNS)]
            seconds, found, matcher = min(every, key=operator.itemgetter(0))
            print(
                f"length {length}, {'with a key' if keyed else 'no key':10} "
                f"{TIMED / seconds:11,.0f} intervals/s (goal {goal:,})  {found:,} matches, "
                f"{bytes_held(matcher):.0f} bytes per interval held"
            )
            if batch is not None:
                mine = min(timed(plan, less, "ibp", MANY)[:2] for _ in range(TURNS))
                its = min(batch(length, keyed) for _ in range(TURNS))
                assert its[1] == mine[1]
                print(
                    f"    {BATCHED:,} at once as range joins by DuckDB "
                    f"{BATCHED / its[0]:11,.0f} intervals/s: {its[0] / mine[0]:.1f} x our time"
                )
    if batch is None:
        print("no range join beside it: pip install duckdb")


if __name__ == "__main__":
    main()
