"""Thresholds of a scenario file, as k6 has them: ``recall >= 0.99``, ``missing <= 0.1 %``.

>>> one = read_threshold("theft: detection_delay_p95 <= 2 s", ("theft",))
>>> one.metric, one.query, one.holds(1_500_000_000.0), one.shown(1_500_000_000.0)
('detection_delay_p95', 'theft', True, '1.5 s')
>>> read_threshold("recall >= 99 %", ()).bound
0.99
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scenarios.from_file.metrics import DURATIONS, METRICS, SHARES
from slackwater.scenario import UserError, number, parse_duration

_FORM: Final = re.compile(r"\s*(?:([^\s:]+)\s*:)?\s*(\w+)\s*(<=|>=|<|>|=)\s*(.+?)\s*")
_COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
}  # fmt: skip
_HOW: Final = '"[QUERY:] METRIC <= VALUE", such as "recall >= 0.99"'


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a metric must be. ``bound``: a share, a number, or ns; ``query`` None: each query."""

    text: str
    metric: str
    op: str
    bound: float
    query: str | None

    def holds(self, value: float) -> bool:
        """Whether ``value`` keeps it."""
        return bool(_COMPARED[self.op](value, self.bound))

    @property
    def bound_text(self) -> str:
        """What must hold, as it was written: ``<= 2 s``."""
        return self.text[self.text.index(self.op) :].strip()

    def shown(self, value: float) -> str:
        """``value`` with its unit."""
        return shown(self.metric, value)


def shown(metric: str, value: float) -> str:
    """The value of ``metric`` as a person reads it."""
    if metric in DURATIONS:
        for unit, length in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
            if abs(value) >= length:
                return f"{number(value / length)} {unit}"
        return f"{number(value)} ns"
    return f"{number(100 * value)} %" if metric in SHARES else number(value)


def read_threshold(text: str, queries: Sequence[str]) -> Threshold:
    """One threshold.

    Raises:
        UserError: not of this form, or an unknown metric or query.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise UserError(f"{text!r}: write {_HOW}")
    query, metric, op, bound = found.groups()
    if metric not in METRICS:
        raise UserError(f"unknown metric {metric!r}; known are {', '.join(METRICS)}")
    if query is not None and query not in queries:
        known = ", ".join(queries) or "none"
        raise UserError(f"no query {query!r}; there are {known}")
    return Threshold(text, metric, op, _bound(metric, bound), query)


def _bound(metric: str, text: str) -> float:
    if metric in DURATIONS:
        if text.replace(".", "").isdigit() and float(text):
            raise UserError(f"{text!r}: give a unit, as in {text} s")
        return float(parse_duration(text))
    plain = text.removesuffix("%").strip()
    try:
        value = float(plain)
    except ValueError as error:
        raise UserError(f"{text!r} is not a number, nor a share such as 5 %") from error
    if text.endswith("%"):
        if metric not in SHARES:
            raise UserError(f"{metric} is not a share; give a number")
        value /= 100
    return value
