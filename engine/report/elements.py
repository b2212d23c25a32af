"""Pieces of HTML: everything that comes from outside is escaped here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from engine.report.figures import Figure
from engine.report.units import number

_NUMBER: Final = ' class="number"'
Cell = str | int | float | None
_QUANTITY: Final = re.compile(r"[<>±+-]? ?[0-9][0-9,.]*( ?%)?( ±.*)?$|\N{EN DASH}$")
"""Cells that stand right: numbers, with thousands apart, a sign, a bound or a percent sign."""


def text(value: object) -> str:
    """``value`` as text that HTML does not read."""
    return escape(str(value), quote=True)


def paragraph(content: str, kind: str = "") -> str:
    """Plain text as a paragraph of class ``kind``."""
    return f'<p class="{text(kind)}">{text(content)}</p>' if kind else f"<p>{text(content)}</p>"


def section(name: str, heading: str, *parts: str) -> str:
    """A section with an anchor; ``parts`` are HTML."""
    body = "\n".join(part for part in parts if part)
    return f'<section id="{text(name)}">\n<h2>{text(heading)}</h2>\n{body}\n</section>'


def table(
    headings: Sequence[str], rows: Iterable[Sequence[Cell]], note: str = "", kind: str = ""
) -> str:
    """A table that scrolls sideways on its own; the first column stays. Numbers stand right."""
    cells = [[_shown(cell) for cell in row] for row in rows]
    right = [
        place > 0 and all(_QUANTITY.match(row[place]) for row in cells)
        for place in range(len(headings))
    ]
    head = "".join(
        f'<th scope="col"{_NUMBER if is_right else ""}>{text(heading)}</th>'
        for heading, is_right in zip(headings, right, strict=True)
    )
    body = "\n".join(f"<tr>{''.join(_cells(row))}</tr>" for row in cells)
    below = paragraph(note, "note") if note else ""
    return (
        f'<div class="scroll" tabindex="0"><table class="{text(kind)}">'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>{below}"
    )


def _shown(cell: Cell) -> str:
    return str(cell) if isinstance(cell, str | bool) else number(cell)


def _cells(row: Sequence[str]) -> Iterable[str]:
    for place, cell in enumerate(row):
        if place == 0:
            yield f'<th scope="row">{text(cell)}</th>'
        else:
            yield f"<td{_NUMBER if _QUANTITY.match(cell) else ''}>{text(cell)}</td>"


def details(summary: str, content: str, shown: bool = False) -> str:
    """Something to open; open at once if ``shown``, and always on paper. ``content`` is HTML."""
    start = "<details open>" if shown else "<details>"
    return f"{start}<summary>{text(summary)}</summary>{content}</details>"


def code(content: str) -> str:
    """A block of program text."""
    return f"<pre>{text(content)}</pre>"


def figure(made: Figure, level: int = 3) -> str:
    """The place of a figure, with its title above and its caption below."""
    return (
        f'<figure><h{level} title="{text(made.title)}">{text(made.title)}</h{level}>'
        f'<div class="plot" id="plot-{text(made.name)}" style="height:{made.height_px}px" '
        f'role="img" aria-label="{text(made.title)}: {text(made.caption)}"></div>'
        f"<figcaption>{text(made.caption)}</figcaption></figure>"
    )
