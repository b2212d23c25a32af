"""A cold store: when it was too warm, and which pallets stood there all the while."""

from slackwater.scenarios.warehouse.warehouse import Warehouse

__all__ = ["Warehouse", "scenario"]


def scenario() -> Warehouse:
    """What ``slackwater run warehouse`` runs."""
    return Warehouse()
