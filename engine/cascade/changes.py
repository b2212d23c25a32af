"""What two runs over nearly the same events have in their results that the other one has not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.cascade.derived_events import columns_in, identities_of, signs_of
from engine.kernels.table import numbered
from engine.operator import Result, ResultPieces


def changes_between(
    told: Sequence[Sequence[Result]], now: Sequence[Sequence[Result]], at: int
) -> ResultPieces:
    """What makes of the results ``told`` those of ``now``: retractions, then insertions.

    Args:
        told: pieces of results, insertions and retractions, behind what both begin with.
        now: pieces of the results that should have been told, behind the same.
        at: the instant of the changes.
    """
    pieces = [*columns_in(told), *columns_in(now)]
    first_now = len(list(columns_in(told)))
    found = ResultPieces()
    if not pieces:
        return found
    lengths = [len(piece) for piece in pieces]
    number = numbered(np.concatenate([identities_of(piece) for piece in pieces]))
    signs = np.concatenate([signs_of(piece) for piece in pieces])
    is_now = np.repeat(np.arange(len(pieces)) >= first_now, lengths)
    net = np.zeros(int(number.max()) + 1, np.int64)
    np.add.at(net, number, np.where(is_now, signs, -signs))
    for plus in (False, True):
        # Of each content as many as it has changed by, from those that brought that about: given
        # now, or taken back as was told; or the other way round.
        mine = ((signs > 0) == is_now) == plus
        wanted = np.maximum(net if plus else -net, 0)
        rows = np.flatnonzero(mine)
        rows = rows[_rank(number[rows]) < wanted[number[rows]]]
        starts = np.cumsum([0, *lengths])
        for place, piece in enumerate(pieces):
            some = rows[(rows >= starts[place]) & (rows < starts[place + 1])] - starts[place]
            if len(some):
                instants = np.full(len(some), at)
                found.extend(piece.taken(some, np.full(len(some), plus), instants))  # type: ignore[attr-defined]
    return found


def _rank(number: np.ndarray) -> np.ndarray:
    """Per place, how many before it have the same number."""
    order = np.argsort(number, kind="stable")
    ordered = number[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    counts = np.diff(np.append(begins, len(ordered)))
    rank = np.empty(len(number), np.int64)
    rank[order] = np.arange(len(number)) - np.repeat(begins, counts)
    return rank
