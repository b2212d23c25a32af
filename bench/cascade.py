"""A cascade of two statements beside the same two one after the other through a file, and the first
one alone.

The first averages 100 keys in windows of 50 ms, 2,000 results a second of the stream; the second
finds averages that rise, or takes the highest of each second. Each way ends with its results in
Parquet files: the cascade in one pass, *by file* in two: the windows' results are read again, made
events, and answered by a chain of their own. Late events are waited for, so nothing is corrected;
in a third case they are not, and what is downstream is set back. Seconds are processor time of this
process, the best of ROUNDS that take turns. ``python -m bench.cascade``
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.workload import FRAME_ROWS, columns, frames
from slackwater.engine.core.frame import Frame
from slackwater.engine.core.operator import ResultPieces
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.operators.cascade.derived_events import columns_in
from slackwater.engine.operators.window.settings import parse_window
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.plan import Plan

EVENTS = 400_000
SOURCES = 20
ROUNDS = 3
GOAL_RATIO = 1.0
"""A cascade takes no longer than two passes."""
FIRST = "SELECT avg(v) AS v GROUP BY sid WINDOW TUMBLING 50 ms"
RISES = "EVENT SEQ(w a, w b) WHERE a.sid = b.sid AND b.v > a.v + 25 WITHIN 200 ms RETURN a.sid"
HIGHEST = "SELECT max(v) AS top FROM w GROUP BY sid WINDOW TUMBLING 1 s"
CASES = (
    ("rises", "kslack:1s", RISES), ("highest", "kslack:1s", HIGHEST),
    ("corrected", "sequence", HIGHEST),
)  # fmt: skip


def answered(
    plans: tuple[Plan, ...], order: str, input_frames: Sequence[Frame], folder: Path
) -> dict[str, int]:
    """How many results each query has, which are in files by their names."""
    settings = ChainSettings(
        parse_order(order), plans, guards=Guards(None), window=parse_window("horizon=5s")
    )
    chain = Chain(settings, "main")
    tables: dict[str, list[pa.Table]] = {plan.name: [] for plan in plans}

    def keep(results: Sequence[ResultPieces]) -> None:
        for name, of in zip(tables, results, strict=True):
            for piece in columns_in(of.pieces):
                tables[name] += type(piece).tables([piece])

    for frame in input_frames:
        keep(chain.process([frame]).results)
    keep(chain.finish().results)
    for name, mine in tables.items():
        if mine:
            whole = pa.concat_tables(mine, promote_options="permissive")
            pq.write_table(whole, folder / f"{name}.parquet")
    return {name: sum(table.num_rows for table in mine) for name, mine in tables.items()}


def windows_as_events(path: Path) -> Iterator[Frame]:
    """The results of FIRST, all final, as events in the order of their ends."""
    table = pq.read_table(path, columns=["window", "key", "value"])
    start, end, sid, v = (
        table[of].combine_chunks().field(name).to_numpy(zero_copy_only=False)
        for of, name in (("window", "start"), ("window", "end"), ("key", "sid"), ("value", "v"))
    )
    order, n = np.lexsort((sid, end)), len(end)
    name = pa.array(["w"]).dictionary_encode().take(pa.array(np.zeros(n, np.int64)))
    every = pa.RecordBatch.from_pydict({
        "stream": name, "source": name, "type": name, "seq": pa.array(np.arange(n)),
        "ts": pa.array(start[order]), "te": pa.array(end[order] - 1),
        "arrival": pa.array(end[order]), "attrs.sid": pa.array(sid[order]),
        "attrs.v": pa.array(v[order]),
    })  # fmt: skip
    for begin in range(0, n, FRAME_ROWS):
        yield Frame("main", every.slice(begin, FRAME_ROWS))


def spent(work: Callable[[Path], dict[str, int]]) -> tuple[float, dict[str, int]]:
    """(processor seconds of ``work`` in a folder of its own, what it gives)."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        counts = work(Path(folder))
        return time.process_time() - started, counts


def compared(
    order: str, second: str, input_frames: Sequence[Frame]
) -> tuple[dict[str, float], int, int]:
    """(the least seconds of each way, results of the first statement, and of the second)."""
    both, _ = read_statements([f"CREATE STREAM w AS {FIRST}; CREATE STREAM x AS {second}"])
    first, alone = query(FIRST, name="w"), query(second, name="x")

    def by_file(folder: Path) -> dict[str, int]:
        counts = answered((first,), order, input_frames, folder)
        events = list(windows_as_events(folder / "w.parquet"))
        return counts | answered((alone,), "none", events, folder)

    ways: dict[str, Callable[[Path], dict[str, int]]] = {
        "cascade": lambda folder: answered(both, order, input_frames, folder),
        "first alone": lambda folder: answered((first,), order, input_frames, folder),
    }
    if order != "sequence":  # retracted results are no events of a file
        ways["by file"] = by_file
    least, counts = dict.fromkeys(ways, float("inf")), dict[str, dict[str, int]]()
    for _ in range(ROUNDS):
        for name, work in ways.items():
            seconds, counts[name] = spent(work)
            least[name] = min(least[name], seconds)
    found = counts["cascade"]
    if "by file" in counts:
        assert counts["by file"] == found, counts
    return least, found["w"], found["x"]


def main() -> int:
    input_frames = list(frames(columns(EVENTS, SOURCES), SOURCES))
    compared("kslack:1s", RISES, input_frames[:2])  # compile
    slow = False
    for name, order, second in CASES:
        least, first, last = compared(order, second, input_frames)
        of_file = least.get("by file")
        ratio = None if of_file is None else least["cascade"] / of_file
        ratio_text = "" if ratio is None else f"{ratio:5.2f} of two passes through a file, "
        print(
            f"cascade, {name:10s} {EVENTS / least['cascade'] / 1e6:6.2f} M events/s, {first:,} "
            f"and {last:,} results, {ratio_text}{least['cascade'] / least['first alone']:5.2f} of "
            "the first statement alone"
        )
        slow |= ratio is not None and ratio > GOAL_RATIO
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
