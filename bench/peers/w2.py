"""W2 of ``../shared/peers`` beside its peers: whole processes, one after another, in turns.

W2 is ``SEQ(A a, !C c, B b)`` on equal keys WITHIN 5 s over events of which 12.5 % are up to 1 s
late. Ours is the command line as a user types it, from an arrival log to a file of results; theirs
are the scripts of ``../shared/peers``, from Parquet or CSV to a file of pairs. The pairs are
compared with those that NumPy finds among all events at once. Peers that are not installed are left
out with a line that says how to install them; ``make bench`` runs none of this.

On the ``offset`` data each source's clock is off by up to 1 s. Ours is given one sync record per
source, as its agent would send: the offset, measured to within half of a round trip of 2 ms.

``PEERS_DIR=/some/dir python -m bench.peers.w2 [--events N] [--rounds N] [SIDE ...]``
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from bench.workload import FRAME_ROWS
from engine.log.arrival_log import LogWriter
from engine.stream.frame import Frame

SCRIPTS: Final = Path(__file__).resolve().parents[2].parent / "shared" / "peers"
QUERY: Final = (
    "EVENT SEQ(A a, !C c, B b) WHERE a.key = b.key AND c.key = a.key WITHIN 5 s "
    "RETURN a.key"
)  # fmt: skip
WITHIN_NS: Final = 5_000_000_000
ROUND_TRIP_NS: Final = 2_000_000
_KEY_WIDTH: Final = 1 << 44
"""Keys apart from times, in one number: times of a run are below 2^44 ns (5 h)."""


@dataclass(frozen=True)
class Side:
    """A competitor: what to call, where its pairs are, what it needs and how to get that."""

    name: str
    command: list[str]
    out: Path
    needs: Path
    remedy: str = ""


@dataclass(frozen=True)
class Run:
    """Seconds of one process and its children, and its pairs."""

    wall: float
    cpu: float
    pairs: np.ndarray


def true_pairs(data: Path, ts: np.ndarray) -> np.ndarray:
    """(n, 2) times of a and b: every pair, when the events have the times ``ts``."""
    table = pq.read_table(data, columns=["type", "id"])
    key, start = table["id"].to_numpy().astype(np.int64) * _KEY_WIDTH, ts.min()
    place = {
        letter: np.sort((key + ts - start)[pc.equal(table["type"], letter).to_numpy()])
        for letter in "ABC"
    }
    a, b, c = place["A"], place["B"], place["C"]
    next_c = np.append(c, np.iinfo(np.int64).max)[np.searchsorted(c, a, "right")]
    last = np.minimum(next_c, np.minimum(a + WITHIN_NS, (a // _KEY_WIDTH + 1) * _KEY_WIDTH - 1))
    first, behind = np.searchsorted(b, a, "right"), np.searchsorted(b, last, "right")
    many = np.maximum(behind - first, 0)
    of = np.repeat(np.arange(len(a)), many)
    with_b = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many) + first[of]
    return np.column_stack([a[of], b[with_b]]) % _KEY_WIDTH + start


def import_log(data: Path, log: Path, offsets: np.ndarray | None) -> None:
    """The rows as an arrival log; first, if ``offsets`` (per source) are given, their syncs."""
    with LogWriter(log) as writer:
        for number, batch in enumerate(pq.ParquetFile(data).iter_batches(FRAME_ROWS)):
            if number == 0 and offsets is not None:
                writer.append(_syncs(offsets, int(batch["arrival"][0].as_py())))
            fields = {name: batch[name] for name in ("seq", "ts", "arrival")}
            fields["source"] = batch["source"].cast(pa.string()).dictionary_encode()
            fields["type"] = batch["type"].dictionary_encode()
            fields["attrs.key"] = batch["id"].cast(pa.int64())
            fields["attrs.v"] = batch["v"]
            writer.append(Frame("main", pa.RecordBatch.from_pydict(fields)))


def _syncs(offsets: np.ndarray, arrival: int) -> Frame:
    n = len(offsets)
    fields = {
        "kind": pa.array(np.full(n, 3, np.int8)),
        "source": pa.array([str(number) for number in range(n)]).dictionary_encode(),
        "seq": pa.nulls(n, pa.int64()),
        "ts": pa.array(arrival - offsets),
        "arrival": pa.array(np.full(n, arrival)),
        "offset": pa.array(offsets),
        "delay": pa.array(np.full(n, ROUND_TRIP_NS)),
        "first_seq": pa.array(np.zeros(n, np.int64)),
    }
    return Frame("main", pa.RecordBatch.from_pydict(fields))


def prepare(folder: Path, events: int) -> None:
    """Data by the peers' generator, and our logs of it; made once."""
    data = folder / "data"
    (folder / "out").mkdir(parents=True, exist_ok=True)
    if not (data / "offset_true.parquet").exists():
        environment = os.environ | {"PEERS_DIR": str(folder), "N": str(events)}
        subprocess.run([sys.executable, SCRIPTS / "gen.py"], check=True, env=environment)
    if not (folder / "base.log").exists():
        import_log(data / "base.parquet", folder / "base.log", None)
    if not (folder / "offset.log").exists():
        table = pq.read_table(data / "offset.parquet", columns=["source", "ts"])
        true = pq.read_table(data / "offset_true.parquet")["true_ts"].to_numpy()
        source, place = np.unique(table["source"].to_numpy(), return_index=True)
        offsets = (true - table["ts"].to_numpy())[place]
        error = np.random.default_rng(1).uniform(-0.5, 0.5, len(source)) * ROUND_TRIP_NS
        import_log(data / "offset.parquet", folder / "offset.log", offsets + error.astype(int))


