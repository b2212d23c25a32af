"""Many sites, sources that come and go, keys that rotate: cost in proportion to the events alone.

Goals: 10,000 sites of 100 events in less than 60 s and 1 GB, results included, in process and on
Spark, where the driver, the JVM and each worker are a process of their own; 100,000
sources that come and go, and 10 M keys that rotate, in the memory that the first tenth of them
takes, at half the rate, or more, of the same events with sources and keys that stay. Each baseline
is run beside what it is compared with.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.hosts.spark.host import run_on_spark
from slackwater.engine.log.arrival_log import LogWriter, gathered
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.export import export_jsonl
from slackwater.engine.query import query

START_NS = 1_700_000_000 * 10**9
FRAME_ROWS = 65_536
SITES, EVENTS_OF_SITE = 10_000, 100
SOURCES, EVENTS_OF_SOURCE, AT_ONCE = 100_000, 100, 1_000
KEYS, EVENTS_OF_KEY = 10_000_000, 2
TYPES = ("A", "B", "C", "D")
QUERY = "EVENT SEQ(A a, B b) WHERE a.key = b.key WITHIN 1 s"
ORDER = "sequence:latency=1100ms"
SHARES = 10
REUSED_AFTER = 16


def settings() -> ChainSettings:
    """One pattern, whose matches are within a source's or a key's life."""
    return ChainSettings(parse_order(ORDER), (query(QUERY, name="q"),))


def frame(
    site: str, source: np.ndarray, seq: np.ndarray, n: np.ndarray, step: np.ndarray, key: np.ndarray
) -> Frame:
    """Events number ``n`` of all, 15,000 a second, each 5 ms after it was.

    ``step``: of A, B, C, D and A again. One match for each four events of a key.
    """
    names, codes = np.unique(source, return_inverse=True)
    texts = pa.array([f"source-{name}" for name in names.tolist()])
    ts = START_NS + n * 66_667
    return Frame(
        site,
        pa.RecordBatch.from_pydict(
            {
                "source": pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), texts),
                "seq": pa.array(seq),
                "type": pa.DictionaryArray.from_arrays(
                    pa.array((step % len(TYPES)).astype(np.int32)), pa.array(TYPES)
                ),
                "ts": pa.array(ts),
                "arrival": pa.array(ts + 5_000_000),
                "attrs.key": pa.array(key),
            }
        ),
    )


def site_frames(sites: int, events: int, at_once: int) -> Iterator[Frame]:
    """Every site sends so many events ``at_once``, in turn."""
    for first in range(0, events, at_once):
        seq = np.arange(first, first + at_once)
        for site in range(sites):
            n = seq * sites + site
            yield frame(f"site-{site:05d}", np.zeros(at_once, np.int64), seq, n, seq, seq // 4)


def passing(sources: bool, events: int) -> Iterator[Frame]:
    """1,000 sources in turn; each is followed by another one after 100 events, or stays."""
    for first in range(0, events, FRAME_ROWS):
        n = np.arange(first, min(first + FRAME_ROWS, events))
        place, turn = n % AT_ONCE, n // AT_ONCE + n % AT_ONCE % EVENTS_OF_SOURCE
        life, seq = np.divmod(turn, EVENTS_OF_SOURCE)
        source = place + AT_ONCE * life if sources else place
        step = n // AT_ONCE
        # Keys stay; each is used again when the last match that it could be in is long over.
        key = step // len(TYPES) % REUSED_AFTER * AT_ONCE + place
        yield frame("main", source, seq if sources else step, n, step, key)


def rotating(keys: bool, events: int) -> Iterator[Frame]:
    """One source; every key has two events, or there are 16,000 of them."""
    for first in range(0, events, FRAME_ROWS):
        n = np.arange(first, min(first + FRAME_ROWS, events))
        key = n // EVENTS_OF_KEY if keys else n // EVENTS_OF_KEY % (AT_ONCE * REUSED_AFTER)
        yield frame("main", np.zeros(len(n), np.int64), n, n, n, key)


def measure(frames: Iterator[Frame], events: int) -> tuple[float, list[int], int]:
    """Events per second of CPU of the last nine tenths; memory [MB] after each tenth; results."""
    chain, seconds, done, results = Chain(settings(), "main"), 0.0, 0, 0
    memory: list[int] = []
    for part in frames:
        started = time.process_time()
        output = chain.process([part])
        if memory:
            seconds += time.process_time() - started
        done += part.rows
        results += sum(map(len, output.results))
        if done >= (len(memory) + 1) * events / SHARES:
            memory.append(mb("VmRSS"))
    return (1 - 1 / SHARES) * events / seconds, memory, results


def family() -> list[Path]:
    """Folders of this process and all that it started, which still run."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):  # has ended meanwhile
                fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                parents[folder] = fields[1]
    found = [Path("/proc") / str(os.getpid())]
    for each in found:  # grows meanwhile
        found += [folder for folder, parent in parents.items() if parent == each.name]
    return found


def spent() -> float:
    """Seconds of CPU of the whole family."""
    ticks = 0
    for folder in family():
        fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def mb(name: str, folder: Path = Path("/proc/self")) -> int:
    """A line of a process's status [MB]."""
    lines = (folder / "status").read_text(encoding="utf-8").splitlines()
    found = (int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
    return next(found, 0) // 1024  # it has just ended


def in_another_process(job: Callable[..., None], *arguments: Any) -> None:
    """With memory of its own."""
    process = multiprocessing.get_context("spawn").Process(target=job, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def write_sites(log: Path, sites: int) -> None:
    """The log of ``many_sites``."""
    with LogWriter(log) as writer:
        for each in gathered(site_frames(sites, EVENTS_OF_SITE, 10)):
            writer.append(each)


def many_sites(sites: int, on_spark: bool) -> None:
    """A log of many sites, its answers as JSON lines."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_another_process(write_sites, folder / "log", sites)
        began, started = spent(), time.perf_counter()
        run = run_on_spark if on_spark else run_in_process
        run(folder / "log", settings(), folder / "out")
        lines = export_jsonl(folder / "out", folder / "out.jsonl")
        wall, seconds = time.perf_counter() - started, spent() - began
    most = [f"{mb('VmHWM', each):,}" for each in family()]
    print(
        f"{sites:,} sites x {EVENTS_OF_SITE} events {'on Spark' if on_spark else 'in process'}: "
        f"{lines:,} results, {seconds:.1f} s of CPU, {wall:.1f} s by the clock; "
        f"at most {' + '.join(most)} MB"
    )


def compared(
    what: str, stream: Callable[[bool, int], Iterator[Frame]], changing: int, events: int
) -> None:
    """The same events with what stays and with what comes and goes."""
    steady, _, _ = measure(stream(False, events), events)
    rate, memory, _ = measure(stream(True, events), events)
    print(
        f"{changing:,} {what}: {rate / 1e6:.2f} M events/s, {rate / steady:.2f} x the steady rate; "
        f"{memory[0]:,} MB after a tenth of them, {memory[-1]:,} MB in the end"
    )


def main() -> None:
    events = SOURCES * EVENTS_OF_SOURCE
    jobs = (
        (many_sites, (SITES, False)),
        (many_sites, (SITES, True)),
        (compared, ("sources that come and go", passing, SOURCES, events)),
        (compared, ("keys that rotate", rotating, KEYS, KEYS * EVENTS_OF_KEY)),
    )
    for job, arguments in jobs:
        in_another_process(job, *arguments)


if __name__ == "__main__":
    main()
