"""Real phones on a public network, with clocks up to 30 s wrong: the OoO-Dataset's UMTS sessions.

Weiss, Exposito Jimenez, Zeiner: "A Dataset and a Comparison of Out-of-Order Event Compensation
Algorithms", IoTBDS 2017; GitHub repository JR-DIGITAL/ooo-dataset, CC BY-SA 4.0.
"""

from slackwater.scenarios.phones.phones import Phones

__all__ = ["Phones", "scenario"]


def scenario() -> Phones:
    """What ``slackwater run phones`` runs."""
    return Phones()