def ours(folder: Path, name: str, *options: str, data: str = "base", suffix: str) -> Side:
    """Our command line."""
    slackwater = Path(sys.executable).with_name("slackwater")
    out = folder / "out" / f"ours_{data}_{len(options)}.{suffix}"
    command = [
        str(slackwater), "query", QUERY, "--input", str(folder / f"{data}.log"), "--order", "none",
        "--barrier", "bounded:1s", "--quiet", "--out", str(out), *options,
    ]  # fmt: skip
    return Side(name, command, out, slackwater)


def sides(folder: Path) -> dict[str, Side]:
    """Everybody, by the name to call them."""
    bytewax = folder.parent / "bytewax" / "bin" / "python"
    flink = folder.parent / "flink"
    jars = ":".join(str(jar) for jar in [flink / "classes", *(flink / "lib").glob("*.jar")])
    java = shutil.which("java") or "java"
    opens = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("util", "lang", "time")]
    out, on_spark = folder / "out", ("--master", "local[2]")
    python = f"{bytewax} -m pip install bytewax==0.21.1 pyarrow"
    return {
        "ours": ours(folder, "ours, in-process, .parquet", "--in-process", suffix="parquet"),
        "ours-jsonl": ours(folder, "ours, in-process, .jsonl", "--in-process", suffix="jsonl"),
        "ours-spark": ours(folder, "ours, Spark local[2]", *on_spark, suffix="parquet"),
        "bytewax": Side(
            "bytewax", [str(bytewax), str(SCRIPTS / "bytewax_w2.py"), "base"],
            out / "bytewax_w2_base.csv", bytewax,
            f"python -m venv {bytewax.parents[1]} && {python}",
        ),
        "spark": Side(
            "plain Spark, 200 k rows a batch",
            [sys.executable, str(SCRIPTS / "spark_w2.py"), "base"],
            out / "spark_w2_base", Path(sys.executable),
        ),
        "flink": Side(
            "FlinkCEP (Java)",
            [java, "-Xmx4g", *opens, "-cp", jars, "FlinkCepW2", "base", "2", "reuse"],
            out / "flink_cep_base.csv", flink / "classes" / "FlinkCepW2.class",
            f"pyflink/lib of PyPI's apache-flink-libraries==2.3.0 to {flink / 'lib'}, and "
            f"javac -cp '{flink / 'lib'}/*' -d {flink / 'classes'} FlinkCepW2.java",
        ),
    }  # fmt: skip


def run(side: Side, folder: Path) -> Run:
    """One whole process.

    Raises:
        SystemExit: it failed; with the end of what it said.
    """
    shutil.rmtree(side.out, ignore_errors=True)
    side.out.unlink(missing_ok=True)
    environment = os.environ | {"PEERS_DIR": str(folder)}
    # Installed, everybody's modules are kept compiled; ours, in a checkout, from the first run on.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with (folder / "said.txt").open("wb") as said:
        started = time.perf_counter()
        process = subprocess.Popen(
            side.command, stdout=said, stderr=subprocess.STDOUT, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
    if status:
        raise SystemExit(f"{side.name} failed: {(folder / 'said.txt').read_text()[-2000:]}")
    return Run(wall, usage.ru_utime + usage.ru_stime, pairs_of(side.out))


def pairs_of(out: Path) -> np.ndarray:
    """(n, 2) times of a and b, as written by whoever it was."""
    if out.suffix == ".csv":
        none = pacsv.ReadOptions(column_names=["a", "b"])
        table = pacsv.read_csv(out, read_options=none)
        return np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])
    if out.is_dir():
        table = pq.read_table(sorted(out.glob("*.parquet")))
        return np.column_stack([column.to_numpy() for column in table.columns])
    if out.suffix == ".parquet":
        ts = pc.list_flatten(pq.read_table(out)["events"].combine_chunks()).field("ts")
        return ts.to_numpy().reshape(-1, 2)
    import json  # noqa: PLC0415 - of one side only

    with out.open() as lines:
        events = [json.loads(line)["events"] for line in lines]
    return np.array([[event["ts"] for event in pair] for pair in events], np.int64)


