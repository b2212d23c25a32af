"""The command ``slackwater``: what it starts is ``edge_agent.entry``, as a device has no engine."""

from slackwater.edge_agent.entry import main

__all__ = ["main"]
