"""LoRaWAN devices over public gateways: lost frames, repeats, counters that restart.

Donsez, Alphand: "The Helium LoRaWAN frames dataset", 2023 (hal-04737506); GitHub repository
CampusIoT/datasets, folder Helium, ODbL 1.0.
"""

from slackwater.scenarios.lorawan.lorawan import Lorawan

__all__ = ["Lorawan", "scenario"]


def scenario() -> Lorawan:
    """What ``slackwater run lorawan`` runs."""
    return Lorawan()
