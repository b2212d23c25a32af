"""Whether queries are answered: what the page, the metrics and ``/readyz`` say of the engine."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class AnswersState:
    """Of one server.

    ``running``: the engine is at work, or there are no queries; False: nobody answers, for now.
    ``failed``: queries that are set aside at a site (``engine.results.failed_queries``).
    """

    running: bool = True
    failed: list[dict[str, str]] = field(default_factory=list)