def compared(pairs: np.ndarray, truth: np.ndarray) -> str:
    """How many are right, missing and wrong."""
    mine, all_of = (_as_one(each) for each in (pairs, truth))
    right = int(np.isin(np.unique(mine), all_of).sum())
    return f"{right:,} of {len(truth):,} pairs, {len(mine) - right:,} wrong"


def _as_one(pairs: np.ndarray) -> np.ndarray:
    """A pair as one value."""
    both = [("a", np.int64), ("b", np.int64)]
    return np.ascontiguousarray(pairs, np.int64).view(both).ravel()


def _one_number(source: np.ndarray, seq: np.ndarray) -> np.ndarray:
    """A source and a number of its events as one."""
    return np.asarray(source.astype(np.int64) * _KEY_WIDTH + seq)


def offset_run(folder: Path, show: Callable[[str], None]) -> None:
    """Ours on the clocks that are off: recall, precision, and whether what is wrong says so."""
    side = ours(folder, "offset", "--in-process", data="offset", suffix="parquet")
    done = run(side, folder)
    data = pq.read_table(folder / "data" / "offset.parquet", columns=["source", "seq"])
    true = pq.read_table(folder / "data" / "offset_true.parquet")["true_ts"].to_numpy()
    truth = true_pairs(folder / "data" / "offset.parquet", true)
    # By number: among millions of events some of different sources show the same time.
    results = pq.read_table(side.out, columns=["op", "certainty", "events"])
    events = pc.list_flatten(results["events"].combine_chunks())
    source, number = events.field("source").cast(pa.int64()), events.field("seq")
    known = _one_number(data["source"].to_numpy(), data["seq"].to_numpy())
    asked = _one_number(source.to_numpy(), number.to_numpy())
    order = np.argsort(known)
    found = true[order][np.searchsorted(known[order], asked)].reshape(-1, 2)
    right = np.isin(_as_one(found), _as_one(truth))
    sure = pc.equal(results["certainty"], "confirmed").to_numpy()
    given = pc.equal(results["op"], "+").to_numpy()
    wrong, unsure = ~right & given, ~sure & given
    show(
        f"offset: {int((right & given).sum()):,} of {len(truth):,} true pairs given, "
        f"{int(wrong.sum()):,} wrong ones, {int((wrong & sure).sum()):,} of them as confirmed; "
        f"{int(unsure.sum()):,} of {int(given.sum()):,} uncertain; "
        f"{int((~given).sum()):,} taken back; {done.wall:.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("sides", nargs="*", help="ours ours-jsonl ours-spark bytewax spark flink")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    folder = Path(os.environ.get("PEERS_DIR", "peers-data")).resolve() / str(asked.events)
    prepare(folder, asked.events)
    data = folder / "data" / "base.parquet"
    truth = true_pairs(data, pq.read_table(data, columns=["ts"])["ts"].to_numpy())
    runs: dict[str, list[Run]] = {}
    known = sides(folder)
    for number in range(asked.rounds):
        for name in asked.sides or known:
            side = known[name]
            if not side.needs.exists():
                if not number:
                    print(f"{side.name}: not installed; {side.remedy}")
                continue
            runs.setdefault(name, []).append(run(side, folder))
    for name, done in runs.items():
        wall, cpu = (
            statistics.median(getattr(each, of) for each in done) for of in ("wall", "cpu")
        )
        ratios = [
            each.wall / mine.wall for each, mine in zip(done, runs.get("ours", done), strict=True)
        ]
        print(
            f"{known[name].name:32s} {wall:7.2f} s, {asked.events / wall / 1e6:5.2f} M events/s; "
            f"{cpu:6.2f} s processor; {statistics.median(ratios):5.2f} x ours in-process; "
            f"{compared(done[-1].pairs, truth)}",
            flush=True,
        )
    offset_run(folder, print)


if __name__ == "__main__":
    main()
