"""Evenings of forgetful people: dinner, washing, and medicine that is not taken before sleep."""

from slackwater.scenarios.elder_care.elder_care import ElderCare

__all__ = ["ElderCare", "scenario"]


def scenario() -> ElderCare:
    """What ``slackwater run elder-care`` runs."""
    return ElderCare()
