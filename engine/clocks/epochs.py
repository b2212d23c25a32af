"""What kernels know of the sources' clocks: offsets in force, and reference times by them."""

from __future__ import annotations

from typing import Final

import numpy as np

from edge_agent.limits import UNC_MAX_NS
from engine.kernels.integers import NONE, NS_PER_S
from engine.kernels.jit import inline
from engine.kernels.records import record

EPOCHS_KEPT: Final = 8
"""Offsets remembered per source, to correct events stamped before the newest sync."""
EPOCH: Final = record("start", "offset", "unc", "rate", "anchor", "ident", "skew", "doubt")
"""One offset of a source, in force from event time ``start`` on.

``skew``: slope of the offset, ``rate``: of its uncertainty [ppb], both from ``anchor`` on.
``doubt``: the uncertainty of its events since a step was found behind them; 0: none was.
"""
CLOCK: Final = np.dtype(
    [("n", "i8"), ("first_lane", "i8"), ("gone", "i8"), ("epochs", EPOCH, (EPOCHS_KEPT,))]
)
"""A source's ``n`` offsets, oldest first. ``gone``: events released by the newest."""


@inline
def reference(clocks: np.ndarray, default: int, source: int, ts: int) -> tuple[int, int, int]:
    """(ref, uncertainty, epoch) of event time ``ts`` at ``source``'s clock (R19 Eq 3.14, 3.15).

    Never descending in ``ts`` within an epoch: a slope is far from -1. The uncertainty saturates.
    """
    of = clocks[source]
    if of.n == 0:
        return ts, default, NONE
    j = of.n - 1
    while j > 0 and ts < of.epochs[j].start:
        j -= 1
    epoch = of.epochs[j]
    offset, unc = epoch.offset, epoch.unc
    if epoch.rate > 0 or epoch.skew != 0:
        # Whole seconds and the rest apart: their products with a rate stay within int64.
        age = max(0, ts - epoch.anchor)
        seconds, rest = age // NS_PER_S, age % NS_PER_S
        grown = seconds * epoch.rate + rest * epoch.rate // NS_PER_S
        unc = unc + grown if grown < UNC_MAX_NS - unc else UNC_MAX_NS
        offset += seconds * epoch.skew + rest * epoch.skew // NS_PER_S
    return ts + offset, unc, epoch.ident
