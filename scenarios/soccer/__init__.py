"""Two squads of players and a ball, R19's soccer setting (R19 5.1, 5.2.3), with known truth."""

from slackwater.scenarios.soccer.soccer import Soccer

__all__ = ["Soccer", "scenario"]


def scenario() -> Soccer:
    """What ``slackwater run soccer`` runs."""
    return Soccer()
