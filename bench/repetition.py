"""Repetition beside plain Python on the same events: runs between two marks, and rising ones.

Each pattern is answered by the operator with the barrier ``immediate`` and by a loop over the
events with one dict per partition, written for that pattern alone: from the same columns to tables
that have a row per match with its events (type, partition, value, time) and what RETURN asks for;
both must find as many. The loop knows nothing of late events or clocks, and its table nothing of
sources, sequence numbers, certainty or when a match was known. Events are in order, of KEYS
partitions.
Seconds are processor time of this process, the best of ROUNDS that take turns.
``python -m bench.repetition``
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from slackwater.engine.core.released import IN_ORDER, Released, Strings
from slackwater.engine.operators.match.repetition.matcher import RepeatMatcher
from slackwater.engine.operators.match.repetition.matches import RepeatMatches
from slackwater.engine.operators.match.seq import Alone
from slackwater.engine.query import query
from slackwater.engine.query.repeat_plan import RepeatPlan

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
Match = list[Row]
Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def between(rows: Iterable[Row]) -> list[Match]:
    """Of each A all B up to the first C: SEQ(A a, B+ b[], C c) CONTIGUITY NEXT."""
    open_: dict[int, list[Match]] = {}
    found = list[Match]()
    for row in rows:
        kind, key, _, time_ns = row
        if kind == "A":
            open_.setdefault(key, []).append([row])
        elif kind == "B":
            for run in open_.get(key, ()):
                run.append(row)
        elif kind == "C":
            kept = []
            for run in open_.pop(key, ()):
                if len(run) == 1:
                    kept.append(run)
                elif time_ns - run[0][3] <= WITHIN_NS:
                    run.append(row)
                    found.append(run)
            if kept:
                open_[key] = kept
    return found


def rising(rows: Iterable[Row]) -> list[Match]:
    """Three B beside one another that rise, none in two matches: STRICT, SKIP PAST LAST EVENT."""
    runs: dict[int, Match] = {}
    found = list[Match]()
    for row in rows:
        kind, key, value, time_ns = row
        if kind != "B":
            runs[key] = []
            continue
        run = runs.get(key)
        if not run or value <= run[-1][2]:
            runs[key] = [row]
            continue
        run.append(row)
        if len(run) == 3:
            if time_ns - run[0][3] <= WITHIN_NS:
                found.append(run)
                runs[key] = []
            else:
                del run[0]
    return found


def bursts(rows: Iterable[Row]) -> list[Match]:
    """Three D beside one another: STRICT."""
    runs: dict[int, Match] = {}
    found = list[Match]()
    for row in rows:
        kind, key, _, time_ns = row
        if kind != "D":
            runs[key] = []
            continue
        run = runs.setdefault(key, [])
        run.append(row)
        if len(run) >= 3 and time_ns - run[-3][3] <= WITHIN_NS:
            found.append(run[-3:])
    return found


Work = Callable[[Iterable[Row]], list[Match]]
PATTERNS: dict[str, tuple[str, Work, Callable[[Match], tuple[int, ...]]]] = {
    "NEXT": (
        "SEQ(A a, B+ b[], C c) CONTIGUITY NEXT RETURN a.k, count(b)", between,
        lambda match: (match[0][1], len(match) - 2),
    ),
    "STRICT, SKIP": (
        "B{3} b[] WHERE b[i].v > b[i - 1].v CONTIGUITY STRICT SKIP PAST LAST EVENT", rising,
        lambda _: (),
    ),
    "STRICT": (
        "D{3} d[] CONTIGUITY STRICT RETURN first(d.v)", bursts, lambda match: (match[0][2],),
    ),
}  # fmt: skip
"""The query, the loop, and what RETURN asks for."""


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


def matches_by_hand(columns: Columns, name: str) -> int:
    """How many rows the table has that is made of what the loop finds."""
    _, work, returned = PATTERNS[name]
    found = work(zip(*(column.tolist() for column in columns), strict=True))
    ends = [0, *itertools.accumulate(map(len, found))]
    events_of_all = list(itertools.chain.from_iterable(found))
    fields = [pa.array([event[n] for event in events_of_all]) for n in range(4)]
    events = pa.StructArray.from_arrays(fields, names=["type", "k", "v", "ts"])
    values = {
        f"value_{n}": pa.array(column)
        for n, column in enumerate(zip(*map(returned, found), strict=True))
    }
    made = {"events": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), events)}
    return int(pa.table(made | values).num_rows)


def timed(work: Callable[[], int]) -> tuple[int, float]:
    """What it gives, and how long it takes [s of processor time]."""
    begun = time.process_time()
    return work(), time.process_time() - begun


def main() -> int:
    """Prints the table; 1 if a goal is not met."""
    batches, columns = stream(np.random.default_rng(7))
    slow = 0
    for name in PATTERNS:
        plan = plan_of(name)
        matches_of(batches, plan)
        engine, python = [], []
        for _ in range(ROUNDS):
            found, seconds = timed(lambda plan=plan: matches_of(batches, plan))  # type: ignore[misc]
            engine.append(seconds)
            expected, seconds = timed(lambda name=name: matches_by_hand(columns, name))  # type: ignore[misc]
            python.append(seconds)
            assert found == expected, (name, found, expected)
        ratio = min(python) / min(engine)
        slow += ratio < GOAL_RATIO
        sys.stdout.write(
            f"{name:<14} {found:>9,} matches  {EVENTS / min(engine) / 1e6:6.2f} M events/s  "
            f"{ratio:5.2f} x plain Python\n"
        )
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
