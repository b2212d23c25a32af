"""Passes of the three ways to evaluate an ISEQ, the paper's and ours: time, and what is held."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query as read_query
from slackwater.engine.query.joins import IBP, INDEXED, NAIVE
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.log import DEFAULT_SITE
from slackwater.paper import PaperRun
from slackwater.scenarios.papers.l10.ch5.intervals import (
    SPREAD,
    WITHIN_NS,
    IntervalStream,
    intervals,
    query,
)
from slackwater.scenarios.papers.l10.ch5.multi_join import (
    AIS_OF_ALL,
    AIS_OF_ENDS,
    MULTI_JOIN,
    EndPoints,
    multi_join,
)

WAYS: Final = {"naive ISEQ": NAIVE, "basic indexing": INDEXED, "IBP-incorporated": IBP}
"""L10's names of them, and ours."""
NAIVE_ISEQ, BASIC, WITH_IBP = WAYS
AS_PRINTED: Final = dict(zip(WAYS, (MULTI_JOIN, AIS_OF_ENDS, AIS_OF_ALL), strict=True))
"""The paper's own operator, each way."""
TURNS: Final = 2
_SHORT_S: Final = 0.2
"""Passes of the paper's operator are repeated until they took so long together."""
_CALLS: Final = 4
"""Of a pass that is timed: so few that what a call costs by itself does not matter."""
_READ: Final = 40
"""Of a pass after each of whose calls the memory is read."""
_FEWEST: Final = 400


@dataclass(frozen=True, slots=True)
class JoinSetup:
    """A point of a figure.

    ``length``: of the query; ``ends``: how many of its end points are ends. ``mean_ns``: length of
    the intervals, ``spread`` the standard deviation, as a share of it. ``density``: of them per
    window. ``count``: of all. ``rising``: steps over which the attribute rises. ``turns``: passes
    of ours that are timed; 0: ``TURNS``.
    """

    length: int = 10
    ends: int = 5
    mean_ns: int = WITHIN_NS // 10
    density: int = 200
    count: int = 4_000
    rising: int = 5
    spread: float = SPREAD


@dataclass(frozen=True, slots=True)
class IntervalCost:
    """``seconds``: of the processor, the least of several passes. ``buffer_size``: intervals in
    memory after each call, on the average over the second half of them. ``looked``: candidates
    tested for each of ``count`` intervals; ``dropped``: share of these that was dropped
    on arrival, or later for want of a partner [%].
    """

    seconds: float
    buffer_size: float
    matches: int
    count: int
    looked: float
    dropped: float


def costs_as_printed(run: PaperRun, setup: JoinSetup) -> Mapping[str, IntervalCost]:
    """The cost of each way of the paper's operator; their passes take turns.

    Raises:
        RuntimeError: two ways gave different numbers of matches: a bug.
    """
    return run.once(("l10 ch5, as printed", setup), lambda: _costs_as_printed(run, setup))


def _costs_as_printed(run: PaperRun, setup: JoinSetup) -> Mapping[str, IntervalCost]:
    made = _made(run, setup)
    chain = EndPoints(setup.length, setup.ends, setup.rising, WITHIN_NS)
    found: dict[str, list[IntervalCost]] = {}
    with run.watched(f"{_named(setup, len(made))}, as printed") as advanced:
        for name, way in AS_PRINTED.items():
            some = slice(0, _FEWEST // 4)  # the first pass may compile
            multi_join(made.kind[some], made.ts[some], made.te[some], made.value[some], chain, way)
            seconds: list[float] = []
            while sum(seconds) < _SHORT_S and len(seconds) <= TURNS:
                began = time.process_time()
                of = multi_join(made.kind, made.ts, made.te, made.value, chain, way)
                seconds.append(time.process_time() - began)
                advanced(len(made))
            tested, dropped = of.tested / len(made), 100 * of.dropped / len(made)
            found[name] = [
                IntervalCost(min(seconds), of.buffer_size, of.matches, len(made), tested, dropped)
            ]
    return _same(setup, found)


def costs(run: PaperRun, setup: JoinSetup) -> Mapping[str, IntervalCost]:
    """The cost of each way of our matcher; their passes take turns.

    Raises:
        RuntimeError: two ways gave different numbers of matches: a bug.
    """
    return run.once(("l10 ch5", setup), lambda: _costs(run, setup))


def _costs(run: PaperRun, setup: JoinSetup) -> Mapping[str, IntervalCost]:
    made = _made(run, setup)
    count = len(made)
    found: dict[str, list[IntervalCost]] = {name: [] for name in WAYS}
    with run.watched(_named(setup, count)) as advanced:
        for turn in range(1 + TURNS):  # the first may compile; it reads the memory
            for name, way in WAYS.items():
                found[name].append(one_pass(made, setup, way, _CALLS if turn else _READ))
                advanced(count)
    return _same(setup, found)


def _made(run: PaperRun, setup: JoinSetup) -> IntervalStream:
    count = max(round(setup.count * run.scale), _FEWEST)
    return intervals(count, setup.density, setup.mean_ns, run.seed, setup.spread)


def _named(setup: JoinSetup, count: int) -> str:
    return f"length {setup.length}, {setup.ends} ends, density {setup.density}: {count:,} intervals"


def _same(setup: JoinSetup, found: Mapping[str, list[IntervalCost]]) -> Mapping[str, IntervalCost]:
    if len({each.matches for of in found.values() for each in of}) > 1:
        raise RuntimeError(f"{setup}: ways differ in their matches")
    return {
        name: replace(of[0], seconds=min(each.seconds for each in of[1:] or of))
        for name, of in found.items()
    }


def one_pass(made: IntervalStream, setup: JoinSetup, way: str, calls: int = _CALLS) -> IntervalCost:
    """A new chain that takes the whole stream, as it arrives in order; the indexed ways drop what
    has no chain of end points below it (L10 5.3.2), which the naive one cannot tell.
    """
    settings = ChainSettings(
        parse_order("none"),
        plans=(read_query(query(setup.length, setup.ends, setup.rising), name="iseq"),),
        pattern=PatternSettings(
            keep_late_ns=0, intervals=way, purge="late" if way == NAIVE else "promises"
        ),
    )
    chain = Chain(settings, DEFAULT_SITE)
    seconds, matches, buffer_sizes = 0.0, 0, []
    rows = max((1 + (way == IBP)) * len(made) // calls, 1)
    for frame in list(made.frames(rows, ibp=way == IBP)):
        began = time.process_time()
        output = chain.process([frame])
        seconds += time.process_time() - began
        matches += len(output.results[0])
        buffer_sizes.append(chain.counters()["queries"]["iseq"]["buffered"])
    matches += len(chain.finish().results[0])
    half = buffer_sizes[len(buffer_sizes) // 2 :]
    counts = chain.counters()["queries"]["iseq"]
    dropped = 100 * (counts["dropped"] + counts["cascaded"]) / len(made)
    looked = counts["looked_at"] / len(made)
    return IntervalCost(seconds, sum(half) / len(half), matches, len(made), looked, dropped)


def gain_percent(without: float, with_it: float) -> float:
    """By how much ``with_it`` lies below ``without``; negative: above.

    >>> gain_percent(200, 150), gain_percent(100, 125)
    (25.0, -25.0)
    """
    return 100 * (1 - with_it / without) if without else 0.0
