"""Delivers answers from their files to a receiver: in order, each at least once, also over kills.

The files are the queue: a slow or missing receiver delays its own sink only. A position is saved in
``ANSWERS/.sinks/NAME.state`` after delivery, so the last deliveries before a kill may be repeated,
with the same keys. Results that a receiver refuses permanently go to
``ANSWERS/.sinks/NAME.dead.jsonl``, with the reason.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from math import inf
from pathlib import Path
from typing import Any, Final, Protocol, Self

from slackwater.edge_agent.inputs.base import Backoff
from slackwater.engine.log.retention import Limits
from slackwater.engine.log.whole_file import load, save
from slackwater.engine.output.answer_retention import (
    SUFFIX,
    AnswerKeeper,
    Delivered,
    SiteFiles,
    site_files,
    whole_lines,
)
from slackwater.engine.sinks.base import (
    RefusedError,
    RetryError,
    SinkItem,
    SinkSettings,
    identity_of,
)

# One file of answers, as a sink follows it: the next lines, and how far everything is done.
#
# A line waits ``settle`` seconds after it was read. A ``-`` that comes meanwhile cancels its
# waiting ``+``: neither is delivered. These decisions must survive a kill, or a receiver would get
# a ``-`` without its ``+``, or keep a ``+`` whose ``-`` was dropped:
#
# * lines before ``released`` may have been passed on: they are delivered, and cancel nothing;
# * lines in ``dropped`` are not delivered.
#
# Both are saved before the deliveries that depend on them.


CHUNK: Final = 1 << 18
"""Bytes per read; more if a line is longer."""


@dataclass(slots=True)
class Position:
    """Position of a sink in a file. Lines are numbered from 0.

    ``run``: ``SinkItem.run``; ``offset``, ``number``: position in bytes and lines of the first line
    that is not done. ``released`` and ``dropped`` (lines from ``number`` on): see above.
    """

    run: str
    offset: int = 0
    number: int = 0
    released: int = 0
    dropped: set[int] = field(default_factory=set)

    def state(self) -> tuple[Any, ...]:
        """The position as plain data, for a file."""
        return self.run, self.offset, self.number, self.released, sorted(self.dropped)

    @classmethod
    def of_state(cls, state: tuple[Any, ...]) -> Self:
        """Inverse of ``state``."""
        run, offset, number, released, dropped = state
        return cls(run, offset, number, released, set(dropped))


@dataclass(slots=True, eq=False)
class FollowedLine:
    """A line that waits or is being delivered. ``due``: by the clock of ``read``."""

    offset: int
    item: SinkItem
    due: float
    is_dropped: bool = False


class FollowedFile:
    """``QUERY/SITE.jsonl`` and the closed files before it, from ``position`` on.

    Args:
        path: the open file; it may be missing.
        query: name of its query.
        position: updated here.
        settle_s: how long a line waits.
        selects: whether a result must be delivered.
        tell: takes a line for people.
    """

    def __init__(
        self, path: Path, query: str, position: Position, settle_s: float,
        selects: Callable[[dict[str, Any]], bool], tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.path = path
        self.position = position
        self.files = SiteFiles(path.parent, path.name)
        """The files at the last check."""
        self._query = query
        self._site = path.name.removesuffix(SUFFIX)
        self._settle_s = settle_s
        self._selects = selects
        self._tell = tell
        self._reported = False
        self._offset, self._number = position.offset, position.number
        """Position of the next line to read."""
        self._on_the_way: list[FollowedLine] = []
        self._waiting: deque[FollowedLine] = deque()
        self._inserted: dict[str, deque[FollowedLine]] = {}
        """Waiting ``+`` lines by identity."""
        self.waiting_bytes = 0
        """Bytes of lines that wait."""

    @property
    def behind(self) -> int:
        """Bytes that are not done."""
        return max(self.files.end - self.position.offset, 0)

    @property
    def has_unread(self) -> bool:
        """Whether there are unread lines."""
        return self.files.end > self._offset

    @property
    def waits(self) -> bool:
        """Whether lines wait that were read."""
        return bool(self._waiting)

    def read(self, now: float) -> None:
        """Read the next complete lines, as many as one read returns.

        Raises:
            OSError: the file cannot be read.
        """
        opened = self.files.open_at(self._offset)
        if opened is None:  # the engine rewrites a missing file at its next start
            return
        stream, begin = opened
        with stream:
            if begin > self._offset:
                self._skip_to(begin)
            if not self._follows_a_line(stream.fileno(), begin):
                return
            size = CHUNK
            while True:
                content = os.pread(stream.fileno(), size, self._offset - begin)
                end = content.rfind(b"\n") + 1
                if end or len(content) < size:
                    break
                size *= 2
        for line in content[:end].split(b"\n")[:-1]:
            if not self._take(line, now):
                return

    def next_line(self, now: float) -> FollowedLine | None:
        """The first line that is due; it counts as being delivered until ``done``."""
        while self._waiting:
            line = self._waiting[0]
            if not line.is_dropped:
                if line.due > now:
                    return None
                self._leave(line)
                self._on_the_way.append(line)
            self._waiting.popleft()
            self.waiting_bytes -= len(line.item.line)
            if not line.is_dropped:
                return line
        self._move()
        return None

    def release(self) -> bool:
        """Protect lines in delivery from cancelling; return whether this must be saved first."""
        if not self._settle_s or not self._on_the_way:
            return False
        self.position.released = max(self.position.released, self._on_the_way[-1].item.number + 1)
        return True

    def done(self) -> None:
        """Mark all lines in delivery as done: delivered, or dead letters."""
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
        if number not in self.position.dropped and self._selects(result):
            is_free = number >= self.position.released
            due = now + self._settle_s if is_free and self._settle_s else 0.0
            one = FollowedLine(self._offset, item, due)
            if not (due and self._cancels(one)):
                self._waiting.append(one)
                self.waiting_bytes += len(line)
                if due and result.get("op") == "+":
                    self._inserted.setdefault(item.identity, deque()).append(one)
        self._offset += len(line) + 1
        self._number += 1
        return True

    def _cancels(self, line: FollowedLine) -> bool:
        """Drop a ``-`` and the ``+`` that it retracts, if that is waiting."""
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
        """Remove a line from those that can be cancelled, in order per identity."""
        same = self._inserted.get(line.item.identity)
        if same and same[0] is line:
            same.popleft()
            if not same:
                del self._inserted[line.item.identity]

    def _move(self) -> None:
        """Advance the position to the first line that is not done."""
        while self._waiting and self._waiting[0].is_dropped:
            self.waiting_bytes -= len(self._waiting.popleft().item.line)
        at = self.position
        if first := (self._on_the_way or self._waiting):
            at.offset, at.number = first[0].offset, first[0].item.number
        else:
            at.offset, at.number = self._offset, self._number
        if at.dropped:
            at.dropped = {number for number in at.dropped if number >= at.number}

    def _skip_to(self, begin: int) -> None:
        """Continue after lines that were removed."""
        number = self.files.lines_before(begin)
        self._tell(
            f"{self.path}: its answers {self._number:,} to {number - 1:,} were removed, as "
            "[answers] says, before they were sent"
        )
        self._offset, self._number = begin, number

    def _follows_a_line(self, descriptor: int, begin: int) -> bool:
        """Whether the next line begins where expected in the file that begins at byte ``begin``; if
        not, search for it after a repair of the file.

        Answers only grow, and a repair keeps lines and their numbers.
        """
        at = self._offset - begin
        if at == 0 or os.pread(descriptor, 1, at - 1) == b"\n":
            return True
        if self._on_the_way or os.fstat(descriptor).st_size < at:
            return False
        at, left = begin, self.position.number - self.files.lines_before(begin)
        if left < 0:  # it is in an earlier file, which is unchanged
            at = self.position.offset
        while left > 0:
            content = os.pread(descriptor, CHUNK, at - begin)
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
        self.waiting_bytes = 0
        self.position.offset = self._offset = at
        self._number = self.position.number
        return True


# Delivers answers from their files to a receiver: in order, each at least once, also over kills.


FOLDER: Final = ".sinks"
QUERY_FILE: Final = "query.json"
"""Describes the answers in its folder; written before them."""
HELD_BYTES: Final = 16 << 20
"""Bytes that may wait for ``settle``; further lines are read later, and so wait longer."""
_RUN_DIGITS: Final = 8
_SAVE_S: Final = 0.5
_LOOK_S: Final = 0.1
_SHARE: Final = 20
"""Checks for new answers take at most 1/20 of the time."""
_RETRY_SAVE_S: Final = 1.0


@dataclass(slots=True)
class SinkFigures:
    """Figures of one sink since its process started; ``behind_s``: how long it has had a backlog.

    ``delivered_at``: last delivery [s since 1970]; None: none yet. ``waits``: why nothing is
    delivered; empty: no recent failure. ``last_error``: the last of these reasons, also when it is
    over.
    """

    name: str
    delivered: int = 0
    retries: int = 0
    dead: int = 0
    behind_bytes: int = 0
    behind_s: float = 0.0
    is_far_behind: bool = False
    delivered_at: float | None = None
    waits: str = ""
    last_error: str = ""
    kind: str = ""


def is_wanted(result: dict[str, Any], *, confirmed_only: bool) -> bool:
    """Whether a result must be delivered. A window without a certainty is confirmed if it has no
    ambiguous events. A ``-`` repeats its ``+``, so both get the same answer.
    """
    if not confirmed_only:
        return True
    if "certainty" in result:
        return bool(result["certainty"] == "confirmed")
    return not result.get("ambiguous")


def _jitter(most: int) -> int:
    """A random wait of at least half of ``most``, so that a missing receiver is not flooded."""
    return random.randint(most // 2, most)  # noqa: S311 - no secret


def _run_in(path: Path) -> str:
    """``SinkItem.run`` from the content of a ``QUERY_FILE``."""
    return blake2b(path.read_bytes(), digest_size=_RUN_DIGITS // 2).hexdigest()


def _state_file(answers: Path, sink: str) -> Path:
    return answers / FOLDER / f"{sink}.state"


def _positions_in(state: tuple[Any, ...]) -> dict[tuple[str, str], Position]:
    return {(query, name): Position.of_state(one) for query, name, one in state}


def delivered_by(answers: Path, sinks: Mapping[str, Collection[str]]) -> Delivered:
    """How far sinks have delivered, from their saved states.

    Args:
        answers: folder of the answers.
        sinks: by name, the queries that each sink follows.

    Raises:
        OSError: a state cannot be read.
    """
    states = {name: load(_state_file(answers, name)) or (True, ()) for name in sinks}
    positions = {name: _positions_in(state[1]) for name, state in states.items()}
    runs = dict[str, str]()

    def delivered(query: str, name: str) -> float:
        of_query = [sink for sink, queries in sinks.items() if query in queries]
        if of_query and query not in runs:
            runs[query] = _run_in(answers / query / QUERY_FILE)
        found = [positions[sink].get((query, name)) for sink in of_query]
        return min((at.offset if at and at.run == runs[query] else 0 for at in found), default=inf)

    return delivered


def keeper_of(
    answers: Path, queries: Collection[str], limits: Limits, sinks: Mapping[str, Collection[str]],
    tell: Callable[[str], None],
) -> AnswerKeeper:  # fmt: skip
    """The ``AnswerKeeper`` of answers that ``sinks`` deliver."""
    return AnswerKeeper(answers, queries, limits, partial(delivered_by, answers, sinks), tell)


class Stopping(Protocol):
    """Interface of ``threading.Event`` that ``Forwarder.run`` uses."""

    def is_set(self) -> bool:
        """Whether to end once all existing answers are delivered."""

    def wait(self, seconds: float) -> bool:
        """Wait for ``seconds`` or until it is set; return whether it is."""


class Forwarder:
    """One sink.

    Args:
        settings: of the sink.
        answers: folder of the answers.
        queries: names of the folders in it to follow.
        tell: takes a line for people.
        clock: monotonic clock [s].
        dead: file for refused results; None: next to the answers.
    """

    def __init__(
        self, settings: SinkSettings, answers: Path, queries: Collection[str],
        tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic,
        dead: Path | None = None,
    ) -> None:  # fmt: skip
        self.figures = SinkFigures(settings.name, kind=settings.kind)
        self._settings = settings
        self._answers = answers
        self._queries = settings.queries or tuple(queries)
        self._say = tell
        self._clock = clock
        first, most = (round(wait * 1e9) for wait in settings.retry_s)
        self._backoff = Backoff(first, most, _jitter)
        self._state = _state_file(answers, settings.name)
        self._dead = dead or answers / FOLDER / f"{settings.name}.dead.jsonl"
        self._positions: dict[tuple[str, str], Position] = {}
        self._runs: dict[str, tuple[tuple[int, int, int], str]] = {}
        self._files: dict[tuple[str, str], FollowedFile] = {}
        self._forgotten = False
        """Whether it is unknown which existing lines were sent."""
        self._is_unsaved = self._begins_now = settings.begins_now and not self._state.exists()
        self._saved_at = self._current_at = clock()
        self._load()

    def run(self, stopping: Stopping) -> None:
        """Deliver answers until ``stopping``, then the remaining ones."""
        while True:
            begun = self._clock()
            batch = self.take()
            if batch:
                if not self._deliver(batch, stopping):
                    break
            else:
                self._save(stopping)
                if stopping.is_set():
                    break
                stopping.wait(max(_LOOK_S, _SHARE * (self._clock() - begun)))
        self._save(stopping)
        self._settings.receiver.close()

    def take(self) -> list[tuple[FollowedFile, SinkItem]]:
        """The next results to deliver; empty: none at present."""
        self._look()
        self._begins_now = False
        now, room = self._clock(), self._settings.batch
        found: list[tuple[FollowedFile, SinkItem]] = []
        waiting_bytes = sum(file.waiting_bytes for file in self._files.values())
        # Lines that were read go first, so that few are held in memory.
        for file in sorted(self._files.values(), key=lambda file: not file.waits):
            is_due = bool(self._settings.settle_s) or not file.waits
            if is_due and file.has_unread and waiting_bytes < HELD_BYTES:
                waiting_bytes -= file.waiting_bytes
                file.read(now)
                waiting_bytes += file.waiting_bytes
            while len(found) < room and (line := file.next_line(now)) is not None:
                found.append((file, line.item))
        return found

    # --- where it is

    def _look(self) -> None:
        """Find files of answers and their sizes."""
        for query in self._queries:
            run = self._run_of(query)
            if run is None:
                continue
            for name, files in site_files(self._answers / query).items():
                self._file(query, name, run, files).files = files
        behind = sum(file.behind for file in self._files.values())
        figures, now = self.figures, self._clock()
        if not behind:
            self._current_at = now
        figures.behind_bytes, figures.behind_s = behind, now - self._current_at
        far = behind > self._settings.behind_max
        if far and not figures.is_far_behind:
            self._tell(
                f"is {behind:,} bytes of answers behind, more than behind_max: the receiver is "
                "slower than the answers; they stay in their files until it has them"
            )
        figures.is_far_behind = far or (
            figures.is_far_behind and behind > self._settings.behind_max // 2
        )

    def _run_of(self, query: str) -> str | None:
        path = self._answers / query / QUERY_FILE
        try:
            seen = path.stat()
        except FileNotFoundError:
            return None
        mark = (seen.st_mtime_ns, seen.st_size, seen.st_ino)
        known = self._runs.get(query)
        if known is None or known[0] != mark:
            known = self._runs[query] = mark, _run_in(path)
        return known[1]

    def _file(self, query: str, name: str, run: str, files: SiteFiles) -> FollowedFile:
        key = query, name
        file = self._files.get(key)
        if file is not None and file.position.run == run:
            return file
        position = self._positions.get(key)
        if position is None or position.run != run:
            if position is not None:
                self._tell(f"{query}/{name} has answers to something else now: all are sent")
            position = self._positions[key] = Position(run)
        path = self._answers / query / name
        if self._begins_now or (self._forgotten and self._settings.settle_s):
            number, end = whole_lines(path, files.size) if files.size else (0, 0)
            position.released = files.lines_before(files.begin) + number
            if self._begins_now:
                position.number, position.offset = position.released, files.begin + end
        file = self._files[key] = FollowedFile(
            path, query, position, self._settings.settle_s, self._selects, self._tell
        )
        return file

    def _selects(self, result: dict[str, Any]) -> bool:
        return is_wanted(result, confirmed_only=self._settings.confirmed_only)

    def _load(self) -> None:
        self._state.parent.mkdir(parents=True, exist_ok=True)
        known = load(self._state)
        if known is None and self._state.exists():
            self._forgotten = True
            self._tell(f"{self._state} is damaged: all answers are sent again, with their keys")
        has_settled, positions = known or (True, ())
        self._forgotten = self._forgotten or not has_settled
        self._positions = _positions_in(positions)

    def _save(self, stopping: Stopping) -> bool:
        """Save the positions; retry on a full disk. False: it was stopped before."""

        def written() -> None:
            places = self._positions.items()
            states = [(*key, position.state()) for key, position in places]
            save(self._state, (bool(self._settings.settle_s), states))

        if self._is_unsaved and not self._patiently(written, stopping):
            return False
        self._is_unsaved, self._saved_at = False, self._clock()
        return True

    def _patiently(self, write: Callable[[], None], stopping: Stopping) -> bool:
        while True:
            try:
                write()
            except OSError as error:
                self._wait_for(f"{self._state.parent}: {error.strerror}")
                if stopping.wait(_RETRY_SAVE_S):
                    return False
            else:
                return True

    # --- delivery

    def _deliver(self, batch: list[tuple[FollowedFile, SinkItem]], stopping: Stopping) -> bool:
        """Deliver a batch; return when all are delivered or dead. False: it was stopped before."""
        files = dict.fromkeys(file for file, _ in batch)
        released = [file.release() for file in files]
        if any(released):
            self._is_unsaved = True
            if not self._save(stopping):
                return False
        for some in self._taken([item for _, item in batch], stopping):
            if not some:
                return False
            self.figures.delivered += len(some)
            self.figures.delivered_at = time.time()
        for file in files:
            file.done()
        self._is_unsaved = True
        due = self._clock() - self._saved_at >= _SAVE_S
        return self._save(stopping) if due else True

    def _taken(
        self, items: Sequence[SinkItem], stopping: Stopping
    ) -> Iterator[Sequence[SinkItem]]:  # fmt: skip
        """Yield the items that the receiver has taken, in parts; an empty part: it was stopped."""
        left = [items]
        while left:
            some = left.pop()
            try:
                self._settings.receiver.deliver(some)
            except RefusedError as error:
                if len(some) > 1:
                    half = len(some) // 2
                    left += [some[half:], some[:half]]
                elif not self._bury(some[0], str(error), stopping):
                    yield ()
                    return
                continue
            except RetryError as error:
                self.figures.retries += 1
                self._look()  # the backlog grows while the receiver is away
                self._wait_for(str(error))
                left.append(some)
                wait = max(self._backoff.next_ns() / 1e9, error.after_s)
                if stopping.wait(wait):
                    yield ()
                    return
                continue
            self._backoff.reset()
            if self.figures.waits:
                self.figures.waits = ""
                self._tell("delivers again")
            yield some

    def _bury(self, item: SinkItem, why: str, stopping: Stopping) -> bool:
        """Write a refused result to the dead letters; False: it was stopped before."""
        line = json.dumps({"reason": why}).encode()[:-1] + b", " + item.json()[1:] + b"\n"

        def written() -> None:
            with self._dead.open("ab") as stream:
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())

        if not self._patiently(written, stopping):
            return False
        self.figures.dead += 1
        self.figures.last_error = why
        if self.figures.dead & (self.figures.dead - 1) == 0:  # 1, 2, 4, 8 ... of them
            self._tell(f"{self.figures.dead} results refused, kept in {self._dead}: {why}")
        return True

    def _wait_for(self, why: str) -> None:
        """Report once why nothing is delivered."""
        if why != self.figures.waits:
            self.figures.waits = self.figures.last_error = why
            self._tell(f"waits, and tries again: {why}")

    def _tell(self, line: str) -> None:
        """Report one line, without control characters from the receiver."""
        self._say(f"sink {self._settings.name}: {' '.join(line.split())}")
