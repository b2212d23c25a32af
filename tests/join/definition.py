"""The rows of a join by definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Row = tuple[int | None, int | None]
"""Which events it joins, by their places in the stream; None: no partner."""


class Side(Protocol):
    """What a test's event has."""

    @property
    def ref(self) -> int: ...
    @property
    def stream(self) -> str: ...


@dataclass(frozen=True)
class Definition:
    """``kind``: inner, left, right, full, anti. ``near``: whether two events' times are near
    enough; ``on``: what is asked of them besides; ``sides``: of which stream each side is.
    """

    kind: str
    near: Callable[[int, int], bool]
    on: Callable[[Any, Any], bool]
    where: Callable[[Any], bool] = lambda _event: True
    sides: tuple[str, str] = ("a", "b")

    def rows(self, events: Sequence[Side], times: Sequence[int] | None = None) -> set[Row]:
        """``times``: the true ones; None: the refs."""
        at = [event.ref for event in events] if times is None else times
        left, right = (
            [n for n, event in enumerate(events) if event.stream == side] for side in self.sides
        )
        if self.kind in {"left", "anti"}:
            left = [n for n in left if self.where(events[n])]
        if self.kind == "right":
            right = [n for n in right if self.where(events[n])]
        pairs = {
            (x, y) for x in left for y in right
            if x != y and self.near(at[x], at[y]) and self.on(events[x], events[y])
        }  # fmt: skip
        found: set[Row] = set() if self.kind == "anti" else set(pairs)
        if self.kind in {"left", "full", "anti"}:
            found |= {(x, None) for x in left if all(x != pair[0] for pair in pairs)}
        if self.kind in {"right", "full"}:
            found |= {(None, y) for y in right if all(y != pair[1] for pair in pairs)}
        return found


def within(length: int) -> Callable[[int, int], bool]:
    return lambda x, y: abs(x - y) <= length


def sliding(length: int, every: int) -> Callable[[int, int], bool]:
    """Whether any window from a multiple of ``every`` holds both, by looking at each."""

    def held(x: int, y: int) -> bool:
        near = range(min(x, y) - length - every, max(x, y) + every)
        return any(
            begin % every == 0 and all(begin <= time < begin + length for time in (x, y))
            for begin in near
        )

    return held


def tumbling(length: int) -> Callable[[int, int], bool]:
    return lambda x, y: x // length == y // length
