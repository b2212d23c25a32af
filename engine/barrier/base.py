"""The contract of a barrier: it decides when a match becomes a result (SPEC 4.2).

Adding one: a file with its policy (``engine.barrier.holding``) and a line in the registry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from engine.barrier.timeline import Timeline
from engine.operator import Result
from engine.pattern.matches import Change, Match


@dataclass(frozen=True, slots=True)
class Asked:
    """What a barrier knows of the query: types of the negated steps, in step order, and of the
    positive ones.
    """

    query: str
    site: str
    negated: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()


class Barrier(Protocol):
    """Stands between a matcher and the output; knows nothing of how matches are found."""

    def process(self, changes: list[Change], timeline: Timeline) -> list[Result]:
        """What a batch's rows do to matches, in order, and its clocks; gives the results let go."""

    def advance(self, now: int) -> list[Result]:
        """The arrival clock has come to ``now``: gives what was due before it."""

    def finish(self, at: int) -> list[Result]:
        """End of the input at arrival-clock instant ``at``: everything held is decided."""

    def counters(self) -> dict[str, int]:
        """What is held, and what went wrong; for reports."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot of a barrier with equal settings."""


def result(op: str, match: Match, at: int, query: str, site: str) -> Result:
    """``match`` inserted (``+``) or taken back (``-``) at ``at``, with attributes of its own."""
    return {
        "op": op,
        "query": query,
        "site": site,
        "at": at,
        "known_at": match.known_at,
        "certainty": "confirmed" if match.confirmed else "uncertain",
        "probability": match.probability,
        "events": match.events,
    }


def corrections(change: Change, query: str, site: str) -> list[Result]:
    """``change`` as seen by one who was given the match as it stood."""
    found = []
    if change.before is not None:
        found.append(result("-", change.before, change.at, query, site))
    if change.after is not None:
        found.append(result("+", change.after, change.at, query, site))
    return found
