"""Whole processes against each other, in turns: ours and those of ``../shared/peers``.

Ours is the command line as a user types it, from an arrival log to a file of results; theirs are
the scripts of ``../shared/peers``, from Parquet or CSV to a file. A competitor that is not
installed is left out with a line that says how to install it; ``make bench`` runs none of this.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from bench.workload import FRAME_ROWS
from slackwater.engine.core.frame import Frame
from slackwater.engine.log.arrival_log import LogWriter

SCRIPTS: Final = Path(__file__).resolve().parents[2].parent / "shared" / "peers"
ROUND_TRIP_NS: Final = 2_000_000
_PR_SET_CHILD_SUBREAPER: Final = 36
"""Of Linux's ``prctl``."""
ON_SPARK: Final = ("--master", "local[2]")


@dataclass(frozen=True)
class Competitor:
    """A competitor: what to call, where its answer is, what it needs and how to get that."""

    name: str
    command: list[str]
    out: Path
    needs: Path
    remedy: str = ""


@dataclass(frozen=True)
class RaceRun:
    """Seconds of one process and its children, and what was found in its answer."""

    wall: float
    cpu: float
    found: Any


def import_log(
    data: Path, log: Path, offsets: np.ndarray | None,
    stream_of: Callable[[pa.RecordBatch], pa.Array] | None = None,
) -> None:  # fmt: skip
    """The rows as an arrival log; first, if ``offsets`` (per source) are given, their syncs.

    ``stream_of``: the stream of each row; all are of one without it.
    """
    with LogWriter(log) as writer:
        for number, batch in enumerate(pq.ParquetFile(data).iter_batches(FRAME_ROWS)):
            if number == 0 and offsets is not None:
                writer.append(_syncs(offsets, int(batch["arrival"][0].as_py())))
            fields = {name: batch[name] for name in ("seq", "ts", "arrival")}
            fields["source"] = batch["source"].cast(pa.string()).dictionary_encode()
            fields["type"] = batch["type"].dictionary_encode()
            fields["attrs.key"] = batch["id"].cast(pa.int64())
            fields["attrs.sid"] = batch["sid"].cast(pa.int64())
            fields["attrs.v"] = batch["v"]
            if stream_of is not None:
                fields["stream"] = stream_of(batch).dictionary_encode()
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


def ours(folder: Path, name: str, work: str, command: list[str], *options: str,
         data: str = "base", suffix: str = "parquet") -> Competitor:  # fmt: skip
    """Our command line: ``command`` is its verb with what is asked."""
    slackwater = Path(sys.executable).with_name("slackwater")
    out = folder / "out" / f"ours_{work}_{data}_{len(options)}.{suffix}"
    called = [str(slackwater), *command, "--input", str(folder / f"{data}.log"), "--quiet"]
    return Competitor(name, [*called, "--out", str(out), *options], out, slackwater)


def bytewax(folder: Path, work: str) -> Competitor:
    """By the script of that name."""
    python = folder.parent / "bytewax" / "bin" / "python"
    install = f"{python} -m pip install bytewax==0.21.1 pyarrow"
    return Competitor(
        "bytewax", [str(python), str(SCRIPTS / f"bytewax_{work}.py"), "base"],
        folder / "out" / f"bytewax_{work}_base.csv", python,
        f"python -m venv {python.parents[1]} && {install}",
    )  # fmt: skip


def duckdb(folder: Path, work: str) -> Competitor:
    """A batch over complete data: the least that anybody could take."""
    python = folder.parent / "duckdb" / "bin" / "python"
    return Competitor(
        "DuckDB (batch)", [str(python), str(SCRIPTS / "duckdb_all.py"), "base", work],
        folder / "out" / f"duckdb_{work}_base.parquet", python,
        f"python -m venv {python.parents[1]} && {python} -m pip install duckdb",
    )  # fmt: skip


def plain_spark(folder: Path, work: str) -> Competitor:
    """Structured Streaming without us."""
    return Competitor(
        "plain Spark, 200 k rows a batch",
        [sys.executable, str(SCRIPTS / f"spark_{work}.py"), "base"],
        folder / "out" / f"spark_{work}_base", Path(sys.executable),
    )  # fmt: skip


def flink_python(folder: Path, work: str) -> Competitor:
    """PyFlink's tables, in an environment of their own."""
    python = folder.parent / "pyflink" / "bin" / "python"
    return Competitor(
        "PyFlink", [str(python), str(SCRIPTS / f"flink_{work}.py"), "base"],
        folder / "out" / f"flink_{work}_base", python,
        f"python -m venv {python.parents[1]} && {python} -m pip install apache-flink==2.3.0",
    )  # fmt: skip


