"""An interval join beside its peers: whole processes, one after another, in turns.

``FROM a JOIN b ON a.key = b.key WITHIN 100 ms``: 1,000 keys, half of the events on each side,
12.5 % of them up to 1 s late. The pairs are compared with those that NumPy finds at once.

``PEERS_DIR=/some/dir python -m bench.peers.joins [--events N] [--rounds N] [SIDE ...]``
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.peers import race as peers
from bench.peers.pairs import KEY_WIDTH, against, our_pairs
from bench.peers.race import ON_SPARK, SCRIPTS, Competitor, import_log, ours, race, table_of

QUERY: Final = "SELECT a.key, a.v, b.v AS w FROM a JOIN b ON a.key = b.key WITHIN 100 ms"
WITHIN_NS: Final = 100_000_000
BY_OTHERS: Final = Path(__file__).with_name("join_by_others.py")
_COLUMNS: Final = ["a", "b", "key", "v", "w"]


def side_of(batch: pa.RecordBatch) -> pa.Array:
    """The stream of each row."""
    return pc.if_else(pc.less(batch["type"], "F"), "a", "b")


def more(folder: Path) -> None:
    """Our log, with two streams; made once."""
    if not (folder / "join.log").exists():
        import_log(folder / "data" / "base.parquet", folder / "join.log", None, side_of)


def by_others(side: Competitor, name: str) -> Competitor:
    """The same side with the join as its work."""
    called = ["env", f"PEERS_SCRIPTS={SCRIPTS}", side.command[0], str(BY_OTHERS), name]
    suffix = {"bytewax": ".csv", "duckdb": ".parquet"}.get(name, "")
    return replace(side, command=called, out=side.out.with_name(f"join_{name}{suffix}"))


def sides(folder: Path) -> dict[str, Competitor]:
    """All competitors, by their names."""
    arguments = ["query", QUERY, "--order", "none"]
    return {
        "ours": ours(folder, "ours, in process", "join", arguments, data="join"),
        "ours-jsonl": ours(folder, "ours, .jsonl", "join", arguments, data="join", suffix="jsonl"),
        "ours-spark": ours(
            folder, "ours, Spark local[2]", "join", arguments, *ON_SPARK, data="join"
        ),
        "bytewax": by_others(peers.bytewax(folder, "w2"), "bytewax"),
        "duckdb": by_others(peers.duckdb(folder, "w2"), "duckdb"),
        "spark": by_others(peers.plain_spark(folder, "w2"), "spark"),
        "flink": by_others(peers.flink_python(folder, "w2"), "flink"),
    }


def true_pairs(data: Path) -> np.ndarray:
    """(n, 2) times of a and b: every pair."""
    table = pq.read_table(data, columns=["type", "id", "ts"])
    ts, left = table["ts"].to_numpy(), pc.less(table["type"], "F").to_numpy()
    start = int(ts.min())
    place = table["id"].to_numpy().astype(np.int64) * KEY_WIDTH + ts - start
    a, b = np.sort(place[left]), np.sort(place[~left])
    first = np.searchsorted(b, a - WITHIN_NS, "left")
    many = np.searchsorted(b, a + WITHIN_NS, "right") - first
    of = np.repeat(np.arange(len(a)), many)
    partner = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many) + first[of]
    return np.column_stack([a[of], b[partner]]) % KEY_WIDTH + start


def pairs_of(out: Path) -> np.ndarray:
    """(n, 2) times of a and b, as the competitor wrote them."""
    if out.name.startswith("ours"):
        return our_pairs(out)
    table = table_of(out, _COLUMNS)
    return np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])


def compared(data: Path) -> Callable[[np.ndarray], str]:
    """What says how many pairs are right, and wrong."""
    return against(true_pairs(data))


if __name__ == "__main__":
    sys.exit(0 if race(__doc__, sides, pairs_of, compared, more).exists() else 1)
