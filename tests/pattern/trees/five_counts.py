"""Reads Z10's representation by five counts back: the order of all end points that it says."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from slackwater.engine.core.errors import UserError
from slackwater.engine.query.interval_relations import Interval, representation

_STEP: Final = re.compile(
    r" (?P<word>\w+) ?\[(?P<counts>\d+(?:,\d+){4})\] (?P<name>[^\W\d]\w*)(?P<close>\)?)"
)
_ROOM: Final = 4
_NAME: Final = re.compile(r"[^\W\d]\w*")


def end_points(text: str) -> dict[str, Interval]:
    """The intervals of a representation, their end points numbered from 0 in their order.

    >>> text = representation({"A": (1, 5), "B": (3, 8), "C": (5, 9)})
    >>> text
    '(A Overlap [0,0,0,1,0] B) Overlap [0,0,1,1,0] C'
    >>> end_points(text)
    {'A': (0, 2), 'B': (1, 3), 'C': (2, 4)}

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
