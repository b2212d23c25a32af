"""Loads the commands; light itself, as it says what is missing on a device."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence


def load() -> Callable[[Sequence[str]], int]:
    """What does as a command line says, and gives the exit code.

    Raises:
        ModuleNotFoundError: a package is missing.
    """
    gc.disable()  # until modules are loaded: they are no garbage, and looking takes 0.3 s
    # NumPy's BLAS would start a thread per core: 60 ms, and no command multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from slackwater.engine.cli.app import run  # noqa: PLC0415 - a device has no typer

    return run


def doctor(words: Sequence[str]) -> int | None:
    """``slackwater doctor`` where the base alone is installed; None: other words than its own."""
    if words not in (["doctor"], ["doctor", "--json"]):
        return None
    from slackwater.engine.cli.doctor import checks, report  # noqa: PLC0415 - rarely asked for

    return report(checks(), sys.stdout, as_json="--json" in words)
