"""The command ``slackwater``; its entry point is ``edge_agent.entry``, as devices have no
engine.
"""

from slackwater.edge_agent.entry import main

__all__ = ["main"]
