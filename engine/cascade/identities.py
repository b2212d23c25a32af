"""What makes one result another one: its content, as a number of 128 bits.

A retraction repeats the content of the result that it takes back, all but ``op`` and ``at``. So the
content, as the JSON line that a sink would write, tells which result a retraction means; and as it
is the same however results came about, it also puts those of one time in one order.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from engine.kernels.hashing import mixed
from engine.kernels.jit import kernel
from engine.results.kinds import KINDS
from engine.results.schema import same_for_all

_SEEDS: Final = (1, 0x5DEECE66D)
_WORD: Final = 7
"""Bytes that are mixed in at once: they and their number fit into an int64."""


def contents(kind: str, table: pa.Table) -> pa.Array:
    """The JSON line of each result of ``table``, of one ``kind``, without ``op`` and ``at``."""
    n = table.num_rows
    for name, column in (("op", same_for_all("+", n)), ("at", pa.array(np.zeros(n, np.int64)))):
        table = table.set_column(table.schema.get_field_index(name), name, column)
    lines = list(KINDS[kind].lines(table.combine_chunks(), 1))
    return pa.concat_arrays(lines) if lines else pa.array([], pa.string())


def identities(texts: pa.Array) -> np.ndarray:
    """Numbers of 128 bits, int64 (n, 2), that are equal where ``texts`` (strings) are."""
    found = np.empty((len(texts), 2), np.int64)
    if not len(texts):
        return found
    plain = pa.concat_arrays([texts])  # whose buffers begin with its first text
    data = np.frombuffer(plain.buffers()[2] or b"", np.uint8)
    offsets = np.frombuffer(plain.buffers()[1], np.int32)[plain.offset :][: len(plain) + 1]
    _mix_texts(data, offsets, found)
    return found


@kernel
def _mix_texts(data: np.ndarray, offsets: np.ndarray, found: np.ndarray) -> None:
    for i in range(len(found)):
        for lane in range(2):
            state, at, end = _SEEDS[lane], offsets[i], offsets[i + 1]
            while at < end:
                stop, word = min(at + _WORD, end), 0
                for place in range(at, stop):
                    word = word * 256 + int(data[place])
                state = mixed(state, word * 8 + (stop - at))
                at = stop
            found[i, lane] = mixed(state, end - offsets[i])
