"""Files of a log read for one site are kept for the next: a file holds frames of many sites.

A worker handles sites one after another. With ten thousand of them in a file, to read it for each
would take ten thousand times as long.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa

_BYTES: Final = 1 << 28
_Key = tuple[Path, int, int]


class KeptTables:
    """The tables read last.

    Args:
        limit: bytes of them in all; a larger one is not kept.
    """

    def __init__(self, limit: int = _BYTES) -> None:
        self._limit = limit
        self._tables: OrderedDict[_Key, pa.Table] = OrderedDict()

    def has(self, file: Path) -> bool:
        """Whether ``rows`` need not read ``file``."""
        return file.exists() and _key(file) in self._tables

    def rows(self, file: Path, places: list[int], read: Callable[[Path], pa.Table]) -> pa.Table:
        """The rows ``places`` of ``file``, which ``read`` gives whole."""
        if not file.exists():
            return read(file).take(places)  # which says what is amiss
        key = _key(file)
        table = self._tables.pop(key, None)
        if table is None:
            table = read(file)
        # Whoever takes nearly all of it leaves nothing for others to come for.
        if 2 * len(places) < table.num_rows and table.nbytes <= self._limit:
            self._tables[key] = table
            while sum(each.nbytes for each in self._tables.values()) > self._limit:
                self._tables.popitem(last=False)
        return table.take(places)


def _key(file: Path) -> _Key:
    facts = file.stat()
    return file, facts.st_mtime_ns, facts.st_size


KEPT: Final = KeptTables()
"""Of this process."""
