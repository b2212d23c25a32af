"""The events so far of what is told: taken out of the pool, where they may move, as columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine.constraint.traces import NODE
from engine.kernels.integers import NONE
from engine.kernels.jit import kernel
from engine.kernels.records import numbers_of
from engine.results.schema import SO_FAR_FIELDS, decoded
from engine.stream.released import Strings


class SoFar(NamedTuple):
    """Lists of events, one after another: ``nodes`` (NODE), the first of each list first, and how
    many each has (``lengths``, int64).
    """

    nodes: np.ndarray
    lengths: np.ndarray


def so_far(ends: np.ndarray, pool: np.ndarray) -> SoFar:
    """Copies of the lists of ``pool`` (NODE) that end at the places ``ends``."""
    lengths = np.empty(len(ends), np.int64)
    nodes = np.empty(_count(ends, pool, lengths), NODE)
    _copy(ends, numbers_of(pool), pool, lengths, numbers_of(nodes))
    return SoFar(nodes, lengths)


def lists_of(found: list[SoFar], strings: Strings) -> pa.ListArray:
    """All of them, as results list them."""
    of = np.concatenate([numbers_of(each.nodes) for each in found]).reshape(-1).view(NODE)
    lengths, none = np.concatenate([each.lengths for each in found]), np.zeros(len(of), np.bool_)
    columns = {
        "type": decoded(of["type"], none, strings.text),
        "source": decoded(of["source"], none, strings.text),
        "seq": pa.array(of["seq"], mask=of["seq"] < 0),
        "ts": pa.array(of["ref"]),
    }
    events = pa.StructArray.from_arrays([columns[name] for name in SO_FAR_FIELDS], SO_FAR_FIELDS)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(starts), events)


@kernel
def _count(ends: np.ndarray, pool: np.ndarray, lengths: np.ndarray) -> int:
    """Fills in ``lengths``; gives their sum."""
    total = 0
    for i in range(len(ends)):
        length, place = 0, ends[i]
        while place != NONE:
            length += 1
            place = pool[place].link
        lengths[i] = length
        total += length
    return total


@kernel
def _copy(ends: np.ndarray, numbers: np.ndarray, pool: np.ndarray, lengths: np.ndarray,
          copied: np.ndarray) -> None:  # fmt: skip
    """Fills in ``copied``; ``numbers`` is the pool's memory as rows of int64."""
    stop = 0
    for i in range(len(ends)):
        stop += lengths[i]
        row, place = stop - 1, ends[i]
        while place != NONE:
            for part in range(numbers.shape[1]):
                copied[row, part] = numbers[place, part]
            row -= 1
            place = pool[place].link
