"""One file of answers, as a sink follows it: which lines are next, and how far all is done.

A line waits ``settle`` seconds from when it was read. A ``-`` that comes meanwhile for a ``+`` that
waits cancels it: neither is delivered. What was decided must outlive a kill, or a receiver would
get a ``-`` without its ``+``, or keep a ``+`` whose ``-`` was dropped:

* lines before ``released`` were handed out, perhaps: they are delivered, and cancel nothing;
* lines in ``dropped`` are not delivered.

Both are saved before what they say is delivered.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from slackwater.engine.output.answer_files import SUFFIX
from slackwater.engine.sinks.base import SinkItem, identity_of

CHUNK: Final = 1 << 18
"""Bytes to read at once; more where a line is longer."""


@dataclass(slots=True)
class Position:
    """How far a sink has come in a file. Lines are numbered from 0 on.

    ``run``: ``SinkItem.run``; ``offset``, ``number``: in bytes and lines, of the first line that is
    not done. ``released`` and ``dropped`` (those from ``number`` on): see above.
    """

    run: str
    offset: int = 0
    number: int = 0
    released: int = 0
    dropped: set[int] = field(default_factory=set)

    def state(self) -> tuple[Any, ...]:
        """For a file."""
        return self.run, self.offset, self.number, self.released, sorted(self.dropped)

    @classmethod
    def of_state(cls, state: tuple[Any, ...]) -> Self:
        """Inverse of ``state``."""
        run, offset, number, released, dropped = state
        return cls(run, offset, number, released, set(dropped))


@dataclass(slots=True, eq=False)
class FollowedLine:
    """A line that waits, or is on its way. ``due``: by the clock of ``read``."""

    offset: int
    item: SinkItem
    due: float
    is_dropped: bool = False


class FollowedFile:
    """``QUERY/SITE.jsonl`` from ``position`` on.

    Args:
        path: of the file; it may be absent.
        query: its query.
        position: is kept up to date.
        settle_s: how long a line waits.
        wanted: whether a result is to be delivered.
        tell: takes a line for people.
    """

    def __init__(
        self, path: Path, query: str, position: Position, settle_s: float,
        wanted: Callable[[dict[str, Any]], bool], tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.path = path
        self.position = position
        self.size = 0
        """Bytes in the file when it was last looked at."""
        self._query = query
        self._site = path.name.removesuffix(SUFFIX)
        self._settle_s = settle_s
        self._wanted = wanted
        self._tell = tell
        self._reported = False
        self._offset, self._number = position.offset, position.number
        """Of the next line to read."""
        self._on_the_way: list[FollowedLine] = []
        self._waiting: deque[FollowedLine] = deque()
        self._inserted: dict[str, deque[FollowedLine]] = {}
        """By identity, the ``+`` that wait."""
        self.held = 0
        """Bytes of lines that wait."""

    @property
    def behind(self) -> int:
        """Bytes that are not done."""
        return max(self.size - self.position.offset, 0)

    @property
    def has_unread(self) -> bool:
        """Whether there is more than was read."""
        return self.size > self._offset

    @property
    def waits(self) -> bool:
        """Whether lines wait that were read."""
        return bool(self._waiting)

    def read(self, now: float) -> None:
        """Takes the next lines that are whole, as many as one read gives.

        Raises:
            OSError: it cannot be read.
        """
        try:
            stream = self.path.open("rb")
        except FileNotFoundError:  # moved away; the engine writes it again at its next start
            return
        with stream:
            if not self._follows_a_line(stream.fileno()):
                return
            size = CHUNK
            while True:
                content = os.pread(stream.fileno(), size, self._offset)
                end = content.rfind(b"\n") + 1
                if end or len(content) < size:
                    break
                size *= 2
        for line in content[:end].split(b"\n")[:-1]:
            if not self._take(line, now):
                return

    def next_line(self, now: float) -> FollowedLine | None:
        """The first line whose time has come; it is on its way until ``done``."""
        while self._waiting:
            line = self._waiting[0]
            if not line.is_dropped:
                if line.due > now:
                    return None
                self._leave(line)
                self._on_the_way.append(line)
            self._waiting.popleft()
            self.held -= len(line.item.line)
            if not line.is_dropped:
                return line
        self._move()
        return None

    def release(self) -> bool:
        """What is on its way will not be cancelled; whether this is to be saved first."""
        if not self._settle_s or not self._on_the_way:
            return False
        self.position.released = max(self.position.released, self._on_the_way[-1].item.number + 1)
        return True

    def done(self) -> None:
        """All that was on its way is delivered, or a dead letter."""
        self._on_the_way.clear()
        self._move()

    # --- inside

    def _take(self, line: bytes, now: float) -> bool:
        number = self._number
        try:
            result = json.loads(line)
            item = SinkItem(
                self._query, self.position.run, self._site, number, identity_of(result), line,
                result,
            )  # fmt: skip
        except (ValueError, AttributeError) as error:
            if not self._reported:
                self._tell(
                    f"{self.path}: line {number + 1} is damaged ({error}): its sinks wait; the "
                    "engine repairs it when it starts"
                )
                self._reported = True
            return False
        if number not in self.position.dropped and self._wanted(result):
            is_free = number >= self.position.released
            due = now + self._settle_s if is_free and self._settle_s else 0.0
            one = FollowedLine(self._offset, item, due)
            if not (due and self._cancels(one)):
                self._waiting.append(one)
                self.held += len(line)
                if due and result.get("op") == "+":
                    self._inserted.setdefault(item.identity, deque()).append(one)
        self._offset += len(line) + 1
        self._number += 1
        return True

    def _cancels(self, line: FollowedLine) -> bool:
        """Drops a ``-`` and the ``+`` that it retracts, if that waits."""
        if line.item.result.get("op") != "-":
            return False
        same = self._inserted.get(line.item.identity)
        if not same:
            return False
        other = same[0]
        self._leave(other)
        other.is_dropped = True
        self.position.dropped |= {other.item.number, line.item.number}
        return True

    def _leave(self, line: FollowedLine) -> None:
        """It can be cancelled no more. Lines leave in their order, for each identity."""
        same = self._inserted.get(line.item.identity)
        if same and same[0] is line:
            same.popleft()
            if not same:
                del self._inserted[line.item.identity]

    def _move(self) -> None:
        """The position goes on to the first line that is not done."""
        while self._waiting and self._waiting[0].is_dropped:
            self.held -= len(self._waiting.popleft().item.line)
        at = self.position
        if first := (self._on_the_way or self._waiting):
            at.offset, at.number = first[0].offset, first[0].item.number
        else:
            at.offset, at.number = self._offset, self._number
        if at.dropped:
            at.dropped = {number for number in at.dropped if number >= at.number}

    def _follows_a_line(self, descriptor: int) -> bool:
        """Whether the next line begins where it should; looks for it after a repair of the file.

        Answers only grow, and what replaces damage has the same lines with the same numbers.
        """
        if self._offset == 0 or os.pread(descriptor, 1, self._offset - 1) == b"\n":
            return True
        if self._on_the_way or os.fstat(descriptor).st_size < self._offset:
            return False
        at, left = 0, self.position.number
        while left:
            content = os.pread(descriptor, CHUNK, at)
            if not content:
                return False
            lines = content.count(b"\n")
            if lines < left:
                at, left = at + len(content), left - lines
                continue
            end = 0
            for _ in range(left):
                end = content.index(b"\n", end) + 1
            at, left = at + end, 0
        self._tell(f"{self.path}: was repaired; what was sent of it is not sent again")
        self._waiting.clear()
        self._inserted.clear()
        self.held = 0
        self.position.offset = self._offset = at
        self._number = self.position.number
        return True
