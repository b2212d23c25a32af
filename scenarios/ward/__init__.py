"""Treatments as intervals: exams beside one another, and charts of intensive care."""

from slackwater.scenarios.ward.ward import Ward

__all__ = ["Ward", "scenario"]


def scenario() -> Ward:
    """What ``slackwater run ward`` runs."""
    return Ward()
