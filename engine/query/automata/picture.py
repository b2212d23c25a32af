"""A constraint's automaton for people: in words, as a chart, and as SVG."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

from engine.query.automata.verdicts import (
    OPEN,
    SATISFIABLE,
    START,
    UNSATISFIABLE,
    Automata,
    automata_of,
    excluded,
)
from engine.query.monitor_plan import MonitorPlan
from engine.query.plan import Plan
from engine.query.render import quote, render_predicate, render_regular

# Where the states of an automaton stand in a picture: in layers, with few crossings.
#
# Source: Sugiyama, Tagawa, Toda: Methods for visual understanding of hierarchical system structures
# (1981): layers by longest path once ways back are left out, ways over several layers by way of
# places in between, and each layer sorted by the middle of its neighbours.


Node = int
"""A state, or below 0: a place that a long way passes."""
Way = tuple[Node, Node]
_SWEEPS: Final = 12


@dataclass(frozen=True, slots=True)
class Layers:
    """Attributes:
    rows: of each layer its nodes from left to right.
    routes: of each way ahead the nodes it passes, both ends among them.
    back: ways that lead to a layer that is not further down.
    """

    rows: list[list[Node]]
    routes: dict[Way, list[Node]]
    back: list[Way]


def layers_of(start: Node, ways: Collection[Way]) -> Layers:
    """Of the nodes that ``ways`` lead to from ``start``; a way to its own node is left out."""
    ahead: dict[Node, list[Node]] = {}
    for one, other in ways:
        if one != other:
            ahead.setdefault(one, []).append(other)
    finished, back = _walked(start, ahead)
    depth = dict.fromkeys(finished, 0)
    for node in reversed(finished):
        for other in ahead.get(node, ()):
            if (node, other) not in back:
                depth[other] = max(depth[other], depth[node] + 1)
    rows: list[list[Node]] = [[] for _ in range(max(depth.values()) + 1)]
    for node in reversed(finished):
        rows[depth[node]].append(node)
    routes: dict[Way, list[Node]] = {}
    between = 0
    for node in reversed(finished):
        for other in ahead.get(node, ()):
            if (node, other) in back:
                continue
            route = [node]
            for layer in range(depth[node] + 1, depth[other]):
                between -= 1
                rows[layer].append(between)
                route.append(between)
            routes[node, other] = [*route, other]
    _sort(rows, list(routes.values()))
    return Layers(rows, routes, sorted(back))


def _walked(start: Node, ahead: Mapping[Node, Sequence[Node]]) -> tuple[list[Node], set[Way]]:
    """Nodes in the order in which a depth-first walk leaves them, and the ways back it finds."""
    left: list[Node] = []
    back: set[Way] = set()
    entered, under_way = {start}, {start}
    stack = [(start, iter(ahead.get(start, ())))]
    while stack:
        node, others = stack[-1]
        for other in others:
            if other in under_way:
                back.add((node, other))
            elif other not in entered:
                entered.add(other)
                under_way.add(other)
                stack.append((other, iter(ahead.get(other, ()))))
                break
        else:
            stack.pop()
            under_way.discard(node)
            left.append(node)
    return left, back


def _sort(rows: list[list[Node]], routes: Sequence[Sequence[Node]]) -> None:
    """Sorts each layer by the mean place of the neighbours above it, then below it, and again."""
    above: dict[Node, list[Node]] = {}
    below: dict[Node, list[Node]] = {}
    for route in routes:
        for one, other in pairwise(route):
            below.setdefault(one, []).append(other)
            above.setdefault(other, []).append(one)
    for sweep in range(_SWEEPS):
        near, order = (above, rows[1:]) if sweep % 2 == 0 else (below, rows[-2::-1])
        place = {node: at for row in rows for at, node in enumerate(row)}
        for row in order:
            mean = {
                node: sum(place[other] for other in near[node]) / len(near[node])
                if node in near
                else place[node]
                for node in row
            }
            row.sort(key=mean.__getitem__)
            place.update((node, at) for at, node in enumerate(row))


# A constraint's automaton for people: what it knows of a pattern, in words and as a chart.


_STATIC: Final = {
    OPEN: "open: it depends on the trace",
    SATISFIABLE: "every trace that keeps to the constraint has a match, whatever happens in it",
    UNSATISFIABLE: "no trace that keeps to the constraint has a match, whatever happens in it",
}
_CLASS: Final = {OPEN: "open", SATISFIABLE: "alert", UNSATISFIABLE: "cleared"}
_DRAWN: Final = 60
"""States; larger charts show nobody anything."""


def monitor_sections(plan: MonitorPlan) -> Iterator[tuple[str, list[str]]]:
    """(label, lines) of EXPLAIN.

    Raises:
        UserError: the constraint and the pattern make no automaton.
    """
    automata = automata_of(plan)
    yield "constraint", [f"{quote(plan.constraint)}: {render_regular(plan.expression)}"]
    types = ", ".join(automata.alphabet.types)
    yield "trace", [f"the events with one value of {plan.trace.name}, of types {types} alone"]
    guards = [
        f"{event_type} {number}: {render_predicate(guard)}"
        for event_type, found in automata.alphabet.guards().items()
        for number, guard in enumerate(found, 1)
    ]
    if guards:
        yield "conditions", guards
    sizes = automata.constraint.size, automata.pattern.size, len(automata.encoded.table)
    yield "automata", ["{} states of the constraint, {} of the pattern, {} of both".format(*sizes)]
    lines = [line for each in excluded(plan) for line in each.splitlines()]
    yield "beforehand", [_STATIC[automata.encoded.static], *lines]
    told = "cleared, once no match can come; violation, for an event that the constraint excludes"
    if plan.by_types:
        told = "alert, once a match is certain; " + told
    else:
        told += ". No alert: WITHIN or a condition between steps may still fail"
    yield "told", [told]
    if len(automata.encoded.table) <= _DRAWN:
        yield "", []
        yield "chart", list(mermaid(automata))


def mermaid(automata: Automata) -> Iterator[str]:
    """The states that a trace may be in, and the events that lead on, as a Mermaid state diagram.

    Broken traces are one state, ``violation``; events that change nothing are left out.
    """
    both, names = automata.encoded, automata.alphabet.names
    yield "stateDiagram-v2"
    yield f"[*] --> s{START}"
    for state, row in enumerate(both.table.tolist()):
        if both.broken[state]:
            continue
        ways: dict[str, list[str]] = {}
        for name, ahead in zip(names, row, strict=True):
            if ahead != state:
                to = "violation" if both.broken[ahead] else f"s{ahead}"
                ways.setdefault(to, []).append(name)
        for to, by in ways.items():
            yield f"s{state} --> {to}: {' '.join(by)}"
        yield f"s{state}: {_CLASS[int(both.verdict[state])]}"


# A constraint's automaton as SVG, drawn without another program.
#
# Boxes are what a trace has been so far, with what is certain of the pattern there; a second frame:
# the trace may end. Events lead down; those that the constraint does not allow, and those that
# change nothing, are left out.


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
            f'class="way" stroke="#ffffff" stroke-width="4" paint-order="stroke">'
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
