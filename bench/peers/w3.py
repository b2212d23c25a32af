"""W3 of ``../shared/peers`` beside its peers: whole processes, one after another, in turns.

W3 gives all events back in the order of their time; 12.5 % of them come up to 1 s late.

``PEERS_DIR=/some/dir python -m bench.peers.w3 [--events N] [--rounds N] [SIDE ...]``
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.parquet as pq

from bench.peers.race import Competitor, everybody, race, table_of

_COLUMNS: Final = ["ts", "source", "seq", "arrival", "sid", "type", "id", "v"]


def sides(folder: Path) -> dict[str, Competitor]:
    """All competitors, by their names."""
    return everybody(folder, "w3", ["order"])


def times_of(out: Path) -> np.ndarray:
    """Event times as they were written."""
    if out.name.startswith("ours"):
        return pq.read_table(out, columns=["ts"])["ts"].to_numpy()
    return table_of(out, _COLUMNS)["ts"].to_numpy()


def compared(data: Path) -> Callable[[np.ndarray], str]:
    """What says how many events are there, and out of place."""
    every = np.sort(pq.read_table(data, columns=["ts"])["ts"].to_numpy())

    def said(ts: np.ndarray) -> str:
        same = len(ts) == len(every) and bool((np.sort(ts) == every).all())
        back = int((np.diff(ts) < 0).sum())
        return f"{'all' if same else f'{len(ts):,} of {len(every):,}'} events, {back:,} steps back"

    return said


if __name__ == "__main__":
    race(__doc__, sides, times_of, compared)
