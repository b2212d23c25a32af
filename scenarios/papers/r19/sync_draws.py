"""R19 Table 5.10 over many time syncs: how wrong one is, is chance, and the paper ran one a row.

Every draw is a time sync of both sources at their start; what is counted after it is a tenth of
data set 3, so that there can be many draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.paper import PaperRun
from slackwater.scenario import Table
from slackwater.scenarios.papers.r19 import published
from slackwater.scenarios.papers.r19.clock_sync import SyncResult, synchronised
from slackwater.scenarios.papers.r19.data_sets import DataSet, data_set
from slackwater.scenarios.papers.r19.log_writing import (
    DEPARTED,
    SHIFT_NS,
    TRUE_TS,
    PublishedSource,
    frames,
)
from slackwater.scenarios.papers.r19.orders import CODE, PRINTED
from slackwater.scenarios.papers.r19.released_stream import observe
from slackwater.scenarios.papers.verdicts import same_with, share

LEG_NS: Final = 10_000
"""Least time of a leg of the time sync: R19 ran clients and engine on one machine."""
JUDGED: Final = (PRINTED, CODE)
DRAWS: Final = 16
"""Of each offset, at scale 1."""
LEGS_US: Final = (1, 100, 1_000, 10_000)
"""Others, which show their effect."""
_AHEAD_NS: Final = 10_000_000
_SIZE: Final = 0.1
_FEWEST: Final = 3


@dataclass(frozen=True, slots=True)
class Draws:
    """Events left out of order as R19 counts (after a later one just before, times in whole ms).

    ``counts``: by offset and approach, one per draw; ``right``: by approach, with right clocks and
    no sync. ``injected``: events out of order before. ``by_leg``: by least time of a leg [us],
    the counts of the printed sequence with one offset.
    """

    counts: Mapping[str, Mapping[str, list[int]]]
    right: Mapping[str, int]
    injected: int
    by_leg: Mapping[int, list[int]]

    def accuracies(self, offset: str, approach: str) -> list[float]:
        """R19 5.2.2, of every draw [%]."""
        return [100 * (1 - count / self.injected) for count in self.counts[offset][approach]]

    def median(self, offset: str, approach: str) -> float:
        """Events left, of the draw in the middle."""
        return float(np.median(self.counts[offset][approach]))

    def with_legs(self, holds: bool, judge: Callable[[float], bool]) -> str:
        """With which legs a verdict on the median of events left is the same."""
        others = {
            f"{leg} us": judge(float(np.median(counts))) for leg, counts in self.by_leg.items()
        }
        return same_with(holds, others)


def draws(run: PaperRun) -> Draws:
    """The draws of a run."""
    return run.once("sync draws", lambda: _draws(run))


def table(found: Draws) -> Table:
    """What syncs make of it, by offset."""
    rows = []
    for offset in found.counts:
        row: list[str | float] = [offset]
        for each in JUDGED:
            counts = found.counts[offset][each.name]
            accuracies = found.accuracies(offset, each.name)
            row += [min(counts), found.median(offset, each.name), max(counts)]
            row += [share(min(accuracies)), share(float(np.median(accuracies)))]
        rows.append(tuple(row))
    number = len(next(iter(found.counts.values()))[PRINTED.name])
    what = ("least", "median", "most", "least accuracy [%]", "median accuracy [%]")
    return Table(
        f"With time sync, {number} syncs of each offset",
        ("offset", *(f"{each.name}: {heading}" for each in JUDGED for heading in what)),
        tuple(rows),
        f"Events left out of order of {found.injected:,} injected, in a tenth of data set 3 from "
        "each source. With right clocks and no sync: "
        + ", ".join(f"{name} {count:,}" for name, count in found.right.items())
        + ".",
    )


def _draws(run: PaperRun) -> Draws:
    data = data_set(3, run.seed, run.scale * _SIZE)
    number = max(round(DRAWS * run.scale), _FEWEST)
    counts: dict[str, dict[str, list[int]]] = {}
    with run.watched(f"{number} time syncs of each offset") as advanced:
        for place, (offset, (ahead_ns, *_)) in enumerate(published.OFFSETS.items()):
            counts[offset] = {each.name: [] for each in JUDGED}
            for draw in range(number):
                chance = np.random.default_rng((run.seed, 5100, place, draw))
                syncs = tuple(synchronised(ahead, LEG_NS, chance) for ahead in (0, ahead_ns))
                for each in JUDGED:
                    counts[offset][each.name].append(_left(data, each.order, ahead_ns, syncs))
                    advanced(2 * len(data))
        by_leg: dict[int, list[int]] = {}
        for leg_us in LEGS_US:
            by_leg[leg_us] = []
            for draw in range(_FEWEST):
                chance = np.random.default_rng((run.seed, 5101, leg_us, draw))
                syncs = tuple(synchronised(at, 1000 * leg_us, chance) for at in (0, _AHEAD_NS))
                by_leg[leg_us].append(_left(data, PRINTED.order, _AHEAD_NS, syncs))
                advanced(2 * len(data))
    right = {each.name: _left(data, each.order, 0, (None, None)) for each in JUDGED}
    return Draws(counts, right, 2 * int(data.delayed.sum()), by_leg)


def _left(data: DataSet, order: str, ahead_ns: int, syncs: tuple[SyncResult | None, ...]) -> int:
    first, second = syncs
    publishers = (
        PublishedSource("0", sync=first),
        PublishedSource("1", SHIFT_NS, ahead_ns, second),
    )
    truth = TRUE_TS if ahead_ns else DEPARTED
    return observe(frames(data, publishers, ()), order, truth).after_previous_ms
