"""W1 of ``../shared/peers`` beside its peers: whole processes, one after another, in turns.

W1 is the average and the number of events per sid in windows of 1 s; 12.5 % of the events are up to
1 s late. The rows are compared with those that NumPy counts among all events at once; a competitor
that closes windows early, or drops late events, has fewer exact ones.

``PEERS_DIR=/some/dir python -m bench.peers.w1 [--events N] [--rounds N] [SIDE ...]``
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.peers.race import Competitor, everybody, race, table_of

QUERY: Final = "SELECT count(*), avg(v) FROM events GROUP BY sid WINDOW TUMBLING 1 s"
_SECOND_NS: Final = 1_000_000_000
_SIDS: Final = 1 << 20
"""More than there are: a window and a sid in one number."""
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""(window and sid as one number, ascending; count; average)"""


def sides(folder: Path) -> dict[str, Competitor]:
    """All competitors, by their names."""
    return everybody(folder, "w1", ["query", QUERY])


def rows_of(out: Path) -> Rows:
    """The rows as the competitor wrote them; of ours, the final ones."""
    if out.name.startswith("ours"):
        table = pq.read_table(out)
        start = pc.struct_field(table["window"], "start").to_numpy()
        sid = pc.struct_field(table["key"], "sid").to_numpy()
        count = pc.struct_field(table["value"], "count(*)").to_numpy()
        average = pc.struct_field(table["value"], "avg(v)").to_numpy()
        # A correction retracts a row and emits it again: the last one counts.
        is_insertion = pc.equal(table["op"], "+").to_numpy()
        key = start // _SECOND_NS * _SIDS + sid
        last = len(key) - 1 - np.unique(key[::-1], return_index=True)[1]
        last = last[is_insertion[last]]
        return _sorted(key[last], count[last], average[last])
    table = table_of(out, ["win", "sid", "cnt", "av"])
    window, sid, count, average = (column.to_numpy() for column in table.columns)
    return _sorted(window.astype(np.int64) * _SIDS + sid, count, average)


def _sorted(key: np.ndarray, count: np.ndarray, average: np.ndarray) -> Rows:
    order = np.argsort(key)
    return key[order], count[order], average[order]


def compared(data: Path) -> Callable[[Rows], str]:
    """A function that counts the exact rows."""
    table = pq.read_table(data, columns=["ts", "sid", "v"])
    keys = table["ts"].to_numpy() // _SECOND_NS * _SIDS + table["sid"].to_numpy()
    key, group, count = np.unique(keys, return_inverse=True, return_counts=True)
    average = np.bincount(group, table["v"].to_numpy()) / count

    def said(rows: Rows) -> str:
        place = np.minimum(np.searchsorted(key, rows[0]), len(key) - 1)
        exact = (key[place] == rows[0]) & (count[place] == rows[1])
        exact &= np.isclose(average[place], rows[2], rtol=1e-9, atol=0)
        return f"{int(exact.sum()):,} of {len(key):,} rows exact, {len(exact):,} given"

    return said


if __name__ == "__main__":
    race(__doc__, sides, rows_of, compared)
