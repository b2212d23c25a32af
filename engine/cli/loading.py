"""Loads the commands; light itself, as it says what is missing on a device."""

from __future__ import annotations

import gc
import os
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
