"""Deadlines of which some may not be set."""

from __future__ import annotations


def earliest(*dues: int | None) -> int | None:
    """The first of the instants that are given; None: none is.

    >>> earliest(5, None, 3), earliest(None)
    (3, None)
    """
    first = None
    for due in dues:
        if due is not None and (first is None or due < first):
            first = due
    return first
