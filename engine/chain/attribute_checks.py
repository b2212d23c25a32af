"""Attributes that queries name, checked against those that a site's events turn out to have."""

from __future__ import annotations

from collections.abc import Mapping

from engine.chain.settings import ChainSettings
from engine.errors import UserError
from engine.query import check_attributes
from engine.query.derived_schema import attributes_of_log
from engine.query_failures import QueryFailures


class AttributeChecks:
    """Each query is checked once, as soon as events have had all its attributes.

    A pass over a log that is there checks its queries before it begins; a live engine cannot.
    """

    def __init__(self, settings: ChainSettings, failures: QueryFailures) -> None:
        self._unchecked = dict(enumerate(settings.plans))
        self._by_order = settings.looked_at
        self._failures = failures
        self._seen = -1

    def see(self, types: Mapping[str, str]) -> None:
        """Events have had attributes of these types; a query that cannot be meant for them fails.

        Raises:
            UserError: the order cannot be meant for them.
        """
        if len(types) == self._seen:
            return
        self._seen = len(types)
        for number, plan in list(self._unchecked.items()):
            if attributes_of_log(plan) <= types.keys():
                del self._unchecked[number]
                try:
                    check_attributes(plan, types)
                except UserError as error:
                    self._failures.fail(number, error)
        if self._by_order and self._by_order.keys() <= types.keys():
            from engine.order.served import check_order_attributes  # noqa: PLC0415 - seldom

            check_order_attributes(self._by_order, types)
            self._by_order = {}
