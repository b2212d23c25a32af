"""What a matcher would have found, had it known late events or wider bounds from the start.

Events once held and gone take no part, neither in what was found nor in what would have been.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from slackwater.engine.barrier.base import Changes, Verdicts
from slackwater.engine.kernels.tables import numbered
from slackwater.engine.operators.match.verdict.matches import changed

_Columns = TypeVar("_Columns", Changes, Verdicts)


def one_of_each(changes: Changes | None) -> Changes | None:
    """From how each match stood before the first of its changes to how it stands after the last."""
    if changes is None or not len(changes):
        return None
    which = _which(changes.rows, changes.branch)
    begins, ends = np.empty((2, int(which.max()) + 1), np.int64)
    places = np.arange(len(which))
    ends[which] = places
    begins[which[::-1]] = places[::-1]
    found = changes.take(begins)
    found.after = changes.after.take(ends)
    return found


def _which(rows: np.ndarray, branch: np.ndarray) -> np.ndarray:
    """Equal numbers, from 0 on in order of appearance, for equal matches."""
    return numbered(np.column_stack([branch, rows]))


def difference(before: Changes | None, after: Changes | None) -> Changes | None:
    """From the matches as they stand in the end after ``before`` to how they do after ``after``.

    Both start alike: what one of them does not change is there as it was when the other began.
    """
    parts = [part for part in (before, after) if part is not None and len(part)]
    if not parts:
        return None
    both = all_of(parts)
    which = _which(both.rows, both.branch)
    n, places = int(which.max()) + 1, np.arange(len(which))
    old = len(before) if before is not None else 0
    at_first, was, now = np.empty((3, n), np.int64)
    at_first[which] = places
    was[:] = now[:] = -1
    was[which[:old]] = places[:old]
    now[which[old:]] = places[old:]
    # A new match has ``closes`` in the part where it is new.
    new = np.flatnonzero(~both.before.stands)
    at_first[which[new]] = new
    found = both.take(at_first)
    found.cause, found.completing = np.zeros((2, n), np.int64)
    found.before = _either(was, both, at_first)
    found.after = _either(now, both, at_first)
    found = changed(found)
    return found if len(found) else None


def _either(place: np.ndarray, both: Changes, at_first: np.ndarray) -> Verdicts:
    """Verdicts after the changes at ``place``, or (-1) before those at ``at_first``."""
    there = place >= 0
    columns = (
        np.where(there, getattr(both.after, name)[place], getattr(both.before, name)[at_first])
        for name in ("stands", "confirmed", "chance")
    )
    return Verdicts(*columns)


def all_of(parts: Sequence[_Columns]) -> _Columns:
    """One below the other."""
    first = parts[0]
    columns: list[Any] = []
    for name in first.__struct_fields__:
        of = [getattr(part, name) for part in parts]
        columns.append(all_of(of) if isinstance(of[0], Verdicts) else np.concatenate(of))
    return type(first)(*columns)
