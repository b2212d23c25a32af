"""What a report was made with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

_NAMED: Final = ("slackwater", "numpy", "numba", "pyarrow", "pyspark", "plotly")


def versions() -> dict[str, str]:
    """Python's version, ours, and those of the libraries that numbers could depend on."""
    found = {"python": platform.python_version()}
    for name in _NAMED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
