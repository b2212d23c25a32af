"""Parcels on their way to the shop: losses that a rule makes certain long before they happen."""

from slackwater.scenarios.supply_chain.supply_chain import SupplyChain

__all__ = ["SupplyChain", "scenario"]


def scenario() -> SupplyChain:
    """What ``slackwater run supply-chain`` runs."""
    return SupplyChain()
