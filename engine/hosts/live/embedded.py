"""Chains inside one process, over a log that grows: milliseconds from durable to answered."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX, Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings, ChunksOf
from slackwater.engine.hosts.chain.identity import identity_of
from slackwater.engine.hosts.chain.site_chain import SNAPSHOT_VERSION, failed_parts
from slackwater.engine.hosts.chain.state_bytes import StateDamagedError
from slackwater.engine.log.arrival_log import frames_after
from slackwater.engine.log.log_folder import retired
from slackwater.engine.log.record.record_rules import attribute_types
from slackwater.engine.log.whole_file import load, save
from slackwater.engine.operators.match.spill.chunks import (
    ChunksApart,
    ChunksGone,
    FileChunks,
    folder_of,
)
from slackwater.engine.output.durability import AGAIN, AnswersDamaged, EngineProgress
from slackwater.engine.output.run_writer import LiveAnswers, OutputPart, skipped
from slackwater.engine.query import check_attributes
from slackwater.engine.query.plan import Plan
from slackwater.engine.query.results_as_events import attributes_of_log

# Attributes that queries name and no event has had so far; chains check those that are there.


class AttributeWatch:
    """Notes the attributes of events until it has seen all that plans name.

    Args:
        settings: with the plans.
        known: types of attributes seen before, as in ``known`` of an earlier watch.
    """

    def __init__(self, settings: ChainSettings, known: dict[str, str]) -> None:
        self._plans = settings.plans
        self._named = frozenset(settings.looked_at).union(*map(attributes_of_log, self._plans))
        self.known = known

    @property
    def is_open(self) -> bool:
        """Whether something has not been seen."""
        return not self._named <= self.known.keys()

    def see(self, frames: Iterable[Frame]) -> None:
        """Frames that come next."""
        if not self.is_open:
            return
        for frame in frames:
            for column, kind in attribute_types(frame.batch).items():
                if column.startswith(ATTR_PREFIX):
                    name = column.removeprefix(ATTR_PREFIX)
                    self.known.setdefault(name, kind)

    def missing(self) -> list[str]:
        """What a plan names and no event has had, in words, a line for each plan."""
        return [line for plan in self._plans if (line := _missing(plan, self.known))]


class LogWatch:
    """An ``AttributeWatch`` that looks at the log's files itself, as on Spark no frame comes by.

    Args:
        settings: with the plans.
        log: the arrival log.
        state: file in which it keeps what it has seen.
        done: number of the log's last file that was looked at before.
    """

    def __init__(self, settings: ChainSettings, log: Path, state: Path, done: int) -> None:
        known = load(state) if done else {}
        self._log = log
        self._state = state
        self._saw_all = known is not None
        self._watch = AttributeWatch(settings, dict(known or {}))

    def see(self, done: int, number: int) -> None:
        """Files behind ``done`` up to ``number`` come next; looked at while there is something to
        be found.

        Raises:
            OSError: a file cannot be read, or what was seen not be kept.
        """
        if not self._watch.is_open:
            return
        before = dict(self._watch.known)
        files = frames_after(self._log, max(done, retired(self._log).upto), number)
        for frames, _ in takewhile(lambda _: self._watch.is_open, files):
            self._watch.see(frames)
        if self._watch.known != before:
            save(self._state, self._watch.known)

    def missing(self) -> list[str]:
        """As of ``AttributeWatch``; nothing where a part of the log was never looked at."""
        return self._watch.missing() if self._saw_all else []


def _missing(plan: Plan, known: dict[str, str]) -> str:
    if attributes_of_log(plan) <= known.keys():
        return ""
    try:
        check_attributes(plan, known)
    except UserError as error:
        return f"query {plan.name}: {str(error).splitlines()[0]}"
    return ""


# Chains inside one process, over a log that grows: milliseconds from durable to answered.
#
# What is read of the log, and in which order, is all that the answers depend on. Now and then the
# state is saved: the chains, which file of the log was read last, how far the answers are. After a
# kill the engine goes on from there, and what it makes again it finds written (``AnswerLines``).


_ROWS_AT_ONCE: Final = 1 << 16
_SHARE: Final = 20
"""Saving may take a part in so many of the time."""
_VERSION: Final = (3, SNAPSHOT_VERSION)
Tell = Callable[[str], None]
OpenAnswers = Callable[[dict[str, Any]], LiveAnswers]
"""From what ``LiveAnswers.state`` gave (empty: nothing) to the answers that go on with it."""


@dataclass(frozen=True, slots=True)
class EnginePlace:
    """Where an engine works: the log, its own file of state, how often that is saved.

    ``begin``: number of the log's last file that it does not read. ``files_at_once``: so many it
    reads before it is another engine's turn; None: there is no other.
    """

    log: Path
    state: Path
    save_every_s: float
    begin: int = 0
    files_at_once: int | None = None

    @property
    def chunks(self) -> Path:
        """Folder of spilled events."""
        return self.state.with_name(f"{self.state.name}.chunks")


class EmbeddedEngine:
    """The chains of every site.

    Attributes:
        done: number of the log's file that was read last.
        saved: the same, in the state that was saved last: a restart needs what follows.
    """

    def __init__(
        self, place: EnginePlace, settings: ChainSettings, open_answers: OpenAnswers, tell: Tell
    ) -> None:
        """Goes on where the state says, or begins."""
        self._place = place
        self._settings = settings
        self._progress = EngineProgress(place.state, place.log, identity_of(settings), _VERSION)
        self._tell = tell
        self._chains: dict[str, Chain] = {}
        self._stores: dict[str, dict[str, FileChunks]] = {}
        self._snapshots: dict[str, bytes] = {}
        self._changed: set[str] = set()
        self.done = self.saved = 0
        self._answers = self._opened(open_answers)
        self._saved_at = time.monotonic()
        self._saving_s = 0.0
        self._caught_up = False
        if self.done > self.saved:  # else a restart would see answers, and not where they begin
            self.save()

    def _opened(self, open_answers: OpenAnswers) -> LiveAnswers:
        state = self._progress.load(self._tell)
        if state is not None:
            try:
                return self._gone_on(state, open_answers)
            except (AnswersDamaged, ChunksGone, StateDamagedError) as damaged:
                self._tell(f"{damaged}: {AGAIN}")
        answers = open_answers({})  # may be refused: then all stays
        shutil.rmtree(self._place.chunks, ignore_errors=True)
        self._chains.clear()
        self._snapshots.clear()
        self._watch = AttributeWatch(self._settings, {})
        self.done = skipped(self._place.log, self._place.begin, self._tell)
        return answers

    def _gone_on(self, state: dict[str, Any], open_answers: OpenAnswers) -> LiveAnswers:
        for site, snapshot in state["chains"].items():
            chunks = self._chunks(site)
            try:
                self._chains[site] = Chain.restored(self._settings, site, snapshot, chunks)
            except StateDamagedError as damaged:
                raise StateDamagedError(
                    f"{self._place.state}: the state of site {site!r} {damaged}"
                ) from damaged
        answers = open_answers(state["answers"])
        self._snapshots = dict(state["chains"])
        self._watch = AttributeWatch(self._settings, dict(state["attributes"]))
        self.done = self.saved = state["done"]
        return answers

    def _chunks(self, site: str) -> ChunksOf | None:
        """Where the site's spilled events are: in files beside the state, until it ends."""
        if self._settings.spill is None:
            return None
        root = self._place.chunks
        stores = {
            plan.name: FileChunks(folder_of(root, site, plan.name), root)
            for plan in self._settings.plans
        }
        self._stores[site] = stores
        return stores.__getitem__

    def _apart(self, site: str) -> ChunksOf | None:
        """The same, to be read alone."""
        stores = self._stores.get(site)
        return None if stores is None else lambda query: ChunksApart(stores[query])

    def upto(self, number: int) -> None:
        """Takes the log's files up to that number, or as many as it may take at once.

        Raises:
            UserError: a damaged file.
        """
        self.done = skipped(self._place.log, self.done, self._tell)
        most = self._place.files_at_once
        end = number if most is None else min(number, self.done + most)
        for frames, done in self._batches(end):
            self._process(frames)
            self.done = done
            self._save_if_due()
        if not self._caught_up and self.done >= number:
            self._caught_up = True
            self._answers.caught_up()
            for line in self._watch.missing():
                self._tell(f"warning: {line}, so far")

    def idle(self) -> None:
        """Nothing came for a while."""
        self._answers.idle()
        self._save_if_due()

    def close(self) -> None:
        """Writes what waits for its file and what the log's end would give; keeps the state.

        Raises:
            OSError: the state cannot be kept; the one saved before holds.
        """
        self.save()
        end: list[OutputPart] = []
        for site in sorted(self._snapshots):
            # The chain itself stays as before its end: the log goes on.
            snapshot, chunks = self._snapshots[site], self._apart(site)
            end += Chain.restored(self._settings, site, snapshot, chunks).end_parts()
        self._answers.close(end)

    def save(self) -> None:
        """Keeps the state; what it names is on disk.

        Raises:
            OSError: it cannot be; the state saved before holds.
        """
        begun = time.monotonic()
        changed = {site: self._chains[site] for site in self._changed}
        for site, chain in changed.items():
            self._snapshots[site] = chain.to_bytes()
            if failures := chain.new_failures():  # for want of memory, say
                self._answers.take(failed_parts(site, failures))
        self._changed.clear()
        self._progress.save(
            self.done,
            attributes=self._watch.known,
            answers=self._answers.state(),
            chains=self._snapshots,
        )
        self.saved = self.done
        self._saved_at = time.monotonic()
        self._saving_s = self._saved_at - begun
        self._answers.saved()

    def _batches(self, number: int) -> Iterator[tuple[list[Frame], int]]:
        """Frames of some files, and the number of the last of these."""
        waiting: list[Frame] = []
        rows = 0
        for found, last in frames_after(self._place.log, self.done, number):
            waiting += found
            rows += sum(frame.rows for frame in found)
            if rows >= _ROWS_AT_ONCE or last >= number:
                yield waiting, last
                waiting, rows = [], 0

    def _process(self, frames: list[Frame]) -> None:
        self._watch.see(frames)
        of_sites: dict[str, list[Frame]] = {}
        for frame in frames:
            of_sites.setdefault(frame.site, []).append(frame)
        for site, of_site in sorted(of_sites.items()):
            if site not in self._chains:
                self._chains[site] = Chain(self._settings, site, self._chunks(site))
            self._changed.add(site)
            for parts in self._chains[site].next_parts(of_site):
                self._answers.take(parts)

    def _save_if_due(self) -> None:
        every = max(self._place.save_every_s, _SHARE * self._saving_s)
        if self._changed and time.monotonic() - self._saved_at >= every:
            with suppress(OSError):  # reported where answers are written; the last state is valid
                self.save()
