"""Pairs of events, as the races of patterns and joins compare them: (n, 2) times of a and b."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import json

KEY_WIDTH: Final = 1 << 44
"""Keys apart from times, in one number: times of a run are below 2^44 ns (5 h)."""


def our_pairs(out: Path) -> np.ndarray:
    """Of our results, as Parquet or JSONL."""
    table = pq.read_table(out) if out.suffix == ".parquet" else json.read_json(out)
    events = pc.list_flatten(table["events"].combine_chunks())
    return np.asarray(pc.struct_field(events, "ts").to_numpy().reshape(-1, 2))


def against(truth: np.ndarray) -> Callable[[np.ndarray], str]:
    """What says how many pairs are right, and wrong; ``truth``: all there are."""
    true = as_one(truth)

    def said(pairs: np.ndarray) -> str:
        mine = as_one(pairs)
        right = int(np.isin(np.unique(mine), true).sum())
        return f"{right:,} of {len(true):,} pairs, {len(mine) - right:,} wrong"

    return said


def as_one(pairs: np.ndarray) -> np.ndarray:
    """A pair as one value."""
    both = [("a", np.int64), ("b", np.int64)]
    return np.ascontiguousarray(pairs, np.int64).view(both).ravel()
