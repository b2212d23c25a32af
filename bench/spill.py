"""Memory and cost of spilling, and L09's trade-off between threshold, latency and work (Fig 15).

Run: ``.venv/bin/python -m bench.spill``.

First an endless-looking stream in which events may be very late, with and without spill: the most
events that were in memory. Then the same late events under different thresholds: a low one loads
the same chunks again and again, a high one lets late events wait.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.pattern.seq import PatternSettings, SeqMatcher
from engine.pattern.spill import SpillingMatcher
from engine.pattern.spill_settings import SpillSettings
from engine.query import query
from engine.query.plan import Plan, SeqPlan
from engine.released import Released, Strings

TEXT = "EVENT SEQ(A a, !C c, B b) WHERE a.id = b.id AND c.id = a.id WITHIN 5 s"
ROWS = 500_000
BATCH = 25_000
STEP_NS = 1_000_000
SECOND_NS = 10**9
LATEST_NS = 400 * SECOND_NS
LATE_SHARE = 0.002
THRESHOLDS = (1, 3, 10, 30, 100)


@dataclass(frozen=True, slots=True)
class Outcome:
    """``waits_s``: mean of ``at`` less ``known_at``, of the matches that waited."""

    seconds: float
    matches: int
    counters: dict[str, int]
    waits_s: float


def batches(rows: int = ROWS) -> list[Released]:
    """1,000 events/s of four types and 1,000 ids; some are up to LATEST_NS late."""
    generator = np.random.default_rng(1)
    strings = Strings(["events", "A", "B", "C", "OTHER", "s"])
    made = []
    for start in range(0, rows, BATCH):
        release = np.arange(start, start + BATCH, dtype=np.int64) * STEP_NS
        late = generator.random(BATCH) < LATE_SHARE
        ref = release - np.where(late, generator.integers(0, LATEST_NS, BATCH), 0)
        ref = np.maximum(ref, 0)
        columns: dict[str, np.ndarray] = {
            "ref": ref, "ts": ref, "te": ref, "release": release, "arrival": release,
            "unc": np.zeros(BATCH, np.int64), "epoch": np.zeros(BATCH, np.int64),
            "status": np.where(late, 2, 0).astype(np.int8),
            "seq": np.arange(start, start + BATCH), "source": np.full(BATCH, 5, np.int32),
            "stream": np.zeros(BATCH, np.int32),
            "type": generator.integers(1, 5, BATCH).astype(np.int32),
            "attrs.id": generator.integers(0, 1000, BATCH),
        }  # fmt: skip
        made.append(Released(BATCH, columns, {"id": "int"}, strings, t_a=0))
    return made


def run(matcher: SeqMatcher, data: list[Released]) -> Outcome:
    """One pass; matches are counted, and how much later than known they came, if they did."""
    start, matches, waits = time.perf_counter(), 0, []
    end = int(data[-1].columns["release"][-1])

    def look(results: object) -> int:
        at = known = np.empty(0, np.int64)
        for piece in getattr(results, "pieces", [results]):
            given = getattr(piece, "given", None)
            if given is not None:
                at = np.append(at, given.at[given.plus])
                known = np.append(known, given.known_at[given.plus])
        waits.extend((at - known)[at > known].tolist())
        return len(at)

    for released in data:
        matches += look(matcher.process(released))
    counters = matcher.counters()
    matches += look(matcher.finish(end))
    spent = time.perf_counter() - start
    return Outcome(spent, matches, counters, float(np.mean(waits or [0])) / SECOND_NS)


def spilling(plan: SeqPlan, folder: Path, pending: int, wait_ns: int) -> SpillingMatcher:
    bounds = PatternSettings(keep_late_ns=LATEST_NS)
    spill = SpillSettings(folder, None, 20 * SECOND_NS, pending, wait_ns)
    return SpillingMatcher(plan, spill, bounds)


def main() -> None:
    plan: Plan = query(TEXT)
    assert isinstance(plan, SeqPlan)
    data = batches()
    bounds = PatternSettings(keep_late_ns=LATEST_NS)
    run(SeqMatcher(plan, bounds), data[:1])
    print(f"{ROWS:,} events, {LATE_SHARE:.1%} of them up to 400 s late; {TEXT}")
    print("spill      most held in memory  matches  seconds  chunk loads  mean wait of late [s]")
    with tempfile.TemporaryDirectory() as folder:
        run(spilling(plan, Path(folder) / "warm", 10, SECOND_NS), data[:3])
        outcomes = {"none": run(SeqMatcher(plan, bounds), data)}
        for pending in THRESHOLDS:
            matcher = spilling(plan, Path(folder) / str(pending), pending, 60 * SECOND_NS)
            outcomes[f"pending={pending}"] = run(matcher, data)
    for name, outcome in outcomes.items():
        counts = outcome.counters
        print(
            f"{name:<12} {counts['buffered_max']:>17,} {outcome.matches:>8,} "
            f"{outcome.seconds:>8.2f} {counts.get('chunk_loads', 0):>12,} {outcome.waits_s:>22.1f}"
        )


if __name__ == "__main__":
    main()
