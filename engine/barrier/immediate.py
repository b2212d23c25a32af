"""``immediate``: every match is a result at once (SPEC 4.2; L09 IV calls it aggressive)."""

from __future__ import annotations

from typing import Any

from engine.operator import Result
from engine.pattern.matches import Match


class Immediate:
    """Holds nothing; ``at`` is the release of the row that completed the match.

    Args:
        query: named in results.
        site: named in results.
    """

    def __init__(self, query: str, site: str) -> None:
        self._query = query
        self._site = site

    def process(self, matches: list[Match]) -> list[Result]:
        return [
            {
                "op": "+",
                "query": self._query,
                "site": self._site,
                "at": match.completed_at,
                "known_at": match.known_at,
                "certainty": "confirmed" if match.confirmed else "uncertain",
                "probability": match.probability,
                "events": match.events,
            }
            for match in matches
        ]

    def finish(self, at: int) -> list[Result]:  # noqa: ARG002 - nothing is held
        return []

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        assert not state
