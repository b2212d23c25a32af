"""What a site is asked, as texts that a settings file holds and a process is handed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from engine.chain import ChainSettings
from engine.errors import UserError
from engine.order.registry import order_attributes
from engine.passes.asked import asked_of_queries
from engine.query import query
from engine.query.plan import Plan

_READ_QUERIES: Final = ("aq-kslack", "ldop", "kslack-chain")
"""Orders that depend on all queries, so that one more may change the answers of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Queries by name, and how they are answered: the options of ``slackwater query``."""

    queries: tuple[tuple[str, str], ...]
    """(name, text), in their order."""
    order: str = "sequence"
    barrier: str = ""
    """Empty: as each query's REALTIME says."""
    certainty: str = "pairwise"
    purge: str = "late"
    window: str = ""
    """Empty: by default."""
    guard: str = "1s"
    time_unit: str = "ns"

    def plans(self) -> tuple[Plan, ...]:
        """Of the queries.

        Raises:
            UserError: one is at fault; the message has its name, the place and a remedy.
        """
        found = []
        for name, text in self.queries:
            try:
                found.append(query(text, self.time_unit, name))
            except UserError as error:
                raise UserError(f"query {name}: {error}") from error
        return tuple(found)

    def chain_settings(self) -> ChainSettings:
        """Of the chains that answer them.

        Raises:
            UserError: a query or a short form is at fault, or the order cannot serve the queries.
        """
        plans = self.plans()
        settings = asked_of_queries(
            plans, self.time_unit, order=self.order, barrier=self.barrier or None,
            certainty=self.certainty, purge=self.purge, window=self.window or None,
            guard=self.guard,
        )  # fmt: skip
        order_attributes(settings.order, plans)
        return settings

    def of_each(self) -> dict[str, dict[str, Any]]:
        """By name, all that a query's answers depend on beside the log."""
        shared = asdict(self)
        del shared["queries"]
        if self.order.partition(":")[0] in _READ_QUERIES:
            shared["beside"] = [text for _, text in self.queries]
        return {name: {"query": text, **shared} for name, text in self.queries}
