"""Where the states of an automaton stand in a picture: in layers, with few crossings.

Source: Sugiyama, Tagawa, Toda: Methods for visual understanding of hierarchical system structures
(1981): layers by longest path once ways back are left out, ways over several layers by way of
places in between, and each layer sorted by the middle of its neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

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
