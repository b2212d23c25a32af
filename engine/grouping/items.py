"""Data items on their way through a dataflow, as equally long columns (K18 II.A, V.A).

The order of items is lexicographic: event time first, then the source, then the source's own
number, then the place among the items that one item was made into (K18 Fig 5). A tombstone is an
item that says that another one, of the same number, is not valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Items:
    """``n`` items, in the order in which they arrive at an operation.

    Attributes:
        ref: event time [ns], int64.
        source: code of the source, int64; ``rank`` of the dataflow says how codes are ordered.
        seq: the source's number of the event, int64; -1: none.
        child: place among what the event was made into, int64.
        number: which item it is, int64; a tombstone has that of the item that it takes back.
        tombstone: bool.
        row: of the batch, int64: the row that made it come up now.
        payload: what it carries: a structured array, or objects.
    """

    ref: np.ndarray
    source: np.ndarray
    seq: np.ndarray
    child: np.ndarray
    number: np.ndarray
    tombstone: np.ndarray
    row: np.ndarray
    payload: np.ndarray

    def __len__(self) -> int:
        return len(self.ref)

    def take(self, which: np.ndarray | slice) -> Items:
        """Those of ``which``, places, a mask or a slice."""
        return Items(*(getattr(self, name)[which] for name in COLUMNS))

    def carrying(self, payload: np.ndarray) -> Items:
        """The same items with another ``payload``."""
        return replace(self, payload=payload)


COLUMNS = tuple(field.name for field in fields(Items))


def regular(
    ref: np.ndarray, source: np.ndarray, seq: np.ndarray, payload: np.ndarray, first: int = 0
) -> Items:
    """Events as items, numbered from ``first`` on, in order of arrival."""
    n = len(ref)
    rows = np.arange(n)
    return Items(
        np.asarray(ref, np.int64), np.asarray(source, np.int64), np.asarray(seq, np.int64),
        np.zeros(n, np.int64), first + rows, np.zeros(n, np.bool_), rows, payload,
    )  # fmt: skip


def joined(pieces: Sequence[Items]) -> Items:
    """``pieces``, at least one, one after another."""
    if len(pieces) == 1:
        return pieces[0]
    return Items(*(np.concatenate([getattr(each, name) for each in pieces]) for name in COLUMNS))


def objects(values: Sequence[Any]) -> np.ndarray:
    """Any Python objects as a payload."""
    return np.fromiter(values, object, len(values))
