"""Takes answers from their files to a receiver: in order, each at least once, over kills.

The files are the queue: a receiver that is slow, or away, makes its sink lag, and nothing else. A
position is saved in ``ANSWERS/.sinks/NAME.state`` after delivery, so what was delivered last before
a kill may come again, with the same keys. What a receiver refuses for good goes to
``ANSWERS/.sinks/NAME.dead.jsonl``, with the reason.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Protocol

from slackwater.edge_agent.inputs.base import Backoff
from slackwater.engine.log.whole_file import load, save
from slackwater.engine.output.answer_files import SUFFIX
from slackwater.engine.sinks.base import RefusedError, RetryError, SinkItem, SinkSettings
from slackwater.engine.sinks.followed_file import FollowedFile, Position

FOLDER: Final = ".sinks"
QUERY_FILE: Final = "query.json"
"""Says what the answers in its folder are of; it is there before they are."""
HELD_BYTES: Final = 16 << 20
"""So much may wait for ``settle``; the rest is read later, and so waits longer."""
_RUN_DIGITS: Final = 8
_SAVE_S: Final = 0.5
_LOOK_S: Final = 0.1
_SHARE: Final = 20
"""Looking for new answers takes no more than this part of the time."""
_RETRY_SAVE_S: Final = 1.0


@dataclass(slots=True)
class SinkFigures:
    """Of one sink since its process started; ``behind_s``: so long it has not been up to date."""

    name: str
    delivered: int = 0
    retries: int = 0
    dead: int = 0
    behind_bytes: int = 0
    behind_s: float = 0.0
    is_far_behind: bool = False

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def is_wanted(result: dict[str, Any], *, confirmed_only: bool) -> bool:
    """Whether it is to be delivered: a window without a certainty is confirmed if it has no
    ambiguous events. A ``-`` repeats its ``+``, so both get the same answer.
    """
    if not confirmed_only:
        return True
    if "certainty" in result:
        return bool(result["certainty"] == "confirmed")
    return not result.get("ambiguous")


def _jitter(most: int) -> int:
    """Half of the wait at least, so that a receiver that is away is not asked at once."""
    return random.randint(most // 2, most)  # noqa: S311 - no secret


class Stopping(Protocol):
    """A ``threading.Event``, or what is used as one."""

    def is_set(self) -> bool:
        """Whether to end when all that is there is delivered."""

    def wait(self, seconds: float) -> bool:
        """Waits so long, or until it is set; whether it is."""


class Forwarder:
    """One sink.

    Args:
        settings: of the sink.
        answers: folder of the answers.
        queries: names of the folders in it that are followed.
        tell: takes a line for people.
        clock: in seconds.
        dead: file of what is refused; None: beside the answers.
    """

    def __init__(
        self, settings: SinkSettings, answers: Path, queries: Collection[str],
        tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic,
        dead: Path | None = None,
    ) -> None:  # fmt: skip
        self.figures = SinkFigures(settings.name)
        self._settings = settings
        self._answers = answers
        self._queries = settings.queries or tuple(queries)
        self._say = tell
        self._clock = clock
        first, most = (round(wait * 1e9) for wait in settings.retry_s)
        self._backoff = Backoff(first, most, _jitter)
        self._state = answers / FOLDER / f"{settings.name}.state"
        self._dead = dead or answers / FOLDER / f"{settings.name}.dead.jsonl"
        self._positions: dict[tuple[str, str], Position] = {}
        self._runs: dict[str, tuple[tuple[int, int, int], str]] = {}
        self._files: dict[tuple[str, str], FollowedFile] = {}
        self._forgotten = False
        """Whether it is not known which of the lines that are there were sent."""
        self._is_unsaved = False
        self._saved_at = self._current_at = clock()
        self.waits = ""
        """Why nothing is delivered; empty: nothing has failed lately."""
        self._load()

    def run(self, stopping: Stopping) -> None:
        """Delivers what comes until ``stopping``, and then what is there."""
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
        """The next results to deliver; empty: none for now."""
        self._look()
        now, room = self._clock(), self._settings.batch
        found: list[tuple[FollowedFile, SinkItem]] = []
        held = sum(file.held for file in self._files.values())
        # What was read goes first, so that little is held.
        for file in sorted(self._files.values(), key=lambda file: not file.waits):
            is_due = bool(self._settings.settle_s) or not file.waits
            if is_due and file.has_unread and held < HELD_BYTES:
                held -= file.held
                file.read(now)
                held += file.held
            while len(found) < room and (line := file.next_line(now)) is not None:
                found.append((file, line.item))
        return found

    # --- where it is

    def _look(self) -> None:
        """Looks for files of answers and how large they are."""
        for query in self._queries:
            run = self._run_of(query)
            if run is None:
                continue
            with os.scandir(self._answers / query) as entries:
                for entry in entries:
                    if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                        self._file(query, entry.name, run).size = entry.stat().st_size
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
            content = blake2b(path.read_bytes(), digest_size=_RUN_DIGITS // 2).hexdigest()
            known = self._runs[query] = mark, content
        return known[1]

    def _file(self, query: str, name: str, run: str) -> FollowedFile:
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
        if self._forgotten and self._settings.settle_s:
            with path.open("rb") as stream:
                position.released = sum(1 for _ in stream)
        file = self._files[key] = FollowedFile(
            path, query, position, self._settings.settle_s, self._wanted, self._tell
        )
        return file

    def _wanted(self, result: dict[str, Any]) -> bool:
        return is_wanted(result, confirmed_only=self._settings.confirmed_only)

    def _load(self) -> None:
        self._state.parent.mkdir(parents=True, exist_ok=True)
        known = load(self._state)
        if known is None and self._state.exists():
            self._forgotten = True
            self._tell(f"{self._state} is damaged: all answers are sent again, with their keys")
        has_settled, positions = known or (True, ())
        self._forgotten = self._forgotten or not has_settled
        for query, name, state in positions:
            self._positions[query, name] = Position.of_state(state)

    def _save(self, stopping: Stopping) -> bool:
        """Keeps where it is; tries again on a full disk. False: it was stopped before."""

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
        """Returns when all are delivered or dead; False: it was stopped before."""
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
        for file in files:
            file.done()
        self._is_unsaved = True
        due = self._clock() - self._saved_at >= _SAVE_S
        return self._save(stopping) if due else True

    def _taken(
        self, items: Sequence[SinkItem], stopping: Stopping
    ) -> Iterator[Sequence[SinkItem]]:  # fmt: skip
        """Those that the receiver has taken, some at a time; an empty one: it was stopped."""
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
                self._wait_for(str(error))
                left.append(some)
                wait = max(self._backoff.next_ns() / 1e9, error.after_s)
                if stopping.wait(wait):
                    yield ()
                    return
                continue
            self._backoff.reset()
            if self.waits:
                self.waits = ""
                self._tell("delivers again")
            yield some

    def _bury(self, item: SinkItem, why: str, stopping: Stopping) -> bool:
        """Keeps what the receiver refuses; False: it was stopped before."""
        line = json.dumps({"reason": why}).encode()[:-1] + b", " + item.json()[1:] + b"\n"

        def written() -> None:
            with self._dead.open("ab") as stream:
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())

        if not self._patiently(written, stopping):
            return False
        self.figures.dead += 1
        if self.figures.dead & (self.figures.dead - 1) == 0:  # 1, 2, 4, 8 ... of them
            self._tell(f"{self.figures.dead} results refused, kept in {self._dead}: {why}")
        return True

    def _wait_for(self, why: str) -> None:
        """Says once why nothing is delivered."""
        if why != self.waits:
            self.waits = why
            self._tell(f"waits, and tries again: {why}")

    def _tell(self, line: str) -> None:
        self._say(f"sink {self._settings.name}: {line}")
