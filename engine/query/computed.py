"""The values that RETURN computes from whole matches, on columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.query.expression import View, join_value
from engine.query.plan import SeqPlan
from engine.query.values import Value
from engine.stream.released import Strings


def computed_values(plan: SeqPlan, views: Mapping[str, View], n: int) -> dict[str, Value]:
    """What ``plan.computed`` asks of n matches.

    Args:
        plan: the plan, or a branch of an OR.
        views: by alias of the steps, the columns of the events that the matches have there; row i
            of each belongs to match i, arrays have the shape (n,). Of a negated step: ``absent``.
        n: the number of matches.

    Returns:
        One entry per label, in written order. ``data`` and ``valid`` (None: all are) have the
        shape (n,), except of kind null, where data is None and no match has a value. Kind str:
        codes of the views' string table. Truth values are ints, 0 and 1; times are in ns.

    Raises:
        ContractViolation: ``views`` lacks an alias.
    """
    found: dict[str, Value] = {}
    for one in plan.computed:
        value = join_value(one.expression, views)
        data, valid = value.data, value.valid
        if value.kind == "float" and not bool(np.isfinite(data).all()):
            # JSON has no sign for what left the floats' range, and nobody a use for it.
            valid = np.isfinite(data) if valid is None else valid & np.isfinite(data)
        if value.kind != "null":
            data = np.broadcast_to(data, (n,))
            valid = None if valid is None else np.broadcast_to(valid, (n,))
        found[one.label] = Value(value.kind, data, valid)
    return found


def python_values(value: Value, n: int, strings: Strings) -> list[Any]:
    """``value`` of n matches as int, float, str or None, as a result's record shows it."""
    if value.kind == "null":
        return [None] * n
    data = value.data.tolist()
    if value.kind == "str":
        data = [strings.text(code) for code in data]
    if value.valid is None:
        return list(data)
    return [x if known else None for x, known in zip(data, value.valid.tolist(), strict=True)]
