"""What orders, windows and patterns take on this machine, each beside a plain program.

A measure is one question over ``engine.speed.stream``'s events, from frames in memory to Arrow
tables of answers. What it is compared with gets the same events, all of them at once and in the
order of their times, which a stream never offers: so the ratio is what lateness costs.
Both must give equally many answers. Seconds are processor time of this process.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from engine.chain import Chain, ChainSettings
from engine.chain.output_parts import last_parts, parts_of
from engine.order.registry import parse_order
from engine.query import query
from engine.results.run_writer import COUNTERS
from engine.speed.stream import TYPES, event_frames, pattern_stream
from engine.stream.frame import Frame

SOURCES: Final = 20
KEYS: Final = 1_000
BATCH_FRAMES: Final = 4
SLACK: Final = "kslack:1s"
"""As much patience as the latest event of the stream needs."""
WINDOW_NS: Final = 10**9
WITHIN_NS: Final = 5 * 10**9
WARM_EVENTS: Final = 20_000
"""Of a first pass, in which kernels are compiled or loaded."""

Columns = dict[str, np.ndarray]
Baseline = Callable[[Columns], int]


def _sorted(made: Columns) -> int:
    """All columns in the order of event time."""
    by_time = np.argsort(made["ts"], kind="stable")
    return len(pa.table({name: column[by_time] for name, column in made.items()}))


def _grouped(made: Columns) -> int:
    """Mean and count by window and key, with Arrow's own group-by."""
    table = pa.table({"w": made["ts"] // WINDOW_NS, "key": made["key"], "v": made["v"]})
    answers = table.group_by(["w", "key"]).aggregate([("v", "mean"), ("v", "count")])
    return int(answers.num_rows)


def _paired(made: Columns) -> int:
    """Each A with each later B of its key, at most ``WITHIN_NS`` apart: dictionaries of lists."""
    by_time = np.argsort(made["ts"], kind="stable")
    wanted = by_time[made["type"][by_time] < TYPES.index("C")]
    columns = (made["ts"][wanted].tolist(), made["type"][wanted].tolist(),
               made["key"][wanted].tolist())  # fmt: skip
    opened: dict[int, list[int]] = {}
    pairs: list[tuple[int, int, int]] = []
    for ts, kind, key in zip(*columns, strict=True):
        there = opened.setdefault(key, [])
        if kind == TYPES.index("A"):
            there.append(ts)
            continue
        del there[: bisect_left(there, ts - WITHIN_NS)]
        pairs += [(key, begun, ts) for begun in there if begun < ts]
    return len(pairs)


@dataclass(frozen=True, slots=True)
class Measure:
    """One question, and who answers it beside us."""

    name: str
    order: str
    text: str | None
    """The query; None: the events in order are the answer."""
    beside: str
    baseline: Baseline


_SORT: Final = "NumPy's sort"
_AVERAGES: Final = "SELECT avg(v), count(*) GROUP BY key WINDOW TUMBLING 1 s"
_PAIRS: Final = "EVENT SEQ(A a, B b) WHERE a.key = b.key WITHIN 5 s"
MEASURES: Final = (
    Measure("none", "none", None, _SORT, _sorted),
    Measure("kslack", SLACK, None, _SORT, _sorted),
    Measure("sequence", "sequence:timeout=fixed:2s", None, _SORT, _sorted),
    Measure("windows", SLACK, _AVERAGES, "Arrow's group-by", _grouped),
    Measure("pattern", SLACK, _PAIRS, "a loop in Python", _paired),
)
NAMES: Final = tuple(each.name for each in MEASURES)


@dataclass(frozen=True, slots=True)
class Pace:
    """What one measure came to; ``seconds`` are the least of the rounds, of processor time."""

    name: str
    question: str
    events: int
    seconds: float
    answers: int
    beside: str
    beside_seconds: float
    beside_answers: int

    @property
    def per_second(self) -> float:
        """Events per second of processor time."""
        return self.events / max(self.seconds, 1e-9)

    @property
    def ratio(self) -> float:
        """Our time as a multiple of the other's."""
        return self.seconds / max(self.beside_seconds, 1e-9)


def measured(events: int, rounds: int, names: tuple[str, ...] = NAMES) -> Iterator[Pace]:
    """Measures one after the other, ours and the other in turns.

    Args:
        events: of the stream, all in memory: some 120 bytes each.
        rounds: of which the fastest counts.
        names: of ``MEASURES``.
    """
    pieces = list(pattern_stream(events, SOURCES, KEYS))
    made = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    frames = [frame for piece in pieces for frame in event_frames(piece, SOURCES)]
    few = list(event_frames({name: column[:WARM_EVENTS] for name, column in made.items()}, SOURCES))
    for each in MEASURES:
        if each.name not in names:
            continue
        _ours(each, few)
        ours = beside = float("inf")
        for _ in range(rounds):
            seconds, answers = _timed(lambda each=each: _ours(each, frames))  # type: ignore[misc]
            ours = min(ours, seconds)
            seconds, theirs = _timed(lambda each=each: each.baseline(made))  # type: ignore[misc]
            beside = min(beside, seconds)
        yield Pace(
            each.name, each.text or f"order {each.order}", events,
            ours, answers, each.beside, beside, theirs,
        )  # fmt: skip


def _ours(each: Measure, frames: list[Frame]) -> int:
    """Answers, or ordered events, as tables; a chain is new every time."""
    plans = () if each.text is None else (query(each.text),)
    ordered = "full" if each.text is None else "no"
    chain = Chain(ChainSettings(parse_order(each.order), plans, ordered=ordered), "main")
    answers = 0
    for start in range(0, len(frames), BATCH_FRAMES):
        parts = parts_of("main", chain.process(frames[start : start + BATCH_FRAMES]))
        answers += sum(len(part.payload) for part in parts)
    return answers + sum(len(part.payload) for part in last_parts(chain) if part.kind != COUNTERS)


def _timed(work: Callable[[], int]) -> tuple[float, int]:
    begun = time.process_time()
    answers = work()
    return time.process_time() - begun, answers
