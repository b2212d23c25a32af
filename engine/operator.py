"""The contract of a query operator, and the results it gives.

An operator is a small class; adding one is one file, one registry line and its tests.
"""

from __future__ import annotations

from typing import Any, Protocol

from engine.released import Released

Result = dict[str, Any]
"""One result with the fields of DESIGN "Results". Times in ns; the writer converts units."""


class Operator(Protocol):
    """Settings -> logic -> state: ``snapshot`` is plain data (dict of numbers, lists, arrays).

    Results must not depend on how the released stream is cut into batches.
    """

    def required_columns(self) -> set[str]:
        """Names of the columns that ``process`` reads, so that others need not be gathered."""

    def process(self, released: Released) -> list[Result]:
        """Called for every batch, in release order; gives the results it makes known."""

    def advance(self, now: int) -> list[Result]:
        """The arrival clock has come to ``now``: gives what was due before it.

        No later row is released before ``now``. Called after ``process``, and when nothing came.
        """

    def finish(self, at: int) -> list[Result]:
        """End of input at arrival-clock instant ``at``: every scope is closed. Called once."""

    def counters(self) -> dict[str, int]:
        """What was dropped, refused or purged, and how much is held; for reports."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data, pickled by the host; must not change afterwards."""

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot of an operator with equal settings."""
