"""Memory and cost of spilling, and L09's trade-off between threshold, latency and work (Fig 15).

Run: ``.venv/bin/python -m bench.spill``.

First an endless-looking stream in which events may be very late, with and without spill: the most
events that were in memory. Beside it the same late events under different thresholds: a low one
loads the same chunks again and again, a high one lets late events wait.

Then WITHIN larger than memory: a stream nearly in order, all that WITHIN holds in memory, and a
twentieth of it, loaded in one part or four; and that under different thresholds. Each in a
process of its own; the table has its growth since the first batches (Linux).
Seconds are processor time.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slackwater.engine.core.released import Released, Strings
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.operators.match.spill.bounds import SpillSettings
from slackwater.engine.operators.match.spill.matcher import Spilling
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import Plan, SeqPlan

TEXT = "EVENT SEQ(A a, !C c, B b) WHERE a.id = b.id AND c.id = a.id WITHIN 5 s"
ROWS = 500_000
BATCH = 25_000
STEP_NS = 1_000_000
SECOND_NS = 10**9
LATEST_NS = 400 * SECOND_NS
LATE_SHARE = 0.002
THRESHOLDS = (1, 3, 10, 30, 100)
WINDOW_S = 500
WINDOW = f"EVENT SEQ(A a, !C c, B b) WHERE a.id = b.id AND c.id = a.id WITHIN {WINDOW_S} s"
WINDOW_ROWS = 1_000_000
WINDOW_IDS = 200_000
HOT_NS = WINDOW_S * SECOND_NS // 20
WINDOWS: dict[str, SpillSettings | None] = {
    "none": None,
    "hot=25s,parts=1": SpillSettings(None, HOT_NS, parts=1),
    "hot=25s": SpillSettings(None, HOT_NS),
    "hot=25s,pending=6000": SpillSettings(None, HOT_NS, pending=6000),
    "hot=25s,chunk=100s,wait=100s": SpillSettings(
        None, HOT_NS, 100 * SECOND_NS, wait_ns=100 * SECOND_NS
    ),
}
"""25 s is a twentieth of WITHIN."""


@dataclass(frozen=True, slots=True)
class SpillOutcome:
    """``waits_s``: mean of ``at`` less ``known_at``, of the matches that waited."""

    seconds: float
    matches: int
    counters: dict[str, int]
    waits_s: float


def batches(
    rows: int = ROWS, latest_ns: int = LATEST_NS, late_share: float = LATE_SHARE, ids: int = 1000
) -> Iterator[Released]:
    """1,000 events/s of four types; some are up to ``latest_ns`` late."""
    generator = np.random.default_rng(1)
    strings = Strings(["events", "A", "B", "C", "OTHER", "s"])
    for start in range(0, rows, BATCH):
        release = np.arange(start, start + BATCH, dtype=np.int64) * STEP_NS
        late = generator.random(BATCH) < late_share
        ref = release - np.where(late, generator.integers(0, latest_ns, BATCH), 0)
        ref = np.maximum(ref, 0)
        columns: dict[str, np.ndarray] = {
            "ref": ref, "ts": ref, "te": ref, "release": release, "arrival": release,
            "unc": np.zeros(BATCH, np.int64), "epoch": np.zeros(BATCH, np.int64),
            "status": np.where(late, 2, 0).astype(np.int8),
            "seq": np.arange(start, start + BATCH), "source": np.full(BATCH, 5, np.int32),
            "stream": np.zeros(BATCH, np.int32),
            "type": generator.integers(1, 5, BATCH).astype(np.int32),
            "attrs.id": generator.integers(0, ids, BATCH),
        }  # fmt: skip
        yield Released(BATCH, columns, {"id": "int"}, strings, t_a=0)


def run(found: SeqMatcher, data: Iterable[Released]) -> SpillOutcome:
    """One pass; matches are counted, and how much later than known they came, if they did."""
    start, matches, waits, end, matcher = time.process_time(), 0, [], 0, Alone(found)

    def look(results: object) -> int:
        at, known, taken_back = *np.empty((2, 0), np.int64), 0
        for piece in getattr(results, "pieces", [results]):
            released_matches = getattr(piece, "released", None)
            if released_matches is not None:
                at = np.append(at, released_matches.at[released_matches.plus])
                known = np.append(known, released_matches.known_at[released_matches.plus])
                taken_back += len(released_matches.at) - int(released_matches.plus.sum())
        waits.append((at - known)[at > known])
        return len(at) - taken_back

    for released in data:
        matches += look(matcher.process(released))
        end = int(released.columns["release"][-1])
    counters = matcher.counters()
    matches += look(matcher.finish(end))
    spent, waited = time.process_time() - start, np.concatenate([*waits, [0]])
    return SpillOutcome(
        spent, matches, counters, waited.sum() / max(len(waited) - 1, 1) / SECOND_NS
    )


def spilling(plan: SeqPlan, folder: Path, pending: int, wait_ns: int) -> Spilling:
    bounds = PatternSettings(keep_late_ns=LATEST_NS)
    spill = SpillSettings(folder, None, 20 * SECOND_NS, pending, wait_ns)
    return Spilling(plan, bounds).spill_to(spill)


def late_beyond_within() -> None:
    """An endless-looking stream, and L09's thresholds."""
    plan = _plan(TEXT)
    data = list(batches())
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


def within_beyond_memory() -> None:
    """WITHIN larger than memory."""
    print(f"{WINDOW_ROWS:,} events, 5 % of them up to 10 s late, {WINDOW_IDS:,} ids; {WINDOW}")
    print(
        "spill                         most held  MiB more  matches  seconds  times  turns  "
        "mean wait [s]"
    )
    first = None
    for name in WINDOWS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            outcome, more_mib = pool.apply(window_run, (name,))
        first = first or outcome
        counts = outcome.counters
        print(
            f"{name:<29} {counts['buffered_max']:>9,} {more_mib:>9,.0f} {outcome.matches:>8,} "
            f"{outcome.seconds:>8.1f} {outcome.seconds / first.seconds:>6.1f} "
            f"{counts.get('turns', 0):>6,} {outcome.waits_s:>14.1f}"
        )


def window_run(name: str) -> tuple[SpillOutcome, float]:
    """One of ``WINDOWS``: what came of it, and the memory it needed more than to start [MiB]."""
    plan, bounds = _plan(WINDOW), PatternSettings(keep_late_ns=10 * SECOND_NS)
    spill = WINDOWS[name]
    with tempfile.TemporaryDirectory() as folder:

        def matcher(called: str) -> SeqMatcher:
            if spill is None:
                return SeqMatcher(plan, bounds)
            return Spilling(plan, bounds).spill_to(replace(spill, folder=Path(folder) / called))

        run(matcher("warm"), batches(2 * BATCH, 10 * SECOND_NS, 0.05, WINDOW_IDS))
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is now
        start_kib = _status_kib("VmRSS")
        outcome = run(matcher("done"), batches(WINDOW_ROWS, 10 * SECOND_NS, 0.05, WINDOW_IDS))
    return outcome, (_status_kib("VmHWM") - start_kib) / 1024


def _status_kib(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _plan(text: str) -> SeqPlan:
    plan: Plan = query(text)
    assert isinstance(plan, SeqPlan)
    return plan


def main() -> None:
    late_beyond_within()
    print()
    within_beyond_memory()


if __name__ == "__main__":
    main()
