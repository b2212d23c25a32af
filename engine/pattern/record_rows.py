"""Columns of new events into the records that the kernels of patterns read.

NumPy fills one field after another, and each time goes through all the memory of the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.kernels.jit import kernel

if TYPE_CHECKING:
    import numpy as np


@kernel
def put(
    events: np.ndarray, ref: np.ndarray, ref_end: np.ndarray, unc: np.ndarray, epoch: np.ndarray,
    order: np.ndarray, expires: np.ndarray, member: np.ndarray, horizon: np.ndarray,
    t_a: np.ndarray, clock: np.ndarray, doubted: np.ndarray,
) -> None:  # fmt: skip
    """``events``: EVENT, as long as the columns, which are int64 but ``clock``, ``doubted``."""
    for i in range(len(events)):
        event = events[i]
        event.ref, event.ref_end, event.unc = ref[i], ref_end[i], unc[i]
        event.epoch, event.order, event.expires = epoch[i], order[i], expires[i]
        event.member, event.horizon, event.t_a = member[i], horizon[i], t_a[i]
        event.clock, event.doubted = clock[i], doubted[i]
