"""Treatments as intervals: exams beside one another, and what intensive care has charted."""

from slackwater.scenarios.ward.ward import Ward

__all__ = ["Ward", "scenario"]


def scenario() -> Ward:
    """What ``slackwater run ward`` runs."""
    return Ward()
