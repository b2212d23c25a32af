"""A constraint's automaton as SVG, drawn without another program.

Boxes are what a trace has been so far, with what is certain of the pattern there; a second frame:
the trace may end. Events lead down; those that the constraint does not allow, and those that
change nothing, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Final

from engine.query.automata.compiled import Automata, automata_of
from engine.query.automata.layers import Layers, layers_of
from engine.query.automata.verdicts import OPEN, SATISFIABLE, START, UNSATISFIABLE
from engine.query.monitor_plan import MonitorPlan
from engine.query.plan import Plan

MOST: Final = 60
"""States; larger pictures show nobody anything."""
_WORD: Final = {OPEN: "open", SATISFIABLE: "alert", UNSATISFIABLE: "cleared"}
_COLOUR: Final = {OPEN: "#6b7585", SATISFIABLE: "#c23b4e", UNSATISFIABLE: "#23936a"}
_WIDTH, _HEIGHT = 86, 30
_LAYER: Final = 84
_GAP: Final = 18
_CHARACTER: Final = 7
_NAMED: Final = 2
"""Events named on one line of a label."""
_MARGIN: Final = 14


def pictures(plans: Iterable[Plan]) -> Iterator[tuple[str, str, str]]:
    """(name of the query, of its constraint, SVG) of each pattern under a constraint that is not
    too large.
    """
    for number, plan in enumerate(plans):
        if isinstance(plan, MonitorPlan):
            drawn = picture(automata_of(plan), f"tip-{number}")
            if drawn is not None:
                yield plan.name, plan.constraint, drawn


def picture(automata: Automata, tip: str = "tip") -> str | None:
    """The SVG text; None: it has too many states.

    Args:
        automata: of a plan.
        tip: what the page that shows it may call the arrows' tips, if it shows several.
    """
    both, names = automata.encoded, automata.alphabet.names
    ways: dict[tuple[int, int], list[str]] = {}
    for state, row in enumerate(both.table.tolist()):
        for name, to in zip(names, row, strict=True):
            if to != state and not (both.broken[state] or both.broken[to]):
                ways.setdefault((state, to), []).append(name)
    found = layers_of(START, ways)
    if sum(node >= 0 for row in found.rows for node in row) > MOST:
        return None
    labels = {way: _label(by) for way, by in ways.items()}
    place, width = _places(found, labels)
    loops = _MARGIN + (_GAP * (len(found.back) + 1) if found.back else 0)
    size = width + loops, _LAYER * (len(found.rows) - 1) + _HEIGHT + 2 * _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]:g} {size[1]:g}" '
        f'width="{size[0]:g}" role="img" aria-label="automaton" font-size="12" '
        'font-family="system-ui, sans-serif" fill="none">'
        f'<defs><marker id="{tip}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#8a93a1"/></marker></defs>'
    )
    parts = [head, *_lines(found, place, labels, ways, width, tip)]
    for state, (x, y) in place.items():
        if state >= 0:
            verdict = int(both.verdict[state])
            parts += _box(x, y, state, verdict, whole=bool(both.complete[state]))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _label(names: Sequence[str]) -> list[str]:
    """Its lines."""
    lines = [", ".join(names[at : at + _NAMED]) for at in range(0, len(names), _NAMED)]
    return lines if len(lines) <= _NAMED else [*lines[:1], f"and {len(names) - _NAMED} others"]


def _places(
    found: Layers, labels: dict[tuple[int, int], list[str]]
) -> tuple[dict[int, tuple[float, float]], float]:
    """The middle of each node, and how wide all is."""
    room = {node: float(_WIDTH if node >= 0 else 0) for row in found.rows for node in row}
    for way, route in found.routes.items():
        wanted = _CHARACTER * max(map(len, labels[way]))
        room[route[1]] = max(room[route[1]], float(wanted))
    widths = [sum(room[node] + _GAP for node in row) for row in found.rows]
    place = {}
    for layer, row in enumerate(found.rows):
        x = _MARGIN + (max(widths) - widths[layer]) / 2
        for node in row:
            place[node] = (x + room[node] / 2, float(_MARGIN + _HEIGHT / 2 + layer * _LAYER))
            x += room[node] + _GAP
    return place, max(widths) + _MARGIN


def _lines(
    found: Layers, place: dict[int, tuple[float, float]],
    labels: dict[tuple[int, int], list[str]], ways: dict[tuple[int, int], list[str]], width: float,
    tip: str,
) -> Iterator[str]:  # fmt: skip
    texts: list[str] = []
    for way, route in found.routes.items():
        path = ""
        for one, other in pairwise(route):
            (x, y), (to_x, to_y) = place[one], place[other]
            y, to_y = y + _HEIGHT / 2 * (one >= 0), to_y - _HEIGHT / 2 * (other >= 0)
            bend = (to_y - y) / 2
            path += f"M{x:g} {y:g}C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}"
        yield _line(path, ways[way], tip)
        (x, y), (to_x, to_y) = place[route[0]], place[route[1]]
        # Nearer to the end that fewer ways share, so that labels stand apart.
        crowd = sum(each[0] == way[0] for each in ways), sum(each[1] == way[1] for each in ways)
        along, down = (0.68, 0.58) if crowd[0] >= crowd[1] else (0.3, 0.42)
        texts += _text(x + (to_x - x) * along, y + (to_y - y) * down, labels[way])
    for at, (one, other) in enumerate(found.back):
        (x, y), (to_x, to_y) = place[one], place[other]
        side = width + _GAP * (at + 0.5)
        path = (
            f"M{x + _WIDTH / 2:g} {y:g}C{side:g} {y:g} {side:g} {y:g} {side:g} {(y + to_y) / 2:g}"
            f"S{side:g} {to_y:g} {to_x + _WIDTH / 2:g} {to_y:g}"
        )
        yield _line(path, ways[one, other], tip)
        texts += _text(x + _WIDTH / 2 + _GAP, y - 4, labels[one, other], "start")
    yield from texts


def _line(path: str, names: Sequence[str], tip: str) -> str:
    title = escape(", ".join(names))
    return (
        f'<path d="{path}" stroke="#8a93a1" stroke-width="1.3" marker-end="url(#{tip})">'
        f"<title>{title}</title></path>"
    )


def _text(x: float, y: float, lines: Sequence[str], anchor: str = "middle") -> Iterator[str]:
    for at, line in enumerate(lines):
        low = y + 13 * (at - (len(lines) - 1) / 2) + 4
        yield (
            f'<text x="{x:g}" y="{low:g}" text-anchor="{anchor}" fill="currentColor" '
            f'stroke="var(--card, #ffffff)" stroke-width="4" paint-order="stroke">'
            f"{escape(line)}</text>"
        )


def _box(x: float, y: float, state: int, verdict: int, *, whole: bool) -> Iterator[str]:
    colour = _COLOUR[verdict]
    left, top = x - _WIDTH / 2, y - _HEIGHT / 2
    yield (
        f'<rect x="{left:g}" y="{top:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" '
        f'fill="{colour}" stroke="{colour}"/>'
    )
    if whole:
        yield (
            f'<rect x="{left + 3:g}" y="{top + 3:g}" width="{_WIDTH - 6}" height="{_HEIGHT - 6}" '
            'rx="6" stroke="#ffffff"/>'
        )
    yield (
        f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle" fill="#ffffff" font-weight="600">'
        f"{state} {_WORD[verdict]}</text>"
    )
