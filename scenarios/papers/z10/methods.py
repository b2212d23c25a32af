"""The methods that Z10 compares, as passes of the engine: results, when they left, and their cost.

Realtime and Correct are the engine's barriers (``REALTIME 1`` and ``0``) with K-ISlack purge.
K-Slack knows instants alone and puts them in order first; IEMiner knows intervals alone and takes
the order of arrival for theirs.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.operator import ResultPieces
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.operators.match.match_results import Matches
from slackwater.engine.operators.match.spill.bounds import SpillSettings
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.log import DEFAULT_SITE
from slackwater.paper import Advanced, PaperRun
from slackwater.scenario import NS_PER
from slackwater.scenarios.papers.verdicts import listed
from slackwater.scenarios.papers.z10.workload import (
    NEGATED,
    TYPES,
    WITHIN_NS,
    IntervalArrivals,
    WorkloadShape,
    arriving,
)

REALTIME: Final = "Realtime based"
CORRECT: Final = "Correct based"
K_SLACK: Final = "K-Slack"
IE_MINER: Final = "IEMiner"
MOST: Final = 0.45
"""Out of order; Z10 6.2."""
_CALLS: Final = 20
_TURNS: Final = 7
ENGINE: Final = "the computer, and our engine in place of a prototype in C#."
"""On what a verdict on times rests."""
_NOISE: Final = 1.05
"""Nearer to one another, times may be the other way round in another run, however calm this one."""
_LEAST: Final = 10_000
_TIMED_LEAST: Final = 5_000
"""Events of a pass; the times of fewer are mostly those of the calls."""
_FEWEST: Final = 400
_NAME: Final = "z10"
_LATER: Final = 2**62


@dataclass(frozen=True, slots=True)
class MethodSetup:
    """A point of a figure.

    ``share``: of events out of order. ``length``: of the query, its positive steps. ``buffer``:
    events in memory, the others in files, which are asked for each event; 0: all in memory.
    ``fixed_k``: K is the largest delay of the largest share, ``MOST``, and not of this one.
    """

    method: str
    shape: WorkloadShape
    share: float = 0.0
    length: int = 3
    buffer: int = 0
    fixed_k: bool = False

    @property
    def query(self) -> str:
        """Z10 5.2's example, A (overlap) B (!D) (before) C, with more steps behind if it is longer;
        of instants without the overlap, which no instants have.
        """
        positive = [kind for kind in TYPES if kind != NEGATED][: self.length]
        steps = [f"{kind} {kind.lower()}" for kind in positive]
        durable = self.shape.mean_ns and self.method != K_SLACK
        first = [" OVERLAP ".join(steps[:2])] if durable else steps[:2]
        absent = f"!{NEGATED} {NEGATED.lower()}"
        within = f"WITHIN {WITHIN_NS // NS_PER['s']} s"
        return f"EVENT SEQ({', '.join([*first, absent, *steps[2:]])}) {within}"


@dataclass(frozen=True, slots=True)
class EmittedMatches:
    """Tuples that left, in order; equally long columns.

    ``events``: (tuples, steps) of the match. ``plus``: a result, or one taken back. ``at``: when
    [ns], ``at_end``: only as the input had ended. ``known_at``: when its last event arrived.
    """

    events: np.ndarray
    plus: np.ndarray
    at: np.ndarray
    known_at: np.ndarray
    at_end: np.ndarray

    @property
    def inserted(self) -> int:
        """Z10's NoR."""
        return int(self.plus.sum())

    @property
    def retracted(self) -> int:
        """Compensations that delete."""
        return len(self.plus) - self.inserted

    @property
    def final(self) -> np.ndarray:
        """(matches, steps): inserted and not retracted."""
        matches, of = np.unique(self.events, axis=0, return_inverse=True)
        count = np.zeros(len(matches), np.int64)
        np.add.at(count, of.reshape(-1), np.where(self.plus, 1, -1))
        return np.asarray(matches[count > 0])


