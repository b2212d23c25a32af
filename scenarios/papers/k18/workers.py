"""A cluster like K18's (VI.A): each worker runs the whole dataflow, words are spread by a hash.

A document goes to a worker drawn at random, which makes its pairs; these go to the workers of
their words over links that keep their order. A worker has one core and one queue, so documents
overtake one another where one worker is busier than another. The workers' groupings are the
engine's own; only the time that each step takes is assumed.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, Final

import numpy as np

from slackwater.grouping import Dataflow, RunningDataflow
from slackwater.scenarios.papers.k18.inverted_index import CYCLE, Change, Posting, postings
from slackwater.scenarios.papers.k18.texts import Document

S: Final = 10**9
MS: Final = 10**6
END: Final = 2**62
_POSTINGS: Final = cache(postings)
"""Cached because each setting takes the same documents apart."""


@dataclass(frozen=True, slots=True)
class ClusterModel:
    """One setting.

    Attributes:
        workers: number of workers.
        rate: documents per second.
        map_ns: time to take a document apart, per word.
        item_ns: time for each item that a grouping makes or takes back, with its map.
        link_ns: mean delay of a link (exponential); items of one link keep their order.
        punctuation_ns: interval at which the source says which time has passed.
        buffered: use a buffer before the grouping, which waits for punctuations, not tombstones.
    """

    workers: int
    rate: float
    map_ns: int = 300_000
    item_ns: int = 600_000
    link_ns: int = 2 * MS
    punctuation_ns: int = 200 * MS
    buffered: bool = False


@dataclass(frozen=True, slots=True)
class ClusterOutcome:
    """Results of a run: items at the barrier and valid ones, each document's latency [ns] and
    number of pairs, the duration of the run [ns], and the changelog.
    """

    arrived: int
    valid: int
    latency_ns: np.ndarray
    pairs: np.ndarray
    span_ns: int
    changes: list[Change]

    @property
    def ratio(self) -> float:
        """Items at the barrier per valid one."""
        return self.arrived / self.valid

    @property
    def in_flight(self) -> float:
        """Pairs between source and sink, on the average (Little's law)."""
        return float((self.latency_ns * self.pairs).sum() / self.span_ns)


class _Simulation:
    """Events by time; a worker's queue is the time from which on it is free."""

    def __init__(self, cluster: ClusterModel, documents: Sequence[Document], seed: int) -> None:
        self.cluster, self.documents = cluster, documents
        self.rng = np.random.default_rng(seed)
        self.events: list[tuple[int, int, str, tuple[Any, ...]]] = []
        self.serial = count()
        n = cluster.workers
        self.free, self.links = [0] * n, np.zeros((n, n), np.int64)
        self.groupings = [Dataflow((CYCLE,)).start() for _ in range(n)]
        self.waiting: list[list[tuple[int, list[Posting]]]] = [[] for _ in range(n)]
        self.sender_marks = np.full((n, n), -1, np.int64)
        self.marks, self.sink = np.full(n, -1), np.full(n, -1)
        self.times = np.arange(1, len(documents) + 1) * round(S / cluster.rate)
        self.latency = np.zeros(len(documents), np.int64)
        self.let_go = 0
        self.pairs = np.zeros(len(documents), np.int64)

    def at(self, time: int, what: str, *arguments: Any) -> None:
        """Schedule ``what`` for ``time``, after all that was scheduled for that time before."""
        heapq.heappush(self.events, (time, next(self.serial), what, arguments))

    def served(self, worker: int, now: int, cost: int) -> int:
        """Time at which a worker has done the work that reached it now."""
        self.free[worker] = max(self.free[worker], now) + cost
        return self.free[worker]

    def link(self, start: int, end: int, now: int) -> int:
        """Arrival time of an item that is sent now."""
        delay = int(self.rng.exponential(self.cluster.link_ns))
        self.links[start, end] = max(self.links[start, end], now + delay)
        return int(self.links[start, end])

    def run(self) -> None:
        """Until every document has left."""
        chosen = self.rng.integers(0, self.cluster.workers, len(self.documents))
        for number, time in enumerate(self.times.tolist()):
            self.at(time, "document", int(chosen[number]), number)
        last = int(self.times[-1])
        marks = [*range(self.cluster.punctuation_ns, last, self.cluster.punctuation_ns), END]
        for time in marks:
            for worker in range(self.cluster.workers):
                self.at(min(time, last + 1), "source_mark", worker, time)
        while self.events:
            now, _, what, arguments = heapq.heappop(self.events)
            getattr(self, what)(now, *arguments)

    def document(self, now: int, worker: int, number: int) -> None:
        """A worker takes a document apart."""
        made = _POSTINGS((number, self.documents[number]))
        self.pairs[number] = len(made)
        done = self.served(worker, now, self.cluster.map_ns * len(self.documents[number]))
        parts: dict[int, list[Posting]] = {}
        for each in made:
            parts.setdefault(zlib.crc32(each.word.encode()) % self.cluster.workers, []).append(each)
        for end, part in parts.items():
            self.at(self.link(worker, end, done), "pairs_come", end, number, part)

    def pairs_come(self, now: int, worker: int, number: int, part: list[Posting]) -> None:
        """Pairs reach the worker of their words."""
        time = int(self.times[number])
        if self.cluster.buffered:
            self.waiting[worker].append((time, part))
            return
        made = self.groupings[worker].send([time] * len(part), part)
        self.served(worker, now, self.cluster.item_ns * len(made))

    def source_mark(self, now: int, worker: int, time: int) -> None:
        """The source says that ``time`` has passed; the worker passes it on after its documents."""
        done = self.served(worker, now, 0)
        for end in range(self.cluster.workers):
            self.at(self.link(worker, end, done), "mark_comes", end, worker, time)

    def mark_comes(self, now: int, worker: int, start: int, time: int) -> None:
        """A worker's watermark is the least of those of all workers that send to it."""
        self.sender_marks[worker, start] = time
        mark = int(self.sender_marks[worker].min())
        if mark <= self.marks[worker]:
            return
        self.marks[worker] = mark
        ready = [each for each in self.waiting[worker] if each[0] < mark]
        self.waiting[worker] = [each for each in self.waiting[worker] if each[0] >= mark]
        cost = 0
        for of, part in sorted(ready, key=lambda each: each[0]):
            cost += self.cluster.item_ns * len(self.groupings[worker].send([of] * len(part), part))
        done = self.served(worker, now, cost)
        self.at(done + int(self.rng.exponential(self.cluster.link_ns)), "sink_mark", worker, mark)

    def sink_mark(self, now: int, worker: int, time: int) -> None:
        """The barrier lets go what all workers are done with."""
        self.sink[worker] = max(self.sink[worker], time)
        end = int(np.searchsorted(self.times, self.sink.min()))
        self.latency[self.let_go : end] = now - self.times[self.let_go : end]
        self.let_go = max(self.let_go, end)


def simulated(cluster: ClusterModel, documents: Sequence[Document], seed: int) -> ClusterOutcome:
    """``documents`` through ``cluster``."""
    simulation = _Simulation(cluster, documents, seed)
    simulation.run()
    runs: list[RunningDataflow] = simulation.groupings
    gone = [run.watermark(END) for run in runs]
    return ClusterOutcome(
        sum(run.sink.arrived for run in runs),
        sum(map(len, gone)),
        simulation.latency,
        simulation.pairs,
        int(simulation.times[-1] - simulation.times[0] + simulation.latency.mean()),
        [change for of in gone for change in of.payload.tolist()],
    )
