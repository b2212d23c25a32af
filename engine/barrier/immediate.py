"""``immediate``: every match is a result at once (SPEC 4.2; L09 IV calls it aggressive).

A match that a later event of a negated step invalidates is taken back (``-``); one that such an
event puts in doubt is taken back and given anew with its probability.

When not to use: when acting on a result that is taken back costs more than waiting for a sure one.
"""

from __future__ import annotations

from typing import Any

from engine.barrier.base import corrections
from engine.operator import Result
from engine.pattern.matches import Change


class Immediate:
    """Holds nothing; ``at`` is the release of the row that completed or changed the match.

    Args:
        query: named in results.
        site: named in results.
    """

    def __init__(self, query: str, site: str) -> None:
        self._query = query
        self._site = site

    def process(self, changes: list[Change]) -> list[Result]:
        return [made for change in changes for made in corrections(change, self._query, self._site)]

    def finish(self, at: int) -> list[Result]:  # noqa: ARG002 - nothing is held
        return []

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        assert not state