@dataclass(frozen=True, slots=True)
class MethodRun:
    """``seconds``: of the processor, by call, the least of the passes. ``noise``: how many times as
    long the median of the passes took.
    """

    setup: MethodSetup
    arriving: IntervalArrivals
    emissions: EmittedMatches
    seconds: np.ndarray
    noise: float = 1.0

    @property
    def event_seconds(self) -> float:
        """Z10's average execution time, of one event."""
        return float(self.seconds.sum()) / len(self.arriving)

    @property
    def corrections(self) -> int:
        """Z10's NoC: results taken back, and those that an event out of order completes."""
        emissions, made = self.emissions, self.arriving
        order = np.argsort(made.arrival)
        last = order[np.searchsorted(made.arrival[order], emissions.known_at)]
        return emissions.retracted + int((emissions.plus & made.late[last]).sum())

    @property
    def latency_s(self) -> float:
        """Z10's average latency [s]: per result that stands, from its first event's arrival until
        it leaves, and with what was taken back the time for which it stood.
        """
        events = self.emissions.events
        return self._latency_s(self.arriving.arrival[events].min(axis=1, initial=_LATER))

    @property
    def whole_latency_s(self) -> float:
        """``latency_s`` with the computing of an event, as Z10 counts it [s]."""
        return self.latency_s + self.event_seconds

    @property
    def waiting_s(self) -> float:
        """The same from its last event's arrival [s]."""
        return self._latency_s(self.emissions.known_at)

    def _latency_s(self, since: np.ndarray) -> float:
        emissions, inner = self.emissions, ~self.emissions.at_end
        took = emissions.at - np.where(emissions.plus, since, emissions.known_at)
        final = int(np.where(emissions.plus, 1, -1)[inner].sum())
        return float(took[inner].sum()) / max(final, 1) / NS_PER["s"]

    def accuracy(self, truth: np.ndarray) -> float:
        """Z10's accuracy: NoCR / NoR, the share of results given that stand and are right; 0
        without any result.
        """
        return 100 * self.right(truth) / max(self.emissions.inserted, 1)

    def right(self, truth: np.ndarray) -> int:
        """How many of the results that stand are among ``truth``."""
        return in_both(self.emissions.final, truth)


def in_both(one: np.ndarray, other: np.ndarray) -> int:
    """How many rows two tables without duplicates have in common."""
    return len({tuple(row) for row in one.tolist()} & {tuple(row) for row in other.tolist()})


def too_near(passes: Mapping[str, Sequence[MethodRun]], *ratios: float) -> str:
    """Why times cannot decide a claim that is one of such a ratio to 1; empty if they can."""
    count = min(len(ran.arriving) for of in passes.values() for ran in of)
    if count < _TIMED_LEAST:
        return f"a pass has {count:,} events; times of fewer than {_TIMED_LEAST:,} say too little."
    noise = max(_NOISE, *(ran.noise for of in passes.values() for ran in of))
    near = [ratio for ratio in ratios if 1 / noise < ratio < noise]
    if near:
        return (
            f"it depends on {listed(f'{ratio:.3f} to 1' for ratio in near)}, which another run may "
            f"reverse: passes of this one differ by {noise - 1:.0%}."
        )
    return ""


def written(passes: Mapping[str, Sequence[MethodRun]]) -> str:
    """Emitted tuples, results and retractions, at the first and the last point."""
    ends = (
        (name, [len(of[place].emissions.plus) for place in (0, -1)]) for name, of in passes.items()
    )
    return "tuples written at the first and the last point: " + listed(
        f"{name} {first:,} and {last:,}" for name, (first, last) in ends
    )


def truth(run: PaperRun, shape: WorkloadShape, length: int = 3) -> np.ndarray:
    """The matches there are, from the same events in order."""
    setup = MethodSetup(REALTIME, shape, 0.0, length)
    return counted_passes(run, "in order", [setup])[setup].emissions.final


def counted_passes(
    run: PaperRun, what: str, setups: Sequence[MethodSetup]
) -> dict[MethodSetup, MethodRun]:
    """Every setup once, for values that do not depend on the machine."""
    return _passed(run, what, setups, 1)


def timed(run: PaperRun, what: str, setups: Sequence[MethodSetup]) -> dict[MethodSetup, MethodRun]:
    """Every setup several times in turn; of each call the least time counts."""
    return _passed(run, what, setups, _TURNS)


