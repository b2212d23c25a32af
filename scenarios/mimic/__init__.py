"""Intensive-care charting, minutes to weeks late: the MIMIC-IV Clinical Database Demo 2.2.

Johnson et al.: "MIMIC-IV Clinical Database Demo" (version 2.2), PhysioNet; open, ODbL 1.0.
"""

from slackwater.scenarios.mimic.mimic import Mimic

__all__ = ["Mimic", "scenario"]


def scenario() -> Mimic:
    """What ``slackwater run mimic`` runs."""
    return Mimic()
