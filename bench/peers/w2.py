"""W2 of ``../shared/peers`` beside its peers: whole processes, one after another, in turns.

W2 is ``SEQ(A a, !C c, B b)`` on equal keys WITHIN 5 s; 12.5 % of the events are up to 1 s late. The
pairs are compared with those that NumPy finds among all events at once.

On the ``offset`` data each source's clock is off by up to 1 s. Ours is given one sync record per
source, as its agent would send: the offset, measured to within half of a round trip of 2 ms.

``PEERS_DIR=/some/dir python -m bench.peers.w2 [--events N] [--rounds N] [SIDE ...]``
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from bench.peers.pairs import KEY_WIDTH, against, as_one, our_pairs
from bench.peers.race import ON_SPARK, Competitor, bytewax, duckdb, ours, plain_spark, race, run

QUERY: Final = (
    "EVENT SEQ(A a, !C c, B b) WHERE a.key = b.key AND c.key = a.key WITHIN 5 s "
    "RETURN a.key"
)  # fmt: skip
WITHIN_NS: Final = 5_000_000_000
_LIMIT_S: Final = 600
_OURS: Final = ["query", QUERY, "--order", "none", "--barrier", "bounded:1s"]


def true_pairs(data: Path, ts: np.ndarray) -> np.ndarray:
    """(n, 2) times of a and b: every pair, when the events have the times ``ts``."""
    table = pq.read_table(data, columns=["type", "id"])
    key, start = table["id"].to_numpy().astype(np.int64) * KEY_WIDTH, ts.min()
    place = {
        letter: np.sort((key + ts - start)[pc.equal(table["type"], letter).to_numpy()])
        for letter in "ABC"
    }
    a, b, c = place["A"], place["B"], place["C"]
    next_c = np.append(c, np.iinfo(np.int64).max)[np.searchsorted(c, a, "right")]
    last = np.minimum(next_c, np.minimum(a + WITHIN_NS, (a // KEY_WIDTH + 1) * KEY_WIDTH - 1))
    first, behind = np.searchsorted(b, a, "right"), np.searchsorted(b, last, "right")
    many = np.maximum(behind - first, 0)
    of = np.repeat(np.arange(len(a)), many)
    with_b = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many) + first[of]
    return np.column_stack([a[of], b[with_b]]) % KEY_WIDTH + start


def sides(folder: Path) -> dict[str, Competitor]:
    """All competitors, by their names."""
    flink = folder.parent / "flink"
    jars = ":".join(str(jar) for jar in [flink / "classes", *(flink / "lib").glob("*.jar")])
    java = shutil.which("java") or "java"
    opens = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("util", "lang", "time")]
    lines = ours(folder, "ours, in process, .jsonl", "w2", _OURS, suffix="jsonl")
    return {
        "ours": ours(folder, "ours, in process", "w2", _OURS),
        "ours-jsonl": lines,
        "ours-spark": ours(folder, "ours, Spark local[2]", "w2", _OURS, *ON_SPARK),
        "bytewax": bytewax(folder, "w2"),
        "duckdb": duckdb(folder, "w2"),
        "spark": plain_spark(folder, "w2"),
        "flink": Competitor(
            "FlinkCEP (Java)",
            [java, "-Xmx4g", *opens, "-cp", jars, "FlinkCepW2", "base", "2", "reuse"],
            folder / "out" / "flink_cep_base.csv", flink / "classes" / "FlinkCepW2.class",
            f"pyflink/lib of PyPI's apache-flink-libraries==2.3.0 to {flink / 'lib'}, and "
            f"javac -cp '{flink / 'lib'}/*' -d {flink / 'classes'} FlinkCepW2.java",
        ),
    }  # fmt: skip


def pairs_of(out: Path) -> np.ndarray:
    """(n, 2) times of a and b, as the competitor wrote them."""
    if out.suffix == ".csv":
        none = pacsv.ReadOptions(column_names=["a", "b"])
        table = pacsv.read_csv(out, read_options=none)
        return np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])
    if out.is_dir():
        table = pq.read_table(sorted(out.glob("*.parquet")))
        return np.column_stack([column.to_numpy() for column in table.columns])
    if out.name.startswith("ours"):
        return our_pairs(out)
    table = pq.read_table(out, columns=["a", "b"])
    return np.column_stack([column.to_numpy() for column in table.columns])


def compared(data: Path) -> Callable[[np.ndarray], str]:
    """A function that counts the right, missing and wrong pairs."""
    return against(true_pairs(data, pq.read_table(data, columns=["ts"])["ts"].to_numpy()))


def _one_number(source: np.ndarray, seq: np.ndarray) -> np.ndarray:
    """A source and a number of its events as one."""
    return np.asarray(source.astype(np.int64) * KEY_WIDTH + seq)


def offset_run(folder: Path) -> None:
    """Ours on the clocks that are off: recall, precision, and whether what is wrong says so."""
    side = ours(folder, "offset", "w2", _OURS, data="offset")
    done = run(side, folder, pairs_of, _LIMIT_S)
    if done is None:
        print(f"offset: not done in {_LIMIT_S} s")
        return
    data = pq.read_table(folder / "data" / "offset.parquet", columns=["source", "seq"])
    true = pq.read_table(folder / "data" / "offset_true.parquet")["true_ts"].to_numpy()
    truth = true_pairs(folder / "data" / "offset.parquet", true)
    # By number: among millions of events some of different sources show the same time.
    results = pq.read_table(side.out, columns=["op", "certainty", "events"])
    events = pc.list_flatten(results["events"].combine_chunks())
    source, number = events.field("source").cast(pa.int64()), events.field("seq")
    known = _one_number(data["source"].to_numpy(), data["seq"].to_numpy())
    numbers = _one_number(source.to_numpy(), number.to_numpy())
    order = np.argsort(known)
    found = true[order][np.searchsorted(known[order], numbers)].reshape(-1, 2)
    right = np.isin(as_one(found), as_one(truth))
    sure = pc.equal(results["certainty"], "confirmed").to_numpy()
    is_insertion = pc.equal(results["op"], "+").to_numpy()
    wrong, unsure = ~right & is_insertion, ~sure & is_insertion
    print(
        f"offset: {int((right & is_insertion).sum()):,} of {len(truth):,} true pairs given, "
        f"{int(wrong.sum()):,} wrong ones, {int((wrong & sure).sum()):,} of them as confirmed; "
        f"{int(unsure.sum()):,} of {int(is_insertion.sum()):,} uncertain; "
        f"{int((~is_insertion).sum()):,} retracted; {done.wall:.2f} s"
    )


if __name__ == "__main__":
    offset_run(race(__doc__, sides, pairs_of, compared))
