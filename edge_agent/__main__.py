"""Entry point of ``python -m slackwater.edge_agent``, the same as ``slackwater agent``."""

from __future__ import annotations

import sys

from slackwater.edge_agent.command import program

if __name__ == "__main__":
    sys.exit(program())
