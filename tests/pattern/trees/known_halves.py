"""What stands of a tree while halves of intervals are known (Z10 5.2, 5.3.2), by definition."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tests.pattern.trees.definition import (
    Absent,
    Bounds,
    Node,
    Record,
    Span,
    Tree,
    choices,
    holds,
    names_in,
)

Key = tuple[str, str, int]
KnownHalves = dict[Key, tuple[int | None, int | None]]


def known_after(records: Sequence[Record]) -> KnownHalves:
    """Of each interval what is known of its start and its end."""
    found: KnownHalves = {}
    for record in records:
        key = record.source, record.type, record.id
        start, end = found.get(key, (None, None))
        if record.half != "end":
            start = record.start
        if record.half != "start":
            end = record.end
        found[key] = start, end
    return found


def standing(tree: Tree, records: Sequence[Record]) -> set[tuple[Key, ...]]:
    """The matches of what is known: each order holds whatever is not known, and WITHIN is not
    broken by what is.
    """
    known, far = known_after(records), float("inf")
    spans = {}
    for key, (start, end) in known.items():
        low = Bounds(-far, end or 0) if start is None else Bounds(start, start)
        high = Bounds(start or 0, far) if end is None else Bounds(end, end)
        spans[key] = Span(low, high)
    return {match for node in choices(tree.node) for match in _of(node, tree.within, known, spans)}


def _of(
    node: Node, within: int, known: KnownHalves, spans: dict[Key, Span]
) -> Iterator[tuple[Key, ...]]:  # fmt: skip
    names = names_in(node)
    of_type = [[key for key in known if key[1] == name[0].upper()] for name in names]
    for chosen in itertools.product(*of_type):
        if len(set(chosen)) < len(chosen):
            continue
        absent: list[Absent] = []
        of = {name: spans[key] for name, key in zip(names, chosen, strict=True)}
        if holds(node, of, absent) is None:
            continue
        points = [point for key in chosen for point in known[key] if point is not None]
        if max(points) - min(points) > within:
            continue
        starts = [known[key][0] for key in chosen]
        reaching = any(after is None or before is None for _, after, before in absent)
        if reaching and None in starts:
            continue  # how far WITHIN reaches is not known
        if not any(
            key[1] == name[0].upper() and start is not None and key not in chosen
            and _lies(start, after, before, within, [s for s in starts if s is not None])
            for name, after, before in absent for key, (start, _) in known.items()
        ):  # fmt: skip
            yield chosen


def _lies(
    start: int, after: Bounds | None, before: Bounds | None, within: int, starts: Sequence[int]
) -> bool:
    """Whether what begins at ``start`` lies between the two; see ``definition.Absent``."""
    here = Bounds(start, start)
    below = max(starts) - within <= start if after is None else after < here
    return below and (start <= min(starts) + within if before is None else here < before)
