"""Repetition beside plain Python on the same events: runs between two marks, and rising ones.

Each pattern is answered by the operator with the barrier ``immediate`` and by a loop over the
events with one dict per partition, written for that pattern alone; both must find as many matches.
Events are in order, of KEYS partitions. Seconds are processor time of this process, the best of
ROUNDS that take turns. ``python -m bench.repetition``
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from engine.pattern.alone import Alone
from engine.query import query
from engine.query.repeat_plan import RepeatPlan
from engine.repetition.matcher import RepeatMatcher
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


def between(rows: Sequence[Row]) -> int:
    """Of each A all B up to the first C: SEQ(A a, B+ b[], C c) CONTIGUITY NEXT."""
    open_: dict[int, list[list[int]]] = {}
    found = 0
    for kind, key, _, time_ns in rows:
        if kind == "A":
            open_.setdefault(key, []).append([time_ns, 0])
        elif kind == "B":
            for run in open_.get(key, ()):
                run[1] += 1
        elif kind == "C":
            kept = []
            for run in open_.pop(key, ()):
                if run[1] and time_ns - run[0] <= WITHIN_NS:
                    found += 1
                elif not run[1]:
                    kept.append(run)
            if kept:
                open_[key] = kept
    return found


def rising(rows: Sequence[Row]) -> int:
    """Three B beside one another that rise, none in two matches: STRICT, SKIP PAST LAST EVENT."""
    run: dict[int, tuple[int, int]] = {}
    found = 0
    for kind, key, value, _ in rows:
        held, last = run.get(key, (0, 0))
        if kind != "B":
            run[key] = (0, 0)
        elif held == 2 and value > last:
            found += 1
            run[key] = (0, 0)
        else:
            run[key] = (held + 1 if held and value > last else 1, value)
    return found


def bursts(rows: Sequence[Row]) -> int:
    """Three D beside one another: STRICT."""
    run: dict[int, int] = {}
    found = 0
    for kind, key, _, _ in rows:
        run[key] = run.get(key, 0) + 1 if kind == "D" else 0
        found += run[key] >= 3
    return found


PATTERNS: dict[str, tuple[str, Callable[[Sequence[Row]], int]]] = {
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


def stream(rng: np.random.Generator) -> tuple[list[Released], list[Row]]:
    """The events in batches, and as rows."""
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
    rows = zip((TYPES[kind] for kind in kinds.tolist()), keys.tolist(), values.tolist(),
               refs.tolist(), strict=True)  # fmt: skip
    return made, list(rows)


def timed(work: Callable[[], int]) -> tuple[int, float]:
    """What it gives, and how long it takes [s of processor time]."""
    begun = time.process_time()
    return work(), time.process_time() - begun


def main() -> int:
    """Prints the table; 1 if a goal is not met."""
    batches, rows = stream(np.random.default_rng(7))
    slow = 0
    for name, (_, by_hand) in PATTERNS.items():
        plan = plan_of(name)

        def ours(plan: RepeatPlan = plan) -> int:
            operator = Alone(RepeatMatcher(plan))
            return sum(len(operator.process(released)) for released in batches)

        ours()
        engine, python = [], []
        for _ in range(ROUNDS):
            found, seconds = timed(ours)
            engine.append(seconds)
            wanted, seconds = timed(lambda by_hand=by_hand: by_hand(rows))
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
