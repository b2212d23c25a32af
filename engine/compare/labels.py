"""Places labels beside the points of a figure, so that none covers another or a point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

_LETTER_PX: Final = 7.2
_LINE_PX: Final = 17.0
_POINT_PX: Final = 6.0
_DISTANCES_PX: Final = (20.0, 36.0, 54.0, 76.0, 100.0, 130.0, 165.0)
_DIRECTIONS: Final = ((0, -1), (-1, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (1, 1), (0, 1))
"""Up first (y grows downwards), then aside, then down."""


class Box(NamedTuple):
    """A rectangle in pixels from the upper left corner of the plot."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: Box) -> bool:
        """Whether they overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def place_labels(
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    occupied: Iterable[tuple[float, float]],
    size: tuple[float, float],
) -> list[tuple[int, int]]:
    """How far the middle of each label stands from its point, (right, down) [px].

    Greedy, in the order of the points; a label that finds no free place keeps the first one.

    Args:
        points: of the labels, in pixels from the upper left corner of the plot.
        texts: of the labels.
        occupied: further points that labels should not cover.
        size: width and height of the plot.
    """
    whole = Box(0, 0, *size)
    taken = [_around(x, y, _POINT_PX, _POINT_PX) for x, y in [*points, *occupied]]
    offsets = []
    for (x, y), text in zip(points, texts, strict=True):
        half = (len(text) * _LETTER_PX / 2, _LINE_PX / 2)
        places = list(_places(half))
        boxes = [_around(x + right, y + down, *half) for right, down in places]
        free = (
            number
            for number, box in enumerate(boxes)
            if _within(box, whole) and not any(box.covers(other) for other in taken)
        )
        chosen = next(free, 0)
        taken.append(boxes[chosen])
        offsets.append((round(places[chosen][0]), round(places[chosen][1])))
    return offsets


def _places(half: tuple[float, float]) -> Iterator[tuple[float, float]]:
    """Middles of a label around its point, near ones first."""
    for distance, (right, down) in product(_DISTANCES_PX, _DIRECTIONS):
        yield right * (half[0] + distance), down * distance


def _around(x: float, y: float, half_width: float, half_height: float) -> Box:
    return Box(x - half_width, y - half_height, x + half_width, y + half_height)


def _within(box: Box, whole: Box) -> bool:
    return (
        box.left >= whole.left
        and box.top >= whole.top
        and box.right <= whole.right
        and box.bottom <= whole.bottom
    )
