"""The contract of a barrier: it decides when a match becomes a result (SPEC 4.2)."""

from __future__ import annotations

from typing import Any, Protocol

from engine.operator import Result
from engine.pattern.matches import Match


class Barrier(Protocol):
    """Stands between a matcher and the output; knows nothing of how matches are found."""

    def process(self, matches: list[Match]) -> list[Result]:
        """Matches in the order in which they were completed; gives the results let go."""

    def finish(self, at: int) -> list[Result]:
        """End of the input at arrival-clock instant ``at``: everything held is decided."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot of a barrier with equal settings."""
