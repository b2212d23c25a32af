"""A sweep's cells in one process that stays, as the workers of ``run --sweep`` do.

A cell is a scenario file of 60 s with 20 sources of 100 events/s each (120,000 events), simulated,
answered (a pattern and a window) and scored. Goal (issue 14): 100 cells in 5 minutes on 2 cores,
which is 6 s a cell on one, in memory that does not grow from cell to cell. The first cell loads
kernels and modules, and is marked.

    python -m bench.sweep [CELLS]
    python -m bench.sweep --whole [CELLS]      all of them (100), side by side over the cores
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from slackwater.engine.apps.sweep.cells import answer_of, answered, cells, jobs_of, read_axes

GOAL_S = 6.0
SECONDS = 60
CELLS = 4
WHOLE, GOAL_MINUTES = 100, 5.0
SWEPT = "link.jitter=1ms..100ms/{}"
SCENARIO = """
title = "Twenty readers"
duration = "{} s"
thresholds = ["recall >= 0.99", "missing <= 0.1 %", "pairs: detection_delay_p95 <= 2 s"]
clock = {{ offset_spread = "500 ms", skew_ppm_spread = 20 }}
link = {{ delay = "5 ms", jitter = "10 ms" }}
[[sources]]
name = "reader"
count = 20
[sources.workload]
model = "poisson"
mean = "10 ms"
type = ["A", "B"]
attrs.tag = {{ model = "uniform", low = 0, high = 5000, whole = true }}
[queries]
pairs = "EVENT SEQ(A a, B b) WHERE a.tag = b.tag WITHIN 1 s"
load = "SELECT count(*) FROM events WINDOW TUMBLING 10 s"
"""


def resident_mib() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def whole(count: int) -> int:
    """The sweep itself, workers started and all; exit code 1 when it takes longer than the goal."""
    axes = read_axes([SWEPT.format(count)])
    begin, cores = time.monotonic(), os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "readers.toml"
        path.write_text(SCENARIO.format(SECONDS))
        jobs = jobs_of(axes, cells(axes), 1, 1, ())
        answers = answered(path, jobs, Path(folder) / "out", lambda _: None)
    minutes = (time.monotonic() - begin) / 60
    assert all(answer.error is None for answer in answers)
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"sweep: {count} cells on {cores} cores in {minutes:.1f} min (goal {GOAL_MINUTES} for "
        f"{WHOLE} on 2), {(workers.ru_utime + workers.ru_stime) / count:.2f} s of processor time "
        f"each, at most {workers.ru_maxrss >> 10} MiB a worker, load {os.getloadavg()[0]:.0f}"
    )
    return 0 if minutes <= GOAL_MINUTES * count / WHOLE else 1


def main() -> int:
    """Prints each cell's time and memory; exit code 1 when the goal is missed."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if "--whole" in sys.argv:
        return whole(max(int(words[0]) if words else WHOLE, 2))
    count = max(int(words[0]) if words else CELLS, 2)
    axes = read_axes([SWEPT.format(count)])
    took: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "readers.toml"
        path.write_text(SCENARIO.format(SECONDS))
        for job in jobs_of(axes, cells(axes), 1, 1, ()):
            begin = time.process_time()
            answer = answer_of(str(path), job)
            took.append(time.process_time() - begin)
            assert answer.error is None, answer.error
            events = answer.metrics["events"]["events"]
            note = "" if took[1:] else " (modules and kernels loaded)"
            print(
                f"sweep: jitter {job.cell[0]:>6s}: {took[-1]:5.2f} s of processor time, "
                f"{events / took[-1]:7,.0f} events/s, at most {resident_mib()} MiB{note}"
            )
    each = sum(took[1:]) / len(took[1:])
    print(f"sweep: 100 cells on 2 cores: {50 * each / 60:.1f} min (goal 5.0)")
    return 0 if each <= GOAL_S else 1


if __name__ == "__main__":
    sys.exit(main())
