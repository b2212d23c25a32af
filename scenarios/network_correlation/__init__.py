"""Servers that fail: which failures go back to an attack on the network (L10 5.2.2)."""

from slackwater.scenarios.network_correlation.network_correlation import NetworkCorrelation

__all__ = ["NetworkCorrelation", "scenario"]


def scenario() -> NetworkCorrelation:
    """What ``slackwater run network-correlation`` runs."""
    return NetworkCorrelation()
