"""A plot of memory and open files over time as one SVG, which any browser and viewer shows.

Two panels above each other share the time axis; each process is a line with its name at its end,
moved apart where names would cover one another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from bench.soak.watched import ProcessWatch

WIDTH, HEIGHT = 900, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 150, 30, 30
POINTS_MAX = 600
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
NAME_HEIGHT = 14


def plot(watched: Sequence[ProcessWatch], title: str) -> str:
    """The text of the file."""
    seen = [each for each in watched if each.at]
    panels: list[tuple[str, Callable[[ProcessWatch], Sequence[float]]]] = [
        ("resident memory [MB]", lambda each: [kb / 1024 for kb in each.kb]),
        ("open files", lambda each: each.files),
    ]
    height = len(panels) * HEIGHT
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, (name, values) in enumerate(panels):
        head = f"{title}: {name}" if number == 0 else name
        parts += [f'<g transform="translate(0 {number * HEIGHT})">']
        parts += [f'<text x="{LEFT}" y="18" font-weight="bold">{escape(head)}</text>']
        parts += _panel([(each.name, each.at, values(each)) for each in seen])
        parts += ["</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(lines: Sequence[tuple[str, Sequence[float], Sequence[float]]]) -> list[str]:
    """Axes from 0 on, and a line with its name for each (name, seconds, values)."""
    ends = max((at[-1] for _, at, _ in lines), default=1.0) or 1.0
    most = max((max(values) for _, _, values in lines), default=1.0)
    step = _step(most)
    top = step * math.ceil(most / step)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    x = lambda at: LEFT + wide * at / ends  # noqa: E731
    y = lambda value: TOP + high * (1 - value / top)  # noqa: E731
    parts = []
    for tick in range(round(top / step) + 1):
        at = y(tick * step)
        parts += [
            f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>',
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick * step:g}</text>',
        ]
    seconds = _step(ends)
    for tick in range(int(ends / seconds) + 1):
        parts += [
            (
                f'<text x="{x(tick * seconds):.1f}" y="{HEIGHT - 10}" text-anchor="middle">'
                f"{tick * seconds:g} s</text>"
            )
        ]
    below = -math.inf
    ranked = sorted(enumerate(lines), key=lambda line: y(line[1][2][-1]))
    for number, (name, at, values) in ranked:
        colour = COLOURS[number % len(COLOURS)]
        every = max(1, len(at) // POINTS_MAX)
        points = zip(at[::every], values[::every], strict=True)
        path = " ".join(f"{x(when):.1f},{y(value):.1f}" for when, value in points)
        below = max(y(values[-1]) + 4, below + NAME_HEIGHT)
        parts += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
            (
                f'<text x="{LEFT + wide + 8}" y="{below:.1f}" fill="{colour}">'
                f"{escape(name)} {values[-1]:.0f}</text>"
            ),
        ]
    return parts


def _step(most: float) -> float:
    """A round number; 3 to 8 of it make up ``most``."""
    least = max(most, 1e-9) / 8
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * of for of in (1, 2, 5, 10) if power * of >= least)
