"""``immediate``: every match is a result at once (SPEC 4.2; L09 IV calls it aggressive).

A match that a later event of a negated step invalidates is taken back (``-``); one that such an
event puts in doubt is taken back and given anew with its probability.

When not to use: when acting on a result that is taken back costs more than waiting for a sure one.
"""

from __future__ import annotations

from typing import Any

from engine.barrier.base import Asked, corrections
from engine.barrier.timeline import Timeline
from engine.operator import Result
from engine.pattern.matches import Change


class Immediate:
    """Holds nothing; ``at`` is the release of the row that completed or changed the match.

    Args:
        asked: of the query.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def process(self, changes: list[Change], timeline: Timeline) -> list[Result]:  # noqa: ARG002
        asked = self._asked
        return [made for change in changes for made in corrections(change, asked.query, asked.site)]

    def advance(self, now: int) -> list[Result]:  # noqa: ARG002 - nothing is held
        return []

    def finish(self, at: int) -> list[Result]:  # noqa: ARG002 - nothing is held
        return []

    def counters(self) -> dict[str, int]:
        return {}

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        assert not state