def everybody(folder: Path, work: str, default: list[str]) -> dict[str, Competitor]:
    """All competitors, by their names: ours with a slack as long as events come late, too."""
    slack = [*default, "--order", "kslack:1s"]
    return {
        "ours": ours(folder, "ours, kslack:1s", f"{work}_slack", slack),
        "ours-default": ours(folder, "ours, default order", work, default),
        "ours-spark": ours(folder, "ours, kslack:1s, Spark", f"{work}_slack", slack, *ON_SPARK),
        "bytewax": bytewax(folder, work),
        "duckdb": duckdb(folder, work),
        "spark": plain_spark(folder, work),
        "flink": flink_python(folder, work),
    }


def table_of(out: Path, columns: list[str]) -> pa.Table:
    """An answer: a file, or a folder of them, of CSV without a header or of Parquet."""
    files = [out] if out.is_file() else sorted(out.rglob("[!_.]*"))
    if any(file.suffix == ".parquet" for file in files):
        return pq.read_table([file for file in files if file.suffix == ".parquet"])
    named = pacsv.ReadOptions(column_names=columns)
    return pa.concat_tables([pacsv.read_csv(file, read_options=named) for file in files])


def run(
    side: Competitor, folder: Path, look: Callable[[Path], Any], limit_s: float
) -> RaceRun | None:
    """One whole process; ``look``: at its answer. None: it was not done within ``limit_s``.

    Raises:
        SystemExit: it failed; with the end of what it said.
    """
    shutil.rmtree(side.out, ignore_errors=True)
    side.out.unlink(missing_ok=True)
    environment = os.environ | {"PEERS_DIR": str(folder)}
    # Installed modules are kept compiled; ours, in a checkout, from the first run on.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with (folder / "said.txt").open("wb") as said:
        started = time.perf_counter()
        process = subprocess.Popen(
            side.command, stdout=said, stderr=subprocess.STDOUT, env=environment,
            start_new_session=True,
        )  # fmt: skip
        ender = threading.Timer(limit_s, os.killpg, (process.pid, signal.SIGKILL))
        ender.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        ender.cancel()
    cpu = usage.ru_utime + usage.ru_stime + _left_behind()
    if status and wall >= limit_s:
        return None
    if status:
        raise SystemExit(f"{side.name} failed: {(folder / 'said.txt').read_text()[-2000:]}")
    return RaceRun(wall, cpu, look(side.out))


def _left_behind() -> float:
    """Waits for what a side began and did not wait for, as a JVM; processor seconds of all that."""
    seconds = 0.0
    while True:
        try:
            _, _, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return seconds
        seconds += usage.ru_utime + usage.ru_stime


def race(
    doc: str, all_sides: Callable[[Path], dict[str, Competitor]], look: Callable[[Path], Any],
    compared: Callable[[Path], Callable[[Any], str]],
    more: Callable[[Path], None] | None = None,
) -> Path:  # fmt: skip
    """All that were asked for, in turns; gives the folder of the data.

    Args:
        doc: the help.
        all_sides: all competitors by name; the others are compared with the first.
        look: reads an answer.
        compared: of the data, a function that counts the right rows of an answer.
        more: makes other files in the folder.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sides", nargs="*", help=" ".join(all_sides(Path())))
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600, help="seconds for a side's run")
    options = parser.parse_args()
    unknown = [name for name in options.sides if name not in all_sides(Path())]
    if unknown:
        parser.error(f"nobody is called {unknown[0]}; there are {', '.join(all_sides(Path()))}")
    folder = Path(os.environ.get("PEERS_DIR", "out/peers")).resolve() / str(options.events)
    prepare(folder, options.events)
    if more is not None:
        more(folder)
    judge, known = compared(folder / "data" / "base.parquet"), all_sides(folder)
    runs: dict[str, list[RaceRun]] = {}
    for name in options.sides or known:
        side = known[name]
        if side.needs.exists():
            runs[name] = []
        else:
            print(f"{side.name}: not installed; {side.remedy}")
    # What a side leaves behind becomes a child of this process, which counts what it takes.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in range(options.rounds):
        for name in tuple(runs):
            done = run(known[name], folder, look, options.limit)
            if done is None:
                print(f"{known[name].name}: not done in {options.limit:g} s", flush=True)
                del runs[name]
                continue
            runs[name].append(done)
            times_text = f"{done.wall:.2f} s, {done.cpu:.2f} s processor"
            print(
                f"round {number + 1}: {known[name].name}: {times_text}", file=sys.stderr, flush=True
            )
    first = next(iter(known))
    for name, of_side in runs.items():
        wall, cpu = (
            statistics.median(getattr(each, of) for each in of_side) for of in ("wall", "cpu")
        )
        ratios = [
            each.wall / mine.wall
            for each, mine in zip(of_side, runs.get(first, of_side), strict=True)
        ]
        print(
            f"{known[name].name:36s} {wall:7.2f} s, {options.events / wall / 1e6:5.2f} M events/s; "
            f"{cpu:6.2f} s processor; {statistics.median(ratios):5.2f} x {known[first].name}; "
            f"{judge(of_side[-1].found)}",
            flush=True,
        )
    return folder