def _passed(
    run: PaperRun, what: str, setups: Sequence[MethodSetup], turns: int
) -> dict[MethodSetup, MethodRun]:
    found: dict[MethodSetup, list[MethodRun]] = {}
    with run.watched(f"{what}: {len(setups)} setups") as advanced:
        for turn in range(turns):
            for setup in setups:
                again = run.once(
                    ("z10", setup, turn), functools.partial(_one_pass, run, setup, advanced)
                )
                found.setdefault(setup, []).append(again)
    return {setup: _least(ran) for setup, ran in found.items()}


def _least(ran: Sequence[MethodRun]) -> MethodRun:
    """Passes of one setup as one."""
    seconds = np.array([each.seconds for each in ran])
    least = seconds.min(axis=0)
    noise = float(np.median(seconds, axis=0).sum() / least.sum())
    return replace(ran[0], seconds=least, noise=noise)


def events(run: PaperRun, setup: MethodSetup) -> IntervalArrivals:
    """What a setup's passes read, at the run's scale."""
    shape = replace(setup.shape, count=max(round(setup.shape.count * run.scale), _FEWEST))
    return run.once(("events", shape, setup.share), lambda: arriving(shape, setup.share, run.seed))


def too_few(run: PaperRun, shape: WorkloadShape) -> str:
    """Why so few events decide no comparison of accuracies or latencies; empty if they do."""
    count = len(events(run, MethodSetup(REALTIME, shape)))
    return f"{count:,} events; fewer than {_LEAST:,} say too little." if count < _LEAST else ""


def k_ns(run: PaperRun, setup: MethodSetup) -> int:
    """Z10's K (Table 2): the maximum delay of out-of-order events [ns]."""
    return events(run, replace(setup, share=MOST) if setup.fixed_k else setup).k_ns


def _one_pass(run: PaperRun, setup: MethodSetup, advanced: Advanced) -> MethodRun:
    made = events(run, setup)
    seen = {K_SLACK: made.starts, IE_MINER: made.as_arrived}.get(setup.method, made)
    chain = Chain(_settings(run, setup), DEFAULT_SITE)
    seconds, parts = [], []
    for frame in seen.frames(max(len(made) // _CALLS, 1)):
        began = time.process_time()
        output = chain.process([frame])
        seconds.append(time.process_time() - began)
        parts += _emissions(output.results[0], at_end=False)
        advanced(frame.rows)
    parts += _emissions(chain.finish().results[0], at_end=True)
    return MethodRun(setup, made, _joined(parts, setup.length), np.array(seconds))


def _settings(run: PaperRun, setup: MethodSetup) -> ChainSettings:
    waits_ns, slack = k_ns(run, setup), setup.method == K_SLACK
    barrier, keep_ns = "immediate", waits_ns
    if setup.method in {K_SLACK, IE_MINER}:
        keep_ns = 0
    spill = None
    if setup.buffer:
        hot_ns = setup.buffer * WITHIN_NS // setup.shape.density
        folder = run.folder / f"{setup.method}-{setup.buffer}"
        spill = SpillSettings(folder, hot_ns, pending=1, wait_ns=0)
    if setup.method == CORRECT:
        barrier = f"bounded:{waits_ns}"
    purge = "late" if spill else "slack"
    return ChainSettings(
        parse_order(f"kslack:{waits_ns}" if slack else "none"),
        plans=(query(setup.query, name=_NAME),),
        barrier=parse_barrier(barrier),
        pattern=PatternSettings(keep_late_ns=keep_ns, purge=purge, slack_ns=keep_ns),
        spill=spill,
    )


def _emissions(results: ResultPieces, *, at_end: bool) -> list[EmittedMatches]:
    found = []
    for piece in results.pieces:
        if not isinstance(piece, Matches):
            continue
        of, releases = piece.which, piece.released
        steps = (of >= 0).all(axis=0)
        events = piece.columns["seq"][of[:, steps]]
        ends = np.full(len(events), at_end)
        found.append(EmittedMatches(events, releases.plus, releases.at, releases.known_at, ends))
    return found


def _joined(parts: Sequence[EmittedMatches], steps: int) -> EmittedMatches:
    none = np.empty(0, np.int64)
    nothing = EmittedMatches(np.empty((0, steps), np.int64), none == 0, none, none, none == 0)
    every = [nothing, *parts]
    return EmittedMatches(
        *(np.concatenate([getattr(part, name) for part in every])
          for name in ("events", "plus", "at", "known_at", "at_end"))
    )  # fmt: skip
