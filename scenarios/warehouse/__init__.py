"""A cold store: times when it was too warm, and the pallets that stood there throughout."""

from slackwater.scenarios.warehouse.warehouse import Warehouse

__all__ = ["Warehouse", "scenario"]


def scenario() -> Warehouse:
    """What ``slackwater run warehouse`` runs."""
    return Warehouse()
