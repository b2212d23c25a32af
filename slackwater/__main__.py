"""Entry point of ``python -m slackwater``, the same as the command ``slackwater``."""

from __future__ import annotations

from slackwater.edge_agent.entry import main

if __name__ == "__main__":
    main()
