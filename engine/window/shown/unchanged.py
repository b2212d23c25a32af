"""Drops pairs of retraction and insertion with equal content."""

from __future__ import annotations

import numpy as np

from engine.window.emitted import ResultBuffer


def unchanged(outbox: ResultBuffer, numbers: np.ndarray | None, held: np.ndarray) -> np.ndarray:
    """Which results of ``outbox``, in words, are of such pairs.

    A pair is adjacent and of one instant, as ``engine.window.emitted.settle`` emits changes. So
    pass all changes, those dropped for other reasons included.

    Args:
        outbox: the results.
        numbers: the places of those that count; None: all.
        held: (tally,), which results are emitted otherwise; both of a pair, or none.

    Returns:
        Shape (tally,).
    """
    n = int(outbox.tally[0])
    same = ~outbox.plus[: n - 1] & outbox.plus[1:n] & held[:-1] & held[1:]
    for name, column in outbox._asdict().items():
        if name in {"plus", "tally"}:
            continue
        some = column[:n]
        if numbers is not None and name in {"kinds", "words"}:
            some = some[:, numbers]
        equal = some[:-1] == some[1:]
        same &= equal.all(axis=tuple(range(1, equal.ndim)))
    found = np.zeros(n, np.bool_)
    found[:-1] |= same
    found[1:] |= same
    return found


def those(outbox: ResultBuffer, held: np.ndarray) -> ResultBuffer:
    """The results of ``outbox`` that are ``held``, of shape (tally,)."""
    n = len(held)
    kept = {name: column[:n][held] for name, column in outbox._asdict().items() if name != "tally"}
    return ResultBuffer(**kept, tally=np.array([int(held.sum())]))
