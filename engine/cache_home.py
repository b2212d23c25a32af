"""Where things are kept that can be made again: compiled kernels, the parser's tables."""

from __future__ import annotations

import os
from pathlib import Path


def cache_home() -> Path:
    """The user's cache directory, or ``SLACKWATER_CACHE``."""
    home = os.environ.get("SLACKWATER_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return Path(home).resolve() if home else Path.home() / ".cache"
