"""``python -m edge_agent`` is ``slackwater agent``."""

from __future__ import annotations

import sys

from edge_agent.command import program

if __name__ == "__main__":
    sys.exit(program())
