"""Copies of what windows hold, for snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.kernels.records import copy_of


def copied(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns that share nothing with ``columns``."""
    return {
        name: copy_of(column) if column.dtype.names and name != "of" else column.copy()
        for name, column in columns.items()
    }


def without_floats(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A copy without ``floats``, which are ``ints`` seen otherwise."""
    return copied({name: column for name, column in columns.items() if name != "floats"})


def with_floats(columns: dict[str, np.ndarray], kind: Any) -> dict[str, np.ndarray]:
    """A copy whose integers are seen as floats of ``kind``, too."""
    made = copied(columns)
    return made | {"floats": made["ints"].view(kind)}
