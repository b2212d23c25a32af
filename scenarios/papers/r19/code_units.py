"""What the unit of event times does to R19's timeout as its author published it."""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Table
from slackwater.scenarios.papers.r19 import published
from slackwater.scenarios.papers.r19.aq_variants import SETS
from slackwater.scenarios.papers.r19.log_writing import DEPARTED, frames, sources
from slackwater.scenarios.papers.r19.orders import CODE
from slackwater.scenarios.papers.r19.passes import the_data_set
from slackwater.scenarios.papers.r19.released_stream import observe
from slackwater.scenarios.papers.verdicts import share

_UNITS: Final = ("ps", "ns", "us", "ms")


def units(run: PaperRun) -> Finding:
    """Latency and accuracy of data sets 1 to 3 by each unit; no claim is judged by them."""
    rows: list[tuple[str | float | None, ...]] = []
    for number in SETS:
        data = the_data_set(run, number)
        injected = int(data.delayed.sum())
        of = published.LATENCY[published.SEQUENCE], published.ACCURACY[published.SEQUENCE]
        rows.append((f"data set {number}, the paper", *(each[number] for each in of), None, None))
        for unit in _UNITS:
            order = CODE.order.replace("r19-code:ps", f"r19-code:{unit}")
            with run.watched(f"data set {number}, times in {unit}") as advanced:
                found = observe(frames(data, sources(1), ()), order, DEPARTED, advanced=advanced)
            accuracy = share(100 * (1 - found.after_previous / injected)) if injected else None
            held_ms = float(np.mean(found.held_mean_ns or [0])) / 1e6
            rows.append(
                (f"data set {number}, times in {unit}", held_ms, accuracy,
                 found.after_previous, found.after_any)
            )  # fmt: skip
    table = Table(
        "The code's timeout by the unit of event times",
        ("", "mean latency [ms]", "accuracy [%]", "left", "left after any later one"),
        tuple(rows),
        "The code compares the time between two events, a number of units of the data, with ms. "
        "DEBS 2013's football data are in ps, and the claims are judged by these.",
    )
    return Finding((), (table,))
