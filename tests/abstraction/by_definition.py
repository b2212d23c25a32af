"""The intervals of all readings at once, by SPEC 4.10's definition: no state, no streaming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Protocol


class AbstractionOptions(Protocol):
    """The settings of a test; docs/devices.md defines each."""

    @property
    def kind(self) -> str: ...
    @property
    def bands(self) -> tuple[str | float, ...]: ...
    @property
    def hysteresis(self) -> float: ...
    @property
    def type(self) -> str: ...
    @property
    def gap_ns(self) -> int: ...
    @property
    def min_ns(self) -> int: ...
    @property
    def max_ns(self) -> int: ...
    @property
    def clock_step_ns(self) -> int: ...


Value = float | str | None
Sample = tuple[int, Value]


@dataclass(frozen=True)
class Piece:
    """An interval without its id; ``begun``: whether its begin is sent, too."""

    ts: int
    te: int
    type: str
    cut: str | None
    readings: int
    begun: bool


def intervals(settings: AbstractionOptions, samples: Sequence[Sample]) -> list[Piece]:
    """Of one thing whose readings were all handed in in time."""
    found = []
    for part, cut in stretches(settings, samples):
        labels = labelled(settings, [value for _, value in part])
        runs = [list(run) for _, run in groupby(range(len(part)), key=lambda i: labels[i])]
        for run, following in [*pairwise(runs), (runs[-1], None)]:
            times = [part[i][0] for i in run]
            end = times[-1] if following is None else part[following[0]][0]
            found += pieces(
                settings, labels[run[0]], times, end, cut if following is None else None
            )
    return found


def stretches(
    settings: AbstractionOptions, samples: Sequence[Sample]
) -> list[tuple[list[Sample], str | None]]:
    """Readings that count, parted where nothing is known between two; and why that is."""
    parts: list[tuple[list[Sample], str | None]] = []
    part: list[Sample] = []
    gap = None if settings.kind == "presence" else "gap"
    for ts, value in samples:
        if not valid(settings, value):
            continue
        if part and 0 < part[-1][0] - ts <= settings.clock_step_ns:
            continue
        if part and ts < part[-1][0]:
            parts.append((part, "clock"))
            part = []
        elif part and settings.gap_ns and ts - part[-1][0] > settings.gap_ns:
            parts.append((part, gap))
            part = []
        part.append((ts, value))
    return [*parts, (part, "eos")] if part else parts


def valid(settings: AbstractionOptions, value: Value) -> bool:
    if settings.kind == "presence":
        return True
    if settings.kind == "states":
        return value is not None
    return isinstance(value, int | float) and value == value


def labelled(settings: AbstractionOptions, values: Sequence[Value]) -> list[str]:
    found: list[str] = []
    for value in values:
        if settings.kind == "presence":
            found.append(settings.type)
        elif settings.kind == "states":
            found.append(settings.type + str(value))
        else:
            assert isinstance(value, int | float)
            held = found[-1] if found else None
            found.append(held if held and holds(settings, held, value) else plain(settings, value))
    return found


def plain(settings: AbstractionOptions, value: float) -> str:
    names, edges = settings.bands[::2], settings.bands[1::2]
    return str(names[sum(float(edge) < value for edge in edges)])


def holds(settings: AbstractionOptions, name: str, value: float) -> bool:
    names, edges = settings.bands[::2], [float(edge) for edge in settings.bands[1::2]]
    place = names.index(name)
    above = place == 0 or value > edges[place - 1] - settings.hysteresis
    below = place == len(edges) or value <= edges[place] + settings.hysteresis
    return above and below


def pieces(
    settings: AbstractionOptions, name: str, times: Sequence[int], end: int, cut: str | None
) -> list[Piece]:
    begin = times[0]
    if end - begin < settings.min_ns:
        return []
    borders = [begin]
    while settings.max_ns and end - borders[-1] > settings.max_ns:
        borders.append(borders[-1] + settings.max_ns)
    borders.append(end)
    found = []
    for place, (low, high) in enumerate(pairwise(borders)):
        inside = [t for t in times if low < t <= high or (place == 0 and t == begin)]
        begun = place > 0 or any(t - begin >= settings.min_ns for t in inside)
        last = place == len(borders) - 2
        found.append(Piece(low, high, name, cut if last else "max", len(inside), begun))
    return found
