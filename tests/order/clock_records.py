"""Sync records and events of one source ``a``, and its clock as the engine learns it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.clocks.prediction import Sample
from engine.clocks.reference import SourceClocks, Sync
from engine.stream.released import Strings

Record = dict[str, Any]
MS, S = 10**6, 10**9


def sync(at: int, offset: int, **given: Any) -> Record:
    """Source a measured ``offset`` at its own time ``at``; the report arrives a second later."""
    return {"kind": "sync", "source": "a", "ts": at, "offset": offset, "delay": 2 * MS,
            "skew_error_ppb": 50_000, "arrival": at + S, **given}  # fmt: skip


def event(seq: int, at: int, **given: Any) -> Record:
    return {"source": "a", "seq": seq, "ts": at, "arrival": at + S, **given}


def learnt(reports: Sequence[Sample], stated: int) -> SourceClocks:
    clocks = SourceClocks(Strings(["a"]))
    for ts, offset, unc in reports:
        clocks.learn(Sync("a", "events", 0, offset, 2 * unc, ts, skew_error_ppb=stated), 0)
    return clocks


def corrected(clocks: SourceClocks, times: Sequence[int]) -> tuple[list[int], ...]:
    source = np.zeros(len(times), np.int32)
    columns = clocks.correct(source, np.array(times, np.int64), 0)
    return tuple(column.tolist() for column in columns)
