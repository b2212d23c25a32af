"""What ``slackwater`` says of itself on a device, which has no other command than ``agent``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version


def about(words: Sequence[str]) -> str:
    """The answer to ``--version``; to any other words, the commands that there are."""
    said = f"slackwater {version('slackwater')}\n"
    if "--version" in words:
        return said
    return said + (
        "\n  slackwater agent --config agent.toml   sends a device's events to a gateway\n"
        "  slackwater agent check agent.toml      whether its settings are right\n"
        "  slackwater agent spool ls FOLDER       what waits in an outbox\n"
        "  slackwater agent --help                all of it\n"
        "\nAll other commands: pip install 'slackwater[engine]'\n"
    )
