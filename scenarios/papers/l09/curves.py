"""The shares and the queries that L09's figures are drawn over."""

from __future__ import annotations

from typing import Final

from slackwater.scenarios.papers.l09.passes import LENGTHS

SHARES: Final = (0.1, 0.2, 0.3, 0.4, 0.5)
SHARES_FROM_0: Final = (0.0, *SHARES)


def of_length(length: int) -> str:
    """The name of the query with ``length`` positive steps."""
    return f"length {length}"


BY_LENGTH: Final = tuple(of_length(length) for length in LENGTHS)
