"""Thresholds of a scenario file, as k6 has them: ``recall >= 0.99``, ``missing <= 0.1 %``.

>>> one = read_threshold("theft: detection_delay_p95 <= 2 s", ("theft",))
>>> one.metric, one.query, one.holds(1_500_000_000.0), one.value_text(1_500_000_000.0)
('detection_delay_p95', 'theft', True, '1.5 s')
>>> read_threshold("recall >= 99 %", ()).bound
0.99
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slackwater.scenario import UserError, did_you_mean, number, parse_duration
from slackwater.scenarios.from_file.metrics import DURATIONS, METRICS, OF_STREAM, SHARES

_FORM: Final = re.compile(r"\s*(?:([^:]+?)\s*:)?\s*(\w+)\s*([<>=!~\u2264\u2265\u2260]+)\s*(.+?)\s*")
_COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
}  # fmt: skip
_MEANT: Final = {"=>": ">=", "=<": "<=", "==": "=", "\u2265": ">=", "\u2264": "<="}
_UNITLESS: Final = re.compile(r"(?=.*[1-9])[0-9]+(\.[0-9]+)?")
"""A number other than 0."""
_HOW: Final = '"[QUERY:] METRIC <= VALUE", such as "recall >= 0.99"'


@dataclass(frozen=True, slots=True)
class Threshold:
    """A bound of a metric. ``bound``: a share, a number, or ns; ``query`` None: each query."""

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
        """Operator and bound as in the file: ``<= 2 s``."""
        return self.text[self.text.index(self.op) :].strip()

    def value_text(self, value: float) -> str:
        """``value`` with its unit."""
        return metric_text(self.metric, value)


def metric_text(metric: str, value: float) -> str:
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
    if op not in _COMPARED:
        meant = f'; write "{_MEANT[op]}"' if op in _MEANT else f"; use one of {' '.join(_COMPARED)}"
        raise UserError(f"{text!r}: unknown comparison {op!r}{meant}")
    if metric not in METRICS:
        raise UserError(f"unknown metric {metric!r}{did_you_mean(metric, METRICS)}")
    if query is not None and query not in queries:
        known = did_you_mean(query, queries) if queries else "; there are none"
        raise UserError(f"no query {query!r}{known}")
    if query is not None and metric in OF_STREAM:
        raise UserError(f"{metric} is of all events, not of a query; leave out {query + ':'!r}")
    return Threshold(text, metric, op, _bound(metric, bound), query)


def _bound(metric: str, text: str) -> float:
    if metric in DURATIONS:
        if _UNITLESS.fullmatch(text):
            raise UserError(f"{text!r}: give a unit, as in {text} s")
        return float(parse_duration(text))
    plain = text.removesuffix("%").strip()
    try:
        value = float(plain)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{text!r} is not a number, nor a share such as 5 %")
    if metric not in SHARES:
        if text.endswith("%"):
            raise UserError(f"{metric} is not a share; give a number")
        return value
    if text.endswith("%"):
        value /= 100
    if not 0 <= value <= 1:
        raise UserError(f"{text!r} is not from 0 to 1: {metric} is a share, as in 0.05 or 5 %")
    return value
