"""The 5-count representation of some intervals and of how they lie to one another (Z10 Eq 1).

Sorted by start, then by end, each interval after the first is described by its relation to the
span of those before it, and by five counts: how many of these contain it, are finished by it, meet
it, overlap it, and begin with it. The rest lie before it. For intervals that are longer than 0 the
counts say in which order all end points lie: ``end_points`` reads it back.

>>> text = representation({"A": (1, 5), "B": (3, 8), "C": (5, 9)})
>>> text
'(A Overlap [0,0,0,1,0] B) Overlap [0,0,1,1,0] C'
>>> end_points(text)
{'A': (0, 2), 'B': (1, 3), 'C': (2, 4)}

Source: Z10 5.1, Fig 9; the counts are those of Patel, Hsu and Lee (SIGMOD 2008). One that is equal
to another counts as finished by it and as beginning with it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

from engine.errors import UserError

Counts = tuple[int, int, int, int, int]
Interval = tuple[int, int]
_STEP: Final = re.compile(
    r" (?P<word>\w+) ?\[(?P<counts>\d+(?:,\d+){4})\] (?P<name>[^\W\d]\w*)(?P<close>\)?)"
)
_ROOM: Final = 4
_NAME: Final = re.compile(r"[^\W\d]\w*")


def representation(intervals: Mapping[str, Interval]) -> str:
    """The text of ``intervals``, start and end by name.

    Raises:
        UserError: a name that is no word, no intervals, or one of length 0 or less: of a point the
            counts do not say whether it is one.
    """
    if not intervals:
        raise UserError("the 5-count representation is of one interval at least")
    for name, (start, end) in intervals.items():
        if end <= start:
            raise UserError(
                f"interval {name}: [{start}, {end}] is not longer than 0, and the five counts do "
                "not say of a point that it is one"
            )
        if not _NAME.fullmatch(name):
            raise UserError(f"interval {name!r}: its name must be a word")
    ordered = sorted(intervals, key=lambda name: (*intervals[name], name))
    text, before = ordered[0], [intervals[ordered[0]]]
    for name in ordered[1:]:
        mine = intervals[name]
        span = before[0][0], max(end for _, end in before)
        counts = ",".join(map(str, counts_of(before, mine)))
        text = f"({text} {_word(span, mine)} [{counts}] {name})"
        before.append(mine)
    return text.removeprefix("(").removesuffix(")") if len(ordered) > 1 else text


def counts_of(before: Sequence[Interval], mine: Interval) -> Counts:
    """How many of ``before``, which begin no later, [contain, are finished by, meet, overlap, begin
    with] ``mine``.
    """
    start, end = mine
    contain = sum(e > end for _, e in before)
    finished = sum(e == end for _, e in before)
    meet = sum(e == start for _, e in before)
    overlap = sum(s < start < e < end for s, e in before)
    begin = sum(s == start for s, _ in before)
    return contain, finished, meet, overlap, begin


def _word(span: Interval, mine: Interval) -> str:
    """How the ``span`` of the intervals before is related to ``mine``."""
    if span == mine:
        return "Equal"
    if span[1] < mine[0]:
        return "Before"
    if span[1] == mine[0]:
        return "Meet"
    if span[0] == mine[0]:
        return "Start"
    if span[1] == mine[1]:
        return "Finish"
    return "Overlap" if span[1] < mine[1] else "Contain"


def end_points(text: str) -> dict[str, Interval]:
    """The intervals of a representation, their end points numbered from 0 in their order.

    Raises:
        UserError: ``text`` is none, or its counts fit no intervals.
    """
    bare = text.lstrip("(")
    first = _NAME.match(bare)
    if first is None:
        raise _refusal(text, "it begins with an interval's name")
    lines = _Lines(text)
    lines.begin(first.group())
    place = first.end()
    while place < len(bare):
        step = _STEP.match(bare, place)
        if step is None:
            raise _refusal(text, f"{bare[place : place + 20]!r} is no relation with five counts")
        counts = [int(each) for each in step["counts"].split(",")]
        lines.add(step["name"], counts)
        place = step.end()
    found = lines.numbered()
    if representation(found) != text:
        raise _refusal(text, "its counts and relations fit no intervals")
    return found


def _refusal(text: str, why: str) -> UserError:
    return UserError(f"no 5-count representation: {text[:80]!r}: {why}")


class _Lines:
    """Intervals on a line whose points have room between them for a start and an end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._of: dict[str, Interval] = {}

    def begin(self, name: str) -> None:
        self._of[name] = 0, _ROOM

    def add(self, name: str, counts: Sequence[int]) -> None:
        """The next interval: how many ends lie after its own ones says where these lie."""
        contain, finished, meet, _, begin = counts
        if name in self._of:
            raise _refusal(self._text, f"{name} is there twice")
        ends = sorted(end for _, end in self._of.values())
        if sum(counts[:2]) > len(ends):
            raise _refusal(self._text, f"more intervals are counted than lie before {name}")
        last = max(start for start, _ in self._of.values())
        if begin:
            start = last
        else:
            # Those that begin with it are the only ones that it need not begin after.
            over = contain + finished + counts[3]
            if over + bool(meet) > len(ends):
                raise _refusal(self._text, f"more intervals are counted than lie before {name}")
            start = ends[len(ends) - over - 1] if meet else self._between(ends, over, last)
        end = ends[-1 - contain] if finished else self._between(ends, contain, start)
        self._of[name] = start, end
        values = sorted({point for span in self._of.values() for point in span})
        self._of = {
            each: (_ROOM * bisect_left(values, s), _ROOM * bisect_left(values, e))
            for each, (s, e) in self._of.items()
        }

    @staticmethod
    def _between(ends: list[int], above: int, least: int) -> int:
        """A free point with ``above`` of the ``ends`` above it, after ``least``."""
        below = ends[len(ends) - above - 1] if above < len(ends) else least
        return max(below, least) + 1

    def numbered(self) -> dict[str, Interval]:
        return {name: (start // _ROOM, end // _ROOM) for name, (start, end) in self._of.items()}
