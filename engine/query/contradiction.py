"""Finds conditions that exclude each other: ``x > 5 AND x < 3``, ``x = 'a' AND x = 'b'``.

Looks at comparisons of one attribute with constants, joined by AND. What it finds is certain;
what it does not find may still be contradictory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.query.plan import Attribute, Comparison, Constant, Membership, Predicate

Value = int | float | str | bool
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(slots=True)
class _Range:
    """What is left for one attribute: bounds (value, inclusive) and allowed values."""

    low: tuple[Value, bool] | None = None
    high: tuple[Value, bool] | None = None
    allowed: tuple[Value, ...] | None = None
    excluded: set[Value] = field(default_factory=set)
    text: bool | None = None

    def add(self, op: str, values: tuple[Value, ...]) -> None:
        value = values[0]
        if op == "!=":
            self.excluded.add(value)
        elif op == "=":
            keep = values if self.allowed is None else self.allowed
            self.allowed = tuple(kept for kept in keep if kept in values)
        elif op in {">", ">="}:
            self.low = _tighter(self.low, (value, op == ">="), upper=False)
        else:
            self.high = _tighter(self.high, (value, op == "<="), upper=True)

    def empty(self) -> bool:
        if self.allowed is not None:
            return not any(self._inside(value) for value in self.allowed)
        if self.low is None or self.high is None:
            return False
        low, high = self.low[0], self.high[0]
        if _less(high, low):
            return True
        return low == high and not (self.low[1] and self.high[1] and low not in self.excluded)

    def _inside(self, value: Value) -> bool:
        if value in self.excluded:
            return False
        if self.low and (_less(value, self.low[0]) or (value == self.low[0] and not self.low[1])):
            return False
        high = self.high
        return not high or _less(value, high[0]) or (value == high[0] and high[1])


def _less(left: Value, right: Value) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str) and left < right
    return left < right


def _tighter(
    old: tuple[Value, bool] | None, new: tuple[Value, bool], *, upper: bool
) -> tuple[Value, bool]:
    if old is None:
        return new
    if old[0] == new[0]:
        return (new[0], old[1] and new[1])
    return new if _less(new[0], old[0]) == upper else old


class Bounds:
    """What the conjuncts seen so far leave for each attribute."""

    def __init__(self) -> None:
        self._ranges: dict[Attribute, _Range] = {}

    def add(self, predicate: Predicate) -> str:
        """Takes one more conjunct; gives why nothing is left, or the empty string."""
        match predicate:
            case Comparison(op=op, left=Attribute() as name, right=Constant(value=value)):
                return self._narrow(name, op, (value,))
            case Comparison(op=op, left=Constant(value=value), right=Attribute() as name):
                return self._narrow(name, _MIRRORED.get(op, op), (value,))
            case Membership(item=Attribute() as name, options=options):
                return self._narrow(name, "=", tuple(option.value for option in options))
            case _:
                return ""

    def _narrow(self, attribute: Attribute, op: str, values: tuple[Value, ...]) -> str:
        left = self._ranges.setdefault(attribute, _Range())
        text = isinstance(values[0], str)
        name = f"{attribute.alias}.{attribute.name}" if attribute.alias else attribute.name
        if left.text not in {None, text}:
            return f"{name} is compared with text here and with a number elsewhere"
        left.text = text
        left.add(op, values)
        return f"an earlier condition on {name} excludes it" if left.empty() else ""
