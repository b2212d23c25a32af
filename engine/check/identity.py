"""What tells results and keys apart, in 64 bits: of 10 million, two share theirs once in 400,000.

A retraction repeats the content of what it takes back, so a result is what its line says, but for
when it was told.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.kernels.hashing import mixed
from engine.kernels.jit import kernel
from engine.results.kinds import ResultKind
from engine.results.schema import POSITION

_TOLD = ("op", "at", "known_at", POSITION)


@kernel
def _hash(data: np.ndarray, ends: np.ndarray, found: np.ndarray) -> None:
    """``found[i]`` of the bytes of ``data`` from ``ends[i]`` to ``ends[i + 1]``."""
    for text in range(len(found)):
        bits = ends[text + 1] - ends[text]
        for place in range(ends[text], ends[text + 1]):
            bits = mixed(bits, int(data[place]))
        found[text] = bits


def hashes(texts: pa.Array) -> np.ndarray:
    """int64 per text; of a null, that of nothing."""
    texts = pa.concat_arrays([pa.array(texts.cast(pa.large_string()).fill_null(""))])
    found = np.zeros(len(texts), np.int64)
    if len(texts):
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        content = np.frombuffer(data or b"", np.uint8)
        _hash(content, ends, found)
    return found


def identities(kind: ResultKind, table: pa.Table) -> np.ndarray:
    """int64 per result of ``table``: equal where ``-`` takes ``+`` back."""
    n = table.num_rows
    for name in _TOLD:
        place = table.schema.get_field_index(name)
        if place >= 0:
            field = table.schema.field(place)
            of = pa.array(np.zeros(n, np.int64)) if name != "op" else pa.array([""] * n)
            table = table.set_column(place, name, of.cast(field.type))
    pieces = list(kind.lines(table, 1))
    return hashes(pa.concat_arrays(pieces)) if pieces else np.zeros(0, np.int64)


def partners(identity: np.ndarray, plus: np.ndarray) -> np.ndarray:
    """By row, the place of the ``+`` that it takes back, or -1; rows are in the order told."""
    order = np.argsort(identity, kind="stable")
    before, after = order[:-1], order[1:]
    found = np.full(len(identity), -1)
    takes = (identity[before] == identity[after]) & plus[before] & ~plus[after]
    found[after[takes]] = before[takes]
    return found
