"""Measures of what the extension let go, as ``compare`` has them of an order of ours."""

from __future__ import annotations

import numpy as np

from slackwater.measures import Durations, Measures
from slackwater.scenarios.papers.r19.aq_extension import ExtensionRelease
from slackwater.scenarios.papers.r19.released_stream import ReleasedOrder, by_batches


def measures_of(output: ExtensionRelease, name: str, sources: int) -> Measures:
    """Of events that leave a source the instant they happen; nothing is dropped or given up."""
    n = len(output.ts)
    behind = _behind(output.ts)
    came = output.ts[np.argsort(output.arrival, kind="stable")]
    hold = output.release - output.arrival
    return Measures(
        order=name, sites=1, sources=sources, arrived=n, released=n, in_place=n - behind,
        disorder_before=_behind(came), disorder_after=behind, late=behind, dropped=0,
        quarantined=0, duplicates=0, missing=None, hold=Durations.of(hold),
        latency=Durations.of(output.release - output.ts), buffered_max=0,
        buffered_max_bytes=0, seconds=0.0, steps_back=int((np.diff(output.ts) < 0).sum()),
    )  # fmt: skip


def series_of(output: ExtensionRelease) -> ReleasedOrder:
    """Holds over every ``BATCH`` events, and what is out of order."""
    means, maxima = by_batches(output.release - output.arrival)
    return ReleasedOrder(
        released=len(output.ts),
        after_previous=int((np.diff(output.ts) < 0).sum()),
        after_any=_behind(output.ts),
        held_mean_ns=means,
        held_max_ns=maxima,
    )


def _behind(times: np.ndarray) -> int:
    """How many an earlier one exceeds."""
    return int((times < np.maximum.accumulate(times)).sum())
