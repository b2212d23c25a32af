"""What kernels know of the sources' clocks: offsets in force, and reference times by them."""

from __future__ import annotations

from typing import Final

import numpy as np

from edge_agent.limits import UNC_MAX_NS
from engine.kernels.integers import NONE, NS_PER_S
from engine.kernels.jit import inline

EPOCHS_KEPT: Final = 8
"""Offsets remembered per source, to correct events stamped before the newest sync."""
CLOCK: Final = np.dtype(
    [
        ("start", "i8"), ("offset", "i8"), ("unc", "i8"), ("rate", "i8"), ("anchor", "i8"),
        ("ident", "i8"), ("skew", "i8"),
        ("doubt", "i8"),  # uncertainty of its events since a step was found behind them; 0: none
        # of the source; kept in its first entry. gone: events released by its newest entry
        ("n", "i8"), ("first_lane", "i8"), ("gone", "i8"),
    ]
)  # fmt: skip
"""One offset of a source, in force from event time ``start`` on; an array [source, epoch].

``skew``: slope of the offset, ``rate``: of its uncertainty [ppb], both from ``anchor`` on.
"""


@inline
def reference(ck: np.ndarray, default: int, source: int, ts: int) -> tuple[int, int, int]:
    """(ref, uncertainty, epoch) of event time ``ts`` at ``source``'s clock (R19 Eq 3.14, 3.15).

    Never descending in ``ts`` within an epoch: a slope is far from -1. The uncertainty saturates.
    """
    n = ck[source, 0].n
    if n == 0:
        return ts, default, NONE
    j = n - 1
    while j > 0 and ts < ck[source, j].start:
        j -= 1
    offset, unc = ck[source, j].offset, ck[source, j].unc
    skew, rate = ck[source, j].skew, ck[source, j].rate
    if rate > 0 or skew != 0:
        # Whole seconds and the rest apart: their products with a rate stay within int64.
        age = max(0, ts - ck[source, j].anchor)
        seconds, rest = age // NS_PER_S, age % NS_PER_S
        grown = seconds * rate + rest * rate // NS_PER_S
        unc = unc + grown if grown < UNC_MAX_NS - unc else UNC_MAX_NS
        offset += seconds * skew + rest * skew // NS_PER_S
    return ts + offset, unc, ck[source, j].ident
