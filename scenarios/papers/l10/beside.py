"""Our operator beside the paper's: a claim is judged by the paper's own; ours is reported too."""

from __future__ import annotations


def by_ours(holds: bool, said: str) -> str:
    """A line of a claim's detail: whether the claim holds by our operator, and its numbers.

    >>> by_ours(True, "3 % less")
    'By our own operator: holds, 3 % less.'
    """
    return f"By our own operator: {'holds' if holds else 'fails'}, {said.rstrip('.')}."
