"""What comparisons with constants leave for one value."""

from __future__ import annotations

from msgspec import Struct, field

Value = int | float | str | bool


class Bound(Struct, frozen=True):
    """``value`` itself is allowed if ``inclusive``."""

    value: Value
    inclusive: bool


class Range(Struct):
    """Bounds, the values allowed (None: any) and those excluded; text and numbers never mix."""

    low: Bound | None = None
    high: Bound | None = None
    allowed: tuple[Value, ...] | None = None
    excluded: set[Value] = field(default_factory=set)

    def narrow(self, op: str, constants: tuple[Value, ...]) -> None:
        """Leaves what is ``op`` (one of ``= != < <= > >=``) one of ``constants``."""
        constant = constants[0]
        if op == "!=":
            self.excluded.add(constant)
        elif op == "=":
            keep = constants if self.allowed is None else self.allowed
            self.allowed = tuple(kept for kept in keep if kept in constants)
        elif op in {">", ">="}:
            self.raise_low(Bound(constant, op == ">="))
        elif self.high is None or _less(constant, self.high.value):
            self.high = Bound(constant, op == "<=")
        elif constant == self.high.value:
            self.high = Bound(constant, self.high.inclusive and op == "<=")

    def raise_low(self, low: Bound) -> None:
        """Leaves what is not below ``low``."""
        if self.low is None or _less(self.low.value, low.value):
            self.low = low
        elif low.value == self.low.value:
            self.low = Bound(low.value, self.low.inclusive and low.inclusive)

    def least(self) -> Bound | None:
        """Nothing allowed is below it; None: no such bound is known."""
        inside = [value for value in self.allowed or () if self._inside(value)]
        if not inside:
            excluded = self.low is not None and self.low.value in self.excluded
            return Bound(self.low.value, inclusive=False) if self.low and excluded else self.low
        least = inside[0]
        for value in inside:
            least = value if _less(value, least) else least
        return Bound(least, inclusive=True)

    def empty(self) -> bool:
        if self.allowed is not None:
            return not any(self._inside(value) for value in self.allowed)
        if self.low is None or self.high is None:
            return False
        low, high = self.low.value, self.high.value
        if low == high:
            both = self.low.inclusive and self.high.inclusive
            return not (both and low not in self.excluded)
        return _less(high, low)

    def _inside(self, value: Value) -> bool:
        if value in self.excluded:
            return False
        low, high = self.low, self.high
        if low and (_less(value, low.value) or (value == low.value and not low.inclusive)):
            return False
        return not high or _less(value, high.value) or (value == high.value and high.inclusive)


def _less(left: Value, right: Value) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str) and left < right
    return left < right
