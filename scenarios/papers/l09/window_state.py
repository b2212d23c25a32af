"""L09 Figure 9: what the aggressive strategy holds, by the query's window."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from slackwater.paper import Finding, PaperRun
from slackwater.scenarios.papers.curves import drawn, tabled
from slackwater.scenarios.papers.l09.passes import AGGRESSIVE, StrategySetup, late, watched
from slackwater.scenarios.papers.l09.workload import EVENTS_PER_UNIT, MAX_DELAY, TYPES
from slackwater.scenarios.papers.verdicts import judged, listed

WINDOWS: Final = (20, 30, 40, 50, 60)
_LATE: Final = late(0.3, 0.3)
_LENGTH: Final = 3
"""The paper names no query here; results of longer ones explode with the window, their state does
not."""
_LINEAR: Final = 0.99
"""Share of variance that a line must explain."""


def state(run: PaperRun) -> Finding:
    """Figure 9."""
    setups = [StrategySetup(AGGRESSIVE, _LENGTH, window=window, late=_LATE) for window in WINDOWS]
    found = watched(run, "aggressive, state", setups)
    sizes = [found[setup].held_mean for setup in setups]
    slope, start = np.polyfit(WINDOWS, sizes, 1).tolist()
    explained = _explained(sizes, slope * np.array(WINDOWS) + start)
    per_unit = EVENTS_PER_UNIT * (_LENGTH + 1) / len(TYPES)
    claim = judged(
        "The state grows linearly with the window.",
        explained >= _LINEAR and slope > 0,
        f"{listed(f'{value:,.1f}' for value in sizes)} events at {listed(map(str, WINDOWS))} time "
        f"units; a line of {slope:.2f} events per time unit explains {explained:.2%} of the "
        "variance",
        "linear",
        f"it goes by {listed(f'{b - a:.1f}' for a, b in pairwise(sizes))} events from one window "
        "to the next.",
        also=f"The query's types send {per_unit:g} events per time unit, and an event is needed "
        f"for the window plus the longest delay of {MAX_DELAY} time units.",
        rests=f"the bound of what is linear, here {_LINEAR:.0%} of the variance: it holds up to "
        f"{explained:.2%}. The rate of events and the query change the slope alone.",
    )
    needed = [per_unit * (window + MAX_DELAY) for window in WINDOWS]
    curves = {"events held": sizes, "window plus delay, times rate": needed}
    title = "State of aggressive"
    figure = drawn(
        "fig-9", title, "Mean number of events in the matcher's state.", curves, WINDOWS,
        ("window [time units]", "events held"),
    )  # fmt: skip
    table = tabled(f"{title}: mean events held", "", [str(each) for each in WINDOWS], curves)
    return Finding((claim,), (table,), (figure,), {"held": sizes, "slope": slope, "start": start})


def _explained(values: list[float], line: np.ndarray) -> float:
    """Share of the variance that a line explains; 0 where there is none."""
    mine = np.array(values)
    left, all_of_it = ((mine - line) ** 2).sum(), ((mine - mine.mean()) ** 2).sum()
    return float(1 - left / all_of_it) if all_of_it else 0.0
