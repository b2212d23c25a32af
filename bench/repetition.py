"""Repetition beside plain Python on the same events: runs between two marks, and rising ones.

Each pattern is answered by the operator with the barrier ``immediate`` and by a loop over the
events with one dict per partition, written for that pattern alone: from the same columns to tables,
of results on the one side and of the times of each match's events on the other; both must find as
many. The loop knows nothing of late events or clocks. Events are in order, of KEYS partitions.
Seconds are processor time of this process, the best of ROUNDS that take turns.
``python -m bench.repetition``
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from engine.pattern.alone import Alone
from engine.query import query
from engine.query.repeat_plan import RepeatPlan
from engine.repetition.matcher import RepeatMatcher
from engine.repetition.results import RepeatMatches
from engine.stream.released import IN_ORDER, Released, Strings

EVENTS = 100_000
BATCH = 65_536
KEYS = 1_000
ROUNDS = 3
EVERY_NS = 1_000
WITHIN_NS = 100_000_000
"""Some hundred events of a partition."""
GOAL_RATIO = 1.0
TYPES = "ABBBBBBCDD"

Row = tuple[str, int, int, int]
"""Type, partition, value, time [ns]."""
Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def between(rows: Iterable[Row]) -> list[list[int]]:
    """Of each A all B up to the first C: SEQ(A a, B+ b[], C c) CONTIGUITY NEXT."""
    open_: dict[int, list[list[int]]] = {}
    found = list[list[int]]()
    for kind, key, _, time_ns in rows:
        if kind == "A":
            open_.setdefault(key, []).append([time_ns])
        elif kind == "B":
            for run in open_.get(key, ()):
                run.append(time_ns)
        elif kind == "C":
            kept = []
            for run in open_.pop(key, ()):
                if len(run) == 1:
                    kept.append(run)
                elif time_ns - run[0] <= WITHIN_NS:
                    run.append(time_ns)
                    found.append(run)
            if kept:
                open_[key] = kept
    return found


def rising(rows: Iterable[Row]) -> list[list[int]]:
    """Three B beside one another that rise, none in two matches: STRICT, SKIP PAST LAST EVENT."""
    runs: dict[int, list[tuple[int, int]]] = {}
    found = list[list[int]]()
    for kind, key, value, time_ns in rows:
        if kind != "B":
            runs[key] = []
            continue
        run = runs.get(key)
        if not run or value <= run[-1][0]:
            runs[key] = [(value, time_ns)]
            continue
        run.append((value, time_ns))
        if len(run) == 3:
            if time_ns - run[0][1] <= WITHIN_NS:
                found.append([at for _, at in run])
                runs[key] = []
            else:
                del run[0]
    return found


def bursts(rows: Iterable[Row]) -> list[list[int]]:
    """Three D beside one another: STRICT."""
    runs: dict[int, list[int]] = {}
    found = list[list[int]]()
    for kind, key, _, time_ns in rows:
        if kind != "D":
            runs[key] = []
            continue
        run = runs.setdefault(key, [])
        run.append(time_ns)
        if len(run) >= 3 and time_ns - run[-3] <= WITHIN_NS:
            found.append(run[-3:])
    return found


PATTERNS: dict[str, tuple[str, Callable[[Iterable[Row]], list[list[int]]]]] = {
    "NEXT": ("SEQ(A a, B+ b[], C c) CONTIGUITY NEXT RETURN a.k, count(b)", between),
    "STRICT, SKIP": (
        "B{3} b[] WHERE b[i].v > b[i - 1].v CONTIGUITY STRICT SKIP PAST LAST EVENT", rising,
    ),
    "STRICT": ("D{3} d[] CONTIGUITY STRICT RETURN first(d.v)", bursts),
}  # fmt: skip


def plan_of(name: str) -> RepeatPlan:
    """The plan of a pattern."""
    found = query(f"EVENT {PATTERNS[name][0]} WITHIN {WITHIN_NS} ns PARTITION BY k")
    assert isinstance(found, RepeatPlan)
    return found


def stream(rng: np.random.Generator) -> tuple[list[Released], Columns]:
    """The events in batches, and as columns: type, partition, value, time [ns]."""
    strings = Strings()
    codes = np.array([strings.code(kind) for kind in TYPES], np.int32)
    kinds, keys = rng.integers(0, len(TYPES), EVENTS), rng.integers(0, KEYS, EVENTS)
    values, refs = rng.integers(0, 1_000, EVENTS), np.arange(EVENTS) * EVERY_NS
    made = []
    for start in range(0, EVENTS, BATCH):
        part = slice(start, min(start + BATCH, EVENTS))
        ref, n = refs[part], len(refs[part])
        columns = {
            "type": codes[kinds[part]], "attrs.k": keys[part], "attrs.v": values[part],
            "ref": ref, "ts": ref, "te": ref, "arrival": ref, "release": ref,
            "unc": np.zeros(n, np.int64), "epoch": np.full(n, -1),
            "status": np.full(n, IN_ORDER, np.int8), "seq": np.arange(EVENTS)[part],
            "source": np.full(n, strings.code("s"), np.int32),
            "stream": np.full(n, strings.code("events"), np.int32),
        }  # fmt: skip
        made.append(Released(n, columns, {"k": "int", "v": "int"}, strings, 0))
    return made, (np.array([*TYPES])[kinds], keys, values, refs)


def matches_of(batches: list[Released], plan: RepeatPlan) -> int:
    """How many rows the tables have that the operator gives."""
    operator, rows = Alone(RepeatMatcher(plan)), 0
    for released in batches:
        pieces = [piece for piece in operator.process(released).pieces if len(piece)]
        assert all(isinstance(piece, RepeatMatches) for piece in pieces)
        rows += sum(table.num_rows for table in RepeatMatches.tables(pieces))
    return rows


def matches_by_hand(columns: Columns, work: Callable[[Iterable[Row]], list[list[int]]]) -> int:
    """How many rows the table has that is made of what ``work`` finds: the times of the events."""
    found = work(zip(*(column.tolist() for column in columns), strict=True))
    return int(pa.table({"events": pa.array(found, pa.list_(pa.int64()))}).num_rows)


def timed(work: Callable[[], int]) -> tuple[int, float]:
    """What it gives, and how long it takes [s of processor time]."""
    begun = time.process_time()
    return work(), time.process_time() - begun


def main() -> int:
    """Prints the table; 1 if a goal is not met."""
    batches, columns = stream(np.random.default_rng(7))
    slow = 0
    for name, (_, work) in PATTERNS.items():
        plan = plan_of(name)
        matches_of(batches, plan)
        engine, python = [], []
        for _ in range(ROUNDS):
            found, seconds = timed(lambda plan=plan: matches_of(batches, plan))  # type: ignore[misc]
            engine.append(seconds)
            wanted, seconds = timed(lambda work=work: matches_by_hand(columns, work))  # type: ignore[misc]
            python.append(seconds)
            assert found == wanted, (name, found, wanted)
        ratio = min(python) / min(engine)
        slow += ratio < GOAL_RATIO
        sys.stdout.write(
            f"{name:<14} {found:>9,} matches  {EVENTS / min(engine) / 1e6:6.2f} M events/s  "
            f"{ratio:5.2f} x plain Python\n"
        )
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
