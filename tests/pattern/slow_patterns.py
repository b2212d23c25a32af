"""Patterns with SEQ, AND, OR and negation by definition.

For exact clocks and complete input: which combinations of events answer a query in the end,
whatever the barrier. The query is read by ``slow_reader``; then every choice of alternatives, every
combination of distinct events, and the words of SPEC 4.1 on the groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from tests.query.slow_expression import Predicate, slow
from tests.query.slow_reader import Group, Part, ReadQuery, attributes_in, read_query

Match = tuple[tuple[str, int], ...]
"""(alias, row) of each positive step, in written order."""
Times = dict[str, int]
"""By alias, of the steps that are there."""


class EventLike(Protocol):
    """What a test's event has."""

    type: str
    ref: int
    source: str
    attrs: dict[str, Any]


def brute_matches(text: str, events: Sequence[Any]) -> set[Match]:
    """Every match of the query in ``events``, which have ``type ref source attrs``.

    A match holds distinct events, and none of them counts as an instance of a negated step. The
    aliases tell which alternatives a match took.
    """
    query = read_query(text)
    return {m for tree in choices(query.pattern) for m in _of_choice(query, tree, events)}


def rows_of(match: Match) -> tuple[int, ...]:
    """The rows of ``match`` in the order of its steps."""
    return tuple(row for _, row in match)


def choices(part: Part) -> list[Part]:
    """``part`` with each OR replaced by one of its alternatives, in every way."""
    if isinstance(part, str):
        return [part]
    if part.op == "OR":
        return [each for inner in part.parts for each in choices(inner)]
    return [Group(part.op, parts) for parts in itertools.product(*map(choices, part.parts))]


def places(part: Part) -> list[str]:
    return [part] if isinstance(part, str) else [x for inner in part.parts for x in places(inner)]


def _of_choice(query: ReadQuery, tree: Part, events: Sequence[EventLike]) -> Iterator[Match]:
    steps = {alias: query.steps[alias] for alias in places(tree)}
    named = [(each, {str(a.alias) for a in attributes_in(each)}) for each in query.conditions]
    named = [(each, aliases) for each, aliases in named if aliases <= steps.keys()]
    barred = {alias for alias, step in steps.items() if step.negated}
    positive = [alias for alias in steps if alias not in barred]
    rows = {
        alias: [row for row, event in enumerate(events) if event.type in step.types]
        for alias, step in steps.items()
    }

    def holds(mine: list[Predicate], bound: dict[str, int]) -> bool:
        known = {alias: _record(events[row]) for alias, row in bound.items()}
        return all(slow(each, known) for each in mine)

    on_positive = [each for each, aliases in named if not aliases & barred]
    for combination in itertools.product(*(rows[alias] for alias in positive)):
        bound = dict(zip(positive, combination, strict=True))
        times = {alias: events[row].ref for alias, row in bound.items()}
        ends = {a: time + getattr(events[bound[a]], "long", 0) for a, time in times.items()}
        if len(set(combination)) < len(combination) or not ordered(tree, times, ends):
            continue
        if query.within is not None and max(ends.values()) - min(times.values()) > query.within:
            continue
        if not holds(on_positive, bound):
            continue
        free = [row for row in range(len(events)) if row not in combination]
        killed = any(
            row in rows[alias]
            and lies(tree, alias, times, query.within, events[row].ref)
            and holds(
                [each for each, aliases in named if alias in aliases], {**bound, alias: row}
            )
            for alias in barred
            for row in free
        )  # fmt: skip
        if not killed:
            yield tuple(bound.items())


def _record(event: EventLike) -> dict[str, Any]:
    end = event.ref + getattr(event, "long", 0)
    return {**event.attrs, "ts": event.ref, "te": end, "ref": event.ref, "source": event.source,
            "type": event.type}  # fmt: skip


def ordered(part: Part, times: Times, ends: Times) -> bool:
    """Whether the present steps (those in ``times``) stand as ``part`` asks: in a SEQ one ends
    before the next begins (SPEC 4.8); points have one time.
    """
    if isinstance(part, str):
        return True
    if not all(ordered(inner, times, ends) for inner in part.parts):
        return False
    if part.op == "AND":
        return True
    there = [inner for inner in part.parts if _times(inner, times)]
    return all(max(_times(x, ends)) < min(_times(y, times)) for x, y in itertools.pairwise(there))


def _times(part: Part, times: Times) -> list[int]:
    return [times[alias] for alias in places(part) if alias in times]


def lies(part: Part, alias: str, times: Times, within: int | None, ref: int) -> bool:
    """Whether ``ref`` lies where a negated step, somewhere below ``part``, must not occur."""
    assert isinstance(part, Group)
    if alias not in part.parts:
        inner = next(p for p in part.parts if isinstance(p, Group) and alias in places(p))
        return lies(inner, alias, times, within, ref)
    here = part.parts.index(alias)
    earlier = [time for inner in part.parts[:here][::-1] for time in [_times(inner, times)] if time]
    later = [time for inner in part.parts[here:] for time in [_times(inner, times)] if time]
    if earlier:
        after = ref > max(earlier[0])
    else:
        assert within is not None
        after = ref >= max(times.values()) - within
    if later:
        return after and ref < min(later[0])
    assert within is not None
    return after and ref <= min(times.values()) + within
