"""Passes of the matcher over a stream, with its stacks' divider on and off."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np

from slackwater.engine.core.released import Released
from slackwater.engine.hosts.chain.state_bytes import to_bytes
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import SeqPlan, Step
from slackwater.paper import Advanced, PaperRun
from slackwater.scenarios.papers.l10.ch4.streams import TYPES, PointStream, released

WITHIN_NS: Final = 20
"""L10 4.6.4: the window of its query."""
TURNS: Final = 9
FLAT: Final = 1.0
"""Percentage points by which a gain that rises may fall from one point to the next."""
_FEWEST: Final = 200
"""Events at any scale: fewer hold no match."""
Passed = tuple[int, dict[str, int]]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PassCost:
    """The cost of a pass. ``seconds``: CPU time, the least of several passes."""

    seconds: float
    matches: int
    counters: Mapping[str, int]


def plan() -> SeqPlan:
    """SEQ(A, B, C, D, E, F) within 20 units of time (L10 4.6.3)."""
    steps = tuple(Step(name.lower(), name) for name in TYPES)
    return SeqPlan("l10", "", steps, within_ns=WITHIN_NS)


def sized(run: PaperRun, events: int) -> int:
    """``events`` at the run's scale."""
    return max(round(events * run.scale), _FEWEST)


def costs(
    made: PointStream,
    slack_ns: int,
    variants: Mapping[str, bool],
    advanced: Advanced,
    turns: int = TURNS,
) -> dict[str, PassCost]:
    """The cost of each variant by its name. Their passes take turns."""
    batch = released(made)

    def each(divider: bool) -> Callable[[], Passed]:
        def one() -> Passed:
            advanced(len(made))
            return one_pass(batch, slack_ns, divider)

        return one

    timed = in_turns({name: each(divider) for name, divider in variants.items()}, turns)
    return {name: PassCost(seconds, *found) for name, (seconds, found) in timed.items()}


def one_pass(batch: Released, slack_ns: int, divider: bool) -> Passed:
    """Number of matches, and the counters, of a new matcher that takes the whole stream."""
    matcher = Alone(SeqMatcher(plan(), settings(slack_ns, divider)))
    return len(matcher.process(batch)), matcher.counters()


@dataclass(frozen=True, slots=True)
class MatcherLoad:
    """What a matcher holds after a call, on average: events, and bytes of its state."""

    events: float
    state_bytes: float


def held_by(made: PointStream, slack_ns: int, divider: bool, calls: int) -> MatcherLoad:
    """What our matcher holds while it reads the stream in ``calls`` calls."""
    matcher = Alone(SeqMatcher(plan(), settings(slack_ns, divider)))
    batch = released(made)
    events, sizes = [], []
    for rows in np.array_split(np.arange(len(made)), calls):
        part = {name: column[rows] for name, column in batch.columns.items()}
        matcher.process(Released(len(rows), part, {}, batch.strings, t_a=0))
        events.append(matcher.counters()["buffered"])
        sizes.append(len(to_bytes(matcher.snapshot())))
    return MatcherLoad(float(np.mean(events)), float(np.mean(sizes)))


def settings(slack_ns: int, divider: bool) -> PatternSettings:
    """Stacks with the divider or without, purged by the window plus K (Algorithm 9)."""
    return PatternSettings(purge="slack", slack_ns=slack_ns, divider=divider)


def in_turns(
    passes: Mapping[str, Callable[[], _T]], turns: int = TURNS
) -> dict[str, tuple[float, _T]]:
    """(least CPU time [s], last answer) of each pass; the passes take turns.

    They take turns, and the least time counts, because other work on the machine can only make a
    pass slower. The first turn may compile and is not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    answers = {}
    for _ in range(1 + turns):
        for name, each in passes.items():
            began = time.process_time()
            answers[name] = each()
            seconds[name].append(time.process_time() - began)
    return {name: (min(seconds[name][1:]), answer) for name, answer in answers.items()}


def gain_percent(without: float, with_it: float) -> float:
    """By how many percent ``with_it`` lies below ``without``.

    >>> gain_percent(200, 150)
    25.0
    """
    return 100 * (1 - with_it / without) if without else 0.0


def rises(gains: Sequence[float]) -> bool:
    """Whether the last gain [%] lies above the first, and none ``FLAT`` below the one before it.

    >>> rises([1, 3, 2.5]), rises([1, 3, 0]), rises([1, 1])
    (True, False, False)
    """
    return gains[-1] > gains[0] and all(b > a - FLAT for a, b in pairwise(gains))


def milliseconds(seconds: float) -> float:
    """For a table."""
    return round(1000 * seconds, 2)
